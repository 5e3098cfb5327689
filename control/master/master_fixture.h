/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/base/log.h"
#include "control/master/master.h"

#include <event2/event.h>

#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * For tests of a master over real connections: a real one in a child process, so that it can be
 * killed, identities of those that connect to it, and an operator who asks.
 */

struct fixture_master {
	char dir[64], config[96], address[32];
	pid_t pid; /* 0: none runs */
};

static inline struct rpc_tls *fixture_identity(const char *role, const char *site, const char *name)
{
	struct rpc_tls_config cfg = { .insecure_loopback = true };
	struct rpc_tls *tls;
	char err[200];

	strcpy(cfg.self.role, role);
	strcpy(cfg.self.site, site);
	strcpy(cfg.self.name, name);
	tls = rpc_tls_create(&cfg, err, sizeof(err));
	assert_non_null(tls);
	return tls;
}

static inline void fixture_run_ms(struct event_base *base, unsigned int ms)
{
	struct timeval tv = { .tv_usec = ms * 1000 };

	event_base_loopexit(base, &tv);
	event_base_dispatch(base);
}

static inline void fixture_write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, 0600), 0);
}

static inline uint16_t fixture_free_port(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	close(fd);
	return ntohs(sa.sin_port);
}

/* A directory and an address; nothing runs yet. */
static inline void fixture_master_init(struct fixture_master *m)
{
	log_set_level(LOG_LEVEL_ERROR);
	/* As all programs do: masters are killed while we write to them. */
	signal(SIGPIPE, SIG_IGN);
	*m = (struct fixture_master){ .dir = "/tmp/strait-master-test-XXXXXX" };
	assert_non_null(mkdtemp(m->dir));
	snprintf(m->address, sizeof(m->address), "127.0.0.1:%u", fixture_free_port());
	snprintf(m->config, sizeof(m->config), "%s/master.yaml", m->dir);
}

/* more: YAML behind what all of them have. */
static inline void fixture_master_configure(const struct fixture_master *m, const char *more)
{
	char text[800];
	int n = snprintf(text, sizeof(text),
		"listen: %s\ninsecure_loopback: true\nledger: %s/master.db\nlog_level: error\n%s",
		m->address, m->dir, more);

	assert_in_range(n, 1, sizeof(text) - 1);
	fixture_write_file(m->config, text);
}

static inline void fixture_master_start(struct fixture_master *m)
{
	struct master_options opt = { .config = m->config };
	struct master_config *cfg;
	char err[300];

	fflush(NULL);
	m->pid = fork();
	assert_true(m->pid >= 0);
	if (m->pid > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
	cfg = master_config_load(m->config, err, sizeof(err));
	_exit(cfg != NULL && master_run(&opt, cfg) == 0 ? 0 : 1);
}

/* Of a signal that it survives for a while the end is one with status 0. */
static inline void fixture_master_kill(struct fixture_master *m, int signo)
{
	int status;

	assert_int_equal(kill(m->pid, signo), 0);
	assert_int_equal(waitpid(m->pid, &status, 0), m->pid);
	if (signo != SIGKILL)
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	m->pid = 0;
}

static inline void fixture_master_fini(struct fixture_master *m)
{
	char cmd[128];

	if (m->pid != 0)
		fixture_master_kill(m, SIGTERM);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", m->dir);
	assert_int_equal(system(cmd), 0);
}

/* ---- an operator ---- */

struct fixture_operator {
	struct rpc_tls *tls;
	struct rpc_conn *conn;
	unsigned int opened, replies, closed;
	Strait__Reply *last;
};

static inline int fixture_operator_open(struct rpc_conn *c, void *ctx)
{
	struct fixture_operator *op = ctx;

	op->conn = c;
	op->opened++;
	return 0;
}

static inline int fixture_operator_message(struct rpc_conn *c, uint16_t type, const uint8_t *body,
	size_t len, void *ctx)
{
	struct fixture_operator *op = ctx;

	(void)c;
	assert_int_equal(type, STRAIT__MSG_TYPE__MSG_REPLY);
	if (op->last != NULL)
		strait__reply__free_unpacked(op->last, NULL);
	op->last = strait__reply__unpack(NULL, len, body);
	assert_non_null(op->last);
	op->replies++;
	return 0;
}

static inline void fixture_operator_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct fixture_operator *op = ctx;

	(void)c;
	(void)err;
	(void)text;
	op->conn = NULL;
	op->closed++;
}

/* If it is not connected or connecting. */
static inline void fixture_operator_connect(struct fixture_operator *op, struct event_base *base,
	const struct fixture_master *m)
{
	static const struct rpc_handler handler = { fixture_operator_open, fixture_operator_message,
		fixture_operator_close };

	if (op->conn == NULL)
		op->conn = rpc_connect(base, op->tls, m->address, "master", &handler, op);
}

static inline bool fixture_operator_is_up(const struct fixture_operator *op)
{
	return op->conn != NULL && rpc_peer(op->conn)->role[0] != '\0';
}

/* Ends its connection, too, so before the loop is freed. */
static inline void fixture_operator_fini(struct fixture_operator *op)
{
	rpc_tls_destroy(op->tls);
	if (op->last != NULL)
		strait__reply__free_unpacked(op->last, NULL);
}
