/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Somebody on the path, and a peer that breaks the rules, in a simulated run.
 *
 * After a share of the packets that arrive, and before a share of those that leave, one thing is
 * tried that a guard of the protocol core must stop, and what became of it is checked at once:
 *   - a packet that was accepted before, at any age: nothing but one drop counter may move;
 *   - one damaged, cut, or of key generations not held: the same, under the name it must have;
 *   - with the session's own keys: a symbol that is not of its slot's length, right before the one
 *     that is; OPEN of a transfer that ended; the receiver's last word about objects, twice.
 * The run itself must then end as if nothing had happened. What is injected takes as long as a
 * packet does, but no room on the line and no part of the figures. What is sealed in the name of
 * the sink comes at once. Also looks whether both directions would seal under one key.
 *
 * Reads and writes sessions from the inside, on the thread of the world. Memory: some packets.
 */

#include "tools/link/prng.h"

#include <stddef.h>
#include <stdint.h>

struct world;

struct attack;

/* NULL without memory. share: of packets, 0 to 1. Repeatable by seed. */
struct attack *attack_create(double share, uint64_t seed);
void attack_destroy(struct attack *a);

/* The world has new sessions. */
void attack_sessions(struct attack *a, struct world *w);

/* A packet of `side` is on the link and arrives at at_ns, 0: it was lost. */
void attack_sent(struct attack *a, struct world *w, int side, const uint8_t *packet, size_t len,
	uint64_t at_ns);

/* A packet that was planted arrives; right: it is a symbol and this is what it would measure. */
void attack_deliver(struct attack *a, struct world *w, int from, const uint8_t *packet, size_t len,
	uint32_t right);

/* A packet of `from` arrived and the session answered rc. */
void attack_arrived(struct attack *a, struct world *w, int from, const uint8_t *packet, size_t len,
	int rc);

/* How often something was tried. */
uint64_t attack_tries(const struct attack *a);
