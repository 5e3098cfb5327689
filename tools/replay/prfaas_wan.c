/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/prfaas_private.h"

#include <errno.h>
#include <stdlib.h>

static struct ship **find(struct wan *w, uint64_t id)
{
	struct ship **s = &w->by_id[(id * UINT64_C(0x9e3779b97f4a7c15)) >> 48];

	while (*s != NULL && (*s)->id != id)
		s = &(*s)->chain;
	return s;
}

static void ship_put(struct ship *s)
{
	if (--s->refs > 0 || !s->over)
		return;
	while (s->waiters != NULL) {
		struct waiter *w = s->waiters;

		s->waiters = w->next;
		free(w);
	}
	free(s);
}

/* Nobody can join any more. */
static void ship_end(struct prfaas *p, struct ship *s)
{
	struct ship **at = find(&p->wan[s->direction], s->id);

	if (*at == s)
		*at = s->chain;
	s->over = true;
}

static int ship_join(struct ship *s, struct run *run)
{
	struct waiter *w = malloc(sizeof(*w));

	if (w == NULL)
		return -ENOMEM;
	w->run = run;
	w->next = s->waiters;
	s->waiters = w;
	run->missing++;
	return 0;
}

static int queue(struct prfaas *p, struct ship *s)
{
	int ret = timeline_add(&p->wan[s->direction].queue, s->needed_ns, 0, s);

	if (ret == 0)
		s->refs++;
	return ret;
}

static bool is_wanted(const struct ship *s)
{
	if (s->direction == TO_PREFILL)
		return true;
	for (const struct waiter *w = s->waiters; w != NULL; w = w->next)
		if (!w->run->late)
			return true;
	return false;
}

static double seconds_on_wan(const struct prfaas *p, const struct ship *s)
{
	const struct prfaas_config *c = &p->cfg;
	double t = (double)s->bytes * 8 / ((double)c->cap_bps * c->efficiency);

	if (c->mode == PRFAAS_SERIAL)
		t += (double)s->objects * c->serial_rtts * (double)c->rtt_ns * 1e-9;
	return t;
}

static int start_next(struct prfaas *p, int direction)
{
	struct wan *w = &p->wan[direction];
	struct timeline_entry e;
	struct ship *s;
	int ret;

	while (!w->busy && timeline_take(&w->queue, &e)) {
		s = e.what;
		/* Queued twice if it became more urgent. */
		if (!s->over && !is_wanted(s))
			ship_end(p, s);
		if (s->over || e.at_ns != s->needed_ns) {
			ship_put(s);
			continue;
		}
		s->over = true; /* stays among the ones to join until it arrived */
		w->busy = true;
		ret = timeline_add(&p->events, p->now_ns + (uint64_t)(seconds_on_wan(p, s) * 1e9),
			EVENT_SENT, s);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int prfaas_wan_ship(struct prfaas *p, int direction, uint64_t id, uint64_t tokens, bool kept,
	uint64_t ready_ns, struct run *run)
{
	struct ship *s = *find(&p->wan[direction], id), **at;
	uint64_t blocks = tokens / p->cfg.block_tokens;
	int ret;

	if (s != NULL) {
		ret = run != NULL ? ship_join(s, run) : 0;
		if (ret < 0 || s->over || run == NULL || run->needed_ns >= s->needed_ns)
			return ret;
		s->needed_ns = run->needed_ns;
		return s->ready ? queue(p, s) : 0;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	at = find(&p->wan[direction], id);
	s->id = id;
	s->direction = (uint8_t)direction;
	s->bytes = blocks * p->cfg.block_bytes;
	s->objects = blocks * p->cfg.ranks;
	s->kept = kept;
	s->needed_ns = run != NULL ? run->needed_ns : UINT64_MAX;
	s->refs = 1;
	*at = s;
	if (run != NULL && ship_join(s, run) < 0)
		return -ENOMEM;
	return timeline_add(&p->events, ready_ns, EVENT_READY, s);
}

bool prfaas_wan_has(const struct prfaas *p, int direction, uint64_t id)
{
	return *find((struct wan *)(uintptr_t)&p->wan[direction], id) != NULL;
}

int prfaas_wan_ready(struct prfaas *p, struct ship *s)
{
	int direction = s->direction, ret = queue(p, s);

	s->ready = true;
	ship_put(s);
	return ret < 0 ? ret : start_next(p, direction);
}

/* The best window of ten whole seconds. */
static void peak_update(struct wan *w, uint64_t now_ns, double bits)
{
	double sum = 0;

	if (w->second + PEAK_SECONDS < now_ns / PEAK_NS)
		w->second = now_ns / PEAK_NS - PEAK_SECONDS;
	for (; w->second < now_ns / PEAK_NS; w->second++)
		w->bits[(w->second + 1) % PEAK_SECONDS] = 0;
	w->bits[w->second % PEAK_SECONDS] += bits;
	for (int i = 0; i < PEAK_SECONDS; i++)
		sum += w->bits[i];
	w->peak_bits = sum > w->peak_bits ? sum : w->peak_bits;
}

int prfaas_wan_sent(struct prfaas *p, struct ship *s)
{
	struct wan *w = &p->wan[s->direction];
	double bits = (double)s->bytes * 8 / p->cfg.efficiency;
	int ret;

	w->busy = false;
	w->wire_bits += bits;
	peak_update(w, p->now_ns, bits);
	ret = timeline_add(&p->events, p->now_ns + p->cfg.rtt_ns / 2, EVENT_ARRIVED, s);
	return ret < 0 ? ret : start_next(p, s->direction);
}

int prfaas_wan_arrived(struct prfaas *p, struct ship *s)
{
	struct site *to = s->direction == TO_DECODE ? &p->decode : &p->prefill;
	int ret = s->kept ? lru_add(&to->pool, s->id, p->now_ns) : 0;

	ship_end(p, s);
	for (struct waiter *w = s->waiters; w != NULL && ret == 0; w = w->next) {
		w->run->missing--;
		ret = prfaas_settle(p, w->run);
	}
	ship_put(s);
	return ret;
}

/* What is in queues at the end is known there alone. */
void prfaas_wan_fini(struct prfaas *p)
{
	struct timeline_entry e;

	for (int i = 0; i < DIRECTIONS; i++) {
		while (timeline_take(&p->wan[i].queue, &e)) {
			((struct ship *)e.what)->over = true;
			ship_put(e.what);
		}
		timeline_fini(&p->wan[i].queue);
	}
}
