/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * DPDK's rte_hash with 16-byte keys, for strait-bench to measure beside the existence index. Here
 * and not there so that the benchmark itself is built without DPDK's compiler flags. One thread;
 * one table at a time.
 */

struct rtehash;

/**
 * keys: capacity. Starts the EAL, in ordinary memory, on the CPU that the caller runs on. NULL +
 * errno: also if the EAL was started before and failed.
 */
struct rtehash *rtehash_create(uint32_t keys, int cpu);
void rtehash_destroy(struct rtehash *h);

/** 0 or -errno (-ENOSPC). */
int rtehash_add(struct rtehash *h, const void *key);
int rtehash_del(struct rtehash *h, const void *key);
/** n <= 64 keys of 16 bytes one after the other. Bits of those that are there. */
uint64_t rtehash_lookup(struct rtehash *h, const void *keys, uint32_t n);
