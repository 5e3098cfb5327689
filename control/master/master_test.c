/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/master_fixture.h"

#include <strait/status.h>

#include <errno.h>

/*
 * A real master in a child process, so that it can be killed; edges and operators are connections
 * of this one. The edge does as a real one: it goes on with orders it knows, keeps results until
 * they are acknowledged, and comes back when the master does.
 */

enum { ORDERS = 40, OBJECTS_MAX = 70000 };

struct fake_order {
	uint64_t wire;
	uint32_t count, finished, acked;
	bool forgotten, canceled;
};

struct world;

struct fake_edge {
	struct world *w;
	struct rpc_tls *tls;
	struct rpc_conn *conn;
	const char *site, *name;
	struct fake_order orders[4 * ORDERS];
	uint32_t norders;
	uint64_t term, highest_term;
	unsigned int accepted, closed, started;
	uint8_t answer; /* status of the objects */
	bool silent;    /* takes orders and never finishes them */
	bool stay_away;
	uint8_t boot; /* another one is another process */
	char text[256];
};

struct world {
	struct fixture_master master;
	struct event_base *base;
	struct event *retry;
	struct fake_edge a, b;
	struct fixture_operator op;
	uint32_t seed;
};

static uint32_t rnd(struct world *w, uint32_t n)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)(w->seed >> 4) * n >> 28);
}

/*
 * ---- the edge
 * ----------------------------------------------------------------------------------------
 */

static struct fake_order *edge_order(struct fake_edge *e, uint64_t wire)
{
	for (uint32_t i = 0; i < e->norders; i++)
		if (e->orders[i].wire == wire)
			return &e->orders[i];
	return NULL;
}

/* Everything unacknowledged of an order, objects in their order. */
static void edge_send_results(struct fake_edge *e, const struct fake_order *o)
{
	Strait__OrderResults msg = STRAIT__ORDER_RESULTS__INIT;
	uint32_t n = o->finished - o->acked;
	Strait__ObjectResult *results = calloc(n + 1, sizeof(*results));
	Strait__ObjectResult **pointers = calloc(n + 1, sizeof(*pointers));

	for (uint32_t i = 0; i < n; i++) {
		strait__object_result__init(&results[i]);
		results[i].index = o->acked + i;
		results[i].status = e->answer;
		results[i].has_length = true;
		results[i].length = 1000;
		pointers[i] = &results[i];
	}
	msg.order = o->wire;
	msg.first = o->acked;
	msg.n_results = n;
	msg.results = pointers;
	if (n > 0)
		rpc_send(e->conn, STRAIT__MSG_TYPE__MSG_ORDER_RESULTS, &msg.base);
	free(results);
	free(pointers);
}

static void edge_start(struct fake_edge *e, const Strait__OrderStart *msg)
{
	struct fake_order *o = edge_order(e, msg->order);

	assert_int_equal(msg->term, e->term);
	assert_string_equal(msg->to_mgmt_address, "127.0.0.1:7402");
	e->started++;
	if (o == NULL) {
		assert_true(e->norders < 4 * ORDERS);
		o = &e->orders[e->norders++];
		*o = (struct fake_order){ .wire = msg->order, .count = (uint32_t)msg->n_objects };
	}
	assert_int_equal(o->count, msg->n_objects);
	if (e->silent)
		return;
	/* half at once, the rest with the next call: so that a kill may fall in between */
	o->finished = o->finished < o->count / 2 ? o->count / 2 : o->count;
	edge_send_results(e, o);
	o->finished = o->count;
	edge_send_results(e, o);
}

static void edge_ack(struct fake_edge *e, const Strait__OrderResultsAck *msg)
{
	struct fake_order *o = edge_order(e, msg->order);

	if (o == NULL)
		return;
	if (msg->next > o->acked)
		o->acked = msg->next < o->finished ? msg->next : o->finished;
	o->forgotten = o->forgotten || msg->forget;
}

static int edge_open(struct rpc_conn *c, void *ctx)
{
	Strait__EdgeRegister msg = STRAIT__EDGE_REGISTER__INIT;
	struct fake_edge *e = ctx;
	uint8_t boot[16] = { e->boot };

	e->conn = c;
	msg.version = 1;
	msg.site = (char *)e->site;
	msg.edge = (char *)e->name;
	msg.boot_id.data = boot;
	msg.boot_id.len = sizeof(boot);
	msg.mgmt_address = (char *)(e->site[0] == 'a' ? "127.0.0.1:7401" : "127.0.0.1:7402");
	msg.highest_term = e->highest_term;
	return rpc_send(c, STRAIT__MSG_TYPE__MSG_EDGE_REGISTER, &msg.base);
}

static int edge_message_cb(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len,
	void *ctx)
{
	struct fake_edge *e = ctx;
	Strait__EdgeAccept *accept;
	Strait__OrderStart *start;
	Strait__OrderResultsAck *ack;
	Strait__OrderCancel *cancel;
	struct fake_order *o;

	(void)c;
	switch (type) {
	case STRAIT__MSG_TYPE__MSG_EDGE_ACCEPT:
		accept = strait__edge_accept__unpack(NULL, len, body);
		e->accepted++;
		e->term = e->highest_term = accept->term;
		strait__edge_accept__free_unpacked(accept, NULL);
		for (uint32_t i = 0; i < e->norders; i++)
			if (!e->orders[i].forgotten)
				edge_send_results(e, &e->orders[i]);
		break;
	case STRAIT__MSG_TYPE__MSG_ORDER_START:
		start = strait__order_start__unpack(NULL, len, body);
		edge_start(e, start);
		strait__order_start__free_unpacked(start, NULL);
		break;
	case STRAIT__MSG_TYPE__MSG_ORDER_RESULTS_ACK:
		ack = strait__order_results_ack__unpack(NULL, len, body);
		edge_ack(e, ack);
		strait__order_results_ack__free_unpacked(ack, NULL);
		break;
	case STRAIT__MSG_TYPE__MSG_ORDER_CANCEL:
		cancel = strait__order_cancel__unpack(NULL, len, body);
		o = edge_order(e, cancel->order);
		if (o != NULL)
			o->canceled = true;
		strait__order_cancel__free_unpacked(cancel, NULL);
		break;
	default:
		fail_msg("the edge got message %u", type);
	}
	return 0;
}

static void edge_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct fake_edge *e = ctx;

	(void)c;
	(void)err;
	e->conn = NULL;
	e->closed++;
	snprintf(e->text, sizeof(e->text), "%s", text);
}

static const struct rpc_handler edge_handler = { edge_open, edge_message_cb, edge_close };

static void retry_cb(evutil_socket_t fd, short what, void *arg)
{
	struct world *w = arg;
	struct fake_edge *edges[] = { &w->a, &w->b };

	(void)fd;
	(void)what;
	for (int i = 0; i < 2; i++) {
		struct fake_edge *e = edges[i];

		if (e->conn == NULL && !e->stay_away)
			e->conn = rpc_connect(w->base, e->tls, w->master.address, "master",
				&edge_handler, e);
	}
	fixture_operator_connect(&w->op, w->base, &w->master);
}

/* The loop runs until the condition holds; some 6 to 20 s are the end. */
#define RUN_UNTIL(w, condition)                                                                    \
	do {                                                                                       \
		for (int i_ = 0; !(condition) && i_ < 6000; i_++)                                  \
			fixture_run_ms((w)->base, 1);                                              \
		if (!(condition))                                                                  \
			fail_msg("never true: %s (edge a: %s)", #condition, (w)->a.text);          \
	} while (0)

static int setup(void **state)
{
	struct timeval period = { .tv_usec = 10000 };
	struct world *w = calloc(1, sizeof(*w));

	fixture_master_init(&w->master);
	fixture_master_configure(&w->master,
		"report_interval: 100ms\nsites:\n- name: a\n- name: b\n- name: c\n");
	w->seed = 12345;
	w->base = event_base_new();
	w->a = (struct fake_edge){ .w = w, .site = "a", .name = "edge-a", .answer = 1 };
	w->b = (struct fake_edge){ .w = w, .site = "b", .name = "edge-b", .answer = 1 };
	w->a.tls = fixture_identity("edge", "a", "edge-a");
	w->b.tls = fixture_identity("edge", "b", "edge-b");
	w->op.tls = fixture_identity("operator", "-", "op");
	w->retry = event_new(w->base, -1, EV_PERSIST, retry_cb, w);
	event_add(w->retry, &period);
	fixture_master_start(&w->master);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	fixture_master_fini(&w->master);
	event_free(w->retry);
	rpc_tls_destroy(w->a.tls);
	rpc_tls_destroy(w->b.tls);
	fixture_operator_fini(&w->op);
	event_base_free(w->base);
	free(w);
	return 0;
}

static void submit(struct world *w, const char *to, const char *idempotency, uint32_t count,
	uint64_t deadline_ms)
{
	Strait__Request req = STRAIT__REQUEST__INIT;
	Strait__OrderObject *objects = calloc(count + 1, sizeof(*objects));
	Strait__OrderObject **pointers = calloc(count + 1, sizeof(*pointers));
	char(*keys)[64] = calloc(count + 1, sizeof(*keys));

	for (uint32_t i = 0; i < count; i++) {
		strait__order_object__init(&objects[i]);
		snprintf(keys[i], sizeof(keys[i]), "%s/%u", idempotency, i);
		objects[i].key.data = (uint8_t *)keys[i];
		objects[i].key.len = strlen(keys[i]);
		pointers[i] = &objects[i];
	}
	req.verb = STRAIT__REQUEST__VERB__ORDER_SUBMIT;
	req.from_site = "a";
	req.to_site = (char *)to;
	req.idempotency_key = (char *)idempotency;
	req.has_deadline_ms = deadline_ms != 0;
	req.deadline_ms = deadline_ms;
	req.n_objects = count;
	req.objects = pointers;
	assert_int_equal(rpc_send(w->op.conn, STRAIT__MSG_TYPE__MSG_REQUEST, &req.base), 0);
	free(objects);
	free(pointers);
	free(keys);
}

/* Asks again when the connection goes before the answer. */
static const Strait__Reply *ask(struct world *w, int verb, uint64_t order, const char *name)
{
	Strait__Request req = STRAIT__REQUEST__INIT;
	unsigned int before = w->op.replies;

	req.verb = (Strait__Request__Verb)verb;
	req.has_order = true;
	req.order = order;
	req.name = (char *)name;
	while (w->op.replies == before) {
		unsigned int closed = w->op.closed;

		RUN_UNTIL(w, fixture_operator_is_up(&w->op));
		rpc_send(w->op.conn, STRAIT__MSG_TYPE__MSG_REQUEST, &req.base);
		RUN_UNTIL(w, w->op.replies > before || w->op.closed != closed);
	}
	return w->op.last;
}

static const Strait__Reply *submit_and_hear(struct world *w, const char *to,
	const char *idempotency, uint32_t count)
{
	unsigned int before = w->op.replies;

	RUN_UNTIL(w, fixture_operator_is_up(&w->op));
	submit(w, to, idempotency, count, 0);
	RUN_UNTIL(w, w->op.replies > before);
	return w->op.last;
}

static bool order_is(struct world *w, uint64_t id, const char *state)
{
	const Strait__Reply *r = ask(w, STRAIT__REQUEST__VERB__ORDER_SHOW, id, NULL);

	return r->code == 0 && r->n_orders == 1 && strcmp(r->orders[0]->state, state) == 0;
}

/*
 * ---- tests
 * ---------------------------------------------------------------------------------------------
 */

static void order_is_shipped_by_the_source_edge_and_done(void **state)
{
	struct world *w = *state;
	const Strait__Reply *r;

	RUN_UNTIL(w, w->a.accepted && w->b.accepted);
	r = submit_and_hear(w, "b", "one", 5);
	assert_int_equal(r->code, 0);
	assert_int_equal(r->orders[0]->order, 1);
	RUN_UNTIL(w, order_is(w, 1, "done"));
	r = w->op.last;
	assert_int_equal(r->orders[0]->committed, 5);
	assert_int_equal(r->orders[0]->bytes_done, 5000);
	assert_int_equal(r->orders[0]->n_detail, 5);
	assert_int_equal(r->orders[0]->detail[4]->status, STRAIT_STATUS_COMMITTED);
	assert_int_equal(w->a.orders[0].wire, 1);
	RUN_UNTIL(w, w->a.orders[0].forgotten);
	assert_int_equal(w->b.norders, 0);
	/* the same key is the same order */
	r = submit_and_hear(w, "b", "one", 5);
	assert_int_equal(r->orders[0]->order, 1);
	/* and for other objects a mistake */
	assert_int_equal(submit_and_hear(w, "b", "one", 4)->code, EEXIST);
	w->a.answer = STRAIT_STATUS_EXISTS; /* nothing carried, no goodput */
	submit_and_hear(w, "b", "two", 1);
	RUN_UNTIL(w, order_is(w, 2, "done"));
	assert_int_equal(w->op.last->orders[0]->goodput_bps, 0);
	assert_int_equal(ask(w, STRAIT__REQUEST__VERB__ORDER_CANCEL, 1, NULL)->code, EALREADY);
}

static void order_waits_for_the_destination(void **state)
{
	struct world *w = *state;

	w->b.stay_away = true;
	RUN_UNTIL(w, w->a.accepted);
	submit_and_hear(w, "b", "waits", 1);
	RUN_UNTIL(w,
		order_is(w, 1, "queued") &&
			strstr(w->op.last->orders[0]->text, "edge of site b") != NULL);
	w->b.stay_away = false;
	RUN_UNTIL(w, order_is(w, 1, "done"));
}

static void bad_submissions_are_answered(void **state)
{
	struct world *w = *state;
	const Strait__Reply *r;

	assert_int_equal(submit_and_hear(w, "nowhere", "x", 1)->code, ENOENT);
	assert_int_equal(submit_and_hear(w, "a", "x", 1)->code, EINVAL);
	assert_int_equal(submit_and_hear(w, "b", "x", 0)->code, EINVAL);
	r = submit_and_hear(w, "b", "x", 65537);
	assert_int_equal(r->code, E2BIG);
	assert_non_null(strstr(r->text, "65536"));
	assert_int_equal(ask(w, 99, 0, NULL)->code, EOPNOTSUPP);
	assert_int_equal(ask(w, STRAIT__REQUEST__VERB__ORDER_SHOW, 77, NULL)->code, ENOENT);
	assert_int_equal(ask(w, STRAIT__REQUEST__VERB__SITE_ADD, 0, "Bad Name")->code, EINVAL);
	assert_int_equal(ask(w, STRAIT__REQUEST__VERB__SITE_DEL, 0, "a")->code, EBUSY);
	assert_int_equal(ask(w, STRAIT__REQUEST__VERB__SITE_ADD, 0, "d")->code, 0);
	assert_int_equal(ask(w, STRAIT__REQUEST__VERB__SITE_DEL, 0, "d")->code, 0);
}

static void largest_order_passes(void **state)
{
	struct world *w = *state;

	RUN_UNTIL(w, w->a.accepted && w->b.accepted);
	assert_int_equal(submit_and_hear(w, "b", "large", 65536)->code, 0);
	RUN_UNTIL(w, order_is(w, 1, "done"));
	assert_int_equal(w->op.last->orders[0]->n_detail, 65536);
}

static void wrong_registrations_are_refused(void **state)
{
	struct world *w = *state;

	RUN_UNTIL(w, w->a.accepted && w->b.accepted);
	w->a.highest_term = 1000;
	rpc_close(w->a.conn);
	RUN_UNTIL(w, strstr(w->a.text, "--min-term 1001") != NULL);
	RUN_UNTIL(w, ask(w, STRAIT__REQUEST__VERB__EDGE_SHOW, 0, "a/edge-a")->n_edges == 1);
	assert_non_null(strstr(w->op.last->edges[0]->refused, "term 1000"));
	w->a.highest_term = 0;
	w->a.site = "b"; /* its certificate says a */
	RUN_UNTIL(w, strstr(w->a.text, "its certificate") != NULL);
	w->a.site = "a";
	w->a.accepted = 0;
	rpc_tls_destroy(w->b.tls);
	w->b.conn = NULL;
	w->b.site = "z";
	w->b.tls = fixture_identity("edge", "z", "edge-b");
	RUN_UNTIL(w, strstr(w->b.text, "straitctl site add z") != NULL);
	w->b.stay_away = true;
	RUN_UNTIL(w, w->a.accepted > 0);
	assert_null(ask(w, STRAIT__REQUEST__VERB__EDGE_SHOW, 0, "a/edge-a")->edges[0]->refused);
}

static void newer_connection_of_a_process_wins_and_another_process_waits(void **state)
{
	struct world *w = *state;
	struct fake_edge twin;

	RUN_UNTIL(w, w->a.accepted && w->b.accepted);
	w->a.stay_away = true;
	twin = (struct fake_edge){ .w = w, .site = "a", .name = "edge-a", .answer = 1 };
	twin.tls = fixture_identity("edge", "a", "edge-a");
	twin.conn =
		rpc_connect(w->base, twin.tls, w->master.address, "master", &edge_handler, &twin);
	RUN_UNTIL(w, twin.accepted && w->a.conn == NULL);
	assert_non_null(strstr(w->a.text, "newer connection"));
	submit_and_hear(w, "b", "twin", 1);
	RUN_UNTIL(w, order_is(w, 1, "done"));
	assert_int_equal(twin.norders, 1);
	w->a.boot = 1;
	w->a.stay_away = false;
	RUN_UNTIL(w, strstr(w->a.text, "another process at 127.0.0.1:") != NULL);
	assert_int_equal(w->a.accepted, 1);
	assert_non_null(twin.conn);
	/* as a kill closes its sockets */
	rpc_tls_destroy(twin.tls);
	RUN_UNTIL(w, w->a.accepted == 2);
}

static void cancel_reaches_the_edge(void **state)
{
	struct world *w = *state;

	w->a.silent = true;
	RUN_UNTIL(w, w->a.accepted && w->b.accepted);
	submit_and_hear(w, "b", "x", 3);
	RUN_UNTIL(w, w->a.started == 1);
	assert_int_equal(ask(w, STRAIT__REQUEST__VERB__ORDER_CANCEL, 1, NULL)->code, 0);
	assert_string_equal(w->op.last->orders[0]->state, "canceled");
	RUN_UNTIL(w, w->a.orders[0].canceled);
}

static void failures_are_told_object_by_object(void **state)
{
	struct world *w = *state;

	w->a.answer = STRAIT_STATUS_EVICTED;
	RUN_UNTIL(w, w->a.accepted && w->b.accepted);
	submit_and_hear(w, "b", "x", 3);
	RUN_UNTIL(w, order_is(w, 1, "failed"));
	assert_int_equal(w->op.last->orders[0]->failed, 3);
	assert_non_null(strstr(w->op.last->orders[0]->text, "3 EVICTED"));
	assert_int_equal(w->op.last->orders[0]->detail[2]->status, STRAIT_STATUS_EVICTED);
}

static void watcher_hears_the_end(void **state)
{
	struct world *w = *state;
	Strait__Request req = STRAIT__REQUEST__INIT;
	unsigned int before;

	w->a.silent = true;
	RUN_UNTIL(w, w->a.accepted && w->b.accepted);
	submit_and_hear(w, "b", "x", 3);
	RUN_UNTIL(w, w->a.started == 1);
	before = w->op.replies;
	req.verb = STRAIT__REQUEST__VERB__ORDER_WATCH;
	req.has_order = true;
	req.order = 1;
	assert_int_equal(rpc_send(w->op.conn, STRAIT__MSG_TYPE__MSG_REQUEST, &req.base), 0);
	RUN_UNTIL(w, w->op.replies > before + 1);
	assert_false(w->op.last->last);
	w->a.orders[0].finished = 3;
	edge_send_results(&w->a, &w->a.orders[0]);
	RUN_UNTIL(w, w->op.last->last);
	assert_string_equal(w->op.last->orders[0]->state, "done");
}

/* Whatever a peer with a valid certificate sends, the master goes on. */
static void random_messages_never_harm(void **state)
{
	static const uint16_t types[] = { 1, 2, 3, 16, 17, 18, 19, 20, 21, 22, 23, 32, 48, 49,
		999 };
	struct world *w = *state;
	struct rpc_conn **conns[] = { &w->a.conn, &w->op.conn };
	ProtobufCMessageUnknownField field = { .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED };
	unsigned int closed;
	uint8_t junk[64];

	RUN_UNTIL(w, w->a.accepted && w->b.accepted);
	for (int i = 0; i < 3000; i++) {
		Strait__Ping m = STRAIT__PING__INIT;
		struct rpc_conn *c;

		fixture_run_ms(w->base, i % 8 == 0);
		c = *conns[rnd(w, 2)];
		if (c == NULL)
			continue;
		/* a message with a known number and a random field: often parsable, never meant */
		for (size_t k = 1; k < sizeof(junk); k++)
			junk[k] = (uint8_t)rnd(w, 256);
		junk[0] = (uint8_t)rnd(w, 60);
		field.tag = 2 + rnd(w, 12);
		field.wire_type = rnd(w, 2) ? PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED
					    : PROTOBUF_C_WIRE_TYPE_32BIT;
		field.data = junk;
		field.len = field.wire_type == PROTOBUF_C_WIRE_TYPE_32BIT ? 4 : junk[0] + 1;
		m.base.n_unknown_fields = 1;
		m.base.unknown_fields = &field;
		m.token = rnd(w, 4);
		rpc_send(c, types[rnd(w, sizeof(types) / sizeof(types[0]))], &m.base);
	}
	/* a new connection, so that no answer to junk is taken for this one */
	RUN_UNTIL(w, w->op.conn != NULL);
	closed = w->op.closed;
	rpc_close(w->op.conn);
	RUN_UNTIL(w, w->op.closed != closed);
	assert_int_equal(ask(w, STRAIT__REQUEST__VERB__STATUS, 0, NULL)->code, 0);
	assert_int_equal(w->op.last->term, 1);
}

static void deadline_is_kept(void **state)
{
	struct world *w = *state;

	w->b.stay_away = true;
	RUN_UNTIL(w, w->a.accepted && w->op.opened);
	submit(w, "b", "late", 2, (uint64_t)time(NULL) * 1000 + 1000);
	RUN_UNTIL(w, w->op.replies > 0);
	assert_int_equal(w->op.last->code, 0);
	RUN_UNTIL(w, order_is(w, 1, "failed"));
	assert_int_equal(w->op.last->orders[0]->detail[0]->status, STRAIT_STATUS_DEADLINE);
}

/* One submission that survives the master: sent again until it is answered. */
static uint64_t submit_until_heard(struct world *w, const char *idempotency, uint32_t count)
{
	unsigned int closed = w->op.closed, before = w->op.replies;
	int kill_at = rnd(w, 2) ? (int)rnd(w, 25) : -1;
	bool sent = false;

	for (int i = 0; i < 30000 && w->op.replies == before; i++) {
		if (w->op.closed != closed) {
			closed = w->op.closed;
			sent = false;
		}
		if (!sent && fixture_operator_is_up(&w->op)) {
			submit(w, "b", idempotency, count, 0);
			sent = true;
		}
		if (i == kill_at) {
			fixture_master_kill(&w->master, SIGKILL);
			fixture_master_start(&w->master);
			kill_at = -1;
		}
		fixture_run_ms(w->base, 1);
	}
	if (kill_at >= 0) { /* answered before: the edge may still be at it */
		fixture_master_kill(&w->master, SIGKILL);
		fixture_master_start(&w->master);
	}
	assert_true(w->op.replies > before);
	assert_int_equal(w->op.last->code, 0);
	return w->op.last->orders[0]->order;
}

static void kill_9_at_any_instant_loses_no_order_and_ships_none_twice(void **state)
{
	struct world *w = *state;
	uint64_t ids[ORDERS];
	char name[32];

	for (int i = 0; i < ORDERS; i++) {
		snprintf(name, sizeof(name), "order-%d", i);
		ids[i] = submit_until_heard(w, name, 1 + rnd(w, 50));
		for (int k = 0; k < i; k++)
			assert_int_not_equal(ids[k], ids[i]);
	}
	for (int i = 0; i < ORDERS; i++)
		RUN_UNTIL(w, order_is(w, ids[i], "done"));
	/* every order has one shipment, its own: nothing was shipped under a second number */
	for (uint32_t i = 0; i < w->a.norders; i++)
		assert_true(w->a.orders[i].wire < 1ull << 40);
	assert_int_equal(w->a.norders, ORDERS);
	assert_int_equal(ask(w, STRAIT__REQUEST__VERB__STATUS, 0, NULL)->code, 0);
	assert_true(w->op.last->term > 5);
	assert_int_equal(w->op.last->term, w->a.term);
	fixture_master_kill(&w->master, SIGTERM);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(order_is_shipped_by_the_source_edge_and_done),
		TEST(order_waits_for_the_destination),
		TEST(bad_submissions_are_answered),
		TEST(largest_order_passes),
		TEST(wrong_registrations_are_refused),
		TEST(newer_connection_of_a_process_wins_and_another_process_waits),
		TEST(cancel_reaches_the_edge),
		TEST(failures_are_told_object_by_object),
		TEST(watcher_hears_the_end),
		TEST(random_messages_never_harm),
		TEST(deadline_is_kept),
		TEST(kill_9_at_any_instant_loses_no_order_and_ships_none_twice),
	};
#undef TEST

	cmocka_set_test_filter(getenv("ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
