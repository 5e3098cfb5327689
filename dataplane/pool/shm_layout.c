/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_layout.h"

#include <errno.h>
#include <string.h>

static uint64_t round_up(uint64_t x, uint64_t to)
{
	return (x + to - 1) / to * to;
}

int shm_geometry_init(struct shm_geometry *geo, uint64_t file_size)
{
	uint64_t pages;

	if (file_size < SHM_SIZE_MIN || file_size > SHM_SIZE_MAX || file_size % SHM_PAGE != 0)
		return -EINVAL;
	memset(geo, 0, sizeof(*geo));
	geo->file_size = file_size;
	geo->entry_count = (uint32_t)(file_size / SHM_BYTES_PER_ENTRY);
	if (geo->entry_count < SHM_ENTRIES_MIN)
		geo->entry_count = SHM_ENTRIES_MIN;
	geo->bucket_count = 1;
	while (geo->bucket_count < 2 * geo->entry_count)
		geo->bucket_count *= 2;

	geo->buckets_off = round_up(sizeof(struct shm_header), SHM_PAGE);
	geo->entries_off =
		round_up(geo->buckets_off + 4ull * geo->bucket_count, sizeof(struct shm_entry));
	geo->cold_off =
		round_up(geo->entries_off + (uint64_t)geo->entry_count * sizeof(struct shm_entry),
			SHM_PAGE);
	geo->pages_off = geo->cold_off + (uint64_t)geo->entry_count * sizeof(struct shm_cold);

	/* One page less where rounding the arena up would run over the end. */
	pages = (file_size - geo->pages_off) / (SHM_PAGE + sizeof(struct shm_page));
	geo->arena_off = round_up(geo->pages_off + pages * sizeof(struct shm_page), SHM_PAGE);
	if (geo->arena_off + pages * SHM_PAGE > file_size)
		pages--;
	geo->page_count = (uint32_t)pages;
	return 0;
}
