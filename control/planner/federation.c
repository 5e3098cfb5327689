/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/federation.h"

#include <errno.h>
#include <stdlib.h>

enum { FAILURES = 1 << 14, FAILURES_S = 86400, ASKED_S = 600, RATE_S = 10 };
#define SECOND UINT64_C(1000000000)
/* A set that does not become whole in an hour never will. */
#define SET_NS (3600 * SECOND)

struct federation *federation_create(const struct federation_config *cfg,
	const struct federation_ops *ops, void *ctx)
{
	struct federation *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	f->ops = ops;
	f->ctx = ctx;
	f->compare_every_ns = cfg->compare_every_ns;
	f->seed = cfg->seed;
	f->next_batch = 1;
	f->planner = planner_create(&cfg->planner);
	if (f->planner != NULL)
		return f;
	free(f);
	errno = ENOMEM;
	return NULL;
}

void federation_destroy(struct federation *f)
{
	if (f == NULL)
		return;
	federation_batches_free(f);
	for (int i = 0; i < INDEX_SITES; i++) {
		if (f->site[i].used)
			reader_fini(&f->site[i].reader);
		memory_destroy(f->failures[i]);
		memory_destroy(f->asked[i]);
	}
	planner_destroy(f->planner);
	free(f);
}

/* What a replica does goes to the planner, with the federation's numbers of tenants. */

static struct log_record translated(const struct federation_site *s, const struct log_record *r)
{
	struct log_record out = *r;

	/* the reader checks nothing about tenants: one that was not told is nobody's */
	out.tenant = r->tenant < s->tenants ? s->tenant[r->tenant] : UINT16_MAX;
	return out;
}

static uint16_t slot_of(const struct federation_site *s)
{
	return (uint16_t)(s - s->f->site);
}

static int on_event(void *ctx, const struct log_record *r)
{
	struct federation_site *s = ctx;
	struct log_record mine = translated(s, r);
	int rc = planner_event(s->f->planner, slot_of(s), &mine, s->f->now_ns, s->f->now_s);

	/* not what a source lost when it began anew, nor what somebody deleted */
	if (rc > 0 && r->op == LOG_REMOVED && (r->flags & LOG_FLAG_EVICTED) != 0)
		turnover_removed(&s->turnover);
	/* It came after all. Few sites ever have a failure, and this is another cache miss. */
	if (rc > 0 && r->op == LOG_STORED && s->flow.failed > 0)
		memory_forget(s->f->failures[slot_of(s)], r->digest);
	return rc;
}

static int on_load(void *ctx, const struct log_record *r)
{
	struct federation_site *s = ctx;

	return planner_load(s->f->planner, slot_of(s), r);
}

static void on_swap(void *ctx, uint32_t first, uint32_t last)
{
	struct federation_site *s = ctx;

	planner_swap(s->f->planner, slot_of(s), first, last);
}

static void on_drop(void *ctx)
{
	struct federation_site *s = ctx;

	planner_drop(s->f->planner, slot_of(s));
}

static void on_forget(void *ctx, const uint64_t *buckets)
{
	struct federation_site *s = ctx;

	planner_forget(s->f->planner, slot_of(s), buckets);
}

static void on_prefetch(void *ctx, const struct log_record *r, bool load)
{
	struct federation_site *s = ctx;

	if (load)
		index_prefetch(planner_index(s->f->planner), r->digest);
	else
		planner_prefetch(s->f->planner, slot_of(s), r);
}

static const struct replica_sink sink = { on_event, on_load, on_swap, on_drop, on_forget,
	on_prefetch };

int federation_site_add(struct federation *f, uint16_t slot)
{
	struct federation_site *s;

	if (slot >= INDEX_SITES || f->site[slot].used)
		return -EINVAL;
	s = &f->site[slot];
	*s = (struct federation_site){ .f = f, .window = 1, .pause_ns = FEDERATION_PAUSE_NS };
	if (f->failures[slot] == NULL)
		f->failures[slot] = memory_create(FAILURES, FAILURES_S);
	if (f->asked[slot] == NULL)
		f->asked[slot] = memory_create(FAILURES, ASKED_S);
	if (f->failures[slot] == NULL || f->asked[slot] == NULL ||
		reader_init(&s->reader, &sink, s, f->compare_every_ns, f->seed + slot) < 0)
		return -ENOMEM;
	s->used = true;
	return 0;
}

void federation_site_del(struct federation *f, uint16_t slot)
{
	struct federation_site *s = &f->site[slot];
	const struct planner_policy none = { .allow = false };

	if (slot >= INDEX_SITES || !s->used)
		return;
	if (s->open)
		federation_close(f, slot, f->now_ns);
	for (uint16_t i = 0; i < INDEX_SITES; i++) {
		(void)planner_policy_set(f->planner, i, slot, &none);
		(void)planner_policy_set(f->planner, slot, i, &none);
	}
	planner_drop(f->planner, slot);
	planner_swap(f->planner, slot, 0, DIGEST_BUCKETS - 1);
	reader_fini(&s->reader);
	s->used = false;
}

int federation_policy_set(struct federation *f, uint16_t from, uint16_t to,
	const struct planner_policy *policy, uint64_t ttl_ns)
{
	int rc = planner_policy_set(f->planner, from, to, policy);

	if (rc < 0)
		return rc;
	f->ttl_ns[from][to] = ttl_ns;
	f->ttl_by_age[from][to] = policy->ttl_by_age;
	f->pause_below_ns[from][to] = policy->allow ? policy->pause_below_ns : 0;
	return 0;
}

void federation_open(struct federation *f, uint16_t slot, const uint16_t *tenants, uint32_t n,
	uint64_t now_ns)
{
	struct federation_site *s = &f->site[slot];

	s->tenants = n < FEDERATION_TENANTS ? n : FEDERATION_TENANTS;
	for (uint32_t i = 0; i < s->tenants; i++)
		s->tenant[i] = tenants[i];
	s->open = true;
	s->window = 1;
	s->pause_until_ns = 0;
	reader_open(&s->reader, now_ns);
}

void federation_close(struct federation *f, uint16_t slot, uint64_t now_ns)
{
	struct federation_site *s = &f->site[slot];

	if (!s->open)
		return;
	f->now_ns = now_ns;
	s->open = s->loading = s->backfilling = s->backfill_due = false;
	reader_close(&s->reader, now_ns);
	federation_batches_closed(f, slot);
}

/* What is walked is offered to others as if it had just appeared. */
static int walked(struct federation *f, uint16_t slot, const struct log_frame *frame)
{
	struct federation_site *s = &f->site[slot];
	struct log_record *r = malloc((frame->n + 1) * sizeof(*r));
	int rc = r != NULL ? log_frame_records(frame, r) : -ENOMEM;

	if (rc == 0 && !s->backfilling)
		rc = -EPROTO;
	for (uint32_t i = 0; i < frame->n && rc == 0; i++) {
		struct log_record mine = translated(s, &r[i]);

		if ((mine.flags & (LOG_FLAG_OURS | LOG_FLAG_FIXED)) != 0)
			continue;
		planner_backfill(f->planner, slot, &mine, f->now_ns, f->now_s);
		s->backfilled++;
	}
	free(r);
	if (frame->bucket == DIGEST_BUCKETS - 1)
		s->backfilling = false;
	return rc;
}

int federation_input(struct federation *f, uint16_t slot, const uint8_t *buf, size_t len,
	uint64_t now_ns, uint64_t now_s)
{
	struct federation_site *s = &f->site[slot];
	struct log_frame frame;
	int rc = log_frame_decode(buf, len, &frame);

	f->now_ns = now_ns;
	f->now_s = now_s;
	if (rc < 0 || !s->open)
		return -EPROTO;
	if (frame.type == LOG_FRAME_WALKED)
		return walked(f, slot, &frame);
	rc = reader_input(&s->reader, buf, len, now_ns);
	if (s->reader.replica.state == REPLICA_LIVE)
		s->loading = false;
	return rc;
}

static bool may_load(const struct federation *f)
{
	int n = 0;

	for (int i = 0; i < INDEX_SITES; i++)
		n += f->site[i].used && f->site[i].loading;
	return n < FEDERATION_LOADS;
}

bool federation_pull(struct federation *f, uint16_t slot, uint64_t now_ns,
	uint8_t buf[static LOG_FRAME_HEADER_BYTES])
{
	struct log_frame walk = { .type = LOG_FRAME_WALK, .n = DIGEST_BUCKETS };
	struct federation_site *s = &f->site[slot];

	if (!s->open)
		return false;
	/* One that was live before goes on with events, as a rule. */
	if (s->reader.due_resume && s->reader.replica.state != REPLICA_STALE && !s->loading) {
		if (!may_load(f)) {
			s->reader.heard_ns = now_ns; /* we are silent, not they */
			return false;
		}
		s->loading = true;
	}
	if (reader_pull(&s->reader, now_ns, buf))
		return true;
	if (!s->backfill_due || s->reader.replica.state != REPLICA_LIVE)
		return false;
	s->backfill_due = false;
	s->backfilling = true;
	log_frame_header_encode(buf, &walk);
	return true;
}

int federation_backfill(struct federation *f, uint16_t slot)
{
	struct federation_site *s = &f->site[slot];

	if (!s->open)
		return -ENOTCONN;
	if (s->backfill_due || s->backfilling)
		return -EALREADY;
	s->backfill_due = true;
	s->backfilled = 0;
	return 0;
}

bool federation_asked(struct federation *f, uint16_t slot, struct digest128 d, uint16_t tenant,
	bool urgent, uint64_t now_ns, uint64_t now_s)
{
	struct log_record r = { .digest = d, .tenant = tenant, .op = LOG_STORED };

	f->now_ns = now_ns;
	f->now_s = now_s;
	if (!planner_asked(f->planner, slot, &r, urgent, now_ns, now_s))
		return false;
	memory_forget(f->failures[slot], d);
	(void)memory_mark(f->asked[slot], d, now_s);
	return true;
}

size_t federation_quarantined(const struct federation *f, uint16_t slot, uint64_t now_s)
{
	return memory_count(f->failures[slot], FEDERATION_POISON, now_s);
}

bool federation_eta_ms(const struct federation *f, uint16_t slot, uint64_t *ms)
{
	const struct federation_flow *w = &f->site[slot].flow;
	struct wanted_stats st;
	uint64_t bytes;

	wanted_stats_get(planner_wanted(f->planner, slot), &st);
	bytes = st.bytes + w->flying_bytes;
	if (bytes == 0 || w->rate_bps == 0)
		return false;
	*ms = (uint64_t)((double)bytes * 8000 / (double)w->rate_bps) + 1;
	return true;
}

/* Whether what comes to a site in bulk would only push out what is of use. */
static bool evicts_early(const struct federation *f, uint16_t to)
{
	uint64_t least_ns = 0;

	for (uint16_t from = 0; from < INDEX_SITES; from++)
		if (f->pause_below_ns[from][to] > least_ns)
			least_ns = f->pause_below_ns[from][to];
	return f->site[to].eviction_age_ns != 0 && f->site[to].eviction_age_ns < least_ns;
}

/* Goodput towards a site, smoothed over about ten seconds of work. */
static void measure(struct federation_site *s, uint64_t now_ns)
{
	uint64_t bytes = s->flow.brought_bytes - s->rate_bytes, ns = now_ns - s->rate_ns;
	uint64_t bps;

	if (s->rate_ns != 0 && ns < SECOND)
		return;
	turnover_look(&s->turnover, now_ns);
	s->eviction_age_ns = turnover_age_ns(&s->turnover, s->reader.replica.sums->total.count);
	bps = s->rate_ns != 0 && ns > 0 ? (uint64_t)((double)bytes * 8e9 / (double)ns) : 0;
	if (s->flow.rate_bps == 0)
		s->flow.rate_bps = bps;
	else if (bytes > 0 || s->flow.flying > 0)
		s->flow.rate_bps = (s->flow.rate_bps * (RATE_S - 1) + bps) / RATE_S;
	s->rate_bytes = s->flow.brought_bytes;
	s->rate_ns = now_ns;
}

/* Its sources began anew: all that it had is missed at once. */
static void look_whether_emptied(struct federation_site *s)
{
	bool holds = s->reader.replica.sums->total.count > 0;

	if (s->held && !holds)
		s->window = 1;
	s->held = holds;
}

void federation_tick(struct federation *f, uint64_t now_ns, uint64_t now_s)
{
	f->now_ns = now_ns;
	f->now_s = now_s;
	for (uint16_t i = 0; i < INDEX_SITES; i++) {
		struct federation_site *s = &f->site[i];

		if (!s->used)
			continue;
		measure(s, now_ns);
		look_whether_emptied(s);
		s->flow.paused = now_ns < s->pause_until_ns;
		s->flow.bulk_held = evicts_early(f, i);
		wanted_hold(planner_wanted(f->planner, i), WANTED_BULK, s->flow.bulk_held);
		if (now_ns > SET_NS)
			(void)wanted_expire(planner_wanted(f->planner, i), now_ns - SET_NS);
	}
	federation_dispatch(f);
}
