/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/planner/federation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

/*
 * The world of federation's tests: sites whose logs are written by hand; what the federation asks
 * for is noted.
 */

enum { NOW_S = 1700000000, A = 0, B = 1, C = 2 };
#define SECOND UINT64_C(1000000000)

struct world {
	struct federation *f;
	uint64_t now_ns, seq[3];
	/* what was asked for last */
	uint64_t expand, answered, offer, orders;
	uint16_t expand_from, offer_to;
	size_t n;
	bool asked, deaf, no_edge;
	uint32_t away; /* sources without an edge */
	struct digest128 d[FEDERATION_BATCH];
	struct federation_order order;
	unsigned int expands, nowhere;
};

static inline bool on_expand(void *ctx, uint16_t from, uint64_t batch, const struct digest128 *d,
	size_t n)
{
	struct world *w = ctx;

	w->expand = batch;
	w->expand_from = from;
	w->n = n;
	w->expands++;
	memcpy(w->d, d, n * sizeof(*d));
	return !w->deaf;
}

static inline bool on_offer(void *ctx, uint16_t to, uint64_t batch, const struct digest128 *d,
	size_t n, bool asked)
{
	struct world *w = ctx;

	assert_int_equal(n, w->n);
	assert_memory_equal(d, w->d, n * sizeof(*d));
	w->offer = batch;
	w->offer_to = to;
	w->asked = asked;
	return true;
}

static inline uint64_t on_submit(void *ctx, const struct federation_order *o)
{
	struct world *w = ctx;

	w->order = *o;
	return ++w->orders;
}

static inline bool on_can_ship(void *ctx, uint16_t from, uint16_t to)
{
	const struct world *w = ctx;

	assert_int_not_equal(from, to);
	return !w->no_edge && (w->away >> from & 1) == 0;
}

static inline void on_nowhere(void *ctx, uint16_t to, const struct digest128 *d, size_t n)
{
	struct world *w = ctx;

	assert_int_equal(to, B);
	assert_in_range(n, 1, w->n);
	for (size_t i = 0; i < n; i++)
		assert_true(digest_equal(d[i], w->d[i]));
	w->nowhere += (unsigned int)n;
}

static const struct federation_ops ops = { on_expand, on_offer, on_submit, on_can_ship,
	on_nowhere };

static inline struct digest128 digest(uint32_t n)
{
	return (struct digest128){ (n + 1) * UINT64_C(0x9e3779b97f4a7c15),
		(n + 1) * UINT64_C(0xbf58476d1ce4e5b9) };
}

static inline int input(struct world *w, uint16_t site, const struct log_frame *h,
	const struct log_record *r, uint32_t n)
{
	uint8_t buf[LOG_FRAME_HEADER_BYTES + 300 * LOG_RECORD_BYTES];
	struct log_frame f = *h;

	f.n = n;
	f.epoch = 7;
	log_frame_header_encode(buf, &f);
	for (uint32_t i = 0; i < n; i++)
		log_record_encode(buf + LOG_FRAME_HEADER_BYTES + i * LOG_RECORD_BYTES, &r[i]);
	return federation_input(w->f, site, buf, log_frame_bytes(f.type, n), w->now_ns, NOW_S);
}

/* Register an empty site and load its empty snapshot. */
static inline void bring_up(struct world *w, uint16_t site)
{
	static const uint16_t tenants[] = { 5 };
	uint8_t head[LOG_FRAME_HEADER_BYTES];
	struct log_frame f = { .type = LOG_FRAME_SNAPSHOT };

	federation_open(w->f, site, tenants, 1, w->now_ns);
	assert_true(federation_pull(w->f, site, w->now_ns, head));
	assert_int_equal(input(w, site, &f, NULL, 0), 0);
	f = (struct log_frame){ .type = LOG_FRAME_BUCKETS, .bucket = DIGEST_BUCKETS - 1 };
	assert_int_equal(input(w, site, &f, NULL, 0), 0);
	f = (struct log_frame){ .type = LOG_FRAME_END };
	assert_int_equal(input(w, site, &f, NULL, 0), 0);
	assert_int_equal(w->f->site[site].reader.replica.state, REPLICA_LIVE);
}

static inline void happens_so(struct world *w, uint16_t site, uint32_t object, uint8_t op,
	uint8_t flags)
{
	struct log_record r = { .digest = digest(object), .size = 1000, .op = op, .flags = flags };
	struct log_frame f = { .type = LOG_FRAME_EVENTS, .seq = ++w->seq[site] };

	assert_int_equal(input(w, site, &f, &r, 1), 0);
}

static inline void happens(struct world *w, uint16_t site, uint32_t object, uint8_t op)
{
	happens_so(w, site, object, op, op == LOG_REMOVED ? LOG_FLAG_EVICTED : 0);
}

static inline void tick(struct world *w, uint64_t seconds)
{
	w->now_ns += seconds * SECOND;
	federation_tick(w->f, w->now_ns, NOW_S);
}

static inline void expanded(struct world *w, bool there)
{
	struct federation_key k[FEDERATION_BATCH];

	for (size_t i = 0; i < w->n; i++)
		k[i] = (struct federation_key){ (const uint8_t *)"key", NULL, there ? 3 : 0, 0, 0 };
	assert_int_equal(federation_expanded(w->f, w->expand_from, w->expand, k, w->n, w->now_ns,
				 NOW_S),
		0);
}

static inline void offered(struct world *w, uint8_t verdict)
{
	uint8_t v[FEDERATION_BATCH];

	memset(v, verdict, sizeof(v));
	assert_int_equal(federation_offered(w->f, B, w->offer, v, w->n, w->now_ns, NOW_S), 0);
}

static inline void ended(struct world *w, uint8_t end)
{
	uint64_t lengths[FEDERATION_BATCH] = { 0 };
	uint8_t ends[FEDERATION_BATCH];

	memset(ends, end, sizeof(ends));
	federation_ended(w->f, w->orders, ends, lengths, w->order.count, w->now_ns, NOW_S);
}

static inline uint64_t wanted(struct world *w)
{
	struct wanted_stats st;

	wanted_stats_get(planner_wanted(w->f->planner, B), &st);
	return st.objects;
}

static inline void create(struct world *w, uint64_t ttl_ns)
{
	struct federation_config cfg = { .planner = { .keys = 1000,
						 .wanted_max = 10000,
						 .memory_entries = 10000,
						 .evicted_s = 100,
						 .echo_s = 1000,
						 .asked_s = 100 },
		.compare_every_ns = 1000 * SECOND };
	struct planner_policy p = { .allow = true, .class = WANTED_NORMAL };

	memset(w, 0, sizeof(*w));
	w->now_ns = 1000 * SECOND;
	w->f = federation_create(&cfg, &ops, w);
	assert_non_null(w->f);
	assert_int_equal(federation_site_add(w->f, A), 0);
	assert_int_equal(federation_site_add(w->f, B), 0);
	assert_int_equal(federation_policy_set(w->f, A, B, &p, ttl_ns), 0);
	bring_up(w, A);
	bring_up(w, B);
}

static inline int setup(void **state)
{
	static struct world w;

	create(&w, 0);
	*state = &w;
	return 0;
}

static inline int teardown(void **state)
{
	struct world *w = *state;

	federation_destroy(w->f);
	return 0;
}

static inline void add_c(struct world *w)
{
	struct planner_policy p = { .allow = true, .class = WANTED_NORMAL };

	assert_int_equal(federation_site_add(w->f, C), 0);
	assert_int_equal(federation_policy_set(w->f, C, B, &p, 0), 0);
	bring_up(w, C);
}

static inline void tick_soon(struct world *w)
{
	w->now_ns += SECOND / 10;
	federation_tick(w->f, w->now_ns, NOW_S);
}
