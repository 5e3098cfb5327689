/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/client/exist_maps.h"
#include "control/client/exist_wire.h"

#include <strait/strait.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* Reports of what was missed in the mapped memory: so many digests in so long. */
enum { MISSED_MAX = 1024 };
#define MISSED_NS UINT64_C(100000000)
/* Clocks that differ by so much are not one clock (time namespaces). */
#define SKEW_NS UINT64_C(1000000000)

struct strait_exist {
	pthread_mutex_t lock; /* of the connection and what belongs to it */
	struct sockaddr_un address;
	struct timeval timeout;
	int fd; /* -1: not connected */
	uint32_t id;
	const _Atomic uint8_t *here; /* 0 in a forked child; NULL: the kernel cannot */
	pid_t owner;
	struct digest_key key;
	_Atomic uint64_t missed_ns; /* what was reported since then; written under the lock */
	_Atomic uint32_t missed;
	struct exist_maps maps;
	uint8_t buf[EXIST_REQUEST_MAX];
	uint8_t reply[EXIST_REPLY_MAX];
};

static void hang_up(struct strait_exist *x)
{
	if (x->fd >= 0)
		close(x->fd);
	x->fd = -1;
}

/* Receive a reply and the descriptor that may come with it. */
static ssize_t receive_map(struct strait_exist *x, struct exist_map *out, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { out, sizeof(*out) };
	struct msghdr msg = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(x->fd, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	*fd = -1;
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(c), sizeof(int));
	return n;
}

/*
 * Ask for the server's memory. Whatever is wrong with that, there is still the socket; an error is
 * one of the connection.
 */
static int map_get(struct strait_exist *x)
{
	struct exist_request q = { .id = ++x->id, .flags = EXIST_MAP };
	struct exist_map m;
	uint64_t now_ns;
	ssize_t n;
	int fd;

	if (send(x->fd, &q, sizeof(q), MSG_NOSIGNAL) != sizeof(q))
		return -errno;
	n = receive_map(x, &m, &fd);
	if (n <= 0)
		return n < 0 ? -errno : -ECONNRESET;
	now_ns = clock_now_ns();
	if (n == sizeof(m) && m.id == q.id && fd >= 0 && m.bytes > 0 &&
		m.user_bytes == sizeof(struct exist_shared) &&
		now_ns - m.now_ns + SKEW_NS < 2 * SKEW_NS)
		(void)exist_maps_put(&x->maps, fd, m.bytes, &x->key);
	if (fd >= 0)
		close(fd);
	return n == sizeof(m) && m.id == q.id ? 0 : -EPROTO;
}

static int greet(struct strait_exist *x)
{
	struct exist_hello hello;
	ssize_t n;

	x->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (x->fd < 0)
		return -errno;
	if (setsockopt(x->fd, SOL_SOCKET, SO_RCVTIMEO, &x->timeout, sizeof(x->timeout)) < 0 ||
		setsockopt(x->fd, SOL_SOCKET, SO_SNDTIMEO, &x->timeout, sizeof(x->timeout)) < 0 ||
		connect(x->fd, (const struct sockaddr *)&x->address, sizeof(x->address)) < 0)
		goto err;
	n = recv(x->fd, &hello, sizeof(hello), 0);
	if (n < 0)
		goto err;
	/* Closed without a word: these credentials are no tenant's. */
	errno = n == 0 ? EACCES : EPROTO;
	if (n != sizeof(hello) || hello.magic != EXIST_MAGIC || hello.version != EXIST_VERSION ||
		hello.keys_max < 1)
		goto err;
	memcpy(x->key.bytes, hello.digest_key, sizeof(x->key.bytes));
	return 0;
err:
	n = -errno;
	hang_up(x);
	return n == -EAGAIN ? -ETIMEDOUT : (int)n;
}

static int dial(struct strait_exist *x)
{
	int ret;

	exist_maps_drop(&x->maps);
	ret = greet(x);
	if (ret < 0)
		return ret;
	ret = map_get(x);
	if (ret == -ECONNRESET || ret == -EPIPE) {
		/* A server of before EXIST_MAP; or it ended, and the next one is asked anew. */
		hang_up(x);
		ret = greet(x);
	} else if (ret < 0) {
		hang_up(x);
	}
	return ret == -EAGAIN ? -ETIMEDOUT : ret;
}

/* A page that a forked child finds empty, without asking the kernel who it is. */
static void mark_owner(struct strait_exist *x)
{
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	x->owner = getpid();
	if (page == MAP_FAILED)
		return;
	if (madvise(page, 4096, MADV_WIPEONFORK) < 0) {
		munmap(page, 4096);
		return;
	}
	*page = 1;
	x->here = (const _Atomic uint8_t *)page;
}

static bool is_owner(const struct strait_exist *x)
{
	return x->here != NULL ? atomic_load_explicit(x->here, memory_order_relaxed) != 0
			       : x->owner == getpid();
}

struct strait_exist *strait_exist_open(const char *path, unsigned int timeout_ms)
{
	struct strait_exist *x;
	int ret;

	if (path == NULL || timeout_ms == 0 || strlen(path) >= sizeof(x->address.sun_path)) {
		errno = EINVAL;
		return NULL;
	}
	x = aligned_alloc(64, (sizeof(*x) + 63) & ~(size_t)63);
	if (x == NULL)
		return NULL;
	memset(x, 0, sizeof(*x));
	x->fd = -1;
	exist_maps_init(&x->maps);
	pthread_mutex_init(&x->lock, NULL);
	x->address.sun_family = AF_UNIX;
	memcpy(x->address.sun_path, path, strlen(path));
	x->timeout = (struct timeval){ timeout_ms / 1000, timeout_ms % 1000 * 1000 };
	mark_owner(x);
	ret = dial(x);
	if (ret < 0) {
		strait_exist_close(x);
		errno = -ret;
		return NULL;
	}
	return x;
}

void strait_exist_close(struct strait_exist *x)
{
	if (x == NULL)
		return;
	hang_up(x);
	exist_maps_fini(&x->maps);
	if (x->here != NULL)
		munmap((void *)(uintptr_t)x->here, 4096);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

/* One request and its reply in x->reply. */
static int ask(struct strait_exist *x, const struct strait_key *keys, size_t n, uint16_t flags,
	struct exist_reply *out)
{
	struct exist_request q = { ++x->id, (uint16_t)n, flags };
	size_t len = sizeof(q) + n * EXIST_DIGEST_BYTES;
	size_t want = sizeof(*out) + (flags & EXIST_PREFIX ? 0 : (n + 3) / 4);
	ssize_t got;

	memcpy(x->buf, &q, sizeof(q));
	for (size_t i = 0; i < n; i++) {
		struct digest128 d = digest_of_key(&x->key, keys[i].data, keys[i].len);

		memcpy(x->buf + sizeof(q) + i * EXIST_DIGEST_BYTES, &d, sizeof(d));
	}
	if (send(x->fd, x->buf, len, MSG_NOSIGNAL) != (ssize_t)len)
		return -errno;
	/* An answer to a question that timed out earlier may come first. */
	do {
		got = recv(x->fd, x->reply, sizeof(x->reply), 0);
		if (got <= 0)
			return got < 0 ? -errno : -ECONNRESET;
		if ((size_t)got < sizeof(*out))
			return -EPROTO;
		memcpy(out, x->reply, sizeof(*out));
	} while (out->id != q.id);
	return (size_t)got == want && out->n == n && out->first_miss <= n ? 0 : -EPROTO;
}

/* Connect again if the server went since, once. */
static int ask_again(struct strait_exist *x, const struct strait_key *keys, size_t n,
	uint16_t flags, struct exist_reply *out)
{
	int ret = x->fd < 0 ? -ENOTCONN : ask(x, keys, n, flags, out);

	if (ret == -ENOTCONN || ret == -EPIPE || ret == -ECONNRESET) {
		hang_up(x);
		ret = dial(x);
		/* The secret may be another now. */
		if (ret == 0)
			ret = ask(x, keys, n, flags, out);
	}
	if (ret < 0 && ret != -EAGAIN)
		hang_up(x);
	return ret == -EAGAIN ? -ETIMEDOUT : ret;
}

static int check(const struct strait_exist *x, const struct strait_key *keys, size_t n)
{
	if (x == NULL || keys == NULL || n > STRAIT_EXIST_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (keys[i].data == NULL || keys[i].len == 0 || keys[i].len > STRAIT_KEY_MAX)
			return -EINVAL;
	return is_owner(x) ? 0 : -ECHILD;
}

/* Of several answers the oldest counts. */
static void age_take(struct strait_exist_age *age, uint64_t as_of, uint64_t age_ns)
{
	if (age->as_of == 0 || as_of < age->as_of)
		age->as_of = as_of;
	if (age_ns > age->age_ns)
		age->age_ns = age_ns;
}

/* ---- in the server's memory ---- */

/* Of what was asked there the server knows nothing; its planner should. Nobody waits for that. */
static void report_missed(struct strait_exist *x, const struct digest128 *d, const uint8_t *answers,
	size_t n, uint64_t now_ns)
{
	struct exist_request q = { .flags = EXIST_MISSED };
	uint8_t *at;

	if ((x->missed >= MISSED_MAX && now_ns - x->missed_ns < MISSED_NS) ||
		pthread_mutex_trylock(&x->lock) != 0)
		return;
	if (now_ns - x->missed_ns >= MISSED_NS) {
		x->missed_ns = now_ns;
		x->missed = 0;
	}
	at = x->buf + sizeof(q);
	for (size_t i = 0; i < n && x->missed < MISSED_MAX; i++) {
		if (answers[i] == STRAIT_EXIST_YES)
			continue;
		memcpy(at, &d[i], sizeof(d[i]));
		at += sizeof(d[i]);
		q.n++;
		x->missed++;
	}
	if (q.n > 0 && x->fd >= 0) {
		memcpy(x->buf, &q, sizeof(q));
		(void)send(x->fd, x->buf, (size_t)(at - x->buf), MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	pthread_mutex_unlock(&x->lock);
}

/* The server's memory, if there is any and the server lives. */
static bool enter(struct strait_exist *x, struct exist_inside *in, uint64_t *now_ns)
{
	if (!exist_maps_enter(&x->maps, in))
		return false;
	*now_ns = clock_now_ns();
	if (exist_view_is_served(&in->slot->view, *now_ns))
		return true;
	exist_maps_leave(in);
	return false;
}

_Static_assert(sizeof(struct strait_key) == sizeof(struct digest_text) &&
		offsetof(struct strait_key, len) == offsetof(struct digest_text, len),
	"one is the other");

static void digests_get(const struct digest_key *secret, const struct strait_key *keys, size_t n,
	struct digest128 *d)
{
	digest_of_keys(secret, (const struct digest_text *)keys, n, d);
}

static bool batch_here(struct strait_exist *x, const struct strait_key *keys, size_t n,
	uint8_t *answers, struct strait_exist_age *age)
{
	struct digest128 d[INDEX_BATCH];
	struct exist_inside in;
	uint64_t now_ns;

	if (!enter(x, &in, &now_ns))
		return false;
	for (size_t at = 0; at < n; at += INDEX_BATCH) {
		size_t m = n - at < INDEX_BATCH ? n - at : INDEX_BATCH;
		struct exist_age got;

		digests_get(&in.slot->key, keys + at, m, d);
		exist_view_ask(&in.slot->view, d, m, now_ns, answers + at, &got);
		age_take(age, got.as_of, got.age_ns);
		if (got.known)
			report_missed(x, d, answers + at, m, now_ns);
	}
	exist_maps_leave(&in);
	return true;
}

static bool prefix_here(struct strait_exist *x, const struct strait_key *keys, size_t n,
	size_t *first_miss, struct strait_exist_age *age)
{
	static const uint8_t no = STRAIT_EXIST_NO;
	struct digest128 d[INDEX_BATCH];
	struct exist_inside in;
	uint64_t now_ns;

	if (!enter(x, &in, &now_ns))
		return false;
	for (size_t at = 0; at < n; at += INDEX_BATCH) {
		size_t m = n - at < INDEX_BATCH ? n - at : INDEX_BATCH, first;
		struct exist_age got;

		digests_get(&in.slot->key, keys + at, m, d);
		first = exist_view_prefix(&in.slot->view, d, m, now_ns, &got);
		age_take(age, got.as_of, got.age_ns);
		*first_miss = at + first;
		if (first < m) {
			if (got.known)
				report_missed(x, d + first, &no, 1, now_ns);
			break;
		}
	}
	exist_maps_leave(&in);
	return true;
}

/* ---- over the socket ---- */

static int batch_there(struct strait_exist *x, const struct strait_key *keys, size_t n,
	uint8_t *answers, struct strait_exist_age *age)
{
	struct exist_reply r;
	int ret = 0;

	pthread_mutex_lock(&x->lock);
	for (size_t at = 0; at < n; at += EXIST_KEYS_MAX) {
		size_t m = n - at < EXIST_KEYS_MAX ? n - at : EXIST_KEYS_MAX;

		ret = ask_again(x, keys + at, m, 0, &r);
		if (ret < 0)
			break;
		for (size_t i = 0; i < m; i++)
			answers[at + i] =
				x->reply[sizeof(r) + i / 4] >> (i % 4 * 2) & STRAIT_EXIST_MASK;
		age_take(age, r.as_of, r.age_ns);
	}
	pthread_mutex_unlock(&x->lock);
	return ret;
}

static int prefix_there(struct strait_exist *x, const struct strait_key *keys, size_t n,
	size_t *first_miss, struct strait_exist_age *age)
{
	struct exist_reply r;
	int ret = 0;

	pthread_mutex_lock(&x->lock);
	for (size_t at = 0; at < n; at += EXIST_KEYS_MAX) {
		size_t m = n - at < EXIST_KEYS_MAX ? n - at : EXIST_KEYS_MAX;

		ret = ask_again(x, keys + at, m, EXIST_PREFIX, &r);
		if (ret < 0)
			break;
		age_take(age, r.as_of, r.age_ns);
		*first_miss = at + r.first_miss;
		if (r.first_miss < m)
			break;
	}
	pthread_mutex_unlock(&x->lock);
	return ret;
}

int strait_exist_batch(struct strait_exist *x, const struct strait_key *keys, size_t n,
	uint8_t *answers, struct strait_exist_age *age)
{
	int ret = answers == NULL ? -EINVAL : check(x, keys, n);
	struct strait_exist_age got = { 0 };

	if (answers != NULL && n <= STRAIT_EXIST_MAX)
		memset(answers, STRAIT_EXIST_UNKNOWN, n);
	if (ret < 0)
		return ret;
	if (!batch_here(x, keys, n, answers, &got))
		ret = batch_there(x, keys, n, answers, &got);
	if (age != NULL)
		*age = got;
	return ret;
}

int strait_exist_prefix(struct strait_exist *x, const struct strait_key *keys, size_t n,
	size_t *first_miss, struct strait_exist_age *age)
{
	int ret = first_miss == NULL ? -EINVAL : check(x, keys, n);
	struct strait_exist_age got = { 0 };

	if (ret < 0)
		return ret;
	*first_miss = 0;
	if (!prefix_here(x, keys, n, first_miss, &got))
		ret = prefix_there(x, keys, n, first_miss, &got);
	if (age != NULL)
		*age = got;
	return ret;
}

bool strait_exist_is_mapped(struct strait_exist *x)
{
	struct exist_inside in;
	uint64_t now_ns;

	if (x == NULL || !is_owner(x) || !enter(x, &in, &now_ns))
		return false;
	exist_maps_leave(&in);
	return true;
}
