/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/host.h"

#include <strait/wire.h>

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

enum { HUGE_PAGE_BYTES = 2 << 20 };

int host_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0) {
		if (sched_getaffinity(0, sizeof(set), &set) < 0)
			return -errno;
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET(i, &set))
				cpu = i;
	}
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : cpu;
}

static size_t whole_pages(size_t len)
{
	return (len + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

uint8_t *host_region_get(size_t len)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint64_t x = UINT64_C(0x2545f4914f6cdd1d), *word;

	len = whole_pages(len);
	word = mmap(NULL, len, prot, flags | MAP_HUGETLB, -1, 0);
	if (word == MAP_FAILED) {
		word = mmap(NULL, len, prot, flags, -1, 0);
		if (word == MAP_FAILED)
			return NULL;
		(void)madvise(word, len, MADV_HUGEPAGE);
	}
	for (size_t i = 0; i < len / sizeof(*word); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		word[i] = x;
	}
	return (uint8_t *)word;
}

void host_region_put(uint8_t *p, size_t len)
{
	if (p != NULL)
		munmap(p, whole_pages(len));
}

size_t host_slot_bytes(size_t symbol_bytes)
{
	size_t bytes = HOST_HEADROOM_BYTES + STRAIT_OVERHEAD_BYTES + symbol_bytes;

	return ((bytes + HOST_LINE_BYTES - 1) / HOST_LINE_BYTES | 1) * HOST_LINE_BYTES;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t host_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t host_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

double host_cycles_a_second(void)
{
	static double hz;

	if (hz == 0) {
		uint64_t t0 = host_now_ns(), c0 = host_cycles(), t1;

		do
			t1 = host_now_ns();
		while (t1 - t0 < 20000000);
		hz = (double)(host_cycles() - c0) * 1e9 / (double)(t1 - t0);
	}
	return hz;
}
