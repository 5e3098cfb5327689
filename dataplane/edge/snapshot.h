/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Figures published by one thread and read by others without stopping it: a sequence lock over 64
 * bit words. The writer never waits. A reader that meets a write tries again; what it returns was
 * true at one moment.
 *
 * Words are relaxed atomics, so a torn read is a retry and no undefined behavior. The fences pair
 * as in Boehm, "Can seqlocks get along with programming language memory models?" (MSPC 2012).
 */

enum { SNAPSHOT_WORDS_MAX = 96 };

struct snapshot {
	_Atomic uint32_t sequence; /* odd: being written */
	_Atomic uint64_t words[SNAPSHOT_WORDS_MAX];
};

/** One writer. size: a multiple of 8, at most 8 * SNAPSHOT_WORDS_MAX, the same every time. */
static inline void snapshot_write(struct snapshot *s, const void *from, size_t size)
{
	uint32_t sequence = atomic_load_explicit(&s->sequence, memory_order_relaxed);
	uint64_t word;

	atomic_store_explicit(&s->sequence, sequence + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < size / sizeof(word); i++) {
		memcpy(&word, (const uint8_t *)from + i * sizeof(word), sizeof(word));
		atomic_store_explicit(&s->words[i], word, memory_order_relaxed);
	}
	atomic_store_explicit(&s->sequence, sequence + 2, memory_order_release);
}

/** Any thread. Spins only while a write is under way (well below a microsecond). */
static inline void snapshot_read(const struct snapshot *s, void *to, size_t size)
{
	uint32_t before, after;
	uint64_t word;

	do {
		before = atomic_load_explicit(&s->sequence, memory_order_acquire);
		for (size_t i = 0; i < size / sizeof(word); i++) {
			word = atomic_load_explicit(&s->words[i], memory_order_relaxed);
			memcpy((uint8_t *)to + i * sizeof(word), &word, sizeof(word));
		}
		atomic_thread_fence(memory_order_acquire);
		after = atomic_load_explicit(&s->sequence, memory_order_relaxed);
	} while (before != after || (before & 1));
}
