/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "control/base/notify.h"
#include "control/base/signals.h"
#include "control/site/node.h"

#include <event2/event.h>

#include <errno.h>

static void on_stop(int signo, void *ctx)
{
	(void)signo;
	event_base_loopbreak(ctx);
}

static const struct signals_handler on_signal = { .on_stop = on_stop };

int site_run(const struct site_config *cfg)
{
	struct event_base *base = event_base_new();
	struct signals *signals = NULL;
	struct site_node *node = NULL;
	char err[300] = "out of memory";
	int ret = -ENOMEM;

	if (base != NULL)
		signals = signals_create(base, &on_signal, base);
	if (signals != NULL)
		node = site_node_create(base, cfg, err, sizeof(err));
	if (node == NULL) {
		log_error("site", "cannot start error=%s", err);
		goto out;
	}
	log_info("site", "started site=%s sources=%u tenants=%u", cfg->site, cfg->sources_count,
		cfg->tenants_count);
	notify_send("READY=1");
	ret = event_base_dispatch(base) < 0 ? -EIO : 0;
	notify_send("STOPPING=1");
	log_info("site", "stopped");
out:
	site_node_destroy(node);
	signals_destroy(signals);
	if (base != NULL)
		event_base_free(base);
	return ret;
}
