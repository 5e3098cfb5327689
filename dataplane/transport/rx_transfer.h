/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/transport/partition.h"
#include "dataplane/transport/transfer.h"

/*
 * Receiver side of a transfer: where symbols go, which are there, when objects are complete.
 *
 * 60 bytes an object beside its manifest record, and 20 bytes a source block, 1.25 bits a packet;
 * no copy of any payload. Created by the control thread, owned by the session's worker, like the
 * sender's.
 *
 * Which objects are stored decides which symbols are needed: a symbol that lies wholly in objects
 * that are not stored counts as present; a block that overlaps such an object cannot be decoded
 * from rows (the symbols are not kept), so it completes by source symbols only, and the sender
 * knows the same rule.
 */

enum rx_object_state {
	RX_OBJECT_UNPLACED,
	RX_OBJECT_PLACED,
	RX_OBJECT_COMPLETE, /* RX_OBJECT told, final status awaited */
	RX_OBJECT_DROPPED,  /* not stored: refused, withdrawn or skipped */
};

struct rx_object {
	uint8_t *data;
	uint8_t *resume;
	uint64_t digest_so_far; /* xor of shifted pieces; what was announced is in the manifest */
	uint32_t first_block;
	uint32_t blocks_left;
	uint8_t state, flags; /* enum strait_manifest_flags */
	uint8_t status;       /* final, PENDING until finished */
	bool withdrawn, resumed, told;
};

enum rx_block_flags {
	RX_BLOCK_COMPLETE = 1 << 0,
	RX_BLOCK_NO_DECODE = 1 << 1, /* overlaps an object that is not stored */
	RX_BLOCK_TAIL = 1 << 2,      /* a packet of it carried the TAIL flag */
	RX_BLOCK_TOUCHED = 1 << 3,
};

enum { RX_NO_ROW = 0xffff };

struct rx_block {
	uint64_t present[2];
	uint16_t row; /* head of the list of row slots, RX_NO_ROW none */
	uint8_t rows;
	uint8_t flags;
} __attribute__((packed, aligned(4))); /* 20 bytes: a block costs little more than its bits */

struct rx_stream {
	struct partition part;
	struct rx_block *blocks;
	uint32_t floor;   /* all blocks below are complete */
	uint32_t touched; /* one past the highest block touched */
	uint32_t ended;   /* TAIL blocks below have had their last planned symbol */
	uint32_t hint;
	bool changed;   /* completion changed since the last HAVE */
	uint8_t repeat; /* HAVE goes into so many more reports */
};

struct rx_transfer {
	struct session_open open;
	void *user;
	uint8_t *manifest;
	uint64_t *offsets; /* objects + 1 */
	struct rx_object *object;
	uint32_t *manifest_at; /* offset of each object's record */
	struct rx_stream stream[STRAIT_STREAM_COUNT];
	bool manifest_told, begun, closed;
	uint8_t close_status;
	uint16_t slot;
	uint64_t resolved_bytes; /* lengths of finished objects */
	uint32_t resolved_objects;

	/* Log of final statuses for OBJECT frames. */
	struct rx_status {
		uint16_t object;
		uint8_t status;
	} * log;
	uint32_t log_len, log_acked, log_sent;
	uint32_t log_once; /* sent up to here before the last frame */
	uint32_t log_top;  /* sent up to here ever; log_sent goes back when a frame was lost */
	uint64_t log_due_ns;
	uint8_t log_tries;

	/* Events not polled yet: object << 1 | withdrawn. One an object, whole or withdrawn. */
	uint32_t *event_queue;
	uint32_t event_head, event_len;
	bool tell_manifest, tell_closed, linked;
	struct rx_transfer *event_next;
};

_Static_assert(STRAIT_TRANSFER_OBJECTS_MAX <= UINT16_MAX + 1, "objects of the log");

/** The block that holds the object's last byte. */
static inline uint32_t rx_object_last_block(const struct rx_transfer *t, uint32_t object)
{
	return partition_block_of(&t->stream[STRAIT_STREAM_OBJECTS].part,
		t->offsets[object + 1] - 1);
}

/** The digest its manifest record has. */
uint64_t rx_object_digest(const struct rx_transfer *t, uint32_t object);
/** All its bytes are there: they are those of the digest, if it has one. */
bool rx_object_is_right(const struct rx_transfer *t, uint32_t object);

/** Objects that overlap the bytes [at, at + len) of the object stream: first, and whether it is the
 * only one. */
uint32_t rx_symbol_object(struct rx_transfer *t, uint64_t at, uint32_t len, bool *single);

enum rx_placement {
	RX_PLACE_DIRECT,  /* write to *dst */
	RX_PLACE_SCATTER, /* write to a bounce buffer, then rx_symbol_scatter() */
	RX_PLACE_DISCARD, /* wholly in objects that are not stored */
	RX_PLACE_WAIT,    /* an object it touches has no memory yet */
};

/** Where the source symbol's len bytes go. */
enum rx_placement rx_symbol_place(struct rx_transfer *t, uint8_t stream, uint64_t at, uint32_t len,
	uint8_t **dst);
/** Copy a symbol from src into the stored objects it overlaps. */
void rx_symbol_scatter(struct rx_transfer *t, uint8_t stream, uint64_t at, uint32_t len,
	const uint8_t *src);
/** Collect a present symbol, padded with zeros to T. A pointer into the object where possible. */
uint8_t *rx_symbol_gather(struct rx_transfer *t, uint8_t stream, uint64_t at, uint32_t len,
	uint8_t *bounce);

/** All objects that the block overlaps are placed or dropped. */
bool rx_block_is_placed(struct rx_transfer *t, uint32_t block);

/** Source symbols that did not come. */
uint32_t rx_block_lacking(const struct rx_block *b, uint32_t k);

/** All k source symbols are present. */
bool rx_block_is_full(const struct rx_block *b, uint32_t k);

/** Symbols still missing; 0 when rows suffice, even if the block waits for a placement to be
 * decoded. */
uint32_t rx_block_missing(const struct rx_block *b, uint32_t k);

/**
 * The block became complete: digest its pieces, note them in the resume areas, move the floor, find
 * complete objects. Calls done(ctx, object) for each. The block must be full and not complete yet.
 * digest is the block's, where it lies in one object, or NULL: it is read.
 */
void rx_block_complete(struct rx_transfer *t, uint8_t stream, uint32_t block,
	const uint64_t *digest, void (*done)(void *ctx, struct rx_transfer *t, uint32_t object),
	void *ctx);

/** The object is not stored: its symbols count as present. Calls full(ctx, block) for blocks that
 * became full. */
void rx_object_drop(struct rx_transfer *t, uint32_t object,
	void (*full)(void *ctx, struct rx_transfer *t, uint32_t block), void *ctx);

/** Mark what the resume area of a just placed object holds. Calls full(ctx, block) likewise. */
void rx_object_apply_resume(struct rx_transfer *t, uint32_t object,
	void (*full)(void *ctx, struct rx_transfer *t, uint32_t block), void *ctx);
