/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/peer.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/base/name.h"
#include "dataplane/edge/peer_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MS_NS 1000000ULL

enum {
	BACKOFF_MIN_MS = 200,
	BACKOFF_MAX_MS = 5000,
	HELLO_TIMEOUT_MS = 5000,
	REFUSED_MS = 2000,
};

/* ---- connections ------------------------------------------------------------------------- */

static uint64_t backoff_ns(uint32_t failures)
{
	uint64_t ms = BACKOFF_MIN_MS << (failures < 5 ? failures : 5);
	uint32_t jitter = 0;

	if (ms > BACKOFF_MAX_MS)
		ms = BACKOFF_MAX_MS;
	if (getrandom(&jitter, sizeof(jitter), GRND_NONBLOCK) != sizeof(jitter))
		jitter = 0;
	return (ms / 2 + jitter % (ms / 2 + 1)) * MS_NS;
}

void peer_failed(struct peer *p, uint64_t now_ns, const char *why)
{
	log_limited(LOG_LEVEL_WARN, "peer", 1000, "no connection peer=%s/%s address=%s: %s",
		p->remote.site, p->remote.name, p->address, why);
	if (p->failing_ns == 0 && p->cur == NULL)
		p->failing_ns = now_ns;
	p->retry_ns = now_ns + backoff_ns(p->failures++);
}

static int out_open(struct rpc_conn *c, void *ctx)
{
	struct peer *p = ctx;
	const struct rpc_identity *id = rpc_peer(c);

	if (strcmp(id->site, p->remote.site) != 0 || strcmp(id->name, p->remote.name) != 0) {
		log_error("peer", "wrong edge at address=%s: wanted %s/%s, certificate says %s/%s",
			p->address, p->remote.site, p->remote.name, id->site, id->name);
		return -EACCES;
	}
	p->open = true;
	p->refused_ns = 0;
	return peer_hello_send(p, clock_now_ns());
}

static int out_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len,
	void *ctx)
{
	struct peer *p = ctx;

	switch (type) {
	case STRAIT__MSG_TYPE__MSG_SESSION_ACCEPT:
		return peer_accept_received(p, body, len, clock_now_ns());
	case STRAIT__MSG_TYPE__MSG_SESSION_RESET:
		return peer_reset_received(p->ps, c, body, len);
	default:
		return 0; /* of a newer version */
	}
}

static void out_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	uint64_t now_ns = clock_now_ns();
	struct peer *p = ctx;

	if (p->conn != c)
		return;
	p->conn = NULL;
	p->open = p->hello_sent = false;
	if (p->ps->stopped)
		return;
	/*
	 * Nobody listens: the process is gone, and its sessions with it, whatever the data
	 * path says.
	 */
	if (err != -ECONNREFUSED)
		p->refused_ns = 0;
	else if (p->refused_ns == 0)
		p->refused_ns = now_ns;
	else if (p->cur != NULL && now_ns - p->refused_ns > REFUSED_MS * MS_NS)
		peer_session_close(p->cur, "the peer is not running", false);
	peer_failed(p, now_ns, text);
	p->ps->kick(p->ps->ctx);
}

static const struct rpc_handler out_handler = {
	.on_open = out_open,
	.on_message = out_message,
	.on_close = out_close,
};

static int in_open(struct rpc_conn *c, void *ctx)
{
	struct peers *ps = ctx;
	struct peer_conn *pc;

	if (strcmp(rpc_peer(c)->role, "edge") != 0) {
		log_warn("peer", "only edges may open sessions from=%s role=%s",
			rpc_peer_address(c), rpc_peer(c)->role);
		rpc_set_ctx(c, NULL);
		return -EACCES;
	}
	pc = calloc(1, sizeof(*pc));
	if (pc == NULL) {
		rpc_set_ctx(c, NULL);
		return -ENOMEM;
	}
	pc->ps = ps;
	pc->conn = c;
	LIST_INSERT_HEAD(&ps->conns, pc, entry);
	rpc_set_ctx(c, pc);
	return 0;
}

static int in_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len, void *ctx)
{
	struct peer_conn *pc = ctx;

	switch (type) {
	case STRAIT__MSG_TYPE__MSG_SESSION_HELLO:
		return peer_hello_received(pc, body, len, clock_now_ns());
	case STRAIT__MSG_TYPE__MSG_SESSION_RESET:
		return peer_reset_received(pc->ps, c, body, len);
	default:
		return 0;
	}
}

static void in_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct peer_conn *pc = ctx;
	struct peer_session *s;

	(void)err;
	if (pc == NULL)
		return; /* refused by in_open() */
	LIST_FOREACH(s, &pc->ps->sessions, entry) {
		if (s->conn == c)
			s->conn = NULL;
	}
	log_debug("peer", "connection closed from=%s: %s", rpc_peer_address(c), text);
	LIST_REMOVE(pc, entry);
	free(pc);
}

static const struct rpc_handler in_handler = {
	.on_open = in_open,
	.on_message = in_message,
	.on_close = in_close,
};

/* ---- peers ------------------------------------------------------------------------------- */

struct peers *peers_create(const struct peers_config *cfg, struct event_base *base,
	struct rpc_tls *tls, struct control_queue *queue, struct ingest *ingest,
	void (*kick)(void *ctx), void *ctx, char *err, size_t err_len)
{
	struct peers *ps = calloc(1, sizeof(*ps));

	if (ps == NULL) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	ps->cfg = *cfg;
	if (ps->cfg.queues == 0)
		ps->cfg.queues = 1;
	ps->base = base;
	ps->tls = tls;
	ps->queue = queue;
	ps->ingest = ingest;
	ps->kick = kick;
	ps->ctx = ctx;
	ps->listener = rpc_listen(base, tls, cfg->listen, &in_handler, ps, err, err_len);
	if (ps->listener == NULL) {
		free(ps);
		return NULL;
	}
	return ps;
}

uint16_t peers_listen_port(const struct peers *ps)
{
	return rpc_listener_port(ps->listener);
}

void peers_destroy(struct peers *ps)
{
	struct peer_conn *pc;
	struct peer *p;

	if (ps == NULL)
		return;
	rpc_listener_destroy(ps->listener);
	while ((pc = LIST_FIRST(&ps->conns)) != NULL) {
		LIST_REMOVE(pc, entry);
		free(pc);
	}
	while ((p = LIST_FIRST(&ps->peers)) != NULL) {
		LIST_REMOVE(p, entry);
		free(p);
	}
	free(ps->fenced);
	free(ps);
}

static const struct peer_cap *own_cap(const struct peers *ps, const char *site)
{
	for (uint32_t i = 0; i < ps->cfg.cap_count; i++) {
		if (strcmp(ps->cfg.caps[i].site, site) == 0)
			return &ps->cfg.caps[i];
	}
	return NULL;
}

uint64_t peers_cap(const struct peers *ps, const char *site)
{
	const struct peer_cap *own = own_cap(ps, site);

	return own != NULL ? own->bps : ps->cfg.cap_bps;
}

static uint64_t order_cap(const struct peers *ps, const Strait__OrderStart *m)
{
	if (m->has_way && m->way == ORDER_LAN && ps->cfg.lan_cap_bps != 0 &&
		own_cap(ps, m->to_site) == NULL)
		return ps->cfg.lan_cap_bps;
	return peers_cap(ps, m->to_site);
}

static struct peer *peer_find(struct peers *ps, const char *site, const char *edge)
{
	struct peer *p;

	LIST_FOREACH(p, &ps->peers, entry) {
		if (strcmp(p->remote.site, site) == 0 && strcmp(p->remote.name, edge) == 0)
			return p;
	}
	return NULL;
}

bool peer_set_cap(struct peer *p, uint64_t bps)
{
	p->cap_bps = bps;
	return peer_apply_cap(p);
}

struct order_link *peers_link(struct peers *ps, const Strait__OrderStart *m)
{
	struct peer *p = peer_find(ps, m->to_site, m->to_edge);
	uint64_t own = order_cap(ps, m);
	uint64_t cap = own;

	if (!name_is_valid(m->to_site) || !name_is_valid(m->to_edge) ||
		m->to_mgmt_address[0] == '\0' || strlen(m->to_mgmt_address) >= sizeof(p->address))
		return NULL;
	if (p == NULL) {
		if (ps->peer_count >= PEERS_MAX)
			return NULL;
		p = calloc(1, sizeof(*p));
		if (p == NULL)
			return NULL;
		p->ps = ps;
		snprintf(p->remote.site, sizeof(p->remote.site), "%s", m->to_site);
		snprintf(p->remote.name, sizeof(p->remote.name), "%s", m->to_edge);
		p->cap_bps = own;
		LIST_INSERT_HEAD(&ps->peers, p, entry);
		ps->peer_count++;
	}
	if (strcmp(p->address, m->to_mgmt_address) != 0) {
		snprintf(p->address, sizeof(p->address), "%s", m->to_mgmt_address);
		/* It moved: the session may go on, but there is a new door to knock at. */
		if (p->conn != NULL)
			rpc_close(p->conn);
	}
	/* The master may lower what this edge may send, never raise it. */
	if (m->has_cap_bps && m->cap_bps != 0 && (own == 0 || m->cap_bps < own))
		cap = m->cap_bps;
	p->own_bps = own;
	p->most_bps = m->has_most_bps ? m->most_bps : 0;
	(void)peer_set_cap(p, cap);
	if (p->link.orders == 0 && p->cur == NULL) {
		p->failing_ns = 0;
		p->failures = 0;
		p->retry_ns = 0;
		p->link.unreachable = false;
	}
	ps->kick(ps->ctx);
	return &p->link;
}

static void peer_connect(struct peer *p, uint64_t now_ns)
{
	if (p->failing_ns == 0 && p->cur == NULL)
		p->failing_ns = now_ns;
	p->open = p->hello_sent = false;
	p->conn = rpc_connect(p->ps->base, p->ps->tls, p->address, "edge", &out_handler, p);
	if (p->conn == NULL)
		peer_failed(p, now_ns, strerror(errno));
}

static void no_answer(struct peer_session *s, uint64_t now_ns)
{
	uint32_t silent = 0;

	while (silent + 1 < s->queue_count && s->queues[silent].up)
		silent++;
	/* Of several UDP ports a firewall may let the first one through only. */
	if (silent > 0)
		log_warn("peer", "no answer on the data path peer=%s/%s queue=%u udp_port=%u",
			s->remote.site, s->remote.name, silent, s->ps->cfg.data_port + silent);
	peer_session_close(s, "no answer on the data path", true);
	peer_failed(s->peer, now_ns, "no answer on the data path");
}

static void peer_tick(struct peer *p, uint64_t now_ns)
{
	struct peer_session *s = p->cur;

	if (s != NULL && !s->up && p->link.live > 0 &&
		now_ns - s->created_ns > PEER_UP_MS * MS_NS) {
		no_answer(s, now_ns);
		s = NULL;
	}
	p->link.unreachable = s == NULL && p->failing_ns != 0 &&
		now_ns - p->failing_ns > PEER_UNREACHABLE_MS * MS_NS;
	if (p->ps->draining || (p->link.orders == 0 && s == NULL))
		return;
	if (p->conn == NULL) {
		if (now_ns >= p->retry_ns)
			peer_connect(p, now_ns);
	} else if (p->open && p->hello_sent) {
		if (now_ns - p->hello_ns > HELLO_TIMEOUT_MS * MS_NS)
			rpc_close(p->conn);
	} else if (p->open && s == NULL && now_ns >= p->retry_ns) {
		if (peer_hello_send(p, now_ns) < 0)
			rpc_close(p->conn);
	}
}

void peers_tick(struct peers *ps, uint64_t now_ns)
{
	struct peer *p;

	if (ps->stopped)
		return;
	LIST_FOREACH(p, &ps->peers, entry)
		peer_tick(p, now_ns);
}

/* ---- events ------------------------------------------------------------------------------ */

static struct peer_session *session_find(struct peers *ps, const struct session *session,
	uint32_t *queue)
{
	struct peer_session *s;

	LIST_FOREACH(s, &ps->sessions, entry) {
		for (*queue = 0; *queue < s->queue_count; (*queue)++)
			if (s->queues[*queue].session == session)
				return s;
	}
	return NULL;
}

/* Transfers from now on have symbols of this size; those it closes are opened again with it. */
static void path_event(struct peer_session *s, uint32_t queue, uint32_t symbol_bytes)
{
	log_warn("peer", "the path carries symbols of %u bytes peer=%s/%s id=%08x queue=%u",
		symbol_bytes, s->remote.site, s->remote.name, s->own_id, queue);
	if (s->initiator && s->peer->cur == s)
		s->peer->link.queues[queue].symbol_bytes = (uint16_t)symbol_bytes;
}

/* All queues are up. */
static void up_event(struct peer_session *s, uint32_t queue)
{
	s->queues[queue].up = true;
	for (uint32_t i = 0; i < s->queue_count; i++)
		if (!s->queues[i].up)
			return;
	s->up = true;
	log_info("peer", "data path is up peer=%s/%s id=%08x queues=%u", s->remote.site,
		s->remote.name, s->own_id, s->queue_count);
	if (s->initiator && s->peer->cur == s) {
		s->peer->failing_ns = 0;
		s->peer->failures = 0;
	}
}

static void session_event(struct peer_session *s, uint32_t queue, struct orders *os,
	uint64_t now_ns, const struct session_event *ev)
{
	switch (ev->type) {
	case SESSION_EVENT_UP:
		up_event(s, queue);
		break;
	case SESSION_EVENT_DEAD:
		peer_session_close(s, "nothing was heard for too long", true);
		break;
	case SESSION_EVENT_PATH:
		path_event(s, queue, ev->object);
		break;
	case SESSION_EVENT_TX_OPENED:
	case SESSION_EVENT_TX_WANT:
	case SESSION_EVENT_TX_OBJECT:
	case SESSION_EVENT_TX_CLOSED:
		orders_event(os, now_ns, ev);
		break;
	case SESSION_EVENT_RX_OPEN:
	case SESSION_EVENT_RX_MANIFEST:
	case SESSION_EVENT_RX_OBJECT:
	case SESSION_EVENT_RX_WITHDRAWN:
	case SESSION_EVENT_RX_CLOSED:
		ingest_event(&s->queues[queue].ingest, now_ns, ev);
		break;
	case SESSION_EVENT_NONE:
		break;
	}
}

void peers_event(struct peers *ps, struct orders *os, uint64_t now_ns,
	const struct worker_event *ev)
{
	uint32_t queue;
	struct peer_session *s = session_find(ps, ev->session, &queue);
	struct session_event se = ev->ev;

	if (s == NULL) {
		/* The worker had no room for the session, then got transfers for it. */
		se.type = SESSION_EVENT_TX_CLOSED;
		se.status = STRAIT_STATUS_RESET;
		if (ev->type == WORKER_EVENT_TX_REJECTED)
			orders_event(os, now_ns, &se);
		return;
	}
	switch (ev->type) {
	case WORKER_EVENT_SESSION:
		session_event(s, queue, os, now_ns, &se);
		break;
	case WORKER_EVENT_SESSION_GONE:
		if (!s->closing) {
			log_error("peer", "the worker has no room for a session peer=%s/%s",
				s->remote.site, s->remote.name);
			if (s->initiator)
				peer_failed(s->peer, now_ns, "no room for a session");
			if (s->queues_left > 1)
				peer_session_close(s, "a worker has no room for it", true);
		}
		peer_queue_gone(s, queue);
		ps->kick(ps->ctx);
		break;
	case WORKER_EVENT_TX_REJECTED:
		se.type = SESSION_EVENT_TX_CLOSED;
		se.status = STRAIT_STATUS_RESET;
		session_event(s, queue, os, now_ns, &se);
		break;
	case WORKER_EVENT_RX_REJECTED:
		se.type = SESSION_EVENT_RX_CLOSED;
		se.status = STRAIT_STATUS_RESET;
		session_event(s, queue, os, now_ns, &se);
		break;
	}
}

/* ---- end --------------------------------------------------------------------------------- */

void peers_drain(struct peers *ps)
{
	ps->draining = true;
}

void peers_stop(struct peers *ps)
{
	struct peer_session *s, *next;

	ps->draining = ps->stopped = true;
	for (s = LIST_FIRST(&ps->sessions); s != NULL; s = next) {
		next = LIST_NEXT(s, entry);
		peer_session_close(s, "the edge stops", true);
	}
}

uint32_t peers_session_count(const struct peers *ps)
{
	return ps->session_count;
}

const uint64_t *peers_ended_counters(const struct peers *ps)
{
	return ps->ended;
}

void peers_links(struct peers *ps, void (*cb)(void *ctx, const struct peer_link *l), void *ctx)
{
	struct peer_session *s;

	LIST_FOREACH(s, &ps->sessions, entry) {
		struct peer_link l = { .site = s->remote.site,
			.edge = s->remote.name,
			.queue_count = s->queue_count,
			.cap_bps = s->cap_bps,
			.initiator = s->initiator,
			.up = s->up,
			.used_bps = s->initiator ? s->peer->rate.used_bps : 0,
			.expected_bps = s->initiator ? s->peer->link.goodput_bps : 0,
			.latency_ns = s->initiator ? s->peer->link.latency_ns : 0,
			.delivered_before = &s->delivered_before,
			.reported_ns = &s->reported_ns };

		for (uint32_t i = 0; i < s->queue_count; i++)
			l.queues[i] = (struct peer_link_queue){ .session = s->queues[i].session,
				.cap_bps = s->queues[i].cap_bps,
				.up = s->queues[i].up };

		if (!s->closing)
			cb(ctx, &l);
	}
}
