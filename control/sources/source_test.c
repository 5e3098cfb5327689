/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/source.h"
#include "control/sources/touched.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

static const struct source_config listed = {
	.period_ns = 600 * S,
	.poll_ns = 30 * S,
	.status_ns = 5 * S,
	.least_ns = 2 * S,
	.seed = 1,
};

/* Connected at 1 s, status 10, listed at once: complete with base 10. */
static void bring_up(struct source *s)
{
	source_init(s, &listed);
	source_connected(s, S);
	assert_int_equal(source_tick(s, S), SOURCE_STATUS);
	source_status_begin(s, S);
	source_status(s, true, 10, S);
	assert_int_equal(source_tick(s, S), SOURCE_LIST);
	source_listing_begin(s, S);
	assert_int_equal(source_tick(s, S), SOURCE_NOTHING);
	source_listing_end(s, true, S, S + MS);
	assert_true(source_is_complete(s));
}

static void first_batch_is_held_against_what_the_status_counted(void **state)
{
	struct source s;

	(void)state;
	bring_up(&s);
	source_batch(&s, 11, 2 * S);
	assert_true(source_is_complete(&s));
	bring_up(&s);
	source_batch(&s, 12, 2 * S);
	assert_false(source_is_complete(&s));
	assert_int_equal(s.lost, 1);
	assert_int_equal(s.resyncs[SOURCE_GAP], 1);
}

static void gap_and_restart_need_a_listing_and_keep_events_coming(void **state)
{
	struct source s;

	(void)state;
	bring_up(&s);
	source_batch(&s, 11, 2 * S);
	source_batch(&s, 15, 2 * S);
	assert_false(source_is_complete(&s));
	/* Two listings are at least two seconds apart. */
	assert_int_equal(source_tick(&s, 2 * S), SOURCE_NOTHING);
	assert_int_equal(source_tick(&s, 3 * S), SOURCE_LIST);
	source_listing_begin(&s, 3 * S);
	source_listing_end(&s, true, 3 * S, 4 * S);
	assert_true(source_is_complete(&s));
	source_batch(&s, 1, 5 * S);
	assert_false(source_is_complete(&s));
	assert_int_equal(s.resyncs[SOURCE_RESTART], 1);
}

static void gap_during_a_listing_makes_another_and_ever_less_often(void **state)
{
	struct source s;
	uint64_t now = 2 * S, seq = 11, last = 0, least = 0;

	(void)state;
	bring_up(&s);
	source_batch(&s, seq += 2, now);
	for (int i = 0; i < 6; i++) {
		now = s.next_list_ns;
		source_status_begin(&s, now);
		assert_int_equal(source_tick(&s, now), SOURCE_LIST);
		assert_true(last == 0 || now - last > least);
		least = now - last > least && last > 0 ? now - last : least;
		last = now;
		source_listing_begin(&s, now);
		source_batch(&s, seq += 2, now + 1);
		source_listing_end(&s, true, now, now + 2);
		assert_false(source_is_complete(&s));
	}
	assert_true(least > 30 * S);
}

static void restart_without_a_word_shows_in_the_status(void **state)
{
	struct source s;

	(void)state;
	bring_up(&s);
	source_batch(&s, 11, 2 * S);
	source_status_begin(&s, 6 * S);
	source_status(&s, true, 0, 6 * S);
	assert_false(source_is_complete(&s));
	assert_int_equal(s.resyncs[SOURCE_RESTART], 1);
	source_listing_begin(&s, 6 * S);
	source_listing_end(&s, true, 6 * S, 7 * S);
	source_batch(&s, 1, 8 * S);
	assert_true(source_is_complete(&s));
}

static void answer_older_than_the_last_batches_is_no_restart(void **state)
{
	struct source s;

	(void)state;
	bring_up(&s);
	source_batch(&s, 11, 2 * S);
	source_status_begin(&s, 6 * S);
	source_batch(&s, 12, 6 * S);
	source_status(&s, true, 11, 6 * S);
	assert_true(source_is_complete(&s));
}

static void answer_from_before_a_restart_does_not_confuse(void **state)
{
	struct source s;

	(void)state;
	bring_up(&s);
	for (uint64_t n = 11; n < 500; n++)
		source_batch(&s, n, 2 * S);
	source_status_begin(&s, 3 * S);
	source_batch(&s, 1, 3 * S);
	source_status(&s, true, 1, 3 * S);
	source_listing_begin(&s, 4 * S);
	source_listing_end(&s, true, 4 * S, 5 * S);
	for (uint64_t n = 0; n < 10; n++) {
		source_status_begin(&s, (6 + n) * S);
		source_status(&s, true, 1, (6 + n) * S);
	}
	assert_true(source_is_complete(&s));
	assert_int_equal(s.resyncs[SOURCE_MISSED], 0);
}

static void publisher_that_numbers_more_than_it_counts_is_listed_once(void **state)
{
	struct source s;
	uint64_t now = 10 * S;

	(void)state;
	bring_up(&s);
	source_batch(&s, 15, 2 * S); /* four were dropped unseen */
	source_listing_begin(&s, 4 * S);
	source_listing_end(&s, true, 4 * S, 5 * S);
	for (uint64_t n = 0; n < 20; n++, now += S) {
		source_status_begin(&s, now);
		source_status(&s, true, 11 + n, now);
		source_batch(&s, 16 + n, now);
	}
	assert_true(source_is_complete(&s));
	assert_int_equal(s.resyncs[SOURCE_RESTART] + s.resyncs[SOURCE_MISSED], 0);
	assert_int_equal(s.listings, 2);
	/* And its last one lost shows all the same. */
	source_status_begin(&s, now);
	source_status(&s, true, 32, now);
	source_status(&s, true, 32, now + 3 * S);
	assert_int_equal(s.resyncs[SOURCE_MISSED], 1);
}

static void lost_last_batch_shows_in_the_status_after_a_while(void **state)
{
	struct source s;

	(void)state;
	bring_up(&s);
	source_status_begin(&s, 6 * S);
	source_status(&s, true, 12, 6 * S);
	assert_true(source_is_complete(&s));
	source_status(&s, true, 12, 9 * S);
	assert_false(source_is_complete(&s));
	assert_int_equal(s.resyncs[SOURCE_MISSED], 1);
}

static void publisher_that_is_off_is_polled(void **state)
{
	struct source s;

	(void)state;
	source_init(&s, &listed);
	source_connected(&s, S);
	source_status_begin(&s, S);
	source_status(&s, false, 0, S);
	source_listing_begin(&s, S);
	source_listing_end(&s, true, S, 2 * S);
	assert_int_equal(s.state, SOURCE_POLLED);
	assert_int_equal(s.complete_ns, S);
	source_status_begin(&s, 50 * S);
	assert_int_equal(source_tick(&s, 50 * S), SOURCE_LIST);
	source_status(&s, true, 4, 50 * S);
	assert_false(source_is_complete(&s));
}

/* As released masters are: no publisher, so nothing to connect to. */
static void master_without_publisher_is_polled_while_it_answers(void **state)
{
	struct source s;

	(void)state;
	source_init(&s, &listed);
	source_status_begin(&s, S);
	assert_int_equal(source_tick(&s, S), SOURCE_NOTHING);
	source_status(&s, false, 0, S);
	assert_int_equal(source_tick(&s, S), SOURCE_LIST);
	source_listing_begin(&s, S);
	source_listing_end(&s, true, S, S + S / 100);
	assert_int_equal(s.state, SOURCE_POLLED);
	source_status_begin(&s, 4 * S);
	assert_int_equal(source_tick(&s, 4 * S), SOURCE_LIST); /* it was cheap */
	source_unanswered(&s, 5 * S);
	assert_false(source_is_complete(&s));
	assert_int_equal(source_tick(&s, 5 * S - 1), SOURCE_NOTHING);
	source_status(&s, false, 0, 6 * S);
	assert_int_equal(source_tick(&s, 6 * S), SOURCE_LIST);
	source_listing_begin(&s, 6 * S);
	source_listing_end(&s, true, 6 * S, 7 * S);
	assert_int_equal(s.state, SOURCE_POLLED);
	assert_int_equal(s.resyncs[SOURCE_RECONNECT], 1);
}

static void vanished_segment_and_reconnect_need_a_listing(void **state)
{
	struct source s;

	(void)state;
	bring_up(&s);
	source_segments(&s, 5, 2 * S);
	source_segments(&s, 5, 3 * S);
	assert_true(source_is_complete(&s));
	source_segments(&s, 6, 4 * S);
	assert_false(source_is_complete(&s));
	bring_up(&s);
	source_disconnected(&s, 2 * S);
	assert_false(source_is_complete(&s));
	source_connected(&s, 3 * S);
	assert_int_equal(s.resyncs[SOURCE_RECONNECT], 1);
	assert_false(source_is_complete(&s));
}

/* ---- a master that loses, forgets and restarts, by seed ---- */

enum { KEYS = 400 };

struct master {
	uint64_t seed, now;
	bool truth[KEYS], view[KEYS];
	uint64_t seq, segments;
	bool on;
	struct source s;
	struct touched touched;
	bool listing, listed[KEYS];
	uint64_t listed_at, began;
};

static uint64_t draw(struct master *m, uint64_t n)
{
	uint64_t x = m->seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % n;
}

static struct digest128 name(uint32_t k)
{
	return (struct digest128){ k, k };
}

static void change(struct master *m, uint32_t k, bool lost)
{
	m->truth[k] = !m->truth[k];
	if (!m->on)
		return;
	m->seq++;
	if (lost || !m->s.connected)
		return;
	source_batch(&m->s, m->seq, m->now);
	m->view[k] = m->truth[k];
	if (m->listing)
		assert_int_equal(touched_add(&m->touched, name(k)), 0);
}

static void act(struct master *m)
{
	enum source_action a = source_tick(&m->s, m->now);

	if (a == SOURCE_STATUS) {
		source_status_begin(&m->s, m->now);
		if (m->s.connected) {
			source_status(&m->s, m->on, m->seq, m->now);
			source_segments(&m->s, m->segments, m->now);
		}
	} else if (a == SOURCE_LIST) {
		source_listing_begin(&m->s, m->now);
		m->listing = true;
		m->began = m->now;
		m->listed_at = m->now + draw(m, 500) * MS;
		touched_clear(&m->touched);
	}
	if (m->listing && m->now >= m->listed_at) {
		memcpy(m->listed, m->truth, sizeof(m->listed));
		m->listed_at = UINT64_MAX;
	} else if (m->listing && m->listed_at == UINT64_MAX && draw(m, 3) == 0) {
		bool ok = m->s.connected && draw(m, 10) > 0;

		for (uint32_t k = 0; ok && k < KEYS; k++)
			if (!touched_has(&m->touched, name(k)))
				m->view[k] = m->listed[k];
		m->listing = false;
		touched_clear(&m->touched);
		source_listing_end(&m->s, ok, m->began, m->now);
	}
}

static void disturb(struct master *m)
{
	switch (draw(m, 400)) {
	case 0: /* restart, empty */
		memset(m->truth, 0, sizeof(m->truth));
		m->seq = 0;
		break;
	case 1: /* a client dies with its memory */
		for (int i = 0; i < 50; i++)
			m->truth[draw(m, KEYS)] = false;
		m->segments++;
		break;
	case 2:
		m->truth[draw(m, KEYS)] = false; /* removed without an event */
		break;
	case 3:
		source_disconnected(&m->s, m->now);
		break;
	case 4:
		m->on = !m->on;
		m->seq = 0;
		break;
	case 5:
		source_overflow(&m->s, m->now);
		break;
	default:
		break;
	}
	if (!m->s.connected && draw(m, 20) == 0)
		source_connected(&m->s, m->now);
}

static void view_comes_to_be_the_masters_after_any_disturbance(void **state)
{
	static struct master m;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		memset(&m, 0, sizeof(m));
		m.seed = seed;
		m.on = true;
		m.now = S;
		source_init(&m.s, &listed);
		touched_init(&m.touched, 10000);
		source_connected(&m.s, m.now);
		for (int i = 0; i < 5000; i++) {
			m.now += 100 * MS;
			for (uint64_t n = draw(&m, 4); n > 0; n--)
				change(&m, (uint32_t)draw(&m, KEYS), draw(&m, 200) == 0);
			disturb(&m);
			act(&m);
		}
		source_connected(&m.s, m.now);
		for (int i = 0; i < 20000; i++) { /* more than a period, and nothing more happens */
			m.now += 100 * MS;
			act(&m);
		}
		assert_true(source_is_complete(&m.s));
		assert_memory_equal(m.view, m.truth, sizeof(m.view));
		assert_true(m.s.listings < 500);
		touched_fini(&m.touched);
	}
}

static void touched_set_is_bounded(void **state)
{
	struct touched t;

	(void)state;
	touched_init(&t, 5000);
	for (uint32_t i = 0; i < 5000; i++)
		assert_int_equal(touched_add(&t, (struct digest128){ i * 3, i + 1 }), 0);
	assert_int_equal(touched_add(&t, (struct digest128){ 3, 2 }), 0);
	assert_int_equal(touched_add(&t, (struct digest128){ 1, 1 }), -ENOSPC);
	for (uint32_t i = 0; i < 5000; i++)
		assert_true(touched_has(&t, (struct digest128){ i * 3, i + 1 }));
	assert_false(touched_has(&t, (struct digest128){ 1, 1 }));
	assert_false(touched_has(&t, (struct digest128){ 0, 0 }));
	assert_int_equal(touched_add(&t, (struct digest128){ 0, 0 }), 0);
	assert_true(touched_has(&t, (struct digest128){ 0, 0 }));
	touched_clear(&t);
	assert_false(touched_has(&t, (struct digest128){ 3, 2 }));
	touched_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_batch_is_held_against_what_the_status_counted),
		cmocka_unit_test(gap_and_restart_need_a_listing_and_keep_events_coming),
		cmocka_unit_test(gap_during_a_listing_makes_another_and_ever_less_often),
		cmocka_unit_test(restart_without_a_word_shows_in_the_status),
		cmocka_unit_test(answer_older_than_the_last_batches_is_no_restart),
		cmocka_unit_test(answer_from_before_a_restart_does_not_confuse),
		cmocka_unit_test(publisher_that_numbers_more_than_it_counts_is_listed_once),
		cmocka_unit_test(lost_last_batch_shows_in_the_status_after_a_while),
		cmocka_unit_test(publisher_that_is_off_is_polled),
		cmocka_unit_test(master_without_publisher_is_polled_while_it_answers),
		cmocka_unit_test(vanished_segment_and_reconnect_need_a_listing),
		cmocka_unit_test(view_comes_to_be_the_masters_after_any_disturbance),
		cmocka_unit_test(touched_set_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
