/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_object.h"
#include "dataplane/pool/shm_pool.h"

#include <strait/strait.h>

#include <isa-l/crc64.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copy and digest in steps that stay in the first-level caches between the two. */
#define COPY_STEP (32u << 10)
#define BATCH_MAX ((size_t)1 << 20)
#define OPEN_FLAGS                                                                                 \
	(STRAIT_POOL_CREATE | STRAIT_POOL_GROUP | STRAIT_POOL_SPARSE | STRAIT_POOL_PREFAULT)

struct strait_pool {
	struct pool *pool;
	struct shm *shm;
};

static __thread char open_error[512];

struct strait_pool *strait_pool_open(const char *path, unsigned int flags, uint64_t create_size)
{
	const struct shm_pool_options options = {
		.create = flags & STRAIT_POOL_CREATE,
		.group = flags & STRAIT_POOL_GROUP,
		.sparse = flags & STRAIT_POOL_SPARSE,
		.prefault = flags & STRAIT_POOL_PREFAULT,
		.create_size_bytes = create_size,
	};
	struct strait_pool *pool;
	int saved;

	open_error[0] = '\0';
	if (path == NULL || (flags & ~OPEN_FLAGS) != 0) {
		snprintf(open_error, sizeof(open_error), "no path or an unknown flag");
		errno = EINVAL;
		return NULL;
	}
	pool = calloc(1, sizeof(*pool));
	if (pool == NULL) {
		snprintf(open_error, sizeof(open_error), "%s: %s", path, strerror(ENOMEM));
		return NULL;
	}
	pool->pool = shm_pool_open(path, &options, open_error, sizeof(open_error));
	if (pool->pool == NULL) {
		saved = errno;
		free(pool);
		errno = saved;
		return NULL;
	}
	pool->shm = shm_pool_file(pool->pool);
	return pool;
}

const char *strait_pool_open_error(void)
{
	return open_error;
}

void strait_pool_close(struct strait_pool *pool)
{
	if (pool == NULL)
		return;
	pool_destroy(pool->pool);
	free(pool);
}

int strait_pool_arena(struct strait_pool *pool, void **base, size_t *len)
{
	if (pool == NULL || base == NULL || len == NULL)
		return -EINVAL;
	*base = pool->shm->arena;
	*len = (size_t)pool->shm->geo.page_count * SHM_PAGE;
	return 0;
}

uint64_t strait_digest(const void *data, size_t len)
{
	/* ISA-L inverts on the way in and out; the ECMA-182 digest with init 0 does neither. */
	return ~crc64_ecma_norm(~0ull, data, len);
}

static uint64_t copy_and_digest(void *to, const void *from, size_t len)
{
	uint64_t crc = ~0ull;

	for (size_t at = 0; at < len; at += COPY_STEP) {
		size_t step = len - at < COPY_STEP ? len - at : COPY_STEP;

		memcpy((uint8_t *)to + at, (const uint8_t *)from + at, step);
		crc = crc64_ecma_norm(crc, (const uint8_t *)to + at, step);
	}
	return ~crc;
}

int strait_put(struct strait_pool *pool, const void *key, size_t key_len, const void *data,
	size_t len)
{
	struct pool_object object;
	uint64_t digest;
	int rc;

	if (pool == NULL || data == NULL)
		return -EINVAL;
	rc = shm_reserve(pool->shm, SHM_RESERVE_FRESH, key, key_len, len, 0, &object);
	if (rc != 0)
		return rc;
	digest = copy_and_digest(object.data, data, len);
	rc = shm_publish(pool->shm, object.handle, digest);
	if (rc != 0)
		shm_abandon(pool->shm, object.handle, false);
	return rc;
}

int strait_put_begin(struct strait_pool *pool, const void *key, size_t key_len, size_t len,
	struct strait_writer *out)
{
	struct pool_object object;
	int rc;

	if (pool == NULL || out == NULL)
		return -EINVAL;
	rc = shm_reserve(pool->shm, SHM_RESERVE_FRESH, key, key_len, len, 0, &object);
	if (rc != 0)
		return rc;
	*out = (struct strait_writer){
		.data = object.data,
		.len = (size_t)object.len,
		.handle = object.handle,
	};
	return 0;
}

int strait_put_commit(struct strait_pool *pool, struct strait_writer *writer)
{
	int rc;

	if (pool == NULL || writer == NULL)
		return -EINVAL;
	if (writer->handle == 0)
		return -ESTALE;
	rc = shm_publish(pool->shm, writer->handle, strait_digest(writer->data, writer->len));
	if (rc == 0)
		memset(writer, 0, sizeof(*writer));
	return rc;
}

void strait_put_abort(struct strait_pool *pool, struct strait_writer *writer)
{
	if (pool == NULL || writer == NULL || writer->handle == 0)
		return;
	shm_abandon(pool->shm, writer->handle, false);
	memset(writer, 0, sizeof(*writer));
}

int strait_get(struct strait_pool *pool, const void *key, size_t key_len, unsigned int flags,
	struct strait_object *out)
{
	struct pool_object object;
	int rc;

	if (pool == NULL || out == NULL || (flags & ~STRAIT_GET_VERIFY) != 0)
		return -EINVAL;
	rc = shm_lease(pool->shm, key, key_len, &object);
	if (rc != 0)
		return rc;
	if ((flags & STRAIT_GET_VERIFY) &&
		strait_digest(object.data, (size_t)object.len) != object.digest) {
		shm_release(pool->shm, object.handle);
		return -EBADMSG;
	}
	*out = (struct strait_object){
		.data = object.data,
		.len = (size_t)object.len,
		.digest = object.digest,
		.handle = object.handle,
	};
	return 0;
}

void strait_release(struct strait_pool *pool, struct strait_object *object)
{
	if (pool == NULL || object == NULL || object->handle == 0)
		return;
	shm_release(pool->shm, object->handle);
	memset(object, 0, sizeof(*object));
}

int strait_exist(struct strait_pool *pool, const void *key, size_t key_len)
{
	return pool == NULL ? -EINVAL : shm_exist(pool->shm, key, key_len);
}

int strait_batch_exist(struct strait_pool *pool, const struct strait_key *keys, size_t n,
	uint8_t *found)
{
	if (pool == NULL || keys == NULL || found == NULL || n > BATCH_MAX)
		return -EINVAL;
	return shm_exist_batch(pool->shm, keys, n, found);
}

int strait_remove(struct strait_pool *pool, const void *key, size_t key_len)
{
	return pool == NULL ? -EINVAL : shm_remove(pool->shm, key, key_len);
}

int strait_pool_stats(struct strait_pool *pool, struct strait_pool_stats *out)
{
	return pool == NULL || out == NULL ? -EINVAL : shm_stats(pool->shm, out);
}

const char *strait_strerror(int err)
{
	unsigned int code = err < 0 ? -(unsigned int)err : (unsigned int)err;

	switch (code) {
	case 0:
		return "success";
	case ENOENT:
		return "no such object or pool";
	case EEXIST:
		return "an object of this key is there already";
	case EBUSY:
		return "another writer holds this key";
	case ENOSPC:
		return "the pool is full and nothing may be evicted";
	case EFBIG:
		return "larger than an object or the pool may be";
	case EINVAL:
		return "invalid argument: empty object, bad key length or unknown flag";
	case ESTALE:
		return "not an open write of this client";
	case EBADMSG:
		return "the bytes do not match their digest";
	case ECHILD:
		return "the pool was opened before fork; open it again in the child";
	case ETIMEDOUT:
		return "a stopped process holds the pool's lock";
	case ENOTRECOVERABLE:
		return "the pool is damaged; recreate it";
	case EUSERS:
		return "all client slots of the pool are taken";
	case EILSEQ:
		return "not a Strait pool";
	case EPROTO:
		return "pool file of another format version";
	case EUCLEAN:
		return "pool file of a wrong size";
	case EPERM:
		return "pool file of another user, or open to the world";
	default:
		return strerror((int)code);
	}
}
