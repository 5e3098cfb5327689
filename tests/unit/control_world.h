/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The world of control_sim_test.c: caches, what their site masters know, and links with delay.
 * Everything follows from a seed and a time that is counted, not measured.
 */

#include "control/orders/orderbook.h"
#include "control/planner/federation.h"
#include "control/site/offer.h"
#include "tests/unit/virtual_time.h"
#include "tools/link/prng.h"

#include <strait/status.h>
#include <strait/wire.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	SITES = 3,
	OBJECTS = 120,
	CAPACITY = 70, /* objects a cache holds */
	STEP_MS = 20,
	BUSY_MS = 60000,
	QUIET_MS = 60000,
	EVICTED_S = 3600,
	SEEDS = 24,
	FRAMES_MAX = 4096,
	SHIPMENTS_MAX = 512,
	POISON = 0,        /* at the last site this object never arrives */
	SILENT_MS = 11000, /* a connection without a word for so long is closed */
};
#define BEGIN_S UINT64_C(1700000000)

static const struct digest_key secret = { { 42 } };

struct frame {
	uint64_t due_ns;
	uint8_t *data;
	size_t len;
	int kind; /* enum message */
	uint64_t batch;
	uint32_t n;
	bool asked;
};

enum message { LOG, EXPAND, OFFER, EXPANDED, OFFERED };

struct pipe {
	struct frame q[FRAMES_MAX];
	uint32_t head, count;
	uint64_t last_ns;
};

struct site {
	/* truth */
	bool has[OBJECTS];
	uint64_t used[OBJECTS];
	/* the site master */
	bool up;
	uint64_t restart_ns, list_ns, evicted_at_s[OBJECTS];
	struct log *log;
	struct index *index;
	struct store *store;
	struct recall *recall; /* on disk: outlives it */
	struct gate gate;
	struct feed_source source;
	struct feed feed;
	/* the connection */
	bool open, parted;
	uint64_t parted_until_ns;
	uint64_t stalled_ns, stalled_until_ns; /* nothing gets through, nobody is told */
	struct pipe up_pipe, down_pipe;        /* to the inter-dc master, from it */
	uint64_t delay_ns;
	uint64_t gone_ns[OBJECTS]; /* the store knew it to be gone since; 0: it has it or never */
	unsigned int edge_down_until_ms;
};

struct shipment_event {
	bool used;
	uint64_t due_ns, wire, order;
	uint16_t to;
};

struct world {
	uint64_t seed, random, now_ns;
	int64_t clock_jump_s;
	struct site site[SITES];
	bool master_up;
	uint64_t master_restart_ns;
	struct federation *f;
	struct orderbook *book;
	struct shipment_event flying[SHIPMENTS_MAX];
	uint8_t on_its_way[SITES][OBJECTS];
	uint8_t absent[SITES][OBJECTS]; /* 1 + the site that had it no more when it was to come */
	uint64_t elsewhere;             /* brought from another then */
	uint64_t orders, delivered, crashes, cuts, lost, declined;
	uint64_t full_until_ns; /* the master's disk */
	uint64_t full, stalls;
	uint64_t poisoned; /* orders of POISON since the master started or somebody asked */
	bool busy;
};

static struct digest128 digest[OBJECTS];
static char keys[OBJECTS][16];

static uint64_t rnd(struct world *w)
{
	return prng_splitmix(&w->random);
}

static bool chance(struct world *w, uint32_t one_in)
{
	return rnd(w) % one_in == 0;
}

static uint64_t unix_s(const struct world *w)
{
	return BEGIN_S + (w->now_ns - BEGIN_NS) / (1000 * MS) + (uint64_t)w->clock_jump_s;
}

static int object_of(struct digest128 d)
{
	for (int i = 0; i < OBJECTS; i++)
		if (digest_equal(digest[i], d))
			return i;
	return -1;
}

/* ---- links ---- */

static void pipe_clear(struct pipe *p)
{
	while (p->count > 0) {
		free(p->q[p->head].data);
		p->head = (p->head + 1) % FRAMES_MAX;
		p->count--;
	}
	p->last_ns = 0;
}

static bool pipe_push(struct world *w, struct site *s, struct pipe *p, struct frame f,
	const void *data, size_t len)
{
	uint64_t due_ns = w->now_ns + s->delay_ns + rnd(w) % (s->delay_ns / 4 + 1);

	if (p->count == FRAMES_MAX)
		return false;
	f.due_ns = p->last_ns = due_ns > p->last_ns ? due_ns : p->last_ns;
	f.data = malloc(len + 1);
	assert_non_null(f.data);
	if (len > 0)
		memcpy(f.data, data, len);
	f.len = len;
	p->q[(p->head + p->count++) % FRAMES_MAX] = f;
	return true;
}

static bool is_stalled(const struct world *w, const struct site *s)
{
	return w->now_ns < s->stalled_until_ns;
}

static bool is_full(const struct world *w)
{
	return w->now_ns < w->full_until_ns;
}

static void disconnect(struct world *w, int i)
{
	struct site *s = &w->site[i];

	if (!s->open)
		return;
	s->open = false;
	pipe_clear(&s->up_pipe);
	pipe_clear(&s->down_pipe);
	if (s->up)
		feed_fini(&s->feed);
	if (w->master_up)
		federation_close(w->f, (uint16_t)i, w->now_ns);
}

static void connect_site(struct world *w, int i)
{
	static const uint16_t tenants[] = { 0 };
	struct site *s = &w->site[i];

	if (s->open || !s->up || !w->master_up || s->parted || is_stalled(w, s) ||
		w->now_ns < reader_connect_ns(&w->f->site[i].reader))
		return;
	s->open = true;
	s->stalled_until_ns = 0;
	feed_init(&s->feed, &s->source, &s->gate);
	federation_open(w->f, (uint16_t)i, tenants, 1, w->now_ns);
}

/* ---- site masters ---- */

static void sitemaster_start(struct world *w, int i)
{
	struct log_config log = { .epoch = rnd(w) | 1, .keep_ns = 5000 * MS, .max_bytes = 1 << 20 };
	struct store_config store = { .keys = 1000, .max_bytes = 1 << 24 };
	struct site *s = &w->site[i];

	store.log = s->log = log_create(&log);
	s->index = index_create(0);
	store.indexes = &s->index;
	assert_non_null(s->log);
	assert_non_null(s->index);
	s->store = store_create(&store);
	assert_non_null(s->store);
	gate_init(&s->gate, 1, 100 * MS, rnd(w));
	s->source = (struct feed_source){ s->log, store_sums(s->store), store_list, s->store };
	s->up = true;
	s->list_ns = w->now_ns;
	memset(s->gone_ns, 0, sizeof(s->gone_ns));
}

static void sitemaster_stop(struct world *w, int i)
{
	struct site *s = &w->site[i];

	if (!s->up)
		return;
	disconnect(w, i);
	s->up = false;
	store_destroy(s->store);
	index_destroy(s->index);
	log_destroy(s->log);
}

static struct store_key key_of(int n)
{
	return (struct store_key){ &secret, 0, keys[n], strlen(keys[n]), 1000 };
}

static void event(struct world *w, int i, int n, bool stored)
{
	struct site *s = &w->site[i];
	struct store_key k = key_of(n);

	if (!s->up)
		return;
	if (w->busy && chance(w, 20)) { /* lost on its way; a listing will tell */
		w->lost++;
		return;
	}
	if (stored) {
		uint8_t flags =
			recall_was_brought(s->recall, digest[n], unix_s(w)) ? LOG_FLAG_OURS : 0;

		(void)store_stored(s->store, 0, &k, flags, w->now_ns);
		s->gone_ns[n] = 0;
	} else if (store_removed(s->store, 0, &k, 0, w->now_ns) == 1) {
		recall_evicted(s->recall, digest[n], unix_s(w));
		s->evicted_at_s[n] = unix_s(w);
		s->gone_ns[n] = w->now_ns;
	}
}

/* As the source's admin port tells it: what events did not. */
static void listing(struct world *w, int i)
{
	struct site *s = &w->site[i];

	if (store_listing_begin(s->store, 0, 0) < 0)
		return;
	for (int n = 0; n < OBJECTS; n++) {
		struct store_key k = key_of(n);

		if (!s->has[n])
			continue;
		(void)store_listed(s->store, &k,
			recall_was_brought(s->recall, digest[n], unix_s(w)) ? LOG_FLAG_OURS : 0,
			w->now_ns);
		s->gone_ns[n] = 0;
	}
	(void)store_listing_end(s->store, true, w->now_ns);
	for (int n = 0; n < OBJECTS; n++)
		if (!s->has[n] && s->gone_ns[n] == 0)
			s->gone_ns[n] = w->now_ns;
	s->list_ns = w->now_ns + 2000 * MS + rnd(w) % (4000 * MS);
}

/* ---- caches ---- */

static void cache_remove(struct world *w, int i, int n)
{
	if (!w->site[i].has[n])
		return;
	w->site[i].has[n] = false;
	event(w, i, n, false);
}

static void cache_put(struct world *w, int i, int n)
{
	struct site *s = &w->site[i];
	int count = 0, oldest = -1;

	s->used[n] = w->now_ns;
	if (s->has[n])
		return;
	for (int k = 0; k < OBJECTS; k++) {
		if (!s->has[k])
			continue;
		count++;
		if (oldest < 0 || s->used[k] < s->used[oldest])
			oldest = k;
	}
	if (count >= CAPACITY)
		cache_remove(w, i, oldest);
	s->has[n] = true;
	event(w, i, n, true);
}
