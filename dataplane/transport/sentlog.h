/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/wire.h>

#include <stdbool.h>

/*
 * The log of packets sent on one queue: what each number carried and whether it is still out.
 *
 * A ring indexed by send order. Packet numbers jump at a re-key, send order does not; the jumps of
 * the last generations are remembered to translate. Two bitmaps over the ring say "out" (neither
 * acknowledged nor lost) and "lost" (declared lost, kept to recognize an acknowledgment that comes
 * after all). Reports repeat ranges many times, so both are scanned 64 packets a step.
 *
 * Loss is found by time alone (the idea of RACK, RFC 8985): a packet is lost when one sent more
 * than the reorder window later was acknowledged. There is no packet-count threshold. Owned by one
 * worker.
 */

enum sent_kind {
	SENT_CONTROL,
	SENT_SOURCE,
	SENT_REPAIR,
};

struct sent_packet {
	uint64_t time_ns; /* never less than that of the one before */
	uint32_t transfer;
	uint32_t block;
	uint16_t slot;  /* the session's transfer slot; valid while the transfer id matches */
	uint16_t bytes; /* of payload */
	uint8_t kind;
	uint8_t stream;
	uint8_t esi;
	uint8_t epoch; /* of the block when sent: older epochs no longer count as in flight */
};

enum { SENTLOG_JUMPS = 4 };

struct sentlog {
	struct sent_packet *ring;
	uint64_t *out, *lost;
	uint32_t mask;      /* size - 1 */
	uint64_t next;      /* order of the next packet */
	uint64_t first_out; /* lower bound of orders that may be out */
	uint64_t scan;      /* loss detection looked at all orders below */
	uint64_t n_out;
	struct sentlog_jump {
		uint64_t pn,
			order; /* from this packet number on, order = pn - this.pn + this.order */
	} jumps[SENTLOG_JUMPS];
	unsigned int n_jumps;
};

typedef void (*sentlog_cb)(void *ctx, const struct sent_packet *p, bool was_lost);
/** n packets p[0] .. p[n - 1] sent one after the other, all of them out or all of them lost. */
typedef void (*sentlog_run_cb)(void *ctx, const struct sent_packet *p, uint32_t n, bool was_lost);

/** size is rounded up to a power of two, at least 64. 0, -EINVAL, -ENOMEM. */
int sentlog_init(struct sentlog *l, uint32_t size);
void sentlog_fini(struct sentlog *l);

/** No room for another tracked packet: the oldest entries, less a reserve for control packets, are
 * still out. */
bool sentlog_full(struct sentlog *l);

/** Declare lost what the next packet would overwrite. A no-op unless control packets used up the
 * reserve. */
void sentlog_make_room(struct sentlog *l, sentlog_cb cb, void *ctx);

/**
 * Record packet number pn; the caller fills the entry, after sentlog_make_room(). A tracked packet
 * is out until it is acknowledged or lost; an untracked one (control: its frames repeat by
 * themselves) only keeps its send time.
 */
struct sent_packet *sentlog_add(struct sentlog *l, uint64_t pn, bool tracked);

/**
 * The same for n <= 64 consecutive numbers from pn on, all tracked, room made: the order of the
 * first. Their entries are sentlog_at(l, order + i).
 */
uint64_t sentlog_add_run(struct sentlog *l, uint64_t pn, uint32_t n, sentlog_cb cb, void *ctx);

static inline struct sent_packet *sentlog_at(struct sentlog *l, uint64_t order)
{
	return &l->ring[order & l->mask];
}

/** Where the log has an entry: consecutive packets follow each other, but for the ring's end. */
static inline uint32_t sentlog_place(const struct sentlog *l, const struct sent_packet *p)
{
	return (uint32_t)(p - l->ring);
}

/** The next n packets are about to be added: have their entries come from memory. */
static inline void sentlog_prefetch(const struct sentlog *l, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += 2)
		__builtin_prefetch(&l->ring[(l->next + i) & l->mask], 1);
}

/** The entry of pn when it is still remembered, else NULL. */
const struct sent_packet *sentlog_find(const struct sentlog *l, uint64_t pn);

/**
 * Acknowledge packet numbers [low, high]. Calls cb once for each run, of up to 64, of packets not
 * acknowledged before, in the order of sending. Numbers never sent, or forgotten, are ignored:
 * acknowledging them changes nothing. Returns the number of packets.
 */
uint64_t sentlog_ack(struct sentlog *l, uint64_t low, uint64_t high, sentlog_run_cb cb, void *ctx);

/** Declare lost what is out and was sent at or before before_ns. Returns the number of
 * callbacks. */
uint64_t sentlog_detect(struct sentlog *l, uint64_t before_ns, sentlog_cb cb, void *ctx);

/** Send time of the oldest packet still out; UINT64_MAX when none is. */
uint64_t sentlog_oldest_ns(struct sentlog *l);
