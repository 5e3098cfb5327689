/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * rte_eth_rx_burst() and rte_eth_tx_burst() that survive a memif peer's death. When the peer goes
 * away, DPDK's interrupt thread unmaps the shared rings without waiting for the polling thread; a
 * poll under way at that instant faults, and a peer that truncates its memory gives SIGBUS. Here
 * such a fault ends the burst: it counts as 0 packets, and the at most 64 packets it had in hand
 * are lost to the pool. A fault anywhere else kills the process as usual.
 *
 * To be called from one thread, the one that called wan_guard_install().
 */

#include <rte_mbuf.h>

#include <stdint.h>

/* Returns 0 or -errno. */
int wan_guard_install(void);

uint16_t wan_guard_rx(uint16_t port, struct rte_mbuf **pkts, uint16_t n);

/*
 * Like rte_eth_tx_burst(); after a fault it returns n, because it is unknown which of the packets
 * were freed already: the caller must not touch them again.
 */
uint16_t wan_guard_tx(uint16_t port, struct rte_mbuf **pkts, uint16_t n);

/* Faults survived. */
uint64_t wan_guard_faults(void);
