/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/transport/transfer.h"

#include <stdint.h>

/*
 * The sending side's control thread of both benchmarks: SOURCE_LIVE transfers at once, each over
 * its part of the pool again and again; the older goes first, the next is open before it is closed.
 * An order's number mod SOURCE_LIVE says which part.
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
int bench_source_init(struct source *s, const uint8_t *pool, uint64_t pool_bytes,
	uint16_t symbol_bytes, uint8_t class_, bool with_digest);
/** The session goes first: it must be destroyed before. */
void bench_source_fini(struct source *s);
/** Answer the session's events, keep SOURCE_LIVE transfers going. 0 or -errno. */
int bench_source_poll(struct source *s, uint64_t now_ns);
/** What both sessions have in common; ids and direction are the caller's. */
void bench_source_session_config(struct session_config *c, uint16_t symbol_bytes, uint64_t rtt_ns);
/** Virtual time a full packet takes on the line. */
uint64_t bench_source_packet_ns(uint32_t symbol_bytes);
