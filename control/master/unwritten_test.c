/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/master/master.h"

#include <event2/event.h>

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A real master in a child process, whose files cannot grow any more, and an operator. */

#define LIMIT_NS UINT64_C(10000000000)
#define AT_ONCE  UINT64_C(2000000000)

struct world {
	char dir[64], config[96], address[32];
	pid_t master;
	struct event_base *base;
	struct rpc_tls *tls;
	struct rpc_conn *conn;
	bool up;
	unsigned int replies;
	Strait__Reply *last;
};

static int on_open(struct rpc_conn *c, void *ctx)
{
	struct world *w = ctx;

	w->conn = c;
	w->up = true;
	return 0;
}

static int on_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len, void *ctx)
{
	struct world *w = ctx;

	(void)c;
	assert_int_equal(type, STRAIT__MSG_TYPE__MSG_REPLY);
	if (w->last != NULL)
		strait__reply__free_unpacked(w->last, NULL);
	w->last = strait__reply__unpack(NULL, len, body);
	assert_non_null(w->last);
	w->replies++;
	return 0;
}

static void on_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct world *w = ctx;

	(void)c;
	(void)err;
	(void)text;
	w->conn = NULL;
	w->up = false;
}

static const struct rpc_handler handler = { on_open, on_message, on_close };

static void turn(struct world *w)
{
	if (w->conn == NULL)
		w->conn = rpc_connect(w->base, w->tls, w->address, "master", &handler, w);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	usleep(500);
}

static const Strait__Reply *ask(struct world *w, Strait__Request *req)
{
	uint64_t since = clock_now_ns();
	unsigned int before;

	while (!w->up && clock_now_ns() - since < LIMIT_NS)
		turn(w);
	assert_true(w->up);
	before = w->replies;
	assert_int_equal(rpc_send(w->conn, STRAIT__MSG_TYPE__MSG_REQUEST, &req->base), 0);
	since = clock_now_ns();
	while (w->replies == before && clock_now_ns() - since < AT_ONCE)
		turn(w);
	if (w->replies == before)
		fail_msg("no answer");
	return w->last;
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

	assert_int_equal(prlimit(w->master, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void start(struct world *w)
{
	struct master_options opt = { .config = w->config };
	struct master_config *cfg;
	char err[300];

	fflush(NULL);
	w->master = fork();
	assert_true(w->master >= 0);
	if (w->master > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
	signal(SIGXFSZ, SIG_IGN);
	cfg = master_config_load(w->config, err, sizeof(err));
	_exit(cfg != NULL && master_run(&opt, cfg) == 0 ? 0 : 1);
}

static int setup(void **state)
{
	struct rpc_tls_config cfg = { .insecure_loopback = true };
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	struct world *w = calloc(1, sizeof(*w));
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char err[200];
	FILE *f;

	log_set_level(LOG_LEVEL_ERROR);
	strcpy(w->dir, "/tmp/strait-unwritten-test-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	close(fd);
	snprintf(w->address, sizeof(w->address), "127.0.0.1:%u", ntohs(sa.sin_port));
	snprintf(w->config, sizeof(w->config), "%s/master.yaml", w->dir);
	f = fopen(w->config, "w");
	assert_non_null(f);
	fprintf(f,
		"listen: %s\ninsecure_loopback: true\nledger: %s/master.db\nlog_level: error\n"
		"sites:\n- name: a\n- name: b\n",
		w->address, w->dir);
	fclose(f);
	strcpy(cfg.self.role, "operator");
	strcpy(cfg.self.site, "-");
	strcpy(cfg.self.name, "op");
	w->tls = rpc_tls_create(&cfg, err, sizeof(err));
	assert_non_null(w->tls);
	w->base = event_base_new();
	start(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char cmd[96];
	int status;

	assert_int_equal(kill(w->master, SIGTERM), 0);
	for (int i = 0; i < 10000 && waitpid(w->master, &status, WNOHANG) == 0; i++)
		turn(w);
	if (w->conn != NULL)
		rpc_close(w->conn);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	rpc_tls_destroy(w->tls);
	event_base_free(w->base);
	if (w->last != NULL)
		strait__reply__free_unpacked(w->last, NULL);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", w->dir);
	assert_int_equal(system(cmd), 0);
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

	signal(SIGPIPE,
		SIG_IGN); /* as all programs do: masters are killed while we write to them */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
