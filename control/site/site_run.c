/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "control/base/notify.h"
#include "control/base/signals.h"
#include "control/site/node.h"
#include "control/site/uplink.h"

#include <event2/event.h>

#include <errno.h>

enum { LEAVE_S = 2 };

struct site {
	struct event_base *base;
	struct rpc_tls *tls;
	const struct site_config *cfg;
	struct uplink *uplink; /* NULL: none */
};

static void left(void *ctx)
{
	event_base_loopbreak(((struct site *)ctx)->base);
}

static void on_stop(int signo, void *ctx)
{
	struct timeval limit = { .tv_sec = LEAVE_S };
	struct site *s = ctx;

	(void)signo;
	event_base_loopexit(s->base, &limit);
	if (s->uplink != NULL)
		uplink_leave(s->uplink, left, s);
	else
		left(s);
}

static void on_reload(void *ctx)
{
	struct site *s = ctx;
	char err[512];

	if (s->tls == NULL)
		return;
	if (rpc_tls_reload(s->tls, err, sizeof(err)) != 0)
		log_error("site", "certificates not reloaded, the old ones stay: %s", err);
	else
		log_info("site", "certificates reloaded");
}

static const struct signals_handler on_signal = { on_stop, on_reload };

static struct rpc_conn *master_connect(void *ctx, const struct rpc_handler *h, void *h_ctx)
{
	struct site *s = ctx;

	return rpc_connect(s->base, s->tls, s->cfg->master, "master", h, h_ctx);
}

/* The connection with the inter-dc master, if there is to be one. */
static int uplink_start(struct site *s, struct site_node *node, char *err, size_t err_len)
{
	if (s->cfg->master == NULL)
		return 0;
	s->tls = site_config_tls(s->cfg, err, err_len);
	if (s->tls == NULL)
		return -EINVAL;
	s->uplink = uplink_create(s->base, node, master_connect, s);
	return s->uplink != NULL ? 0 : -ENOMEM;
}

int site_run(const struct site_config *cfg)
{
	struct site site = { .base = event_base_new(), .cfg = cfg };
	struct event_base *base = site.base;
	struct signals *signals = NULL;
	struct site_node *node = NULL;
	char err[300] = "out of memory";
	int ret = -ENOMEM;

	if (base != NULL)
		signals = signals_create(base, &on_signal, &site);
	if (signals != NULL)
		node = site_node_create(base, cfg, err, sizeof(err));
	if (node == NULL || uplink_start(&site, node, err, sizeof(err)) < 0) {
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
	uplink_destroy(site.uplink);
	rpc_tls_destroy(site.tls);
	site_node_destroy(node);
	signals_destroy(signals);
	if (base != NULL)
		event_base_free(base);
	return ret;
}
