/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_pool.h"

#include "dataplane/pool/shm_client.h"
#include "dataplane/pool/shm_file.h"
#include "dataplane/pool/shm_lock.h"
#include "dataplane/pool/shm_object.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct shm_pool {
	struct pool pool;
	struct shm shm;
	char *path;
};

struct shm *shm_pool_file(struct pool *pool)
{
	return &((struct shm_pool *)pool)->shm;
}

uint64_t shm_pool_arena_bytes(uint64_t file_bytes)
{
	struct shm_geometry geo;

	return shm_geometry_init(&geo, file_bytes) == 0 ? (uint64_t)geo.page_count * SHM_PAGE : 0;
}

bool shm_pool_has_address(const struct pool *pool, const void *address)
{
	const struct shm *shm = &((const struct shm_pool *)pool)->shm;

	return (uintptr_t)address - (uintptr_t)shm->hdr < shm->geo.file_size;
}

static void op_destroy(struct pool *pool)
{
	struct shm *shm = shm_pool_file(pool);

	/*
	 * Without the lock, or in a forked child, closing the file is enough: others find this
	 * client dead.
	 */
	if (shm_lock(shm) == 0) {
		shm_client_leave(shm);
		shm_unlock(shm);
	}
	shm_file_close(shm);
	free(((struct shm_pool *)pool)->path);
	free(pool);
}

static int op_lease(struct pool *pool, const void *key, size_t key_len, struct pool_object *out)
{
	return shm_lease(shm_pool_file(pool), key, key_len, out);
}

static void op_release(struct pool *pool, uint64_t handle)
{
	shm_release(shm_pool_file(pool), handle);
}

static int op_renew(struct pool *pool)
{
	return shm_renew(shm_pool_file(pool));
}

static int op_reserve(struct pool *pool, const void *key, size_t key_len, uint64_t len,
	uint64_t digest, struct pool_object *out)
{
	return shm_reserve(shm_pool_file(pool), SHM_RESERVE_KEEP, key, key_len, len, digest, out);
}

static int op_publish(struct pool *pool, uint64_t handle, uint64_t digest)
{
	return shm_publish(shm_pool_file(pool), handle, digest);
}

static void op_abandon(struct pool *pool, uint64_t handle, bool keep)
{
	shm_abandon(shm_pool_file(pool), handle, keep);
}

static int op_exist(struct pool *pool, const void *key, size_t key_len)
{
	return shm_exist(shm_pool_file(pool), key, key_len);
}

static int op_remove(struct pool *pool, const void *key, size_t key_len)
{
	return shm_remove(shm_pool_file(pool), key, key_len);
}

static int op_stats(struct pool *pool, struct strait_pool_stats *out)
{
	return shm_stats(shm_pool_file(pool), out);
}

static int op_check(struct pool *pool, char *err, size_t err_len)
{
	return shm_file_check(shm_pool_file(pool), ((struct shm_pool *)pool)->path, err, err_len);
}

static const struct pool_ops shm_pool_ops = {
	.destroy = op_destroy,
	.lease = op_lease,
	.release = op_release,
	.renew = op_renew,
	.reserve = op_reserve,
	.publish = op_publish,
	.abandon = op_abandon,
	.exist = op_exist,
	.remove = op_remove,
	.stats = op_stats,
	.check = op_check,
};

static int pool_join(struct shm *shm, const char *path, char *err, size_t err_len)
{
	const char *what;
	int rc;

	rc = shm_lock(shm);
	if (rc == 0) {
		rc = shm_client_join(shm);
		shm_unlock(shm);
	}
	if (rc != 0 && err != NULL && err_len > 0) {
		what = rc == -EUSERS ? "all client slots are taken" : strerror(-rc);
		snprintf(err, err_len, "%s: %s", path, what);
	}
	return rc;
}

int shm_pool_prefault(struct pool *p, uint64_t *at, uint64_t bytes)
{
	const struct shm *shm = shm_pool_file(p);

	if (*at == 0 && !shm_file_is_reserved(shm))
		return 0;
	if (bytes > shm->geo.file_size - *at)
		bytes = shm->geo.file_size - *at;
	if (bytes == 0 || madvise((uint8_t *)shm->hdr + *at, bytes, MADV_POPULATE_WRITE) != 0)
		return 0;
	*at += bytes;
	return 1;
}

struct pool *shm_pool_open(const char *path, const struct shm_pool_options *options, char *err,
	size_t err_len)
{
	struct shm_pool *pool;
	int rc;

	pool = calloc(1, sizeof(*pool));
	if (pool != NULL)
		pool->path = strdup(path);
	if (pool == NULL || pool->path == NULL) {
		rc = -ENOMEM;
		if (err != NULL && err_len > 0)
			snprintf(err, err_len, "%s: %s", path, strerror(ENOMEM));
		goto free;
	}
	pool->pool.ops = &shm_pool_ops;
	rc = shm_file_open(&pool->shm, path, options, err, err_len);
	if (rc != 0)
		goto free;
	rc = pool_join(&pool->shm, path, err, err_len);
	if (rc != 0)
		goto close;
	return &pool->pool;
close:
	shm_file_close(&pool->shm);
free:
	if (pool != NULL)
		free(pool->path);
	free(pool);
	errno = -rc;
	return NULL;
}
