/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct digest128 key(uint64_t n)
{
	n *= UINT64_C(0x9e3779b97f4a7c15);
	return (struct digest128){ n ^ n >> 31, n * 3 };
}

static void order_of_events_does_not_matter_and_removal_undoes(void **state)
{
	struct sums *a = sums_create(), *b = sums_create();

	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		sums_add(a, key(i));
	for (uint64_t i = 5000; i-- > 0;)
		sums_add(b, key(i));
	assert_memory_equal(a, b, sizeof(*a));
	for (uint64_t i = 0; i < 5000; i++)
		sums_del(a, key(i));
	memset(b, 0, sizeof(*b));
	assert_memory_equal(a, b, sizeof(*a));
	sums_destroy(a);
	sums_destroy(b);
}

static void a_key_counted_twice_does_not_cancel(void **state)
{
	struct sum s = { 0 }, zero = { 0 };

	(void)state;
	sum_add(&s, key(1));
	sum_add(&s, key(1));
	s.count = 0;
	assert_false(sum_equal(&s, &zero));
}

static void only_buckets_that_differ_are_named(void **state)
{
	struct sums *a = sums_create(), *b = sums_create();
	struct digest128 d = { (UINT64_C(77) << 48) | 5, 1 }, e = { (UINT64_C(900) << 48) | 5, 1 };
	uint32_t differ[DIGEST_BUCKETS];

	(void)state;
	for (uint64_t i = 0; i < 5000; i++) {
		sums_add(a, key(i));
		sums_add(b, key(i));
	}
	sums_add(a, d);
	sums_add(b, e);
	assert_int_equal(sums_differ(a, b->bucket, 0, DIGEST_BUCKETS, differ), 2);
	assert_int_equal(differ[0], 77);
	assert_int_equal(differ[1], 900);
	assert_int_equal(sums_differ(a, b->bucket + 900, 900, 1, differ), 1);
	sums_set(a, 77, &b->bucket[77]);
	sums_set(a, 900, &b->bucket[900]);
	assert_true(sum_equal(&a->total, &b->total));
	assert_int_equal(sums_differ(a, b->bucket, 0, DIGEST_BUCKETS, differ), 0);
	sums_destroy(a);
	sums_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_of_events_does_not_matter_and_removal_undoes),
		cmocka_unit_test(a_key_counted_twice_does_not_cancel),
		cmocka_unit_test(only_buckets_that_differ_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
