/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/peer.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "dataplane/edge/order_fakes.h"

#include <event2/event.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Two edges in one process, real connections over the loopback, workers that only take notes. */

#define LIMIT_NS 10000000000ULL

struct side {
	struct fake_worker worker;
	struct control_queue queue;
	struct ingest *ingest;
	struct orders *orders;
	struct peers *peers;
	struct rpc_tls *tls;
	unsigned int answered; /* commands whose events were made up */
};

struct world {
	struct event_base *base;
	struct side a, b;
	struct order_link *link;
};

static struct pool *no_pool(void *ctx, const uint8_t *tenant, size_t len)
{
	(void)ctx;
	(void)tenant;
	(void)len;
	return NULL;
}

static struct order_link *no_link(void *ctx, const Strait__OrderStart *m)
{
	(void)ctx;
	(void)m;
	return NULL;
}

static void kick(void *ctx)
{
	(void)ctx;
}

static const struct order_ops order_ops = { .pool = no_pool, .link = no_link, .kick = kick };
static const struct ingest_ops ingest_ops = { .pool = no_pool, .kick = kick };

static uint64_t total_cap_bps; /* of sides that are started; 0: none */

static void start_with(struct world *w, struct side *s, const char *site, uint8_t boot,
	const char *listen, struct net_ip ip, uint8_t queues)
{
	struct rpc_tls_config tls = { .insecure_loopback = true };
	struct peers_config cfg = { .site = site,
		.edge = "e1",
		.data_ip = ip,
		.data_port = 4790,
		.symbol_bytes = site[0] == 'a' ? 1432 : 1400,
		.cap_bps = 1000000000,
		.total_cap_bps = total_cap_bps,
		.queues = queues,
		.listen = listen };
	char err[256];

	memset(s, 0, sizeof(*s));
	s->worker.room = UINT32_MAX;
	memset(cfg.boot_id, boot, sizeof(cfg.boot_id));
	for (int i = 0; i < STRAIT_CLASS_COUNT; i++)
		cfg.credit[i] = (struct session_credit){ 1 << 24, 100 };
	snprintf(tls.self.site, sizeof(tls.self.site), "%s", site);
	snprintf(tls.self.role, sizeof(tls.self.role), "edge");
	snprintf(tls.self.name, sizeof(tls.self.name), "e1");
	control_queue_init(&s->queue, fake_push, &s->worker);
	s->ingest = ingest_create(&ingest_ops, s, &s->queue);
	s->orders = orders_create(&order_ops, s, &s->queue);
	s->tls = rpc_tls_create(&tls, err, sizeof(err));
	assert_non_null(s->tls);
	s->peers = peers_create(&cfg, w->base, s->tls, &s->queue, s->ingest, kick, s, err,
		sizeof(err));
	if (s->peers == NULL)
		fail_msg("%s", err);
}

static void start_at(struct world *w, struct side *s, const char *site, uint8_t boot,
	const char *listen, struct net_ip ip)
{
	start_with(w, s, site, boot, listen, ip, 0);
}

static void start(struct world *w, struct side *s, const char *site, uint8_t boot,
	const char *listen)
{
	start_at(w, s, site, boot, listen, net_ip4(0x0a000000u + (uint8_t)site[0]));
}

/* A worker that let go of the sessions it was told to. */
static void answer(struct side *s)
{
	for (; s->answered < s->worker.count; s->answered++) {
		struct worker_event ev = { .type = WORKER_EVENT_SESSION_GONE,
			.session = s->worker.commands[s->answered].session };

		if (s->worker.commands[s->answered].type == WORKER_SESSION_DEL)
			peers_event(s->peers, s->orders, clock_now_ns(), &ev);
	}
}

static void stop(struct side *s)
{
	peers_stop(s->peers);
	answer(s);
	assert_int_equal(peers_session_count(s->peers), 0);
	peers_destroy(s->peers);
	orders_destroy(s->orders);
	ingest_destroy(s->ingest);
	rpc_tls_destroy(s->tls);
	control_queue_fini(&s->queue);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	log_set_level(LOG_LEVEL_ERROR);
	w->base = event_base_new();
	start(w, &w->a, "a", 1, "127.0.0.1:0");
	start(w, &w->b, "b", 2, "127.0.0.1:0");
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	stop(&w->a);
	stop(&w->b);
	event_base_free(w->base);
	free(w);
	return 0;
}

static void turn(struct world *w, uint64_t ahead_ns)
{
	peers_tick(w->a.peers, clock_now_ns() + ahead_ns);
	peers_tick(w->b.peers, clock_now_ns() + ahead_ns);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	answer(&w->a);
	answer(&w->b);
}

#define UNTIL(w, cond)                                                                             \
	do {                                                                                       \
		uint64_t since_ = clock_now_ns();                                                  \
		while (!(cond)) {                                                                  \
			turn(w, 0);                                                                \
			if (clock_now_ns() - since_ > LIMIT_NS)                                    \
				fail_msg("%s did not come", #cond);                                \
		}                                                                                  \
	} while (0)

static void want(struct world *w, const char *edge)
{
	Strait__OrderStart m = STRAIT__ORDER_START__INIT;
	char address[64];

	snprintf(address, sizeof(address), "127.0.0.1:%u", peers_listen_port(w->b.peers));
	m.to_site = (char *)"b";
	m.to_edge = (char *)edge;
	m.to_mgmt_address = address;
	m.has_cap_bps = true;
	m.cap_bps = 500000000;
	w->link = peers_link(w->a.peers, &m);
	assert_non_null(w->link);
	w->link->orders = 1;
}

static void an_order_opens_one_session_at_both_ends(void **state)
{
	struct world *w = *state;
	struct worker_command a = { 0 }, b = { 0 };

	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	assert_int_equal(fake_count(&w->a.worker, WORKER_SESSION_ADD, &a), 1);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, &b), 1);
	assert_ptr_equal(a.session, w->link->queues[0].session);
	assert_int_not_equal(a.session_id, 0);
	assert_int_equal(w->link->queues[0].symbol_bytes, 1400);
	assert_int_equal(a.endpoint.remote_port, 4790);
	want(w, "e1");
	turn(w, 0);
	assert_int_equal(fake_count(&w->a.worker, WORKER_SESSION_ADD, NULL), 1);
}

static void edges_over_ipv6_tell_their_addresses(void **state)
{
	static const struct net_ip ip_a = { .b = { 0xfd, [15] = 1 } };
	static const struct net_ip ip_b = { .b = { 0xfd, [15] = 2 } };
	struct world *w = *state;
	struct worker_command a = { 0 }, b = { 0 };

	stop(&w->a);
	stop(&w->b);
	start_at(w, &w->a, "a", 1, "127.0.0.1:0", ip_a);
	start_at(w, &w->b, "b", 2, "127.0.0.1:0", ip_b);
	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	assert_int_equal(fake_count(&w->a.worker, WORKER_SESSION_ADD, &a), 1);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, &b), 1);
	assert_true(net_ip_equal(a.endpoint.remote_ip, ip_b));
	assert_true(net_ip_equal(a.endpoint.local_ip, ip_a));
	assert_true(net_ip_equal(b.endpoint.remote_ip, ip_a));
}

static void edges_of_different_ip_get_no_session(void **state)
{
	static const struct net_ip ip_b = { .b = { 0xfd, [15] = 2 } };
	struct world *w = *state;

	stop(&w->b);
	start_at(w, &w->b, "b", 2, "127.0.0.1:0", ip_b);
	want(w, "e1");
	for (int i = 0; i < 300; i++)
		turn(w, 0);
	assert_null(w->link->queues[0].session);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, NULL), 0);
}

static void no_session_with_a_data_address_that_no_edge_can_have(void **state)
{
	static const struct net_ip wrong[] = { NET_IP4_INIT(0x00000001u), NET_IP4_INIT(0x7f000001u),
		NET_IP4_INIT(0x7fffffffu), NET_IP4_INIT(0xe0000001u), NET_IP4_INIT(0xefffffffu),
		NET_IP4_INIT(0xffffffffu), NET_IP4_INIT(0x0a000062u) };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		stop(&w->a);
		start_at(w, &w->a, "a", (uint8_t)(i + 3), "127.0.0.1:0", wrong[i]);
		want(w, "e1");
		for (int n = 0; n < 100; n++)
			turn(w, 0);
		assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, NULL), 0);
	}
}

static void edges_of_one_machine_speak_over_the_loopback(void **state)
{
	struct world *w = *state;

	stop(&w->a);
	stop(&w->b);
	start_at(w, &w->a, "a", 1, "127.0.0.1:0", net_ip4(0x7f000001));
	start_at(w, &w->b, "b", 2, "127.0.0.1:0", net_ip4(0x7f000002));
	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
}

/* ---- HELLO of a peer that is not one of ours --------------------------------------------- */

struct caller {
	struct rpc_conn *conn;
	unsigned int accepted;
	bool closed;
	char text[128];
};

static int caller_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len,
	void *ctx)
{
	struct caller *k = ctx;

	(void)c;
	(void)body;
	(void)len;
	k->accepted += type == STRAIT__MSG_TYPE__MSG_SESSION_ACCEPT;
	return 0;
}

static int caller_open(struct rpc_conn *c, void *ctx)
{
	(void)c;
	(void)ctx;
	return 0;
}

static void caller_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct caller *k = ctx;

	(void)c;
	(void)err;
	snprintf(k->text, sizeof(k->text), "%s", text);
	k->closed = true;
}

static const struct rpc_handler caller_handler = { caller_open, caller_message, caller_close };

static void call(struct world *w, struct caller *k)
{
	char address[64];

	memset(k, 0, sizeof(*k));
	snprintf(address, sizeof(address), "127.0.0.1:%u", peers_listen_port(w->b.peers));
	k->conn = rpc_connect(w->base, w->a.tls, address, "edge", &caller_handler, k);
	assert_non_null(k->conn);
	UNTIL(w, rpc_peer(k->conn)->site[0] != '\0');
}

static void say_hello(struct caller *k, uint64_t counter, uint32_t session)
{
	Strait__SessionHello m = STRAIT__SESSION_HELLO__INIT;
	Strait__CreditGrant grant = STRAIT__CREDIT_GRANT__INIT;
	Strait__CreditGrant *grants[STRAIT_CLASS_COUNT] = { &grant, &grant, &grant };
	uint8_t boot[STRAIT_BOOT_ID_BYTES] = { 7 };
	uint32_t port = 4790;

	m.version = STRAIT_WIRE_VERSION;
	m.site = (char *)"a";
	m.edge = (char *)"e1";
	m.boot_id.data = boot;
	m.boot_id.len = sizeof(boot);
	m.session_counter = counter;
	m.session = session;
	m.data_ipv4 = 0x0a000061;
	m.n_data_ports = 1;
	m.data_ports = &port;
	m.symbol_bytes = 1432;
	m.n_credit = STRAIT_CLASS_COUNT;
	m.credit = grants;
	assert_int_equal(rpc_send(k->conn, STRAIT__MSG_TYPE__MSG_SESSION_HELLO, &m.base), 0);
}

/* Its exporter context would be that of the session before, and so would its keys. */
static void a_session_counter_is_taken_once_a_connection(void **state)
{
	static const uint64_t again[] = { 5, 4, 0 };
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++) {
		struct caller k;

		call(w, &k);
		say_hello(&k, 4, 1);
		say_hello(&k, 5, 2);
		UNTIL(w, k.accepted == 2);
		say_hello(&k, again[i], 3);
		UNTIL(w, k.closed);
		assert_int_equal(k.accepted, 2);
		assert_non_null(strstr(k.text, "session counter"));
		assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, NULL), 2 * (i + 1));
		assert_int_equal(peers_session_count(w->b.peers), 1);
	}
}

static void a_smaller_path_lowers_the_symbols_of_what_starts(void **state)
{
	struct world *w = *state;
	struct worker_event ev = { .type = WORKER_EVENT_SESSION,
		.ev = { .type = SESSION_EVENT_PATH, .object = 1212 } };

	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	ev.session = w->link->queues[0].session;
	peers_event(w->a.peers, w->a.orders, clock_now_ns(), &ev);
	assert_int_equal(w->link->queues[0].symbol_bytes, 1212);
}

static void a_session_outlives_its_connection(void **state)
{
	struct world *w = *state;
	struct session *session;
	Strait__OrderStart m = STRAIT__ORDER_START__INIT;
	char other[64];

	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	session = w->link->queues[0].session;
	/* The same edge behind another name: the old connection goes, a new one is made. */
	snprintf(other, sizeof(other), "localhost:%u", peers_listen_port(w->b.peers));
	m.to_site = (char *)"b";
	m.to_edge = (char *)"e1";
	m.to_mgmt_address = other;
	peers_link(w->a.peers, &m);
	/* The first retry comes within 200 ms. */
	for (uint64_t since = clock_now_ns(); clock_now_ns() - since < 500000000ULL;)
		turn(w, 0);
	assert_ptr_equal(w->link->queues[0].session, session);
	assert_int_equal(fake_count(&w->a.worker, WORKER_SESSION_DEL, NULL), 0);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_DEL, NULL), 0);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, NULL), 1);
}

static void a_restarted_peer_gets_a_new_session(void **state)
{
	struct world *w = *state;
	struct worker_command first, second;
	char listen[64];

	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	fake_count(&w->a.worker, WORKER_SESSION_ADD, &first);
	snprintf(listen, sizeof(listen), "127.0.0.1:%u", peers_listen_port(w->b.peers));
	stop(&w->b);
	start(w, &w->b, "b", 3, listen);
	UNTIL(w, fake_count(&w->a.worker, WORKER_SESSION_ADD, &second) == 2);
	assert_int_equal(fake_count(&w->a.worker, WORKER_SESSION_DEL, NULL), 1);
	assert_ptr_equal(w->link->queues[0].session, second.session);
	assert_int_not_equal(first.session_id, second.session_id);
	assert_int_equal(peers_session_count(w->b.peers), 1);
}

static void another_edge_than_the_ordered_one_is_not_talked_to(void **state)
{
	struct world *w = *state;

	want(w, "e2");
	for (int i = 0; i < 500; i++)
		turn(w, 0);
	assert_null(w->link->queues[0].session);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, NULL), 0);
	peers_tick(w->a.peers, clock_now_ns() + (PEER_UNREACHABLE_MS + 1000) * 1000000ULL);
	assert_true(w->link->unreachable);
}

static void a_draining_edge_takes_no_session(void **state)
{
	struct world *w = *state;

	peers_drain(w->b.peers);
	want(w, "e1");
	for (int i = 0; i < 500; i++)
		turn(w, 0);
	assert_null(w->link->queues[0].session);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, NULL), 0);
}

static void a_dead_session_is_replaced_while_it_is_wanted(void **state)
{
	struct worker_event dead = { .type = WORKER_EVENT_SESSION,
		.ev = { .type = SESSION_EVENT_DEAD } };
	struct world *w = *state;

	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	dead.session = w->link->queues[0].session;
	peers_event(w->a.peers, w->a.orders, clock_now_ns(), &dead);
	assert_null(w->link->queues[0].session);
	UNTIL(w, w->link->queues[0].session != NULL);
	UNTIL(w, fake_count(&w->b.worker, WORKER_SESSION_DEL, NULL) == 1);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, NULL), 2);
	/* Not wanted any more: none is made. */
	dead.session = w->link->queues[0].session;
	w->link->orders = 0;
	peers_event(w->a.peers, w->a.orders, clock_now_ns(), &dead);
	for (int i = 0; i < 100; i++)
		turn(w, 0);
	assert_null(w->link->queues[0].session);
}

/* Both edges anew, with so many workers. */
static void restart(struct world *w, uint8_t a, uint8_t b)
{
	stop(&w->a);
	stop(&w->b);
	start_with(w, &w->a, "a", 1, "127.0.0.1:0", net_ip4(0x0a000001), a);
	start_with(w, &w->b, "b", 2, "127.0.0.1:0", net_ip4(0x0a000002), b);
}

static void event_of(struct side *s, enum session_event_type type, struct session *session)
{
	struct worker_event ev = { .type = WORKER_EVENT_SESSION,
		.session = session,
		.ev = { .type = type } };

	peers_event(s->peers, s->orders, clock_now_ns(), &ev);
}

static void look_at_link(void *ctx, const struct peer_link *l)
{
	*(struct peer_link *)ctx = *l;
}

static void a_session_has_as_many_queues_as_both_sides_have_workers(void **state)
{
	struct world *w = *state;
	struct peer_link link = { 0 };
	uint64_t sum = 0;
	int seen = 0;

	restart(w, 4, 3);
	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	assert_int_equal(w->link->queue_count, 3);
	assert_null(w->link->queues[3].session);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, NULL), 3);
	for (unsigned int i = 0; i < w->a.worker.count; i++) {
		const struct worker_command *c = &w->a.worker.commands[i];

		if (c->type != WORKER_SESSION_ADD)
			continue;
		assert_ptr_equal(c->session, w->link->queues[c->worker].session);
		assert_int_equal(c->endpoint.local_port, 4790 + c->worker);
		assert_int_equal(c->endpoint.remote_port, 4790 + c->worker);
		assert_int_equal(c->session_id, w->a.worker.commands[0].session_id);
		seen |= 1 << c->worker;
	}
	assert_int_equal(seen, 7);
	/* The link's cap of 500 Mbit/s is split. */
	peers_links(w->a.peers, look_at_link, &link);
	assert_int_equal(link.queue_count, 3);
	for (uint32_t q = 0; q < 3; q++)
		sum += link.queues[q].cap_bps;
	assert_in_range(sum, 499999990, 500000000);
	/* It is up when the last of its queues is. */
	event_of(&w->a, SESSION_EVENT_UP, w->link->queues[2].session);
	event_of(&w->a, SESSION_EVENT_UP, w->link->queues[0].session);
	peers_links(w->a.peers, look_at_link, &link);
	assert_false(link.up);
	event_of(&w->a, SESSION_EVENT_UP, w->link->queues[1].session);
	peers_links(w->a.peers, look_at_link, &link);
	assert_true(link.up);
}

static void a_dead_queue_ends_the_whole_session(void **state)
{
	struct world *w = *state;

	restart(w, 2, 2);
	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	event_of(&w->a, SESSION_EVENT_DEAD, w->link->queues[1].session);
	assert_null(w->link->queues[0].session);
	assert_null(w->link->queues[1].session);
	assert_int_equal(fake_count(&w->a.worker, WORKER_SESSION_DEL, NULL), 2);
	UNTIL(w, fake_count(&w->b.worker, WORKER_SESSION_DEL, NULL) == 2);
	UNTIL(w, w->link->queues[1].session != NULL);
}

static void a_worker_without_room_ends_the_whole_session(void **state)
{
	struct world *w = *state;
	struct worker_event gone = { .type = WORKER_EVENT_SESSION_GONE };

	restart(w, 2, 2);
	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	gone.session = w->link->queues[1].session;
	peers_event(w->a.peers, w->a.orders, clock_now_ns(), &gone);
	assert_null(w->link->queues[0].session);
	answer(&w->a);
	assert_int_equal(peers_session_count(w->a.peers), 0);
}

/* What the workers of A have to send, for peers_split(). */
static uint64_t backlogs[2];

static bool figures(void *ctx, uint8_t worker, const struct session *s, struct session_stats *out)
{
	(void)ctx;
	(void)s;
	memset(out, 0, sizeof(*out));
	out->backlog_bytes = backlogs[worker];
	return true;
}

static void the_cap_follows_what_the_queues_have_to_send(void **state)
{
	struct world *w = *state;
	struct peer_link link = { 0 };

	restart(w, 2, 2);
	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	w->link->live = 1;
	backlogs[0] = 3000000;
	backlogs[1] = 1000000;
	peers_split(w->a.peers, figures, NULL);
	peers_links(w->a.peers, look_at_link, &link);
	/* An eighth evenly, the rest 3 to 1. */
	assert_in_range(link.queues[0].cap_bps, 359000000, 360000000);
	assert_in_range(link.queues[1].cap_bps, 140000000, 141000000);
	/* A little more or less is not worth a command. */
	w->a.worker.count = w->a.answered;
	backlogs[0] = 3100000;
	peers_split(w->a.peers, figures, NULL);
	assert_int_equal(fake_count(&w->a.worker, WORKER_SESSION_CAP, NULL), 0);
	/* Who has nothing keeps enough to start with, and is lowered first. */
	backlogs[0] = 0;
	peers_split(w->a.peers, figures, NULL);
	assert_int_equal(w->a.worker.commands[w->a.worker.count - 2].worker, 0);
	assert_int_equal(w->a.worker.commands[w->a.worker.count - 2].value, 31250000);
	assert_in_range(w->a.worker.commands[w->a.worker.count - 1].value, 468000000, 468750000);
	w->link->live = 0;
}

/* The master's word to an edge: a share for the link to b/e1 (0: none is said), who is fenced. */
static bool links(struct side *s, const char *to, uint64_t bps, const char *fenced)
{
	Strait__EdgeLinks m = STRAIT__EDGE_LINKS__INIT;
	Strait__EdgeLink link = STRAIT__EDGE_LINK__INIT, *list = &link;
	char *names[] = { (char *)fenced };

	link.to_site = (char *)"b";
	link.to_edge = (char *)to;
	link.cap_bps = bps;
	m.n_links = to != NULL;
	m.links = &list;
	m.n_fenced = fenced != NULL;
	m.fenced = names;
	return peers_take_links(s->peers, &m);
}

static bool no_stats(void *ctx, uint8_t worker, const struct session *s, struct session_stats *out)
{
	(void)ctx;
	(void)worker;
	(void)s;
	(void)out;
	return false;
}

/* The master's word of the link to b/e1: its share, to what that may rise; 0: it does not say. */
static bool tell_share(struct side *s, uint64_t bps, uint64_t most_bps)
{
	Strait__EdgeLinks m = STRAIT__EDGE_LINKS__INIT;
	Strait__EdgeLink link = STRAIT__EDGE_LINK__INIT, *list = &link;

	link.to_site = (char *)"b";
	link.to_edge = (char *)"e1";
	link.cap_bps = bps;
	link.has_most_bps = most_bps != 0;
	link.most_bps = most_bps;
	m.n_links = 1;
	m.links = &list;
	return peers_take_links(s->peers, &m);
}

/* A share of 12 Mbit/s that may rise so far: what an order may hope for. */
static void share_limits(struct world *w, uint64_t most_bps, uint64_t least, uint64_t most)
{
	assert_true(tell_share(&w->a, 12000000, most_bps));
	peers_measure(w->a.peers, clock_now_ns(), no_stats, NULL);
	assert_in_range(w->link->limit_bps, least, most);
}

static void a_deadline_is_judged_by_what_a_share_rises_to(void **state)
{
	struct world *w = *state;

	want(w, "e1");
	share_limits(w, 40000000, 35000000, 40000000);
	assert_in_range(w->link->goodput_bps, 35000000, 40000000);
	/* of our own, where that is less, and of the share where the master tells no more */
	share_limits(w, 2000000000, 900000000, 1000000000);
	share_limits(w, 0, 10000000, 12000000);
}

/* An idle link's share is no limit of what an order that begins may get. */
static void a_deadline_is_not_judged_by_an_idle_share_of_a_total_cap(void **state)
{
	struct world *w = *state;

	total_cap_bps = 800000000;
	restart(w, 1, 1);
	total_cap_bps = 0;
	want(w, "e1");
	share_limits(w, 400000000, 350000000, 400000000);
	share_limits(w, 2000000000, 700000000, 800000000);
}

static uint64_t last_cap(struct side *s)
{
	struct worker_command c = { 0 };

	(void)fake_count(&s->worker, WORKER_SESSION_CAP, &c);
	return c.value;
}

static void a_share_of_the_master_is_the_link_s_cap(void **state)
{
	struct peer_link_cap cap[4];
	struct world *w = *state;

	assert_int_equal(peers_list_links(w->a.peers, cap, 4), 0);
	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	assert_true(links(&w->a, "e1", 200000000, NULL));
	assert_int_equal(last_cap(&w->a), 200000000);
	assert_int_equal(peers_list_links(w->a.peers, cap, 4), 1);
	assert_string_equal(cap[0].edge, "e1");
	assert_int_equal(cap[0].bps, 200000000);
	/* no more than our own, which counts when there is no other */
	assert_true(links(&w->a, "e1", 2000000000, NULL));
	assert_int_equal(last_cap(&w->a), 1000000000);
	assert_true(links(&w->a, "e1", 300000000, NULL));
	assert_true(links(&w->a, "e1", 0, NULL));
	assert_int_equal(last_cap(&w->a), 1000000000);
	/* others are not met, none are made */
	assert_true(links(&w->a, "e2", 5, NULL));
	assert_int_equal(peers_list_links(w->a.peers, cap, 4), 1);
}

static void a_share_that_a_worker_was_not_told_is_not_done(void **state)
{
	struct world *w = *state;

	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	w->a.worker.room = 0;
	(void)links(&w->a, "e1", 200000000,
		NULL); /* the edge answers only when the queue is empty */
	assert_false(control_queue_flush(&w->a.queue));
	w->a.worker.room = UINT32_MAX;
	assert_true(links(&w->a, "e1", 200000000, NULL));
	assert_true(control_queue_flush(&w->a.queue));
	assert_int_equal(last_cap(&w->a), 200000000);
}

static void an_edge_that_is_fenced_has_no_session_and_gets_none(void **state)
{
	struct world *w = *state;

	want(w, "e1");
	UNTIL(w, w->link->queues[0].session != NULL);
	assert_true(links(&w->b, NULL, 0, "a/other"));
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_DEL, NULL), 0);
	assert_true(links(&w->b, NULL, 0, "a/e1"));
	UNTIL(w, w->link->queues[0].session == NULL);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_DEL, NULL), 1);
	for (int i = 0; i < 500; i++)
		turn(w, 0);
	assert_null(w->link->queues[0].session);
	assert_int_equal(fake_count(&w->b.worker, WORKER_SESSION_ADD, NULL), 1);
	/* until the master says no more that it is lost */
	assert_true(links(&w->b, NULL, 0, NULL));
	for (int i = 0; i < 2000 && w->link->queues[0].session == NULL; i++)
		turn(w, 60000000000);
	assert_non_null(w->link->queues[0].session);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_order_opens_one_session_at_both_ends),
		TEST(edges_over_ipv6_tell_their_addresses),
		TEST(edges_of_different_ip_get_no_session),
		TEST(no_session_with_a_data_address_that_no_edge_can_have),
		TEST(edges_of_one_machine_speak_over_the_loopback),
		TEST(a_session_counter_is_taken_once_a_connection),
		TEST(a_smaller_path_lowers_the_symbols_of_what_starts),
		TEST(a_session_outlives_its_connection),
		TEST(a_restarted_peer_gets_a_new_session),
		TEST(another_edge_than_the_ordered_one_is_not_talked_to),
		TEST(a_draining_edge_takes_no_session),
		TEST(a_dead_session_is_replaced_while_it_is_wanted),
		TEST(a_session_has_as_many_queues_as_both_sides_have_workers),
		TEST(a_dead_queue_ends_the_whole_session),
		TEST(a_worker_without_room_ends_the_whole_session),
		TEST(the_cap_follows_what_the_queues_have_to_send),
		TEST(a_deadline_is_judged_by_what_a_share_rises_to),
		TEST(a_deadline_is_not_judged_by_an_idle_share_of_a_total_cap),
		TEST(a_share_of_the_master_is_the_link_s_cap),
		TEST(a_share_that_a_worker_was_not_told_is_not_done),
		TEST(an_edge_that_is_fenced_has_no_session_and_gets_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
