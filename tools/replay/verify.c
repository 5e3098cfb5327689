/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "tools/replay/manifest.h"
#include "tools/replay/run.h"
#include "tools/replay/value.h"

#include <strait/strait.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void note_bad(struct replay_verify_result *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Only the first: thousands of lines help nobody. */
static void note_bad(struct replay_verify_result *r, const char *fmt, ...)
{
	va_list args;

	if (r->first[0] != '\0')
		return;
	va_start(args, fmt);
	vsnprintf(r->first, sizeof(r->first), fmt, args);
	va_end(args);
}

static int object_verify(struct strait_pool *pool, const struct replay_options *o,
	const struct replay_manifest_entry *e, struct replay_verify_result *r)
{
	uint8_t hash[REPLAY_HASH_BYTES];
	struct strait_object object;
	int ret;

	ret = strait_get(pool, e->key, e->key_len, 0, &object);
	if (ret == -ENOENT) {
		r->missing++;
		if (!o->allow_missing)
			note_bad(r, "%s is not in the pool", e->key);
		return 0;
	}
	if (ret < 0)
		return ret;
	ret = replay_value_hash(object.data, object.len, hash);
	if (ret == 0 && object.len != e->len) {
		r->differs++;
		note_bad(r, "%s has %zu bytes, not %" PRIu64, e->key, object.len, e->len);
	} else if (ret == 0 && memcmp(hash, e->hash, sizeof(hash)) != 0) {
		r->differs++;
		note_bad(r, "%s has other bytes than the generator made", e->key);
	} else {
		r->verified += ret == 0;
	}
	strait_release(pool, &object);
	return ret;
}

int replay_verify(const struct replay_options *o, struct replay_verify_result *r, char *err,
	size_t err_len)
{
	struct replay_manifest_reader reader;
	struct replay_manifest_entry e;
	uint64_t start_ns = clock_now_ns();
	struct strait_pool *pool;
	int ret;

	memset(r, 0, sizeof(*r));
	ret = replay_manifest_open(&reader, o->manifest);
	if (ret < 0) {
		snprintf(err, err_len, "manifest %s: %s", o->manifest, strerror(-ret));
		return ret;
	}
	pool = strait_pool_open(o->pool, 0, 0);
	if (pool == NULL) {
		ret = -errno;
		snprintf(err, err_len, "pool %s: %s", o->pool, strait_pool_open_error());
		goto close_manifest;
	}
	while ((ret = replay_manifest_next(&reader, &e, err, err_len)) == 1) {
		r->objects++;
		r->bytes += e.len;
		ret = object_verify(pool, o, &e, r);
		if (ret < 0) {
			snprintf(err, err_len, "get %s: %s", e.key, strait_strerror(ret));
			break;
		}
	}
	strait_pool_close(pool);
close_manifest:
	replay_manifest_close(&reader);
	r->seconds = (double)(clock_now_ns() - start_ns) * 1e-9;
	return ret;
}

bool replay_verify_is_good(const struct replay_options *o, const struct replay_verify_result *r)
{
	return r->differs == 0 && (r->missing == 0 || o->allow_missing);
}
