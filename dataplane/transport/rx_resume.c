/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rx_resume.h"

#include "dataplane/transport/partition.h"
#include "dataplane/transport/session.h"

#include <string.h>

enum { RESUME_MAGIC = 0x53745231 /* "StR1" */, RESUME_HEADER_BYTES = 40 };

struct resume_area {
	uint32_t magic;
	uint32_t symbol_bytes;
	uint64_t stream_bytes, offset, length, digest;
	uint8_t bits[SESSION_RESUME_BYTES - RESUME_HEADER_BYTES];
};
_Static_assert(sizeof(struct resume_area) == SESSION_RESUME_BYTES, "layout in shared memory");
/* 64 MiB in the smallest blocks, one more at each seam. */
_Static_assert(8 * (SESSION_RESUME_BYTES - RESUME_HEADER_BYTES) >=
		STRAIT_OBJECT_BYTES_MAX / (STRAIT_BLOCK_SYMBOLS_MAX * STRAIT_SYMBOL_BYTES_MIN) + 2,
	"one bit a block");

static bool bit_get(const uint8_t *bits, uint32_t i)
{
	return i / 8 < SESSION_RESUME_BYTES - RESUME_HEADER_BYTES && bits[i / 8] >> (i % 8) & 1;
}

/* The object's bytes of a block, from its start: [*from, *to). */
static void block_range(const struct partition *p, const struct rx_resume_layout *l, uint32_t block,
	uint64_t *from, uint64_t *to)
{
	uint64_t at = partition_offset(p, block, 0);
	uint64_t end = partition_offset(p, block, partition_k(p, block));

	*from = at > l->offset ? at - l->offset : 0;
	*to = end < l->offset + l->length ? end - l->offset : l->length;
}

static bool layout_is_sound(const struct rx_resume_layout *l, struct partition *p)
{
	return l->length > 0 && l->length <= STRAIT_OBJECT_BYTES_MAX &&
		l->stream_bytes >= l->length && l->offset <= l->stream_bytes - l->length &&
		partition_init(p, l->stream_bytes, l->symbol_bytes) == 0;
}

/*
 * Bits of the new layout from those of the old one. Both walk the object from its start; the end of
 * the run of old bytes that are there and begin at or before a new block decides.
 */
static void bits_convert(uint8_t *out, const struct rx_resume_layout *to,
	const struct partition *new, const uint8_t *bits, const struct rx_resume_layout *from,
	const struct partition *old)
{
	uint32_t first_new = partition_block_of(new, to->offset);
	uint32_t last_new = partition_block_of(new, to->offset + to->length - 1);
	uint32_t first_old = partition_block_of(old, from->offset);
	uint32_t last_old = partition_block_of(old, from->offset + from->length - 1);
	uint64_t run_from = 0, run_to = 0, at, end;
	uint32_t next = first_old;

	for (uint32_t block = first_new; block <= last_new; block++) {
		uint32_t i = block - first_new;

		block_range(new, to, block, &at, &end);
		while (run_to < end && next <= last_old) {
			uint64_t old_at, old_end;

			block_range(old, from, next, &old_at, &old_end);
			if (!bit_get(bits, next - first_old)) {
				if (old_end > end)
					break; /* it also rules out a part of the next block */
				run_from = run_to = old_end;
			} else {
				run_to = old_end;
			}
			next++;
		}
		if (run_from <= at && run_to >= end &&
			i / 8 < SESSION_RESUME_BYTES - RESUME_HEADER_BYTES)
			out[i / 8] |= (uint8_t)(1 << (i % 8));
	}
}

bool rx_resume_open(void *area, const struct rx_resume_layout *layout, bool resumed)
{
	struct resume_area *a = area;
	uint8_t bits[sizeof(a->bits)] = { 0 };
	struct rx_resume_layout before;
	struct partition old, new;

	if (a == NULL)
		return false;
	before = (struct rx_resume_layout){ .symbol_bytes = a->symbol_bytes,
		.stream_bytes = a->stream_bytes,
		.offset = a->offset,
		.length = a->length,
		.digest = a->digest };
	resumed = resumed && a->magic == RESUME_MAGIC && before.length == layout->length &&
		before.digest == layout->digest;
	if (resumed && before.symbol_bytes == layout->symbol_bytes &&
		before.stream_bytes == layout->stream_bytes && before.offset == layout->offset)
		return true;
	/* The area is shared memory: what it says may be anything. */
	resumed = resumed && layout_is_sound(&before, &old) && layout_is_sound(layout, &new);
	if (resumed)
		bits_convert(bits, layout, &new, a->bits, &before, &old);
	/* Killed on the way, the area has no magic and the object restarts. */
	a->magic = 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	memcpy(a->bits, bits, sizeof(a->bits));
	a->symbol_bytes = layout->symbol_bytes;
	a->stream_bytes = layout->stream_bytes;
	a->offset = layout->offset;
	a->length = layout->length;
	a->digest = layout->digest;
	__atomic_store_n(&a->magic, RESUME_MAGIC, __ATOMIC_RELEASE);
	return resumed;
}

static bool in_range(const void *area, uint32_t block)
{
	return area != NULL && block < 8 * sizeof(((struct resume_area *)0)->bits);
}

bool rx_resume_has(const void *area, uint32_t block)
{
	const struct resume_area *a = area;

	return in_range(area, block) && (a->bits[block / 8] >> (block % 8) & 1);
}

void rx_resume_mark(void *area, uint32_t block)
{
	struct resume_area *a = area;

	if (in_range(area, block))
		__atomic_fetch_or(&a->bits[block / 8], (uint8_t)(1 << (block % 8)),
			__ATOMIC_RELEASE);
}

void rx_resume_clear(void *area, uint32_t block)
{
	struct resume_area *a = area;

	if (in_range(area, block))
		__atomic_fetch_and(&a->bits[block / 8], (uint8_t) ~(1 << (block % 8)),
			__ATOMIC_RELEASE);
}
