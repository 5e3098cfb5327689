/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096, HUGE_BYTES = 2 << 20, HUGE_FROM_BYTES = 1 << 20 };

static size_t whole(size_t bytes)
{
	size_t page = bytes >= HUGE_FROM_BYTES ? HUGE_BYTES : PAGE_BYTES;

	return (bytes + page - 1) & ~(page - 1);
}

void *pages_get(size_t bytes)
{
	size_t len = whole(bytes), extra = bytes >= HUGE_FROM_BYTES ? HUGE_BYTES : 0, head;
	uint8_t *p;

	if (bytes == 0 || bytes > SIZE_MAX / 2) {
		errno = EINVAL;
		return NULL;
	}
	p = mmap(NULL, len + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (extra == 0)
		return p;
	head = (size_t)(-(uintptr_t)p & (HUGE_BYTES - 1));
	if (head > 0)
		munmap(p, head);
	if (extra > head)
		munmap(p + head + len, extra - head);
	(void)madvise(p + head, len, MADV_HUGEPAGE);
	return p + head;
}

void pages_put(void *p, size_t bytes)
{
	if (p != NULL)
		munmap(p, whole(bytes));
}
