/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index_private.h"

#include <errno.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/*
 * A lookup waits for memory and does little else, so what counts is how many cache lines are on
 * their way at once. Lines of all the batch's first buckets are asked for into the L2 cache, which
 * has more room for what is under way than L1: prefetches into L1 beyond a score or so are lost,
 * and each lost one is a wait of its own. A few keys before a line is looked into it is asked for
 * into L1. Nothing branches on what a line holds: whether a key is there cannot be guessed, and a
 * wrong guess throws away what was begun behind it.
 */
enum { NEAR = 16 };

/* A lookup in flight. */
struct probe {
	const struct bucket *b;
	const struct bucket *t;
	const struct shard *s;
	struct name n;
	uint32_t version, buckets;
};

struct batch {
	struct probe probes[INDEX_BATCH];
	uint64_t seconds; /* bits of the probes that go on to their second bucket */
	uint64_t *values;
	uint32_t n;
};

static inline void begin(const struct index_view *v, struct digest128 d, struct probe *p)
{
	struct table t;

	p->s = &v->shards[shard_of(v, d)];
	p->n = name_of(d);
	p->version = atomic_load_explicit(&p->s->version, memory_order_acquire);
	t = table_at(v, atomic_load_explicit(&p->s->table, memory_order_acquire));
	p->t = t.b;
	p->buckets = t.buckets;
	p->b = &t.b[bucket_first(p->n.tag, t.buckets)];
	__builtin_prefetch(p->b, 0, 2);
}

/* 0 if no key left its slot since begin(): what was seen was true at one moment. */
static inline uint32_t changed(const struct probe *p)
{
	return atomic_load_explicit(&p->s->version, memory_order_relaxed) ^ p->version;
}

static uint64_t again(const struct index_view *v, struct digest128 d)
{
	for (int i = 0; i < INDEX_TRIES; i++) {
		struct probe p;
		uint64_t word;
		int slot;

		begin(v, d, &p);
		slot = bucket_find(p.b, p.n, &word);
		if (slot < 0 && bucket_count(p.b, p.n.tag) > 0)
			slot = bucket_find(&p.t[bucket_second(p.n.tag, p.buckets)], p.n, &word);
		if (changed(&p) == 0)
			return slot < 0 ? 0 : word & VALUE_MASK;
	}
	return INDEX_UNSURE;
}

/* 0 or 1, in a way that compilers do not turn into a branch; bits is less than 16. */
static inline uint64_t any(uint32_t bits)
{
	return (bits + 15) >> 4;
}

/* The value in the one slot of hits; 0 if there is none. */
static inline uint64_t value_at(const struct bucket *b, uint32_t hits)
{
	return load(&b->value[__builtin_ctz(hits | 8)]) & VALUE_MASK & -any(hits);
}

/* What the first bucket of probe i says; its second one is asked for if it may be there. */
static inline void settle(struct batch *a, uint32_t i, uint32_t hits)
{
	struct probe *p = &a->probes[i];
	uintptr_t first = (uintptr_t)p->b;
	uintptr_t second = (uintptr_t)&p->t[bucket_second(p->n.tag, p->buckets)];
	uint64_t need = any(bucket_count(p->b, p->n.tag)) & ~any(hits);

	a->values[i] = value_at(p->b, hits);
	a->seconds |= need << i;
	p->b = (const struct bucket *)(first ^ ((first ^ second) & -need));
	__builtin_prefetch(p->b);
	if (i + NEAR < a->n)
		__builtin_prefetch(a->probes[i + NEAR].b);
}

static void look(struct batch *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		settle(a, i, bucket_match(a->probes[i].b, a->probes[i].n));
}

#if defined(__x86_64__)
/*
 * The same four slots at a time. Loads of x86 are in order and 8 aligned bytes of a vector are
 * never torn, so this sees what bucket_match() could have seen.
 */
__attribute__((target("avx2,bmi,bmi2"))) static void look_wide(struct batch *a)
{
	const __m256i tag_mask = _mm256_set1_epi64x((long long)TAG_MASK);
	const __m256i extra_mask = _mm256_set1_epi64x((long long)~VALUE_MASK);

	for (uint32_t i = 0; i < a->n; i++) {
		const struct probe *p = &a->probes[i];
		__m256i tags = _mm256_load_si256((const __m256i *)p->b->tag), words;

		atomic_signal_fence(memory_order_acquire);
		words = _mm256_load_si256((const __m256i *)p->b->value);
		atomic_signal_fence(memory_order_acquire);
		tags = _mm256_cmpeq_epi64(_mm256_and_si256(tags, tag_mask),
			_mm256_set1_epi64x((long long)p->n.tag));
		words = _mm256_cmpeq_epi64(_mm256_and_si256(words, extra_mask),
			_mm256_set1_epi64x((long long)p->n.extra));
		settle(a, i,
			(uint32_t)_mm256_movemask_pd(
				_mm256_castsi256_pd(_mm256_and_si256(tags, words))));
	}
}
#endif

void lookup_batch(const struct index_view *v, const struct digest128 *d, uint32_t n,
	uint64_t *values, bool wide)
{
	struct batch a;
	uint32_t moved = 0;

	a.n = n;
	a.values = values;
	a.seconds = 0;
	for (uint32_t i = 0; i < n; i++)
		begin(v, d[i], &a.probes[i]);
#if defined(__x86_64__)
	if (wide)
		look_wide(&a);
	else
		look(&a);
#else
	(void)wide;
	look(&a);
#endif
	/* While the second lines come. */
	for (uint32_t i = 0; i < n; i++)
		moved |= changed(&a.probes[i]);
	for (uint64_t left = a.seconds; left != 0; left &= left - 1) {
		const struct probe *p = &a.probes[__builtin_ctzll(left)];

		values[__builtin_ctzll(left)] = value_at(p->b, bucket_match(p->b, p->n));
		moved |= changed(p);
	}
	for (uint32_t i = 0; moved != 0 && i < n; i++)
		if (changed(&a.probes[i]) != 0)
			values[i] = again(v, d[i]);
}

void index_view_lookup(const struct index_view *v, const struct digest128 *d, size_t n,
	uint64_t *values)
{
	bool wide = false;

#if defined(__x86_64__)
	wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#endif
	while (n > 0) {
		uint32_t m = n < INDEX_BATCH ? (uint32_t)n : INDEX_BATCH;

		lookup_batch(v, d, m, values, wide);
		d += m;
		values += m;
		n -= m;
	}
}

void index_lookup(const struct index *x, const struct digest128 *d, size_t n, uint64_t *values)
{
	index_view_lookup(&x->view, d, n, values);
}

int index_view_open(int fd, uint64_t limit, struct index_view *v, const void **user,
	size_t user_bytes)
{
	const uint8_t *base = arena_map(fd, limit);
	const struct index_head *h = (const struct index_head *)base;

	if (base == NULL)
		return -errno;
	if (h->magic != INDEX_MAGIC || h->layout != INDEX_LAYOUT || h->user_bytes != user_bytes ||
		h->shard_bits > INDEX_SHARD_BITS_MAX || h->shards_at % sizeof(struct shard) != 0 ||
		h->shards_at > limit - INDEX_SHARDS_MAX * sizeof(struct shard) ||
		h->user_at % sizeof(struct shard) != 0 || h->user_at > limit - user_bytes) {
		arena_unmap(base, limit);
		return -EPROTO;
	}
	*v = (struct index_view){ base, (const struct shard *)(base + h->shards_at), limit,
		h->shard_bits };
	*user = base + h->user_at;
	return 0;
}

void index_view_close(struct index_view *v)
{
	arena_unmap(v->base, v->limit);
	*v = (struct index_view){ 0 };
}
