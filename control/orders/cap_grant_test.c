/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/cap_grant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define M UINT64_C(1000000)

enum { FLOWS = 3 };

/* Edges that share one cap, and the messages on their way to them and back. */
struct world {
	struct cap_group group;
	struct cap_flow flow[FLOWS];
	struct cap_grant grant[FLOWS], *of[FLOWS];
	uint64_t seq, at_edge[FLOWS], acked[FLOWS];
	/* one message under way to each edge: what it says; 0: none */
	uint64_t msg[FLOWS], msg_seq[FLOWS];
};

static struct world *begin(uint64_t cap)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	w.group.cap_bps = cap;
	for (int i = 0; i < FLOWS; i++) {
		w.flow[i].group[0] = 0;
		w.flow[i].group[1] = w.flow[i].group[2] = CAP_NO_GROUP;
		w.flow[i].want_bps = CAP_NONE;
		w.of[i] = &w.grant[i];
	}
	return &w;
}

static void plan(struct world *w)
{
	cap_share(w->flow, FLOWS, &w->group, 1);
	cap_grant_plan(w->of, w->flow, FLOWS, &w->group, 1);
	for (int i = 0; i < FLOWS; i++)
		if (w->grant[i].told_seq == 0 && w->grant[i].told_bps != 0) {
			cap_grant_told(&w->grant[i], ++w->seq);
			w->msg[i] = w->grant[i].told_bps;
			w->msg_seq[i] = w->seq;
		}
}

static void arrive(struct world *w, int i)
{
	if (w->msg_seq[i] == 0)
		return;
	w->at_edge[i] = w->msg[i];
	w->acked[i] = w->msg_seq[i];
	w->msg_seq[i] = 0;
}

static void answer(struct world *w, int i)
{
	cap_grant_acked(&w->grant[i], w->acked[i]);
}

/* The first alone has something to send, and all of the cap. */
static struct world *begin_with_one(uint64_t cap)
{
	struct world *w = begin(cap);

	w->flow[0].active = true;
	plan(w);
	arrive(w, 0);
	answer(w, 0);
	return w;
}

/* Until all have what they should. */
static void settle(struct world *w)
{
	for (int k = 0; k < 4; k++) {
		plan(w);
		for (int i = 0; i < FLOWS; i++) {
			arrive(w, i);
			answer(w, i);
		}
	}
}

static void a_share_is_raised_after_another_gave_it_up(void **state)
{
	struct world *w = begin_with_one(900 * M);

	(void)state;
	assert_in_range(w->at_edge[0], 800 * M, 900 * M);
	w->flow[1].active = true;
	plan(w);
	/* the first is told at once, the second has only what was never granted */
	assert_in_range(w->msg[0], 440 * M, 450 * M);
	assert_true(w->grant[1].told_bps < 10 * M);
	plan(w);
	assert_true(w->grant[1].told_bps < 10 * M);
	arrive(w, 0);
	plan(w);
	assert_true(w->grant[1].told_bps < 10 * M);
	answer(w, 0);
	plan(w);
	assert_in_range(w->grant[1].told_bps, 440 * M, 450 * M);
}

static void an_answer_to_an_older_message_frees_nothing(void **state)
{
	struct world *w = begin_with_one(900 * M);

	(void)state;
	w->flow[1].active = true;
	plan(w);
	answer(w, 0); /* of the message before */
	plan(w);
	assert_true(w->grant[1].told_bps < 10 * M);
}

static void nothing_is_granted_while_a_holder_is_unknown(void **state)
{
	struct world *w = begin(900 * M);

	(void)state;
	w->group.frozen = true;
	w->flow[0].active = true;
	cap_grant_set(&w->grant[1], 300 * M); /* by its own word */
	plan(w);
	assert_int_equal(w->grant[0].told_bps, 0);
	assert_true(w->grant[1].told_bps < 10 * M); /* it may give up */
	w->group.frozen = false;
	plan(w);
	assert_in_range(w->grant[0].told_bps, 590 * M, 600 * M);
}

static void a_lost_edge_s_share_goes_to_the_rest_once_it_is_fenced(void **state)
{
	struct world *w = begin(900 * M);

	(void)state;
	w->flow[0].active = w->flow[1].active = true;
	settle(w);
	assert_in_range(w->at_edge[1], 440 * M, 450 * M);
	w->flow[0].active = false;
	plan(w);
	assert_in_range(w->grant[1].told_bps, 440 * M, 450 * M);
	cap_grant_set(&w->grant[0], 0);
	plan(w);
	assert_in_range(w->grant[1].told_bps, 880 * M, 900 * M);
}

static void a_lower_cap_is_told_though_it_is_little(void **state)
{
	struct world *w = begin_with_one(1000 * M);

	(void)state;
	w->group.cap_bps = 995 * M;
	plan(w);
	assert_true(w->grant[0].told_bps <= 995 * M);
}

static uint64_t rnd(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

/* Whatever is late, lost, told again or restarted: what edges have is never above the cap. */
static void the_cap_holds_at_every_instant_by_seed(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 500; seed++) {
		struct world *w = begin(1000 * M);
		uint64_t x = seed * 0x9e3779b97f4a7c15u, rest = 0;

		for (int step = 0; step < 200; step++) {
			int i = (int)(rnd(&x) % FLOWS);
			uint64_t sum = 0;

			switch (rnd(&x) % 8) {
			case 0:
				w->flow[i].active = !w->flow[i].active;
				break;
			case 1:
				w->flow[i].want_bps = rnd(&x) % 3 ? CAP_NONE : rnd(&x) % (M * 500);
				break;
			case 2: /* lost, and told again with a number of its own */
				w->msg_seq[i] = 0;
				w->grant[i].told_seq = 0;
				break;
			case 3: /* the edge was restarted */
				w->msg_seq[i] = w->acked[i] = w->at_edge[i] = 0;
				cap_grant_set(&w->grant[i], 0);
				break;
			case 4:
			case 5:
				arrive(w, i);
				break;
			default:
				answer(w, i);
				break;
			}
			plan(w);
			for (int k = 0; k < FLOWS; k++)
				sum += w->at_edge[k];
			assert_true(sum <= w->group.cap_bps);
		}
		/* left alone it is all in use soon */
		settle(w);
		for (int k = 0; k < FLOWS; k++)
			rest += w->at_edge[k];
		assert_in_range(rest, 950 * M, 1000 * M);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_is_raised_after_another_gave_it_up),
		cmocka_unit_test(an_answer_to_an_older_message_frees_nothing),
		cmocka_unit_test(nothing_is_granted_while_a_holder_is_unknown),
		cmocka_unit_test(a_lost_edge_s_share_goes_to_the_rest_once_it_is_fenced),
		cmocka_unit_test(a_lower_cap_is_told_though_it_is_little),
		cmocka_unit_test(the_cap_holds_at_every_instant_by_seed),
	};

	return cmocka_run_group_tests_name("cap_grant", tests, NULL, NULL);
}
