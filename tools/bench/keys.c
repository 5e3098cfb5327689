/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/keys.h"

#include "tools/bench/host.h"

#include <stdio.h>
#include <unistd.h>

uint64_t keys_resident(void)
{
	unsigned long size, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f == NULL)
		return 0;
	if (fscanf(f, "%lu %lu", &size, &resident) != 2)
		resident = 0;
	fclose(f);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

double keys_line_ceiling(const uint8_t *region, size_t len, double seconds)
{
	uint64_t n = 0, sum = 0, x = 1, lines = len / HOST_LINE_BYTES, at[64];
	uint64_t start = host_cpu_ns(), spent;

	do {
		for (int burst = 0; burst < 256; burst++) {
			for (int i = 0; i < 64; i++) {
				x = keys_mix(x);
				at[i] = (uint64_t)((unsigned __int128)x * lines >> 64);
				__builtin_prefetch(region + at[i] * HOST_LINE_BYTES);
			}
			for (int i = 0; i < 64; i++)
				sum += region[at[i] * HOST_LINE_BYTES];
			n += 64;
		}
		spent = host_cpu_ns() - start;
	} while ((double)spent < seconds * 1e9);
	__asm__ volatile("" : : "r"(sum));
	return (double)n * 1e3 / (double)spent;
}
