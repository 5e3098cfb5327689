/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/transport/partition.h"
#include "dataplane/transport/transfer.h"

/*
 * Sender side of a transfer: its objects, and what is known of each source block.
 *
 * Everything is allocated by tx_transfer_create(); while a session owns the transfer only its
 * worker touches it. The block's arithmetic is here, free of time and packets: how many symbols are
 * still missing at the receiver if everything in flight arrives.
 */

struct rs;

enum tx_object_state {
	TX_OBJECT_WAITING, /* not leased yet */
	TX_OBJECT_READY,   /* data points at its bytes */
	TX_OBJECT_GONE,    /* withdrawn; the receiver has not confirmed yet */
	TX_OBJECT_FINAL,
};

struct tx_object {
	const uint8_t *data;
	uint8_t state;
	uint8_t status; /* when GONE or FINAL */
};

enum tx_block_flags {
	TX_BLOCK_STARTED = 1 << 0,
	TX_BLOCK_DONE = 1 << 1,     /* enough symbols were acknowledged, or HAVE said so */
	TX_BLOCK_QUEUED = 1 << 2,   /* in the repair queue */
	TX_BLOCK_TAIL = 1 << 3,     /* sent with the TAIL flag */
	TX_BLOCK_NO_ROWS = 1 << 4,  /* holds symbols of an object the receiver does not store */
	TX_BLOCK_REPAIRED = 1 << 5, /* needed repair beyond its planned symbols */
	TX_BLOCK_UNCLOSED = 1 << 6, /* its rows are still to come: losses are left to them */
};

struct tx_block {
	uint64_t acked[2];  /* source symbols at the receiver, or not needed there */
	uint64_t flying[2]; /* source symbols in flight in this epoch */
	uint64_t sent[2];   /* source symbols sent at least once, for the counters */
	uint64_t last_pn;   /* newest packet that carried a symbol of this block */
	uint8_t flags;
	uint8_t epoch;   /* what was sent in older epochs no longer counts as in flight */
	uint8_t planned; /* proactive rows of the open window still to send */
	uint8_t next_row;
	uint8_t rows_acked, rows_flying;
	uint8_t repair_left; /* symbols of the current repair still to send */
};

struct tx_stream {
	struct partition part;
	struct tx_block *blocks;
	uint32_t *queue; /* repair queue: ring of block numbers, capacity part.blocks */
	uint32_t queue_head, queue_len;
	/* First transmission walks groups of blocks, some of each group in turn. */
	uint32_t group_first, group_count; /* count 0: the next group starts at group_first */
	uint32_t turn_first, turn_depth;   /* of the group's blocks: those in turn now */
	uint32_t group_esi, group_at;
	/* Rows follow by windows of the blocks whose source symbols were all sent. */
	uint32_t tail_at, tail_count; /* count 0: the next window starts at tail_at, or after it */
	uint32_t tail_pos;
	uint32_t review_at; /* no block below is in the tail and not done */
	uint32_t guess_at;  /* rows sent while there was nothing else: the window's first block */
	uint32_t guess_pos;
	uint32_t group_most; /* symbols of the group's largest block */
	uint32_t blocks_done;
	uint32_t have_floor; /* HAVE said that all blocks below are complete */
	uint64_t bytes_done;
	uint32_t hint; /* span_find() */
};

struct tx_transfer {
	/* Constant after creation. */
	uint64_t order, flow, deadline_ms;
	uint32_t objects;
	uint16_t symbol_bytes;
	uint8_t class_;
	bool lan; /* rows only where the receiver says what it lacks and nobody knows which */
	void *user;
	uint8_t *manifest;
	uint32_t manifest_bytes;
	uint64_t *offsets; /* objects + 1 */

	struct tx_object *object;
	struct tx_stream stream[STRAIT_STREAM_COUNT];

	/* Owned by the session. */
	uint32_t id;
	uint16_t slot;
	bool opened, open_answered, closed;
	uint8_t close_status;
	uint8_t open_sends;
	uint64_t open_due_ns;
	uint32_t want;      /* objects [0, want) were asked for */
	uint32_t want_told; /* ... and the event was polled */
	uint32_t objects_final;
	uint32_t final_floor; /* all objects below are final */
	uint32_t log_next;    /* OBJECT frames known up to here */
	bool log_ack_due;
	uint32_t n_gone; /* objects in state GONE */
	uint64_t withdraw_due_ns;
	uint64_t credit_bytes; /* of this transfer already charged */
	uint32_t credit_objects;
	bool blocked_credit, blocked_source;
	int64_t turn_bytes;     /* of its turn in its rank, see sender_send(); < 0: overdrawn */
	uint32_t sharers;       /* flows of its rank with unsent blocks, itself included */
	uint64_t rescue_due_ns; /* all sent, objects outstanding: next PING */

	/* Events not polled yet. */
	uint32_t *event_queue; /* objects with a final status */
	uint32_t event_head, event_len;
	bool tell_opened, tell_closed, linked;
	struct tx_transfer *event_next;
};

/** Symbols the receiver still lacks if everything in flight arrives; <= 0: none. */
int tx_block_deficit(const struct tx_block *b, uint32_t k);

/**
 * The receiver lacks no more than `missing` symbols, which it counted itself: of those not
 * acknowledged the others are taken to be there, as if in flight. Rows cover any of them.
 */
void tx_block_assume(struct tx_block *b, uint32_t k, uint32_t missing);

/** Enough symbols are acknowledged. */
bool tx_block_is_covered(const struct tx_block *b, uint32_t k);

/** First source symbol neither acknowledged nor in flight, or -1. */
int tx_block_lost_symbol(const struct tx_block *b, uint32_t k);

/** Objects [*first, *last] that the block's bytes overlap. */
void tx_block_objects(struct tx_transfer *t, uint32_t block, uint32_t *first, uint32_t *last);

/** Every object the block overlaps has readable bytes: rows may be made. */
bool tx_block_is_readable(struct tx_transfer *t, uint32_t block);

/** The same of the objects that n symbols from esi on overlap. */
bool tx_symbols_are_readable(struct tx_transfer *t, uint32_t block, uint32_t esi, uint32_t n);

/**
 * No object the block overlaps is GONE, that is withdrawn without the receiver's answer. Until it
 * answered it would take the zeros that stand for such an object in a shared symbol for the
 * object's bytes.
 */
bool tx_block_is_settled(struct tx_transfer *t, uint32_t block);

/**
 * Bring a block of the object stream in line with its objects' states: symbols wholly inside
 * objects that are GONE or FINAL count as acknowledged, rows are ruled out when one of them is not
 * stored by the receiver.
 */
void tx_block_apply_objects(struct tx_transfer *t, uint32_t block);

/**
 * The bytes of a source symbol, padded with zeros to T when padded is set: a pointer into the
 * object when it lies in one readable object, else gathered into bounce (T bytes). Bytes of
 * unreadable objects are zero.
 */
const uint8_t *tx_symbol(struct tx_transfer *t, uint8_t stream, uint32_t block, uint32_t esi,
	bool padded, uint8_t *bounce);

/** The same for len bytes at this place of the object stream, when that takes no search: or NULL.
 */
static inline const uint8_t *tx_symbol_in_place(const struct tx_transfer *t, uint64_t at,
	uint32_t len)
{
	uint32_t i = t->stream[STRAIT_STREAM_OBJECTS].hint;

	if (i >= t->objects || at < t->offsets[i] || at + len > t->offsets[i + 1] ||
		t->object[i].data == NULL)
		return NULL;
	return t->object[i].data + (at - t->offsets[i]);
}

/** At the end. A block is in the queue once. */
void tx_queue_push(struct tx_stream *s, uint32_t block);
/** Before the head, if it comes before that block, else at the end. */
void tx_queue_insert(struct tx_stream *s, uint32_t block);
bool tx_queue_pop(struct tx_stream *s, uint32_t *block);
/** Block at the head without taking it. false: empty. */
bool tx_queue_peek(const struct tx_stream *s, uint32_t *block);
