/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/master_fixture.h"
#include "control/planner/federation.h"
#include "control/site/uplink.h"

#include <strait/status.h>
#include <strait/strait.h>

/*
 * A real inter-dc master in a child process and, here, real site masters of two sites with a pool
 * each, whose uplinks it plans by; the edges are connections that answer as told: what is called
 * poison fails at once, what is called slow is never answered, all else arrives.
 */

enum { POLL_MS = 1, WARM = 3 };

struct world;

struct edge_stub {
	struct world *w;
	struct rpc_tls *tls;
	struct rpc_conn *conn;
	const char *site, *address;
};

struct site_stub {
	struct world *w;
	struct rpc_tls *tls;
	struct site_config *cfg;
	struct site_node *node;
	struct uplink *uplink;
	struct strait_pool *pool;
	const char *name;
};

struct world {
	struct fixture_master master;
	struct event_base *base;
	struct event *retry;
	struct edge_stub edge[2];
	struct site_stub site[2];
	unsigned int poison, slow, other; /* how often they were ordered */
};

#define RUN_UNTIL(w, condition)                                                                    \
	do {                                                                                       \
		for (int i_ = 0; !(condition) && i_ < 20000; i_++)                                 \
			fixture_run_ms((w)->base, POLL_MS);                                        \
		if (!(condition))                                                                  \
			fail_msg("never true: %s (poison %u, slow %u, other %u)", #condition,      \
				(w)->poison, (w)->slow, (w)->other);                               \
	} while (0)

/* ---- edges ---- */

static int edge_open(struct rpc_conn *c, void *ctx)
{
	Strait__EdgeRegister msg = STRAIT__EDGE_REGISTER__INIT;
	struct edge_stub *e = ctx;
	uint8_t boot[16] = { (uint8_t)e->site[0] };

	msg.version = 1;
	msg.site = (char *)e->site;
	msg.edge = "edge";
	msg.boot_id.data = boot;
	msg.boot_id.len = sizeof(boot);
	msg.mgmt_address = (char *)e->address;
	return rpc_send(c, STRAIT__MSG_TYPE__MSG_EDGE_REGISTER, &msg.base);
}

static void answer(struct rpc_conn *c, uint64_t order, uint32_t index, unsigned int status)
{
	Strait__OrderResults msg = STRAIT__ORDER_RESULTS__INIT;
	Strait__ObjectResult one = STRAIT__OBJECT_RESULT__INIT, *list = &one;

	one.index = index;
	one.status = status;
	one.has_length = true;
	one.length = 1000;
	msg.order = order;
	msg.first = index;
	msg.n_results = 1;
	msg.results = &list;
	assert_int_equal(rpc_send(c, STRAIT__MSG_TYPE__MSG_ORDER_RESULTS, &msg.base), 0);
}

static void start(struct edge_stub *e, struct rpc_conn *c, const Strait__OrderStart *msg)
{
	struct world *w = e->w;

	for (size_t i = 0; i < msg->n_objects; i++) {
		const ProtobufCBinaryData *key = &msg->objects[i]->key;

		if (key->len == 6 && memcmp(key->data, "poison", 6) == 0) {
			w->poison++;
			answer(c, msg->order, (uint32_t)i, STRAIT_STATUS_DIGEST);
		} else if (key->len > 4 && memcmp(key->data, "slow", 4) == 0) {
			w->slow++;
		} else {
			w->other++;
			answer(c, msg->order, (uint32_t)i, STRAIT_STATUS_COMMITTED);
		}
	}
}

static int edge_message_cb(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len,
	void *ctx)
{
	Strait__OrderStart *msg;

	if (type != STRAIT__MSG_TYPE__MSG_ORDER_START)
		return 0;
	msg = strait__order_start__unpack(NULL, len, body);
	assert_non_null(msg);
	start(ctx, c, msg);
	strait__order_start__free_unpacked(msg, NULL);
	return 0;
}

static void edge_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	(void)c;
	(void)err;
	(void)text;
	((struct edge_stub *)ctx)->conn = NULL;
}

static const struct rpc_handler edge_handler = { edge_open, edge_message_cb, edge_close };

static void retry_cb(evutil_socket_t fd, short what, void *arg)
{
	struct world *w = arg;

	(void)fd;
	(void)what;
	for (int i = 0; i < 2; i++)
		if (w->edge[i].conn == NULL)
			w->edge[i].conn = rpc_connect(w->base, w->edge[i].tls, w->master.address,
				"master", &edge_handler, &w->edge[i]);
}

/* ---- set-up ---- */

static struct rpc_conn *master_connect(void *ctx, const struct rpc_handler *h, void *h_ctx)
{
	struct site_stub *s = ctx;

	return rpc_connect(s->w->base, s->tls, s->w->master.address, "master", h, h_ctx);
}

static void site_start(struct world *w, int i)
{
	struct site_stub *s = &w->site[i];
	char text[600], path[96], pool[96], err[300];

	s->w = w;
	s->name = i == 0 ? "a" : "b";
	s->tls = fixture_identity("site-master", s->name, "site-master");
	snprintf(pool, sizeof(pool), "%s/%s.pool", w->master.dir, s->name);
	s->pool = strait_pool_open(pool, STRAIT_POOL_CREATE, 4 << 20);
	assert_non_null(s->pool);
	snprintf(text, sizeof(text),
		"site: %s\nsecret: %s/secret\ntenants:\n- { name: default }\nsources:\n"
		"- { name: pool, pool: %s }\nkeys: 1000\n",
		s->name, w->master.dir, pool);
	snprintf(path, sizeof(path), "%s/%s.yaml", w->master.dir, s->name);
	fixture_write_file(path, text);
	s->cfg = site_config_load(path, err, sizeof(err));
	if (s->cfg == NULL)
		fail_msg("%s", err);
	s->node = site_node_create(w->base, s->cfg, err, sizeof(err));
	if (s->node == NULL)
		fail_msg("%s", err);
	s->uplink = uplink_create(w->base, s->node, master_connect, s);
	assert_non_null(s->uplink);
}

static int setup(void **state)
{
	struct timeval period = { .tv_usec = 10000 };
	struct world *w = calloc(1, sizeof(*w));
	char text[300];

	fixture_master_init(&w->master);
	snprintf(text, sizeof(text), "%s/secret", w->master.dir);
	fixture_write_file(text, "0123456789abcdef0123456789abcdef");
	snprintf(text, sizeof(text),
		"secret: %s/secret\nsites:\n- name: a\n- name: b\npolicies:\n"
		"- { from: a, to: b, class: normal }\n",
		w->master.dir);
	fixture_master_configure(&w->master, text);
	w->base = event_base_new();
	w->edge[0] = (struct edge_stub){ w, fixture_identity("edge", "a", "edge"), NULL, "a",
		"127.0.0.1:1" };
	w->edge[1] = (struct edge_stub){ w, fixture_identity("edge", "b", "edge"), NULL, "b",
		"127.0.0.1:2" };
	w->retry = event_new(w->base, -1, EV_PERSIST, retry_cb, w);
	event_add(w->retry, &period);
	fixture_master_start(&w->master);
	for (int i = 0; i < 2; i++)
		site_start(w, i);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 2; i++) {
		uplink_destroy(w->site[i].uplink);
		site_node_destroy(w->site[i].node);
		site_config_free(w->site[i].cfg);
		strait_pool_close(w->site[i].pool);
		rpc_tls_destroy(w->site[i].tls);
	}
	fixture_master_fini(&w->master);
	event_free(w->retry);
	for (int i = 0; i < 2; i++)
		rpc_tls_destroy(w->edge[i].tls);
	event_base_free(w->base);
	free(w);
	return 0;
}

static void put(struct world *w, const char *key)
{
	assert_int_equal(strait_put(w->site[0].pool, key, strlen(key), key, strlen(key)), 0);
}

static void put_anew(struct world *w, const char *key)
{
	(void)strait_remove(w->site[0].pool, key, strlen(key));
	put(w, key);
}

/* ---- */

/*
 * Each order goes on, as something else in it is not answered, so none ends in failure; and each
 * time the object is stored anew.
 */
static void what_fails_in_orders_that_go_on_is_left_alone_though_stored_anew(void **state)
{
	struct world *w = *state;
	char key[32];

	RUN_UNTIL(w,
		uplink_is_open(w->site[0].uplink) && uplink_is_open(w->site[1].uplink) &&
			site_node_is_ready(w->site[0].node));
	/* what is there already is history; and several orders at once are for who has been good */
	fixture_run_ms(w->base, 500);
	for (unsigned int i = 1; i <= WARM; i++) {
		snprintf(key, sizeof(key), "good-%u", i);
		put(w, key);
		RUN_UNTIL(w, w->other == i);
		fixture_run_ms(w->base, 200);
	}
	for (unsigned int i = 1; i <= FEDERATION_POISON; i++) {
		snprintf(key, sizeof(key), "slow-%u", i);
		put(w, key);
		put_anew(w, "poison");
		RUN_UNTIL(w, w->slow == i && w->poison >= i);
		fixture_run_ms(w->base, 200);
	}
	put_anew(w, "poison");
	put(w, "slow-last");
	RUN_UNTIL(w, w->slow == FEDERATION_POISON + 1);
	fixture_run_ms(w->base, 500);
	assert_int_equal(w->poison, FEDERATION_POISON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_fails_in_orders_that_go_on_is_left_alone_though_stored_anew, setup,
			teardown),
	};

	return cmocka_run_group_tests_name("quarantine", tests, NULL, NULL);
}
