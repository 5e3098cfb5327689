/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define M UINT64_C(1000000)
#define S UINT64_C(1000000000)

/* Two edges of site a that send to one of b, within 100 Mbit/s. */
static struct world {
	struct shares shares;
	struct shares_edge a1, a2, b1;
	uint64_t now_ns, used_bps;
	unsigned int sent;
	bool hears;
} w;

static void on_caps(void *ctx, const char *from, const char *to, struct shares_caps *out)
{
	(void)ctx;
	(void)to;
	out->link_bps = from[0] == 'a' ? 100 * M : 0;
}

static bool on_used(void *ctx, const struct shares_flow *f, uint64_t *bps)
{
	(void)ctx;
	*bps = f->from == &w.a1 ? w.used_bps : 1000 * M;
	return true;
}

static bool on_hears(void *ctx, const struct shares_flow *f)
{
	(void)ctx;
	(void)f;
	return w.hears;
}

static void on_send(void *ctx, struct shares_edge *e)
{
	(void)ctx;
	(void)e;
	w.sent++;
}

static const struct shares_ops ops = { on_caps, on_used, on_hears, on_send };

static void begin(void)
{
	memset(&w, 0, sizeof(w));
	w.now_ns = 1000 * S;
	w.used_bps = 1000 * M;
	shares_init(&w.shares, &ops, NULL, w.now_ns);
	w.shares.unknown_ns = 15 * S;
	w.a1.site = w.a2.site = "a";
	w.b1.site = "b";
	w.a1.name = w.b1.name = "1";
	w.a2.name = "2";
	shares_add(&w.shares, &w.a1, w.now_ns);
	shares_add(&w.shares, &w.a2, w.now_ns);
	shares_add(&w.shares, &w.b1, w.now_ns);
}

static struct shares_flow *flow(struct shares_edge *from)
{
	return shares_get(&w.shares, from, &w.b1);
}

static uint64_t told(struct shares_edge *from)
{
	return flow(from)->grant.told_bps;
}

static void update(uint64_t ahead_ns)
{
	w.now_ns += ahead_ns;
	shares_update(&w.shares, w.now_ns);
}

static void answer(struct shares_edge *e)
{
	if (e->connected)
		shares_acked(&w.shares, e, e->seq);
}

/* Until nothing changes any more. */
static void settle(void)
{
	for (int i = 0; i < 5; i++) {
		update(S / 10);
		answer(&w.a1);
		answer(&w.a2);
		answer(&w.b1);
	}
}

static void both_send(void)
{
	begin();
	shares_connected(&w.shares, &w.a1, true);
	shares_connected(&w.shares, &w.a2, true);
	shares_connected(&w.shares, &w.b1, true);
	flow(&w.a1)->shipments = flow(&w.a2)->shipments = 1;
	settle();
	assert_in_range(told(&w.a1), 49 * M, 50 * M);
	assert_in_range(told(&w.a2), 49 * M, 50 * M);
}

static void a_message_without_an_answer_is_sent_again(void **state)
{
	unsigned int sent;

	(void)state;
	both_send();
	sent = w.sent;
	settle();
	assert_int_equal(w.sent, sent);
	w.a1.dirty = true;
	update(0);
	assert_int_equal(w.sent, sent + 1);
	update(SHARES_RESEND_NS - 1);
	assert_int_equal(w.sent, sent + 1);
	update(1);
	assert_int_equal(w.sent, sent + 2);
	answer(&w.a1);
	update(SHARES_RESEND_NS);
	assert_int_equal(w.sent, sent + 2);
	shares_fini(&w.shares);
}

static void what_one_does_not_use_goes_to_the_other(void **state)
{
	(void)state;
	both_send();
	w.used_bps = 10 * M;
	settle();
	assert_in_range(told(&w.a2), 49 * M, 50 * M); /* not at once */
	update(2 * S);
	settle();
	assert_in_range(told(&w.a1), 12 * M, 13 * M);
	assert_in_range(told(&w.a2), 87 * M, 88 * M);
	/* it uses what it has, so it wants more */
	w.used_bps = 12 * M;
	settle();
	assert_in_range(told(&w.a1), 49 * M, 50 * M);
	shares_fini(&w.shares);
}

static void a_lost_edge_s_share_goes_on_when_who_heard_it_does_not_any_more(void **state)
{
	(void)state;
	both_send();
	shares_disconnected(&w.a1, w.now_ns);
	settle();
	assert_in_range(told(&w.a2), 49 * M, 50 * M);
	shares_lost(&w.shares, &w.a1);
	update(0);
	answer(&w.a2);
	update(0);
	assert_in_range(told(&w.a2), 49 * M, 50 * M);
	answer(&w.b1);
	update(0);
	assert_in_range(told(&w.a2), 99 * M, 100 * M);
	shares_fini(&w.shares);
}

static void who_is_back_is_heard_when_it_gave_up_what_others_have(void **state)
{
	(void)state;
	both_send();
	shares_disconnected(&w.a1, w.now_ns);
	shares_lost(&w.shares, &w.a1);
	settle();
	assert_in_range(told(&w.a2), 99 * M, 100 * M);
	shares_connected(&w.shares, &w.a1, true);
	shares_had(&w.shares, &w.a1, &w.b1, 50 * M);
	assert_false(w.a1.lost);
	update(0);
	answer(&w.a2);
	answer(&w.b1);
	update(0);
	assert_true(w.a1.fenced);
	answer(&w.a1);
	assert_false(w.a1.fenced);
	settle();
	assert_in_range(told(&w.a1), 49 * M, 50 * M);
	assert_in_range(told(&w.a2), 49 * M, 50 * M);
	shares_fini(&w.shares);
}

static void after_a_restart_nothing_is_given_away_before_all_have_registered(void **state)
{
	(void)state;
	begin();
	w.a1.known = w.a2.known = false;
	shares_connected(&w.shares, &w.a1, true);
	shares_connected(&w.shares, &w.b1, true);
	shares_had(&w.shares, &w.a1, &w.b1, 30 * M);
	flow(&w.a1)->shipments = 1;
	settle();
	assert_int_equal(told(&w.a1), 30 * M);
	/* what the other has is not known, until it is lost and fenced */
	update(60 * S);
	assert_int_equal(told(&w.a1), 30 * M);
	shares_lost(&w.shares, &w.a2);
	update(0);
	assert_int_equal(told(&w.a1), 30 * M);
	settle();
	assert_in_range(told(&w.a1), 99 * M, 100 * M);
	shares_fini(&w.shares);
}

static void what_is_away_keeps_its_share_as_long_as_it_is_heard(void **state)
{
	(void)state;
	both_send();
	w.hears = true;
	shares_disconnected(&w.a1, w.now_ns);
	update(SHARES_SILENT_NS);
	settle();
	assert_in_range(told(&w.a2), 49 * M, 50 * M);
	w.hears = false;
	settle();
	assert_in_range(told(&w.a2), 99 * M, 100 * M);
	shares_fini(&w.shares);
}

static void an_edge_that_says_it_ended_gives_its_share_at_once(void **state)
{
	(void)state;
	both_send();
	shares_disconnected(&w.a1, w.now_ns);
	shares_ended(&w.shares, &w.a1);
	update(0);
	assert_in_range(told(&w.a2), 99 * M, 100 * M);
	assert_in_range(shares_sum(&w.shares, &w.a2), 99 * M, 100 * M);
	assert_int_equal(shares_sum(&w.shares, &w.b1), 0);
	shares_fini(&w.shares);
}

enum { SITES = 40, CAPPED = 600 };

/* Sites 0 to 39, each with a cap to each other. */
static void on_mesh_caps(void *ctx, const char *from, const char *to, struct shares_caps *out)
{
	(void)ctx;
	(void)from;
	(void)to;
	out->link_bps = 100 * M;
}

static void each_of_many_links_keeps_its_cap(void **state)
{
	static const struct shares_ops mesh = { on_mesh_caps, on_used, on_hears, on_send };
	struct shares_edge edge[SITES] = { 0 };
	struct shares_flow *f;
	char name[SITES][4];
	int flows = 0;

	(void)state;
	memset(&w, 0, sizeof(w));
	shares_init(&w.shares, &mesh, NULL, 1000 * S);
	for (int i = 0; i < SITES; i++) {
		snprintf(name[i], sizeof(name[i]), "%d", i % 100);
		edge[i].site = edge[i].name = name[i];
		shares_add(&w.shares, &edge[i], 1000 * S);
		shares_connected(&w.shares, &edge[i], true);
	}
	for (int i = 0; i < SITES; i++)
		for (int k = 0; k < SITES && flows < CAPPED; k++)
			if (i != k) {
				shares_get(&w.shares, &edge[i], &edge[k])->shipments = 1;
				flows++;
			}
	shares_update(&w.shares, 1001 * S);
	TAILQ_FOREACH(f, &w.shares.flows, entry)
		assert_int_equal(f->grant.told_bps, 100 * M);
	assert_int_equal(flows, CAPPED);
	shares_fini(&w.shares);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_without_an_answer_is_sent_again),
		cmocka_unit_test(what_one_does_not_use_goes_to_the_other),
		cmocka_unit_test(a_lost_edge_s_share_goes_on_when_who_heard_it_does_not_any_more),
		cmocka_unit_test(who_is_back_is_heard_when_it_gave_up_what_others_have),
		cmocka_unit_test(after_a_restart_nothing_is_given_away_before_all_have_registered),
		cmocka_unit_test(what_is_away_keeps_its_share_as_long_as_it_is_heard),
		cmocka_unit_test(an_edge_that_says_it_ended_gives_its_share_at_once),
		cmocka_unit_test(each_of_many_links_keeps_its_cap),
	};

	return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
