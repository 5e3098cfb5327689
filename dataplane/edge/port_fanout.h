/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the kernel from reassembling IP fragments in front of a net_af_packet port.
 *
 * The driver joins a fanout group for its queues, even for a single one, and asks for
 * PACKET_FANOUT_FLAG_DEFRAG (22.11). The kernel then swallows fragments and hands up whole
 * datagrams, so that the edge takes what it means to drop (RFC 8900: fragments are a way around
 * filters and a way to fill memory), and drop_fragment counts nothing. setsockopt() is defined in
 * front of libc's and takes that flag away; the dynamic linker finds the program's own definition
 * first, as with port_guard.h. Any thread.
 */

/** The argument of PACKET_FANOUT (id | type << 16) without the flag. */
int port_fanout_without_defrag(int arg);
