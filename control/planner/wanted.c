/* SPDX-License-Identifier: Apache-2.0 */
#include "control/planner/wanted.h"

#include "control/base/pages.h"
#include "control/index/index.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

struct set;

struct object {
	struct object *next_hash;
	TAILQ_ENTRY(object) entry; /* of its class's and source's queue, while it is ready */
	TAILQ_ENTRY(object) of_set;
	struct set *set; /* NULL: it stands alone */
	struct wanted_object o;
	uint64_t turn; /* in which the objects of a class became ready */
	bool ready;
};

TAILQ_HEAD(objects, object);

struct set {
	struct set *next_hash;
	TAILQ_ENTRY(set) entry; /* by age */
	struct objects objects; /* wanted members */
	uint64_t id, since_ns;
	uint32_t members, wanted, here;
	uint16_t tenant;
};

/*
 * Lists by hash. As many slots as there may be entries would be megabytes that a few entries are
 * spread over, each look another cache miss; so there are as many as there were ever entries.
 */
enum { SLOTS_LEAST = 1 << 10, SLOTS_MOST = 1 << 24 };

struct wanted {
	uint32_t max, mask, count;
	struct object **by_digest, *unused; /* freed objects, for the next */
	struct set **by_id;
	struct objects queue[WANTED_CLASSES][INDEX_SITES];
	uint64_t turn;
	bool held[WANTED_CLASSES];
	uint32_t held_from; /* a bit for each source */
	TAILQ_HEAD(, set) sets;
	struct wanted_stats stats;
};

static size_t head_bytes(uint32_t mask)
{
	return ((size_t)mask + 1) * sizeof(void *);
}

struct wanted *wanted_create(uint32_t max)
{
	struct wanted *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->max = max;
	w->mask = SLOTS_LEAST - 1;
	w->by_digest = pages_get(head_bytes(w->mask));
	w->by_id = pages_get(head_bytes(w->mask));
	for (int i = 0; i < WANTED_CLASSES; i++)
		for (int from = 0; from < INDEX_SITES; from++)
			TAILQ_INIT(&w->queue[i][from]);
	TAILQ_INIT(&w->sets);
	if (w->by_digest == NULL || w->by_id == NULL) {
		wanted_destroy(w);
		errno = ENOMEM;
		return NULL;
	}
	return w;
}

static uint32_t slot_of_set(uint64_t id, uint32_t mask)
{
	return (uint32_t)(id ^ id >> 29) & mask;
}

/* More slots, or the lists get longer. */
static void grow(struct wanted *w)
{
	uint32_t mask = w->mask * 4 + 3;
	struct object **objects = pages_get(head_bytes(mask)), *x;
	struct set **sets = pages_get(head_bytes(mask)), *s;

	if (objects == NULL || sets == NULL) {
		pages_put(objects, head_bytes(mask));
		pages_put(sets, head_bytes(mask));
		return;
	}
	for (uint32_t i = 0; i <= w->mask; i++) {
		while ((x = w->by_digest[i]) != NULL) {
			struct object **to = &objects[x->o.digest.lo & mask];

			w->by_digest[i] = x->next_hash;
			x->next_hash = *to;
			*to = x;
		}
		while ((s = w->by_id[i]) != NULL) {
			struct set **to = &sets[slot_of_set(s->id, mask)];

			w->by_id[i] = s->next_hash;
			s->next_hash = *to;
			*to = s;
		}
	}
	pages_put(w->by_digest, head_bytes(w->mask));
	pages_put(w->by_id, head_bytes(w->mask));
	w->by_digest = objects;
	w->by_id = sets;
	w->mask = mask;
}

static struct object **find(const struct wanted *w, struct digest128 d)
{
	struct object **p = &w->by_digest[d.lo & w->mask];

	while (*p != NULL && !digest_equal((*p)->o.digest, d))
		p = &(*p)->next_hash;
	return p;
}

void wanted_prefetch(const struct wanted *w, struct digest128 d)
{
	__builtin_prefetch(&w->by_digest[d.lo & w->mask]);
}

static struct set **set_find(const struct wanted *w, uint64_t id, uint16_t tenant)
{
	struct set **p = &w->by_id[slot_of_set(id, w->mask)];

	while (*p != NULL && ((*p)->id != id || (*p)->tenant != tenant))
		p = &(*p)->next_hash;
	return p;
}

static void ready(struct wanted *w, struct object *x)
{
	if (x->ready)
		return;
	x->ready = true;
	x->turn = w->turn++;
	TAILQ_INSERT_TAIL(&w->queue[x->o.class][x->o.from], x, entry);
	w->stats.objects++;
	w->stats.bytes += x->o.size;
	w->stats.waiting--;
}

static void unready(struct wanted *w, struct object *x)
{
	if (!x->ready)
		return;
	x->ready = false;
	TAILQ_REMOVE(&w->queue[x->o.class][x->o.from], x, entry);
	w->stats.objects--;
	w->stats.bytes -= x->o.size;
	w->stats.waiting++;
}

static void set_free(struct wanted *w, struct set *s)
{
	*set_find(w, s->id, s->tenant) = s->next_hash;
	TAILQ_REMOVE(&w->sets, s, entry);
	w->count--;
	free(s);
}

static struct set *set_get(struct wanted *w, const struct log_record *r, uint64_t now_ns)
{
	struct set **p = set_find(w, r->set, r->tenant), *s = *p;

	if (s != NULL)
		return s;
	s = w->count < w->max ? calloc(1, sizeof(*s)) : NULL;
	if (s == NULL)
		return NULL;
	s->id = r->set;
	s->tenant = r->tenant;
	s->members = r->members;
	s->since_ns = now_ns;
	TAILQ_INIT(&s->objects);
	TAILQ_INSERT_TAIL(&w->sets, s, entry);
	s->next_hash = *p;
	*p = s;
	w->count++;
	return s;
}

/* Its counts changed: all its objects can be taken, or none but those asked for alone. */
static void set_settle(struct wanted *w, struct set *s)
{
	bool whole = s->wanted + s->here >= s->members;
	struct object *x;

	if (s->wanted == 0 && s->here == 0) {
		set_free(w, s);
		return;
	}
	TAILQ_FOREACH(x, &s->objects, of_set)
		whole ? ready(w, x) : unready(w, x);
	/* All are here: nothing is left to wait for. */
	if (whole && s->wanted == 0)
		set_free(w, s);
}

static void set_leave(struct wanted *w, struct object *x, bool here)
{
	struct set *s = x->set;

	if (s == NULL)
		return;
	TAILQ_REMOVE(&s->objects, x, of_set);
	x->set = NULL;
	s->wanted--;
	s->here += here;
	set_settle(w, s);
}

static void object_free(struct wanted *w, struct object **p)
{
	struct object *x = *p;

	unready(w, x);
	*p = x->next_hash;
	w->stats.waiting--;
	w->count--;
	x->next_hash = w->unused;
	w->unused = x;
}

static struct object *object_get(struct wanted *w)
{
	struct object *x = w->unused;

	if (x == NULL)
		return calloc(1, sizeof(*x));
	w->unused = x->next_hash;
	*x = (struct object){ 0 };
	return x;
}

void wanted_destroy(struct wanted *w)
{
	struct object *x;
	struct set *s;

	if (w == NULL)
		return;
	for (uint32_t i = 0; w->by_digest != NULL && i <= w->mask; i++)
		while (w->by_digest[i] != NULL)
			object_free(w, &w->by_digest[i]);
	while ((s = TAILQ_FIRST(&w->sets)) != NULL)
		set_free(w, s);
	while ((x = w->unused) != NULL) {
		w->unused = x->next_hash;
		free(x);
	}
	pages_put(w->by_digest, head_bytes(w->mask));
	pages_put(w->by_id, head_bytes(w->mask));
	free(w);
}

static void promote(struct wanted *w, struct object *x, uint8_t class, bool alone)
{
	if (class < x->o.class) {
		bool was = x->ready;

		unready(w, x);
		x->o.class = class;
		if (was)
			ready(w, x);
	}
	if (alone) {
		set_leave(w, x, false);
		ready(w, x);
	}
}

static void object_from(struct wanted *w, struct object *x, uint16_t from)
{
	bool was = x->ready;

	if (x->o.from == from)
		return;
	unready(w, x);
	x->o.from = from;
	if (was)
		ready(w, x);
}

int wanted_add(struct wanted *w, const struct log_record *r, uint16_t from, uint8_t class,
	bool alone, uint64_t now_ns)
{
	struct object **p = find(w, r->digest), *x = *p;
	struct set *s = NULL;

	if (from >= INDEX_SITES || class >= WANTED_CLASSES)
		return -EINVAL;
	if (x != NULL) {
		promote(w, x, class, alone);
		x->o.without &= (uint16_t) ~(1u << from);
		if ((w->held_from >> x->o.from & 1) != 0 && (w->held_from >> from & 1) == 0)
			object_from(w, x, from);
		return 0;
	}
	if (w->count >= w->max) {
		w->stats.refused++;
		return -ENOSPC;
	}
	x = object_get(w);
	if (x == NULL)
		return -ENOMEM;
	if (w->count > w->mask && w->mask < SLOTS_MOST - 1) {
		grow(w);
		p = find(w, r->digest);
	}
	x->o = (struct wanted_object){ r->digest, r->set, now_ns, r->size, r->position, r->tenant,
		from, class, 0 };
	x->next_hash = *p;
	*p = x;
	w->count++;
	w->stats.waiting++;
	if (r->set == 0 || alone) {
		ready(w, x);
		return 0;
	}
	s = set_get(w, r, now_ns);
	if (s == NULL) {
		object_free(w, find(w, r->digest));
		w->stats.refused++;
		return -ENOSPC;
	}
	x->set = s;
	TAILQ_INSERT_TAIL(&s->objects, x, of_set);
	s->wanted++;
	if (s->wanted + s->here >= s->members)
		set_settle(w, s);
	return 0;
}

void wanted_del(struct wanted *w, struct digest128 d, bool here)
{
	struct object **p = find(w, d);

	if (*p == NULL)
		return;
	set_leave(w, *p, here);
	object_free(w, p);
}

int wanted_have(struct wanted *w, const struct log_record *r, uint64_t now_ns)
{
	struct set *s;

	if (r->set == 0)
		return 0;
	s = set_get(w, r, now_ns);
	if (s == NULL)
		return -ENOSPC;
	s->here++;
	set_settle(w, s);
	return 0;
}

bool wanted_has(const struct wanted *w, struct digest128 d)
{
	return *find(w, d) != NULL;
}

void wanted_without(struct wanted *w, struct digest128 d, uint16_t sites)
{
	struct object *x = *find(w, d);

	if (x != NULL)
		x->o.without |= sites;
}

void wanted_from(struct wanted *w, struct digest128 d, uint16_t from)
{
	struct object *x = *find(w, d);

	if (x != NULL && from < INDEX_SITES)
		object_from(w, x, from);
}

static int by_position(const void *a, const void *b)
{
	const struct wanted_object *x = a, *y = b;

	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	if (x->position != y->position)
		return x->position < y->position ? -1 : 1;
	if (x->set != y->set)
		return x->set < y->set ? -1 : 1;
	return 0;
}

/* The rest of the set of an object goes with it: its members would be no use without. */
static size_t take_set(struct wanted *w, struct set *s, struct wanted_object *out, size_t max)
{
	struct object *x;
	size_t n = 0;

	while (n < max && (x = TAILQ_FIRST(&s->objects)) != NULL) {
		out[n++] = x->o;
		TAILQ_REMOVE(&s->objects, x, of_set);
		s->wanted--;
		s->here++; /* on its way: the others need not wait for it */
		object_free(w, find(w, x->o.digest));
	}
	if (s->wanted == 0)
		set_free(w, s);
	return n;
}

/* The oldest of a class whose source is not held. */
static struct object *first_of(const struct wanted *w, int class)
{
	struct object *first = NULL;

	for (int from = 0; from < INDEX_SITES && !w->held[class]; from++) {
		struct object *x = TAILQ_FIRST(&w->queue[class][from]);

		if (x != NULL && (w->held_from >> from & 1) == 0 &&
			(first == NULL || x->turn < first->turn))
			first = x;
	}
	return first;
}

size_t wanted_take(struct wanted *w, struct wanted_object *out, size_t max)
{
	size_t n = 0;

	for (int i = 0; i < WANTED_CLASSES; i++) {
		struct object *x;

		while (n < max && (x = first_of(w, i)) != NULL) {
			if (x->set != NULL) {
				if (n > 0 && x->set->wanted > max - n)
					goto out;
				n += take_set(w, x->set, out + n, max - n);
				continue;
			}
			out[n++] = x->o;
			object_free(w, find(w, x->o.digest));
		}
	}
out:
	qsort(out, n, sizeof(*out), by_position);
	return n;
}

void wanted_hold(struct wanted *w, uint8_t class, bool hold)
{
	w->held[class] = hold;
}

void wanted_hold_from(struct wanted *w, uint32_t sources)
{
	w->held_from = sources;
}

size_t wanted_drop(struct wanted *w, uint16_t from, uint64_t until_ns)
{
	size_t n = 0;

	for (int i = 0; i < WANTED_CLASSES && from < INDEX_SITES; i++) {
		struct object *x;

		while ((x = TAILQ_FIRST(&w->queue[i][from])) != NULL && x->o.since_ns <= until_ns) {
			wanted_del(w, x->o.digest, false);
			n++;
		}
	}
	return n;
}

void wanted_sweep(struct wanted *w, uint32_t first, uint32_t last,
	enum wanted_verdict (*fn)(const struct wanted_object *o, uint16_t *from, void *ctx),
	void *ctx)
{
	for (uint32_t i = 0; i <= w->mask; i++) {
		struct object **p = &w->by_digest[i];

		while (*p != NULL) {
			uint32_t bucket = digest_bucket((*p)->o.digest);
			uint16_t from = (*p)->o.from;
			enum wanted_verdict v = WANTED_KEEP;

			if (bucket >= first && bucket <= last)
				v = fn(&(*p)->o, &from, ctx);
			if (v == WANTED_KEEP) {
				object_from(w, *p, from);
				p = &(*p)->next_hash;
				continue;
			}
			set_leave(w, *p, v == WANTED_HERE);
			object_free(w, p);
		}
	}
}

size_t wanted_expire(struct wanted *w, uint64_t before_ns)
{
	struct set *s, *next;
	size_t n = 0;

	for (s = TAILQ_FIRST(&w->sets); s != NULL && s->since_ns < before_ns; s = next) {
		struct object *x;

		next = TAILQ_NEXT(s, entry);
		if (s->wanted + s->here >= s->members)
			continue;
		while ((x = TAILQ_FIRST(&s->objects)) != NULL) {
			TAILQ_REMOVE(&s->objects, x, of_set);
			object_free(w, find(w, x->o.digest));
			n++;
		}
		set_free(w, s);
	}
	return n;
}

void wanted_stats_get(const struct wanted *w, struct wanted_stats *out)
{
	*out = w->stats;
	out->oldest_ns = 0;
	out->from = 0;
	for (int i = 0; i < WANTED_CLASSES; i++) {
		for (int from = 0; from < INDEX_SITES; from++) {
			const struct object *x = TAILQ_FIRST(&w->queue[i][from]);

			if (x != NULL)
				out->from |= 1u << from;
			if (x != NULL && (out->oldest_ns == 0 || x->o.since_ns < out->oldest_ns))
				out->oldest_ns = x->o.since_ns;
		}
	}
}
