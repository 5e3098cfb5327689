/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/frame.h"
#include "dataplane/transport/pnwindow.h"
#include "tools/link/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/*
 * Ranges of reports against a plain set: what the receiver's window holds is written the way a
 * report is, by as many frames as it takes, and read again.
 */

enum { SPAN = 4096, WINDOW = 8192 };

struct told {
	bool received[SPAN], missing[SPAN];
};

/* One frame from `from` down to `floor`; where the next one starts, or UINT64_MAX. */
static uint64_t frame_write(struct pnwindow *window, struct frame_writer *w, uint64_t newest,
	uint64_t from, uint64_t floor)
{
	struct frame_report f = { .newest = newest, .newest_us = 1, .base = from };
	uint64_t low, high, next_low, next_high;
	bool more = pnwindow_range_below(window, from, floor, &low, &high);

	assert_true(more);
	f.base = high;
	assert_int_equal(frame_report_begin(w, &f), 0);
	while (more) {
		uint64_t missing;

		more = low > floor &&
			pnwindow_range_below(window, low - 1, floor, &next_low, &next_high);
		missing = more ? low - 1 - next_high : low - floor;
		if (frame_report_range(w, high - low + 1, missing) < 0) {
			frame_list_end(w);
			return high;
		}
		low = next_low;
		high = next_high;
	}
	frame_list_end(w);
	return UINT64_MAX;
}

static void frame_read(const uint8_t *buf, size_t len, uint64_t first, struct told *t)
{
	struct frame_reader r;
	struct frame f;
	struct frame_report report;
	uint64_t cursor, low, high, before = 0;
	bool any = false;

	frame_reader_init(&r, buf, len);
	assert_int_equal(frame_next(&r, &f), 1);
	assert_int_equal(frame_get_report(&f, &report), 0);
	cursor = report.base;
	while (frame_report_next(&report, &cursor, &low, &high)) {
		assert_true(low <= high && low >= first && high < first + SPAN);
		assert_true(!any || high < before);
		for (uint64_t pn = high + 1; any && pn < before; pn++)
			t->missing[pn - first] = true;
		for (uint64_t pn = low; pn <= high; pn++) {
			assert_false(t->received[pn - first]);
			t->received[pn - first] = true;
		}
		before = low;
		any = true;
	}
	for (uint64_t pn = cursor + 1; pn < before; pn++)
		t->missing[pn - first] = true;
	assert_int_equal(frame_next(&r, &f), 0);
}

static void check_ranges(uint64_t seed)
{
	static bool set[SPAN];
	static struct told told;
	static uint8_t buf[1432];
	struct pnwindow window;
	struct prng rnd;
	double loss, stay;
	uint64_t first, newest = 0, floor, from;
	size_t cap;
	bool lost = false;

	prng_init(&rnd, seed, 1);
	loss = prng_chance(&rnd, 0.1) ? 0.5 : prng_unit(&rnd) * 0.1;
	stay = prng_chance(&rnd, 0.5) ? 0 : prng_unit(&rnd); /* bursts */
	first = 1 + prng_below(&rnd, (UINT64_C(1) << 23) - SPAN - 2);
	cap = 60 + prng_below(&rnd, sizeof(buf) - 60);
	assert_int_equal(pnwindow_init(&window, WINDOW), 0);
	memset(&told, 0, sizeof(told));
	for (uint64_t i = 0; i < SPAN; i++) {
		lost = prng_chance(&rnd, lost && stay > 0 ? stay : loss);
		set[i] = !lost;
		if (set[i]) {
			pnwindow_mark(&window, first + i);
			newest = first + i;
		}
	}
	if (newest == 0)
		goto out;
	floor = first + prng_below(&rnd, SPAN / 2);
	for (from = newest; from != UINT64_MAX;) {
		uint64_t low, high;
		struct frame_writer w;

		frame_writer_init(&w, buf, cap);
		if (!pnwindow_range_below(&window, from, floor, &low, &high))
			break;
		from = frame_write(&window, &w, newest, from, floor);
		frame_read(buf, w.len, first, &told);
	}
	for (uint64_t i = 0; i < SPAN; i++) {
		bool in = first + i >= floor && first + i <= newest;

		assert_true(told.received[i] == (in && set[i]));
		/* What is called missing is; a hole between two frames is called nothing. */
		assert_true(!told.missing[i] || (in && !set[i]));
	}
out:
	pnwindow_fini(&window);
}

static void ranges_say_what_a_plain_set_says(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++)
		check_ranges(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_say_what_a_plain_set_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
