/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/exist_server.h"
#include "tools/bench/host.h"
#include "tools/bench/keys.h"
#include "tools/bench/redis.h"
#include "tools/bench/tempdir.h"

#include <strait/strait.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Existence as a client has it, through libstrait, 64 keys a call, keys and not digests: in the
 * memory that the server lends, and over the local socket, the latter in turns with a Redis server
 * that holds as many keys, where there is one. Client and server share the CPU in both cases.
 */

enum {
	KEYS = 1000000,
	SAMPLES = 1 << 18,
	SLICES = 10,
	BATCH = REDIS_BATCH,
	QUERIES = 1 << 20, /* 64 a call */
};

struct samples {
	uint32_t *ns;
	uint32_t n;
};

_Static_assert((int)REDIS_KEY_BYTES == (int)KEYS_BYTES, "the same keys for both");

/* Others than those of in_memory(). */
static void key_make(uint64_t n, uint8_t out[static KEYS_BYTES])
{
	keys_key(n ^ UINT64_C(1) << 60, out);
}

static bool tenant(const struct exist_peer *who, struct digest_key *out, void *ctx)
{
	*out = *(const struct digest_key *)ctx;
	return who->uid == getuid();
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double quantile_us(struct samples *s, double q)
{
	qsort(s->ns, s->n, sizeof(*s->ns), compare);
	return s->n == 0 ? 0 : s->ns[(uint32_t)((s->n - 1) * q)] * 1e-3;
}

struct peers {
	struct strait_exist *ours;
	struct redis *redis;
	uint64_t seed;
};

static int ask(struct peers *p, bool redis, const uint8_t *keys)
{
	struct strait_key k[BATCH];
	uint8_t answers[BATCH];
	int hits = 0, ret;

	if (redis)
		return redis_exist(p->redis, keys, BATCH);
	for (int i = 0; i < BATCH; i++)
		k[i] = (struct strait_key){ keys + i * REDIS_KEY_BYTES, REDIS_KEY_BYTES };
	ret = strait_exist_batch(p->ours, k, BATCH, answers, NULL);
	for (int i = 0; i < BATCH; i++)
		hits += answers[i] == STRAIT_EXIST_YES;
	return ret < 0 ? ret : hits;
}

static int slice(struct peers *p, bool redis, double seconds, struct samples *s)
{
	uint64_t end = host_now_ns() + (uint64_t)(seconds * 1e9);

	while (host_now_ns() < end && s->n < SAMPLES) {
		uint8_t keys[BATCH * REDIS_KEY_BYTES];
		uint64_t start, ns;
		int want = 0, got;

		for (int i = 0; i < BATCH; i++) {
			uint64_t n = (p->seed = keys_mix(p->seed)) % (2 * KEYS);

			key_make(n, keys + i * REDIS_KEY_BYTES);
			want += n < KEYS;
		}
		start = host_now_ns();
		got = ask(p, redis, keys);
		ns = host_now_ns() - start;
		if (got != want)
			return got < 0 ? got : -EBADMSG;
		s->ns[s->n++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
	}
	return 0;
}

static int fill(struct index *x, const struct digest_key *secret, struct redis *redis)
{
	uint8_t keys[BATCH * REDIS_KEY_BYTES];
	int ret = 0;

	for (uint64_t n = 0; n < KEYS && ret == 0; n += BATCH) {
		for (uint64_t i = 0; i < BATCH && ret == 0; i++) {
			uint8_t *key = keys + i * REDIS_KEY_BYTES;

			key_make(n + i, key);
			ret = index_update(x, digest_of_key(secret, key, REDIS_KEY_BYTES), 0,
				INDEX_PRESENT(1), NULL, NULL);
		}
		if (redis != NULL && ret == 0)
			ret = redis_set(redis, keys, BATCH);
	}
	return ret;
}

static int run(const struct bench_options *o, struct peers *p, struct result *r)
{
	struct samples s[2] = { 0 };
	int ret = 0, peers = p->redis != NULL ? 2 : 1;

	for (int i = 0; i < peers; i++) {
		s[i].ns = malloc(SAMPLES * sizeof(*s[i].ns));
		if (s[i].ns == NULL)
			ret = -ENOMEM;
	}
	for (uint32_t i = 0; i < o->runs && ret == 0; i++) {
		s[0].n = s[1].n = 0;
		for (int j = 0; j < SLICES * peers && ret == 0; j++)
			ret = slice(p, j % peers == 1, o->seconds / SLICES, &s[j % peers]);
		if (ret < 0)
			break;
		result_add(r, "socket_p50_us", quantile_us(&s[0], 0.5));
		result_add(r, "socket_p99_us", quantile_us(&s[0], 0.99));
		if (p->redis != NULL) {
			result_add(r, "redis_p50_us", quantile_us(&s[1], 0.5));
			result_add(r, "redis_p99_us", quantile_us(&s[1], 0.99));
		}
	}
	free(s[0].ns);
	free(s[1].ns);
	return ret;
}

/* Answers in the server's memory, with what hashing the keys takes: millions a second. */
static int in_memory(const struct bench_options *o, struct strait_exist *x, struct result *r)
{
	uint8_t *bytes = malloc((size_t)QUERIES * KEYS_BYTES), answers[BATCH];
	struct strait_key *keys = malloc(QUERIES * sizeof(*keys));
	uint64_t seed = 7, done, hits = 0, want = 0, start;
	int ret = bytes == NULL || keys == NULL ? -ENOMEM : 0;

	for (uint64_t i = 0; i < QUERIES && ret == 0; i++) {
		uint64_t n = (seed = keys_mix(seed)) % (2 * o->keys);

		keys_key(n, bytes + i * KEYS_BYTES);
		keys[i] = (struct strait_key){ bytes + i * KEYS_BYTES, KEYS_BYTES };
		want += n < o->keys;
	}
	if (ret == 0 && !strait_exist_is_mapped(x))
		ret = -EOPNOTSUPP;
	for (uint32_t run = 0; run < o->runs && ret == 0; run++) {
		done = hits = 0;
		start = host_cpu_ns();
		do {
			for (uint64_t i = 0; i < QUERIES; i += BATCH) {
				if (strait_exist_batch(x, keys + i, BATCH, answers, NULL) < 0)
					ret = -EIO;
				for (int j = 0; j < BATCH; j++)
					hits += answers[j] == STRAIT_EXIST_YES;
			}
			done += QUERIES;
		} while ((double)(host_cpu_ns() - start) < o->seconds * 1e9);
		result_add(r, "client_mops", (double)done * 1e3 / (double)(host_cpu_ns() - start));
		if (hits != want * (done / QUERIES))
			ret = -EBADMSG;
	}
	free(bytes);
	free(keys);
	return ret;
}

int exist_client_run(const struct bench_options *o, struct existence *e,
	const struct digest_key *secret, struct result *r)
{
	char dir[TEMPDIR_BYTES], path[TEMPDIR_BYTES + 8], err[128] = "";
	struct digest_key key = *secret;
	struct exist_server_config cfg = { .path = path,
		.mode = 0600,
		.threads = 1,
		.clients_max = 4,
		.tenant = tenant,
		.ctx = &key };
	struct exist_server *server = NULL;
	struct peers p = { .seed = 5 };
	int ret = tempdir_create(dir);

	if (ret < 0)
		return ret;
	snprintf(path, sizeof(path), "%s/exist", dir);
	server = exist_server_start(e, &cfg, err, sizeof(err));
	if (server == NULL) {
		ret = -errno;
		fprintf(stderr, "strait-bench: %s\n", err);
		goto out;
	}
	p.redis = redis_start(dir);
	if (p.redis == NULL)
		fprintf(stderr, "strait-bench: no Redis to compare with: %s\n", strerror(errno));
	p.ours = strait_exist_open(path, 10000);
	ret = p.ours == NULL ? -errno : 0;
	existence_beat(e, UINT64_MAX);
	if (ret == 0)
		ret = in_memory(o, p.ours, r);
	/* Without a beat they ask over the socket. */
	existence_beat(e, 0);
	if (ret == 0)
		ret = fill(e->index, secret, p.redis);
	if (ret == 0)
		ret = run(o, &p, r);
out:
	strait_exist_close(p.ours);
	redis_stop(p.redis);
	exist_server_stop(server);
	tempdir_remove();
	return ret;
}
