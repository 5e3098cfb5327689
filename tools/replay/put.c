/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/base/units.h"
#include "tools/replay/manifest.h"
#include "tools/replay/run.h"
#include "tools/replay/value.h"
#include "tools/replay/walk.h"

#include <strait/strait.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct put {
	const struct replay_options *o;
	struct replay_put_result *r;
	struct strait_pool *pool;
	FILE *manifest;
	uint8_t *buf;
	uint64_t evictions_before;
	char *err;
	size_t err_len;
};

/* The pool made room by dropping something, most likely what we put before. */
static int check_evictions(struct put *p, const struct strait_pool_stats *stats)
{
	char arena[UNITS_TEXT_MAX];

	p->r->evictions = stats->evictions - p->evictions_before;
	if (p->r->evictions == 0 || p->o->allow_evict)
		return 0;
	snprintf(p->err, p->err_len,
		"pool %s (%s) is full: after %" PRIu64 " objects it evicts older ones; lower "
		"--bytes or --objects, create a larger pool (--create, or size: in the edge's "
		"configuration), or give --allow-evict",
		p->o->pool, units_format_bytes(stats->arena_bytes, arena), p->r->objects);
	return -ENOSPC;
}

static int put_fail(struct put *p, const struct replay_object *object, int ret)
{
	struct strait_pool_stats stats;
	char arena[UNITS_TEXT_MAX], free_run[UNITS_TEXT_MAX], len[UNITS_TEXT_MAX];

	if ((ret == -ENOSPC || ret == -EFBIG) && strait_pool_stats(p->pool, &stats) == 0)
		snprintf(p->err, p->err_len,
			"pool %s is full after %" PRIu64 " objects: no room for %s (%s in all, "
			"longest free run %s); lower --bytes, --objects or --scale, or create a "
			"larger pool",
			p->o->pool, p->r->objects, units_format_bytes(object->len, len),
			units_format_bytes(stats.arena_bytes, arena),
			units_format_bytes(stats.largest_free_bytes, free_run));
	else
		snprintf(p->err, p->err_len, "put %s: %s", object->key, strait_strerror(ret));
	return ret;
}

static int object_put(void *ctx, const struct replay_object *object)
{
	struct put *p = ctx;
	struct replay_manifest_entry e = { .len = object->len,
		.key = object->key,
		.key_len = object->key_len };
	struct strait_pool_stats stats;
	int ret;

	if (replay_value_fill(object->key, object->key_len, p->buf, object->len) < 0 ||
		replay_value_hash(p->buf, object->len, e.hash) < 0) {
		snprintf(p->err, p->err_len, "OpenSSL cannot hash");
		return -EIO;
	}
	ret = p->manifest != NULL ? replay_manifest_add(p->manifest, &e) : 0;
	if (ret < 0) {
		snprintf(p->err, p->err_len, "manifest %s: %s", p->o->manifest, strerror(-ret));
		return ret;
	}
	ret = strait_put(p->pool, object->key, object->key_len, p->buf, object->len);
	if (ret < 0 && ret != -EEXIST)
		return put_fail(p, object, ret);
	p->r->existed += ret == -EEXIST;
	p->r->objects++;
	p->r->bytes += object->len;
	ret = strait_pool_stats(p->pool, &stats);
	if (ret < 0)
		return put_fail(p, object, ret);
	return check_evictions(p, &stats);
}

int replay_put(const struct replay_options *o, struct replay_put_result *r, char *err,
	size_t err_len)
{
	struct put p = { .o = o, .r = r, .err = err, .err_len = err_len };
	struct replay_walk_totals totals;
	struct strait_pool_stats stats;
	uint64_t start_ns = clock_now_ns();
	int ret;

	memset(r, 0, sizeof(*r));
	p.pool = strait_pool_open(o->pool, o->create_bytes ? STRAIT_POOL_CREATE : 0,
		o->create_bytes);
	if (p.pool == NULL) {
		ret = -errno;
		snprintf(err, err_len, "pool %s: %s%s", o->pool, strait_pool_open_error(),
			ret == -ENOENT ? "; --create SIZE makes one" : "");
		return ret;
	}
	p.buf = malloc(replay_object_bytes(o));
	if (p.buf == NULL) {
		snprintf(err, err_len, "out of memory");
		ret = -ENOMEM;
		goto close_pool;
	}
	if (o->manifest != NULL) {
		p.manifest = replay_manifest_create(o->manifest);
		if (p.manifest == NULL) {
			ret = -errno;
			snprintf(err, err_len, "manifest %s: %s", o->manifest, strerror(-ret));
			goto free_buf;
		}
	}
	ret = strait_pool_stats(p.pool, &stats);
	if (ret == 0) {
		p.evictions_before = stats.evictions;
		ret = replay_walk(o, object_put, &p, &totals, err, err_len);
		r->requests = totals.requests;
		r->blocks = totals.blocks;
		r->reused_blocks = totals.reused_blocks;
	} else {
		snprintf(err, err_len, "pool %s: %s", o->pool, strait_strerror(ret));
	}
	if (p.manifest != NULL && p.manifest != stdout && fclose(p.manifest) != 0 && ret == 0) {
		ret = -errno;
		snprintf(err, err_len, "manifest %s: %s", o->manifest, strerror(-ret));
	}
free_buf:
	free(p.buf);
close_pool:
	strait_pool_close(p.pool);
	r->seconds = (double)(clock_now_ns() - start_ns) * 1e-9;
	return ret;
}
