/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/prfaas.h"

#include "control/planner/sizing.h"
#include "tools/replay/lru.h"
#include "tools/replay/run.h"

#include <strait/strait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

static struct prfaas_config cfg;
static struct prfaas_result res;

/* One unit is 512 bytes; prefill takes 0.512 s a unit, a unit takes 0.1 s on the WAN. */
static int setup(void **state)
{
	(void)state;
	prfaas_config_default(&cfg);
	cfg.block_tokens = 64;
	cfg.block_bytes = 64;
	cfg.efficiency = 1;
	cfg.cap_bps = 40960;
	cfg.rtt_ns = 100000000;
	cfg.threshold_tokens = 1024;
	cfg.prefill = (struct prfaas_site_config){ 1, 1000, 512 * 1000 };
	cfg.decode = (struct prfaas_site_config){ 1, 1000, 512 * 1000 };
	return 0;
}

struct ask {
	uint64_t ms, units, first_id, tail;
};

static void play(const struct ask *asks, size_t n)
{
	struct prfaas *p = prfaas_create(&cfg);
	uint64_t ids[64];

	assert_non_null(p);
	for (size_t i = 0; i < n; i++) {
		struct replay_request req = { .timestamp_ms = asks[i].ms,
			.input_tokens = asks[i].units * 512 + asks[i].tail,
			.ids = ids,
			.id_count = asks[i].units + (asks[i].tail > 0) };

		for (uint64_t k = 0; k < req.id_count; k++)
			ids[k] = asks[i].first_id + k;
		assert_int_equal(prfaas_request(p, &req), 0);
	}
	assert_int_equal(prfaas_finish(p, &res), 0);
	prfaas_destroy(p);
}

#define PLAY(...)                                                                                  \
	do {                                                                                       \
		const struct ask asks[] = { __VA_ARGS__ };                                         \
		play(asks, sizeof(asks) / sizeof(asks[0]));                                        \
	} while (0)

static void near(double got, double want)
{
	if (fabs(got - want) > 1e-6)
		fail_msg("%.9g is not %.9g", got, want);
}

static void a_short_prefill_stays_at_the_decode_site(void **state)
{
	(void)state;
	PLAY({ 0, 2, 0, 0 });
	assert_int_equal(res.remote, 0);
	near(res.ttft_s[0], 1.024);
	near(res.wan_gbps[0], 0);
}

static void a_long_one_is_shipped_while_it_is_made(void **state)
{
	(void)state;
	PLAY({ 0, 4, 0, 0 });
	assert_int_equal(res.remote, 1);
	assert_int_equal(res.misses, 0);
	/* Only the last unit comes after the end: 0.1 s and half an RTT. */
	near(res.wait_s[0], 0.15);
	near(res.ttft_s[0], 4 * 0.512 + 0.15);
	near(res.there_rate, 1);
	near(res.wan_gbps[0] * res.seconds, 4 * 4096e-9);
}

static void what_was_shipped_is_a_hit_and_crosses_once(void **state)
{
	(void)state;
	PLAY({ 0, 4, 0, 0 }, { 10000, 4, 0, 0 });
	near(res.hit_rate, 0.5);
	near(res.wan_gbps[0] * res.seconds, 4 * 4096e-9);
	assert_int_equal(res.remote, 1);
}

static void without_sharing_it_crosses_for_every_request(void **state)
{
	(void)state;
	cfg.mode = PRFAAS_NONE;
	PLAY({ 0, 4, 0, 0 }, { 10000, 4, 0, 0 });
	near(res.hit_rate, 0);
	assert_int_equal(res.remote, 2);
	near(res.wan_gbps[0] * res.seconds, 8 * 4096e-9);
}

static void two_that_need_one_unit_share_its_way(void **state)
{
	(void)state;
	cfg.prefill.instances = 2;
	PLAY({ 0, 4, 0, 0 }, { 1, 4, 0, 0 });
	assert_int_equal(res.remote, 2);
	near(res.there_rate, 1);
	near(res.wan_gbps[0] * res.seconds, 4 * 4096e-9);
	cfg.mode = PRFAAS_NONE;
	PLAY({ 0, 4, 0, 0 }, { 1, 4, 0, 0 });
	near(res.wan_gbps[0] * res.seconds, 8 * 4096e-9);
}

static void a_tail_crosses_and_is_not_kept(void **state)
{
	(void)state;
	PLAY({ 0, 4, 0, 130 }, { 20000, 4, 0, 130 });
	near(res.hit_rate, 0.5);
	/* Two whole blocks of 64 tokens. */
	near(res.wan_gbps[0] * res.seconds, (4 * 4096 + 1024) * 1e-9);
}

static void key_by_key_is_late_and_the_decode_site_helps_itself(void **state)
{
	(void)state;
	cfg.mode = PRFAAS_SERIAL;
	PLAY({ 0, 4, 0, 0 });
	assert_int_equal(res.misses, 1);
	/* 1.7 s a unit; the first one is ready at 0.512 s, needed at 3.048 s. */
	near(res.there_rate, 0.25);
	/* What came in time need not be made again. */
	near(res.ttft_s[0], 4 * 0.512 + 1 + 3 * 0.512);
}

static void what_is_late_is_not_sent(void **state)
{
	(void)state;
	cfg.deadline_ns = 0;
	cfg.cap_bps = 4096;
	PLAY({ 0, 4, 0, 0 });
	assert_int_equal(res.misses, 1);
	/* One unit came, one was under way. */
	near(res.wan_gbps[0] * res.seconds, 2 * 4096e-9);
}

static void the_earliest_deadline_goes_first(void **state)
{
	(void)state;
	cfg.cap_bps = 8192; /* 0.5 s a unit */
	cfg.prefill = (struct prfaas_site_config){ 2, 1000000, 512 * 1000 };
	/* Two at one time, all made at once: the second one is done a little earlier. */
	cfg.deadline_ns = 4000000000;
	PLAY({ 0, 8, 0, 0 }, { 0, 6, 100, 0 });
	assert_int_equal(res.remote, 2);
	/* In turns both would be late. */
	assert_int_equal(res.misses, 1);
	assert_true(res.wait_s[0] < 3.6);
}

static void the_prefill_site_gets_prefixes_back(void **state)
{
	(void)state;
	PLAY({ 0, 2, 0, 0 }, { 10000, 6, 0, 0 });
	/* It makes 4 of 6 units, and has the first two from the decode site. */
	near(res.prefill.hit_rate, 2.0 / 6);
	near(res.wan_gbps[1] * res.seconds, 2 * 4096e-9);
	near(res.ttft_s[3], 4 * 0.512 + 0.15);
	cfg.mode = PRFAAS_NONE;
	PLAY({ 0, 2, 0, 0 }, { 10000, 6, 0, 0 });
	near(res.prefill.hit_rate, 0);
}

static void a_full_pool_lets_the_oldest_go(void **state)
{
	struct lru l;

	(void)state;
	assert_int_equal(lru_init(&l, 2, 0), 0);
	assert_int_equal(lru_add(&l, 1, 0), 0);
	assert_int_equal(lru_add(&l, 2, 1000000000), 0);
	assert_true(lru_use(&l, 1, 2000000000));
	assert_int_equal(lru_add(&l, 3, 5000000000), 0);
	assert_true(lru_has(&l, 1));
	assert_false(lru_has(&l, 2));
	near(l.age_sum_s, 4);
	assert_int_equal(lru_add(&l, 4, 6000000000), 0);
	assert_false(lru_has(&l, 1));
	near(l.age_sum_s, 8);
	near(l.span_sum_s, 2);
	near(l.held_sum, 1 + 2 * 5);
	lru_fini(&l);
	assert_int_equal(lru_init(&l, UINT64_MAX, 1000000000), 0);
	for (uint64_t i = 0; i < 20000; i++)
		assert_int_equal(lru_add(&l, i, i * 100000), 0);
	assert_int_equal(l.count, 10000);
	assert_false(lru_has(&l, 9999));
	assert_true(lru_has(&l, 10000));
	lru_fini(&l);
}

static void a_request_before_the_last_one_is_refused(void **state)
{
	struct prfaas *p = prfaas_create(&cfg);
	struct replay_request req = { .timestamp_ms = 5 };

	(void)state;
	assert_int_equal(prfaas_request(p, &req), 0);
	req.timestamp_ms = 4;
	assert_int_equal(prfaas_request(p, &req), -EINVAL);
	req.timestamp_ms = UINT64_MAX;
	assert_int_equal(prfaas_request(p, &req), -EINVAL);
	prfaas_destroy(p);
}

/* ---- the sizing question, answered by arithmetic and by replay ---- */

static void within(const char *what, double got, double want, double tolerance)
{
	if (!(fabs(got - want) <= tolerance * want))
		fail_msg("%s: planned %.4g, replayed %.4g", what, want, got);
}

/*
 * Measure reuse with pools of any size that keep 300 s, plan pools for that, and replay with pools
 * of these sizes: they evict after about 300 s, and the WAN carries what was planned. 10 %.
 */
static void a_plan_holds_in_a_replay(void **state)
{
	const char *argv[] = { "strait-replay", "--prfaas", "--requests", "12000", "--seed", "3",
		"--keep", "300s" };
	struct sizing_side_result plan[SIZING_SIDES];
	struct replay_options o;
	struct sizing s;
	char err[256];

	(void)state;
	assert_int_equal(replay_options_parse(&o, 8, (char **)(uintptr_t)argv, err, sizeof(err)),
		0);
	assert_int_equal(replay_prfaas_run(&o, PRFAAS_STRAIT, &res, err, sizeof(err)), 0);
	sizing_init(&s);
	s.tokens_per_s = res.tokens_per_s;
	s.block_tokens = o.prfaas.block_tokens;
	s.block_bytes = (double)o.prfaas.block_bytes;
	s.reuse = res.reuse;
	s.remote = res.remote_share;
	s.evict_s[0] = s.evict_s[1] = 300;
	s.span_s[SIZING_DECODE] = res.decode.reuse_span_s;
	s.span_s[SIZING_PREFILL] = res.prefill.reuse_span_s;
	s.efficiency = o.prfaas.efficiency;
	assert_int_equal(sizing_plan(&s, plan, err, sizeof(err)), 0);

	o.prfaas.keep_ns = 0;
	o.prfaas.decode.pool_bytes = (uint64_t)plan[SIZING_DECODE].pool_bytes;
	o.prfaas.prefill.pool_bytes = (uint64_t)plan[SIZING_PREFILL].pool_bytes;
	assert_int_equal(replay_prfaas_run(&o, PRFAAS_STRAIT, &res, err, sizeof(err)), 0);
	assert_true(res.decode.evictions > 10000 && res.prefill.evictions > 10000);
	within("decode site's eviction age", res.decode.eviction_age_s, 300, 0.1);
	within("prefill site's eviction age", res.prefill.eviction_age_s, 300, 0.1);
	within("WAN to the decode site", res.wan_gbps[0], plan[SIZING_PREFILL].wan_bps * 1e-9, 0.1);
	within("WAN back", res.wan_gbps[1], plan[SIZING_DECODE].wan_bps * 1e-9, 0.1);
	within("reuse", res.reuse, s.reuse, 0.1);
}

/* ---- by the clock ---- */

static void play_live(const char *to, const char *mode, struct prfaas_live_result *r)
{
	const char *argv[] = { "strait-replay", "prfaas", "--requests", "4", "--speed", "1000",
		"--threshold", "2000", "--bytes-per-block", "100", "--prefill-rate", "10000000",
		"--decode-rate", "10000000", "--deadline", "1ms", "--rtt", "1ms", "--cap", "10G",
		"--mode", mode, "--pool", "a", "--to-pool", to };
	char dir[] = "/tmp/strait-prfaas-XXXXXX", here[256], err[512];
	static const char *const names[] = { "a", "b" };
	struct replay_options o;

	assert_non_null(getcwd(here, sizeof(here)));
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	for (int i = 0; i < 2; i++) {
		struct strait_pool *p = strait_pool_open(names[i],
			STRAIT_POOL_CREATE | STRAIT_POOL_SPARSE, 64 << 20);

		assert_non_null(p);
		strait_pool_close(p);
	}
	assert_int_equal(replay_options_parse(&o, 26, (char **)(uintptr_t)argv, err, sizeof(err)),
		0);
	if (replay_prfaas_live(&o, r, err, sizeof(err)) < 0)
		fail_msg("%s", err);
	unlink("a");
	unlink("b");
	assert_int_equal(chdir(here), 0);
	rmdir(dir);
}

/* Nothing replicates: what the prefill site made is not there. */
static void live_sees_what_did_not_come(void **state)
{
	struct prfaas_live_result r;

	(void)state;
	play_live("b", "strait", &r);
	assert_int_equal(r.requests, 4);
	assert_true(r.remote > 0 && r.misses == r.remote);
	assert_true(r.shipped > 0 && r.put_bytes[0] > 0 && r.there < r.shipped);
}

/* Both are one pool: all is there as soon as it is made. */
static void live_sees_what_came(void **state)
{
	struct prfaas_live_result r;

	(void)state;
	play_live("a", "strait", &r);
	assert_true(r.remote > 0 && r.shipped > 0);
	assert_int_equal(r.there, r.shipped);
	assert_int_equal(r.misses, 0);
}

/* Both are one pool, but what the prefill site made is no hit at the other one. */
static void live_without_sharing_has_the_fewest_hits(void **state)
{
	struct prfaas_live_result none, strait;

	(void)state;
	play_live("a", "none", &none);
	play_live("a", "strait", &strait);
	assert_true(none.hits < strait.hits);
	assert_int_equal(none.there, none.shipped);
}

/* Key by key it brings something, with 2 ms for each most of it too late. */
static void live_copies_serially_by_itself(void **state)
{
	struct prfaas_live_result serial;

	(void)state;
	play_live("b", "serial", &serial);
	assert_true(serial.remote > 0 && serial.misses > 0);
	assert_true(serial.there < serial.shipped);
}

static void live_alone_prefills_nothing_elsewhere(void **state)
{
	struct prfaas_live_result r;

	(void)state;
	play_live("b", "local", &r);
	assert_int_equal(r.remote, 0);
	assert_int_equal(r.put_bytes[0], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_short_prefill_stays_at_the_decode_site, setup),
		cmocka_unit_test_setup(a_long_one_is_shipped_while_it_is_made, setup),
		cmocka_unit_test_setup(what_was_shipped_is_a_hit_and_crosses_once, setup),
		cmocka_unit_test_setup(without_sharing_it_crosses_for_every_request, setup),
		cmocka_unit_test_setup(two_that_need_one_unit_share_its_way, setup),
		cmocka_unit_test_setup(a_tail_crosses_and_is_not_kept, setup),
		cmocka_unit_test_setup(key_by_key_is_late_and_the_decode_site_helps_itself, setup),
		cmocka_unit_test_setup(what_is_late_is_not_sent, setup),
		cmocka_unit_test_setup(the_earliest_deadline_goes_first, setup),
		cmocka_unit_test_setup(the_prefill_site_gets_prefixes_back, setup),
		cmocka_unit_test_setup(a_full_pool_lets_the_oldest_go, setup),
		cmocka_unit_test_setup(a_request_before_the_last_one_is_refused, setup),
		cmocka_unit_test_setup(a_plan_holds_in_a_replay, setup),
		cmocka_unit_test(live_sees_what_did_not_come),
		cmocka_unit_test(live_sees_what_came),
		cmocka_unit_test(live_without_sharing_has_the_fewest_hits),
		cmocka_unit_test(live_copies_serially_by_itself),
		cmocka_unit_test(live_alone_prefills_nothing_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
