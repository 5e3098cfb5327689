/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * What a benchmark needs of the machine: one CPU, large memory, a clock and a cycle counter.
 */

enum {
	HOST_LINE_BYTES = 64,
	HOST_HEADROOM_BYTES = 128, /* what DPDK leaves before a packet */
	HOST_RING_SLOTS = 2048,
};

/** Run on this CPU from now on, -1: the last one allowed. The CPU's number or -errno. */
int host_pin(int cpu);

/**
 * len bytes in huge pages where the machine has them, filled with bytes that do not repeat, so that
 * every page is there. NULL + errno. Given back with host_region_put().
 */
uint8_t *host_region_get(size_t len);
void host_region_put(uint8_t *p, size_t len);

/** Bytes between packet buffers: an odd number of cache lines, so that headers use all sets. */
size_t host_slot_bytes(size_t symbol_bytes);

uint64_t host_now_ns(void);
/** CPU time of this thread: on a machine that others use too, their share is not counted. */
uint64_t host_cpu_ns(void);

/** Frequency of the time stamp counter, measured in the first call (20 ms). */
double host_cycles_a_second(void);

/** Time stamp counter: constant rate, the nominal clock of the CPU. */
static inline uint64_t host_cycles(void)
{
	return __builtin_ia32_rdtsc();
}
