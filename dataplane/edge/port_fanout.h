/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * What a net_af_packet port asks of the kernel's fanout, corrected.
 *
 * The driver joins a fanout group for its queues, even for a single one, and asks for
 * PACKET_FANOUT_FLAG_DEFRAG (22.11).
 *
 * - With the flag the kernel swallows fragments and hands up whole datagrams, so that the edge
 *   takes what it means to drop (RFC 8900: fragments are a way around filters and a way to fill
 *   memory), and drop_fragment counts nothing. So it is taken away.
 * - A group of one spreads nothing, but each packet is hashed by its flow for it and the ring
 *   looked at once more: 4 to 6 % of what a packet over veth costs. So a single queue joins none.
 *
 * setsockopt() is defined in front of libc's; the dynamic linker finds the program's own definition
 * first, as with port_guard.h.
 */

/** Whether the port that is created next has one queue. Who creates ports, before each. */
void port_fanout_alone(bool alone);

/** The argument of PACKET_FANOUT (id | type << 16) without the flag. */
int port_fanout_without_defrag(int arg);
