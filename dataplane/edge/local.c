/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/local.h"

#include "control/base/clock.h"
#include "control/base/log.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <jansson.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATIENCE_S = 5, BACKLOG = 8 };

struct client {
	LIST_ENTRY(client) entry;
	struct local *local;
	struct bufferevent *bev;
	bool answered;
};

struct local {
	struct event_base *base;
	struct capture *capture;
	struct evconnlistener *listener;
	struct event *tick;
	LIST_HEAD(, client) clients;
	unsigned int client_count;
	struct sockaddr_un address;
};

static void client_free(struct client *c)
{
	LIST_REMOVE(c, entry);
	c->local->client_count--;
	bufferevent_free(c->bev);
	free(c);
}

/* ---- requests ---------------------------------------------------------------------------- */

static json_t *error_json(int error, const char *text)
{
	return json_pack("{s:s, s:i}", "error", text, "errno", error);
}

static json_t *status_json(const struct local *l)
{
	struct capture_status s;

	capture_get_status(l->capture, clock_now_ns(), &s);
	return json_pack("{s:b, s:s, s:I, s:I, s:I, s:f, s:s}", "running", s.running, "file",
		s.file, "packets", (json_int_t)s.packets, "bytes", (json_int_t)s.bytes, "missed",
		(json_int_t)s.missed, "seconds", (double)s.elapsed_ns / 1e9, "ended", s.ended);
}

/* A member that must be a whole number from 0 to max, if it is there. */
static bool take_uint(json_t *o, const char *name, uint64_t max, uint64_t *out)
{
	json_t *v = json_object_get(o, name);

	*out = 0;
	if (v == NULL)
		return true;
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		(uint64_t)json_integer_value(v) > max)
		return false;
	*out = (uint64_t)json_integer_value(v);
	return true;
}

static json_t *start(struct local *l, json_t *o)
{
	struct capture_request r = { .name = NULL };
	json_t *file = json_object_get(o, "file");
	uint64_t seconds, snap;
	char err[256];
	int ret;

	if (file != NULL && !json_is_string(file))
		return error_json(EINVAL, "file must be a string");
	if (!take_uint(o, "bytes", CAPTURE_BYTES_MAX, &r.bytes) ||
		!take_uint(o, "seconds", CAPTURE_SECONDS_MAX, &seconds) ||
		!take_uint(o, "snap", UINT16_MAX, &snap))
		return error_json(EINVAL, "bytes, seconds or snap is out of range");
	r.name = json_string_value(file);
	r.seconds = (uint32_t)seconds;
	r.snap_bytes = (uint32_t)snap;
	ret = capture_start(l->capture, clock_now_ns(), clock_unix_ms() * 1000000ull, &r, err,
		sizeof(err));
	if (ret < 0)
		return error_json(-ret, err);
	event_add(l->tick, &(struct timeval){ .tv_usec = CAPTURE_TICK_MS * 1000 });
	ret = 0;
	log_info("local", "capture begins");
	return status_json(l);
}

static json_t *stop(struct local *l)
{
	int ret = capture_stop(l->capture, clock_now_ns());

	if (ret < 0)
		return error_json(-ret, ret == -ENOENT ? "no capture is running" : strerror(-ret));
	log_info("local", "capture ends");
	return status_json(l);
}

static json_t *answer(struct local *l, const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL), *reply;
	const char *op = json_string_value(json_object_get(o, "op"));

	if (op == NULL)
		reply = error_json(EPROTO, "a JSON object with op is needed");
	else if (strcmp(op, "capture-start") == 0)
		reply = start(l, o);
	else if (strcmp(op, "capture-stop") == 0)
		reply = stop(l);
	else if (strcmp(op, "capture-status") == 0)
		reply = status_json(l);
	else
		reply = error_json(ENOSYS, "no such op");
	json_decref(o);
	return reply;
}

/* ---- connections ------------------------------------------------------------------------- */

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct client *c = arg;
	char *line, *text;
	json_t *reply;
	size_t len;

	if (c->answered)
		return;
	line = evbuffer_readln(in, &len, EVBUFFER_EOL_LF);
	if (line == NULL) {
		if (evbuffer_get_length(in) > LOCAL_REQUEST_MAX)
			client_free(c);
		return;
	}
	reply = answer(c->local, line, len);
	free(line);
	text = json_dumps(reply, JSON_COMPACT);
	json_decref(reply);
	if (text == NULL) {
		client_free(c);
		return;
	}
	c->answered = true;
	evbuffer_add_printf(bufferevent_get_output(bev), "%s\n", text);
	free(text);
	bufferevent_disable(bev, EV_READ);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct client *c = arg;

	(void)bev;
	if (c->answered)
		client_free(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	(void)what;
	client_free(arg);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from,
	int from_len, void *arg)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct local *l = arg;
	struct client *c;

	(void)listener;
	(void)from;
	(void)from_len;
	c = l->client_count < LOCAL_CLIENTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (c == NULL) {
		close(fd);
		return;
	}
	c->bev = bufferevent_socket_new(l->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (c->bev == NULL) {
		close(fd);
		free(c);
		return;
	}
	c->local = l;
	LIST_INSERT_HEAD(&l->clients, c, entry);
	l->client_count++;
	bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
	bufferevent_set_timeouts(c->bev, &patience, &patience);
	bufferevent_setwatermark(c->bev, EV_READ, 0, LOCAL_REQUEST_MAX + 1);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct local *l = arg;
	struct capture_status s;

	(void)fd;
	(void)what;
	if (capture_tick(l->capture, clock_now_ns()))
		return;
	event_del(l->tick);
	capture_get_status(l->capture, clock_now_ns(), &s);
	if (strcmp(s.ended, "stopped") != 0)
		log_info("local", "capture ends file=%s packets=%llu: %s", s.file,
			(unsigned long long)s.packets, s.ended);
}

/* ---- life -------------------------------------------------------------------------------- */

/* What an edge that was killed left. Anything else stays and makes bind() fail. */
static void remove_stale(const struct sockaddr_un *a)
{
	struct stat st;
	int fd;

	if (lstat(a->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 && errno == ECONNREFUSED)
		unlink(a->sun_path);
	close(fd);
}

static int listen_at(struct local *l)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t old;
	int ret;

	if (fd < 0)
		return -errno;
	remove_stale(&l->address);
	/* The mode is right from the first moment. */
	old = umask(0177);
	ret = bind(fd, (const struct sockaddr *)&l->address, sizeof(l->address));
	ret = ret < 0 ? -errno : 0;
	umask(old);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	l->listener = evconnlistener_new(l->base, on_accept, l,
		LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);
	if (l->listener == NULL) {
		ret = errno != 0 ? -errno : -EIO;
		unlink(l->address.sun_path);
		close(fd);
	}
	return ret;
}

struct local *local_create(struct event_base *base, const char *path, struct capture *capture,
	char *err, size_t err_len)
{
	struct local *l = calloc(1, sizeof(*l));
	int ret = -ENOMEM;

	if (l == NULL)
		goto fail;
	l->base = base;
	l->capture = capture;
	l->address.sun_family = AF_UNIX;
	ret = -ENAMETOOLONG;
	if (strlen(path) >= sizeof(l->address.sun_path))
		goto fail;
	memcpy(l->address.sun_path, path, strlen(path) + 1);
	ret = -ENOMEM;
	l->tick = event_new(base, -1, EV_PERSIST, on_tick, l);
	if (l->tick == NULL)
		goto fail;
	ret = listen_at(l);
	if (ret < 0)
		goto fail;
	return l;
fail:
	snprintf(err, err_len, "debug.socket %s: %s", path, strerror(-ret));
	local_destroy(l);
	return NULL;
}

void local_destroy(struct local *l)
{
	if (l == NULL)
		return;
	while (!LIST_EMPTY(&l->clients))
		client_free(LIST_FIRST(&l->clients));
	if (l->listener != NULL) {
		evconnlistener_free(l->listener);
		unlink(l->address.sun_path);
	}
	if (l->tick != NULL)
		event_free(l->tick);
	free(l);
}
