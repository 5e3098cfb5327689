/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wall clock jumps by an hour, back and forth: a run is the same, since nothing of the core
 * asks any clock. NTP steps made others drop packets and blocks.
 */
#include "tests/unit/scenario.h"

#include "dataplane/transport/tx_transfer.h"

#include <sys/time.h>
#include <time.h>

/* In place of the C library's: each call tells another hour. */
static uint64_t asked;

static long told(void)
{
	static const long hours[] = { 0, 1, -1, 2, -2 };

	return 1700000000 + 3600 * hours[asked++ % COUNT(hours)];
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	*t = (struct timespec){ .tv_sec = told() };
	return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	(void)zone;
	*t = (struct timeval){ .tv_sec = told() };
	return 0;
}

time_t time(time_t *t)
{
	time_t now = told();

	if (t != NULL)
		*t = now;
	return now;
}

static void run(uint64_t deadline_ms, uint64_t counters[STRAIT_COUNTER_COUNT], uint64_t *ended_ns)
{
	struct world_config cfg = small_config(7);
	struct world *w;

	cfg.link[WORLD_SOURCE].loss = cfg.link[WORLD_SINK].loss = 0.03;
	cfg.link[WORLD_SOURCE].reorder = 0.1;
	cfg.link[WORLD_SOURCE].reorder_ns = 2 * MS;
	w = world_open(&cfg, NULL);
	asked = 0;
	order(w, 8, 300 * KIB);
	w->transfers[0].tx->deadline_ms = deadline_ms;
	finish_open(w, 10 * S);
	assert_int_equal(asked, 0);
	for (int i = 0; i < STRAIT_COUNTER_COUNT; i++)
		counters[i] = world_counter(w, WORLD_SOURCE, (enum strait_counter)i);
	*ended_ns = w->verified_ns - w->t0_ns;
	world_destroy(w);
}

static void no_clock_of_the_machine_is_asked(void **state)
{
	uint64_t counters[STRAIT_COUNTER_COUNT], ended_ns;

	(void)state;
	run(0, counters, &ended_ns);
}

static void a_deadline_long_past_or_never_to_come_changes_nothing(void **state)
{
	static const uint64_t deadlines[] = { 0, 1, 1700000000000, UINT64_MAX };
	uint64_t counters[COUNT(deadlines)][STRAIT_COUNTER_COUNT], ended_ns[COUNT(deadlines)];

	(void)state;
	for (size_t i = 0; i < COUNT(deadlines); i++) {
		run(deadlines[i], counters[i], &ended_ns[i]);
		assert_int_equal(ended_ns[i], ended_ns[0]);
		assert_memory_equal(counters[i], counters[0], sizeof(counters[0]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_clock_of_the_machine_is_asked),
		cmocka_unit_test(a_deadline_long_past_or_never_to_come_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
