/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/rtehash/rtehash.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_log.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_BYTES = 16, BULK = 64, BYTES_PER_KEY = 80 };

struct rtehash {
	struct rte_hash *table;
};

/* Enough ordinary memory for the table; pages are taken as they are touched. */
static int eal_start(uint32_t keys, int cpu)
{
	static int started;
	char core[16], memory[16];
	char name[] = "strait-bench", no_huge[] = "--no-huge", no_pci[] = "--no-pci",
	     no_conf[] = "--no-shconf", quiet[] = "--log-level=error", l[] = "-l", m[] = "-m",
	     no_telemetry[] = "--no-telemetry";
	char *argv[] = { name, no_huge, no_pci, no_conf, no_telemetry, quiet, l, core, m, memory,
		NULL };

	if (started != 0)
		return started;
	snprintf(core, sizeof(core), "%d", cpu);
	snprintf(memory, sizeof(memory), "%u",
		(unsigned int)((uint64_t)keys * BYTES_PER_KEY >> 20) + 128);
	started = rte_eal_init(sizeof(argv) / sizeof(argv[0]) - 1, argv) < 0 ? -rte_errno : 1;
	return started;
}

struct rtehash *rtehash_create(uint32_t keys, int cpu)
{
	struct rte_hash_parameters params = { .name = "digests",
		.entries = keys,
		.key_len = KEY_BYTES,
		.hash_func = rte_hash_crc,
		.extra_flag = RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF };
	struct rtehash *h;
	int ret = eal_start(keys, cpu);

	if (ret < 0) {
		errno = -ret;
		return NULL;
	}
	h = calloc(1, sizeof(*h));
	if (h == NULL)
		return NULL;
	h->table = rte_hash_create(&params);
	if (h->table == NULL) {
		free(h);
		errno = rte_errno;
		return NULL;
	}
	return h;
}

void rtehash_destroy(struct rtehash *h)
{
	if (h == NULL)
		return;
	rte_hash_free(h->table);
	free(h);
}

int rtehash_add(struct rtehash *h, const void *key)
{
	int ret = rte_hash_add_key_data(h->table, key, (void *)1);

	return ret < 0 ? ret : 0;
}

int rtehash_del(struct rtehash *h, const void *key)
{
	int ret = rte_hash_del_key(h->table, key);

	if (ret < 0)
		return ret;
	/* No reader is about: the slot can be used again at once. */
	return rte_hash_free_key_with_position(h->table, ret);
}

uint64_t rtehash_lookup(struct rtehash *h, const void *keys, uint32_t n)
{
	const void *p[BULK];
	void *data[BULK];
	uint64_t hits = 0;

	for (uint32_t i = 0; i < n; i++)
		p[i] = (const uint8_t *)keys + (size_t)i * KEY_BYTES;
	if (rte_hash_lookup_bulk_data(h->table, p, n, &hits, data) < 0)
		return 0;
	return hits;
}
