/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/existence.h"

#include <string.h>

void existence_init(struct existence *e, struct index *x, uint64_t mask, uint64_t max_age_ns)
{
	memset(e, 0, sizeof(*e));
	e->index = x;
	e->shared = index_user(x);
	if (e->shared == NULL)
		e->shared = &e->own;
	e->shared->mask = mask;
	e->shared->max_age_ns = max_age_ns;
	e->view = (struct exist_view){ *index_view(x), e->shared };
}

static uint64_t state_get(const struct existence *e)
{
	return atomic_load_explicit(&e->shared->state, memory_order_relaxed);
}

void existence_current(struct existence *e, uint64_t seq, uint64_t complete_ns)
{
	atomic_store_explicit(&e->shared->as_of, seq, memory_order_relaxed);
	atomic_store_explicit(&e->shared->complete_ns, complete_ns, memory_order_relaxed);
	atomic_store_explicit(&e->shared->state, state_get(e) | EXIST_COMPLETE,
		memory_order_release);
}

void existence_lost(struct existence *e)
{
	uint64_t state = state_get(e);

	/* A reader that looks before and after sees another number even if all is well again. */
	if (state & EXIST_COMPLETE)
		atomic_store_explicit(&e->shared->state,
			(state & ~(uint64_t)EXIST_COMPLETE) + EXIST_LOSS, memory_order_release);
}

void existence_partial(struct existence *e, bool partial)
{
	uint64_t state = state_get(e) & ~(uint64_t)EXIST_PARTIAL;

	atomic_store_explicit(&e->shared->state, state | (partial ? EXIST_PARTIAL : 0),
		memory_order_release);
}

void existence_beat(struct existence *e, uint64_t now_ns)
{
	atomic_store_explicit(&e->shared->beat_ns, now_ns, memory_order_release);
}

void existence_negative(struct existence *e, struct digest128 d, uint64_t until_ns)
{
	atomic_store_explicit(&e->shared->negative[exist_negative_place(d)],
		exist_negative_entry(d, until_ns), memory_order_relaxed);
	if (until_ns > atomic_load_explicit(&e->shared->negative_ns, memory_order_relaxed))
		atomic_store_explicit(&e->shared->negative_ns, until_ns, memory_order_release);
}

void existence_arrived(struct existence *e, struct digest128 d)
{
	_Atomic uint64_t *at = &e->shared->negative[exist_negative_place(d)];

	if (exist_negative_names(atomic_load_explicit(at, memory_order_relaxed), d))
		atomic_store_explicit(at, 0, memory_order_relaxed);
}

static void count(struct existence *e, size_t n, const struct exist_age *age)
{
	atomic_fetch_add_explicit(&e->asked, n, memory_order_relaxed);
	if (!age->known)
		atomic_fetch_add_explicit(&e->unknown, n, memory_order_relaxed);
}

void existence_ask(struct existence *e, const struct digest128 *d, size_t n, uint64_t now_ns,
	uint8_t *answers, struct exist_age *age)
{
	exist_view_ask(&e->view, d, n, now_ns, answers, age);
	count(e, n, age);
}

size_t existence_prefix(struct existence *e, const struct digest128 *d, size_t n, uint64_t now_ns,
	struct exist_age *age)
{
	size_t first = exist_view_prefix(&e->view, d, n, now_ns, age);

	count(e, first < n ? first + 1 : n, age);
	return first;
}
