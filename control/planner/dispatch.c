/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/federation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Batches: from a queue of wanted objects to an order and its end. */

struct federation_batch {
	struct federation_batch *next;
	uint64_t id, order; /* order 0: not submitted */
	uint64_t since_ns;
	uint16_t from, to;
	uint8_t class;
	uint32_t n;
	struct wanted_object objects[FEDERATION_BATCH];
	bool expanded, offered, asked;
	uint8_t verdicts[FEDERATION_BATCH];
	struct federation_key keys[FEDERATION_BATCH]; /* into names */
	uint8_t *names;
	bool unfit[FEDERATION_BATCH]; /* its size came with its key, and does not suit the policy */
	uint16_t members[FEDERATION_BATCH]; /* the order's object i is objects[members[i]] */
	bool failed[FEDERATION_BATCH];      /* the order's object i, and that was counted */
	uint32_t ordered;
};

static struct federation_batch **find(struct federation *f, uint64_t id, uint64_t order)
{
	struct federation_batch **p = &f->batches;

	while (*p != NULL && (id != 0 ? (*p)->id != id : (*p)->order != order))
		p = &(*p)->next;
	return p;
}

static void unfly(struct federation_site *s, const struct wanted_object *o)
{
	s->flow.flying--;
	s->flow.flying_bytes -= o->size;
}

static void batch_free(struct federation *f, struct federation_batch **p)
{
	struct federation_batch *b = *p;

	*p = b->next;
	f->site[b->to].batches--;
	free(b->names);
	free(b);
}

void federation_batches_free(struct federation *f)
{
	while (f->batches != NULL)
		batch_free(f, &f->batches);
}

/*
 * Back into the queue, if it is still missing there and somebody has it, be it another site than it
 * was to come from. Whether it is wanted now.
 */
static bool again(struct federation *f, const struct wanted_object *o, uint16_t to, uint8_t class)
{
	uint64_t value = index_value(planner_index(f->planner), o->digest);
	uint16_t from = planner_source(f->planner, to, o);
	struct wanted *w = planner_wanted(f->planner, to);
	struct log_record r = { .digest = o->digest,
		.size = o->size,
		.position = o->position,
		.tenant = o->tenant,
		.op = LOG_STORED };

	if ((value & INDEX_PRESENT(to)) != 0 || from == INDEX_SITES ||
		wanted_add(w, &r, from, class, true, o->since_ns) < 0)
		return false;
	wanted_without(w, o->digest, o->without);
	return true;
}

/* Trouble with a destination: wait, longer each time, and begin again with little. */
static void pause_site(struct federation *f, uint16_t to)
{
	struct federation_site *s = &f->site[to];

	s->window = 1;
	if (f->now_ns < s->pause_until_ns)
		return;
	s->pause_until_ns = f->now_ns + s->pause_ns;
	s->flow.paused = true;
	if (s->pause_ns < FEDERATION_PAUSE_MAX_NS)
		s->pause_ns *= 2;
}

/*
 * An edge of the two sites refuses, or the line is cut: what only that source has waits, longer
 * each time, as no object can help it.
 */
static void pause_pair(struct federation *f, uint16_t from, uint16_t to)
{
	struct federation_site *s = &f->site[to];
	uint64_t ns = s->fault_ns[from] > 0 ? s->fault_ns[from] : FEDERATION_PAUSE_NS;

	s->window = 1;
	if (s->fault_ns[from] > 0 && f->now_ns < s->away_until_ns[from])
		return;
	s->away_until_ns[from] = f->now_ns + ns;
	s->fault_ns[from] = ns * 2 < FEDERATION_FAULT_MAX_NS ? ns * 2 : FEDERATION_FAULT_MAX_NS;
}

bool federation_is_at_fault(const struct federation *f, uint16_t from, uint16_t to)
{
	return f->site[to].fault_ns[from] > 0;
}

/* The destination, or what every order needs, is away: look again soon. */
static void wait_for(struct federation *f, uint16_t to)
{
	struct federation_site *s = &f->site[to];

	if (s->pause_until_ns < f->now_ns + FEDERATION_AWAY_NS)
		s->pause_until_ns = f->now_ns + FEDERATION_AWAY_NS;
}

/*
 * Sources of which nothing could come now: what only they have waits, the rest goes on. What waited
 * for one already is looked at when which are held has changed, though not each time a line flaps.
 */
static void hold_sources(struct federation *f, uint16_t to)
{
	struct wanted *w = planner_wanted(f->planner, to);
	struct federation_site *s = &f->site[to];

	s->held_from = 0;
	for (uint16_t from = 0; from < INDEX_SITES; from++) {
		uint64_t ttl_ns = f->ttl_ns[from][to];

		if (from == to || !f->site[from].used ||
			(f->site[from].open && f->now_ns >= s->away_until_ns[from] &&
				f->ops->can_ship(f->ctx, from, to)))
			continue;
		s->held_from |= 1u << from;
		if (ttl_ns > 0 && f->now_ns > ttl_ns)
			s->flow.expired += wanted_drop(w, from, f->now_ns - ttl_ns);
	}
	planner_hold(f->planner, to, s->held_from);
	if (s->held_from == 0)
		s->rerouted_from = 0;
	if (s->rerouted_from == s->held_from || f->now_ns < s->reroute_ns)
		return;
	planner_reroute(f->planner, to);
	s->rerouted_from = s->held_from;
	s->reroute_ns = f->now_ns + FEDERATION_REROUTE_NS;
}

/* Nothing came of it, because of its source alone or not. */
static void batch_abandon(struct federation *f, struct federation_batch **p, bool source)
{
	struct federation_batch *b = *p;
	struct federation_site *s = &f->site[b->to];

	if (source) {
		s->away_until_ns[b->from] = f->now_ns + FEDERATION_AWAY_NS;
		hold_sources(f, b->to);
	} else {
		s->window = 1;
		wait_for(f, b->to);
	}
	for (uint32_t i = 0; i < b->n; i++) {
		unfly(s, &b->objects[i]);
		(void)again(f, &b->objects[i], b->to, b->class);
	}
	batch_free(f, p);
}

void federation_batches_closed(struct federation *f, uint16_t slot)
{
	struct federation_batch **p = &f->batches;

	while (*p != NULL) {
		struct federation_batch *b = *p;

		if (b->order == 0 && (b->from == slot || b->to == slot))
			batch_abandon(f, p, b->from == slot);
		else
			p = &b->next;
	}
}

/* It failed too often, be it stored anew since; who asks for it has its failures forgotten. */
static bool is_quarantined(const struct federation *f, const struct wanted_object *o, uint16_t to)
{
	return memory_get(f->failures[to], o->digest, f->now_s) >= FEDERATION_POISON;
}

/*
 * Whoever has it besides may be asked for it, but not a source that said that it has not. Returns
 * whether somebody waits for it in vain.
 */
static bool object_absent(struct federation *f, struct federation_batch *b, struct wanted_object *x)
{
	uint64_t value = index_value(planner_index(f->planner), x->digest);

	x->without |= (uint16_t)(1u << b->from);
	if (again(f, x, b->to, b->class))
		return false;
	f->site[b->to].flow.gone++;
	return b->class == WANTED_URGENT && (value & INDEX_PRESENT(b->to)) == 0 &&
		planner_source(f->planner, b->to, x) == INDEX_SITES;
}

/*
 * Both have answered: order what is there and wanted, forget the rest, and what failed once too
 * often since they were asked.
 */
static void batch_submit(struct federation *f, struct federation_batch **p)
{
	struct federation_key keys[FEDERATION_BATCH];
	struct federation_batch *b = *p;
	struct federation_site *s = &f->site[b->to];
	struct federation_order o = { b->from, b->to, b->class, 0, 0, keys, 0 };
	uint64_t oldest_ns = UINT64_MAX, ttl_ns = f->ttl_ns[b->from][b->to], age_ns, waited_ns;
	struct digest128 nowhere[FEDERATION_BATCH];
	size_t missing = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		struct wanted_object *x = &b->objects[i];

		if (b->verdicts[i] == FEDERATION_BRING && b->keys[i].key_len > 0 && !b->unfit[i] &&
			!is_quarantined(f, x, b->to)) {
			keys[o.count] = b->keys[i];
			b->members[o.count++] = (uint16_t)i;
			o.bytes += x->size;
			oldest_ns = x->since_ns < oldest_ns ? x->since_ns : oldest_ns;
			planner_bringing(f->planner, b->to, x->digest, f->now_s);
			continue;
		}
		unfly(s, x);
		if (b->verdicts[i] == FEDERATION_HERE) {
			s->flow.here++;
		} else if (b->verdicts[i] == FEDERATION_EVICTED) {
			(void)memory_mark(planner_evicted(f->planner, b->to), x->digest, f->now_s);
			s->flow.declined++;
		} else if (b->keys[i].key_len == 0) {
			nowhere[missing] = x->digest;
			missing += object_absent(f, b, x);
		}
	}
	if (missing > 0)
		f->ops->nowhere(f->ctx, b->to, nowhere, missing);
	b->ordered = (uint32_t)o.count;
	if (o.count == 0) {
		batch_free(f, p);
		return;
	}
	if (ttl_ns > 0)
		o.ttl_ns = f->now_ns - oldest_ns < ttl_ns ? ttl_ns - (f->now_ns - oldest_ns) : 1;
	age_ns = f->ttl_by_age[b->from][b->to] ? f->site[b->from].eviction_age_ns : 0;
	if (age_ns > 0) {
		/* some are older than most get, and still there */
		waited_ns = f->now_ns - oldest_ns < age_ns ? f->now_ns - oldest_ns : age_ns;
		age_ns = age_ns - waited_ns > age_ns / 4 ? age_ns - waited_ns : age_ns / 4;
		o.ttl_ns = o.ttl_ns == 0 || age_ns < o.ttl_ns ? age_ns : o.ttl_ns;
	}
	b->order = f->ops->submit(f->ctx, &o);
	if (b->order != 0)
		return;
	/* keep only what was to be ordered: the rest is accounted for */
	for (uint32_t i = 0; i < b->ordered; i++)
		b->objects[i] = b->objects[b->members[i]];
	b->n = b->ordered;
	batch_abandon(f, p, false);
}

/* Copies of n keys, as the source's answer is gone after the call. */
static int keys_take(struct federation_batch *b, const struct federation_key *keys, size_t n)
{
	size_t bytes = 1;
	uint8_t *at;

	for (size_t i = 0; i < n; i++)
		bytes += keys[i].key_len + keys[i].tenant_len;
	at = b->names = malloc(bytes);
	if (at == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct federation_key *k = &b->keys[i];

		*k = keys[i];
		k->key = at;
		if (k->key_len > 0)
			memcpy(at, keys[i].key, k->key_len);
		at += k->key_len;
		k->tenant = at;
		if (k->tenant_len > 0)
			memcpy(at, keys[i].tenant, k->tenant_len);
		at += k->tenant_len;
	}
	return 0;
}

/* Of objects whose size no event told: Mooncake's. */
static void sizes_take(struct federation *f, struct federation_batch *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		struct wanted_object *x = &b->objects[i];
		uint64_t size = b->keys[i].size;

		if (b->keys[i].key_len == 0 || x->size != LOG_SIZE_UNKNOWN || size == 0 ||
			size > LOG_SIZE_MAX)
			continue;
		x->size = (uint32_t)size;
		f->site[b->to].flow.flying_bytes += size;
		b->unfit[i] = !planner_fits(f->planner, b->from, b->to, size);
	}
}

int federation_expanded(struct federation *f, uint16_t slot, uint64_t batch,
	const struct federation_key *keys, size_t n, uint64_t now_ns, uint64_t now_s)
{
	struct federation_batch **p = find(f, batch, 0), *b = *p;

	f->now_ns = now_ns;
	f->now_s = now_s;
	if (batch == 0 || b == NULL)
		return 0; /* it was given up */
	if (b->from != slot || b->expanded || n != b->n)
		return -EPROTO;
	if (keys_take(b, keys, n) < 0) {
		batch_abandon(f, p, false);
		return 0;
	}
	sizes_take(f, b);
	b->expanded = true;
	if (b->offered)
		batch_submit(f, p);
	return 0;
}

int federation_offered(struct federation *f, uint16_t slot, uint64_t batch, const uint8_t *verdicts,
	size_t n, uint64_t now_ns, uint64_t now_s)
{
	struct federation_batch **p = find(f, batch, 0), *b = *p;

	f->now_ns = now_ns;
	f->now_s = now_s;
	if (batch == 0 || b == NULL)
		return 0;
	if (b->to != slot || b->offered || n != b->n)
		return -EPROTO;
	for (size_t i = 0; i < n; i++)
		if (verdicts[i] > FEDERATION_EVICTED)
			return -EPROTO;
	memcpy(b->verdicts, verdicts, n);
	b->offered = true;
	if (b->expanded)
		batch_submit(f, p);
	return 0;
}

static void failure_count(struct federation *f, struct federation_batch *b, uint32_t i)
{
	if (b->failed[i])
		return;
	b->failed[i] = true;
	(void)memory_mark(f->failures[b->to], b->objects[b->members[i]].digest, f->now_s);
}

void federation_failed(struct federation *f, uint64_t order, uint32_t i, uint64_t now_s)
{
	struct federation_batch *b = *find(f, 0, order);

	f->now_s = now_s;
	if (order != 0 && b != NULL && i < b->ordered)
		failure_count(f, b, i);
}

static void object_failed(struct federation *f, struct federation_batch *b, uint32_t i)
{
	const struct wanted_object *x = &b->objects[b->members[i]];
	struct federation_site *s = &f->site[b->to];

	s->flow.failed++;
	failure_count(f, b, i);
	if (is_quarantined(f, x, b->to))
		s->flow.quarantined++;
	else
		(void)again(f, x, b->to, b->class);
}

void federation_ended(struct federation *f, uint64_t order, const uint8_t *ends,
	const uint64_t *lengths, size_t n, uint64_t now_ns, uint64_t now_s)
{
	struct federation_batch **p = find(f, 0, order), *b = *p;
	struct federation_site *s;
	bool trouble = false, done = false, fault = false;

	f->now_ns = now_ns;
	f->now_s = now_s;
	if (order == 0 || b == NULL)
		return;
	s = &f->site[b->to];
	for (uint32_t i = 0; i < b->ordered; i++) {
		done = done || (i < n && ends[i] == FEDERATION_DONE);
		fault = fault || (i < n && ends[i] == FEDERATION_EDGE);
	}
	/* before anything is wanted again, so that it is looked for elsewhere */
	if (done) {
		s->fault_ns[b->from] = 0;
	} else if (fault) {
		pause_pair(f, b->from, b->to);
		hold_sources(f, b->to);
	}
	for (uint32_t i = 0; i < b->ordered; i++) {
		struct wanted_object *x = &b->objects[b->members[i]];

		unfly(s, x);
		switch (i < n ? ends[i] : FEDERATION_FAILED) {
		case FEDERATION_DONE:
			s->flow.brought++;
			s->flow.brought_bytes += lengths[i];
			break;
		case FEDERATION_GONE:
			s->flow.gone++;
			break;
		case FEDERATION_ABSENT:
			(void)object_absent(f, b, x); /* the order told by name */
			break;
		case FEDERATION_FULL:
			s->flow.failed++;
			(void)again(f, x, b->to, b->class);
			trouble = true;
			break;
		default:
			if (i < n && ends[i] == FEDERATION_EDGE && !done) {
				s->flow.failed++;
				(void)again(f, x, b->to, b->class);
				break;
			}
			/* also an edge's fault is the object's own if the edges brought others */
			object_failed(f, b, i);
			trouble = true;
			break;
		}
	}
	if (trouble) {
		pause_site(f, b->to);
	} else if (done) {
		s->window = s->window * 2 < FEDERATION_WINDOW ? s->window * 2 : FEDERATION_WINDOW;
		s->pause_ns = FEDERATION_PAUSE_NS;
	}
	batch_free(f, p);
}

static bool is_asked(const struct federation *f, const struct wanted_object *o, uint16_t to)
{
	return o->class == WANTED_URGENT || memory_get(f->asked[to], o->digest, f->now_s) > 0;
}

/* Ask both ends about objects of one source and class, all asked for there or none. */
static void batch_begin(struct federation *f, uint16_t to, struct wanted_object *o, size_t n)
{
	struct federation_batch *b = calloc(1, sizeof(*b));
	struct digest128 d[FEDERATION_BATCH];
	struct federation_site *s = &f->site[to];

	if (b == NULL) {
		for (size_t i = 0; i < n; i++)
			(void)again(f, &o[i], to, o[i].class);
		return;
	}
	b->id = f->next_batch++;
	b->since_ns = f->now_ns;
	b->from = o[0].from;
	b->to = to;
	b->class = o[0].class;
	b->asked = is_asked(f, &o[0], to);
	b->n = (uint32_t)n;
	memcpy(b->objects, o, n * sizeof(*o));
	for (size_t i = 0; i < n; i++) {
		d[i] = o[i].digest;
		s->flow.flying++;
		s->flow.flying_bytes += o[i].size;
	}
	s->batches++;
	b->next = f->batches;
	f->batches = b;
	if (!f->ops->expand(f->ctx, b->from, b->id, d, n))
		batch_abandon(f, find(f, b->id, 0), true);
	else if (!f->ops->offer(f->ctx, to, b->id, d, n, b->asked))
		batch_abandon(f, find(f, b->id, 0), false);
}

static bool is_late(const struct federation *f, const struct wanted_object *o, uint16_t to)
{
	uint64_t ttl_ns = f->ttl_ns[o->from][to];

	return ttl_ns > 0 && f->now_ns - o->since_ns >= ttl_ns;
}

/*
 * Take the next objects of a destination and split them by what a batch has in common. false: there
 * are none to take.
 */
static bool dispatch_to(struct federation *f, uint16_t to)
{
	struct wanted_object o[FEDERATION_BATCH], group[FEDERATION_BATCH];
	struct federation_site *s = &f->site[to];
	size_t n = wanted_take(planner_wanted(f->planner, to), o, FEDERATION_BATCH);

	for (size_t left = 0; left < n; left++) {
		const struct wanted_object first = o[left];
		size_t members = 0;

		if (first.class == WANTED_CLASSES) /* taken with an earlier one */
			continue;
		for (size_t i = left; i < n; i++) {
			if (o[i].class != first.class || o[i].from != first.from ||
				is_asked(f, &o[i], to) != is_asked(f, &first, to))
				continue;
			if (is_late(f, &o[i], to))
				s->flow.expired++;
			else if (!is_quarantined(f, &o[i], to))
				group[members++] = o[i];
			o[i].class = WANTED_CLASSES;
		}
		if (members == 0)
			continue;
		/* Held ones came with their set, or their source went away since. */
		if ((s->held_from >> first.from & 1) == 0) {
			batch_begin(f, to, group, members);
			continue;
		}
		for (size_t i = 0; i < members; i++)
			(void)again(f, &group[i], to, first.class);
	}
	return n > 0;
}

void federation_dispatch(struct federation *f)
{
	struct federation_batch **p = &f->batches;

	while (*p != NULL) {
		struct federation_batch *b = *p;

		if (b->order == 0 && f->now_ns - b->since_ns >= FEDERATION_ANSWER_NS)
			batch_abandon(f, p, !b->expanded && b->offered);
		else
			p = &b->next;
	}
	for (uint16_t to = 0; to < INDEX_SITES; to++) {
		struct federation_site *s = &f->site[to];

		if (!s->used || !s->open || f->now_ns < s->pause_until_ns)
			continue;
		hold_sources(f, to);
		while (s->batches < s->window && f->now_ns >= s->pause_until_ns &&
			dispatch_to(f, to))
			continue;
	}
}
