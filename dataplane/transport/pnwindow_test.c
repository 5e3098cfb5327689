/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/pnwindow.h"

#include "tools/link/prng.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define GENERATION (1ULL << STRAIT_GENERATION_SHIFT)

enum { MARKS_MAX = 4000 };

/* The same contract over a plain list of every number ever marked. */
struct oracle {
	uint64_t marks[MARKS_MAX];
	uint32_t n, size;
	uint64_t newest;
};

static bool oracle_is_held(const struct oracle *o, uint64_t pn)
{
	uint64_t g = pn / GENERATION, newest = pn;

	if (o->n > 0 && g < o->newest / GENERATION && o->newest / GENERATION - g > 2)
		return false;
	for (uint32_t i = 0; i < o->n; i++)
		if (o->marks[i] / GENERATION == g && o->marks[i] > newest)
			newest = o->marks[i];
	return newest - pn < o->size;
}

static bool oracle_has(const struct oracle *o, uint64_t pn)
{
	for (uint32_t i = 0; i < o->n; i++)
		if (o->marks[i] == pn)
			return oracle_is_held(o, pn);
	return false;
}

static bool oracle_is_new(const struct oracle *o, uint64_t pn)
{
	return oracle_is_held(o, pn) && !oracle_has(o, pn);
}

static void oracle_mark(struct oracle *o, uint64_t pn)
{
	assert_true(o->n < MARKS_MAX);
	o->marks[o->n++] = pn;
	if (o->n == 1 || pn > o->newest)
		o->newest = pn;
}

static bool oracle_range(const struct oracle *o, uint64_t from, uint64_t floor, uint64_t *low,
	uint64_t *high)
{
	bool found = false;

	for (uint32_t i = 0; i < o->n; i++) {
		uint64_t pn = o->marks[i];

		if (pn <= from && pn >= floor && (!found || pn > *high) && oracle_is_held(o, pn)) {
			*high = pn;
			found = true;
		}
	}
	if (!found)
		return false;
	for (*low = *high; *low > floor && oracle_has(o, *low - 1);)
		(*low)--;
	return true;
}

static void compare_ranges(const struct pnwindow *w, const struct oracle *o, uint64_t from,
	uint64_t floor)
{
	uint64_t low, high, want_low = 0, want_high = 0;

	for (;;) {
		bool want = oracle_range(o, from, floor, &want_low, &want_high);

		assert_int_equal(pnwindow_range_below(w, from, floor, &low, &high), want);
		if (!want)
			return;
		assert_true(low == want_low && high == want_high);
		if (low == 0)
			return;
		from = low - 1;
	}
}

/* Numbers near the newest, near generation borders, repeated and old ones. */
static uint64_t draw(struct prng *r, const struct oracle *o)
{
	uint64_t near = o->newest, back = prng_below(r, 3 * o->size);

	switch (prng_below(r, 12)) {
	case 0:
		return back > near ? 0 : near - back;
	case 1:
		return o->n == 0 ? 0 : o->marks[prng_below(r, o->n)];
	case 2: /* the start of the next generation, as a re-key does */
		return prng_below(r, 12) == 0 ? (near / GENERATION + 1) * GENERATION + back % 4
					      : near + 1;
	case 3: /* the end of this one */
		return prng_below(r, 6) == 0 ? (near / GENERATION + 1) * GENERATION - 1 - back % 8
					     : near + 1;
	case 4: /* the one before */
		return near < GENERATION ? near : (near / GENERATION) * GENERATION - 1 - back;
	case 5:
		return near + back;
	case 6:
		return prng_below(r, 20) == 0 ? near + prng_below(r, 4) * GENERATION : near + 2;
	default:
		return near + 1 + prng_below(r, 3);
	}
}

static void random_operations_agree_with_a_plain_set(void **state)
{
	static struct oracle o;

	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct pnwindow w;
		struct prng r;

		prng_init(&r, seed, 0);
		o.n = 0;
		o.size = 64U << seed % 4;
		o.newest = 0;
		assert_int_equal(pnwindow_init(&w, o.size), 0);
		for (int op = 0; op < 1200; op++) {
			uint64_t pn = draw(&r, &o);
			bool is_new = oracle_is_new(&o, pn);

			assert_int_equal(pnwindow_is_new(&w, pn), is_new);
			assert_int_equal(pnwindow_mark(&w, pn), is_new);
			if (is_new)
				oracle_mark(&o, pn);
			assert_true(w.newest == o.newest);
			if (op % 40 == 0) {
				uint64_t back = prng_below(&r, 2 * o.size);

				compare_ranges(&w, &o, UINT64_MAX, 0);
				compare_ranges(&w, &o, draw(&r, &o), back > pn ? 0 : pn - back);
			}
		}
		pnwindow_fini(&w);
	}
}

/*
 * After the selftest of WireGuard's counter: the answers an anti-replay window of `size` must give.
 */
static void edges_of_the_window(void **state)
{
	enum { SIZE = 128 };
	static const struct {
		uint64_t pn;
		bool is_new;
	} steps[] = {
		{ 0, true },
		{ 1, true },
		{ 1, false },
		{ 9, true },
		{ 8, true },
		{ 7, true },
		{ 7, false },
		{ SIZE, true }, /* 0 falls out */
		{ SIZE - 1, true },
		{ SIZE - 1, false },
		{ SIZE - 2, true },
		{ 2, true },
		{ 2, false },
		{ SIZE + 16, true },
		{ 3, false },
		{ SIZE + 16, false },
		{ SIZE * 4, true },
		{ SIZE * 4 - (SIZE - 1), true },
		{ 10, false },
		{ SIZE * 4 - SIZE, false },
		{ SIZE * 4 - (SIZE + 1), false },
		{ SIZE * 4 - (SIZE - 2), true },
		{ SIZE * 4 + 1 - SIZE, false },
		{ 0, false },
		{ GENERATION - 1, true },
		{ GENERATION - 1, false },
		{ GENERATION, true }, /* and the generation before keeps its own window */
		{ GENERATION - 2, true },
		{ GENERATION - SIZE, true },
		{ GENERATION - SIZE - 1, false },
		{ GENERATION, false },
		{ 3 * GENERATION - 1, true }, /* g = 2: generation 0 is still held */
		{ GENERATION - 3, true },
		{ 3 * GENERATION, true }, /* g = 3: it is not any more */
		{ GENERATION - 4, false },
		{ 2 * GENERATION - 1, true },
		{ GENERATION, false },
		{ (1ULL << 62) - 1, true },
		{ (1ULL << 62) - 1, false },
		{ 3 * GENERATION + 1, false },
	};
	struct pnwindow w;

	(void)state;
	assert_int_equal(pnwindow_init(&w, SIZE), 0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		assert_int_equal(pnwindow_is_new(&w, steps[i].pn), steps[i].is_new);
		assert_int_equal(pnwindow_mark(&w, steps[i].pn), steps[i].is_new);
	}
	pnwindow_fini(&w);
}

static void every_order_of_a_full_window_is_accepted_once(void **state)
{
	enum { SIZE = 256 };
	uint64_t low, high;
	struct pnwindow w;

	(void)state;
	assert_int_equal(pnwindow_init(&w, SIZE), 0);
	for (uint64_t pn = SIZE; pn-- > 0;)
		assert_true(pnwindow_mark(&w, pn));
	for (uint64_t pn = 0; pn < SIZE; pn++)
		assert_false(pnwindow_mark(&w, pn));
	assert_true(pnwindow_range_below(&w, UINT64_MAX, 0, &low, &high));
	assert_int_equal(low, 0);
	assert_int_equal(high, SIZE - 1);
	pnwindow_fini(&w);
}

static void ranges_join_across_a_generation_border(void **state)
{
	uint64_t low, high;
	struct pnwindow w;

	(void)state;
	assert_int_equal(pnwindow_init(&w, 1024), 0);
	for (uint64_t pn = GENERATION - 10; pn < GENERATION + 10; pn++)
		assert_true(pnwindow_mark(&w, pn));
	assert_true(pnwindow_range_below(&w, UINT64_MAX, 0, &low, &high));
	assert_true(low == GENERATION - 10 && high == GENERATION + 9);
	assert_true(pnwindow_range_below(&w, GENERATION + 3, GENERATION - 2, &low, &high));
	assert_true(low == GENERATION - 2 && high == GENERATION + 3);
	assert_true(pnwindow_range_below(&w, GENERATION + 3, GENERATION, &low, &high));
	assert_true(low == GENERATION && high == GENERATION + 3);
	assert_false(pnwindow_range_below(&w, GENERATION - 11, 0, &low, &high));
	assert_false(pnwindow_range_below(&w, UINT64_MAX, GENERATION + 10, &low, &high));
	pnwindow_fini(&w);
}

static void an_empty_window_has_no_ranges(void **state)
{
	uint64_t low, high;
	struct pnwindow w;

	(void)state;
	assert_int_equal(pnwindow_init(&w, 64), 0);
	assert_false(pnwindow_range_below(&w, UINT64_MAX, 0, &low, &high));
	assert_true(pnwindow_is_new(&w, 0));
	assert_true(pnwindow_is_new(&w, UINT64_MAX));
	pnwindow_fini(&w);
}

static void the_largest_numbers_are_harmless(void **state)
{
	uint64_t low, high;
	struct pnwindow w;

	(void)state;
	assert_int_equal(pnwindow_init(&w, 64), 0);
	assert_true(pnwindow_mark(&w, UINT64_MAX - 1));
	assert_true(pnwindow_mark(&w, UINT64_MAX));
	assert_false(pnwindow_mark(&w, UINT64_MAX));
	assert_false(pnwindow_mark(&w, 0));
	assert_true(pnwindow_range_below(&w, UINT64_MAX, 0, &low, &high));
	assert_true(low == UINT64_MAX - 1 && high == UINT64_MAX);
	assert_false(pnwindow_range_below(&w, low - 1, 0, &low, &high));
	pnwindow_fini(&w);
}

static void sizes_are_checked(void **state)
{
	struct pnwindow w;

	(void)state;
	assert_int_equal(pnwindow_init(&w, 0), -EINVAL);
	assert_int_equal(pnwindow_init(&w, 32), -EINVAL);
	assert_int_equal(pnwindow_init(&w, 96), -EINVAL);
	assert_int_equal(pnwindow_init(&w, 1 << 24), -EINVAL);
	assert_int_equal(pnwindow_init(&w, 1 << 23), 0);
	assert_true(pnwindow_mark(&w, 5));
	assert_true(pnwindow_mark(&w, GENERATION - 1));
	assert_true(pnwindow_mark(&w, 6));
	pnwindow_fini(&w);
	pnwindow_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_agree_with_a_plain_set),
		cmocka_unit_test(edges_of_the_window),
		cmocka_unit_test(every_order_of_a_full_window_is_accepted_once),
		cmocka_unit_test(ranges_join_across_a_generation_border),
		cmocka_unit_test(an_empty_window_has_no_ranges),
		cmocka_unit_test(the_largest_numbers_are_harmless),
		cmocka_unit_test(sizes_are_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
