/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/commits.h"

#include "control/master/ledger_private.h"
#include "control/master/master_fixture.h"

#include <strait/status.h>

#include <errno.h>

/*
 * The part of a master that subscriptions need, with a ledger of its own, and subscribers over
 * real connections whose loop is another one: who is not run does not read.
 */

enum { SUBSCRIBERS = 3, ROUNDS = 8 };

struct subscriber {
	struct event_base *base;
	struct rpc_tls *tls;
	struct rpc_conn *conn;
	bool open;
	unsigned int replies;
	int code;
	bool last;
	char text[256];
	uint32_t epoch;
	uint64_t next, first, seq; /* the last one told */
	uint32_t objects, ends, holes;
	char keys[64][40]; /* of the first ones: "to tenant/key", "to order state" */
	uint32_t nkeys;
};

struct world {
	char dir[64], path[96], address[32];
	struct master m;
	struct rpc_tls *tls;
	struct subscriber sub[SUBSCRIBERS];
	uint64_t now_ms;
};

/* ---- subscribers ---- */

static int on_open(struct rpc_conn *c, void *ctx)
{
	struct subscriber *s = ctx;

	s->conn = c;
	s->open = true;
	return 0;
}

static void take(struct subscriber *s, const Strait__Commit *c)
{
	s->holes += s->seq != 0 && c->seq != s->seq + 1;
	s->seq = c->seq;
	s->objects += c->has_key;
	s->ends += !c->has_key;
	if (s->nkeys == 64)
		return;
	if (c->has_key)
		snprintf(s->keys[s->nkeys++], sizeof(s->keys[0]), "%s %.*s/%.*s", c->to_site,
			(int)c->tenant.len, c->tenant.len > 0 ? (char *)c->tenant.data : "",
			(int)c->key.len, (char *)c->key.data);
	else
		snprintf(s->keys[s->nkeys++], sizeof(s->keys[0]), "%s %u %s", c->to_site,
			(unsigned int)c->order, c->state);
}

static int on_message(struct rpc_conn *conn, uint16_t type, const uint8_t *body, size_t len,
	void *ctx)
{
	struct subscriber *s = ctx;
	Strait__Reply *r = strait__reply__unpack(NULL, len, body);

	(void)conn;
	assert_int_equal(type, STRAIT__MSG_TYPE__MSG_REPLY);
	assert_non_null(r);
	s->replies++;
	s->code = r->code;
	s->last = r->last;
	snprintf(s->text, sizeof(s->text), "%s", r->text != NULL ? r->text : "");
	s->epoch = r->commits_epoch;
	if (r->has_commits_first)
		s->first = r->commits_first;
	for (size_t i = 0; i < r->n_commits; i++)
		take(s, r->commits[i]);
	assert_true(r->n_commits == 0 || r->commits_next > s->seq);
	if (r->code == 0)
		s->next = r->commits_next;
	strait__reply__free_unpacked(r, NULL);
	return 0;
}

static void on_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct subscriber *s = ctx;

	(void)c;
	(void)err;
	(void)text;
	s->conn = NULL;
	s->open = false;
}

static const struct rpc_handler handler = { on_open, on_message, on_close };

/* ---- the master ---- */

static void poll_base(struct event_base *base)
{
	event_base_loop(base, EVLOOP_NONBLOCK);
}

#define RUN(w, s) (poll_base((w)->m.base), poll_base((s)->base), usleep(50))
#define RUN_UNTIL(w, s, condition)                                                                 \
	do {                                                                                       \
		for (int i_ = 0; !(condition) && i_ < 200000; i_++)                                \
			RUN(w, s);                                                                 \
		if (!(condition))                                                                  \
			fail_msg("never true: %s (seq %u, code %d %s)", #condition,                \
				(unsigned int)(s)->seq, (s)->code, (s)->text);                     \
	} while (0)

static void master_start(struct world *w)
{
	char err[300];

	w->m = (struct master){ 0 };
	TAILQ_INIT(&w->m.sites);
	TAILQ_INIT(&w->m.edges);
	LIST_INIT(&w->m.clients);
	TAILQ_INIT(&w->m.subscriptions);
	w->m.base = event_base_new();
	w->m.ledger = ledger_open(w->path, err, sizeof(err));
	assert_non_null(w->m.ledger);
	w->m.book = orderbook_create(ledger_last_order(w->m.ledger) + 1, 1);
	assert_non_null(site_put(&w->m, "a", "eu", 0));
	assert_non_null(site_put(&w->m, "b", "us", 0));
	assert_non_null(site_put(&w->m, "c", "asia", 0));
	assert_int_equal(commits_create(&w->m), 0);
	w->tls = fixture_identity("master", "-", "m");
	w->m.listener = rpc_listen(w->m.base, w->tls, "127.0.0.1:0", &client_handler, &w->m, err,
		sizeof(err));
	assert_non_null(w->m.listener);
	snprintf(w->address, sizeof(w->address), "127.0.0.1:%u", rpc_listener_port(w->m.listener));
}

static void master_stop(struct world *w)
{
	struct client *c;

	rpc_listener_destroy(w->m.listener);
	clients_close(&w->m);
	for (int i = 0; i < 20000 && !LIST_EMPTY(&w->m.clients); i++) {
		poll_base(w->m.base);
		for (int k = 0; k < SUBSCRIBERS; k++)
			if (w->sub[k].base != NULL)
				poll_base(w->sub[k].base);
		usleep(50);
	}
	c = LIST_FIRST(&w->m.clients);
	assert_null(c);
	assert_true(TAILQ_EMPTY(&w->m.subscriptions));
	assert_int_equal(w->m.subscriptions_count, 0);
	rpc_tls_destroy(w->tls);
	commits_destroy(&w->m);
	orderbook_destroy(w->m.book);
	ledger_close(w->m.ledger);
	sites_free(&w->m);
	event_base_free(w->m.base);
}

static size_t any_edges(void *ctx, const char *site, const char **names, size_t max)
{
	(void)ctx;
	assert_true(max > 0);
	names[0] = site;
	return 1;
}

static void store(struct world *w)
{
	struct master *m = &w->m;

	assert_int_equal(ledger_begin(m->ledger), 0);
	for (struct order *o = orderbook_dirty(m->book); o != NULL; o = TAILQ_NEXT(o, dirty_entry))
		assert_int_equal(ledger_order_put(m->ledger, o, w->now_ms), 0);
	assert_int_equal(ledger_commit(m->ledger), 0);
	commits_committed(m);
	orderbook_flushed(m->book);
}

/* An order of n objects that all arrive: n commits and one more for its end. */
static void ship(struct world *w, const char *to, const char *tenant, const char *prefix,
	uint32_t n, unsigned int class)
{
	static const struct orderbook_sites up = { any_edges, NULL, NULL, NULL, NULL };
	struct orderbook_key *keys = calloc(n, sizeof(*keys));
	char(*names)[64] = calloc(n, sizeof(*names));
	struct orderbook_spec spec = { .from_site = "a",
		.to_site = to,
		.class = class,
		.keys = keys,
		.count = n };
	struct shipment *s;
	struct order *o;
	char err[200];

	for (uint32_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "%s%u", prefix, i);
		keys[i] = (struct orderbook_key){ (uint8_t *)names[i], (const uint8_t *)tenant,
			strlen(names[i]), strlen(tenant) };
	}
	o = orderbook_submit(w->m.book, &spec, w->now_ms, err, sizeof(err));
	if (o == NULL)
		fail_msg("%s", err);
	orderbook_plan(w->m.book, &up, w->now_ms);
	store(w);
	s = TAILQ_FIRST(&o->shipments);
	for (uint32_t i = n; i > 0; i--) /* told in the order of their keys */
		assert_int_equal(orderbook_result(w->m.book, s->wire, i - 1,
					 STRAIT_STATUS_COMMITTED, 1000, w->now_ms),
			0);
	store(w);
	free(keys);
	free(names);
}

static struct subscriber *subscriber(struct world *w, int i, const char *role, const char *site,
	const char *name)
{
	struct subscriber *s = &w->sub[i];

	if (s->base == NULL) {
		s->base = event_base_new();
		s->tls = fixture_identity(role, site, name);
	}
	s->conn = rpc_connect(s->base, s->tls, w->address, "master", &handler, s);
	assert_non_null(s->conn);
	RUN_UNTIL(w, s, s->open);
	s->last = false;
	s->code = 0;
	return s;
}

static Strait__Request commits_request(Strait__CommitsWanted *wanted)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	strait__commits_wanted__init(wanted);
	req.verb = STRAIT__REQUEST__VERB__COMMITS;
	req.commits = wanted;
	wanted->has_follow = wanted->follow = true;
	return req;
}

static void ask(struct world *w, struct subscriber *s, const Strait__Request *req)
{
	unsigned int before = s->replies;

	assert_int_equal(rpc_send(s->conn, STRAIT__MSG_TYPE__MSG_REQUEST, &req->base), 0);
	RUN_UNTIL(w, s, s->replies > before);
}

/* From after what it has: 0 for all there is. */
static void follow(struct world *w, struct subscriber *s, bool from_now)
{
	Strait__CommitsWanted wanted;
	Strait__Request req = commits_request(&wanted);

	wanted.has_seq = !from_now;
	wanted.seq = s->next;
	wanted.has_epoch = s->next > 0;
	wanted.epoch = s->epoch;
	ask(w, s, &req);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	log_set_level(LOG_LEVEL_ERROR);
	strcpy(w->dir, "/tmp/strait-commits-test-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/ledger.db", w->dir);
	w->now_ms = 1000;
	master_start(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char cmd[96];

	master_stop(w);
	for (int i = 0; i < SUBSCRIBERS; i++) {
		rpc_tls_destroy(w->sub[i].tls);
		if (w->sub[i].base != NULL)
			event_base_free(w->sub[i].base);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", w->dir);
	assert_int_equal(system(cmd), 0);
	free(w);
	return 0;
}

/* ---- tests ---- */

static void a_subscriber_hears_of_each_object_and_end_once_it_is_durable(void **state)
{
	struct world *w = *state;
	struct subscriber *s = subscriber(w, 0, "operator", "-", "op");
	Strait__CommitsWanted wanted;
	Strait__Request req = commits_request(&wanted);

	ship(w, "b", "", "before", 1, 1);
	follow(w, s, true);
	assert_int_equal(s->next, 3);
	assert_int_equal(s->first, 1);
	assert_int_not_equal(s->epoch, 0);
	ship(w, "b", "t", "k", 2, 1);
	RUN_UNTIL(w, s, s->next == 6);
	assert_int_equal(s->nkeys, 3);
	assert_string_equal(s->keys[0], "b t/k0");
	assert_string_equal(s->keys[1], "b t/k1");
	assert_string_equal(s->keys[2], "b 2 done");
	assert_false(s->last);
	/* one request at a time: the connection goes */
	assert_int_equal(rpc_send(s->conn, STRAIT__MSG_TYPE__MSG_REQUEST, &req.base), 0);
	RUN_UNTIL(w, s, !s->open);
	RUN_UNTIL(w, s, w->m.subscriptions_count == 0);
}

static void what_is_kept_is_listed_and_that_is_all(void **state)
{
	struct world *w = *state;
	struct subscriber *s = subscriber(w, 0, "operator", "-", "op");
	Strait__CommitsWanted wanted;
	Strait__Request req = commits_request(&wanted);

	ship(w, "b", "", "k", 700, 1);
	wanted.follow = false;
	wanted.has_seq = true;
	ask(w, s, &req);
	RUN_UNTIL(w, s, s->last);
	assert_int_equal(s->objects, 700);
	assert_int_equal(s->ends, 1);
	assert_int_equal(s->holes, 0);
	assert_int_equal(w->m.subscriptions_count, 0);
	/* and the connection is good for more */
	ask(w, s, &req);
	RUN_UNTIL(w, s, s->last && s->objects == 1400);
	/* without a place nothing is listed */
	wanted.has_seq = false;
	ask(w, s, &req);
	assert_true(s->last);
	assert_int_equal(s->objects, 1400);
}

static void only_what_fits_is_told_and_the_place_moves_on(void **state)
{
	struct world *w = *state;
	struct subscriber *s = subscriber(w, 0, "operator", "-", "op");
	Strait__CommitsWanted wanted;
	Strait__Request req = commits_request(&wanted);

	ship(w, "b", "t", "m/", 2, 1); /* 1 to 3 */
	ship(w, "c", "t", "m/", 1, 2); /* 4, 5 */
	ship(w, "c", "", "m/x", 1, 2); /* 6, 7 */
	ship(w, "c", "t", "n/", 1, 0); /* 8, 9 */
	wanted.follow = false;
	wanted.has_seq = true;
	req.to_site = "c";
	ask(w, s, &req);
	RUN_UNTIL(w, s, s->last);
	assert_int_equal(s->nkeys, 6);
	s->nkeys = 0;
	req.has_class_ = true;
	req.class_ = 2;
	wanted.has_no_objects = wanted.no_objects = true;
	ask(w, s, &req);
	RUN_UNTIL(w, s, s->last);
	assert_int_equal(s->nkeys, 2);
	assert_string_equal(s->keys[0], "c 2 done");
	assert_string_equal(s->keys[1], "c 3 done");
	s->nkeys = 0;
	req = commits_request(&wanted);
	wanted.follow = false;
	wanted.has_seq = true;
	wanted.has_tenant = wanted.has_key_prefix = true;
	wanted.tenant = (ProtobufCBinaryData){ 7, (uint8_t *)"default" };
	wanted.key_prefix = (ProtobufCBinaryData){ 2, (uint8_t *)"m/" };
	ask(w, s, &req);
	RUN_UNTIL(w, s, s->last);
	assert_int_equal(s->nkeys, 2);
	assert_string_equal(s->keys[0], "c /m/x0");
	assert_string_equal(s->keys[1], "c 3 done");
	s->nkeys = 0;
	req = commits_request(&wanted);
	wanted.has_seq = true;
	req.label = "us";
	ask(w, s, &req);
	RUN_UNTIL(w, s, s->nkeys == 3);
	assert_string_equal(s->keys[0], "b t/m/0");
	/* all of it was looked at, so nothing of it is looked at again */
	RUN_UNTIL(w, s, s->next == 10);
	assert_int_equal(s->nkeys, 3);
}

static void a_subscriber_goes_on_over_restarts_without_loss_or_repetition(void **state)
{
	struct world *w = *state;
	struct subscriber *s = subscriber(w, 0, "operator", "-", "op");

	follow(w, s, false);
	for (int round = 0; round < 5; round++) {
		ship(w, "b", "", "k", 300, 1);
		/* heard of some, all or nothing of it */
		for (int i = 0; i < round; i++)
			RUN(w, s);
		master_stop(w);
		s->open = false;
		s->conn = NULL;
		master_start(w);
		ship(w, "b", "", "l", 10, 1);
		s = subscriber(w, 0, "operator", "-", "op");
		follow(w, s, false);
		assert_int_equal(s->code, 0);
	}
	RUN_UNTIL(w, s, s->seq == 5 * 312);
	assert_int_equal(s->objects, 5 * 310);
	assert_int_equal(s->ends, 10);
	assert_int_equal(s->holes, 0);
}

static void who_does_not_read_holds_up_nobody_and_costs_little(void **state)
{
	struct world *w = *state;
	struct subscriber *slow = subscriber(w, 0, "operator", "-", "slow");
	struct subscriber *fast = subscriber(w, 1, "operator", "-", "fast");
	size_t most = 0;
	struct client *c;

	follow(w, slow, true);
	follow(w, fast, true);
	for (int i = 0; i < ROUNDS; i++) {
		ship(w, "b", "tenant-of-some-name", "a-key-that-is-not-short/", 2000, 1);
		for (int k = 0; k < 50; k++)
			RUN(w, fast);
		LIST_FOREACH(c, &w->m.clients, entry)
			most = rpc_queued_bytes(c->conn) > most ? rpc_queued_bytes(c->conn) : most;
	}
	RUN_UNTIL(w, fast, fast->seq == ROUNDS * 2001);
	assert_int_equal(fast->holes, 0);
	assert_int_equal(slow->seq, 0);
	assert_true(most > COMMITS_QUEUE / 2); /* it did not fit into the network's buffers */
	assert_true(most < COMMITS_QUEUE + 2 * COMMITS_BATCH_BYTES);
	/* when it reads again all of it is there */
	RUN_UNTIL(w, slow, slow->seq == ROUNDS * 2001);
	assert_int_equal(slow->holes, 0);
	assert_int_equal(slow->objects, ROUNDS * 2000);
}

static void who_falls_behind_what_is_kept_is_told_so(void **state)
{
	struct world *w = *state;
	struct subscriber *s = subscriber(w, 0, "operator", "-", "op");
	uint64_t next;

	follow(w, s, true);
	for (int i = 0; i < ROUNDS; i++)
		ship(w, "b", "tenant-of-some-name", "a-key-that-is-not-short/", 2000, 1);
	for (int i = 0; i < 2000; i++) {
		poll_base(w->m.base);
		usleep(100);
	}
	assert_int_equal(ledger_begin(w->m.ledger), 0);
	assert_int_equal(ledger_commits_trim(w->m.ledger, 0, 10), 0);
	assert_int_equal(ledger_commit(w->m.ledger), 0);
	RUN_UNTIL(w, s, s->code != 0);
	assert_int_equal(s->code, ESTALE);
	assert_true(s->last);
	assert_int_equal(s->holes, 0); /* what it had got is whole */
	assert_true(s->seq > 0 && s->seq < ROUNDS * 2001 - 10);
	assert_non_null(strstr(s->text, "read anew"));
	assert_int_equal(w->m.subscriptions_count, 0);
	next = s->next;
	/* so is who asks for it, for what never was, and for what is of another ledger */
	follow(w, s, false);
	assert_int_equal(s->code, ESTALE);
	s->next = ROUNDS * 2001 + 2;
	follow(w, s, false);
	assert_int_equal(s->code, ESTALE);
	s->next = ROUNDS * 2001 + 1;
	s->epoch++;
	follow(w, s, false);
	assert_int_equal(s->code, ESTALE);
	assert_int_equal(s->first, ROUNDS * 2001 - 9);
	assert_true(next < s->first);
	s->next = s->first;
	s->seq = s->first - 1;
	follow(w, s, false);
	RUN_UNTIL(w, s, s->seq == ROUNDS * 2001);
	assert_int_equal(s->code, 0);
}

static void a_tenant_sees_its_own_alone(void **state)
{
	struct world *w = *state;
	struct subscriber *s = subscriber(w, 0, "tenant", "-", "t");
	struct subscriber *at_b = subscriber(w, 1, "tenant", "b", "t");
	Strait__CommitsWanted wanted;
	Strait__Request req = commits_request(&wanted), other = STRAIT__REQUEST__INIT;

	ship(w, "b", "t", "mine", 1, 1);
	ship(w, "b", "u", "yours", 1, 1);
	ship(w, "c", "t", "far", 1, 1);
	follow(w, s, false);
	follow(w, at_b, false);
	RUN_UNTIL(w, s, s->nkeys == 4);
	RUN_UNTIL(w, at_b, at_b->nkeys == 2);
	assert_string_equal(s->keys[0], "b t/mine0");
	assert_string_equal(s->keys[1], "b 1 done");
	assert_string_equal(s->keys[2], "c t/far0");
	assert_string_equal(s->keys[3], "c 3 done");
	assert_string_equal(at_b->keys[0], "b t/mine0");
	assert_string_equal(at_b->keys[1], "b 1 done");
	RUN_UNTIL(w, s, s->next == 7);
	RUN_UNTIL(w, at_b, at_b->next == 7);
	assert_int_equal(s->nkeys, 4);
	assert_int_equal(at_b->nkeys, 2);
	/* nor may it ask for others', or anything else */
	s = subscriber(w, 2, "tenant", "b", "t");
	wanted.has_tenant = true;
	wanted.tenant = (ProtobufCBinaryData){ 1, (uint8_t *)"u" };
	ask(w, s, &req);
	assert_int_equal(s->code, EACCES);
	wanted.has_tenant = false;
	req.to_site = "c";
	ask(w, s, &req);
	assert_int_equal(s->code, EACCES);
	other.verb = STRAIT__REQUEST__VERB__ORDER_LIST;
	ask(w, s, &other);
	assert_int_equal(s->code, EACCES);
	assert_int_equal(w->m.subscriptions_count, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_subscriber_hears_of_each_object_and_end_once_it_is_durable),
		TEST(what_is_kept_is_listed_and_that_is_all),
		TEST(only_what_fits_is_told_and_the_place_moves_on),
		TEST(a_subscriber_goes_on_over_restarts_without_loss_or_repetition),
		TEST(who_does_not_read_holds_up_nobody_and_costs_little),
		TEST(who_falls_behind_what_is_kept_is_told_so),
		TEST(a_tenant_sees_its_own_alone),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
