/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Other traffic on the line. Each flow enters the bottleneck queue of one direction together with
 * the packets of the session and leaves it for a path of its own: no loss but the queue's, a round
 * trip of its own. Acknowledgments of a CUBIC flow take the bottleneck of the other direction.
 *
 *   session --+                       +-- delay, loss, .. --> session
 *             +--> queue --> line ----+
 *   flows ----+                       +-- delay ------------> receivers of the flows
 *
 * Driven like everything else in a world: cross_next_ns() says when, cross_step() acts. One thread.
 * Times of the configuration count from the order. Bytes are line bytes (frame + 24).
 */

#include "tools/link/link.h"
#include "tools/sim/tcp.h"

enum { CROSS_FLOWS_MAX = 16 };

enum cross_kind { CROSS_CUBIC, CROSS_CBR };

struct cross_config {
	enum cross_kind kind;
	uint8_t direction; /* index of the link it loads */
	uint64_t start_ns, len_ns;
	uint64_t rtt_ns;   /* without queues; 0: the link's. CUBIC only */
	uint64_t rate_bps; /* of the line. CBR only */
};

struct cross_item {
	uint64_t due_ns;
	struct tcp_segment segment;
	struct tcp_ack ack;
};

/* Paths keep order. */
struct cross_path {
	struct cross_item *ring;
	size_t head, len, cap;
};

struct cross_flow {
	struct cross_config cfg;
	uint64_t start_ns, end_ns, owd_ns;
	uint64_t next_ns; /* has something to do at */
	struct tcp tcp;
	struct cross_path data, acks;
	uint64_t send_ns; /* CBR: the next packet */
	double send_frac;
	uint64_t offered, lost; /* packets */
	uint64_t bytes;         /* arrived, one-way delay after the queue */
};

struct cross {
	struct link *links; /* by direction */
	struct cross_flow flows[CROSS_FLOWS_MAX];
	uint32_t n;
	uint64_t bytes[2]; /* arrived, by direction */
	bool failed;       /* without memory a path lost a packet */
};

/* links: two, indexed by direction, which must stay where they are. 0, -ENOMEM, -ENOSPC. */
int cross_init(struct cross *x, const struct cross_config *cfg, uint32_t n, struct link *links,
	uint64_t t0_ns);
void cross_fini(struct cross *x);

/* UINT64_MAX: nothing more will happen. */
uint64_t cross_next_ns(const struct cross *x);

/* All that is due. */
void cross_step(struct cross *x, uint64_t now_ns);

/*
 * Parse `cubic:START_MS,LEN_MS[,RTT_MS]` or `cbr:START_MS,LEN_MS,GBPS`. 0, or -EINVAL with one line
 * for the user in errbuf.
 */
int cross_parse(struct cross_config *cfg, const char *value, char *errbuf, size_t errlen);
