/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index_private.h"

#include <urcu.h>

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

/* All first buckets are fetched at once, then all second ones that are needed. */
static void lookup(const struct index *x, const struct digest128 *d, uint32_t n, uint64_t *values)
{
	struct probe probes[INDEX_BATCH];
	uint8_t second[INDEX_BATCH], redo[INDEX_BATCH];
	uint32_t seconds = 0, redos = 0, count;
	uint64_t word;

	for (uint32_t i = 0; i < n; i++)
		begin(x, d[i], &probes[i]);
	for (uint32_t i = 0; i < n; i++) {
		struct probe *p = &probes[i];
		int slot = bucket_find(p->b, p->n, &word, &count);

		if (slot < 0 && count > 0) {
			p->b = &p->t->b[bucket_second(p->n.tag, p->t->buckets)];
			__builtin_prefetch(p->b);
			second[seconds++] = (uint8_t)i;
			continue;
		}
		values[i] = slot < 0 ? 0 : word & VALUE_MASK;
		redo[redos] = (uint8_t)i;
		redos += !is_valid(p);
	}
	for (uint32_t j = 0; j < seconds; j++) {
		struct probe *p = &probes[second[j]];
		int slot = bucket_find(p->b, p->n, &word, &count);

		values[second[j]] = slot < 0 ? 0 : word & VALUE_MASK;
		redo[redos] = second[j];
		redos += !is_valid(p);
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
