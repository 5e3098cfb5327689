/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The forward loop: frames in, verdict of the link model, delay line, frames out. One thread owns
 * everything here.
 *
 * The emulator is only as good as its clock: a frame is stamped when it is read from the port (up
 * to 50 us late when idle) and sent when it is due. Whatever makes this wrong is counted as an
 * overrun, and a run with overruns says nothing about the link asked for:
 *   late     sent more than --late-us after its due time
 *   stalled  read after the loop had not run for more than --late-us
 *   no_room  no memory to hold it
 * What the receiver causes is not an overrun, just as on a real line: no_link (nobody connected),
 * peer_late and peer_drop (its ring was full; the emulator holds packets 100 ms, then drops).
 */

#include "tools/link/delayq.h"
#include "tools/link/link.h"
#include "tools/wan/options.h"
#include "tools/wan/ports.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

enum { WAN_BURST = 32 };

struct wan_counters {
	uint64_t rx;
	uint64_t tx;
	uint64_t forged;
	uint64_t late;
	uint64_t stalled;
	uint64_t no_room;
	uint64_t no_link;
	uint64_t peer_late;
	uint64_t peer_drop;
	uint64_t late_max_ns;
	uint64_t links_up; /* times the receiver's link came up */
};

struct wan_direction {
	struct link link;
	struct delayq line;
	struct wan_counters c;
	struct rte_mbuf *pending[WAN_BURST]; /* due, but not yet taken by the port */
	uint16_t npending;
	uint16_t rx_port;
	uint16_t tx_port;
	bool tx_up;
	uint64_t full_since_ns; /* receiver's ring is full since then; 0: it is not */
	uint64_t excused_ns;    /* packets due before then are late because of the receiver */
	uint64_t forge_next_ns;
	struct prng forge_rnd;
};

struct wan {
	struct wan_direction dir[WAN_SIDES]; /* [WAN_A]: A to B */
	const struct wan_options *opt;
	struct rte_mempool *pool;
	uint64_t start_ns;
	uint64_t last_ns;
};

uint64_t wan_now_ns(void);

/* Returns 0 or -errno. */
int wan_init(struct wan *w, const struct wan_options *o, const struct wan_plan *p,
	const struct wan_ports *ports);

/* Frees the delay lines and the packets in them. */
void wan_fini(struct wan *w);

/* Runs until *stop is set or --seconds passed; calls wan_stats_print() every --stats-ms. */
void wan_run(struct wan *w, volatile sig_atomic_t *stop);

static inline uint64_t wan_overruns(const struct wan_counters *c)
{
	return c->late + c->stalled + c->no_room;
}
