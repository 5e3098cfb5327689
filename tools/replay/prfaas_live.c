/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "tools/replay/blockkey.h"
#include "tools/replay/lru.h"
#include "tools/replay/run.h"
#include "tools/replay/timeline.h"
#include "tools/replay/value.h"

#include <strait/strait.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * prfaas --live: the same requests by the clock, on two pools between which something replicates.
 * What an instance would make is put into the prefill site's pool, or the decode site's, when it
 * would be ready; at the time it is needed the decode site's pool is asked. Nothing falls back.
 *
 * --mode none: what replicates does so as well, but only what the decode site made itself is a hit.
 * (A block that was there for an earlier request does not cross again, in favor of this mode.)
 * serial: nothing replicates; here is a copier that takes one key after the other, for its round
 * trips and its bytes at the full cap.
 */

enum { ARRIVE, PUT, NEEDED, COPIED };

struct block {
	uint8_t hash[REPLAY_HASH_BYTES];
};

struct live_run {
	struct live_run *next;
	struct block *blocks;
	size_t count, from; /* from: the first one that is not at the decode site */
};

struct made { /* a block that is to be put, or copied */
	struct made *next;
	const struct block *block;
	struct strait_pool *pool;
};

struct live {
	const struct replay_options *o;
	struct prfaas_live_result *r;
	struct replay_trace *trace;
	struct strait_pool *prefill, *decode;
	struct timeline events;
	struct live_run *runs;
	uint64_t *free_ns[2]; /* when each instance is free: of the prefill site, the decode site */
	struct lru own;       /* --mode none: what the decode site made */
	struct made *copy, **tail; /* --mode serial: what is to be copied, the first one now */
	uint64_t start_ns, first_ms, read;
	uint8_t *value;
	char *err;
	size_t err_len;
};

static bool has(const struct live *l, struct strait_pool *pool, const struct block *b)
{
	char key[REPLAY_KEY_SIZE];

	for (uint32_t rank = 0; rank < l->o->tp; rank++) {
		size_t len = replay_key_format(key, l->o->model, rank, b->hash);

		if (strait_exist(pool, key, len) != 0)
			return false;
	}
	return true;
}

static uint64_t block_id(const struct block *b)
{
	uint64_t id;

	memcpy(&id, b->hash, sizeof(id));
	return id;
}

/* A hit at the decode site. */
static bool is_hit(const struct live *l, const struct block *b)
{
	return l->o->mode == PRFAAS_NONE ? lru_has(&l->own, block_id(b)) : has(l, l->decode, b);
}

static int copy_first(struct live *l, uint64_t now_ns)
{
	const struct replay_options *o = l->o;
	double s = (double)(replay_object_bytes(o) * 8) /
		((double)o->prfaas.cap_bps * o->prfaas.efficiency);

	s += o->prfaas.serial_rtts * (double)o->prfaas.rtt_ns * 1e-9;
	return timeline_add(&l->events, now_ns + (uint64_t)(s * o->tp * 1e9), COPIED, l->copy);
}

static int put(struct live *l, struct made *m)
{
	uint64_t len = replay_object_bytes(l->o);
	char key[REPLAY_KEY_SIZE];
	int ret = 0;

	for (uint32_t rank = 0; rank < l->o->tp && ret == 0; rank++) {
		size_t key_len = replay_key_format(key, l->o->model, rank, m->block->hash);

		ret = replay_value_fill(key, key_len, l->value, len);
		if (ret == 0)
			ret = strait_put(m->pool, key, key_len, l->value, len);
		if (ret == 0)
			l->r->put_bytes[m->pool == l->decode] += len;
		else if (ret == -EEXIST || ret == -EBUSY) /* it is coming from the other site */
			ret = 0;
	}
	if (ret < 0)
		snprintf(l->err, l->err_len, "put %s: %s", key, strait_strerror(ret));
	return ret;
}

static int made(struct live *l, struct made *m, uint64_t now_ns)
{
	int ret = put(l, m);

	if (ret == 0 && m->pool == l->decode && l->o->mode == PRFAAS_NONE)
		ret = lru_add(&l->own, block_id(m->block), now_ns - l->start_ns);
	if (ret < 0 || m->pool == l->decode || l->o->mode != PRFAAS_SERIAL) {
		free(m);
		return ret;
	}
	m->pool = l->decode;
	*l->tail = m;
	l->tail = &m->next;
	return l->copy == m ? copy_first(l, now_ns) : 0;
}

static int copied(struct live *l, struct made *m, uint64_t now_ns)
{
	uint64_t bytes = l->r->put_bytes[1];
	int ret = put(l, m);

	l->r->put_bytes[1] = bytes; /* those that were made there */
	l->copy = m->next;
	if (l->copy == NULL)
		l->tail = &l->copy;
	free(m);
	/* Nobody asks any more: that is the end. */
	if (ret < 0 || l->copy == NULL || timeline_first(&l->events) == NULL)
		return ret;
	return copy_first(l, now_ns);
}

/* An instance takes it: blocks are made one after the other. Returns the end. */
static int make(struct live *l, struct live_run *run, bool remote, uint64_t now_ns, uint64_t *end)
{
	const struct prfaas_site_config *site =
		remote ? &l->o->prfaas.prefill : &l->o->prfaas.decode;
	struct strait_pool *pool = remote ? l->prefill : l->decode;
	uint64_t *best = &l->free_ns[!remote][0], step;
	size_t i = 0;
	int ret = 0;

	for (uint32_t k = 1; k < site->instances; k++)
		best = l->free_ns[!remote][k] < *best ? &l->free_ns[!remote][k] : best;
	step = (uint64_t)(l->o->block_tokens * 1e9 / site->tokens_per_s);
	*end = *best > now_ns ? *best : now_ns;
	while (i < run->count &&
		(remote ? has(l, pool, &run->blocks[i]) : is_hit(l, &run->blocks[i])))
		i++;
	for (; i < run->count && ret == 0; i++) {
		struct made *m = malloc(sizeof(*m));

		if (m == NULL)
			return -ENOMEM;
		*m = (struct made){ NULL, &run->blocks[i], pool };
		*end += step;
		ret = timeline_add(&l->events, *end, PUT, m);
	}
	*best = *end;
	return ret;
}

static int next_arrival(struct live *l)
{
	struct replay_request req;
	struct replay_chain chain;
	struct live_run *run;
	uint32_t per_id = REPLAY_TRACE_BLOCK_TOKENS / l->o->block_tokens;
	double ms;
	int ret = l->read < l->o->requests ? replay_trace_next(l->trace, &req, l->err, l->err_len)
					   : 0;

	if (ret <= 0)
		return ret;
	run = calloc(1, sizeof(*run));
	if (run == NULL)
		return -ENOMEM;
	run->next = l->runs;
	l->runs = run;
	/* Whole units of 512 tokens, as in virtual time. */
	run->count = req.input_tokens / REPLAY_TRACE_BLOCK_TOKENS * per_id;
	run->blocks = calloc(run->count + 1, sizeof(*run->blocks));
	if (run->blocks == NULL)
		return -ENOMEM;
	replay_chain_init(&chain);
	for (size_t i = 0; i < run->count; i++) {
		ret = replay_chain_next(&chain, req.ids[i / per_id], (uint32_t)(i % per_id));
		if (ret < 0)
			return ret;
		memcpy(run->blocks[i].hash, chain.hash, REPLAY_HASH_BYTES);
	}
	l->first_ms = l->read++ == 0 ? req.timestamp_ms : l->first_ms;
	ms = req.timestamp_ms > l->first_ms ? (double)(req.timestamp_ms - l->first_ms) : 0;
	return timeline_add(&l->events, l->start_ns + (uint64_t)(ms * 1e6 / l->o->speed), ARRIVE,
		run);
}

static int arrive(struct live *l, struct live_run *run, uint64_t now_ns)
{
	uint64_t end;
	bool remote;
	int ret;

	while (run->from < run->count && is_hit(l, &run->blocks[run->from]))
		run->from++;
	l->r->requests++;
	l->r->blocks += run->count;
	l->r->hits += run->from;
	remote = l->o->mode != PRFAAS_LOCAL &&
		(run->count - run->from) * l->o->block_tokens > l->o->prfaas.threshold_tokens;
	ret = make(l, run, remote, now_ns, &end);
	if (ret == 0 && remote) {
		l->r->remote++;
		ret = timeline_add(&l->events, end + l->o->prfaas.deadline_ns, NEEDED, run);
	}
	return ret < 0 ? ret : next_arrival(l);
}

static int needed(struct live *l, const struct live_run *run)
{
	size_t there = 0, shipped = run->count - run->from;

	for (size_t i = run->from; i < run->count; i++)
		there += has(l, l->decode, &run->blocks[i]);
	l->r->shipped += shipped;
	l->r->there += there;
	l->r->misses += there < shipped;
	return 0;
}

static int play(struct live *l)
{
	struct timeline_entry e;
	int ret = next_arrival(l);

	while (ret == 0 && timeline_take(&l->events, &e)) {
		uint64_t now_ns = clock_now_ns();
		struct timespec until = { (time_t)(e.at_ns / 1000000000),
			(long)(e.at_ns % 1000000000) };

		if (e.at_ns > now_ns)
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		else if (now_ns - e.at_ns > l->r->behind_ns)
			l->r->behind_ns = now_ns - e.at_ns;
		ret = e.kind == ARRIVE     ? arrive(l, e.what, e.at_ns)
			: e.kind == NEEDED ? needed(l, e.what)
			: e.kind == COPIED ? copied(l, e.what, e.at_ns)
					   : made(l, e.what, e.at_ns);
	}
	return ret;
}

static struct strait_pool *pool_open(const char *path, char *err, size_t err_len)
{
	struct strait_pool *p = strait_pool_open(path, 0, 0);

	if (p == NULL)
		snprintf(err, err_len, "pool %s: %s", path, strait_pool_open_error());
	return p;
}

static void live_fini(struct live *l)
{
	struct timeline_entry e;

	while (timeline_take(&l->events, &e))
		if (e.kind == PUT)
			free(e.what);
	timeline_fini(&l->events);
	while (l->copy != NULL) {
		struct made *m = l->copy;

		l->copy = m->next;
		free(m);
	}
	lru_fini(&l->own);
	while (l->runs != NULL) {
		struct live_run *run = l->runs;

		l->runs = run->next;
		free(run->blocks);
		free(run);
	}
	free(l->free_ns[0]);
	free(l->free_ns[1]);
	free(l->value);
	strait_pool_close(l->prefill);
	strait_pool_close(l->decode);
	replay_trace_close(l->trace);
}

int replay_prfaas_live(const struct replay_options *o, struct prfaas_live_result *r, char *err,
	size_t err_len)
{
	struct live l = { .o = o, .r = r, .err = err, .err_len = err_len };
	int ret = -ENOMEM;

	memset(r, 0, sizeof(*r));
	l.tail = &l.copy;
	snprintf(err, err_len, "out of memory");
	l.start_ns = clock_now_ns();
	l.free_ns[0] = calloc(o->prfaas.prefill.instances, sizeof(uint64_t));
	l.free_ns[1] = calloc(o->prfaas.decode.instances, sizeof(uint64_t));
	l.value = malloc(replay_object_bytes(o));
	l.trace = o->trace != NULL ? replay_trace_open(o->trace, err, err_len)
				   : replay_trace_generate(o->seed, o->requests);
	if (l.trace == NULL || l.value == NULL || l.free_ns[0] == NULL || l.free_ns[1] == NULL ||
		lru_init(&l.own, UINT32_MAX, 0) < 0)
		goto out;
	l.prefill = pool_open(o->pool, err, err_len);
	l.decode = l.prefill != NULL ? pool_open(o->decode_pool, err, err_len) : NULL;
	ret = l.decode != NULL ? play(&l) : -EIO;
	r->seconds = (double)(clock_now_ns() - l.start_ns) * 1e-9;
out:
	live_fini(&l);
	return ret;
}
