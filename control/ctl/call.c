/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/units.h"
#include "control/ctl/ctl.h"
#include "control/ctl/print.h"
#include "control/rpc/rpc.h"

#include <strait/wire.h>

#include <event2/event.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_REPLY_MS = 10000 };

struct call {
	struct event_base *base;
	struct event *timer;
	const Strait__Request *req;
	ctl_reply_fn on_reply;
	void *ctx;
	char *why;
	bool whole; /* the timeout is for all of it */
	bool sent, finished;
	int exit;
};

static void end_call(struct call *c, int code, const char *text)
{
	if (c->finished)
		return;
	c->finished = true;
	c->exit = code;
	snprintf(c->why, CTL_TEXT_MAX, "%s", text);
	event_base_loopbreak(c->base);
}

static int on_open(struct rpc_conn *conn, void *ctx)
{
	struct call *c = ctx;
	int rc = rpc_send(conn, STRAIT__MSG_TYPE__MSG_REQUEST, &c->req->base);

	if (rc == -EMSGSIZE)
		end_call(c, CTL_REFUSED, "the request is over 64 MiB: split it");
	c->sent = rc == 0;
	return rc;
}

static int exit_of_code(int code)
{
	/* ESTALE: what it asks for is gone, which is no refusal */
	return code == EIO || code == ENOMEM || code == ESTALE ? CTL_FAILED : CTL_REFUSED;
}

static int on_message(struct rpc_conn *conn, uint16_t type, const uint8_t *body, size_t len,
	void *ctx)
{
	struct call *c = ctx;
	Strait__Reply *r;

	(void)conn;
	if (type != STRAIT__MSG_TYPE__MSG_REPLY)
		return -EPROTO;
	r = strait__reply__unpack(NULL, len, body);
	if (r == NULL)
		return -EBADMSG;
	if (!c->whole)
		event_del(c->timer);
	if (r->code != 0)
		end_call(c, exit_of_code(r->code), r->text != NULL ? r->text : strerror(r->code));
	else if (!c->on_reply(r, c->ctx))
		end_call(c, CTL_OK, "");
	strait__reply__free_unpacked(r, NULL);
	return 0;
}

static void on_close(struct rpc_conn *conn, int err, const char *text, void *ctx)
{
	struct call *c = ctx;
	char line[CTL_TEXT_MAX];

	(void)conn;
	if (err == -EACCES || err == -EPERM)
		end_call(c, CTL_REFUSED, text);
	/* A refusal of our certificate can be overtaken by the end of the connection. */
	snprintf(line, sizeof(line), "%.220s%s", text,
		!c->sent           ? " (is strait-master running, and is --master right?)"
			: err == 0 ? " before it answered (does it know our CA? its log says why)"
				   : "");
	end_call(c, CTL_UNREACHABLE, line);
}

static void timeout_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	end_call(arg, CTL_TIMEOUT, "timed out");
}

/* An option, else the environment, else NULL. */
static const char *setting(const struct ctl *ctl, const char *option, const char *env)
{
	const char *value = ctl_option(ctl, option);

	return value != NULL ? value : getenv(env);
}

static struct rpc_tls *make_tls(const struct ctl *ctl, char *err, size_t err_len)
{
	static char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
	const char *dir = ctl_option(ctl, "tls-dir"), *name = ctl_option(ctl, "tls-name");
	struct rpc_tls_config cfg = {
		.insecure_loopback = ctl_option(ctl, "insecure-loopback") != NULL,
		.ca = setting(ctl, "ca", "STRAIT_CA"),
		.cert = setting(ctl, "cert", "STRAIT_CERT"),
		.key = setting(ctl, "key", "STRAIT_KEY"),
		.self = { .site = "-", .role = "operator", .name = "operator" },
	};

	if (dir != NULL) {
		if (name == NULL)
			name = "operator";
		snprintf(ca, sizeof(ca), "%s/ca.pem", dir);
		snprintf(cert, sizeof(cert), "%s/%s.pem", dir, name);
		snprintf(key, sizeof(key), "%s/%s.key", dir, name);
		cfg.ca = ca;
		cfg.cert = cert;
		cfg.key = key;
	}
	if (!cfg.insecure_loopback && (cfg.ca == NULL || cfg.cert == NULL || cfg.key == NULL)) {
		snprintf(err, err_len,
			"give --tls-dir DIR, or --ca, --cert and --key (or STRAIT_CA, STRAIT_CERT, "
			"STRAIT_KEY), or --insecure-loopback");
		errno = EINVAL;
		return NULL;
	}
	return rpc_tls_create(&cfg, err, err_len);
}

/* Whether it can be HOST:PORT; rpc looks closer. */
static bool has_port(const char *address)
{
	const char *colon = strrchr(address, ':');
	size_t n = colon != NULL ? strlen(colon + 1) : 0;

	return n >= 1 && n <= 5 && strspn(colon + 1, "0123456789") == n;
}

static void arm(struct call *c, uint64_t ms)
{
	struct timeval tv = { .tv_sec = (time_t)(ms / 1000), .tv_usec = (long)(ms % 1000) * 1000 };

	c->timer = evtimer_new(c->base, timeout_cb, c);
	if (c->timer != NULL)
		evtimer_add(c->timer, &tv);
}

int ctl_call_quiet(struct ctl *ctl, const Strait__Request *req, ctl_reply_fn on_reply, void *ctx,
	uint64_t timeout_ms, char *why)
{
	static const struct rpc_handler handler = { on_open, on_message, on_close };
	const char *master = setting(ctl, "master", "STRAIT_MASTER");
	struct call c = { .req = req,
		.on_reply = on_reply,
		.ctx = ctx,
		.why = why,
		.whole = timeout_ms != 0,
		.exit = CTL_FAILED };
	struct rpc_tls *tls;

	if (master != NULL && !has_port(master)) {
		snprintf(why, CTL_TEXT_MAX, "--master must be HOST:PORT, not \"%.100s\"", master);
		return CTL_USAGE;
	}
	tls = make_tls(ctl, why, CTL_TEXT_MAX);
	if (tls == NULL)
		return errno == EINVAL && ctl_option(ctl, "tls-dir") == NULL ? CTL_USAGE
									     : CTL_FAILED;
	c.base = event_base_new();
	if (c.base == NULL) {
		rpc_tls_destroy(tls);
		snprintf(why, CTL_TEXT_MAX, "out of memory");
		return CTL_FAILED;
	}
	arm(&c, timeout_ms != 0 ? timeout_ms : FIRST_REPLY_MS);
	if (c.timer == NULL ||
		rpc_connect(c.base, tls, master != NULL ? master : "127.0.0.1:7400", "master",
			&handler, &c) == NULL)
		end_call(&c, CTL_FAILED, "out of memory");
	if (!c.finished)
		event_base_dispatch(c.base);
	if (c.timer != NULL)
		event_free(c.timer);
	rpc_tls_destroy(tls);
	event_base_free(c.base);
	return c.exit;
}

int ctl_timeout_ms(const struct ctl *ctl, uint64_t def, uint64_t *out)
{
	const char *text = ctl_option(ctl, "timeout");
	uint64_t ns;
	char err[160];

	*out = def;
	if (text == NULL)
		return CTL_OK;
	if (units_parse_duration(text, &ns, err, sizeof(err)) != 0)
		return ctl_fail(CTL_USAGE, "--timeout: %s", err);
	*out = ns / 1000000 > 0 ? ns / 1000000 : 1;
	return CTL_OK;
}

int ctl_take_class(const struct ctl *ctl, Strait__Request *req)
{
	const char *text = ctl_option(ctl, "class");

	if (text == NULL)
		return CTL_OK;
	req->has_class_ = true;
	for (req->class_ = 0; req->class_ < STRAIT_CLASS_COUNT; req->class_++)
		if (strcmp(text, print_class(req->class_)) == 0)
			return CTL_OK;
	return ctl_fail(CTL_USAGE, "--class must be urgent, normal or bulk, not \"%s\"", text);
}

int ctl_call(struct ctl *ctl, const Strait__Request *req, ctl_reply_fn on_reply, void *ctx)
{
	char why[CTL_TEXT_MAX] = "";
	uint64_t timeout_ms;
	int rc = ctl_timeout_ms(ctl, FIRST_REPLY_MS, &timeout_ms);

	if (rc != CTL_OK)
		return rc;
	rc = ctl_call_quiet(ctl, req, on_reply, ctx, timeout_ms, why);
	return rc == CTL_OK || why[0] == '\0' ? rc : ctl_fail((enum ctl_exit)rc, "%s", why);
}

int ctl_ask(struct ctl *ctl, const Strait__Request *req, ctl_reply_fn on_reply)
{
	struct ctl_sink s = { ctl, CTL_OK };
	int rc = ctl_call(ctl, req, on_reply, &s);

	return rc != CTL_OK ? rc : s.exit;
}
