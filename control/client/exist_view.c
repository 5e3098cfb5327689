/* SPDX-License-Identifier: Apache-2.0 */
#include "control/client/exist_view.h"

#include <string.h>

/* Times of negative entries: 67 ms each. */
enum { TICK_SHIFT = 26, UNTIL_MASK = (1 << EXIST_UNTIL_BITS) - 1 };

bool exist_view_is_served(const struct exist_view *v, uint64_t now_ns)
{
	uint64_t beat = atomic_load_explicit(&v->shared->beat_ns, memory_order_acquire);

	/* Another thread's beat may be a little younger than our time. */
	return beat != 0 && (now_ns <= beat || now_ns - beat < EXIST_BEAT_NS);
}

uint64_t exist_negative_entry(struct digest128 d, uint64_t until_ns)
{
	return (d.lo & ~(uint64_t)UNTIL_MASK) | ((until_ns >> TICK_SHIFT) & UNTIL_MASK);
}

bool exist_view_is_negative(const struct exist_view *v, struct digest128 d, uint64_t now_ns)
{
	uint64_t entry = atomic_load_explicit(&v->shared->negative[exist_negative_place(d)],
		memory_order_relaxed);
	uint64_t left = (entry - (now_ns >> TICK_SHIFT)) & UNTIL_MASK;

	return exist_negative_names(entry, d) && left != 0 &&
		left <= (EXIST_NEGATIVE_MAX_NS >> TICK_SHIFT) + 1;
}

/* What is known at all, and since when. Returns the state. */
static uint64_t age_get(const struct exist_view *v, uint64_t now_ns, struct exist_age *age)
{
	const struct exist_shared *s = v->shared;
	uint64_t state = atomic_load_explicit(&s->state, memory_order_acquire), at;

	age->as_of = atomic_load_explicit(&s->as_of, memory_order_relaxed);
	at = atomic_load_explicit(&s->complete_ns, memory_order_relaxed);
	age->age_ns = now_ns > at ? now_ns - at : 0;
	if (at == 0) /* it never was complete: there is no age to tell */
		age->age_ns = UINT64_MAX;
	age->known = (state & EXIST_COMPLETE) != 0 && age->age_ns <= s->max_age_ns;
	return state;
}

static void judge(const struct exist_view *v, const struct digest128 *d, const uint64_t *values,
	size_t n, uint8_t absent, uint64_t now_ns, uint8_t *answers)
{
	uint64_t mask = v->shared->mask;

	for (size_t i = 0; i < n; i++) {
		uint8_t there = (values[i] & mask) != 0 ? STRAIT_EXIST_YES : absent;

		answers[i] = values[i] == INDEX_UNSURE ? STRAIT_EXIST_UNKNOWN : there;
	}
	if (now_ns >= atomic_load_explicit(&v->shared->negative_ns, memory_order_acquire))
		return;
	for (size_t i = 0; i < n; i++)
		if (exist_view_is_negative(v, d[i], now_ns))
			answers[i] = STRAIT_EXIST_NO;
}

void exist_view_ask(const struct exist_view *v, const struct digest128 *d, size_t n,
	uint64_t now_ns, uint8_t *answers, struct exist_age *age)
{
	uint64_t values[INDEX_BATCH], state = age_get(v, now_ns, age), after;
	uint8_t absent = state & EXIST_PARTIAL ? STRAIT_EXIST_UNKNOWN : STRAIT_EXIST_NO;

	for (size_t at = 0; age->known && at < n; at += INDEX_BATCH) {
		size_t m = n - at < INDEX_BATCH ? n - at : INDEX_BATCH;

		index_view_lookup(&v->index, d + at, m, values);
		judge(v, d + at, values, m, absent, now_ns, answers + at);
	}
	/* Lost while we looked: what was seen may be too new to be whole. */
	atomic_thread_fence(memory_order_acquire);
	after = atomic_load_explicit(&v->shared->state, memory_order_relaxed);
	if (after != state)
		age->known = false;
	if (!age->known)
		memset(answers, STRAIT_EXIST_UNKNOWN, n);
}

size_t exist_view_prefix(const struct exist_view *v, const struct digest128 *d, size_t n,
	uint64_t now_ns, struct exist_age *age)
{
	uint8_t answers[INDEX_BATCH];
	size_t at = 0;

	do {
		size_t m = n - at < INDEX_BATCH ? n - at : INDEX_BATCH;

		exist_view_ask(v, d + at, m, now_ns, answers, age);
		for (size_t i = 0; i < m; i++)
			if (answers[i] != STRAIT_EXIST_YES)
				return at + i;
		at += m;
	} while (at < n);
	return n;
}
