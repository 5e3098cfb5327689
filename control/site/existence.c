/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/existence.h"

#include <string.h>

enum { UNTIL_BITS = 24 };

void existence_init(struct existence *e, struct index *x, uint64_t mask, uint64_t max_age_ns)
{
	memset(e, 0, sizeof(*e));
	e->index = x;
	e->mask = mask;
	e->max_age_ns = max_age_ns;
}

void existence_current(struct existence *e, uint64_t seq, uint64_t complete_ns)
{
	atomic_store_explicit(&e->as_of, seq, memory_order_relaxed);
	atomic_store_explicit(&e->complete_ns, complete_ns, memory_order_relaxed);
	atomic_store_explicit(&e->complete, true, memory_order_release);
}

void existence_lost(struct existence *e)
{
	atomic_store_explicit(&e->complete, false, memory_order_release);
}

void existence_partial(struct existence *e, bool partial)
{
	atomic_store_explicit(&e->partial, partial, memory_order_release);
}

static _Atomic uint64_t *negative_slot(struct existence *e, struct digest128 d)
{
	return &e->negative[d.hi % EXISTENCE_NEGATIVE];
}

static uint64_t seconds(uint64_t ns)
{
	return (ns / 1000000000 + 1) & ((1u << UNTIL_BITS) - 1);
}

void existence_negative(struct existence *e, struct digest128 d, uint64_t until_ns)
{
	uint64_t entry = d.lo >> UNTIL_BITS << UNTIL_BITS | seconds(until_ns);

	atomic_store_explicit(negative_slot(e, d), entry, memory_order_relaxed);
}

static bool is_negative(struct existence *e, struct digest128 d, uint64_t now_ns)
{
	uint64_t entry = atomic_load_explicit(negative_slot(e, d), memory_order_relaxed);
	uint64_t until = entry & ((1u << UNTIL_BITS) - 1);

	return entry != 0 && entry >> UNTIL_BITS == d.lo >> UNTIL_BITS &&
		((until - seconds(now_ns)) & ((1u << UNTIL_BITS) - 1)) - 1 < 1u << (UNTIL_BITS - 1);
}

static void age_get(struct existence *e, uint64_t now_ns, struct existence_age *age)
{
	uint64_t at;

	age->known = atomic_load_explicit(&e->complete, memory_order_acquire);
	age->as_of = atomic_load_explicit(&e->as_of, memory_order_relaxed);
	at = atomic_load_explicit(&e->complete_ns, memory_order_relaxed);
	age->age_ns = now_ns > at ? now_ns - at : 0;
	if (age->age_ns > e->max_age_ns)
		age->known = false;
}

static uint8_t answer(struct existence *e, struct digest128 d, uint64_t value, uint8_t absent,
	uint64_t now_ns)
{
	if (value == INDEX_UNSURE)
		return STRAIT_EXIST_UNKNOWN;
	if (is_negative(e, d, now_ns))
		return STRAIT_EXIST_NO;
	return (value & e->mask) == 0 ? absent : STRAIT_EXIST_YES;
}

void existence_ask(struct existence *e, const struct digest128 *d, size_t n, uint64_t now_ns,
	uint8_t *answers, struct existence_age *age)
{
	uint64_t values[INDEX_BATCH];

	age_get(e, now_ns, age);
	for (size_t at = 0; age->known && at < n; at += INDEX_BATCH) {
		size_t m = n - at < INDEX_BATCH ? n - at : INDEX_BATCH;
		uint8_t absent;

		index_lookup(e->index, d + at, m, values);
		absent = atomic_load_explicit(&e->partial, memory_order_acquire)
			? STRAIT_EXIST_UNKNOWN
			: STRAIT_EXIST_NO;
		for (size_t i = 0; i < m; i++)
			answers[at + i] = answer(e, d[at + i], values[i], absent, now_ns);
	}
	/* It may have been lost while we looked: what was seen may be too new to be whole. */
	if (!age->known || !atomic_load_explicit(&e->complete, memory_order_acquire)) {
		age->known = false;
		memset(answers, STRAIT_EXIST_UNKNOWN, n);
		atomic_fetch_add_explicit(&e->unknown, n, memory_order_relaxed);
	}
	atomic_fetch_add_explicit(&e->asked, n, memory_order_relaxed);
}

size_t existence_prefix(struct existence *e, const struct digest128 *d, size_t n, uint64_t now_ns,
	struct existence_age *age)
{
	uint8_t answers[INDEX_BATCH];
	size_t at = 0;

	do {
		size_t m = n - at < INDEX_BATCH ? n - at : INDEX_BATCH;

		existence_ask(e, d + at, m, now_ns, answers, age);
		for (size_t i = 0; i < m; i++)
			if (answers[i] != STRAIT_EXIST_YES)
				return at + i;
		at += m;
	} while (at < n);
	return n;
}
