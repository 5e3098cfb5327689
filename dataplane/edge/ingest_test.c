/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/ingest.h"

#include "control/base/log.h"
#include "dataplane/edge/order_fakes.h"
#include "dataplane/transport/transfer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { LEN = 400000, DIGEST = 1000 };
#define S_NS 1000000000ULL

struct world {
	struct fake_worker worker;
	struct fake_pool pool;
	struct control_queue queue;
	struct ingest *ingest;
	struct ingest_session is;
	uint64_t now_ns;
	uint32_t transfers;
	bool gone; /* the session was taken down by the test */
};

static struct pool *find_pool(void *ctx, const uint8_t *tenant, size_t len)
{
	struct world *w = ctx;

	return len == 7 && memcmp(tenant, "default", 7) == 0 ? &w->pool.pool : NULL;
}

static void kick(void *ctx)
{
	(void)ctx;
}

static const struct ingest_ops ops = { .pool = find_pool, .kick = kick };

static int set_up(void **state)
{
	const struct session_credit window[STRAIT_CLASS_COUNT] = { { 4 * LEN, 100 },
		{ 4 * LEN, 100 }, { 4 * LEN, 100 } };
	struct world *w = calloc(1, sizeof(*w));

	log_set_level(LOG_LEVEL_ERROR);
	w->worker.room = UINT32_MAX;
	w->pool.pool.ops = &fake_pool_ops;
	w->now_ns = S_NS;
	control_queue_init(&w->queue, fake_push, &w->worker);
	w->ingest = ingest_create(&ops, w, &w->queue);
	ingest_session_add(w->ingest, &w->is, (struct session *)w, 0, window);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	if (!w->gone)
		ingest_session_del(&w->is);
	ingest_destroy(w->ingest);
	control_queue_fini(&w->queue);
	assert_int_equal(fake_in_state(&w->pool, FAKE_RESERVED), 0);
	for (int i = 0; i < FAKE_OBJECTS; i++)
		fake_clear(&w->pool.objects[i]);
	free(w);
	return 0;
}

static void event(struct world *w, enum session_event_type type, struct rx_transfer *rx,
	uint32_t object, uint8_t status)
{
	struct session_event ev = { .type = type, .rx = rx, .object = object, .status = status };

	ingest_event(&w->is, w->now_ns, &ev);
	while (ingest_run(w->ingest, w->now_ns))
		;
}

/* A transfer of n objects of LEN bytes, its manifest arrived. NULL: refused. */
static struct rx_transfer *open_transfer(struct world *w, uint32_t n, const char *tenant,
	uint64_t skip, uint64_t deadline_ms)
{
	struct session_event ev = { .type = SESSION_EVENT_RX_OPEN };
	struct worker_command c = { 0 };
	uint8_t manifest[8192];
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++) {
		char key[32];
		struct manifest_entry e = { .flags = STRAIT_MANIFEST_DIGEST,
			.tenant = (const uint8_t *)tenant,
			.tenant_len = (uint8_t)strlen(tenant),
			.key = (const uint8_t *)key,
			.length = LEN,
			.digest = DIGEST + i };
		long used;

		if (skip >> i & 1)
			e.flags = STRAIT_MANIFEST_SKIP;
		e.key_len = (uint16_t)snprintf(key, sizeof(key), "k%02u", i);
		used = manifest_entry_encode(&e, manifest + len, sizeof(manifest) - len);
		assert_true(used > 0);
		len += (size_t)used;
	}
	ev.open = (struct session_open){ .transfer = ++w->transfers,
		.order = 1,
		.stream_bytes = (uint64_t)n * LEN,
		.manifest_bytes = (uint32_t)len,
		.objects = n,
		.symbol_bytes = 1432,
		.class_ = STRAIT_CLASS_NORMAL,
		.deadline_ms = deadline_ms };
	ingest_event(&w->is, w->now_ns, &ev);
	if (fake_count(&w->worker, WORKER_RX_ATTACH, &c) == 0)
		return NULL;
	memcpy((void *)(uintptr_t)rx_transfer_manifest(c.rx, &len), manifest, len);
	event(w, SESSION_EVENT_RX_MANIFEST, c.rx, 0, 0);
	return c.rx;
}

static unsigned int placed(struct world *w)
{
	return fake_count(&w->worker, WORKER_RX_PLACE, NULL);
}

static void objects_are_placed_within_the_window_and_published(void **state)
{
	struct world *w = *state;
	struct rx_transfer *rx = open_transfer(w, 10, "", 0, 0);
	struct worker_command c = { 0 };

	assert_int_equal(fake_count(&w->worker, WORKER_RX_BEGIN, NULL), 1);
	assert_int_equal(placed(w), 4);
	for (uint32_t i = 0; i < 10; i++) {
		event(w, SESSION_EVENT_RX_OBJECT, rx, i, STRAIT_STATUS_COMMITTED);
		assert_int_equal(fake_count(&w->worker, WORKER_RX_FINISH, &c), i + 1);
		assert_int_equal(c.status, STRAIT_STATUS_COMMITTED);
		assert_int_equal(fake_in_state(&w->pool, FAKE_VISIBLE), i + 1);
		assert_true(fake_in_state(&w->pool, FAKE_RESERVED) <= 4);
	}
	assert_true(fake_find(&w->pool, "k07", 3)->digest == DIGEST + 7);
	event(w, SESSION_EVENT_RX_CLOSED, rx, 0, STRAIT_STATUS_COMMITTED);
	assert_int_equal(ingest_live(w->ingest), 0);
}

static void what_a_shared_block_needs_is_placed_beyond_the_window(void **state)
{
	struct world *w = *state;

	w->is.window[STRAIT_CLASS_NORMAL] = (struct session_credit){ 1, 1 };
	open_transfer(w, 10, "default", 0, 0);
	/* Object 0, and what lies within two blocks of its end: 366,592 bytes, object 1. */
	assert_int_equal(placed(w), 2);
}

static void every_transfer_moves_whichever_manifest_came_first(void **state)
{
	struct world *w = *state;
	struct rx_transfer *late = open_transfer(w, 10, "", 0, 0);

	assert_int_equal(placed(w), 4);
	/*
	 * The one with a deadline is served first, in a window of its own, though the other's
	 * manifest was here before and filled the window of the class. Keys 1 to 3 are the
	 * other's: busy.
	 */
	fake_clear(&w->pool.objects[0]);
	open_transfer(w, 10, "", 0, 500);
	assert_int_equal(placed(w), 8);
	assert_true(ingest_is_waiting(w->ingest));
	event(w, SESSION_EVENT_RX_CLOSED, late, 0, STRAIT_STATUS_CANCELED);
}

static void a_full_pool_fails_objects_not_the_transfer(void **state)
{
	static const struct {
		int err;
		uint8_t status;
	} cases[] = { { -ENOSPC, STRAIT_STATUS_FULL }, { -EEXIST, STRAIT_STATUS_EXISTS },
		{ -EFBIG, STRAIT_STATUS_TOO_LARGE }, { -EINVAL, STRAIT_STATUS_REFUSED },
		{ -ENXIO, STRAIT_STATUS_REFUSED }, { -ENOTRECOVERABLE, STRAIT_STATUS_INTERNAL } };
	struct world *w = *state;
	struct worker_command c = { 0 };

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		w->pool.reserve_error = cases[i].err;
		open_transfer(w, 3, "", 0, 0);
		assert_int_equal(fake_count(&w->worker, WORKER_RX_FINISH, &c), 3 * (i + 1));
		assert_int_equal(c.status, cases[i].status);
	}
	assert_int_equal(placed(w), 0);
}

static void a_busy_key_is_tried_again_before_it_fails(void **state)
{
	struct world *w = *state;
	struct worker_command c = { 0 };

	w->pool.reserve_error = -EBUSY;
	open_transfer(w, 2, "", 0, 0);
	assert_true(ingest_is_waiting(w->ingest));
	assert_int_equal(fake_count(&w->worker, WORKER_RX_FINISH, NULL), 0);
	w->now_ns += S_NS;
	w->pool.reserve_error = 0;
	ingest_run(w->ingest, w->now_ns);
	assert_int_equal(placed(w), 2);
	assert_false(ingest_is_waiting(w->ingest));

	w->pool.reserve_error = -EBUSY;
	open_transfer(w, 2, "", 0, 0);
	w->now_ns += INGEST_BUSY_NS;
	ingest_run(w->ingest, w->now_ns);
	assert_int_equal(fake_count(&w->worker, WORKER_RX_FINISH, &c), 2);
	assert_int_equal(c.status, STRAIT_STATUS_BUSY);
}

static void a_wrong_digest_frees_the_object(void **state)
{
	struct world *w = *state;
	struct rx_transfer *rx = open_transfer(w, 2, "", 0, 0);
	struct worker_command c = { 0 };

	event(w, SESSION_EVENT_RX_OBJECT, rx, 1, STRAIT_STATUS_DIGEST);
	fake_count(&w->worker, WORKER_RX_FINISH, &c);
	assert_int_equal(c.status, STRAIT_STATUS_DIGEST);
	assert_null(fake_find(&w->pool, "k01", 3));
}

static void a_reset_keeps_partial_objects_for_the_next_session(void **state)
{
	struct world *w = *state;
	struct rx_transfer *rx = open_transfer(w, 3, "", 0, 0);

	event(w, SESSION_EVENT_RX_CLOSED, rx, 0, STRAIT_STATUS_RESET);
	assert_int_equal(fake_in_state(&w->pool, FAKE_PARTIAL), 3);
	rx = open_transfer(w, 3, "", 0, 0);
	assert_int_equal(fake_in_state(&w->pool, FAKE_RESERVED), 3);
	event(w, SESSION_EVENT_RX_CLOSED, rx, 0, STRAIT_STATUS_CANCELED);
	assert_int_equal(fake_in_state(&w->pool, FAKE_FREE), FAKE_OBJECTS);
}

static void a_withdrawn_object_is_freed_and_confirmed(void **state)
{
	struct world *w = *state;
	struct rx_transfer *rx = open_transfer(w, 10, "", 0, 0);
	struct worker_command c = { 0 };

	/* One that is placed, one that is not. */
	event(w, SESSION_EVENT_RX_WITHDRAWN, rx, 0, STRAIT_STATUS_EVICTED);
	event(w, SESSION_EVENT_RX_WITHDRAWN, rx, 9, STRAIT_STATUS_EVICTED);
	assert_int_equal(fake_count(&w->worker, WORKER_RX_FINISH, &c), 2);
	assert_int_equal(c.object, 9);
	assert_int_equal(c.status, STRAIT_STATUS_EVICTED);
	assert_null(fake_find(&w->pool, "k00", 3));
	assert_int_equal(placed(w), 5);
}

static void skipped_objects_are_left_alone(void **state)
{
	struct world *w = *state;

	open_transfer(w, 4, "", 0x5, 0);
	assert_int_equal(placed(w), 2);
	assert_null(fake_find(&w->pool, "k00", 3));
	assert_int_equal(fake_count(&w->worker, WORKER_RX_FINISH, NULL), 0);
}

static void a_tenant_without_a_pool_is_refused(void **state)
{
	struct world *w = *state;
	struct worker_command c = { 0 };

	open_transfer(w, 2, "stranger", 0, 0);
	assert_int_equal(fake_count(&w->worker, WORKER_RX_FINISH, &c), 2);
	assert_int_equal(c.status, STRAIT_STATUS_REFUSED);
}

static void a_manifest_that_lies_refuses_the_transfer(void **state)
{
	struct session_event ev = { .type = SESSION_EVENT_RX_OPEN,
		.open = { .transfer = 9,
			.stream_bytes = 5,
			.manifest_bytes = 50,
			.objects = 1,
			.symbol_bytes = 1432 } };
	struct world *w = *state;
	struct worker_command c = { 0 };

	ingest_event(&w->is, w->now_ns, &ev);
	assert_int_equal(fake_count(&w->worker, WORKER_RX_ATTACH, &c), 1);
	event(w, SESSION_EVENT_RX_MANIFEST, c.rx, 0, 0);
	assert_int_equal(fake_count(&w->worker, WORKER_RX_REFUSE, &c), 1);
	assert_int_equal(c.status, STRAIT_STATUS_MALFORMED);
	assert_int_equal(c.value, 9);
	assert_int_equal(fake_count(&w->worker, WORKER_RX_BEGIN, NULL), 0);
}

static void memory_and_drain_refuse_transfers(void **state)
{
	struct session_event ev = { .type = SESSION_EVENT_RX_OPEN,
		.open = { .transfer = 9,
			.stream_bytes = UINT64_C(1) << 42,
			.manifest_bytes = 50,
			.objects = 65536,
			.symbol_bytes = 512 } };
	struct world *w = *state;
	struct worker_command c = { 0 };

	ingest_event(&w->is, w->now_ns, &ev);
	assert_int_equal(fake_count(&w->worker, WORKER_RX_REFUSE, &c), 1);
	assert_int_equal(c.status, STRAIT_STATUS_REFUSED);
	ingest_drain(w->ingest);
	assert_null(open_transfer(w, 1, "", 0, 0));
	fake_count(&w->worker, WORKER_RX_REFUSE, &c);
	assert_int_equal(c.status, STRAIT_STATUS_RESET);
}

static void a_closing_session_gets_no_more_commands(void **state)
{
	struct world *w = *state;
	struct rx_transfer *rx = open_transfer(w, 3, "", 0, 0);
	unsigned int before = w->worker.count;

	ingest_session_close(&w->is);
	event(w, SESSION_EVENT_RX_OBJECT, rx, 0, STRAIT_STATUS_COMMITTED);
	assert_int_equal(w->worker.count, before);
	assert_int_equal(fake_in_state(&w->pool, FAKE_VISIBLE), 1);
	ingest_session_del(&w->is);
	w->gone = true;
	assert_int_equal(fake_in_state(&w->pool, FAKE_PARTIAL), 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(objects_are_placed_within_the_window_and_published),
		TEST(what_a_shared_block_needs_is_placed_beyond_the_window),
		TEST(every_transfer_moves_whichever_manifest_came_first),
		TEST(a_full_pool_fails_objects_not_the_transfer),
		TEST(a_busy_key_is_tried_again_before_it_fails),
		TEST(a_wrong_digest_frees_the_object),
		TEST(a_reset_keeps_partial_objects_for_the_next_session),
		TEST(a_withdrawn_object_is_freed_and_confirmed),
		TEST(skipped_objects_are_left_alone),
		TEST(a_tenant_without_a_pool_is_refused),
		TEST(a_manifest_that_lies_refuses_the_transfer),
		TEST(memory_and_drain_refuse_transfers),
		TEST(a_closing_session_gets_no_more_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
