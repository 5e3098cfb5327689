/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/units.h"
#include "control/ctl/ctl.h"
#include "control/ctl/print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * capture start|stop|status: to one edge of this machine, over its local socket, no master needed.
 * The protocol is in dataplane/edge/local.h.
 */

enum { ANSWER_MAX = 4096, TIMEOUT_MS = 10000 };

/* A connection, or -1 with *rc after it said why. */
static int connect_edge(const struct ctl *ctl, int *rc)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	const char *path = ctl_option(ctl, "socket");
	struct timeval patience;
	uint64_t ms;
	int fd;

	if (path == NULL || path[0] == '\0') {
		*rc = ctl_fail(CTL_USAGE, "--socket FILE is needed: the edge's debug.socket");
		return -1;
	}
	*rc = ctl_timeout_ms(ctl, TIMEOUT_MS, &ms);
	if (*rc != CTL_OK)
		return -1;
	if (strlen(path) >= sizeof(a.sun_path)) {
		*rc = ctl_fail(CTL_USAGE, "--socket: at most %zu bytes", sizeof(a.sun_path) - 1);
		return -1;
	}
	memcpy(a.sun_path, path, strlen(path) + 1);
	patience = (struct timeval){ .tv_sec = (time_t)(ms / 1000),
		.tv_usec = (suseconds_t)(ms % 1000 * 1000) };
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		*rc = ctl_fail(CTL_FAILED, "socket: %s", strerror(errno));
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	*rc = ctl_fail(errno == EACCES ? CTL_REFUSED : CTL_UNREACHABLE, "%s: %s%s", path,
		strerror(errno),
		errno == ENOENT || errno == ECONNREFUSED ? " (is the edge running?)" : "");
	close(fd);
	return -1;
}

/* The edge's answer in text, NUL at its end. CTL_OK or another exit code, said. */
static int exchange(int fd, const char *request, char text[static ANSWER_MAX])
{
	size_t len = strlen(request), n = 0;
	ssize_t got;

	if (send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)
		return ctl_fail(CTL_UNREACHABLE, "the edge does not listen: %s", strerror(errno));
	while (n < ANSWER_MAX - 1 && memchr(text, '\n', n) == NULL) {
		got = recv(fd, text + n, ANSWER_MAX - 1 - n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN ? ctl_fail(CTL_TIMEOUT, "timed out")
					       : ctl_fail(CTL_UNREACHABLE, "%s", strerror(errno));
		if (got == 0)
			break;
		n += (size_t)got;
	}
	text[n] = '\0';
	return CTL_OK;
}

static int ask(const struct ctl *ctl, json_t *request, json_t **answer)
{
	char text[ANSWER_MAX], *json, *line;
	const char *error;
	int rc, fd;

	*answer = NULL;
	fd = connect_edge(ctl, &rc);
	if (fd < 0)
		return rc;
	json = json_dumps(request, JSON_COMPACT);
	if (json == NULL || asprintf(&line, "%s\n", json) < 0) {
		rc = ctl_fail(CTL_FAILED, "out of memory");
	} else {
		rc = exchange(fd, line, text);
		free(line);
	}
	free(json);
	close(fd);
	if (rc != CTL_OK)
		return rc;
	*answer = json_loads(text, 0, NULL);
	error = json_string_value(json_object_get(*answer, "error"));
	if (!json_is_object(*answer) || error != NULL) {
		rc = ctl_fail(*answer == NULL ? CTL_UNREACHABLE : CTL_REFUSED, "%s",
			error != NULL ? error : "no answer from the edge");
		json_decref(*answer);
		*answer = NULL;
	}
	return rc;
}

static int print_status(const struct ctl *ctl, json_t *o)
{
	const char *file = json_string_value(json_object_get(o, "file"));
	const char *ended = json_string_value(json_object_get(o, "ended"));
	bool running = json_is_true(json_object_get(o, "running"));
	char size[UNITS_TEXT_MAX];

	if (ctl->json)
		return print_json(o, false);
	if (file == NULL || file[0] == '\0') {
		puts("no capture since the edge started");
	} else {
		printf("%s %s: %lld packets, %s in %.1f s, %lld missed%s%s\n",
			running ? "capturing into" : "captured", file,
			(long long)json_integer_value(json_object_get(o, "packets")),
			units_format_bytes((uint64_t)json_integer_value(
						   json_object_get(o, "bytes")),
				size),
			json_number_value(json_object_get(o, "seconds")),
			(long long)json_integer_value(json_object_get(o, "missed")),
			running || ended == NULL ? "" : "; ",
			running || ended == NULL ? "" : ended);
	}
	json_decref(o);
	return CTL_OK;
}

static int request(const struct ctl *ctl, json_t *o)
{
	json_t *answer;
	int rc = ask(ctl, o, &answer);

	json_decref(o);
	return rc == CTL_OK ? print_status(ctl, answer) : rc;
}

int cmd_capture_start(struct ctl *ctl)
{
	const char *file = ctl_option(ctl, "file"), *limit = ctl_option(ctl, "limit");
	const char *duration = ctl_option(ctl, "duration"), *snap = ctl_option(ctl, "snaplen");
	json_t *o = json_pack("{s:s}", "op", "capture-start");
	char err[160];
	uint64_t n;

	if (file != NULL)
		json_object_set_new(o, "file", json_string(file));
	if (limit != NULL) {
		if (units_parse_bytes(limit, &n, err, sizeof(err)) != 0) {
			json_decref(o);
			return ctl_fail(CTL_USAGE, "--limit: %s", err);
		}
		json_object_set_new(o, "bytes", json_integer((json_int_t)n));
	}
	if (duration != NULL) {
		if (units_parse_duration(duration, &n, err, sizeof(err)) != 0) {
			json_decref(o);
			return ctl_fail(CTL_USAGE, "--duration: %s", err);
		}
		/* Whole seconds, and 0 would mean the default. */
		n = (n + 999999999) / 1000000000;
		json_object_set_new(o, "seconds", json_integer((json_int_t)(n == 0 ? 1 : n)));
	}
	if (snap != NULL) {
		if (ctl_parse_u64(snap, &n) != 0 || n > UINT16_MAX) {
			json_decref(o);
			return ctl_fail(CTL_USAGE, "--snaplen: bytes of each frame, up to 65535");
		}
		json_object_set_new(o, "snap", json_integer((json_int_t)n));
	}
	return request(ctl, o);
}

int cmd_capture_stop(struct ctl *ctl)
{
	return request(ctl, json_pack("{s:s}", "op", "capture-stop"));
}

int cmd_capture_status(struct ctl *ctl)
{
	return request(ctl, json_pack("{s:s}", "op", "capture-status"));
}
