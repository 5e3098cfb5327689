/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rx_resume.h"

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

bool rx_resume_open(void *area, const struct rx_resume_layout *layout, bool resumed)
{
	struct resume_area *a = area;

	if (a == NULL)
		return false;
	if (resumed && a->magic == RESUME_MAGIC && a->symbol_bytes == layout->symbol_bytes &&
		a->stream_bytes == layout->stream_bytes && a->offset == layout->offset &&
		a->length == layout->length && a->digest == layout->digest)
		return true;
	a->magic = 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	memset(a->bits, 0, sizeof(a->bits));
	a->symbol_bytes = layout->symbol_bytes;
	a->stream_bytes = layout->stream_bytes;
	a->offset = layout->offset;
	a->length = layout->length;
	a->digest = layout->digest;
	__atomic_store_n(&a->magic, RESUME_MAGIC, __ATOMIC_RELEASE);
	return false;
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
