/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/walk.h"

#include "tools/replay/trace.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hashes told already, by open addressing: they are SHA-256, so any 8 bytes are a good hash. */
struct seen {
	uint64_t *slots;
	size_t size, used; /* size: a power of two */
};

static int seen_grow(struct seen *s)
{
	size_t size = s->size ? 2 * s->size : 4096;
	uint64_t *slots = calloc(size, sizeof(*slots));

	if (slots == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++) {
		size_t at = s->slots[i] & (size - 1);

		if (s->slots[i] == 0)
			continue;
		while (slots[at] != 0)
			at = (at + 1) & (size - 1);
		slots[at] = s->slots[i];
	}
	free(s->slots);
	s->slots = slots;
	s->size = size;
	return 0;
}

/* 1: new; 0: was there; -ENOMEM. */
static int seen_add(struct seen *s, const uint8_t *hash)
{
	uint64_t v;
	size_t at;

	if (2 * s->used >= s->size && seen_grow(s) < 0)
		return -ENOMEM;
	memcpy(&v, hash, sizeof(v));
	v = v ? v : 1;
	at = v & (s->size - 1);
	for (; s->slots[at] != 0; at = (at + 1) & (s->size - 1))
		if (s->slots[at] == v)
			return 0;
	s->slots[at] = v;
	s->used++;
	return 1;
}

struct walk {
	const struct replay_options *o;
	replay_object_cb cb;
	void *ctx;
	struct replay_walk_totals *totals;
	struct seen seen;
	bool full;
};

static int block_tell(struct walk *w, const uint8_t *hash)
{
	const struct replay_options *o = w->o;
	uint64_t len = replay_object_bytes(o);
	char key[REPLAY_KEY_SIZE];
	struct replay_object object = { .key = key, .len = len };
	int ret;

	if (o->objects - w->totals->objects < o->tp ||
		(o->bytes - w->totals->bytes) / o->tp < len) {
		w->full = true;
		return 0;
	}
	ret = seen_add(&w->seen, hash);
	if (ret < 0)
		return ret;
	w->totals->blocks++;
	if (ret == 0) {
		w->totals->reused_blocks++;
		return 0;
	}
	for (uint32_t rank = 0; rank < o->tp; rank++) {
		object.key_len = replay_key_format(key, o->model, rank, hash);
		ret = w->cb(w->ctx, &object);
		if (ret != 0)
			return ret;
		w->totals->objects++;
		w->totals->bytes += len;
	}
	return 0;
}

/* Engines store whole blocks only: the tail of a request that fills none is left out. */
static int request_tell(struct walk *w, const struct replay_request *req)
{
	uint32_t per_id = REPLAY_TRACE_BLOCK_TOKENS / w->o->block_tokens;
	uint64_t blocks = req->input_tokens / w->o->block_tokens;
	uint64_t told_before = w->totals->blocks;
	struct replay_chain chain;
	int ret = 0;

	if (blocks > w->o->blocks_per_request)
		blocks = w->o->blocks_per_request;
	replay_chain_init(&chain);
	for (uint64_t i = 0; i < blocks && !w->full && ret == 0; i++) {
		ret = replay_chain_next(&chain, req->ids[i / per_id], (uint32_t)(i % per_id));
		if (ret == 0)
			ret = block_tell(w, chain.hash);
	}
	/* One that found the limits reached has no part in what was told. */
	if (!w->full || w->totals->blocks > told_before)
		w->totals->requests++;
	return ret;
}

int replay_walk(const struct replay_options *o, replay_object_cb cb, void *ctx,
	struct replay_walk_totals *totals, char *err, size_t err_len)
{
	struct walk w = { .o = o, .cb = cb, .ctx = ctx, .totals = totals };
	struct replay_request req;
	struct replay_trace *t;
	int ret = 0;

	memset(totals, 0, sizeof(*totals));
	if (o->trace != NULL)
		t = replay_trace_open(o->trace, err, err_len);
	else
		t = replay_trace_generate(o->seed, o->requests);
	if (t == NULL) {
		ret = -errno;
		if (o->trace == NULL)
			snprintf(err, err_len, "%s", strerror(-ret));
		return ret;
	}
	while (ret == 0 && !w.full && totals->requests < o->requests) {
		ret = replay_trace_next(t, &req, err, err_len);
		if (ret <= 0)
			break;
		ret = request_tell(&w, &req);
		if (ret == -ENOMEM || ret == -EIO)
			snprintf(err, err_len, "%s", strerror(-ret));
	}
	replay_trace_close(t);
	free(w.seen.slots);
	return ret;
}
