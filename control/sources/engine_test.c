/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define S UINT64_C(1000000000)

static const struct engine_config replayed = { true, 5 * S, S };
static const struct engine_config bare = { false, 5 * S, S };

/* ---- by hand ---- */

static void bring_up(struct engine *e, uint64_t batches)
{
	engine_init(e, &replayed);
	assert_int_equal(engine_connected(e, S), 0);
	assert_true(engine_is_waiting(e) && engine_replay_is_due(e, S));
	assert_int_equal(engine_replay_from(e), 0);
	assert_int_equal(engine_replay_begin(e, S), 0);
	for (uint64_t i = 0; i < batches; i++)
		assert_int_equal(engine_replay_batch(e, i, 100 + i, S), ENGINE_APPLY);
	assert_int_equal(engine_replay_end(e, S), 0);
	assert_int_equal(e->state, ENGINE_LIVE);
}

static void first_replay_from_0_makes_a_whole_view(void **state)
{
	struct engine e;

	(void)state;
	bring_up(&e, 0);
	assert_int_equal(engine_batch(&e, 0, 7, 2 * S), ENGINE_APPLY);
	bring_up(&e, 3);
	assert_int_equal(engine_batch(&e, 2, 102, 2 * S), 0); /* was in the replay, too */
	assert_int_equal(engine_batch(&e, 3, 7, 2 * S), ENGINE_APPLY);
	assert_int_equal(e.gaps + e.restarts, 0);
}

static void history_that_is_gone_makes_it_partial_until_all_is_cleared(void **state)
{
	struct engine e;

	(void)state;
	engine_init(&e, &replayed);
	engine_connected(&e, S);
	engine_replay_begin(&e, S);
	assert_int_equal(engine_replay_batch(&e, 40, 1, S), ENGINE_APPLY);
	assert_int_equal(engine_replay_end(&e, S), 0);
	assert_int_equal(e.state, ENGINE_PARTIAL);
	assert_true(engine_is_known(&e) && !engine_is_complete(&e));
	assert_int_equal(engine_batch(&e, 41, 1, S), ENGINE_APPLY);
	assert_int_equal(e.state, ENGINE_PARTIAL);
	engine_cleared(&e);
	assert_int_equal(e.state, ENGINE_LIVE);
}

static void gap_is_replayed_from_the_last_one_taken(void **state)
{
	struct engine e;

	(void)state;
	bring_up(&e, 3);
	assert_int_equal(engine_batch(&e, 5, 105, 2 * S), 0);
	assert_true(engine_is_waiting(&e) && engine_replay_is_due(&e, 2 * S));
	assert_int_equal(engine_replay_from(&e), 2);
	engine_replay_begin(&e, 2 * S);
	assert_int_equal(engine_replay_batch(&e, 2, 102, S), 0);
	for (uint64_t i = 3; i < 8; i++)
		assert_int_equal(engine_replay_batch(&e, i, 100 + i, 2 * S), ENGINE_APPLY);
	assert_int_equal(engine_replay_end(&e, 2 * S), 0);
	assert_int_equal(e.state, ENGINE_LIVE);
	assert_int_equal(engine_batch(&e, 6, 106, 2 * S), 0);
	assert_int_equal(engine_batch(&e, 7, 107, 2 * S), 0);
	assert_int_equal(engine_batch(&e, 8, 108, 2 * S), ENGINE_APPLY);
	/* what fell out of the engine's memory is lost */
	assert_int_equal(engine_batch(&e, 20, 1, 3 * S), 0);
	engine_replay_begin(&e, 3 * S);
	assert_int_equal(engine_replay_batch(&e, 15, 1, S), ENGINE_CLEAR | ENGINE_APPLY);
	assert_int_equal(engine_replay_batch(&e, 16, 1, S), ENGINE_APPLY);
	assert_int_equal(engine_replay_end(&e, 3 * S), 0);
	assert_int_equal(e.state, ENGINE_PARTIAL);
	assert_int_equal(e.lost, 6);
}

static void another_run_is_told_by_its_last_batch(void **state)
{
	struct engine e;

	(void)state;
	/* it came further than the old run */
	bring_up(&e, 3);
	engine_disconnected(&e);
	assert_int_equal(e.state, ENGINE_DOWN);
	assert_int_equal(engine_connected(&e, 2 * S), 0);
	engine_replay_begin(&e, 2 * S);
	assert_int_equal(engine_replay_batch(&e, 2, 999, 2 * S), ENGINE_CLEAR | ENGINE_ABORT);
	assert_int_equal(engine_replay_batch(&e, 3, 998, 2 * S), 0);
	assert_true(engine_replay_is_due(&e, 2 * S));
	assert_int_equal(engine_replay_from(&e), 0);
	/* or less far */
	bring_up(&e, 3);
	engine_disconnected(&e);
	engine_connected(&e, 2 * S);
	engine_replay_begin(&e, 2 * S);
	assert_int_equal(engine_replay_end(&e, 2 * S), ENGINE_CLEAR);
	assert_int_equal(engine_replay_from(&e), 0);
	/* or shows by its seq */
	bring_up(&e, 3);
	assert_int_equal(engine_batch(&e, 3, 1, 2 * S), ENGINE_APPLY);
	assert_int_equal(engine_batch(&e, 1, 1, 2 * S), ENGINE_CLEAR);
	assert_int_equal(engine_replay_from(&e), 0);
	assert_int_equal(e.restarts, 1);
	/* the same run goes on */
	bring_up(&e, 3);
	engine_disconnected(&e);
	engine_connected(&e, 2 * S);
	engine_replay_begin(&e, 2 * S);
	assert_int_equal(engine_replay_batch(&e, 2, 102, 2 * S), 0);
	assert_int_equal(engine_replay_end(&e, 2 * S), 0);
	assert_int_equal(e.state, ENGINE_LIVE);
	assert_int_equal(e.restarts, 0);
}

static void lost_last_batch_comes_with_the_next_look(void **state)
{
	struct engine e;

	(void)state;
	bring_up(&e, 1);
	assert_false(engine_replay_is_due(&e, 5 * S));
	assert_true(engine_replay_is_due(&e, 6 * S));
	assert_false(engine_is_waiting(&e)); /* live batches need not wait for it to begin */
	engine_replay_begin(&e, 6 * S);
	assert_true(engine_is_complete(&e) && engine_is_waiting(&e));
	assert_int_equal(engine_replay_batch(&e, 0, 100, 6 * S), 0);
	assert_int_equal(engine_replay_batch(&e, 1, 101, 6 * S), ENGINE_APPLY);
	assert_int_equal(engine_replay_end(&e, 6 * S), 0);
	assert_int_equal(e.complete_ns, 6 * S);
	/* no answer: the view gets older, no worse */
	engine_replay_begin(&e, 11 * S);
	assert_int_equal(engine_replay_failed(&e, 16 * S), 0);
	assert_int_equal(e.state, ENGINE_LIVE);
	assert_int_equal(e.complete_ns, 6 * S);
}

static void replay_that_never_answers_leaves_what_is_told_from_now_on(void **state)
{
	struct engine e;

	(void)state;
	engine_init(&e, &replayed);
	engine_connected(&e, S);
	for (int i = 0; i < 3; i++) {
		assert_true(engine_is_waiting(&e));
		engine_replay_begin(&e, S);
		assert_int_equal(engine_replay_failed(&e, S), i == 2 ? ENGINE_CLEAR : 0);
	}
	assert_int_equal(e.state, ENGINE_PARTIAL);
	assert_int_equal(engine_batch(&e, 4, 104, 2 * S), ENGINE_APPLY);
	assert_int_equal(engine_batch(&e, 7, 107, 2 * S), ENGINE_CLEAR | ENGINE_APPLY);
	/* and when it answers at last, everything is taken */
	assert_true(engine_replay_is_due(&e, 7 * S));
	assert_int_equal(engine_replay_from(&e), 0);
	assert_int_equal(engine_replay_begin(&e, 7 * S), ENGINE_CLEAR);
	for (uint64_t i = 0; i < 9; i++)
		assert_int_equal(engine_replay_batch(&e, i, 100 + i, S), ENGINE_APPLY);
	assert_int_equal(engine_replay_end(&e, 7 * S), 0);
	assert_int_equal(e.state, ENGINE_LIVE);
}

static void without_a_replay_socket_a_loss_is_a_loss(void **state)
{
	struct engine e;

	(void)state;
	engine_init(&e, &bare);
	assert_int_equal(engine_connected(&e, S), 0);
	assert_false(engine_replay_is_due(&e, 9 * S));
	assert_int_equal(engine_batch(&e, 7, 1, S), ENGINE_APPLY);
	assert_int_equal(e.state, ENGINE_PARTIAL);
	assert_int_equal(engine_batch(&e, 9, 1, S), ENGINE_CLEAR | ENGINE_APPLY);
	assert_int_equal(engine_batch(&e, 0, 1, S), ENGINE_CLEAR | ENGINE_APPLY);
	assert_int_equal(e.state, ENGINE_LIVE); /* its history begins here */
	engine_disconnected(&e);
	assert_int_equal(engine_connected(&e, 2 * S), ENGINE_CLEAR);
	assert_int_equal(e.state, ENGINE_PARTIAL);
	engine_tick(&e, 9 * S);
	assert_int_equal(e.complete_ns, 9 * S);
}

static void batch_that_cannot_be_read_is_a_loss(void **state)
{
	struct engine e;

	(void)state;
	bring_up(&e, 1);
	assert_int_equal(engine_batch(&e, 1, 1, S), ENGINE_APPLY);
	assert_int_equal(engine_lost(&e), ENGINE_CLEAR);
	assert_int_equal(e.state, ENGINE_PARTIAL);
}

/* ---- an engine that loses, forgets and restarts, by seed ---- */

enum { KEYS = 100, MEMORY = 40, BATCHES = 4096 };

struct batch {
	uint32_t key; /* KEYS: all cleared */
	bool stored;
	uint64_t mark;
};

struct world {
	uint64_t seed, now, next;
	bool truth[KEYS], view[KEYS];
	struct batch batch[BATCHES];
	uint64_t queue[BATCHES]; /* seqs on their way to us .. */
	uint32_t queued;
	struct batch queue_batch[BATCHES];
	struct engine e;
};

static uint64_t draw(struct world *w, uint64_t n)
{
	uint64_t x = w->seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % n;
}

static void apply(struct world *w, unsigned int what, const struct batch *b)
{
	if ((what & ENGINE_CLEAR) != 0)
		memset(w->view, 0, sizeof(w->view));
	if ((what & ENGINE_APPLY) == 0)
		return;
	if (b->key < KEYS) {
		w->view[b->key] = b->stored;
		return;
	}
	memset(w->view, 0, sizeof(w->view));
	engine_cleared(&w->e);
}

static void publish(struct world *w, bool lost)
{
	struct batch *b = &w->batch[w->next];

	b->key = (uint32_t)(draw(w, 200) == 0 ? KEYS : draw(w, KEYS));
	b->mark = draw(w, UINT64_MAX);
	if (b->key == KEYS) {
		memset(w->truth, 0, sizeof(w->truth));
	} else {
		w->truth[b->key] = b->stored = !w->truth[b->key];
	}
	if (!lost && w->e.connected) {
		w->queue_batch[w->queued] = *b;
		w->queue[w->queued++] = w->next;
	}
	w->next++;
}

static void receive(struct world *w, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && i < w->queued && !engine_is_waiting(&w->e)) {
		unsigned int what =
			engine_batch(&w->e, w->queue[i], w->queue_batch[i].mark, w->now);

		apply(w, what, &w->queue_batch[i]);
		i++;
	}
	memmove(w->queue, w->queue + i, (w->queued - i) * sizeof(w->queue[0]));
	memmove(w->queue_batch, w->queue_batch + i, (w->queued - i) * sizeof(w->queue_batch[0]));
	w->queued -= i;
}

static void replay(struct world *w, bool fails)
{
	uint64_t from = engine_replay_from(&w->e), oldest = w->next > MEMORY ? w->next - MEMORY : 0;

	apply(w, engine_replay_begin(&w->e, w->now), NULL);
	if (fails) {
		apply(w, engine_replay_failed(&w->e, w->now), NULL);
		return;
	}
	for (uint64_t i = from > oldest ? from : oldest; i < w->next; i++) {
		unsigned int what = engine_replay_batch(&w->e, i, w->batch[i].mark, w->now);

		apply(w, what, &w->batch[i]);
		if ((what & ENGINE_ABORT) != 0)
			return;
	}
	apply(w, engine_replay_end(&w->e, w->now), NULL);
}

static void restart(struct world *w)
{
	w->next = 0;
	memset(w->truth, 0, sizeof(w->truth));
}

static void settle(struct world *w)
{
	for (int i = 0; i < 20; i++) {
		w->now += 10 * S;
		if (engine_replay_is_due(&w->e, w->now))
			replay(w, false);
		receive(w, BATCHES);
	}
	for (int i = 0; i < KEYS; i++) {
		/* What is said to be there is; and if it is whole, the other way round. */
		if (w->view[i] && !w->truth[i])
			fail_msg("key %d is not there any more", i);
		if (engine_is_complete(&w->e) && w->truth[i] != w->view[i])
			fail_msg("a whole view lacks key %d", i);
	}
}

static void view_is_the_truth_after_any_losses_and_restarts(void **state)
{
	static struct world w;
	unsigned int whole = 0, partial = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		memset(&w, 0, sizeof(w));
		w.seed = seed;
		w.now = S;
		engine_init(&w.e, &replayed);
		for (int step = 0; step < 1500; step++) {
			uint64_t what = draw(&w, 1000);

			w.now += S / 10;
			if (what < 600)
				publish(&w, draw(&w, 50) == 0);
			else if (what < 950)
				receive(&w, (uint32_t)draw(&w, 8));
			else if (what < 960 && !w.e.connected)
				apply(&w, engine_connected(&w.e, w.now), NULL);
			else if (what < 963 && w.e.connected) {
				engine_disconnected(&w.e);
				if (draw(&w, 2) == 0)
					restart(&w);
				if (draw(&w, 2) == 0)
					w.queued = 0;
			}
			if (engine_replay_is_due(&w.e, w.now) && draw(&w, 4) == 0)
				replay(&w, draw(&w, 5) == 0);
			if (w.next == BATCHES - 1)
				break;
		}
		if (!w.e.connected)
			apply(&w, engine_connected(&w.e, w.now), NULL);
		settle(&w);
		whole += engine_is_complete(&w.e);
		partial += !engine_is_complete(&w.e);
	}
	assert_true(whole > 20 && partial > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_replay_from_0_makes_a_whole_view),
		cmocka_unit_test(history_that_is_gone_makes_it_partial_until_all_is_cleared),
		cmocka_unit_test(gap_is_replayed_from_the_last_one_taken),
		cmocka_unit_test(another_run_is_told_by_its_last_batch),
		cmocka_unit_test(lost_last_batch_comes_with_the_next_look),
		cmocka_unit_test(replay_that_never_answers_leaves_what_is_told_from_now_on),
		cmocka_unit_test(without_a_replay_socket_a_loss_is_a_loss),
		cmocka_unit_test(batch_that_cannot_be_read_is_a_loss),
		cmocka_unit_test(view_is_the_truth_after_any_losses_and_restarts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
