/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "control/base/notify.h"
#include "control/base/signals.h"
#include "control/site/node.h"
#include "control/site/uplink.h"

#include <event2/event.h>

#include <errno.h>

static void on_stop(int signo, void *ctx)
{
	(void)signo;
	event_base_loopbreak(ctx);
}

static const struct signals_handler on_signal = { .on_stop = on_stop };

/* The connection with the inter-dc master, if there is to be one. */
static int uplink_start(const struct site_config *cfg, struct event_base *base,
	struct site_node *node, struct rpc_tls **tls, struct uplink **uplink, char *err,
	size_t err_len)
{
	if (cfg->master == NULL)
		return 0;
	*tls = site_config_tls(cfg, err, err_len);
	if (*tls == NULL)
		return -EINVAL;
	*uplink = uplink_create(base, *tls, node);
	return *uplink != NULL ? 0 : -ENOMEM;
}

int site_run(const struct site_config *cfg)
{
	struct event_base *base = event_base_new();
	struct signals *signals = NULL;
	struct site_node *node = NULL;
	struct uplink *uplink = NULL;
	struct rpc_tls *tls = NULL;
	char err[300] = "out of memory";
	int ret = -ENOMEM;

	if (base != NULL)
		signals = signals_create(base, &on_signal, base);
	if (signals != NULL)
		node = site_node_create(base, cfg, err, sizeof(err));
	if (node == NULL || uplink_start(cfg, base, node, &tls, &uplink, err, sizeof(err)) < 0) {
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
	uplink_destroy(uplink);
	rpc_tls_destroy(tls);
	site_node_destroy(node);
	signals_destroy(signals);
	if (base != NULL)
		event_base_free(base);
	return ret;
}
