/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index_private.h"

#include <urcu.h>

enum { AHEAD = 20 };

/* A lookup in flight. */
struct probe {
	const struct table *t;
	const struct bucket *b;
	const struct shard *s;
	struct name n;
	uint32_t version;
};

static void begin(const struct index *x, struct digest128 d, struct probe *p)
{
	p->s = &x->shards[shard_of(x, d)];
	p->n = name_of(d);
	p->version = atomic_load_explicit(&p->s->version, memory_order_acquire);
	p->t = atomic_load_explicit(&p->s->table, memory_order_acquire);
	p->b = &p->t->b[bucket_first(p->n.tag, p->t->buckets)];
	__builtin_prefetch(p->b);
}

/* No key left its slot since begin(), so what was seen was true at one moment. */
static bool is_valid(const struct probe *p)
{
	return atomic_load_explicit(&p->s->version, memory_order_relaxed) == p->version;
}

static uint64_t again(const struct index *x, struct digest128 d)
{
	for (int i = 0; i < INDEX_TRIES; i++) {
		struct probe p;
		uint64_t word;
		uint32_t count;
		int slot;

		begin(x, d, &p);
		slot = bucket_find(p.b, p.n, &word, &count);
		if (slot < 0 && count > 0) {
			p.b = &p.t->b[bucket_second(p.n.tag, p.t->buckets)];
			slot = bucket_find(p.b, p.n, &word, &count);
		}
		if (is_valid(&p))
			return slot < 0 ? 0 : word & VALUE_MASK;
	}
	return INDEX_UNSURE;
}

/*
 * The value of a name in a bucket, 0 if it is not there. Without branches on what is found: whether
 * a key is there cannot be guessed, and a wrong guess costs as much as the rest. *odd: two tags of
 * the bucket are equal, which needs a closer look.
 */
static inline uint64_t bucket_value(const struct bucket *b, struct name n, uint32_t *count,
	uint32_t *odd)
{
	uint64_t t0 = load(&b->tag[0]);
	uint64_t t1 = load(&b->tag[1]);
	uint64_t t2 = load(&b->tag[2]);
	uint64_t t3 = load(&b->tag[3]);
	uint32_t hits = ((t0 & TAG_MASK) == n.tag) | (uint32_t)(t1 == n.tag) << 1 |
		(uint32_t)(t2 == n.tag) << 2 | (uint32_t)(t3 == n.tag) << 3;
	uint64_t word = load(&b->value[__builtin_ctz(hits | 8)]);
	uint64_t match = (hits != 0) & (((word ^ n.extra) >> EXTRA_SHIFT) == 0);

	*odd = (hits & (hits - 1)) != 0;
	*count = t0 & COUNT_MASK;
	return word & VALUE_MASK & -match;
}

/*
 * The first buckets are fetched AHEAD of the one that is looked into, so that memory works while
 * the processor does; the second one of a key, where it is needed, is asked for at once and looked
 * into at the end.
 */
static void lookup(const struct index *x, const struct digest128 *d, uint32_t n, uint64_t *values)
{
	struct probe probes[INDEX_BATCH];
	uint8_t second[INDEX_BATCH], redo[2 * INDEX_BATCH];
	uint32_t seconds = 0, redos = 0, count, odd, need;

	for (uint32_t i = 0; i < n && i < AHEAD; i++)
		begin(x, d[i], &probes[i]);
	for (uint32_t i = 0; i < n; i++) {
		struct probe *p = &probes[i];
		const struct bucket *other;

		if (i + AHEAD < n)
			begin(x, d[i + AHEAD], &probes[i + AHEAD]);
		other = &p->t->b[bucket_second(p->n.tag, p->t->buckets)];
		values[i] = bucket_value(p->b, p->n, &count, &odd);
		need = (values[i] == 0) & (count > 0);
		second[seconds] = (uint8_t)i;
		seconds += need;
		redo[redos] = (uint8_t)i;
		redos += odd | !is_valid(p);
		p->b = need ? other : p->b;
		__builtin_prefetch(p->b);
	}
	for (uint32_t j = 0; j < seconds; j++) {
		const struct probe *p = &probes[second[j]];

		values[second[j]] = bucket_value(p->b, p->n, &count, &odd);
		redo[redos] = second[j];
		redos += odd | !is_valid(p);
	}
	for (uint32_t j = 0; j < redos; j++)
		values[redo[j]] = again(x, d[redo[j]]);
}

void index_lookup(struct index *x, const struct digest128 *d, size_t n, uint64_t *values)
{
	rcu_read_lock();
	while (n > 0) {
		uint32_t m = n < INDEX_BATCH ? (uint32_t)n : INDEX_BATCH;

		lookup(x, d, m, values);
		d += m;
		values += m;
		n -= m;
	}
	rcu_read_unlock();
}
