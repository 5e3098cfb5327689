/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/wire.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Path MTU discovery of a session: Packetization Layer PMTUD for datagrams, RFC 8899. Sans-IO: it
 * says which probe to send, hears what was acknowledged, and knows the largest symbol the path
 * carries. Owned by the session's worker. Sizes are bytes of payload, as symbols are.
 *
 *   DISABLED        before the data path is up, or nothing smaller than the configured size exists
 *   BASE            data goes out at the configured size, which is being confirmed
 *   SEARCHING       the path is smaller than configured: the size is narrowed down by halves
 *   SEARCH_COMPLETE the size is known; above it is looked again every 600 s
 *   ERROR           less than BASE_PLPMTU (1200 bytes of UDP payload) passes; looked at every 30 s
 *
 * A probe is a control packet with a PADDING frame; it is acknowledged by its packet number like
 * any other. It is never tracked, so losing one means nothing for rate, redundancy or repair.
 *
 * Loss never lowers the size, only a black hole does: rounds of three or more probes are sent, a
 * small one, one of the size in doubt, and a small one again. Only a round whose small ones both
 * arrived, before and after, says anything, so that a burst of losses or a blackout does not count;
 * the size is given up when eight such rounds in a row lack the large one and no data packet of
 * that size arrived meanwhile. With independent loss of 5 % this happens by chance once in 2e10
 * times. Once the small ones of a round have arrived without it, a ladder of sizes of common links
 * goes along, and no verdict is given before two rounds with a ladder were judged: many rounds
 * are under way before the first answer, and they do not tell what does pass. Rounds are sent
 * when the session starts and when data of a size stays unacknowledged for a probe time-out.
 *
 * A search upward is no more fooled: a small probe follows the large one, and a try counts only
 * when something that was sent after the large one has arrived.
 */

enum {
	MTU_BASE_BYTES = 1200 - 40, /* BASE_PLPMTU of RFC 8899 section 5.1.2, as a symbol */
	MTU_SENTINEL_BYTES = 16,
	MTU_LADDER_MAX = 14,
	MTU_ROUNDS = 8, /* in flight */
	MTU_MISSES = 8, /* rounds that prove a black hole */
	MTU_HOLD = 2,   /* ... that are reason enough to hold data back */
	MTU_TOLD = 2,   /* ... that had a ladder */
	MTU_TRIES = 3,  /* MAX_PROBES of RFC 8899, while searching upward */
	MTU_STEP = 8,   /* the search ends this close */
};

enum mtu_state {
	MTU_DISABLED,
	MTU_BASE,
	MTU_SEARCHING,
	MTU_SEARCH_COMPLETE,
	MTU_ERROR,
};

/* Probes of a round by index: 0 small, 1 in doubt, 2.. the ladder downward, last small. */
enum { MTU_ROUND_PROBES = MTU_LADDER_MAX + 3, MTU_ROUND_LAST = MTU_ROUND_PROBES - 1 };

struct mtu_round {
	bool used, with_ladder;
	uint32_t acked; /* bit a probe */
	uint8_t next;   /* probe to send; MTU_ROUND_PROBES: all are */
	uint64_t last_ns, judge_ns;
	uint64_t pn[MTU_ROUND_PROBES]; /* UINT64_MAX: not sent */
};

struct mtu {
	uint8_t state; /* enum mtu_state */
	bool changed;  /* `current` is news */
	uint16_t most, current;
	uint16_t ladder[MTU_LADDER_MAX]; /* descending, all below most */
	uint8_t n_ladder;

	/* Data of this size went out then, and none of it has been acknowledged since; 0: no. */
	uint16_t waiting_bytes;
	uint64_t waiting_ns;

	bool confirming, by_data;
	uint16_t confirm_bytes;
	bool doubted; /* a round's small probes arrived, and not the large one */
	uint8_t misses, told;
	uint32_t hits; /* bit a ladder entry */
	struct mtu_round rounds[MTU_ROUNDS];
	int8_t open; /* round being sent, -1: none */
	uint16_t sent_rounds;
	uint64_t round_ns, gap_ns; /* the next round, the next probe of the open one, not before */

	uint16_t low, high;     /* search: low passes, high does not */
	bool from_top;          /* the first probe of a search is the size wished for */
	uint8_t tries, unheard; /* of these no later packet arrived, either */
	uint16_t probe_bytes;   /* 0: none under way */
	bool overtaken, small_acked;
	uint64_t probe_pn, probe_ns; /* UINT64_MAX: not sent */
	uint64_t small_pn, raise_ns;
};

/* What the session knows of the path's time, ns. */
struct mtu_times {
	uint64_t now, rtt, rto, pto;
	uint64_t packet; /* what the largest packet takes on the line, as far as is known */
};

/** most: symbol agreed on. ip_bytes: IP and UDP headers, 28 or 48. */
void mtu_init(struct mtu *m, uint16_t most, uint16_t ip_bytes);

/** The data path is up, or the first transfer starts: confirm `most`. Does nothing twice. */
void mtu_start(struct mtu *m, uint64_t now_ns);

/**
 * Payload bytes of a probe that is due, 0: none. After a size mtu_probe_sent() must follow. Moves
 * the timers.
 */
uint16_t mtu_probe(struct mtu *m, const struct mtu_times *t);
void mtu_probe_sent(struct mtu *m, uint64_t pn, uint64_t now_ns);
/** When mtu_probe() has something to do; <= t->now: at once; UINT64_MAX: not by itself. */
uint64_t mtu_next_ns(const struct mtu *m, const struct mtu_times *t);

/** A report names packet numbers [low, high] as received. */
void mtu_acked(struct mtu *m, uint64_t low, uint64_t high, const struct mtu_times *t);
/** Probes sent with numbers in [low, high] and not acknowledged: no loss of the path. */
uint64_t mtu_missing(const struct mtu *m, uint64_t low, uint64_t high);

/**
 * A data packet with so many bytes of payload was sent. true: what is waited for changed, and
 * mtu_next_ns() with it.
 */
static inline bool mtu_data_sent(struct mtu *m, uint16_t bytes, uint64_t now_ns)
{
	if (bytes <= m->waiting_bytes || bytes <= STRAIT_SYMBOL_BYTES_MIN)
		return false;
	m->waiting_bytes = bytes;
	m->waiting_ns = now_ns;
	return true;
}

/** Whether mtu_data_acked() may do anything for a packet sent at or before sent_ns. */
static inline bool mtu_heeds_data(const struct mtu *m, uint64_t sent_ns)
{
	return m->confirming || (m->waiting_bytes > 0 && sent_ns >= m->waiting_ns);
}

/** A data packet sent at sent_ns arrived. */
void mtu_data_acked(struct mtu *m, uint16_t bytes, uint64_t sent_ns);

/** Data would very likely go into a black hole: wait for the verdict. */
static inline bool mtu_holds(const struct mtu *m)
{
	return m->confirming && m->by_data && m->misses >= MTU_HOLD;
}

/** true once after `current` changed. */
static inline bool mtu_poll(struct mtu *m)
{
	bool changed = m->changed;

	m->changed = false;
	return changed;
}
