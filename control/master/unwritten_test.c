/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/master/master_fixture.h"

#include <errno.h>
#include <sys/resource.h>

/* A real master in a child process, whose files cannot grow any more, and an operator. */

#define LIMIT_NS UINT64_C(10000000000)
#define AT_ONCE  UINT64_C(2000000000)

struct world {
	struct fixture_master master;
	struct event_base *base;
	struct fixture_operator op;
};

static void turn(struct world *w)
{
	fixture_operator_connect(&w->op, w->base, &w->master);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	usleep(500);
}

static const Strait__Reply *ask(struct world *w, Strait__Request *req)
{
	uint64_t since = clock_now_ns();
	unsigned int before;

	while (!fixture_operator_is_up(&w->op) && clock_now_ns() - since < LIMIT_NS)
		turn(w);
	assert_true(fixture_operator_is_up(&w->op));
	before = w->op.replies;
	assert_int_equal(rpc_send(w->op.conn, STRAIT__MSG_TYPE__MSG_REQUEST, &req->base), 0);
	since = clock_now_ns();
	while (w->op.replies == before && clock_now_ns() - since < AT_ONCE)
		turn(w);
	if (w->op.replies == before)
		fail_msg("no answer");
	return w->op.last;
}

static const Strait__Reply *submit(struct world *w, const char *key)
{
	Strait__OrderObject object = STRAIT__ORDER_OBJECT__INIT, *list = &object;
	Strait__Request req = STRAIT__REQUEST__INIT;

	object.key.data = (uint8_t *)key;
	object.key.len = strlen(key);
	req.verb = STRAIT__REQUEST__VERB__ORDER_SUBMIT;
	req.from_site = (char *)"a";
	req.to_site = (char *)"b";
	req.n_objects = 1;
	req.objects = &list;
	return ask(w, &req);
}

static size_t count_orders(struct world *w)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__ORDER_LIST;
	return ask(w, &req)->n_orders;
}

static void limit_files(struct world *w, rlim_t bytes)
{
	struct rlimit limit = { .rlim_cur = bytes, .rlim_max = RLIM_INFINITY };

	assert_int_equal(prlimit(w->master.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	fixture_master_init(&w->master);
	fixture_master_configure(&w->master, "sites:\n- name: a\n- name: b\n");
	w->op.tls = fixture_identity("operator", "-", "op");
	w->base = event_base_new();
	signal(SIGXFSZ, SIG_IGN); /* the master's, too */
	fixture_master_start(&w->master);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	fixture_master_fini(&w->master);
	fixture_operator_fini(&w->op);
	event_base_free(w->base);
	free(w);
	return 0;
}

static void an_order_that_cannot_be_stored_is_refused_at_once(void **state)
{
	Strait__Request cancel = STRAIT__REQUEST__INIT;
	struct world *w = *state;
	const Strait__Reply *r;
	uint64_t since, first;

	r = submit(w, "one");
	assert_int_equal(r->code, 0);
	first = r->orders[0]->order;
	limit_files(w, 4096);
	r = submit(w, "two");
	assert_int_equal(r->code, EIO);
	assert_non_null(strstr(r->text, "was not taken: the ledger cannot be written"));
	assert_int_equal(count_orders(w), 1);
	/* At once or with the next commit: what is there is not changed, either. */
	assert_int_equal(submit(w, "three")->code, EIO);
	cancel.verb = STRAIT__REQUEST__VERB__ORDER_CANCEL;
	cancel.has_order = true;
	cancel.order = first;
	assert_int_equal(ask(w, &cancel)->code, EIO);
	limit_files(w, RLIM_INFINITY);
	since = clock_now_ns();
	while ((r = submit(w, "two"))->code != 0 && clock_now_ns() - since < LIMIT_NS)
		;
	assert_int_equal(r->code, 0);
	assert_int_equal(count_orders(w), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_order_that_cannot_be_stored_is_refused_at_once,
			setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
