/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/transport/transfer.h"

#include <stdint.h>

/*
 * The sending side's control thread of both benchmarks: transfers over the whole pool, one after
 * the other, two of them live so that the next is open before the last is closed.
 */

enum {
	SOURCE_OBJECT_BYTES = 4 << 20,
	SOURCE_LIVE = 2,
	SOURCE_KEY_BYTES = 24,
};

#define SOURCE_LINE_BPS 200e9 /* virtual */
#define SOURCE_CAP_BPS  UINT64_C(250000000000)

struct source {
	struct session *session;
	const uint8_t *pool;
	struct manifest_entry *entries;
	uint8_t *keys;
	uint32_t objects;
	uint16_t symbol_bytes;
	uint8_t class_;
	uint32_t live_most; /* SOURCE_LIVE; less if a test wants it */
	uint64_t order, committed;
	struct tx_transfer *live[SOURCE_LIVE];
	uint32_t ready[SOURCE_LIVE];
};

/** with_digest: every object's digest goes into the manifests. 0 or -errno. */
int source_init(struct source *s, const uint8_t *pool, uint64_t pool_bytes, uint16_t symbol_bytes,
	uint8_t class_, bool with_digest);
/** The session goes first: it must be destroyed before. */
void source_fini(struct source *s);
/** Answer the session's events, keep SOURCE_LIVE transfers going. 0 or -errno. */
int source_poll(struct source *s, uint64_t now_ns);
/** What both sessions have in common; ids and direction are the caller's. */
void source_session_config(struct session_config *c, uint16_t symbol_bytes, uint64_t rtt_ns);
/** Virtual time a full packet takes on the line. */
uint64_t source_packet_ns(uint32_t symbol_bytes);
