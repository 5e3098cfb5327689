/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Newer than the headers of the distribution. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define LIMIT_LEAST (UINT64_C(1) << 30)
#define FILE_STEP   (UINT64_C(2) << 20)

/* Addresses that begin at a huge page. */
static uint8_t *reserve(uint64_t limit)
{
	uint8_t *p = mmap(NULL, limit + ARENA_HUGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t head;

	if (p == MAP_FAILED)
		return NULL;
	head = (size_t)(-(uintptr_t)p & (ARENA_HUGE - 1));
	if (head > 0)
		munmap(p, head);
	if (head < ARENA_HUGE)
		munmap(p + head + limit, ARENA_HUGE - head);
	return p + head;
}

static int share(struct arena *a)
{
	static const int seals = F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE;

	a->fd = memfd_create("strait-existence", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (a->fd < 0 || fchmod(a->fd, S_IRUSR) < 0)
		return -errno;
	/* The one mapping that may write, before the seal forbids any. */
	if (mmap(a->base, a->limit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
		    a->fd, 0) == MAP_FAILED)
		return -errno;
	return fcntl(a->fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
}

int arena_init(struct arena *a, uint64_t limit, bool shared)
{
	int ret = 0;

	*a = (struct arena){ .fd = -1, .limit = (limit + ARENA_HUGE - 1) & -(uint64_t)ARENA_HUGE };
	a->base = reserve(a->limit);
	while (a->base == NULL && a->limit / 2 >= LIMIT_LEAST) {
		a->limit /= 2;
		a->base = reserve(a->limit);
	}
	if (a->base == NULL)
		return -ENOMEM;
	if (shared)
		ret = share(a);
	if (ret < 0)
		arena_fini(a);
	else
		(void)madvise(a->base, a->limit, MADV_HUGEPAGE);
	return ret;
}

void arena_fini(struct arena *a)
{
	if (a->base != NULL)
		munmap(a->base, a->limit);
	if (a->fd >= 0)
		close(a->fd);
	free(a->holes);
	*a = (struct arena){ .fd = -1 };
}

/* Pages for what is beyond all that was taken so far. */
static int extend(struct arena *a, uint64_t at, uint64_t bytes)
{
	uint64_t end = at + bytes, size = (end + FILE_STEP - 1) & -FILE_STEP;

	if (end > a->limit)
		return -ENOMEM;
	if (a->fd < 0)
		return mprotect(a->base + a->top, end - a->top, PROT_READ | PROT_WRITE) < 0
			? -ENOMEM
			: 0;
	if (size > a->file_bytes) {
		if (ftruncate(a->fd, (off_t)size) < 0)
			return -ENOMEM;
		a->file_bytes = size;
	}
	return 0;
}

/* An error here is the last chance to hear of it: later it is a signal, perhaps a reader's. */
static int populate(struct arena *a, uint64_t at, uint64_t bytes)
{
	uint64_t end = (at + bytes + ARENA_HUGE - 1) & -(uint64_t)ARENA_HUGE;
	uint8_t *p = a->base + at;

	if (a->fd < 0)
		return 0;
	if (madvise(p, bytes, MADV_POPULATE_WRITE) < 0) {
		if (errno != EINVAL) /* else the kernel is older than this advice */
			return -ENOMEM;
		memset(p, 0, bytes);
	}
	/* What is huge already stays so; what lies beside it in the same page becomes so, too. */
	at &= -(uint64_t)ARENA_HUGE;
	if (bytes >= ARENA_HUGE)
		(void)madvise(a->base + at, end - at, MADV_COLLAPSE);
	return 0;
}

static void hole_remove(struct arena *a, uint32_t i)
{
	memmove(&a->holes[i], &a->holes[i + 1], (--a->nholes - i) * sizeof(*a->holes));
}

/* Put a hole in its place and join it with its neighbors. Without memory for that it is lost. */
static void hole_add(struct arena *a, uint64_t at, uint64_t bytes)
{
	uint32_t i = 0;

	if (bytes == 0)
		return;
	if (a->nholes == a->holes_max) {
		uint32_t most = a->holes_max == 0 ? 64 : 2 * a->holes_max;
		struct arena_hole *more = reallocarray(a->holes, most, sizeof(*more));

		if (more == NULL)
			return;
		a->holes = more;
		a->holes_max = most;
	}
	while (i < a->nholes && a->holes[i].at < at)
		i++;
	memmove(&a->holes[i + 1], &a->holes[i], (a->nholes++ - i) * sizeof(*a->holes));
	a->holes[i] = (struct arena_hole){ at, bytes };
	if (i + 1 < a->nholes && at + bytes == a->holes[i + 1].at) {
		a->holes[i].bytes += a->holes[i + 1].bytes;
		hole_remove(a, i + 1);
	}
	if (i > 0 && a->holes[i - 1].at + a->holes[i - 1].bytes == at) {
		a->holes[i - 1].bytes += a->holes[i].bytes;
		hole_remove(a, i);
	}
}

/* The smallest hole that it fits into. */
static bool hole_take(struct arena *a, uint64_t bytes, uint64_t *at)
{
	uint32_t best = UINT32_MAX;
	struct arena_hole h;

	for (uint32_t i = 0; i < a->nholes; i++) {
		h = a->holes[i];
		if (bytes <= h.bytes && (best == UINT32_MAX || h.bytes < a->holes[best].bytes))
			best = i;
	}
	if (best == UINT32_MAX)
		return false;
	h = a->holes[best];
	hole_remove(a, best);
	*at = h.at;
	hole_add(a, h.at + bytes, h.bytes - bytes);
	return true;
}

int arena_take(struct arena *a, uint64_t bytes, uint64_t *at)
{
	bool again;
	int ret;

	bytes = arena_round(bytes);
	again = hole_take(a, bytes, at);
	if (!again) {
		*at = a->top;
		ret = extend(a, *at, bytes);
		if (ret < 0)
			return ret;
		a->top = *at + bytes;
	}
	/* Also of what was given back: not all of its pages need have come the time before. */
	ret = populate(a, *at, bytes);
	if (ret < 0)
		arena_give(a, *at, bytes);
	else if (again && a->fd >= 0)
		memset(a->base + *at, 0, bytes);
	return ret;
}

void arena_give(struct arena *a, uint64_t at, uint64_t bytes)
{
	bytes = arena_round(bytes);
	if (a->fd < 0)
		(void)madvise(a->base + at, bytes, MADV_DONTNEED);
	hole_add(a, at, bytes);
}

const void *arena_map(int fd, uint64_t limit)
{
	uint8_t *p;
	int e;

	if (limit == 0 || limit % ARENA_HUGE != 0) {
		errno = EINVAL;
		return NULL;
	}
	p = reserve(limit);
	if (p == NULL)
		return NULL;
	if (mmap(p, limit, PROT_READ, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) ==
		MAP_FAILED) {
		e = errno;
		munmap(p, limit);
		errno = e;
		return NULL;
	}
	(void)madvise(p, limit, MADV_DONTDUMP);
	return p;
}

void arena_unmap(const void *base, uint64_t limit)
{
	if (base != NULL)
		munmap((void *)(uintptr_t)base, limit);
}
