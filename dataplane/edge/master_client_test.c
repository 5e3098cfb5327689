/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/master_client.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "dataplane/edge/order_fakes.h"

#include <strait/status.h>

#include <event2/event.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A real connection to a master that refuses every registration, or accepts and orders as told. */

#define S_NS 1000000000ULL

struct world {
	struct event_base *base;
	struct fake_worker worker;
	struct control_queue queue;
	struct orders *orders;
	struct term term;
	struct rpc_tls *edge_tls, *master_tls;
	struct rpc_listener *listener;
	struct master_client *mc;
	char address[64];
	uint8_t boot_id[STRAIT_BOOT_ID_BYTES];
	FILE *log;
	int stderr_fd;
	unsigned int asked;
	int error; /* 0: the registration is accepted */
	const char *text;
	struct rpc_conn *accepted; /* NULL: none is */
	unsigned int links, links_acked, refused, started;
};

enum { TERM = 5 };

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

static void report(void *ctx, Strait__EdgeReport *m)
{
	(void)ctx;
	(void)m;
}

static bool links(void *ctx, const Strait__EdgeLinks *m)
{
	(void)m;
	((struct world *)ctx)->links++;
	return true;
}

static const struct master_client_ops ops = { .report = report, .links = links };

static int on_order_accept(struct world *w, const uint8_t *body, size_t len)
{
	Strait__OrderAccept *m = strait__order_accept__unpack(NULL, len, body);

	assert_non_null(m);
	if (m->status == STRAIT_STATUS_REFUSED && m->text != NULL && strstr(m->text, "term"))
		w->refused++;
	else
		w->started++;
	strait__order_accept__free_unpacked(m, NULL);
	return 0;
}

static int on_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len, void *ctx)
{
	Strait__EdgeAccept accept = STRAIT__EDGE_ACCEPT__INIT;
	struct world *w = ctx;

	switch (type) {
	case STRAIT__MSG_TYPE__MSG_EDGE_REGISTER:
		w->asked++;
		if (w->error != 0)
			return rpc_fail(c, w->error, "%s", w->text);
		accept.term = TERM;
		w->accepted = c;
		return rpc_send(c, STRAIT__MSG_TYPE__MSG_EDGE_ACCEPT, &accept.base);
	case STRAIT__MSG_TYPE__MSG_ORDER_ACCEPT:
		return on_order_accept(w, body, len);
	case STRAIT__MSG_TYPE__MSG_EDGE_LINKS_ACK:
		w->links_acked++;
		return 0;
	default:
		return 0;
	}
}

static void on_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct world *w = ctx;

	(void)err;
	(void)text;
	if (w->accepted == c)
		w->accepted = NULL;
}

static const struct rpc_handler handler = { .on_message = on_message, .on_close = on_close };

static struct rpc_tls *tls_of(const char *role)
{
	struct rpc_tls_config tls = { .insecure_loopback = true };
	char err[256];

	snprintf(tls.self.site, sizeof(tls.self.site), "a");
	snprintf(tls.self.role, sizeof(tls.self.role), "%s", role);
	snprintf(tls.self.name, sizeof(tls.self.name), "a1");
	return rpc_tls_create(&tls, err, sizeof(err));
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct master_client_config cfg = { .address = w->address,
		.site = "a",
		.edge = "a1",
		.mgmt_address = "127.0.0.1:1",
		.program = "test",
		.boot_id = w->boot_id };
	char err[256];

	log_set_level(LOG_LEVEL_WARN);
	w->log = tmpfile();
	w->stderr_fd = dup(STDERR_FILENO);
	w->base = event_base_new();
	w->worker.room = UINT32_MAX;
	control_queue_init(&w->queue, fake_push, &w->worker);
	w->orders = orders_create(&order_ops, w, &w->queue);
	w->edge_tls = tls_of("edge");
	w->master_tls = tls_of("master");
	w->listener =
		rpc_listen(w->base, w->master_tls, "127.0.0.1:0", &handler, w, err, sizeof(err));
	if (w->listener == NULL)
		return -1;
	snprintf(w->address, sizeof(w->address), "127.0.0.1:%u", rpc_listener_port(w->listener));
	w->mc = master_client_create(&cfg, &ops, w, w->base, w->edge_tls, &w->term, w->orders);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	master_client_stop(w->mc);
	rpc_listener_destroy(w->listener);
	rpc_tls_destroy(w->edge_tls);
	rpc_tls_destroy(w->master_tls);
	master_client_destroy(w->mc);
	orders_destroy(w->orders);
	control_queue_fini(&w->queue);
	event_base_free(w->base);
	fclose(w->log);
	close(w->stderr_fd);
	free(w);
	return 0;
}

/*
 * Let the client try once, ahead_ns from now, and be refused. False: it does not try. What it
 * logs goes to the file.
 */
static bool refuse(struct world *w, uint64_t ahead_ns, int error, const char *text)
{
	int idle = event_base_get_num_events(w->base, EVENT_BASE_COUNT_ADDED);
	uint64_t limit = clock_now_ns() + 10 * S_NS;
	unsigned int before = w->asked;

	w->error = error;
	w->text = text;
	dup2(fileno(w->log), STDERR_FILENO);
	master_client_tick(w->mc, clock_now_ns() + ahead_ns);
	/* Until both ends of the connection, if there is one, have gone. */
	while (event_base_get_num_events(w->base, EVENT_BASE_COUNT_ADDED) > idle &&
		clock_now_ns() < limit)
		event_base_loop(w->base, EVLOOP_ONCE);
	dup2(w->stderr_fd, STDERR_FILENO);
	return w->asked != before;
}

/* How often the log says so. */
static unsigned int logged(struct world *w, const char *text)
{
	unsigned int n = 0;
	char line[1024];

	rewind(w->log);
	while (fgets(line, sizeof(line), w->log) != NULL)
		n += strstr(line, text) != NULL;
	return n;
}

static void an_edge_whose_name_is_taken_stays_back(void **state)
{
	struct world *w = *state;

	assert_true(refuse(w, 0, EEXIST, "another process is a1"));
	assert_int_equal(logged(w, "error: master: not connected"), 1);
	assert_int_equal(logged(w, "another process is a1"), 1);
	assert_false(refuse(w, 9 * S_NS, EEXIST, "another process is a1"));
	assert_true(refuse(w, 31 * S_NS, EEXIST, "another process is a1"));
	assert_int_equal(logged(w, "another process is a1"), 1);
}

static void a_reason_that_repeats_does_not_hide_another(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 3; i++)
		assert_true(refuse(w, 6 * S_NS, ENOENT, "site a is not known"));
	assert_true(refuse(w, 6 * S_NS, ESTALE, "start it once with --min-term 8"));
	assert_int_equal(logged(w, "site a is not known"), 1);
	assert_int_equal(logged(w, "start it once with --min-term 8"), 1);
}

/* One that is in charge no more speaks of an older term than the edge has obeyed. */
static void orders_of_an_old_term_are_not_obeyed(void **state)
{
	Strait__OrderStart start = STRAIT__ORDER_START__INIT;
	Strait__OrderCancel cancel = STRAIT__ORDER_CANCEL__INIT;
	Strait__EdgeLinks shares = STRAIT__EDGE_LINKS__INIT;
	uint64_t limit = clock_now_ns() + 10 * S_NS;
	struct world *w = *state;

	strcpy(w->term.path, "/tmp/strait-term-XXXXXX");
	close(mkstemp(w->term.path));
	dup2(fileno(w->log), STDERR_FILENO);
	master_client_tick(w->mc, clock_now_ns());
	while (w->accepted == NULL && clock_now_ns() < limit)
		event_base_loop(w->base, EVLOOP_ONCE);
	assert_non_null(w->accepted);
	start.term = cancel.term = shares.term = TERM - 1;
	start.order = cancel.order = 7;
	start.to_site = start.to_edge = "b";
	start.to_mgmt_address = "127.0.0.1:2";
	shares.seq = 1;
	assert_int_equal(rpc_send(w->accepted, STRAIT__MSG_TYPE__MSG_ORDER_START, &start.base), 0);
	assert_int_equal(rpc_send(w->accepted, STRAIT__MSG_TYPE__MSG_ORDER_CANCEL, &cancel.base),
		0);
	assert_int_equal(rpc_send(w->accepted, STRAIT__MSG_TYPE__MSG_EDGE_LINKS, &shares.base), 0);
	shares.term = TERM;
	assert_int_equal(rpc_send(w->accepted, STRAIT__MSG_TYPE__MSG_EDGE_LINKS, &shares.base), 0);
	while (w->accepted != NULL && w->links_acked == 0 && clock_now_ns() < limit)
		event_base_loop(w->base, EVLOOP_ONCE);
	dup2(w->stderr_fd, STDERR_FILENO);
	(void)unlink(w->term.path);
	assert_non_null(w->accepted); /* and the connection stands */
	assert_int_equal(w->refused, 1);
	assert_int_equal(w->started, 0);
	assert_int_equal(w->links, 1);
	assert_int_equal(w->links_acked, 1);
	assert_int_equal(logged(w, "cancel refused, stale term order=7"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_edge_whose_name_is_taken_stays_back),
		TEST(a_reason_that_repeats_does_not_hide_another),
		TEST(orders_of_an_old_term_are_not_obeyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
