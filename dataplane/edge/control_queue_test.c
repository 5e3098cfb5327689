/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/control_queue.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WORKERS = 3, MOST = 2000 };

/* Rings of workers with so much room left, and what went into them. */
struct rings {
	unsigned int room[WORKERS], count[WORKERS];
	uint32_t taken[WORKERS][MOST];
};

static int push(void *ctx, const struct worker_command *c)
{
	struct rings *r = ctx;

	if (r->room[c->worker] == 0)
		return -EAGAIN;
	r->room[c->worker]--;
	r->taken[c->worker][r->count[c->worker]++] = c->object;
	return 0;
}

static void a_full_ring_keeps_nobody_elses_commands_waiting(void **state)
{
	static struct rings r = { .room = { 0, MOST, 1 } };
	struct control_queue q;

	(void)state;
	control_queue_init(&q, push, &r);
	for (uint32_t i = 0; i < 3 * 500; i++) {
		struct worker_command c = { .worker = (uint8_t)(i % WORKERS), .object = i };

		assert_int_equal(control_queue_push(&q, &c), 0);
	}
	assert_int_equal(r.count[0], 0);
	assert_int_equal(r.count[1], 500);
	assert_int_equal(r.count[2], 1);
	r.room[0] = 3;
	r.room[2] = MOST;
	assert_false(control_queue_flush(&q));
	assert_int_equal(r.count[0], 3);
	assert_int_equal(r.count[2], 500);
	r.room[0] = MOST;
	assert_true(control_queue_flush(&q));
	/* And each ring has its own in order. */
	for (uint32_t w = 0; w < WORKERS; w++)
		for (uint32_t i = 0; i < 500; i++)
			assert_int_equal(r.taken[w][i], 3 * i + w);
	control_queue_fini(&q);
}

static void a_closed_transfers_commands_are_forgotten(void **state)
{
	static struct rings r;
	struct control_queue q;
	struct tx_transfer *gone = (struct tx_transfer *)&q, *other = (struct tx_transfer *)&r;

	(void)state;
	control_queue_init(&q, push, &r);
	for (uint32_t i = 0; i < 10; i++) {
		struct worker_command c = { .worker = 1,
			.tx = i % 2 != 0 ? gone : other,
			.object = i };

		assert_int_equal(control_queue_push(&q, &c), 0);
	}
	control_queue_purge(&q, gone, NULL);
	r.room[1] = MOST;
	assert_true(control_queue_flush(&q));
	assert_int_equal(r.count[1], 5);
	assert_int_equal(r.taken[1][4], 8);
	control_queue_fini(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_ring_keeps_nobody_elses_commands_waiting),
		cmocka_unit_test(a_closed_transfers_commands_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
