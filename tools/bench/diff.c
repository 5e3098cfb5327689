/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/planner.h"
#include "tools/bench/host.h"
#include "tools/bench/keys.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Events of two sites through the planner, each wanting what the other has: one stores, the other
 * gets what it wants a little later, the oldest are evicted at both. Beside it the same events into
 * the index alone, and the same at a hundredth of the keys: what an event adds must not depend on
 * how many keys there are.
 */

enum {
	BURST = 64,
	STEP = 1024,
	LAG = 4096, /* events until the other site has it */
	WANTED_MAX = 1 << 20,
};

#define T UINT64_C(1800000000)

struct load {
	struct planner *planner;
	struct index *alone;
	uint64_t keys, next;
};

static struct log_record record(uint64_t n, bool stored)
{
	return (struct log_record){ .digest = keys_digest(n),
		.size = 1 << 20,
		.op = stored ? LOG_STORED : LOG_REMOVED };
}

/* The i-th event of a step: the oldest goes from both sites, one comes to 0, an older one to 1. */
static struct log_record event(const struct load *l, uint64_t step, int i, uint16_t *site)
{
	*site = (uint16_t)(i & 1);
	switch (i) {
	case 0:
	case 1:
		return record(step - l->keys, false);
	case 2:
		return record(step, true);
	default:
		return record(step - LAG, true);
	}
}

static int apply(struct load *l, const struct log_record *r, uint16_t site, uint64_t now_ns)
{
	uint64_t bit = INDEX_PRESENT(site);
	bool stored = r->op == LOG_STORED;

	if (l->planner != NULL)
		return planner_event(l->planner, site, r, now_ns, T + now_ns / 1000000000);
	return index_update(l->alone, r->digest, stored ? UINT64_MAX : ~bit, stored ? bit : 0, NULL,
		NULL);
}

static struct index *index_of(struct load *l)
{
	return l->planner != NULL ? planner_index(l->planner) : l->alone;
}

/* A step's events are made before the clock runs: they come out of frames otherwise. */
static int step(struct load *l, uint64_t *spent)
{
	struct log_record r[STEP];
	uint16_t site[STEP];
	uint64_t start;
	int ret = 0;

	for (int i = 0; i < STEP; i++)
		r[i] = event(l, l->next + (uint64_t)i / 4, i % 4, &site[i]);
	start = host_cpu_ns();
	for (int at = 0; at < STEP && ret >= 0; at += BURST) {
		for (int i = at; i < at + BURST; i++) {
			if (l->planner != NULL)
				planner_prefetch(l->planner, site[i], &r[i]);
			else
				index_prefetch(l->alone, r[i].digest);
		}
		for (int i = at; i < at + BURST && ret >= 0; i++)
			ret = apply(l, &r[i], site[i], l->next * 1000);
	}
	*spent += host_cpu_ns() - start;
	l->next += STEP / 4;
	return ret;
}

static int load_run(struct load *l, double seconds, double *mops)
{
	uint64_t spent = 0, done = 0;
	int ret = 0;

	do {
		ret = step(l, &spent);
		done += STEP;
	} while ((double)spent < seconds * 1e9 && ret >= 0);
	*mops = (double)done * 1e3 / (double)spent;
	return ret < 0 ? ret : 0;
}

static void load_fini(struct load *l)
{
	planner_destroy(l->planner);
	index_destroy(l->alone);
}

/* Objects first .. first + n - 1, at both sites but for the newest. */
static int fill(struct load *l, uint64_t first, uint64_t n)
{
	struct digest128 d[BURST];
	int ret = 0;

	for (uint64_t i = 0; i < n; i++) {
		d[i] = keys_digest(first + i);
		index_prefetch(index_of(l), d[i]);
	}
	for (uint64_t i = 0; i < n && ret >= 0; i++)
		ret = index_update(index_of(l), d[i], UINT64_MAX,
			INDEX_PRESENT(0) | (first + i + LAG < l->keys ? INDEX_PRESENT(1) : 0), NULL,
			NULL);
	return ret;
}

static int load_init(struct load *l, uint64_t keys, bool planned)
{
	static const struct planner_policy policy = { .allow = true, .class = WANTED_NORMAL };
	const struct planner_config cfg = { .keys = keys,
		.wanted_max = WANTED_MAX,
		.memory_entries = 1 << 20,
		.evicted_s = 600,
		.echo_s = 86400,
		.asked_s = 3600 };
	int ret = 0;

	*l = (struct load){ .keys = keys, .next = keys };
	if (planned) {
		l->planner = planner_create(&cfg);
		if (l->planner == NULL)
			return -ENOMEM;
		ret = planner_policy_set(l->planner, 0, 1, &policy);
		ret |= planner_policy_set(l->planner, 1, 0, &policy);
	} else {
		l->alone = index_create(keys);
		if (l->alone == NULL)
			return -ENOMEM;
	}
	for (uint64_t at = 0; at < keys && ret >= 0; at += BURST)
		ret = fill(l, at, keys - at < BURST ? keys - at : BURST);
	return ret;
}

int diff_run(const struct bench_options *o, struct result *r)
{
	struct load planned = { 0 }, alone = { 0 }, small = { 0 };
	uint64_t few = o->keys / 100 > 4 * LAG ? o->keys / 100 : 4 * LAG;
	uint64_t many = o->keys > 4 * LAG ? o->keys : 4 * LAG;
	struct wanted_stats st;
	int ret = load_init(&planned, many, true);

	if (ret == 0)
		ret = load_init(&alone, many, false);
	if (ret == 0)
		ret = load_init(&small, few, true);
	for (uint32_t i = 0; i < o->runs && ret == 0; i++) {
		double mops, index_mops, small_mops;

		ret = load_run(&planned, o->seconds, &mops);
		if (ret == 0)
			ret = load_run(&alone, o->seconds, &index_mops);
		if (ret == 0)
			ret = load_run(&small, o->seconds, &small_mops);
		if (ret < 0)
			break;
		result_add(r, "mops", mops);
		result_add(r, "ceiling", index_mops);
		result_add(r, "ratio", mops / index_mops);
		result_add(r, "added_ns", 1e3 / mops - 1e3 / index_mops);
		result_add(r, "few_keys_mops", small_mops);
	}
	if (ret == 0) {
		wanted_stats_get(planner_wanted(planned.planner, 1), &st);
		result_add(r, "wanted", (double)st.objects);
		/* What was stored at 0 and has not come to 1 yet, and nothing else. */
		if (st.objects > LAG)
			ret = -EBADMSG;
	}
	load_fini(&planned);
	load_fini(&alone);
	load_fini(&small);
	return ret;
}
