/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/master.h"
#include "control/master/local_sites.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/base/notify.h"
#include "control/base/signals.h"
#include "control/master/commits.h"
#include "control/master/links.h"
#include "control/master/replication.h"

#include <event2/event.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { STOP_MS = 500, RETRY_COMMIT_MS = 1000, PRUNE_MS = 10000 };

static void arm(struct event *timer, unsigned int ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	event_add(timer, &tv);
}

void master_changed(struct master *m)
{
	if (m->commit_wanted)
		return;
	m->commit_wanted = true;
	arm(m->commit_timer, MASTER_COMMIT_MS);
}

static int commit_orders(struct master *m)
{
	const struct order *o;
	int rc;

	if (orderbook_dirty(m->book) == NULL)
		return 0;
	rc = ledger_begin(m->ledger);
	for (o = orderbook_dirty(m->book); rc == 0 && o != NULL; o = TAILQ_NEXT(o, dirty_entry))
		rc = ledger_order_put(m->ledger, o, clock_unix_ms());
	if (rc == 0)
		rc = ledger_commit(m->ledger);
	if (rc != 0)
		ledger_rollback(m->ledger);
	return rc;
}

/*
 * Plan, make it durable, tell. If the ledger fails nobody is told anything; the changes stay on
 * the dirty list and are tried again.
 */
static void commit(struct master *m)
{
	struct orderbook_sites sites = { sites_edges, m, sites_way, links_avoid, sites_why };
	const struct order *o;

	m->commit_wanted = false;
	for (o = orderbook_dirty(m->book); o != NULL; o = TAILQ_NEXT(o, dirty_entry))
		replication_order_changed(m, o);
	if (!m->stopping)
		orderbook_plan(m->book, &sites, clock_unix_ms());
	if (commit_orders(m) != 0) {
		snprintf(m->ledger_trouble, sizeof(m->ledger_trouble),
			"the ledger cannot be written, orders stand still: %s",
			ledger_error(m->ledger));
		log_limited(LOG_LEVEL_ERROR, "master", 10000, "%s", m->ledger_trouble);
		operators_unwritten(m);
		m->commit_wanted = true;
		arm(m->commit_timer, RETRY_COMMIT_MS);
		return;
	}
	if (m->ledger_trouble[0] != '\0')
		log_info("master", "the ledger can be written again");
	m->ledger_trouble[0] = '\0';
	links_update(m);
	for (o = orderbook_dirty(m->book); o != NULL; o = TAILQ_NEXT(o, dirty_entry)) {
		edges_tell(m, o);
		failed_order(m, o);
		if (!order_is_final(o))
			continue;
		replication_order_final(m, o);
		log_info("master",
			"order finished order=%" PRIu64 " state=%s committed=%u existed=%u "
			"failed=%u bytes=%" PRIu64 " ms=%" PRIu64,
			o->id, order_state_name(o->state), o->committed, o->existed, o->failed,
			o->committed_bytes, o->finished_ms - o->created_ms);
	}
	edges_acknowledge(m);
	operators_committed(m);
	commits_committed(m);
	orderbook_flushed(m->book);
}

static void commit_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	commit(arg);
}

static void prune(struct master *m)
{
	uint64_t now = clock_unix_ms();

	if (now <= m->cfg->keep_finished_ms || m->ledger_trouble[0] != '\0')
		return;
	if (ledger_prune(m->ledger, now - m->cfg->keep_finished_ms) < 0)
		log_limited(LOG_LEVEL_WARN, "master", 60000, "cannot prune the ledger: %s",
			ledger_error(m->ledger));
}

static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	static unsigned int ticks;
	struct master *m = arg;

	(void)fd;
	(void)what;
	if (m->stopping)
		return;
	if (++ticks % (1000 / MASTER_TICK_MS) == 0)
		edges_failover(m);
	if (ticks % (PRUNE_MS / MASTER_TICK_MS) == 0)
		prune(m);
	replication_tick(m);
	links_update(m);
	if (orderbook_count(m->book) == 0)
		return;
	orderbook_tick(m->book, clock_unix_ms());
	/* while a commit is owed, planning waits for it */
	if (!m->commit_wanted)
		commit(m);
}

static void watch_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	operators_watch(arg);
}

static void on_stop(int signo, void *ctx)
{
	struct timeval soon = { .tv_usec = STOP_MS * 1000 };
	struct master *m = ctx;

	log_info("master", "stopping signal=%d unfinished=%zu", signo, orderbook_count(m->book));
	notify_send("STOPPING=1");
	m->stopping = true;
	rpc_listener_destroy(m->listener);
	m->listener = NULL;
	commit(m);
	clients_close(m);
	/* or when the last connection is closed */
	event_base_loopexit(m->base, LIST_EMPTY(&m->clients) ? NULL : &soon);
}

static void on_reload(void *ctx)
{
	struct master *m = ctx;
	struct master_config *cfg;
	enum log_level level;
	char err[512];

	notify_send("RELOADING=1");
	cfg = master_config_load(m->cfg_path, err, sizeof(err));
	if (cfg == NULL) {
		log_error("master", "configuration not reloaded, the old one stays: %s", err);
	} else {
		if (strcmp(cfg->listen, m->cfg->listen) != 0 ||
			strcmp(cfg->ledger, m->cfg->ledger) != 0)
			log_warn("master", "listen and ledger change with a restart only");
		master_config_free(m->cfg);
		m->cfg = cfg;
		orderbook_set_open_idle(m->book, cfg->open_idle_ms);
		if (log_level_parse(cfg->log_level, &level) == 0)
			log_set_level(level);
		sites_configure(m);
		replication_configure(m);
		(void)local_sites_configure(m);
		log_info("master", "configuration reloaded sites=%u", cfg->sites_count);
	}
	if (rpc_tls_reload(m->tls, err, sizeof(err)) != 0)
		log_error("master", "certificates not reloaded, the old ones stay: %s", err);
	else
		log_info("master", "certificates reloaded");
	notify_send("READY=1");
	master_changed(m);
}

static int open_ledger(struct master *m, uint64_t min_term)
{
	uint64_t seed;
	char err[300];
	int rc;

	m->ledger = ledger_open(m->cfg->ledger, err, sizeof(err));
	if (m->ledger == NULL) {
		rc = errno != 0 ? -errno : -EIO;
		log_error("master", "%s", err);
		return rc;
	}
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = clock_now_ns();
	m->book = orderbook_create(ledger_last_order(m->ledger) + 1, seed);
	if (m->book == NULL)
		return -ENOMEM;
	orderbook_set_open_idle(m->book, m->cfg->open_idle_ms);
	rc = ledger_next_term(m->ledger, min_term, &m->term);
	if (rc == 0)
		rc = sites_load(m);
	if (rc != 0) {
		log_error("master", "ledger: %s", ledger_error(m->ledger));
		return rc;
	}
	rc = ledger_restore(m->ledger, m->book, clock_unix_ms(), err, sizeof(err));
	if (rc != 0)
		log_error("master", "ledger: %s", err);
	return rc;
}

static int open_network(struct master *m)
{
	char err[512];

	m->tls = master_config_tls(m->cfg, err, sizeof(err));
	if (m->tls == NULL) {
		log_error("master", "%s", err);
		return -EINVAL;
	}
	m->listener =
		rpc_listen(m->base, m->tls, m->cfg->listen, &client_handler, m, err, sizeof(err));
	if (m->listener == NULL) {
		log_error("master", "%s", err);
		return -EADDRINUSE;
	}
	return 0;
}

static int open_events(struct master *m)
{
	static const struct signals_handler handler = { on_stop, on_reload };
	struct timeval tick = { .tv_usec = MASTER_TICK_MS * 1000 };
	struct timeval watch = { .tv_usec = MASTER_WATCH_MS * 1000 };

	m->base = event_base_new();
	if (m->base == NULL)
		return -ENOMEM;
	m->signals = signals_create(m->base, &handler, m);
	m->commit_timer = evtimer_new(m->base, commit_cb, m);
	m->tick_timer = event_new(m->base, -1, EV_PERSIST, tick_cb, m);
	m->watch_timer = event_new(m->base, -1, EV_PERSIST, watch_cb, m);
	if (m->signals == NULL || m->commit_timer == NULL || m->tick_timer == NULL ||
		m->watch_timer == NULL)
		return -ENOMEM;
	event_add(m->tick_timer, &tick);
	event_add(m->watch_timer, &watch);
	return 0;
}

static void free_client_memory(struct master *m)
{
	struct client *c;

	while ((c = LIST_FIRST(&m->clients)) != NULL) {
		commits_stop(c);
		LIST_REMOVE(c, entry);
		free(c->acks);
		free(c);
	}
}

static void free_event(struct event *e)
{
	if (e != NULL)
		event_free(e);
}

int master_run(const struct master_options *opt, struct master_config *cfg)
{
	struct master m = { .cfg = cfg, .cfg_path = opt->config, .started_ns = clock_now_ns() };
	int rc;

	TAILQ_INIT(&m.sites);
	TAILQ_INIT(&m.edges);
	links_init(&m);
	LIST_INIT(&m.clients);
	TAILQ_INIT(&m.subscriptions);
	rc = open_events(&m);
	if (rc == 0)
		rc = commits_create(&m);
	if (rc == 0)
		rc = open_ledger(&m, opt->min_term);
	if (rc == 0)
		rc = replication_create(&m);
	if (rc == 0)
		rc = open_network(&m);
	if (rc == 0)
		rc = local_sites_create(&m);
	if (rc == 0) {
		log_info("master", "ready listen=%s term=%" PRIu64 " orders=%zu ledger=%s tls=%s",
			cfg->listen, m.term, orderbook_count(m.book), cfg->ledger,
			cfg->insecure_loopback ? "off, insecure loopback" : "on");
		notify_send("READY=1");
		master_changed(&m);
		event_base_dispatch(m.base);
		log_info("master", "stopped");
	}
	if (rc != 0)
		log_error("master", "cannot start or go on error=%s", strerror(-rc));
	rpc_listener_destroy(m.listener);
	rpc_tls_destroy(m.tls);
	local_sites_destroy(&m);
	free_client_memory(&m);
	replication_destroy(&m);
	orderbook_destroy(m.book);
	ledger_close(m.ledger);
	links_fini(&m);
	sites_free(&m);
	commits_destroy(&m);
	free_event(m.commit_timer);
	free_event(m.tick_timer);
	free_event(m.watch_timer);
	signals_destroy(m.signals);
	if (m.base != NULL)
		event_base_free(m.base);
	master_config_free(m.cfg);
	return rc;
}
