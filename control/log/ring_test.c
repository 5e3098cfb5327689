/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/ring.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

static struct log_record record(uint64_t n)
{
	return (struct log_record){ .digest = { n, ~n }, .op = LOG_STORED, .size = (uint32_t)n };
}

static struct log *filled(uint64_t n, size_t max_bytes, uint64_t keep_ns, uint64_t step_ns)
{
	struct log *l = log_create(
		&(struct log_config){ .epoch = 7, .keep_ns = keep_ns, .max_bytes = max_bytes });

	assert_non_null(l);
	for (uint64_t i = 1; i <= n; i++) {
		struct log_record r = record(i);

		assert_int_equal(log_append(l, &r, i * step_ns), i);
	}
	return l;
}

static void every_kept_event_is_read_back_by_its_seq(void **state)
{
	struct log *l = filled(5000, 1 << 20, 60 * SECOND, 1000);
	struct log_record out[700];

	(void)state;
	assert_int_equal(log_first(l), 1);
	for (uint64_t seq = 1; seq < 5001;) {
		size_t n = log_read(l, seq, out, 700);

		assert_true(n > 0);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(out[i].digest.hi, seq + i);
		seq += n;
	}
	assert_int_equal(log_read(l, 5001, out, 700), 0);
	assert_int_equal(log_read(l, 0, out, 700), 0);
	log_destroy(l);
}

static void old_events_leave_by_time_and_the_last_chunk_stays(void **state)
{
	struct log *l = filled(5000, 1 << 20, SECOND, SECOND / 1000);

	(void)state;
	/* 5,000 events in 5 s, one second kept: the chunk that has the event of 4 s stays. */
	assert_true(log_first(l) > 2048 && log_first(l) <= 4000);
	log_trim(l, 1000 * SECOND);
	assert_int_equal(log_first(l), 4097);
	assert_int_equal(log_resume(l, 7, 4097), LOG_RESUME_EVENTS);
	log_destroy(l);
}

static void memory_bounds_the_ring_whatever_the_time(void **state)
{
	enum { BYTES = 200 * 1024 };
	struct log *l = filled(100000, BYTES, 3600 * SECOND, 1);

	(void)state;
	assert_true(log_bytes(l) <= BYTES + LOG_CHUNK_RECORDS * sizeof(struct log_record) + 64);
	assert_int_equal(log_next(l), 100001);
	assert_true(log_first(l) > 90000);
	log_destroy(l);
}

static void resume_tells_events_snapshot_and_epoch_apart(void **state)
{
	struct log *l = filled(100000, 200 * 1024, 3600 * SECOND, 1);

	(void)state;
	assert_int_equal(log_resume(l, 7, 100001), LOG_RESUME_EVENTS);
	assert_int_equal(log_resume(l, 7, log_first(l)), LOG_RESUME_EVENTS);
	assert_int_equal(log_resume(l, 7, log_first(l) - 1), LOG_RESUME_SNAPSHOT);
	assert_int_equal(log_resume(l, 7, 100002), LOG_RESUME_SNAPSHOT);
	assert_int_equal(log_resume(l, 8, 100001), LOG_RESUME_EPOCH);
	assert_int_equal(log_resume(l, 0, 0), LOG_RESUME_EPOCH);
	log_destroy(l);
}

static void record_comes_back_as_it_was_and_bad_ones_are_refused(void **state)
{
	struct log_record r = { { 1, 2 }, 3, 4, 5, 6, 7, 8, LOG_REMOVED, LOG_FLAG_OURS }, got;
	uint8_t buf[LOG_RECORD_BYTES];

	(void)state;
	log_record_encode(buf, &r);
	assert_int_equal(log_record_decode(buf, &got), 0);
	assert_memory_equal(&r, &got, sizeof(r));
	assert_int_equal(buf[0], 2);
	buf[38] = 3;
	assert_int_equal(log_record_decode(buf, &got), -EPROTO);
	log_record_encode(buf, &r);
	buf[39] = LOG_FLAGS + 1;
	assert_int_equal(log_record_decode(buf, &got), -EPROTO);
	r.member = 8;
	log_record_encode(buf, &r);
	assert_int_equal(log_record_decode(buf, &got), -EPROTO);
	r.member = 0;
	r.size = LOG_SIZE_MAX + 1;
	log_record_encode(buf, &r);
	assert_int_equal(log_record_decode(buf, &got), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kept_event_is_read_back_by_its_seq),
		cmocka_unit_test(old_events_leave_by_time_and_the_last_chunk_stays),
		cmocka_unit_test(memory_bounds_the_ring_whatever_the_time),
		cmocka_unit_test(resume_tells_events_snapshot_and_epoch_apart),
		cmocka_unit_test(record_comes_back_as_it_was_and_bad_ones_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
