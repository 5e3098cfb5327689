/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/exist_server.h"

#include "control/base/clock.h"
#include "control/client/exist_wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { THREADS_MAX = 16, BACKLOG = 128, EVENTS = 16, MISSED_MAX = 1024 };

/* What epoll tells beside clients, which are told by their place in fds. */
enum { TAG_LISTENER = UINT32_MAX, TAG_STOP = UINT32_MAX - 1 };

struct exist_server {
	struct existence *e;
	struct exist_server_config cfg;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	dev_t dev; /* of the socket that we made, */
	ino_t ino; /* which another may have replaced since */
	int listener, epoll, stop;
	_Atomic int *fds; /* of clients_max clients; -1: free */
	unsigned int started;
	pthread_t threads[THREADS_MAX];
	_Atomic uint64_t clients, refused, requests, keys, broken;
	pthread_mutex_t missed_lock;
	struct digest128 missed[MISSED_MAX];
	size_t nmissed;
};

static void client_close(struct exist_server *s, uint32_t at)
{
	int fd = s->fds[at];

	/* Free before it is closed: the number may be another's at once. */
	s->fds[at] = -1;
	s->clients--;
	close(fd);
}

/* A free place, or clients_max. */
static uint32_t client_place(struct exist_server *s, int fd)
{
	for (uint32_t i = 0; i < s->cfg.clients_max; i++) {
		int none = -1;

		if (atomic_compare_exchange_strong(&s->fds[i], &none, fd)) {
			s->clients++;
			return i;
		}
	}
	return s->cfg.clients_max;
}

static void client_accept(struct exist_server *s)
{
	struct exist_hello hello = { .magic = EXIST_MAGIC,
		.version = EXIST_VERSION,
		.keys_max = EXIST_KEYS_MAX };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT };
	struct digest_key key;
	uint32_t at;
	struct ucred who;
	socklen_t len = sizeof(who);
	int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
		!s->cfg.tenant(who.uid, who.gid, &key, s->cfg.ctx) ||
		(at = client_place(s, fd)) == s->cfg.clients_max) {
		s->refused++;
		close(fd);
		return;
	}
	memcpy(hello.digest_key, key.bytes, sizeof(hello.digest_key));
	ev.data.u64 = at;
	if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) ||
		epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		client_close(s, at);
}

struct work {
	union {
		struct exist_request q;
		uint8_t bytes[EXIST_REQUEST_MAX + 1];
	} in;
	uint8_t out[EXIST_REPLY_MAX];
	struct digest128 d[EXIST_KEYS_MAX];
	uint8_t answers[EXIST_KEYS_MAX + 4];
};

/* Hints for the planner: nobody waits to leave one. */
static void note_missed(struct exist_server *s, const struct work *w, const struct exist_reply *r,
	size_t n)
{
	if (pthread_mutex_trylock(&s->missed_lock) != 0)
		return;
	if (r->flags & EXIST_PREFIX) {
		if (r->first_miss < n && s->nmissed < MISSED_MAX)
			s->missed[s->nmissed++] = w->d[r->first_miss];
	} else {
		for (size_t i = 0; i < n && s->nmissed < MISSED_MAX; i++)
			if (w->answers[i] != STRAIT_EXIST_YES)
				s->missed[s->nmissed++] = w->d[i];
	}
	pthread_mutex_unlock(&s->missed_lock);
}

size_t exist_server_missed(struct exist_server *s, struct digest128 *out, size_t max)
{
	size_t n;

	pthread_mutex_lock(&s->missed_lock);
	n = s->nmissed < max ? s->nmissed : max;
	memcpy(out, s->missed, n * sizeof(*out));
	s->nmissed = 0;
	pthread_mutex_unlock(&s->missed_lock);
	return n;
}

/* Length of the reply, or -EPROTO. */
static ssize_t request_answer(struct exist_server *s, struct work *w, size_t len)
{
	struct exist_reply r = { .id = w->in.q.id, .n = w->in.q.n, .flags = w->in.q.flags };
	struct existence_age age;
	uint64_t now = clock_now_ns();
	size_t n = r.n, out = sizeof(r);

	if (n == 0 || n > EXIST_KEYS_MAX || (r.flags & ~EXIST_PREFIX) != 0 ||
		len != sizeof(w->in.q) + n * EXIST_DIGEST_BYTES)
		return -EPROTO;
	memcpy(w->d, w->in.bytes + sizeof(w->in.q), n * EXIST_DIGEST_BYTES);
	if (r.flags & EXIST_PREFIX) {
		r.first_miss = (uint32_t)existence_prefix(s->e, w->d, n, now, &age);
	} else {
		existence_ask(s->e, w->d, n, now, w->answers, &age);
		memset(w->answers + n, 0, 3);
		for (size_t i = 0; i < n; i += 4)
			w->out[out++] = (uint8_t)(w->answers[i] | w->answers[i + 1] << 2 |
				w->answers[i + 2] << 4 | w->answers[i + 3] << 6);
	}
	if (age.known)
		note_missed(s, w, &r, n);
	r.as_of = age.as_of;
	r.age_ns = age.age_ns;
	memcpy(w->out, &r, sizeof(r));
	s->requests++;
	s->keys += n;
	return (ssize_t)out;
}

/* One request; more of this client come by the next event, so that all get their turn. */
static void client_serve(struct exist_server *s, struct work *w, uint32_t at)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = at };
	int fd = s->fds[at];
	ssize_t n = recv(fd, w->in.bytes, sizeof(w->in.bytes), MSG_TRUNC);

	if (n < 0 && errno == EAGAIN)
		goto rearm;
	if (n <= 0) {
		client_close(s, at);
		return;
	}
	if ((size_t)n < sizeof(w->in.q) || (size_t)n > EXIST_REQUEST_MAX)
		n = -EPROTO;
	else
		n = request_answer(s, w, (size_t)n);
	/* Who does not read its answers is closed, not waited for. */
	if (n < 0 || send(fd, w->out, (size_t)n, MSG_NOSIGNAL) != n) {
		s->broken++;
		client_close(s, at);
		return;
	}
rearm:
	if (epoll_ctl(s->epoll, EPOLL_CTL_MOD, fd, &ev) < 0)
		client_close(s, at);
}

static void *serve(void *arg)
{
	struct exist_server *s = arg;
	struct work *w = malloc(sizeof(*w));
	bool run = w != NULL;

	index_reader_register();
	while (run) {
		struct epoll_event ev[EVENTS];
		int n = epoll_wait(s->epoll, ev, s->started > 1 ? 1 : EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (ev[i].data.u64 == TAG_STOP)
				run = false;
			else if (ev[i].data.u64 == TAG_LISTENER)
				client_accept(s);
			else
				client_serve(s, w, (uint32_t)ev[i].data.u64);
		}
	}
	index_reader_unregister();
	free(w);
	return NULL;
}

/* A connection that waits to be accepted counts, too. */
static bool is_served(const struct sockaddr_un *a)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool yes;

	if (fd < 0)
		return false;
	yes = connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EAGAIN;
	close(fd);
	return yes;
}

static int socket_bind(struct exist_server *s)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct stat st;

	if (strlen(s->cfg.path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	snprintf(s->path, sizeof(s->path), "%s", s->cfg.path);
	memcpy(a.sun_path, s->path, sizeof(a.sun_path));
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->listener < 0)
		return -errno;
	/* Only a socket is ever removed, and none that answers. */
	if (lstat(s->path, &st) == 0 && S_ISSOCK(st.st_mode)) {
		if (is_served(&a))
			return -EADDRINUSE;
		unlink(s->path);
	}
	if (bind(s->listener, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -errno;
	if (lstat(s->path, &st) < 0)
		return -errno;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	if (chmod(s->path, s->cfg.mode) < 0 || listen(s->listener, BACKLOG) < 0)
		return -errno;
	return 0;
}

static int watch(struct exist_server *s, int fd, uint64_t tag, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = tag };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

struct exist_server *exist_server_start(struct existence *e, const struct exist_server_config *cfg,
	char *err, size_t err_len)
{
	struct exist_server *s = calloc(1, sizeof(*s));
	unsigned int threads = cfg->threads < 1 ? 1 : cfg->threads;
	int ret = -ENOMEM;

	if (s == NULL)
		goto err;
	s->e = e;
	s->cfg = *cfg;
	pthread_mutex_init(&s->missed_lock, NULL);
	s->listener = s->epoll = s->stop = -1;
	s->fds = malloc((cfg->clients_max + 1) * sizeof(*s->fds));
	if (s->fds == NULL)
		goto err;
	for (uint32_t i = 0; i < cfg->clients_max; i++)
		atomic_init(&s->fds[i], -1);
	s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	ret = s->stop < 0 || s->epoll < 0 ? -errno : socket_bind(s);
	if (ret == 0)
		ret = watch(s, s->listener, TAG_LISTENER, EPOLLIN | EPOLLEXCLUSIVE);
	if (ret == 0)
		ret = watch(s, s->stop, TAG_STOP, EPOLLIN);
	if (ret < 0)
		goto err;
	threads = threads > THREADS_MAX ? THREADS_MAX : threads;
	while (s->started < threads) {
		ret = -pthread_create(&s->threads[s->started], NULL, serve, s);
		if (ret < 0)
			goto err;
		s->started++;
	}
	return s;
err:
	snprintf(err, err_len, "existence socket %s: %s", cfg->path, strerror(-ret));
	exist_server_stop(s);
	errno = -ret;
	return NULL;
}

void exist_server_stop(struct exist_server *s)
{
	uint64_t one = 1;
	struct stat st;

	if (s == NULL)
		return;
	if (s->started > 0 && write(s->stop, &one, sizeof(one)) < 0)
		one = 0;
	while (s->started > 0)
		pthread_join(s->threads[--s->started], NULL);
	for (uint32_t i = 0; s->fds != NULL && i < s->cfg.clients_max; i++)
		if (s->fds[i] >= 0)
			client_close(s, i);
	free(s->fds);
	if (s->listener >= 0) {
		if (lstat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino)
			unlink(s->path);
		close(s->listener);
	}
	if (s->epoll >= 0)
		close(s->epoll);
	if (s->stop >= 0)
		close(s->stop);
	free(s);
}

void exist_server_stats_get(struct exist_server *s, struct exist_server_stats *out)
{
	*out = (struct exist_server_stats){ s->clients, s->refused, s->requests, s->keys,
		s->broken };
}
