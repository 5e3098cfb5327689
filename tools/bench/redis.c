/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/redis.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 10, WAITS = 500, COMMAND_MAX = 64 };

struct redis {
	pid_t pid;
	int fd;
	char buf[REDIS_BATCH * COMMAND_MAX];
};

static pid_t spawn(const char *dir, const char *path)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	/* Ends with us, however we end. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || chdir(dir) < 0)
		_exit(1);
	int null = open("/dev/null", O_RDWR);

	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save", "",
		"--appendonly", "no", (char *)NULL);
	_exit(127);
}

/* Until it listens; -ENOENT if it ended. */
static int dial(struct redis *r, const char *path)
{
	struct timespec pause = { 0, WAIT_MS * 1000000 };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int status;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	for (int i = 0; i < WAITS; i++) {
		r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (r->fd < 0)
			return -errno;
		if (connect(r->fd, (struct sockaddr *)&a, sizeof(a)) == 0)
			return 0;
		close(r->fd);
		r->fd = -1;
		if (waitpid(r->pid, &status, WNOHANG) == r->pid) {
			r->pid = -1;
			return -ENOENT;
		}
		nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}

struct redis *redis_start(const char *dir)
{
	struct redis *r = calloc(1, sizeof(*r));
	char path[100];
	int ret;

	if (r == NULL)
		return NULL;
	r->fd = -1;
	snprintf(path, sizeof(path), "%s/redis.sock", dir);
	r->pid = spawn(dir, path);
	ret = r->pid < 0 ? -errno : dial(r, path);
	if (ret == 0)
		return r;
	redis_stop(r);
	errno = -ret;
	return NULL;
}

void redis_stop(struct redis *r)
{
	if (r == NULL)
		return;
	if (r->fd >= 0)
		close(r->fd);
	if (r->pid > 0) {
		kill(r->pid, SIGTERM);
		waitpid(r->pid, NULL, 0);
	}
	free(r);
}

/* Send n commands of this head and tail around each key, get reply_bytes back into buf. */
static int call(struct redis *r, const char *head, const char *tail, const uint8_t *keys, size_t n,
	size_t reply_bytes)
{
	size_t len = 0, got = 0, h = strlen(head), t = strlen(tail);
	ssize_t ret;

	for (size_t i = 0; i < n; i++) {
		memcpy(r->buf + len, head, h);
		memcpy(r->buf + len + h, keys + i * REDIS_KEY_BYTES, REDIS_KEY_BYTES);
		memcpy(r->buf + len + h + REDIS_KEY_BYTES, tail, t);
		len += h + REDIS_KEY_BYTES + t;
	}
	for (size_t sent = 0; sent < len; sent += (size_t)ret) {
		ret = send(r->fd, r->buf + sent, len - sent, MSG_NOSIGNAL);
		if (ret < 0)
			return -errno;
	}
	while (got < reply_bytes) {
		ret = recv(r->fd, r->buf + got, sizeof(r->buf) - got, 0);
		if (ret <= 0)
			return ret < 0 ? -errno : -ECONNRESET;
		got += (size_t)ret;
	}
	return got == reply_bytes ? 0 : -EPROTO;
}

int redis_set(struct redis *r, const uint8_t *keys, size_t n)
{
	int ret = call(r, "*3\r\n$3\r\nSET\r\n$16\r\n", "\r\n$1\r\n1\r\n", keys, n, n * 5);

	return ret < 0 ? ret : memcmp(r->buf, "+OK\r\n", 5) == 0 ? 0 : -EPROTO;
}

int redis_exist(struct redis *r, const uint8_t *keys, size_t n)
{
	int hits = 0, ret = call(r, "*2\r\n$6\r\nEXISTS\r\n$16\r\n", "\r\n", keys, n, n * 4);

	for (size_t i = 0; i < n && ret == 0; i++) {
		if (r->buf[4 * i] != ':')
			return -EPROTO;
		hits += r->buf[4 * i + 1] == '1';
	}
	return ret < 0 ? ret : hits;
}
