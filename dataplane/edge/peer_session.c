/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "control/rpc/strait.pb-c.h"
#include "dataplane/edge/peer_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { EXPORT_CONTEXT_BYTES = 2 * STRAIT_BOOT_ID_BYTES + 8 };

static bool id_is_taken(const struct peers *ps, uint32_t id)
{
	struct peer_session *s;
	struct peer *p;

	LIST_FOREACH(s, &ps->sessions, entry) {
		if (s->own_id == id)
			return true;
	}
	LIST_FOREACH(p, &ps->peers, entry) {
		if (p->hello_sent && p->hello_id == id)
			return true;
	}
	return false;
}

/* 0: no randomness to be had. */
static uint32_t new_id(const struct peers *ps)
{
	uint32_t id = 0;

	for (int tries = 0; tries < 64; tries++) {
		if (getrandom(&id, sizeof(id), 0) == sizeof(id) && id != 0 && !id_is_taken(ps, id))
			return id;
	}
	return 0;
}

/* ---- sessions ---------------------------------------------------------------------------- */

/* Orders see it no more. */
static void unlink_peer(struct peer_session *s)
{
	if (!s->initiator || s->peer->cur != s)
		return;
	s->peer->cur = NULL;
	for (uint32_t i = 0; i < WORKERS_MAX; i++)
		s->peer->link.queues[i].session = NULL;
}

void peer_session_close(struct peer_session *s, const char *why, bool tell)
{
	struct worker_command c = { .type = WORKER_SESSION_DEL, .status = STRAIT_STATUS_RESET };
	Strait__SessionReset m = STRAIT__SESSION_RESET__INIT;
	struct rpc_conn *conn = s->initiator ? s->peer->conn : s->conn;

	if (s->closing)
		return;
	log_info("peer", "session ends peer=%s/%s id=%08x: %s", s->remote.site, s->remote.name,
		s->own_id, why);
	if (tell && conn != NULL && (!s->initiator || s->peer->open)) {
		m.session = s->peer_id;
		m.text = (char *)why;
		rpc_send(conn, STRAIT__MSG_TYPE__MSG_SESSION_RESET, &m.base);
	}
	for (uint32_t i = 0; i < s->queue_count; i++) {
		if (s->queues[i].session == NULL)
			continue;
		c.session = s->queues[i].session;
		c.worker = (uint8_t)i;
		control_queue_push(s->ps->queue, &c);
		ingest_session_close(&s->queues[i].ingest);
	}
	s->closing = true;
	s->conn = NULL;
	unlink_peer(s);
	s->ps->kick(s->ps->ctx);
}

static void queue_free(struct peer_queue *q)
{
	ingest_session_del(&q->ingest);
	session_destroy(q->session);
	q->session = NULL;
}

static void session_free(struct peer_session *s)
{
	LIST_REMOVE(s, entry);
	s->ps->session_count--;
	free(s);
}

void peer_queue_gone(struct peer_session *s, uint32_t queue)
{
	struct session_stats stats;

	session_stats(s->queues[queue].session, &stats);
	for (int i = 0; i < STRAIT_COUNTER_COUNT; i++)
		s->ps->ended[i] += stats.counters[i];
	unlink_peer(s);
	queue_free(&s->queues[queue]);
	if (--s->queues_left == 0)
		session_free(s);
}

static int derive_secret(struct rpc_conn *c, const uint8_t *initiator_boot,
	const uint8_t *responder_boot, uint64_t counter, uint8_t *secret)
{
	uint8_t context[EXPORT_CONTEXT_BYTES];

	memcpy(context, initiator_boot, STRAIT_BOOT_ID_BYTES);
	memcpy(context + STRAIT_BOOT_ID_BYTES, responder_boot, STRAIT_BOOT_ID_BYTES);
	for (int i = 0; i < 8; i++)
		context[2 * STRAIT_BOOT_ID_BYTES + i] = (uint8_t)(counter >> (56 - 8 * i));
	return rpc_export(c, STRAIT_EXPORTER_LABEL, context, sizeof(context), secret,
		STRAIT_SECRET_BYTES);
}

/* Where a peer sends from and receives; all zeros: it does not say. */
static struct net_ip hello_ip(const Strait__SessionHello *m)
{
	struct net_ip ip = { .b = { 0 } };

	if (m->data_ipv4 != 0)
		return net_ip4(m->data_ipv4);
	if (m->has_data_ipv6 && m->data_ipv6.len == sizeof(ip.b))
		memcpy(ip.b, m->data_ipv6.data, sizeof(ip.b));
	return ip;
}

/* What is the same for all queues, but their credit. */
static int config_fill(struct session_config *cfg, struct peers *ps, const struct peer *p,
	const Strait__SessionHello *theirs, uint32_t own_id)
{
	*cfg = (struct session_config){ .own_session = own_id, .peer_session = theirs->session };
	cfg->direction = p != NULL ? STRAIT_DIR_INITIATOR : STRAIT_DIR_RESPONDER;
	cfg->aead = ps->cfg.aead != NULL ? ps->cfg.aead : aead_default();
	cfg->loss_prior = -1;
	cfg->symbol_bytes = ps->cfg.symbol_bytes;
	cfg->ip_bytes =
		(net_ip_is4(ps->cfg.data_ip) ? NET_IPV4_BYTES : NET_IPV6_BYTES) + NET_UDP_BYTES;
	if (theirs->symbol_bytes < cfg->symbol_bytes)
		cfg->symbol_bytes = (uint16_t)theirs->symbol_bytes;
	cfg->burst_packets = ps->cfg.burst_packets;
	cfg->log_packets = ps->cfg.log_packets;
	cfg->window_packets = ps->cfg.window_packets;
	cfg->scratch_slots = ps->cfg.scratch_slots;
	cfg->row_slots = ps->cfg.row_slots;
	return getrandom(&cfg->seed, sizeof(cfg->seed), 0) == sizeof(cfg->seed) ? 0 : -EIO;
}

/* A grant of HELLO is split evenly, by both sides in the same way. */
static struct session_credit queue_credit(uint64_t bytes, uint64_t objects, uint32_t queues)
{
	return (struct session_credit){ bytes / queues, objects / queues };
}

/* One queue of a session, not handed over yet. 0, -errno. */
static int queue_create(struct peer_session *s, uint32_t n, struct session_config *cfg,
	const Strait__SessionHello *theirs)
{
	struct peers *ps = s->ps;

	cfg->queue = (uint8_t)n;
	cfg->cap_bps = s->queues[n].cap_bps = peer_queue_cap(s, n);
	for (size_t i = 0; i < STRAIT_CLASS_COUNT; i++) {
		if (s->initiator)
			cfg->peer_credit[i] = queue_credit(theirs->credit[i]->bytes,
				theirs->credit[i]->objects, s->queue_count);
		else
			cfg->own_credit[i] = queue_credit(ps->cfg.credit[i].bytes,
				ps->cfg.credit[i].objects, s->queue_count);
	}
	control_queue_place(ps->queue, (int)n);
	s->queues[n].session = session_create(cfg);
	control_queue_place(ps->queue, -1);
	if (s->queues[n].session == NULL)
		return -errno;
	/* cfg.own_credit of an initiator is nothing, as it should be. */
	ingest_session_add(ps->ingest, &s->queues[n].ingest, s->queues[n].session, (uint8_t)n,
		cfg->own_credit);
	return 0;
}

/* Hand queue n to its worker. 0, -ENOMEM. */
static int queue_start(struct peer_session *s, uint32_t n, const Strait__SessionHello *theirs)
{
	struct peers *ps = s->ps;
	const struct worker_command add = { .type = WORKER_SESSION_ADD,
		.session = s->queues[n].session,
		.worker = (uint8_t)n,
		.session_id = s->own_id,
		.endpoint = { .local_ip = ps->cfg.data_ip,
			.remote_ip = hello_ip(theirs),
			.local_port = (uint16_t)(ps->cfg.data_port + n),
			.remote_port = (uint16_t)theirs->data_ports[n],
			.dscp = ps->cfg.dscp } };

	return control_queue_push(ps->queue, &add);
}

/* All queues, or none. 0, -errno. */
static int queues_create(struct peer_session *s, struct session_config *cfg,
	const Strait__SessionHello *theirs)
{
	uint32_t made = 0, started = 0;
	int ret = 0;

	for (; made < s->queue_count && ret == 0; made += ret == 0)
		ret = queue_create(s, made, cfg, theirs);
	for (; started < s->queue_count && ret == 0; started += ret == 0)
		ret = queue_start(s, started, theirs);
	/* Those that a worker has already come back by their events. */
	while (ret < 0 && made > started)
		queue_free(&s->queues[--made]);
	s->queues_left = made;
	return ret;
}

/* A session with the sender of `theirs` over c, handed to the workers. NULL + errno. */
static struct peer_session *session_new(struct peers *ps, struct rpc_conn *c, struct peer *p,
	uint32_t own_id, uint64_t counter, const Strait__SessionHello *theirs, uint64_t now_ns)
{
	const uint8_t *ib = p != NULL ? ps->cfg.boot_id : theirs->boot_id.data;
	const uint8_t *rb = p != NULL ? theirs->boot_id.data : ps->cfg.boot_id;
	struct session_config cfg;
	struct peer_session *s;
	int ret;

	if (ps->session_count >= PEER_SESSIONS_MAX) {
		errno = EUSERS;
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->ps = ps;
	s->remote = *rpc_peer(c);
	s->cap_bps = p != NULL ? peer_cap(p) : peers_cap(ps, s->remote.site);
	s->own_id = own_id;
	s->peer_id = theirs->session;
	s->initiator = p != NULL;
	s->peer = p;
	s->conn = p != NULL ? NULL : c;
	s->created_ns = now_ns;
	s->queue_count = theirs->n_data_ports < ps->cfg.queues ? (uint32_t)theirs->n_data_ports
							       : ps->cfg.queues;
	memcpy(s->boot_id, theirs->boot_id.data, sizeof(s->boot_id));
	ret = config_fill(&cfg, ps, p, theirs, own_id);
	if (ret == 0)
		ret = derive_secret(c, ib, rb, counter, cfg.secret);
	if (ret < 0)
		goto err;
	keylog_session(ps->cfg.keylog, p != NULL ? own_id : theirs->session,
		p != NULL ? theirs->session : own_id, cfg.secret);
	LIST_INSERT_HEAD(&ps->sessions, s, entry);
	ps->session_count++;
	ret = queues_create(s, &cfg, theirs);
	explicit_bzero(cfg.secret, sizeof(cfg.secret));
	if (ret < 0 && s->queues_left > 0) {
		/* Some workers have their part: it ends like any other. */
		s->peer = NULL;
		s->initiator = false;
		peer_session_close(s, "out of memory", false);
		errno = -ret;
		return NULL;
	}
	if (ret < 0) {
		session_free(s);
		errno = -ret;
		return NULL;
	}
	log_info("peer", "session begins peer=%s/%s id=%08x role=%s symbol=%u queues=%u",
		s->remote.site, s->remote.name, own_id, p != NULL ? "source" : "destination",
		cfg.symbol_bytes, s->queue_count);
	return s;
err:
	free(s);
	errno = -ret;
	return NULL;
}

/* ---- HELLO ------------------------------------------------------------------------------- */

/*
 * What a data address must not be, lest CHALLENGEs go where no edge can be; NULL: it may. 0/8 and
 * 127/8 are RFC 1122 section 3.2.1.3.
 */
static const char *address_check(struct net_ip ip, struct net_ip own)
{
	static const struct net_ip loopback6 = { .b = { [15] = 1 } };
	const bool is4 = net_ip_is4(ip);
	const uint32_t a = is4 ? net_ip_get4(ip) : 0;

	if (!net_ip_is_set(ip) || (is4 && a >> 24 == 0))
		return "no data address";
	if (is4 != net_ip_is4(own))
		return is4 ? "its data address is IPv4, ours is IPv6"
			   : "its data address is IPv6, ours is IPv4";
	if (net_ip_equal(ip, own))
		return "its data address is ours";
	if (is4 ? a >> 28 == 14 : ip.b[0] == 0xff)
		return "its data address is multicast";
	if (is4 && a == UINT32_MAX)
		return "its data address is broadcast";
	/* Two edges of one machine may speak over it. */
	if (is4 ? a >> 24 == 127 && net_ip_get4(own) >> 24 != 127 : net_ip_equal(ip, loopback6))
		return "its data address is loopback";
	return NULL;
}

/* What every HELLO must hold; NULL or what is wrong. */
static const char *hello_check(const Strait__SessionHello *m, const struct rpc_identity *id,
	struct net_ip own)
{
	const char *wrong;

	if (m->version != STRAIT_WIRE_VERSION)
		return "wire version not supported";
	if (strcmp(m->site, id->site) != 0 || strcmp(m->edge, id->name) != 0)
		return "site or edge is not the certificate's";
	if (m->boot_id.len != STRAIT_BOOT_ID_BYTES)
		return "boot id must have 16 bytes";
	if (m->session == 0)
		return "session id 0";
	if (m->n_data_ports < 1)
		return "no data address";
	for (size_t i = 0; i < m->n_data_ports; i++)
		if (m->data_ports[i] == 0 || m->data_ports[i] > UINT16_MAX)
			return "no data address";
	if (m->data_ipv4 == 0 && net_ip_is4(hello_ip(m)))
		return "no data address";
	wrong = address_check(hello_ip(m), own);
	if (wrong != NULL)
		return wrong;
	if (m->symbol_bytes < STRAIT_SYMBOL_BYTES_MIN || m->symbol_bytes > STRAIT_SYMBOL_BYTES_MAX)
		return "symbol size out of range";
	if (m->n_credit < STRAIT_CLASS_COUNT)
		return "credit of a class is missing";
	return NULL;
}

static int hello_write(struct peers *ps, struct rpc_conn *c, uint16_t type, uint64_t counter,
	uint32_t session, uint32_t resume, bool resumed, bool grant)
{
	Strait__SessionHello m = STRAIT__SESSION_HELLO__INIT;
	Strait__CreditGrant grants[STRAIT_CLASS_COUNT];
	Strait__CreditGrant *pointers[STRAIT_CLASS_COUNT];
	uint32_t ports[WORKERS_MAX];

	for (int i = 0; i < STRAIT_CLASS_COUNT; i++) {
		strait__credit_grant__init(&grants[i]);
		grants[i].bytes = grant ? ps->cfg.credit[i].bytes : 0;
		grants[i].objects = grant ? ps->cfg.credit[i].objects : 0;
		pointers[i] = &grants[i];
	}
	m.version = STRAIT_WIRE_VERSION;
	m.site = (char *)ps->cfg.site;
	m.edge = (char *)ps->cfg.edge;
	m.boot_id.data = ps->cfg.boot_id;
	m.boot_id.len = STRAIT_BOOT_ID_BYTES;
	m.session_counter = counter;
	m.session = session;
	if (net_ip_is4(ps->cfg.data_ip)) {
		m.data_ipv4 = net_ip_get4(ps->cfg.data_ip);
	} else {
		m.has_data_ipv6 = true;
		m.data_ipv6.data = ps->cfg.data_ip.b;
		m.data_ipv6.len = sizeof(ps->cfg.data_ip.b);
	}
	for (uint32_t i = 0; i < ps->cfg.queues; i++)
		ports[i] = ps->cfg.data_port + i;
	m.n_data_ports = ps->cfg.queues;
	m.data_ports = ports;
	m.symbol_bytes = ps->cfg.symbol_bytes;
	m.n_credit = STRAIT_CLASS_COUNT;
	m.credit = pointers;
	m.has_resume_session = resume != 0;
	m.resume_session = resume;
	m.has_resumed = resumed;
	m.resumed = resumed;
	return rpc_send(c, type, &m.base);
}

int peer_hello_send(struct peer *p, uint64_t now_ns)
{
	struct peers *ps = p->ps;
	int ret;

	p->hello_id = new_id(ps);
	if (p->hello_id == 0)
		return -EIO;
	p->hello_counter = ++ps->counter;
	p->hello_ns = now_ns;
	ret = hello_write(ps, p->conn, STRAIT__MSG_TYPE__MSG_SESSION_HELLO, p->hello_counter,
		p->hello_id, p->cur != NULL ? p->cur->own_id : 0, false, false);
	p->hello_sent = ret == 0;
	return ret;
}

static bool same_edge(const struct rpc_identity *a, const struct rpc_identity *b)
{
	return strcmp(a->site, b->site) == 0 && strcmp(a->name, b->name) == 0;
}

/* Our own sessions towards an edge that was restarted are void. */
static void drop_stale(struct peers *ps, const struct rpc_identity *id, const uint8_t *boot_id)
{
	struct peer *p;

	LIST_FOREACH(p, &ps->peers, entry) {
		if (same_edge(&p->remote, id) && p->cur != NULL &&
			memcmp(p->cur->boot_id, boot_id, STRAIT_BOOT_ID_BYTES) != 0)
			peer_session_close(p->cur, "the peer was restarted", false);
	}
}

static int hello_answer(struct peers *ps, struct rpc_conn *c, const Strait__SessionHello *m,
	uint64_t now_ns)
{
	const struct rpc_identity *id = rpc_peer(c);
	struct peer_session *s, *next;
	uint32_t own_id;

	LIST_FOREACH(s, &ps->sessions, entry) {
		if (m->has_resume_session && m->resume_session != 0 && !s->initiator &&
			!s->closing && s->peer_id == m->resume_session &&
			same_edge(&s->remote, id) &&
			memcmp(s->boot_id, m->boot_id.data, STRAIT_BOOT_ID_BYTES) == 0) {
			s->conn = c;
			log_info("peer", "session goes on peer=%s/%s id=%08x", id->site, id->name,
				s->own_id);
			return hello_write(ps, c, STRAIT__MSG_TYPE__MSG_SESSION_ACCEPT,
				m->session_counter, s->own_id, 0, true, true);
		}
	}
	for (s = LIST_FIRST(&ps->sessions); s != NULL; s = next) {
		next = LIST_NEXT(s, entry);
		if (!s->initiator && same_edge(&s->remote, id))
			peer_session_close(s, "the peer opened a new one", false);
	}
	own_id = new_id(ps);
	if (own_id == 0)
		return rpc_fail(c, EIO, "no randomness");
	s = session_new(ps, c, NULL, own_id, m->session_counter, m, now_ns);
	if (s == NULL) {
		int err = errno;

		log_error("peer", "no session for peer=%s/%s: %s", id->site, id->name,
			strerror(err));
		return rpc_fail(c, err, "no session can be created, see the log of the edge");
	}
	return hello_write(ps, c, STRAIT__MSG_TYPE__MSG_SESSION_ACCEPT, m->session_counter, own_id,
		0, false, true);
}

int peer_hello_received(struct peer_conn *pc, const uint8_t *body, size_t len, uint64_t now_ns)
{
	Strait__SessionHello *m = strait__session_hello__unpack(NULL, len, body);
	struct rpc_conn *c = pc->conn;
	struct peers *ps = pc->ps;
	const char *wrong;
	int ret;

	if (m == NULL)
		return rpc_fail(c, EPROTO, "malformed SESSION_HELLO");
	wrong = hello_check(m, rpc_peer(c), ps->cfg.data_ip);
	/*
	 * The same counter again would export the same secret, and we would seal other packets
	 * with numbers that its keys had before.
	 */
	if (wrong == NULL && pc->answered && m->session_counter <= pc->counter)
		wrong = "session counter is not above the last one of this connection";
	if (wrong != NULL) {
		log_warn("peer", "hello refused from=%s: %s", rpc_peer_address(c), wrong);
		ret = rpc_fail(c, EPROTO, "%s", wrong);
	} else if (ps->draining) {
		ret = rpc_fail(c, ESHUTDOWN, "the edge is draining");
	} else if (peers_are_fenced(ps, rpc_peer(c))) {
		ret = rpc_fail(c, EACCES,
			"the master has lost this edge and gave its orders to others");
	} else {
		pc->answered = true;
		pc->counter = m->session_counter;
		drop_stale(ps, rpc_peer(c), m->boot_id.data);
		ret = hello_answer(ps, c, m, now_ns);
	}
	strait__session_hello__free_unpacked(m, NULL);
	return ret;
}

int peer_accept_received(struct peer *p, const uint8_t *body, size_t len, uint64_t now_ns)
{
	Strait__SessionHello *m = strait__session_hello__unpack(NULL, len, body);
	struct peers *ps = p->ps;
	const char *wrong;
	int ret = 0;

	if (m == NULL)
		return -EPROTO;
	wrong = p->hello_sent ? hello_check(m, rpc_peer(p->conn), ps->cfg.data_ip)
			      : "SESSION_ACCEPT not asked for";
	p->hello_sent = false;
	if (wrong != NULL) {
		log_warn("peer", "accept refused peer=%s/%s: %s", p->remote.site, p->remote.name,
			wrong);
		ret = -EPROTO;
		goto out;
	}
	p->failures = 0;
	if (m->has_resumed && m->resumed) {
		if (p->cur != NULL &&
			memcmp(p->cur->boot_id, m->boot_id.data, STRAIT_BOOT_ID_BYTES) == 0)
			goto out;
		/* It ended here meanwhile: the next tick asks for a new one. */
		goto out;
	}
	if (p->cur != NULL)
		peer_session_close(p->cur, "the peer does not know it any more", false);
	p->cur = session_new(ps, p->conn, p, p->hello_id, p->hello_counter, m, now_ns);
	if (p->cur == NULL) {
		ret = -errno;
		log_error("peer", "no session with peer=%s/%s: %s", p->remote.site, p->remote.name,
			strerror(-ret));
		goto out;
	}
	p->link.queue_count = p->cur->queue_count;
	for (uint32_t i = 0; i < p->cur->queue_count; i++) {
		struct order_queue *q = &p->link.queues[i];

		q->session = p->cur->queues[i].session;
		q->symbol_bytes = ps->cfg.symbol_bytes;
		if (m->symbol_bytes < q->symbol_bytes)
			q->symbol_bytes = (uint16_t)m->symbol_bytes;
	}
	ps->kick(ps->ctx);
out:
	strait__session_hello__free_unpacked(m, NULL);
	return ret;
}

int peer_reset_received(struct peers *ps, struct rpc_conn *c, const uint8_t *body, size_t len)
{
	Strait__SessionReset *m = strait__session_reset__unpack(NULL, len, body);
	struct peer_session *s, *next;

	if (m == NULL)
		return -EPROTO;
	for (s = LIST_FIRST(&ps->sessions); s != NULL; s = next) {
		next = LIST_NEXT(s, entry);
		if (s->own_id == m->session && same_edge(&s->remote, rpc_peer(c)))
			peer_session_close(s, "reset by the peer", false);
	}
	strait__session_reset__free_unpacked(m, NULL);
	return 0;
}
