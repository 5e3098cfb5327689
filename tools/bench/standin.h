/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/crypto/keys.h"
#include "dataplane/transport/partition.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Stands in for the receiving edge when only the sender is measured.
 *
 * It has the peer's keys and answers as a receiver would: RESPONSE, OPEN_ACK, five REPORTs a round
 * trip with HAVE floors, OBJECT and CLOSE_ACK, sealed in control packets. Instead of opening data
 * packets it reads their clear headers and counts symbols a block, so that what it costs the core
 * it shares with the sender is small. Objects of a transfer must have equal lengths. Time is the
 * caller's; a packet is acknowledged one round trip after it was sent.
 */

enum {
	STANDIN_REPORTS_A_ROUND = 5,
	STANDIN_REPORT_REPEATS = 4, /* each packet is in so many reports */
	STANDIN_FLIGHT = 32768,     /* packets on the way, 2^n */
	STANDIN_GAPS = 4096,        /* runs of lost packets remembered, 2^n */
	STANDIN_TRANSFERS = 8,      /* open or closing at once */
};

struct standin_config {
	uint32_t session;  /* the id in headers of packets it sends: what the sender accepts */
	uint8_t direction; /* enum strait_direction of packets it sends */
	uint8_t secret[STRAIT_SECRET_BYTES];
	const struct aead_ops *aead;
	uint64_t rtt_ns;
	double loss; /* share of data packets that do not arrive */
	uint64_t seed;
};

struct standin_stream {
	struct partition part;
	uint8_t *count; /* symbols that arrived, by block */
	uint32_t floor; /* all blocks below are complete */
	bool changed;
};

struct standin_transfer {
	uint32_t id; /* 0: free */
	uint32_t objects, log_len, log_acked;
	uint64_t object_bytes;
	struct standin_stream stream[2];
	bool ack_due, close_due;
};

struct standin {
	struct standin_config cfg;
	struct key_tx tx_keys;
	struct key_rx rx_keys;
	uint64_t next_pn;
	struct standin_flight {
		uint64_t pn, time_ns;
		uint32_t transfer, block;
		uint8_t type;
		bool lost;
	} flight[STANDIN_FLIGHT];
	uint32_t head, tail;
	struct standin_gap {
		uint64_t first, last;
	} gaps[STANDIN_GAPS];
	uint32_t n_gaps;
	uint64_t seen, newest, newest_ns; /* highest number passed, arrived, and when */
	uint64_t floors[STANDIN_REPORT_REPEATS];
	uint64_t due_ns;
	uint32_t reports;
	uint64_t lost, until_loss, random;
	uint64_t token;
	bool any, fresh, response_due;
	struct standin_transfer transfers[STANDIN_TRANSFERS];
};

/** 0 or -errno. */
int standin_init(struct standin *p, const struct standin_config *cfg);
void standin_fini(struct standin *p);

/** The sender sent this packet. 0, -EBADMSG (not the sender's), -EPROTO, -ENOBUFS, -ENOMEM. */
int standin_take(struct standin *p, uint64_t now_ns, const uint8_t *packet, size_t len);

/** A packet for the sender, when one is due. Its length or 0. */
size_t standin_give(struct standin *p, uint64_t now_ns, uint8_t *buf, size_t cap);
