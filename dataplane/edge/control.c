/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/control.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/base/notify.h"
#include "dataplane/edge/capture.h"
#include "dataplane/edge/control_queue.h"
#include "dataplane/edge/control_report.h"
#include "dataplane/edge/gateway_link.h"
#include "dataplane/edge/ingest.h"
#include "dataplane/edge/keylog.h"
#include "dataplane/edge/local.h"
#include "dataplane/edge/master_client.h"
#include "dataplane/edge/net.h"
#include "dataplane/edge/numa.h"
#include "dataplane/edge/order.h"
#include "dataplane/edge/peer.h"
#include "dataplane/edge/term.h"
#include "dataplane/pool/gateway.h"
#include "dataplane/pool/shm_pool.h"

#include <event2/event.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MS_NS 1000000ULL

enum {
	TICK_MS = 50,
	SPLIT_MS = 1, /* of links' caps among several workers */
	RENEW_MS = 1000,
	EVENTS_PER_TURN = 4096,
	/* After the transfers: for resets, results and the sessions' last events. */
	GOODBYE_MS = 2000,
};

enum control_phase {
	CONTROL_RUNNING,
	CONTROL_DRAINING, /* running transfers may finish */
	CONTROL_CLOSING,  /* sessions were told to end */
	CONTROL_LEAVING,  /* last words to the master */
};

/* A worker's wake-ups. */
struct control_worker {
	struct control *control;
	struct worker *worker;
	struct event *event;
	int node; /* of its memory; -1: any */
};

struct control {
	const struct edge_config *cfg;
	struct control_parts parts;
	/* As parts.pools, or before those that have a gateway. */
	struct pool *pools[EDGE_POOLS_MAX];
	struct gateway_link *gateways[EDGE_POOLS_MAX];
	struct control_worker workers[WORKERS_MAX];
	struct event *tick, *kick, *copy;
	struct event *split; /* NULL: there is one worker */
	struct control_queue queue;
	struct term term;
	struct orders *orders;
	struct ingest *ingest;
	struct peers *peers;
	struct master_client *master;
	struct control_report *report;
	struct keylog *keylog;
	struct capture *capture;
	struct local *local;
	uint8_t boot_id[STRAIT_BOOT_ID_BYTES];
	char mgmt_address[280];
	uint64_t renew_ns, phase_ns;
	enum control_phase phase;
};

static void kick(void *ctx)
{
	struct control *c = ctx;

	event_active(c->kick, EV_TIMEOUT, 1);
}

static struct pool *find_pool_of(void *ctx, const char *site, const uint8_t *tenant, size_t len)
{
	struct control *c = ctx;

	for (uint32_t i = 0; i < c->cfg->pool_count; i++) {
		const struct edge_pool_config *p = &c->cfg->pools[i];

		if (strcmp(p->site != NULL ? p->site : c->cfg->site, site) != 0)
			continue;
		if (tenant == NULL ||
			(strlen(p->tenant) == len && memcmp(p->tenant, tenant, len) == 0))
			return c->pools[i];
	}
	return NULL;
}

static struct pool *find_pool(void *ctx, const uint8_t *tenant, size_t len)
{
	struct control *c = ctx;

	return find_pool_of(c, c->cfg->site, tenant, len);
}

static struct order_link *find_link(void *ctx, const Strait__OrderStart *m)
{
	struct control *c = ctx;

	return peers_link(c->peers, m);
}

static const struct order_ops order_ops = {
	.pool = find_pool,
	.pool_of = find_pool_of,
	.link = find_link,
	.kick = kick,
};

static const struct ingest_ops ingest_ops = {
	.pool = find_pool,
	.kick = kick,
};

static int push_command(void *ctx, const struct worker_command *cmd)
{
	struct control *c = ctx;

	return worker_command(c->parts.workers[cmd->worker], cmd);
}

static void place(void *ctx, int worker)
{
	struct control *c = ctx;

	numa_prefer(worker >= 0 ? c->workers[worker].node : -1);
}

static void write_report(void *ctx, Strait__EdgeReport *m)
{
	struct control *c = ctx;

	control_report_write(c->report, clock_now_ns(), m);
	m->has_leaving = c->phase != CONTROL_RUNNING;
	m->leaving = c->phase == CONTROL_LEAVING ? 2 : c->phase != CONTROL_RUNNING;
}

static bool take_links(void *ctx, const Strait__EdgeLinks *m)
{
	struct control *c = ctx;
	bool done = peers_take_links(c->peers, m);

	return control_queue_flush(&c->queue) && done;
}

static void write_registration(void *ctx, Strait__EdgeRegister *m)
{
	static struct peer_link_cap caps[PEERS_MAX];
	static Strait__EdgeLink links[PEERS_MAX], *pointers[PEERS_MAX];
	struct control *c = ctx;

	m->n_links = peers_list_links(c->peers, caps, PEERS_MAX);
	for (size_t i = 0; i < m->n_links; i++) {
		strait__edge_link__init(&links[i]);
		links[i].to_site = (char *)caps[i].site;
		links[i].to_edge = (char *)caps[i].edge;
		links[i].cap_bps = caps[i].bps;
		pointers[i] = &links[i];
	}
	m->links = pointers;
}

static const struct master_client_ops master_ops = { .report = write_report,
	.links = take_links,
	.registration = write_registration };

/* ---- leaving ----------------------------------------------------------------------------- */

static void enter(struct control *c, enum control_phase phase)
{
	c->phase = phase;
	c->phase_ns = clock_now_ns();
}

static bool is_over(const struct control *c, uint64_t limit_ns)
{
	return clock_now_ns() - c->phase_ns >= limit_ns;
}

/* One step of the way out, from the tick. */
static void leave(struct control *c)
{
	if (c->phase == CONTROL_DRAINING) {
		bool idle = orders_live(c->orders) == 0 && ingest_live(c->ingest) == 0;

		if (!idle && !is_over(c, c->cfg->drain_timeout_ns))
			return;
		log_info("control", "drained transfers_left=%u",
			orders_live(c->orders) + ingest_live(c->ingest));
		peers_stop(c->peers);
		enter(c, CONTROL_CLOSING);
	}
	if (c->phase == CONTROL_CLOSING) {
		if (peers_session_count(c->peers) > 0 && !is_over(c, GOODBYE_MS * MS_NS))
			return;
		master_client_tick(c->master, clock_now_ns());
		enter(c, CONTROL_LEAVING);
		/* with sessions left nothing can be promised */
		if (peers_session_count(c->peers) == 0)
			master_client_report(c->master);
		return;
	}
	if (c->phase == CONTROL_LEAVING &&
		(master_client_is_flushed(c->master) || is_over(c, GOODBYE_MS * MS_NS))) {
		master_client_stop(c->master);
		event_base_loopbreak(c->parts.base);
	}
}

void control_stop(struct control *c)
{
	if (c->phase == CONTROL_RUNNING) {
		log_info("control", "stopping, transfers=%u",
			orders_live(c->orders) + ingest_live(c->ingest));
		notify_send("STOPPING=1");
		orders_drain(c->orders);
		ingest_drain(c->ingest);
		peers_drain(c->peers);
		enter(c, CONTROL_DRAINING);
		master_client_report(c->master);
	} else {
		event_base_loopbreak(c->parts.base);
	}
}

/* ---- the loop's callbacks ---------------------------------------------------------------- */

static bool session_figures(void *ctx, uint8_t worker, const struct session *s,
	struct session_stats *out)
{
	struct control *c = ctx;

	return worker_session_stats(c->parts.workers[worker], s, out);
}

/* The loop looks at everything else between two slices. */
static void copy_at(struct control *c, uint64_t delay_ns)
{
	const struct timeval delay = { .tv_sec = (time_t)(delay_ns / (1000 * MS_NS)),
		.tv_usec = (suseconds_t)(delay_ns % (1000 * MS_NS) / 1000) };

	event_add(c->copy, &delay);
}

static void on_copy(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	uint64_t delay_ns;

	(void)fd;
	(void)what;
	if (c->phase != CONTROL_RUNNING && c->phase != CONTROL_DRAINING)
		return;
	delay_ns = orders_copy(c->orders, clock_now_ns());
	if (delay_ns != UINT64_MAX)
		copy_at(c, delay_ns);
}

static void work(struct control *c)
{
	uint64_t now = clock_now_ns();
	bool more = false;

	peers_measure(c->peers, now, session_figures, c);
	more |= ingest_run(c->ingest, now);
	if (c->phase == CONTROL_RUNNING || c->phase == CONTROL_DRAINING)
		more |= orders_run(c->orders, now, clock_unix_ms());
	if (orders_are_copied(c->orders) && !event_pending(c->copy, EV_TIMEOUT, NULL))
		copy_at(c, 0);
	orders_reap(c->orders, now);
	for (uint32_t i = 0; i < c->cfg->pool_count; i++)
		if (c->gateways[i] != NULL)
			gateway_link_flush(c->gateways[i]);
	control_queue_flush(&c->queue);
	peers_tick(c->peers, now);
	if (c->phase != CONTROL_LEAVING)
		master_client_tick(c->master, now);
	if (more)
		kick(c);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	work(arg);
}

/* Keep leases, and see whether the pools are still what other processes of the site use. */
static void renew_pools(struct control *c)
{
	char why[512];

	for (uint32_t i = 0; i < c->cfg->pool_count; i++) {
		struct pool *pool = c->pools[i];
		bool known = pool->lost;
		int ret;

		if (pool_check(pool, why, sizeof(why)) < 0) {
			if (!known)
				log_error("control",
					"pool %s: nothing new is shipped from it or placed into "
					"it; restart the edge",
					why);
			continue;
		}
		ret = pool_renew(pool);
		if (ret < 0)
			log_limited(LOG_LEVEL_ERROR, "control", 10000, "pool %s: %s",
				c->cfg->pools[i].path, strerror(-ret));
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	uint64_t now = clock_now_ns();

	(void)fd;
	(void)what;
	if (now - c->renew_ns >= RENEW_MS * MS_NS) {
		c->renew_ns = now;
		renew_pools(c);
	}
	work(c);
	if (c->phase != CONTROL_RUNNING)
		leave(c);
}

static void on_worker(evutil_socket_t fd, short what, void *arg)
{
	struct control_worker *w = arg;
	struct control *c = w->control;
	uint64_t now = clock_now_ns();
	struct worker_event ev;
	unsigned int n = 0;

	(void)fd;
	(void)what;
	control_queue_flush(&c->queue);
	do {
		while (n < EVENTS_PER_TURN && worker_event(w->worker, &ev)) {
			peers_event(c->peers, c->orders, now, &ev);
			n++;
		}
		if (n >= EVENTS_PER_TURN) {
			/* Others' turn; the descriptor may be read already. */
			event_active(w->event, EV_READ, 1);
			break;
		}
	} while (worker_event_arm(w->worker));
	if (n > 0)
		kick(c);
}

static void on_split(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;

	(void)fd;
	(void)what;
	peers_split(c->peers, session_figures, c);
}

/* ---- life -------------------------------------------------------------------------------- */

static int create_events(struct control *c)
{
	struct timeval tick = { .tv_usec = TICK_MS * 1000 };
	struct timeval split = { .tv_usec = SPLIT_MS * 1000 };

	c->kick = event_new(c->parts.base, -1, 0, on_kick, c);
	c->tick = event_new(c->parts.base, -1, EV_PERSIST, on_tick, c);
	c->copy = event_new(c->parts.base, -1, 0, on_copy, c);
	if (c->kick == NULL || c->tick == NULL || c->copy == NULL || event_add(c->tick, &tick) < 0)
		return -ENOMEM;
	for (unsigned int i = 0; i < c->cfg->workers; i++) {
		struct control_worker *w = &c->workers[i];

		*w = (struct control_worker){ .control = c,
			.worker = c->parts.workers[i],
			.node = c->cfg->pin ? numa_node_of(c->cfg->cpus[i]) : -1 };
		w->event = event_new(c->parts.base, worker_event_fd(w->worker),
			EV_READ | EV_PERSIST, on_worker, w);
		if (w->event == NULL || event_add(w->event, NULL) < 0)
			return -ENOMEM;
		event_active(w->event, EV_READ, 1); /* arms the worker */
	}
	if (c->cfg->workers < 2)
		return 0;
	c->split = event_new(c->parts.base, -1, EV_PERSIST, on_split, c);
	return c->split != NULL && event_add(c->split, &split) == 0 ? 0 : -ENOMEM;
}

static int create_peers(struct control *c, char *err, size_t err_len)
{
	const struct edge_config *cfg = c->cfg;
	const struct port_config *port = port_settings(c->parts.port);
	struct peers_config pc = { .site = cfg->site,
		.edge = cfg->edge,
		.data_ip = port->ip,
		.data_port = port->udp_port,
		.queues = (uint8_t)cfg->workers,
		.symbol_bytes = port_symbol_bytes(c->parts.port),
		.dscp = port->dscp,
		.cap_bps = cfg->cap_bps,
		.total_cap_bps = cfg->total_cap_bps,
		.lan_cap_bps = cfg->lan_cap_bps,
		.burst_packets = cfg->burst != 0 ? cfg->burst : port_burst(c->parts.port),
		.caps = cfg->caps,
		.cap_count = cfg->cap_count,
		.log_packets = cfg->log_packets,
		.window_packets = cfg->window_packets,
		.scratch_slots = cfg->scratch_slots,
		.row_slots = cfg->row_slots,
		.listen = cfg->listen,
		.aead = c->parts.aead,
		.keylog = c->keylog };

	memcpy(pc.boot_id, c->boot_id, sizeof(pc.boot_id));
	memcpy(pc.credit, cfg->credit, sizeof(pc.credit));
	c->peers = peers_create(&pc, c->parts.base, c->parts.tls, &c->queue, c->ingest, kick, c,
		err, err_len);
	return c->peers != NULL ? 0 : -EADDRNOTAVAIL;
}

static int create_master(struct control *c)
{
	const char *listen = c->cfg->listen;
	struct master_client_config mc = { .address = c->cfg->master,
		.site = c->cfg->site,
		.edge = c->cfg->edge,
		.mgmt_address = c->mgmt_address,
		.program = "strait-edge " EDGE_VERSION,
		.boot_id = c->boot_id };

	mc.pool_site_count = edge_config_pool_sites(c->cfg, mc.pool_sites);
	if (c->cfg->advertise != NULL)
		snprintf(c->mgmt_address, sizeof(c->mgmt_address), "%s", c->cfg->advertise);
	else
		snprintf(c->mgmt_address, sizeof(c->mgmt_address), "%.*s:%u",
			(int)(strrchr(listen, ':') - listen), listen, peers_listen_port(c->peers));
	c->master = master_client_create(&mc, &master_ops, c, c->parts.base, c->parts.tls, &c->term,
		c->orders);
	return c->master != NULL ? 0 : -ENOMEM;
}

static void attach_capture(void *ctx, uint32_t worker, struct capture_ring *ring)
{
	struct control *c = ctx;

	worker_capture(c->parts.workers[worker], ring);
}

/* What is for looking closer; all of it off unless configured. */
static int create_debug(struct control *c, char *err, size_t err_len)
{
	const struct edge_config *cfg = c->cfg;
	struct capture_config cc = { .dir = cfg->capture_dir,
		.edge = cfg->edge,
		.interface = cfg->port.device,
		.application = "strait-edge " EDGE_VERSION,
		.frame_bytes = port_settings(c->parts.port)->mtu + NET_ETH_BYTES,
		.workers = cfg->workers,
		.attach = attach_capture,
		.ctx = c };

	if (cfg->key_log != NULL) {
		c->keylog = keylog_open(cfg->key_log, err, err_len);
		if (c->keylog == NULL)
			return -EIO;
		log_warn("control",
			"KEYS OF ALL SESSIONS ARE WRITTEN to %s: who reads it reads every value; "
			"take debug.key_log out of the configuration when you are done",
			cfg->key_log);
	}
	if (cfg->socket == NULL)
		return 0;
	c->capture = capture_create(&cc);
	if (c->capture == NULL)
		return -ENOMEM;
	c->local = local_create(c->parts.base, cfg->socket, c->capture, err, err_len);
	return c->local != NULL ? 0 : -EIO;
}

/* Half a gateway's pool is for what goes, the other half for what comes. */
static int create_gateways(struct control *c, char *err, size_t err_len)
{
	struct strait_pool_stats stats;
	int ret;

	for (uint32_t i = 0; i < c->cfg->pool_count; i++) {
		const struct edge_pool_config *p = &c->cfg->pools[i];

		if (p->gateway == NULL)
			continue;
		ret = pool_stats(c->parts.pools[i], &stats);
		if (ret == 0) {
			struct pool *g = gateway_pool_create(c->parts.pools[i],
				shm_pool_file(c->parts.pools[i]), p->tenant, stats.arena_bytes / 2);

			ret = g != NULL ? 0 : -errno;
			c->pools[i] = g != NULL ? g : c->pools[i];
		}
		if (ret == 0) {
			c->gateways[i] = gateway_link_create(c->parts.base, c->pools[i], p->gateway,
				p->tenant, kick, c);
			ret = c->gateways[i] != NULL ? 0 : -errno;
		}
		if (ret < 0) {
			snprintf(err, err_len, "gateway of pool %s: %s", p->path, strerror(-ret));
			return ret;
		}
	}
	return 0;
}

static void destroy_gateways(struct control *c)
{
	for (uint32_t i = 0; i < c->cfg->pool_count; i++) {
		gateway_link_destroy(c->gateways[i]);
		if (c->pools[i] != c->parts.pools[i])
			pool_destroy(c->pools[i]);
	}
}

struct control *control_create(const struct edge_config *cfg, const struct control_parts *parts,
	char *err, size_t err_len)
{
	struct control *c = calloc(1, sizeof(*c));
	int ret;

	if (c == NULL) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	c->cfg = cfg;
	c->parts = *parts;
	memcpy(c->pools, parts->pools, cfg->pool_count * sizeof(struct pool *));
	control_queue_init(&c->queue, push_command, c);
	c->queue.place = place;
	ret = term_init(&c->term, cfg->state_dir, err, err_len);
	if (ret < 0)
		goto fail;
	snprintf(err, err_len, "out of memory");
	ret = create_events(c);
	if (ret < 0)
		goto fail;
	if (getrandom(c->boot_id, sizeof(c->boot_id), 0) != sizeof(c->boot_id)) {
		snprintf(err, err_len, "getrandom: %s", strerror(errno));
		goto fail;
	}
	c->orders = orders_create(&order_ops, c, &c->queue);
	c->ingest = ingest_create(&ingest_ops, c, &c->queue);
	if (c->orders == NULL || c->ingest == NULL)
		goto fail;
	ret = create_gateways(c, err, err_len);
	if (ret < 0)
		goto fail;
	ret = create_debug(c, err, err_len);
	if (ret < 0)
		goto fail;
	ret = create_peers(c, err, err_len);
	if (ret < 0)
		goto fail;
	if (create_master(c) < 0)
		goto fail;
	c->report = control_report_create(cfg, parts, c->peers, c->orders, c->ingest);
	if (c->report == NULL)
		goto fail;
	return c;
fail:
	control_destroy(c);
	return NULL;
}

void control_destroy(struct control *c)
{
	if (c == NULL)
		return;
	control_report_destroy(c->report);
	master_client_destroy(c->master);
	/* An order that is left over counts on its link, which is a peer's. */
	orders_destroy(c->orders);
	ingest_destroy(c->ingest);
	peers_destroy(c->peers);
	local_destroy(c->local);
	capture_destroy(c->capture);
	keylog_close(c->keylog);
	destroy_gateways(c);
	control_queue_fini(&c->queue);
	for (unsigned int i = 0; i < WORKERS_MAX; i++)
		if (c->workers[i].event != NULL)
			event_free(c->workers[i].event);
	if (c->split != NULL)
		event_free(c->split);
	if (c->copy != NULL)
		event_free(c->copy);
	if (c->tick != NULL)
		event_free(c->tick);
	if (c->kick != NULL)
		event_free(c->kick);
	free(c);
}
