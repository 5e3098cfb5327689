/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Every packet an edge drops has a named reason, and every figure an operator sees has one name.
 *
 * This table feeds the enum, `straitctl edge show`, telemetry, metrics and tests. The worker that
 * owns a session adds with plain increments; readers may see a value a moment old.
 *
 *   X(name, kind, help)     kind: GOOD (expected work), INFO, DROP (a packet was refused)
 */
#define STRAIT_COUNTERS(X)                                                                         \
	X(tx_packets, GOOD, "packets sent")                                                        \
	X(tx_bytes, GOOD, "UDP payload bytes sent")                                                \
	X(tx_source, GOOD, "source symbols sent for the first time")                               \
	X(tx_resend, INFO, "source symbols sent again")                                            \
	X(tx_repair, INFO, "repair symbols sent")                                                  \
	X(tx_control, GOOD, "control packets sent")                                                \
	X(tx_probe, INFO, "probes sent because no report came")                                    \
	X(tx_lost, INFO, "packets declared lost")                                                  \
	X(tx_spurious, INFO, "packets declared lost that arrived after all")                       \
	X(tx_repair_rounds, INFO, "source blocks that needed repair after their planned symbols")  \
	X(tx_blocked_credit, INFO, "times the peer's credit stopped the sender")                   \
	X(tx_blocked_source, INFO, "times an object was not leased in time")                       \
	X(tx_blocked_log, INFO, "times the log of outstanding packets was full")                   \
	X(tx_generations, INFO, "key generations entered")                                         \
	X(tx_mtu_probes, INFO, "path MTU probes sent")                                             \
	X(tx_mtu_falls, INFO, "times the path turned out to carry less than was sent")             \
	X(rx_packets, GOOD, "authentic packets received")                                          \
	X(rx_bytes, GOOD, "UDP payload bytes of authentic packets")                                \
	X(rx_source, GOOD, "source symbols placed")                                                \
	X(rx_repair, GOOD, "repair symbols stored")                                                \
	X(rx_control, GOOD, "control packets accepted")                                            \
	X(rx_decoded_blocks, INFO, "source blocks completed by repair symbols")                    \
	X(rx_decoded_symbols, INFO, "source symbols rebuilt from repair symbols")                  \
	X(rx_unneeded, INFO, "symbols of blocks that were already complete")                       \
	X(rx_duplicate, INFO, "symbols that were there already")                                   \
	X(rx_early, INFO, "symbols that waited in scratch for their manifest or placement")        \
	X(rx_short, DROP, "shorter than header and tag")                                           \
	X(rx_version, DROP, "version or type unknown")                                             \
	X(rx_session, DROP, "no such session")                                                     \
	X(rx_queue, DROP, "queue number out of range")                                             \
	X(rx_generation, DROP, "key generation not held (bad_generation)")                         \
	X(rx_auth, DROP, "authentication failed: forged or corrupted")                             \
	X(rx_replay, DROP, "packet number seen before or too old")                                 \
	X(rx_transfer, DROP, "transfer closed or not acceptable")                                  \
	X(rx_block, DROP, "source block, ESI or stream out of range")                              \
	X(rx_length, DROP, "payload length is not the slot's")                                     \
	X(rx_frame, DROP, "malformed control frame")                                               \
	X(rx_scratch_full, DROP, "no scratch for a symbol ahead of its placement")                 \
	X(rx_rows_full, DROP, "no room for a repair symbol")                                       \
	X(rx_digest, INFO, "objects whose digest did not match")                                   \
	X(rx_open_refused, INFO, "transfers refused")

enum strait_counter {
#define STRAIT_COUNTER_ENUM(name, kind, help) STRAIT_C_##name,
	STRAIT_COUNTERS(STRAIT_COUNTER_ENUM)
#undef STRAIT_COUNTER_ENUM
		STRAIT_COUNTER_COUNT
};

enum strait_counter_kind {
	STRAIT_COUNTER_GOOD,
	STRAIT_COUNTER_INFO,
	STRAIT_COUNTER_DROP,
};

struct strait_counter_desc {
	const char *name;
	enum strait_counter_kind kind;
	const char *help;
};

/** Description of each counter, indexed by enum strait_counter. */
static const struct strait_counter_desc strait_counter_descs[STRAIT_COUNTER_COUNT]
	__attribute__((unused)) = {
#define STRAIT_COUNTER_DESC(name, kind, help) { #name, STRAIT_COUNTER_##kind, help },
		STRAIT_COUNTERS(STRAIT_COUNTER_DESC)
#undef STRAIT_COUNTER_DESC
	};
