/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/existence.h"
#include "tools/bench/host.h"
#include "tools/bench/keys.h"
#include "tools/rtehash/rtehash.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Existence in process: batches of 64 random digests, half of them there, answered by a second,
 * read-only mapping of a site master's memory as libstrait makes it, with age and negative entries;
 * index_mops is the bare lookup in the writer's own. The ceiling is as many independent cache lines
 * of as much memory, since no table answers without one.
 */

enum {
	BATCH = 64,
	QUERIES_MAX = 1 << 23, /* 128 MiB of digests, read once in order */
	LOAD = INDEX_BATCH,
};

static const struct digest_key secret = { { 42 } };

struct queries {
	struct digest128 *d;
	uint64_t n, hits;
};

static struct digest128 digest_get(uint64_t n)
{
	uint8_t key[KEYS_BYTES];

	keys_key(n, key);
	return digest_of_key(&secret, key, sizeof(key));
}

static int queries_make(struct queries *q, uint64_t keys)
{
	uint64_t seed = 11;

	q->n = QUERIES_MAX;
	q->hits = 0;
	q->d = malloc(q->n * sizeof(*q->d));
	if (q->d == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < q->n; i++) {
		uint64_t at = (seed = keys_mix(seed)) % (2 * keys);

		q->d[i] = digest_get(at);
		q->hits += at < keys;
	}
	return 0;
}

struct timing {
	uint64_t cpu_ns, wall_ns, done;
};

static void timing_begin(struct timing *t)
{
	*t = (struct timing){ host_cpu_ns(), host_now_ns(), 0 };
}

/* Millions a second; *share (may be NULL) is the part of the CPU that we had. */
static double timing_end(const struct timing *t, double *share)
{
	double cpu = (double)(host_cpu_ns() - t->cpu_ns);

	if (share != NULL)
		*share = cpu / (double)(host_now_ns() - t->wall_ns);
	return (double)t->done * 1e3 / cpu;
}

static int fill(struct index *x, uint64_t keys, struct digest128 (*digest)(uint64_t n))
{
	for (uint64_t at = 0; at < keys; at += LOAD) {
		uint64_t n = keys - at < LOAD ? keys - at : LOAD;
		struct digest128 d[LOAD];

		for (uint64_t i = 0; i < n; i++) {
			d[i] = digest(at + i);
			index_prefetch(x, d[i]);
		}
		for (uint64_t i = 0; i < n; i++)
			if (index_update(x, d[i], 0, INDEX_PRESENT(0), NULL, NULL) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* All queries once, or until the time is over; every answer is counted. */
static double ours(const struct exist_view *v, const struct queries *q, double seconds,
	double *share, uint64_t *hits)
{
	uint8_t answers[BATCH];
	struct exist_age age;
	struct timing t;

	*hits = 0;
	timing_begin(&t);
	do {
		for (uint64_t i = 0; i + BATCH <= q->n; i += BATCH) {
			exist_view_ask(v, q->d + i, BATCH, host_now_ns(), answers, &age);
			for (int j = 0; j < BATCH; j++)
				*hits += answers[j] == STRAIT_EXIST_YES;
		}
		t.done += q->n / BATCH * BATCH;
	} while ((double)(host_cpu_ns() - t.cpu_ns) < seconds * 1e9);
	*hits = *hits * q->n / t.done;
	return timing_end(&t, share);
}

static double bare(const struct index *x, const struct queries *q, double seconds, uint64_t *hits)
{
	uint64_t values[BATCH];
	struct timing t;

	*hits = 0;
	timing_begin(&t);
	do {
		for (uint64_t i = 0; i + BATCH <= q->n; i += BATCH) {
			index_lookup(x, q->d + i, BATCH, values);
			for (int j = 0; j < BATCH; j++)
				*hits += values[j] != 0;
		}
		t.done += q->n / BATCH * BATCH;
	} while ((double)(host_cpu_ns() - t.cpu_ns) < seconds * 1e9);
	*hits = *hits * q->n / t.done;
	return timing_end(&t, NULL);
}

static double one_by_one(struct index *x, const struct queries *q)
{
	uint64_t value, n = q->n / 8, sum = 0;
	struct timing t;

	timing_begin(&t);
	for (uint64_t i = 0; i < n; i++) {
		index_lookup(x, q->d + i, 1, &value);
		sum += value;
	}
	__asm__ volatile("" : : "r"(sum));
	t.done = n;
	return timing_end(&t, NULL);
}

static double theirs(struct rtehash *h, const struct queries *q, double seconds, uint64_t *hits)
{
	struct timing t;

	*hits = 0;
	timing_begin(&t);
	do {
		for (uint64_t i = 0; i + BATCH <= q->n; i += BATCH)
			*hits += (uint64_t)__builtin_popcountll(rtehash_lookup(h, q->d + i, BATCH));
		t.done += q->n / BATCH * BATCH;
	} while ((double)(host_cpu_ns() - t.cpu_ns) < seconds * 1e9);
	*hits = *hits * q->n / t.done;
	return timing_end(&t, NULL);
}

static int rtehash_fill(struct rtehash *h, uint64_t keys, struct digest128 (*digest)(uint64_t n),
	double *mops)
{
	struct timing t;

	timing_begin(&t);
	for (uint64_t i = 0; i < keys; i++) {
		struct digest128 d = digest(i);

		if (rtehash_add(h, &d) < 0)
			return -ENOSPC;
	}
	t.done = keys;
	*mops = timing_end(&t, NULL);
	return 0;
}

/* What a client maps; the writer lives as long as the bench does. */
static int view_open(struct existence *e, struct exist_view *v)
{
	uint64_t limit;
	const void *user = NULL;
	int fd = index_share(e->index, &limit), ret;

	if (fd < 0)
		return fd;
	ret = index_view_open(fd, limit, &v->index, &user, sizeof(struct exist_shared));
	v->shared = user;
	close(fd);
	return ret;
}

static int exist_turns(const struct bench_options *o, struct existence *e, struct rtehash *h,
	const struct queries *q, uint8_t *region, struct result *r)
{
	struct exist_view v;
	uint64_t hits;
	double mops;
	int ret = view_open(e, &v);

	if (ret < 0)
		return ret;
	for (uint32_t i = 0; i < o->runs && ret == 0; i++) {
		double share,
			ceiling = keys_line_ceiling(region, (size_t)o->keys * 16, o->seconds / 4);

		mops = ours(&v, q, o->seconds, &share, &hits);
		ret = hits != q->hits ? -EBADMSG : ret;
		result_add(r, "mops", mops);
		result_add(r, "ceiling", ceiling);
		result_add(r, "ratio", mops / ceiling);
		result_add(r, "index_mops", bare(e->index, q, o->seconds, &hits));
		ret = hits != q->hits ? -EBADMSG : ret;
		result_add(r, "rte_hash_mops", theirs(h, q, o->seconds, &hits));
		ret = hits != q->hits ? -EBADMSG : ret;
		result_add(r, "one_by_one_mops", one_by_one(e->index, q));
		result_add(r, "cpu_share", share);
	}
	index_view_close(&v.index);
	return ret;
}

int exist_run(const struct bench_options *o, int cpu, struct result *r)
{
	struct existence *e = malloc(sizeof(*e));
	struct index *x = NULL;
	struct rtehash *h = NULL;
	struct queries q = { 0 };
	struct index_stats st;
	uint64_t before, keys = o->keys;
	uint8_t *region = NULL;
	size_t region_bytes = (size_t)keys * 16;
	double mops;
	int ret = e == NULL ? -ENOMEM : queries_make(&q, keys);

	if (ret < 0)
		goto out;
	ret = -ENOMEM;
	before = keys_resident();
	x = index_create_shared(keys, keys, EXISTENCE_SHARED);
	if (x == NULL || fill(x, keys, digest_get) < 0)
		goto out;
	result_add(r, "bytes_per_key", (double)(keys_resident() - before) / (double)keys);
	index_stats_get(x, &st);
	result_add(r, "load", (double)st.keys / (double)st.slots);
	existence_init(e, x, INDEX_PRESENT_MASK, UINT64_MAX);
	existence_current(e, 1, host_now_ns());
	region = host_region_get(region_bytes);
	/* The whole table: rte_hash adds a spare of 10 % for itself. */
	before = keys_resident();
	h = rtehash_create((uint32_t)(keys + keys / 10), cpu);
	if (region == NULL || h == NULL)
		goto out;
	ret = rtehash_fill(h, keys, digest_get, &mops);
	if (ret < 0)
		goto out;
	result_add(r, "rte_hash_bytes_per_key", (double)(keys_resident() - before) / (double)keys);
	ret = exist_turns(o, e, h, &q, region, r);
	if (ret == 0)
		ret = exist_client_run(o, e, &secret, r);
out:
	rtehash_destroy(h);
	host_region_put(region, region_bytes);
	index_destroy(x);
	free(q.d);
	free(e);
	return ret;
}

/* ---- events ---- */

/*
 * A site that has all its keys: every event adds one and removes another, so that the number stays.
 */
static int churn(struct index *x, uint64_t *next, uint64_t keys, double seconds, double *mops,
	double *share)
{
	struct timing t;
	int ret = 0;

	timing_begin(&t);
	do {
		for (int burst = 0; burst < 512 && ret == 0; burst++) {
			struct digest128 d[BATCH];

			for (uint64_t i = 0; i < BATCH; i++) {
				uint64_t n = *next + i / 2;

				d[i] = keys_digest(i % 2 ? n : n - keys);
				index_prefetch(x, d[i]);
			}
			for (uint64_t i = 0; i < BATCH; i++)
				ret |= index_update(x, d[i], 0, i % 2 ? INDEX_PRESENT(0) : 0, NULL,
					NULL);
			*next += BATCH / 2;
			t.done += BATCH;
		}
	} while ((double)(host_cpu_ns() - t.cpu_ns) < seconds * 1e9 && ret == 0);
	*mops = timing_end(&t, share);
	return ret;
}

static int rtehash_churn(struct rtehash *h, uint64_t *next, uint64_t keys, double seconds,
	double *mops)
{
	struct timing t;
	int ret = 0;

	timing_begin(&t);
	do {
		for (int burst = 0; burst < 8192 && ret == 0; burst++) {
			struct digest128 d = keys_digest(*next - keys);

			ret = rtehash_del(h, &d);
			d = keys_digest((*next)++);
			if (ret == 0)
				ret = rtehash_add(h, &d);
			t.done += 2;
		}
	} while ((double)(host_cpu_ns() - t.cpu_ns) < seconds * 1e9 && ret == 0);
	*mops = timing_end(&t, NULL);
	return ret;
}

int index_run(const struct bench_options *o, int cpu, struct result *r)
{
	struct index *x = index_create(o->keys), *grown = NULL;
	struct rtehash *h = NULL;
	struct index_stats st;
	uint64_t keys = o->keys, next = keys, next_peer = keys, before = keys_resident();
	uint8_t *region = host_region_get((size_t)keys * 16);
	struct timing t;
	double mops;
	int ret = -ENOMEM;

	if (x == NULL || region == NULL)
		goto out;
	before = keys_resident();
	timing_begin(&t);
	if (fill(x, keys, keys_digest) < 0)
		goto out;
	t.done = keys;
	result_add(r, "fill_mops", timing_end(&t, NULL));
	result_add(r, "bytes_per_key", (double)(keys_resident() - before) / (double)keys);
	/* The same from nothing, shards growing on the way: that time is in it. */
	grown = index_create(0);
	timing_begin(&t);
	if (grown == NULL || fill(grown, keys / 10, keys_digest) < 0)
		goto out;
	t.done = keys / 10;
	result_add(r, "growing_mops", timing_end(&t, NULL));
	index_stats_get(grown, &st);
	result_add(r, "grown_bytes_per_key", (double)st.bytes / (double)st.keys);
	index_destroy(grown);
	grown = NULL;
	h = rtehash_create((uint32_t)(keys + keys / 10), cpu);
	if (h == NULL)
		goto out;
	ret = rtehash_fill(h, keys, keys_digest, &mops);
	if (ret < 0)
		goto out;
	result_add(r, "rte_hash_fill_mops", mops);
	for (uint32_t i = 0; i < o->runs && ret == 0; i++) {
		double share,
			ceiling = keys_line_ceiling(region, (size_t)keys * 16, o->seconds / 4);

		ret = churn(x, &next, keys, o->seconds, &mops, &share);
		if (ret < 0)
			break;
		result_add(r, "mops", mops);
		result_add(r, "ceiling", ceiling);
		result_add(r, "ratio", mops / ceiling);
		result_add(r, "cpu_share", share);
		ret = rtehash_churn(h, &next_peer, keys, o->seconds, &mops);
		result_add(r, "rte_hash_mops", mops);
	}
	index_stats_get(x, &st);
	result_add(r, "moves_per_key", (double)st.moves / (double)(next > 0 ? next : 1));
	if (ret == 0 && st.keys != keys)
		ret = -EBADMSG;
out:
	rtehash_destroy(h);
	host_region_put(region, (size_t)keys * 16);
	index_destroy(grown);
	index_destroy(x);
	return ret;
}
