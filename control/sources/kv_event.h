/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * KV events as Mooncake masters, vLLM and SGLang publish them over ZeroMQ: frames topic, seq
 * (64 bits, big-endian), payload. A payload is one batch in msgpack:
 *
 *   batch   [ts, [event, ..], rank]  or  {ts, events, data_parallel_rank}
 *   event   {"type": "BlockStored", ..}  or  ["BlockStored", ..]; Mooncake: {"event_type":
 * "stored"}
 *
 * Fields are taken by name and unknown ones are ignored; fields that are missing or nil are absent.
 * One event that makes no sense is counted and left out, the others of its batch stay. Memory is
 * bounded beforehand (bounds.h): at most 24 bytes a byte of payload and 24 MiB in all. Pure, any
 * thread.
 */

enum {
	KV_PAYLOAD_MAX = 16 << 20,
	KV_EVENTS_MAX = 65536, /* of a batch */
	KV_KEY_MAX = 1024,     /* STRAIT_KEY_MAX */
	KV_TENANT_MAX = 255,
	KV_HASHES_MAX = 65536, /* of an event */
	KV_HASH_MAX = 64,      /* bytes of a hash that is bytes */
	KV_SEQ_BYTES = 8,
};

enum kv_op {
	KV_STORED,
	KV_REMOVED,
	KV_CLEARED, /* everything of this publisher, or of its tenant if one is named */
};

struct kv_text {
	const char *data; /* not terminated; NULL: absent */
	uint32_t len;
};

/* A block hash: an integer, or bytes. */
struct kv_hash {
	uint64_t number; /* if data is NULL; a negative one as its 64 bits */
	const uint8_t *data;
	uint32_t len;
};

struct kv_event {
	enum kv_op op;
	struct kv_text key;     /* object_key: the identity where there is one */
	struct kv_text tenant;  /* tenant_id */
	struct kv_text backend; /* backend_id */
	struct kv_text group;   /* group_id */
	struct kv_text medium;  /* "cpu", "disk", "GPU" .. */
	struct kv_text model;   /* model_name */
	struct kv_text lora;    /* lora_name */
	uint64_t event_id;      /* 0: absent */
	uint64_t timestamp_ms;
	uint32_t block_size;  /* tokens; 0: absent */
	uint32_t group_index; /* group_idx: of a model with several kinds of caches */
	const struct kv_hash *hashes;
	uint32_t hash_count;
	struct kv_hash parent; /* len 0 and number 0: absent */
};

struct kv_batch {
	uint64_t timestamp_ms;
	int64_t rank;      /* -1: absent */
	uint32_t events;   /* handed over */
	uint32_t rejected; /* of no known kind, or with a field of another type or size */
};

/**
 * Call fn for each event, in order; what it gets lives only during the call. fn returns 0 or a
 * negative error, which ends the batch and is returned. -EBADMSG: the payload is no batch; nothing
 * was called. -E2BIG: beyond a bound above. -ENOMEM.
 */
int kv_batch_decode(const uint8_t *payload, size_t len,
	int (*fn)(const struct kv_event *e, void *ctx), void *ctx, struct kv_batch *out);

/** The second frame. -EBADMSG: not 8 bytes. */
int kv_seq_decode(const uint8_t *frame, size_t len, uint64_t *out);
