/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/prfaas.h"

#include "tools/replay/prfaas_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *prfaas_mode_name(enum prfaas_mode mode)
{
	static const char *const names[] = { "strait", "none", "serial", "local" };

	return names[mode];
}

void prfaas_config_default(struct prfaas_config *cfg)
{
	*cfg = (struct prfaas_config){
		.block_tokens = 64,
		.block_bytes = UINT64_C(64) * 39875,
		.ranks = 1,
		.threshold_tokens = 19400,
		.cap_bps = UINT64_C(13000000000),
		.efficiency = 0.917, /* 1432/1538 of the line, 0.985 of that */
		.rtt_ns = 30000000,
		.deadline_ns = 1000000000,
		.serial_rtts = 2,
		.prefill = { .instances = 4,
			.tokens_per_s = 10000,
			.pool_bytes = UINT64_C(2) << 40 },
		.decode = { .instances = 8, .tokens_per_s = 2500, .pool_bytes = UINT64_C(2) << 40 },
	};
}

uint64_t prfaas_unit_bytes(const struct prfaas_config *cfg)
{
	return cfg->block_bytes * (PRFAAS_UNIT_TOKENS / cfg->block_tokens);
}

static int site_init(struct site *s, const struct prfaas_config *cfg,
	const struct prfaas_site_config *site)
{
	s->cfg = *site;
	s->free = site->instances;
	s->last = &s->first;
	return lru_init(&s->pool,
		cfg->keep_ns != 0 ? UINT64_MAX : site->pool_bytes / prfaas_unit_bytes(cfg),
		cfg->keep_ns);
}

struct prfaas *prfaas_create(const struct prfaas_config *cfg)
{
	struct prfaas *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->cfg = *cfg;
	if (site_init(&p->prefill, cfg, &cfg->prefill) == 0 &&
		site_init(&p->decode, cfg, &cfg->decode) == 0)
		return p;
	prfaas_destroy(p);
	errno = ENOMEM;
	return NULL;
}

void prfaas_destroy(struct prfaas *p)
{
	struct timeline_entry e;

	if (p == NULL)
		return;
	/* Only what the decode site sends back may still be under way. */
	while (timeline_take(&p->events, &e))
		if (e.kind == EVENT_READY || e.kind == EVENT_SENT || e.kind == EVENT_ARRIVED)
			(void)timeline_add(&p->wan[0].queue, 0, 0, e.what);
	prfaas_wan_fini(p);
	timeline_fini(&p->events);
	while (p->runs != NULL) {
		struct run *r = p->runs;

		p->runs = r->next;
		free(r->ids);
		free(r);
	}
	if (p->prefill.pool.slots != NULL)
		lru_fini(&p->prefill.pool);
	if (p->decode.pool.slots != NULL)
		lru_fini(&p->decode.pool);
	free(p->wait.v);
	free(p->ttft.v);
	free(p);
}

int samples_add(struct samples *s, double v)
{
	if (s->count == s->room) {
		size_t room = s->room * 2 + 1024;
		double *to = realloc(s->v, room * sizeof(*to));

		if (to == NULL)
			return -ENOMEM;
		s->v = to;
		s->room = room;
	}
	s->v[s->count++] = v;
	return 0;
}

/* Whole units of the prefix that are in the pool. The end of it is the first to be let go. */
static size_t prefix_use(struct lru *pool, const struct run *r, uint64_t now_ns)
{
	size_t n = 0;

	lru_tick(pool, now_ns);
	while (n < r->units && lru_has(pool, r->ids[n]))
		n++;
	for (size_t i = n; i-- > 0;)
		(void)lru_use(pool, r->ids[i], now_ns);
	return n;
}

static int pool_fill(struct lru *pool, const struct run *r, uint64_t now_ns)
{
	int ret = 0;

	for (size_t i = r->units; i-- > 0 && ret == 0;)
		ret = lru_add(pool, r->ids[i], now_ns);
	return ret;
}

static int run_done(struct prfaas *p, struct run *r)
{
	r->done = true;
	p->active--;
	p->done_ns = p->now_ns;
	return samples_add(&p->ttft, (double)(p->now_ns - r->arrived_ns) * 1e-9);
}

int prfaas_settle(struct prfaas *p, struct run *r)
{
	int ret;

	if (r->done || r->late || !r->ended || r->missing > 0)
		return 0;
	p->there += r->shipped;
	ret = samples_add(&p->wait, (double)(p->now_ns - r->ended_ns) * 1e-9);
	return ret < 0 ? ret : run_done(p, r);
}

/* The prefill site begins: all that the decode site has not got is to come from here. */
static int ship_all(struct prfaas *p, struct run *r, size_t hits, double ns_per_token)
{
	uint64_t tail = r->tokens - r->units * PRFAAS_UNIT_TOKENS, ready_ns, id;
	bool kept = p->cfg.mode != PRFAAS_NONE;
	int ret = 0;

	lru_tick(&p->decode.pool, p->now_ns);
	for (size_t i = 0; i < r->units && ret == 0; i++) {
		if (lru_use(&p->decode.pool, r->ids[i], p->now_ns))
			continue;
		ready_ns = p->now_ns;
		if (i >= hits)
			ready_ns += (uint64_t)((double)((i + 1 - hits) * PRFAAS_UNIT_TOKENS) *
				ns_per_token);
		id = kept ? r->ids[i] : UINT64_MAX - p->private_ids++;
		ret = prfaas_wan_ship(p, TO_DECODE, id, PRFAAS_UNIT_TOKENS, kept, ready_ns, r);
		r->shipped++;
	}
	if (ret == 0 && tail >= p->cfg.block_tokens) {
		ret = prfaas_wan_ship(p, TO_DECODE, UINT64_MAX - p->private_ids++, tail, false,
			r->ended_ns, r);
		r->shipped++;
	}
	return ret;
}

static int site_start(struct prfaas *p, struct site *s)
{
	double ns_per_token = 1e9 / s->cfg.tokens_per_s;
	int ret = 0;

	while (s->free > 0 && s->first != NULL && ret == 0) {
		struct run *r = s->first;
		size_t hits = prefix_use(&s->pool, r, p->now_ns);

		s->first = r->queued;
		s->last = s->first != NULL ? s->last : &s->first;
		s->free--;
		s->asked += r->units;
		s->hits += hits;
		r->ended_ns = p->now_ns +
			(uint64_t)((double)(r->tokens - hits * PRFAAS_UNIT_TOKENS) * ns_per_token);
		ret = timeline_add(&p->events, r->ended_ns, EVENT_PREFILLED, r);
		if (ret == 0 && r->at_prefill) {
			r->needed_ns = r->ended_ns + p->cfg.deadline_ns;
			ret = ship_all(p, r, hits, ns_per_token);
		}
	}
	return ret;
}

static int site_add(struct prfaas *p, struct site *s, struct run *r)
{
	r->queued = NULL;
	*s->last = r;
	s->last = &r->queued;
	return site_start(p, s);
}

/* What the decode site made may be the prefix of what the prefill site is asked for. */
static int ship_back(struct prfaas *p, const struct run *r)
{
	int ret = 0;

	if (p->cfg.mode != PRFAAS_STRAIT && p->cfg.mode != PRFAAS_SERIAL)
		return 0;
	for (size_t i = 0; i < r->units && ret == 0; i++)
		if (!lru_has(&p->prefill.pool, r->ids[i]) &&
			!prfaas_wan_has(p, TO_PREFILL, r->ids[i]))
			ret = prfaas_wan_ship(p, TO_PREFILL, r->ids[i], PRFAAS_UNIT_TOKENS, true,
				p->now_ns, NULL);
	return ret;
}

static int on_prefilled(struct prfaas *p, struct run *r)
{
	struct site *s = r->at_prefill ? &p->prefill : &p->decode;
	int ret = pool_fill(&s->pool, r, p->now_ns);

	s->free++;
	if (ret == 0 && r->at_prefill) {
		r->ended = true;
		ret = timeline_add(&p->events, r->needed_ns, EVENT_NEEDED, r);
		if (ret == 0)
			ret = prfaas_settle(p, r);
	} else if (ret == 0) {
		ret = ship_back(p, r);
		if (ret == 0)
			ret = run_done(p, r);
	}
	return ret < 0 ? ret : site_start(p, s);
}

static int on_needed(struct prfaas *p, struct run *r)
{
	if (r->done)
		return 0;
	r->late = true;
	r->at_prefill = false;
	p->there += r->shipped - r->missing;
	p->misses++;
	return site_add(p, &p->decode, r);
}

static int event_run(struct prfaas *p, const struct timeline_entry *e)
{
	p->now_ns = e->at_ns;
	switch (e->kind) {
	case EVENT_PREFILLED:
		return on_prefilled(p, e->what);
	case EVENT_NEEDED:
		return on_needed(p, e->what);
	case EVENT_READY:
		return prfaas_wan_ready(p, e->what);
	case EVENT_SENT:
		return prfaas_wan_sent(p, e->what);
	default:
		return prfaas_wan_arrived(p, e->what);
	}
}

static int run_until(struct prfaas *p, uint64_t now_ns)
{
	const struct timeline_entry *first;
	struct timeline_entry e;
	int ret = 0;

	while (ret == 0 && (first = timeline_first(&p->events)) != NULL && first->at_ns <= now_ns) {
		(void)timeline_take(&p->events, &e);
		ret = event_run(p, &e);
	}
	p->now_ns = now_ns;
	return ret;
}

int prfaas_request(struct prfaas *p, const struct replay_request *req)
{
	uint64_t now_ns = req->timestamp_ms * 1000000, fresh;
	struct run *r;
	int ret;

	if (req->timestamp_ms > UINT64_MAX / 2000000 || (p->requests > 0 && now_ns < p->now_ns))
		return -EINVAL;
	ret = run_until(p, now_ns);
	r = ret == 0 ? calloc(1, sizeof(*r)) : NULL;
	if (r == NULL)
		return -ENOMEM;
	r->next = p->runs;
	p->runs = r;
	r->arrived_ns = now_ns;
	r->tokens = req->input_tokens;
	r->units = req->input_tokens / PRFAAS_UNIT_TOKENS;
	if (r->units > req->id_count)
		r->units = req->id_count;
	r->ids = calloc(r->units + 1, sizeof(*r->ids));
	if (r->ids == NULL)
		return -ENOMEM;
	memcpy(r->ids, req->ids, r->units * sizeof(*r->ids));
	p->first_ns = p->requests++ == 0 ? now_ns : p->first_ns;
	p->active++;
	r->hits = prefix_use(&p->decode.pool, r, now_ns);
	p->units += r->units;
	p->hits += r->hits;
	fresh = r->tokens - r->hits * PRFAAS_UNIT_TOKENS;
	p->new_tokens += (double)fresh;
	if (p->cfg.mode == PRFAAS_LOCAL || fresh <= p->cfg.threshold_tokens)
		return site_add(p, &p->decode, r);
	r->at_prefill = true;
	p->remote++;
	p->remote_tokens += (double)fresh;
	return site_add(p, &p->prefill, r);
}

int prfaas_finish(struct prfaas *p, struct prfaas_result *out)
{
	struct timeline_entry e;
	int ret = 0;

	while (ret == 0 && p->active > 0 && timeline_take(&p->events, &e))
		ret = event_run(p, &e);
	if (ret == 0)
		prfaas_result_get(p, out);
	return ret;
}
