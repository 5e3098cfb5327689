/* SPDX-License-Identifier: Apache-2.0 */
#include "control/client/exist_wire.h"
#include "control/index/digest.h"

#include <strait/strait.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

struct strait_exist {
	pthread_mutex_t lock;
	struct sockaddr_un address;
	struct timeval timeout;
	int fd; /* -1: not connected */
	uint32_t id;
	pid_t owner;
	struct digest_key key;
	uint8_t buf[EXIST_REQUEST_MAX];
	uint8_t reply[EXIST_REPLY_MAX];
};

static void hang_up(struct strait_exist *x)
{
	if (x->fd >= 0)
		close(x->fd);
	x->fd = -1;
}

static int dial(struct strait_exist *x)
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

struct strait_exist *strait_exist_open(const char *path, unsigned int timeout_ms)
{
	struct strait_exist *x;
	int ret;

	if (path == NULL || timeout_ms == 0 || strlen(path) >= sizeof(x->address.sun_path)) {
		errno = EINVAL;
		return NULL;
	}
	x = calloc(1, sizeof(*x));
	if (x == NULL)
		return NULL;
	pthread_mutex_init(&x->lock, NULL);
	x->address.sun_family = AF_UNIX;
	memcpy(x->address.sun_path, path, strlen(path));
	x->timeout = (struct timeval){ timeout_ms / 1000, timeout_ms % 1000 * 1000 };
	x->owner = getpid();
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
	return x->owner == getpid() ? 0 : -ECHILD;
}

static void age_take(struct strait_exist_age *age, const struct exist_reply *r)
{
	if (age == NULL)
		return;
	/* Of several requests the oldest answer counts. */
	if (age->as_of == 0 || r->as_of < age->as_of)
		age->as_of = r->as_of;
	if (r->age_ns > age->age_ns)
		age->age_ns = r->age_ns;
}

int strait_exist_batch(struct strait_exist *x, const struct strait_key *keys, size_t n,
	uint8_t *answers, struct strait_exist_age *age)
{
	int ret = answers == NULL ? -EINVAL : check(x, keys, n);
	struct exist_reply r;

	if (answers != NULL && n <= STRAIT_EXIST_MAX)
		memset(answers, STRAIT_EXIST_UNKNOWN, n);
	if (ret < 0)
		return ret;
	if (age != NULL)
		*age = (struct strait_exist_age){ 0 };
	pthread_mutex_lock(&x->lock);
	for (size_t at = 0; at < n && ret == 0; at += EXIST_KEYS_MAX) {
		size_t m = n - at < EXIST_KEYS_MAX ? n - at : EXIST_KEYS_MAX;

		ret = ask_again(x, keys + at, m, 0, &r);
		if (ret < 0)
			break;
		for (size_t i = 0; i < m; i++)
			answers[at + i] =
				x->reply[sizeof(r) + i / 4] >> (i % 4 * 2) & STRAIT_EXIST_MASK;
		age_take(age, &r);
	}
	pthread_mutex_unlock(&x->lock);
	return ret;
}

int strait_exist_prefix(struct strait_exist *x, const struct strait_key *keys, size_t n,
	size_t *first_miss, struct strait_exist_age *age)
{
	int ret = first_miss == NULL ? -EINVAL : check(x, keys, n);
	struct exist_reply r;

	if (ret < 0)
		return ret;
	*first_miss = 0;
	if (age != NULL)
		*age = (struct strait_exist_age){ 0 };
	pthread_mutex_lock(&x->lock);
	for (size_t at = 0; at < n; at += EXIST_KEYS_MAX) {
		size_t m = n - at < EXIST_KEYS_MAX ? n - at : EXIST_KEYS_MAX;

		ret = ask_again(x, keys + at, m, EXIST_PREFIX, &r);
		if (ret < 0)
			break;
		age_take(age, &r);
		*first_miss = at + r.first_miss;
		if (r.first_miss < m)
			break;
	}
	pthread_mutex_unlock(&x->lock);
	return ret;
}
