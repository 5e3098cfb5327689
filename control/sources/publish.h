/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * KV events as a Mooncake master publishes them, byte for byte: for indexers and routers that know
 * that format and shall follow an embedded pool. Frames: an empty topic, the batch's number from 1
 * (64 bits, big-endian), and [ms, [event, ..], 0] in msgpack.
 *
 * As there, it is PUB/SUB: who subscribes late or reads too slowly misses events and sees a gap in
 * the numbers. One thread.
 */

enum { PUBLISH_BATCH = 64 }; /* events; Mooncake's own limit */

struct publisher;

/** "tcp://127.0.0.1:5557". backend: the backend_id of all events. NULL + errno and err. */
struct publisher *publisher_create(const char *endpoint, const char *backend, char *err,
	size_t err_len);
/** Sends what waits. NULL is ignored. */
void publisher_destroy(struct publisher *p);

/** Queue an event; a full batch leaves at once. Without memory the batch is lost, seen as a gap. */
void publisher_event(struct publisher *p, bool stored, const char *tenant, const void *key,
	size_t key_len, uint64_t now_ms);
/** Send what waits, if anything does. */
void publisher_flush(struct publisher *p, uint64_t now_ms);
/** Where it is bound ("tcp://127.0.0.1:*" in tests). */
const char *publisher_endpoint(const struct publisher *p);

/** The payload of the batch that waits; valid until the next call. For tests. */
const uint8_t *publisher_payload(struct publisher *p, uint64_t now_ms, size_t *len);
