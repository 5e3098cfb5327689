/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/kv_event.h"

#include "control/sources/bounds.h"

#include <msgpack.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum field {
	F_TYPE, /* "BlockStored" .. */
	F_EVENT_TYPE,
	F_HASHES,
	F_SEQ_HASHES,
	F_PARENT,
	F_BLOCK_SIZE,
	F_MEDIUM,
	F_LORA,
	F_KEY,
	F_TENANT,
	F_BACKEND,
	F_GROUP,
	F_GROUP_INDEX,
	F_MODEL,
	F_EVENT_ID,
	F_TIMESTAMP,
	FIELDS,
};

static const char *const names[FIELDS] = {
	[F_TYPE] = "type",
	[F_EVENT_TYPE] = "event_type",
	[F_HASHES] = "block_hashes",
	[F_SEQ_HASHES] = "seq_hashes",
	[F_PARENT] = "parent_block_hash",
	[F_BLOCK_SIZE] = "block_size",
	[F_MEDIUM] = "medium",
	[F_LORA] = "lora_name",
	[F_KEY] = "object_key",
	[F_TENANT] = "tenant_id",
	[F_BACKEND] = "backend_id",
	[F_GROUP] = "group_id",
	[F_GROUP_INDEX] = "group_idx",
	[F_MODEL] = "model_name",
	[F_EVENT_ID] = "event_id",
	[F_TIMESTAMP] = "timestamp",
};

/* Where fields stand in an event that is an array, by its tag; FIELDS: not used. */
static const enum field stored_at[] = { F_TYPE, F_HASHES, F_PARENT, FIELDS, F_BLOCK_SIZE, FIELDS,
	F_MEDIUM, F_LORA };
static const enum field removed_at[] = { F_TYPE, F_HASHES, F_MEDIUM };

static bool text_is(const msgpack_object *o, const char *s)
{
	return o->type == MSGPACK_OBJECT_STR && o->via.str.size == strlen(s) &&
		memcmp(o->via.str.ptr, s, o->via.str.size) == 0;
}

static bool is_absent(const msgpack_object *o)
{
	return o == NULL || o->type == MSGPACK_OBJECT_NIL;
}

/* true: absent, or text of at most max bytes. Keys may hold any bytes: bin is taken, too. */
static bool text_get(const msgpack_object *o, uint32_t max, struct kv_text *out)
{
	if (is_absent(o))
		return true;
	if ((o->type != MSGPACK_OBJECT_STR && o->type != MSGPACK_OBJECT_BIN) ||
		o->via.str.size > max)
		return false;
	out->data = o->via.str.ptr;
	out->len = o->via.str.size;
	return true;
}

static bool number_get(const msgpack_object *o, uint64_t *out)
{
	if (is_absent(o))
		return true;
	if (o->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
		return false;
	*out = o->via.u64;
	return true;
}

static bool hash_get(const msgpack_object *o, struct kv_hash *out)
{
	switch (o->type) {
	case MSGPACK_OBJECT_POSITIVE_INTEGER:
	case MSGPACK_OBJECT_NEGATIVE_INTEGER:
		out->number = o->via.u64;
		return true;
	case MSGPACK_OBJECT_STR:
	case MSGPACK_OBJECT_BIN:
		out->data = (const uint8_t *)o->via.bin.ptr;
		out->len = o->via.bin.size;
		return out->len > 0 && out->len <= KV_HASH_MAX;
	default:
		return false;
	}
}

static bool hashes_get(const msgpack_object *o, struct kv_hash **out, uint32_t *n)
{
	if (is_absent(o))
		return true;
	if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size > KV_HASHES_MAX)
		return false;
	if (o->via.array.size == 0)
		return true;
	*out = calloc(o->via.array.size, sizeof(**out));
	if (*out == NULL)
		return false;
	for (*n = 0; *n < o->via.array.size; ++*n)
		if (!hash_get(&o->via.array.ptr[*n], *out + *n))
			return false;
	return true;
}

static bool op_get(const msgpack_object *o, enum kv_op *out)
{
	static const struct {
		const char *name;
		enum kv_op op;
	} ops[] = {
		{ "BlockStored", KV_STORED },
		{ "stored", KV_STORED },
		{ "BlockRemoved", KV_REMOVED },
		{ "removed", KV_REMOVED },
		{ "AllBlocksCleared", KV_CLEARED },
		{ "cleared", KV_CLEARED },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (!text_is(o, ops[i].name))
			continue;
		*out = ops[i].op;
		return true;
	}
	return false;
}

/* Point at the fields of an event, map or array. */
static bool fields_get(const msgpack_object *o, const msgpack_object *f[FIELDS])
{
	enum kv_op op = KV_CLEARED;

	if (o->type == MSGPACK_OBJECT_MAP) {
		for (uint32_t i = 0; i < o->via.map.size; i++)
			for (int j = 0; j < FIELDS; j++)
				if (text_is(&o->via.map.ptr[i].key, names[j])) {
					f[j] = &o->via.map.ptr[i].val;
					break;
				}
		return true;
	}
	if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size == 0 ||
		!op_get(&o->via.array.ptr[0], &op))
		return false;
	f[F_TYPE] = &o->via.array.ptr[0];
	for (uint32_t i = 1; i < o->via.array.size; i++) {
		enum field at = FIELDS;

		if (op == KV_STORED && i < sizeof(stored_at) / sizeof(stored_at[0]))
			at = stored_at[i];
		else if (op == KV_REMOVED && i < sizeof(removed_at) / sizeof(removed_at[0]))
			at = removed_at[i];
		if (at != FIELDS)
			f[at] = &o->via.array.ptr[i];
	}
	return true;
}

static bool event_get(const msgpack_object *o, struct kv_event *e, struct kv_hash **hashes)
{
	const msgpack_object *f[FIELDS] = { NULL };
	const msgpack_object *kind, *h;
	uint64_t block_size = 0, group = 0;

	if (!fields_get(o, f))
		return false;
	kind = is_absent(f[F_EVENT_TYPE]) ? f[F_TYPE] : f[F_EVENT_TYPE];
	if (is_absent(kind) || !op_get(kind, &e->op))
		return false;
	h = is_absent(f[F_SEQ_HASHES]) ? f[F_HASHES] : f[F_SEQ_HASHES];
	if (!text_get(f[F_KEY], KV_KEY_MAX, &e->key) ||
		!text_get(f[F_TENANT], KV_TENANT_MAX, &e->tenant) ||
		!text_get(f[F_BACKEND], KV_TENANT_MAX, &e->backend) ||
		!text_get(f[F_GROUP], KV_KEY_MAX, &e->group) ||
		!text_get(f[F_MEDIUM], KV_TENANT_MAX, &e->medium) ||
		!text_get(f[F_MODEL], KV_KEY_MAX, &e->model) ||
		!text_get(f[F_LORA], KV_KEY_MAX, &e->lora) ||
		!number_get(f[F_EVENT_ID], &e->event_id) ||
		!number_get(f[F_TIMESTAMP], &e->timestamp_ms) ||
		!number_get(f[F_BLOCK_SIZE], &block_size) || block_size > UINT32_MAX ||
		!number_get(f[F_GROUP_INDEX], &group) || group > UINT32_MAX ||
		(!is_absent(f[F_PARENT]) && !hash_get(f[F_PARENT], &e->parent)) ||
		!hashes_get(h, hashes, &e->hash_count))
		return false;
	e->block_size = (uint32_t)block_size;
	e->group_index = (uint32_t)group;
	e->hashes = *hashes;
	/* Something must say which object or blocks are meant. */
	return e->op == KV_CLEARED || e->key.len > 0 || e->hash_count > 0;
}

static uint64_t time_get(const msgpack_object *o)
{
	/* Engines tell seconds as a float, Mooncake milliseconds. */
	if (o->type == MSGPACK_OBJECT_FLOAT64 || o->type == MSGPACK_OBJECT_FLOAT32)
		return o->via.f64 > 0 && o->via.f64 < 1e15 ? (uint64_t)(o->via.f64 * 1e3) : 0;
	return o->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? o->via.u64 : 0;
}

static const msgpack_object *batch_get(const msgpack_object *o, struct kv_batch *out)
{
	const msgpack_object *events = NULL, *rank = NULL;

	if (o->type == MSGPACK_OBJECT_ARRAY && o->via.array.size >= 2) {
		out->timestamp_ms = time_get(&o->via.array.ptr[0]);
		events = &o->via.array.ptr[1];
		if (o->via.array.size > 2)
			rank = &o->via.array.ptr[2];
	} else if (o->type == MSGPACK_OBJECT_MAP) {
		for (uint32_t i = 0; i < o->via.map.size; i++) {
			const msgpack_object_kv *kv = &o->via.map.ptr[i];

			if (text_is(&kv->key, "ts"))
				out->timestamp_ms = time_get(&kv->val);
			else if (text_is(&kv->key, "events"))
				events = &kv->val;
			else if (text_is(&kv->key, "data_parallel_rank"))
				rank = &kv->val;
		}
	}
	if (rank != NULL && rank->type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
		rank->via.u64 <= INT32_MAX)
		out->rank = (int64_t)rank->via.u64;
	return events != NULL && events->type == MSGPACK_OBJECT_ARRAY ? events : NULL;
}

int kv_batch_decode(const uint8_t *payload, size_t len,
	int (*fn)(const struct kv_event *e, void *ctx), void *ctx, struct kv_batch *out)
{
	const msgpack_object *events;
	msgpack_unpacked text;
	size_t at = 0;
	int ret;

	*out = (struct kv_batch){ .rank = -1 };
	if (len > KV_PAYLOAD_MAX)
		return -E2BIG;
	ret = msgpack_bounds_check(payload, len, NULL);
	if (ret < 0)
		return ret;
	msgpack_unpacked_init(&text);
	switch (msgpack_unpack_next(&text, (const char *)payload, len, &at)) {
	case MSGPACK_UNPACK_SUCCESS:
		break;
	case MSGPACK_UNPACK_NOMEM_ERROR:
		ret = -ENOMEM;
		goto out;
	default:
		ret = -EBADMSG;
		goto out;
	}
	events = batch_get(&text.data, out);
	if (events == NULL || events->via.array.size > KV_EVENTS_MAX) {
		ret = events == NULL ? -EBADMSG : -E2BIG;
		goto out;
	}
	for (uint32_t i = 0; i < events->via.array.size && ret == 0; i++) {
		struct kv_hash *hashes = NULL;
		struct kv_event e = { 0 };

		if (event_get(&events->via.array.ptr[i], &e, &hashes)) {
			out->events++;
			ret = fn(&e, ctx);
		} else {
			out->rejected++;
		}
		free(hashes);
	}
out:
	msgpack_unpacked_destroy(&text);
	return ret;
}

int kv_seq_decode(const uint8_t *frame, size_t len, uint64_t *out)
{
	if (len != KV_SEQ_BYTES)
		return -EBADMSG;
	*out = 0;
	for (int i = 0; i < KV_SEQ_BYTES; i++)
		*out = *out << 8 | frame[i];
	return 0;
}
