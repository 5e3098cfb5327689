/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/planner.h"

#include <errno.h>
#include <stdlib.h>

struct planner {
	struct index *index;
	struct wanted *wanted[INDEX_SITES];
	struct memory *evicted[INDEX_SITES], *brought[INDEX_SITES], *asked[INDEX_SITES];
	struct planner_policy policy[INDEX_SITES][INDEX_SITES];
	uint32_t to[INDEX_SITES];   /* bits of sites it may be shipped to */
	uint32_t from[INDEX_SITES]; /* and from */
	uint32_t held[INDEX_SITES]; /* and of those, from which nothing can come now */
	uint64_t present[INDEX_SITES], loading[INDEX_SITES]; /* objects with such a bit */
	uint32_t direct; /* bits of sites that load into what is present, as nothing was */
	struct planner_stats stats;
};

struct planner *planner_create(const struct planner_config *cfg)
{
	struct planner *p = calloc(1, sizeof(*p));
	bool ok;

	if (p == NULL)
		return NULL;
	p->index = index_create(cfg->keys);
	ok = p->index != NULL;
	for (int i = 0; i < INDEX_SITES && ok; i++) {
		p->wanted[i] = wanted_create(cfg->wanted_max);
		p->evicted[i] = memory_create(cfg->memory_entries, cfg->evicted_s);
		p->brought[i] = memory_create(cfg->memory_entries, cfg->echo_s);
		p->asked[i] = memory_create(cfg->memory_entries, cfg->asked_s);
		ok = p->wanted[i] != NULL && p->evicted[i] != NULL && p->brought[i] != NULL &&
			p->asked[i] != NULL;
	}
	if (ok)
		return p;
	planner_destroy(p);
	errno = ENOMEM;
	return NULL;
}

void planner_destroy(struct planner *p)
{
	if (p == NULL)
		return;
	for (int i = 0; i < INDEX_SITES; i++) {
		wanted_destroy(p->wanted[i]);
		memory_destroy(p->evicted[i]);
		memory_destroy(p->brought[i]);
		memory_destroy(p->asked[i]);
	}
	index_destroy(p->index);
	free(p);
}

struct index *planner_index(struct planner *p)
{
	return p->index;
}

struct wanted *planner_wanted(struct planner *p, uint16_t site)
{
	return p->wanted[site];
}

struct memory *planner_evicted(struct planner *p, uint16_t site)
{
	return p->evicted[site];
}

struct memory *planner_brought(struct planner *p, uint16_t site)
{
	return p->brought[site];
}

int planner_policy_set(struct planner *p, uint16_t from, uint16_t to,
	const struct planner_policy *policy)
{
	bool revoked;

	if (from >= INDEX_SITES || to >= INDEX_SITES || from == to ||
		policy->class >= WANTED_CLASSES)
		return -EINVAL;
	revoked = p->policy[from][to].allow && !policy->allow;
	p->policy[from][to] = *policy;
	p->to[from] &= ~(1u << to);
	p->from[to] &= ~(1u << from);
	if (policy->allow) {
		p->to[from] |= 1u << to;
		p->from[to] |= 1u << from;
	}
	if (revoked)
		planner_reroute(p, to);
	return 0;
}

static bool suits(const struct planner_policy *y, uint32_t size, uint16_t tenant)
{
	if (size != LOG_SIZE_UNKNOWN &&
		(size < y->least_bytes || (y->most_bytes > 0 && size > y->most_bytes)))
		return false;
	return y->tenants == 0 || (tenant < 64 && (y->tenants >> tenant & 1) != 0);
}

static bool passes(const struct planner_policy *y, const struct log_record *r)
{
	return suits(y, r->size, r->tenant);
}

/*
 * Where to take it from: as before, unless nothing can come from there and another site, whose
 * policy would have let it through at once, can serve. INDEX_SITES: nobody has it.
 */
static uint16_t source_of(const struct planner *p, uint16_t to, const struct wanted_object *o,
	uint64_t value)
{
	uint32_t can = (uint32_t)value & p->from[to] & ~(uint32_t)o->without;
	bool stays = (can >> o->from & 1) != 0;

	if (stays && (p->held[to] >> o->from & 1) == 0)
		return o->from;
	for (uint32_t left = can & ~p->held[to]; left != 0; left &= left - 1) {
		uint16_t from = (uint16_t)__builtin_ctz(left);
		const struct planner_policy *y = &p->policy[from][to];

		if (y->after == 0 && suits(y, o->size, o->tenant))
			return from;
	}
	if (stays || can == 0)
		return stays ? o->from : INDEX_SITES;
	return (uint16_t)__builtin_ctz(can);
}

uint16_t planner_source(const struct planner *p, uint16_t to, const struct wanted_object *o)
{
	return source_of(p, to, o, index_value(p->index, o->digest));
}

static void want(struct planner *p, uint16_t from, uint16_t to, const struct log_record *r,
	uint64_t value, uint64_t now_ns, uint64_t now_s)
{
	const struct wanted_object o = { .size = r->size, .tenant = r->tenant, .from = from };
	const struct planner_policy *y = &p->policy[from][to];

	if (!passes(y, r))
		p->stats.filtered++;
	else if (memory_get(p->evicted[to], r->digest, now_s) > 0)
		p->stats.suppressed++;
	else if (y->after > 0 && memory_get(p->asked[to], r->digest, now_s) < y->after)
		p->stats.unasked++;
	else if (wanted_add(p->wanted[to], r, source_of(p, to, &o, value), y->class, false,
			 now_ns) < 0)
		p->stats.refused++;
}

/* It is at a site now: every site it may go to gets it, or has it. */
static void offer(struct planner *p, uint16_t from, const struct log_record *r, uint64_t value,
	uint64_t now_ns, uint64_t now_s)
{
	uint32_t there = (uint32_t)(value & INDEX_PRESENT_MASK);

	for (uint32_t left = p->to[from]; left != 0; left &= left - 1) {
		uint16_t to = (uint16_t)__builtin_ctz(left);

		if ((there >> to & 1) == 0)
			want(p, from, to, r, value, now_ns, now_s);
		else if (r->set != 0 && passes(&p->policy[from][to], r))
			(void)wanted_have(p->wanted[to], r, now_ns);
	}
}

/*
 * It left a site: who waits for it from there takes it from another, or does without. Nobody waits
 * for what is there.
 */
static void withdraw(struct planner *p, uint16_t from, struct digest128 d, uint64_t value)
{
	for (uint32_t left = p->to[from] & ~(uint32_t)value; left != 0; left &= left - 1) {
		uint16_t to = (uint16_t)__builtin_ctz(left);
		uint32_t others = (uint32_t)value & p->from[to];

		if ((others & ~p->held[to]) != 0)
			others &= ~p->held[to];
		if (others == 0)
			wanted_del(p->wanted[to], d, false);
		else
			wanted_from(p->wanted[to], d, (uint16_t)__builtin_ctz(others));
	}
}

int planner_event(struct planner *p, uint16_t site, const struct log_record *r, uint64_t now_ns,
	uint64_t now_s)
{
	bool stored = r->op == LOG_STORED;
	uint64_t old, now;
	int ret = index_update(p->index, r->digest, stored ? UINT64_MAX : ~INDEX_PRESENT(site),
		stored ? INDEX_PRESENT(site) : 0, &old, &now);

	if (ret < 0)
		return ret;
	p->stats.events++;
	if (((old ^ now) & INDEX_PRESENT(site)) == 0)
		return 0;
	p->present[site] += stored ? 1 : UINT64_MAX;
	if (!stored) {
		/* What an engine drops, or holds alone from now on, was not evicted. */
		if ((r->flags & LOG_FLAG_FIXED) == 0)
			(void)memory_mark(p->evicted[site], r->digest, now_s);
		withdraw(p, site, r->digest, now & INDEX_PRESENT_MASK);
		return 1;
	}
	/* What nobody had is not wanted. */
	if ((old & INDEX_PRESENT_MASK) != 0)
		wanted_del(p->wanted[site], r->digest, true);
	if ((r->flags & LOG_FLAG_OURS) != 0 || memory_get(p->brought[site], r->digest, now_s) > 0)
		p->stats.echoes++;
	else if ((r->flags & LOG_FLAG_FIXED) != 0)
		p->stats.fixed++;
	else
		offer(p, site, r, now, now_ns, now_s);
	return 1;
}

/* Blindly: to look at what is there first, and fetch less then, took longer. */
void planner_prefetch(const struct planner *p, uint16_t site, const struct log_record *r)
{
	index_prefetch(p->index, r->digest);
	memory_prefetch(r->op == LOG_STORED ? p->brought[site] : p->evicted[site], r->digest);
	wanted_prefetch(p->wanted[site], r->digest);
	for (uint32_t left = p->to[site]; left != 0; left &= left - 1) {
		int to = __builtin_ctz(left);

		wanted_prefetch(p->wanted[to], r->digest);
		if (r->op == LOG_STORED)
			memory_prefetch(p->evicted[to], r->digest);
	}
}

/*
 * Into a generation of its own, which planner_swap() makes the present one in a walk over the whole
 * index. Of a site of which nothing is known, as of all after a start, there is nothing to keep
 * apart: its objects are present at once, and the walk is spared. Who reads the index knows from
 * the replica's state that they are not all yet.
 */
int planner_load(struct planner *p, uint16_t site, const struct log_record *r)
{
	bool stored = r->op == LOG_STORED;
	uint64_t old, now, bit;
	int ret;

	if (p->present[site] == 0 && p->loading[site] == 0)
		p->direct |= 1u << site;
	bit = p->direct >> site & 1 ? INDEX_PRESENT(site) : INDEX_LOADING(site);
	ret = index_update(p->index, r->digest, stored ? UINT64_MAX : ~bit, stored ? bit : 0, &old,
		&now);
	if (ret < 0 || ((old ^ now) & bit) == 0)
		return ret < 0 ? ret : 0;
	*(p->direct >> site & 1 ? &p->present[site] : &p->loading[site]) += stored ? 1 : UINT64_MAX;
	return 1;
}

struct swap {
	uint64_t loading, present;
	uint32_t first, last;
	bool drop;
	uint64_t present_more, loading_more; /* modulo 2^64 */
};

static uint64_t swap_one(const struct index_entry *e, void *ctx)
{
	struct swap *s = ctx;
	uint64_t v = e->value;

	if (s->drop)
		v &= ~s->loading;
	else if (e->bucket >= s->first && e->bucket <= s->last)
		v = v & s->loading ? (v & ~s->loading) | s->present : v & ~s->present;
	s->present_more += ((v & s->present) != 0) - (uint64_t)((e->value & s->present) != 0);
	s->loading_more += ((v & s->loading) != 0) - (uint64_t)((e->value & s->loading) != 0);
	return v;
}

static void swap(struct planner *p, uint16_t site, uint32_t first, uint32_t last, bool drop)
{
	struct swap s = { INDEX_LOADING(site), INDEX_PRESENT(site), first, last, drop, 0, 0 };
	bool direct = (p->direct >> site & 1) != 0;

	p->direct &= ~(1u << site);
	if (direct ? !drop : p->loading[site] == 0 && (drop || p->present[site] == 0))
		return;
	if (direct)
		s.loading = s.present; /* all of it was loaded */
	for (uint32_t i = index_shard_of_bucket(p->index, first);
		i <= index_shard_of_bucket(p->index, last); i++)
		index_scan(p->index, i, swap_one, &s);
	p->present[site] += s.present_more;
	if (!direct)
		p->loading[site] += s.loading_more;
}

struct sweep {
	const struct planner *p;
	uint16_t to;
};

static enum wanted_verdict judge(const struct wanted_object *o, uint16_t *from, void *ctx)
{
	const struct sweep *s = ctx;
	uint64_t value = index_value(s->p->index, o->digest);

	if ((value & INDEX_PRESENT(s->to)) != 0)
		return WANTED_HERE;
	*from = source_of(s->p, s->to, o, value);
	return *from < INDEX_SITES ? WANTED_KEEP : WANTED_GONE;
}

void planner_hold(struct planner *p, uint16_t to, uint32_t sources)
{
	p->held[to] = sources;
	wanted_hold_from(p->wanted[to], sources);
}

void planner_reroute(struct planner *p, uint16_t to)
{
	struct sweep s = { p, to };
	struct wanted_stats st;

	wanted_stats_get(p->wanted[to], &st);
	if (st.objects + st.waiting > 0)
		wanted_sweep(p->wanted[to], 0, DIGEST_BUCKETS - 1, judge, &s);
}

void planner_swap(struct planner *p, uint16_t site, uint32_t first, uint32_t last)
{
	swap(p, site, first, last, false);
	/* The index knows too little of what went to name it; what is wanted is less, anyway. */
	for (uint16_t to = 0; to < INDEX_SITES; to++) {
		struct sweep s = { p, to };

		wanted_sweep(p->wanted[to], first, last, judge, &s);
	}
}

void planner_drop(struct planner *p, uint16_t site)
{
	bool direct = (p->direct >> site & 1) != 0;

	swap(p, site, 0, DIGEST_BUCKETS - 1, true);
	/* What was loaded counted as there, and who else had it may have lost it since. */
	if (direct)
		planner_reroute(p, site);
}

struct forget {
	const uint64_t *buckets;
	uint64_t bit, n;
};

static uint64_t forget_one(const struct index_entry *e, void *ctx)
{
	struct forget *f = ctx;

	if ((e->value & f->bit) == 0 || !digest_set_has(f->buckets, e->bucket))
		return e->value;
	f->n++;
	return e->value & ~f->bit;
}

void planner_forget(struct planner *p, uint16_t site,
	const uint64_t buckets[static DIGEST_SET_WORDS])
{
	bool direct = (p->direct >> site & 1) != 0;
	struct forget f = { buckets, direct ? INDEX_PRESENT(site) : INDEX_LOADING(site), 0 };
	uint32_t next = 0;

	for (uint32_t b = 0; b < DIGEST_BUCKETS; b++) {
		uint32_t shard = index_shard_of_bucket(p->index, b);

		if (shard < next || !digest_set_has(buckets, b))
			continue;
		index_scan(p->index, shard, forget_one, &f);
		next = shard + 1;
	}
	*(direct ? &p->present[site] : &p->loading[site]) -= f.n;
}

bool planner_fits(struct planner *p, uint16_t from, uint16_t to, uint64_t bytes)
{
	const struct planner_policy *y = &p->policy[from][to];
	bool fits = bytes >= y->least_bytes && (y->most_bytes == 0 || bytes <= y->most_bytes);

	p->stats.filtered += !fits;
	return fits;
}

void planner_bringing(struct planner *p, uint16_t site, struct digest128 d, uint64_t now_s)
{
	(void)memory_mark(p->brought[site], d, now_s);
	memory_forget(p->evicted[site], d);
}

/* From one of these, where a policy allows it. */
static bool asked_of(struct planner *p, uint32_t sources, uint16_t site, const struct log_record *r,
	uint32_t asked, bool urgent, uint64_t now_ns)
{
	for (uint32_t left = sources; left != 0; left &= left - 1) {
		uint16_t from = (uint16_t)__builtin_ctz(left);
		const struct planner_policy *y = &p->policy[from][site];

		if (!passes(y, r) || (!urgent && (y->after == 0 || asked < y->after)))
			continue;
		memory_forget(p->evicted[site], r->digest);
		if (wanted_add(p->wanted[site], r, from, urgent ? WANTED_URGENT : y->class, true,
			    now_ns) == 0)
			return true;
		p->stats.refused++;
	}
	return false;
}

bool planner_asked(struct planner *p, uint16_t site, const struct log_record *r, bool urgent,
	uint64_t now_ns, uint64_t now_s)
{
	uint32_t asked = memory_mark(p->asked[site], r->digest, now_s);
	uint32_t there = (uint32_t)(index_value(p->index, r->digest) & INDEX_PRESENT_MASK);
	uint32_t can = there & p->from[site];

	if ((there >> site & 1) != 0)
		return false;
	return asked_of(p, can & ~p->held[site], site, r, asked, urgent, now_ns) ||
		asked_of(p, can & p->held[site], site, r, asked, urgent, now_ns);
}

void planner_backfill(struct planner *p, uint16_t from, const struct log_record *r, uint64_t now_ns,
	uint64_t now_s)
{
	uint64_t value = index_value(p->index, r->digest);

	if ((value & INDEX_PRESENT(from)) != 0 &&
		memory_get(p->brought[from], r->digest, now_s) == 0)
		offer(p, from, r, value, now_ns, now_s);
}

void planner_stats_get(const struct planner *p, struct planner_stats *out)
{
	*out = p->stats;
}
