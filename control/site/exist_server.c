/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/exist_server.h"

#include "control/base/clock.h"
#include "control/base/log.h"
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

enum { THREADS_MAX = 16, BACKLOG = 128, EVENTS = 16, MISSED_MAX = 1024, GROUPS_MAX = 1024 };

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
	_Atomic uint64_t clients, refused, requests, keys, broken, mapped;
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

/* Whether it is of the tenant, and the tenant's key. */
static bool client_admit(struct exist_server *s, int fd, struct digest_key *key)
{
	gid_t groups[GROUPS_MAX];
	struct exist_peer who = { .groups = groups };
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	who.pid = cred.pid;
	who.uid = cred.uid;
	who.gid = cred.gid;
	/* Who is in more groups than that is known by its first one only. */
	len = sizeof(groups);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) == 0)
		who.ngroups = len / (socklen_t)sizeof(gid_t);
	if (s->cfg.tenant(&who, key, s->cfg.ctx))
		return true;
	log_limited(LOG_LEVEL_WARN, "exist", 10000,
		"a process of no user and no group of the tenant was refused socket=%s pid=%d "
		"uid=%u gid=%u",
		s->path, (int)who.pid, who.uid, who.gid);
	return false;
}

static void client_accept(struct exist_server *s)
{
	struct exist_hello hello = { .magic = EXIST_MAGIC,
		.version = EXIST_VERSION,
		.keys_max = EXIST_KEYS_MAX };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT };
	struct digest_key key;
	uint32_t at;
	int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (!client_admit(s, fd, &key) || (at = client_place(s, fd)) == s->cfg.clients_max) {
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

/*
 * Hints for the planner: nobody waits to leave one. What could not be had lately is no hint, it
 * would only be ordered again.
 */
static void note_missed(struct exist_server *s, const struct digest128 *d, const uint8_t *answers,
	size_t n, uint64_t now_ns)
{
	if (pthread_mutex_trylock(&s->missed_lock) != 0)
		return;
	for (size_t i = 0; i < n && s->nmissed < MISSED_MAX; i++)
		if (answers[i] != STRAIT_EXIST_YES &&
			!exist_view_is_negative(&s->e->view, d[i], now_ns))
			s->missed[s->nmissed++] = d[i];
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

/* The memory itself, or word that there is none to be had. */
static int client_map(struct exist_server *s, const struct exist_request *q, int fd)
{
	struct exist_map m = { .id = q->id,
		.flags = EXIST_MAP,
		.now_ns = clock_now_ns(),
		.user_bytes = sizeof(struct exist_shared) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec part = { &m, sizeof(m) };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
	int shared = index_share(s->e->index, &m.bytes);
	ssize_t n;

	if (shared < 0) {
		m.bytes = 0;
	} else {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &shared, sizeof(int));
	}
	n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	if (shared >= 0)
		close(shared);
	s->mapped += shared >= 0 && n == sizeof(m);
	return n == sizeof(m) ? 0 : -EPIPE;
}

/* Its answers, or its first miss. Length of the reply. */
static size_t client_answer(struct exist_server *s, struct work *w)
{
	struct exist_reply r = { .id = w->in.q.id, .n = w->in.q.n, .flags = w->in.q.flags };
	static const uint8_t no = STRAIT_EXIST_NO;
	struct exist_age age;
	uint64_t now = clock_now_ns();
	size_t n = r.n, out = sizeof(r);

	if (r.flags & EXIST_PREFIX) {
		r.first_miss = (uint32_t)existence_prefix(s->e, w->d, n, now, &age);
		if (age.known && r.first_miss < n)
			note_missed(s, w->d + r.first_miss, &no, 1, now);
	} else {
		existence_ask(s->e, w->d, n, now, w->answers, &age);
		if (age.known)
			note_missed(s, w->d, w->answers, n, now);
		memset(w->answers + n, 0, 3);
		for (size_t i = 0; i < n; i += 4)
			w->out[out++] = (uint8_t)(w->answers[i] | w->answers[i + 1] << 2 |
				w->answers[i + 2] << 4 | w->answers[i + 3] << 6);
	}
	r.as_of = age.as_of;
	r.age_ns = age.age_ns;
	memcpy(w->out, &r, sizeof(r));
	s->requests++;
	s->keys += n;
	return out;
}

/* A request of len bytes. Who does not read its answers is closed, not waited for. */
static int client_request(struct exist_server *s, struct work *w, int fd, size_t len)
{
	const struct exist_request *q = &w->in.q;
	size_t n, out;

	if (len < sizeof(*q) || len > EXIST_REQUEST_MAX)
		return -EPROTO;
	n = q->n;
	if (n > EXIST_KEYS_MAX || len != sizeof(*q) + n * EXIST_DIGEST_BYTES)
		return -EPROTO;
	if (q->flags == EXIST_MAP && n == 0)
		return client_map(s, q, fd);
	if (n == 0)
		return -EPROTO;
	memcpy(w->d, w->in.bytes + sizeof(*q), n * EXIST_DIGEST_BYTES);
	if (q->flags == EXIST_MISSED) {
		memset(w->answers, STRAIT_EXIST_NO, n);
		note_missed(s, w->d, w->answers, n, clock_now_ns());
		return 0;
	}
	if ((q->flags & ~EXIST_PREFIX) != 0)
		return -EPROTO;
	out = client_answer(s, w);
	return send(fd, w->out, out, MSG_NOSIGNAL) == (ssize_t)out ? 0 : -EPIPE;
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
	if (client_request(s, w, fd, (size_t)n) < 0) {
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

	while (run) {
		struct epoll_event ev[EVENTS];
		int n = epoll_wait(s->epoll, ev, s->cfg.threads > 1 ? 1 : EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (ev[i].data.u64 == TAG_STOP)
				run = false;
			else if (ev[i].data.u64 == TAG_LISTENER)
				client_accept(s);
			else
				client_serve(s, w, (uint32_t)ev[i].data.u64);
		}
	}
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
	int ret = -ENOMEM;

	if (s == NULL)
		goto err;
	s->e = e;
	s->cfg = *cfg;
	s->cfg.threads = cfg->threads < 1    ? 1
		: cfg->threads > THREADS_MAX ? THREADS_MAX
					     : cfg->threads;
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
	while (s->started < s->cfg.threads) {
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
	*out = (struct exist_server_stats){ s->clients, s->refused, s->requests, s->keys, s->broken,
		s->mapped };
}
