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
 * Existence over the local socket as a client has it, through libstrait, 64 keys a call; in turns
 * with a Redis server that holds as many keys, where there is one. Client and server share the CPU
 * in both cases.
 */

enum { KEYS = 1000000, SAMPLES = 1 << 18, SLICES = 10, BATCH = REDIS_BATCH };

static const struct digest_key secret = { { 42 } };

struct samples {
	uint32_t *ns;
	uint32_t n;
};

static void key_make(uint64_t n, uint8_t out[static REDIS_KEY_BYTES])
{
	struct digest128 d = keys_digest(n ^ UINT64_C(1) << 60);

	memcpy(out, &d, sizeof(d));
}

static bool tenant(uid_t uid, gid_t gid, struct digest_key *out, void *ctx)
{
	(void)gid;
	(void)ctx;
	*out = secret;
	return uid == getuid();
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

static int fill(struct index *x, struct redis *redis)
{
	uint8_t keys[BATCH * REDIS_KEY_BYTES];
	int ret = 0;

	for (uint64_t n = 0; n < KEYS && ret == 0; n += BATCH) {
		for (uint64_t i = 0; i < BATCH && ret == 0; i++) {
			uint8_t *key = keys + i * REDIS_KEY_BYTES;

			key_make(n + i, key);
			ret = index_update(x, digest_of_key(&secret, key, REDIS_KEY_BYTES), 0,
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

int exist_socket_run(const struct bench_options *o, struct index *x, struct result *r)
{
	struct existence *e = malloc(sizeof(*e));
	char dir[TEMPDIR_BYTES], path[TEMPDIR_BYTES + 8], err[128] = "";
	struct exist_server_config cfg = { .path = path,
		.mode = 0600,
		.threads = 1,
		.clients_max = 4,
		.tenant = tenant };
	struct exist_server *server = NULL;
	struct peers p = { .seed = 5 };
	int ret = -ENOMEM;

	if (e == NULL)
		return ret;
	ret = tempdir_create(dir);
	if (ret < 0) {
		free(e);
		return ret;
	}
	snprintf(path, sizeof(path), "%s/exist", dir);
	existence_init(e, x, INDEX_PRESENT_MASK, UINT64_MAX);
	existence_current(e, 1, host_now_ns());
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
	ret = p.ours == NULL ? -errno : fill(x, p.redis);
	if (ret == 0)
		ret = run(o, &p, r);
out:
	strait_exist_close(p.ours);
	redis_stop(p.redis);
	exist_server_stop(server);
	tempdir_remove();
	free(e);
	return ret;
}
