/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/wanted.h"

#include "control/index/index.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct log_record record(uint64_t n, uint64_t set, uint16_t member, uint16_t members)
{
	return (struct log_record){ .digest = { n << 40, n },
		.set = set,
		.size = 100,
		.position = (uint32_t)(1000 - set),
		.member = member,
		.members = members,
		.op = LOG_STORED };
}

static int add(struct wanted *w, uint64_t n, uint64_t set, uint16_t members)
{
	struct log_record r = record(n, set, 0, members);

	return wanted_add(w, &r, 0, WANTED_NORMAL, false, n);
}

static void many_are_found_as_few_are(void **state)
{
	enum { N = 50000 };
	struct wanted *w = wanted_create(2 * N);
	struct wanted_object out[64];
	struct wanted_stats st;
	uint64_t next = 1;
	size_t n;

	(void)state;
	/* every other one in a set of two, whose other member comes last */
	for (uint64_t i = 1; i <= N; i++)
		assert_int_equal(add(w, i, i % 2 == 0 ? i : 0, i % 2 == 0 ? 2 : 0), 0);
	for (uint64_t i = 1; i <= N; i++)
		assert_true(wanted_has(w, record(i, 0, 0, 0).digest));
	assert_false(wanted_has(w, record(N + 1, 0, 0, 0).digest));
	for (uint64_t i = 2; i <= N; i += 4)
		wanted_del(w, record(i, 0, 0, 0).digest, false);
	wanted_stats_get(w, &st);
	assert_int_equal(st.objects, N / 2);
	assert_int_equal(st.waiting, N / 4);
	while ((n = wanted_take(w, out, 1)) > 0) {
		assert_int_equal(out[0].digest.lo, next);
		next += 2;
	}
	assert_int_equal(next, N + 1);
	/* a set is found, too: it is whole when its other member is here */
	for (uint64_t i = 4; i <= N; i += 4) {
		struct log_record r = record(N + i, i, 1, 2);

		assert_int_equal(wanted_have(w, &r, 1), 0);
	}
	wanted_stats_get(w, &st);
	assert_int_equal(st.objects, N / 4);
	assert_int_equal(st.waiting, 0);
	wanted_destroy(w);
}

static void classes_then_age_decide_the_order(void **state)
{
	struct wanted *w = wanted_create(100);
	struct wanted_object out[10];
	struct wanted_stats st;
	struct log_record r;

	(void)state;
	for (uint64_t n = 1; n <= 4; n++) {
		r = record(n, 0, 0, 0);
		r.position = 0;
		assert_int_equal(wanted_add(w, &r, 0, n == 3 ? WANTED_URGENT : WANTED_BULK, false,
					 n),
			0);
	}
	r = record(4, 0, 0, 0); /* somebody needs it now */
	assert_int_equal(wanted_add(w, &r, 0, WANTED_NORMAL, false, 9), 0);
	wanted_stats_get(w, &st);
	assert_int_equal(st.objects, 4);
	assert_int_equal(st.bytes, 400);
	assert_int_equal(st.oldest_ns, 1);
	assert_int_equal(wanted_take(w, out, 1), 1);
	assert_int_equal(out[0].digest.lo, 3);
	assert_int_equal(wanted_take(w, out, 1), 1);
	assert_int_equal(out[0].digest.lo, 4);
	assert_int_equal(wanted_take(w, out, 1), 1);
	assert_int_equal(out[0].digest.lo, 1);
	wanted_del(w, record(2, 0, 0, 0).digest, true);
	assert_int_equal(wanted_take(w, out, 1), 0);
	wanted_stats_get(w, &st);
	assert_int_equal(st.objects + st.waiting + st.bytes, 0);
	wanted_destroy(w);
}

static void set_waits_until_it_is_whole_and_comes_in_one_piece(void **state)
{
	struct wanted *w = wanted_create(100);
	struct wanted_object out[10];
	struct wanted_stats st;
	struct log_record here = record(13, 7, 3, 4);

	(void)state;
	assert_int_equal(add(w, 10, 7, 4), 0);
	assert_int_equal(add(w, 11, 7, 4), 0);
	assert_int_equal(wanted_have(w, &here, 0), 0);
	assert_int_equal(add(w, 1, 0, 0), 0);
	wanted_stats_get(w, &st);
	assert_int_equal(st.objects, 1);
	assert_int_equal(st.waiting, 2);
	assert_int_equal(add(w, 12, 7, 4), 0);
	wanted_stats_get(w, &st);
	assert_int_equal(st.objects, 4);
	/* Does not fit in what is left, and is not torn. */
	assert_int_equal(wanted_take(w, out, 3), 1);
	assert_int_equal(out[0].digest.lo, 1);
	assert_int_equal(wanted_take(w, out, 10), 3);
	wanted_stats_get(w, &st);
	assert_int_equal(st.objects + st.waiting, 0);
	wanted_destroy(w);
}

static void set_that_loses_a_member_waits_again(void **state)
{
	struct wanted *w = wanted_create(100);
	struct wanted_object out[10];

	(void)state;
	assert_int_equal(add(w, 10, 7, 2), 0);
	assert_int_equal(add(w, 11, 7, 2), 0);
	wanted_del(w, record(10, 7, 0, 2).digest, false);
	assert_int_equal(wanted_take(w, out, 10), 0);
	assert_int_equal(add(w, 10, 7, 2), 0);
	wanted_del(w, record(11, 7, 0, 2).digest, true); /* came another way */
	assert_int_equal(wanted_take(w, out, 10), 1);
	assert_int_equal(out[0].digest.lo, 10);
	wanted_destroy(w);
}

static void one_that_is_asked_for_does_not_wait_for_its_set(void **state)
{
	struct wanted *w = wanted_create(100);
	struct wanted_object out[10];
	struct log_record r = record(10, 7, 0, 3);

	(void)state;
	assert_int_equal(add(w, 10, 7, 3), 0);
	assert_int_equal(add(w, 11, 7, 3), 0);
	assert_int_equal(wanted_add(w, &r, 0, WANTED_URGENT, true, 5), 0);
	assert_int_equal(wanted_take(w, out, 10), 1);
	assert_int_equal(out[0].digest.lo, 10);
	assert_int_equal(out[0].class, WANTED_URGENT);
	wanted_destroy(w);
}

static void early_parts_of_a_chain_come_first(void **state)
{
	struct wanted *w = wanted_create(100);
	struct wanted_object out[10];

	(void)state;
	for (uint64_t set = 1; set <= 3; set++) /* set 3 has the lowest position */
		for (uint64_t i = 0; i < 2; i++)
			assert_int_equal(add(w, set * 10 + i, set, 2), 0);
	assert_int_equal(wanted_take(w, out, 10), 6);
	assert_int_equal(out[0].set, 3);
	assert_int_equal(out[5].set, 1);
	wanted_destroy(w);
}

static void full_queue_refuses_and_old_halves_of_sets_make_room(void **state)
{
	struct wanted *w = wanted_create(10);
	struct wanted_stats st;

	(void)state;
	for (uint64_t n = 1; n <= 5; n++)
		assert_int_equal(add(w, n, n, 2), 0);
	assert_int_equal(add(w, 6, 0, 0), -ENOSPC);
	assert_int_equal(wanted_expire(w, 3), 2);
	assert_int_equal(add(w, 6, 0, 0), 0);
	wanted_stats_get(w, &st);
	assert_int_equal(st.refused, 1);
	assert_int_equal(st.waiting, 3);
	assert_int_equal(st.objects, 1);
	wanted_destroy(w);
}

/* ---- any sequence of calls, against a list ---- */

enum { KEYS = 240, MEMBERS = 4, SETS = KEYS / MEMBERS };

struct model {
	bool in[KEYS], alone[KEYS];
	uint8_t class[KEYS];
	int here[SETS + 1];
	uint64_t seed;
};

static uint64_t draw(struct model *m, uint64_t n)
{
	uint64_t x = m->seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % n;
}

/* The first third stand alone, the others are members of sets of four. */
static struct log_record member(uint32_t k)
{
	if (k < KEYS / 3)
		return record(k + 1, 0, 0, 0);
	return record(k + 1, k / MEMBERS, (uint16_t)(k % MEMBERS), MEMBERS);
}

static int wanted_of(const struct model *m, uint32_t set)
{
	int n = 0;

	for (uint32_t k = set * MEMBERS; k < (set + 1) * MEMBERS; k++)
		n += m->in[k] && !m->alone[k];
	return n;
}

static bool is_ready(const struct model *m, uint32_t k)
{
	uint32_t set = (uint32_t)member(k).set;

	if (!m->in[k])
		return false;
	return set == 0 || m->alone[k] || wanted_of(m, set) + m->here[set] >= MEMBERS;
}

/* A set is forgotten when nothing of it is left to wait for. */
static void settle(struct model *m, uint32_t set)
{
	if (set != 0 && wanted_of(m, set) == 0 && m->here[set] >= MEMBERS)
		m->here[set] = 0;
}

static void check(const struct model *m, struct wanted *w)
{
	uint64_t ready = 0, waiting = 0;
	struct wanted_stats st;

	for (uint32_t k = 0; k < KEYS; k++) {
		assert_int_equal(wanted_has(w, member(k).digest), m->in[k]);
		ready += is_ready(m, k);
		waiting += m->in[k] && !is_ready(m, k);
	}
	wanted_stats_get(w, &st);
	assert_int_equal(st.objects, ready);
	assert_int_equal(st.waiting, waiting);
	assert_int_equal(st.bytes, ready * 100);
}

static void take(struct model *m, struct wanted *w)
{
	struct wanted_object out[KEYS];
	uint64_t max = draw(m, 12) + MEMBERS;
	size_t n = wanted_take(w, out, max);

	assert_true(n <= max);
	for (size_t i = 0; i < n; i++) {
		uint32_t k = (uint32_t)out[i].digest.lo - 1;

		assert_true(is_ready(m, k));
		assert_int_equal(out[i].class, m->class[k]);
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t k = (uint32_t)out[i].digest.lo - 1;

		m->in[k] = false;
		/* Its set goes with it and is forgotten. */
		if (out[i].set != 0 && !m->alone[k])
			m->here[out[i].set] = 0;
		m->alone[k] = false;
	}
	for (size_t i = 0; i < n; i++)
		if (out[i].set != 0)
			assert_true(wanted_of(m, (uint32_t)out[i].set) == 0 ||
				!is_ready(m, (uint32_t)out[i].digest.lo - 1));
}

static void any_sequence_of_calls_agrees_with_a_list(void **state)
{
	struct model m = { .seed = 5 };
	struct wanted *w = wanted_create(1000);

	(void)state;
	for (int i = 0; i < 40000; i++) {
		uint32_t k = (uint32_t)draw(&m, KEYS), set = (uint32_t)member(k).set;
		struct log_record r = member(k);
		uint64_t what = draw(&m, 10);

		if (what < 5) {
			uint8_t class = (uint8_t)draw(&m, WANTED_CLASSES);
			bool alone = draw(&m, 8) == 0;

			assert_int_equal(wanted_add(w, &r, 0, class, alone, (uint64_t)i), 0);
			m.class[k] = m.in[k] && m.class[k] < class ? m.class[k] : class;
			m.alone[k] = (m.in[k] && m.alone[k]) || alone;
			m.in[k] = true;
			settle(&m, set);
		} else if (what < 8) {
			bool here = draw(&m, 2);

			wanted_del(w, r.digest, here);
			if (m.in[k] && here && !m.alone[k] && set != 0)
				m.here[set]++;
			m.in[k] = m.alone[k] = false;
			settle(&m, set);
		} else if (what < 9) {
			take(&m, w);
		} else if (set != 0 && !m.in[k] && wanted_of(&m, set) + m.here[set] < MEMBERS) {
			assert_int_equal(wanted_have(w, &r, (uint64_t)i), 0);
			m.here[set]++;
			settle(&m, set);
		}
		if (i % 50 == 0)
			check(&m, w);
	}
	wanted_destroy(w);
}

static void take_one(struct wanted *w, uint64_t n)
{
	struct wanted_object out;

	assert_int_equal(wanted_take(w, &out, 1), n != 0);
	if (n != 0)
		assert_int_equal(out.digest.lo, n);
}

static void sources_take_turns_by_age_and_held_ones_wait(void **state)
{
	struct wanted *w = wanted_create(100);
	struct wanted_stats st;

	(void)state;
	for (uint64_t n = 1; n <= 9; n++) {
		struct log_record r = record(n, 0, 0, 0);

		r.position = 0;
		assert_int_equal(wanted_add(w, &r, n % 3, WANTED_NORMAL, false, n), 0);
		assert_int_equal(wanted_add(w, &r, INDEX_SITES, WANTED_NORMAL, false, n), -EINVAL);
	}
	take_one(w, 1);
	wanted_hold_from(w, 1 << 1 | 1 << 2);
	take_one(w, 3);
	wanted_from(w, record(4, 0, 0, 0).digest, 0); /* somebody else has it: now the last */
	take_one(w, 6);
	assert_int_equal(wanted_drop(w, 2, 5), 2);
	take_one(w, 9);
	take_one(w, 4);
	take_one(w, 0);
	wanted_stats_get(w, &st);
	assert_int_equal(st.objects, 2);
	assert_int_equal(st.oldest_ns, 7);
	wanted_hold_from(w, 0);
	take_one(w, 7);
	take_one(w, 8);
	take_one(w, 0);
	wanted_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_are_found_as_few_are),
		cmocka_unit_test(classes_then_age_decide_the_order),
		cmocka_unit_test(set_waits_until_it_is_whole_and_comes_in_one_piece),
		cmocka_unit_test(set_that_loses_a_member_waits_again),
		cmocka_unit_test(one_that_is_asked_for_does_not_wait_for_its_set),
		cmocka_unit_test(early_parts_of_a_chain_come_first),
		cmocka_unit_test(full_queue_refuses_and_old_halves_of_sets_make_room),
		cmocka_unit_test(sources_take_turns_by_age_and_held_ones_wait),
		cmocka_unit_test(any_sequence_of_calls_agrees_with_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
