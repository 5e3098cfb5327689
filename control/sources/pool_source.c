/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/pool_source.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "dataplane/pool/shm_change.h"
#include "dataplane/pool/shm_pool.h"

#include <event2/event.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TICK_MS = 10,
	CHECK_TICKS = 100, /* between looks whether the file is still the same */
	READS = 64,        /* batches of changes in one go */
};
#define WALK_AGAIN_NS UINT64_C(10000000000) /* after something was refused */

/* What was told of an entry. */
struct told {
	struct digest128 digest;
	uint32_t gen;
	bool visible;
};

struct pool_source {
	char *path;
	const struct pool_source_handler *handler;
	void *ctx;
	struct event *tick;
	struct pool *pool;
	struct shm *shm;
	struct told *told;
	uint32_t entries;
	uint64_t file_key[2];
	uint64_t pos;
	uint32_t walk; /* next entry of it */
	bool walking, complete, refused, known;
	unsigned int ticks;
	uint64_t walk_again_ns;
	struct pool_source_stats stats;
};

static void forget(struct pool_source *p, struct told *t, bool evicted)
{
	if (!t->visible)
		return;
	t->visible = false;
	p->stats.objects--;
	p->handler->on_removed(t->digest, evicted, p->ctx);
}

static void on_change(const struct shm_change *c, void *ctx)
{
	struct pool_source *p = ctx;
	struct told *t;

	if (c->entry >= p->entries)
		return;
	t = &p->told[c->entry];
	if (t->visible && c->visible && t->gen == c->gen)
		return;
	/* of one that was used again nobody remembers why it went: more likely for want of room */
	forget(p, t, c->evicted || (t->visible && t->gen != c->gen));
	if (!c->visible)
		return;
	if (p->handler->on_stored(c->key, c->key_len, c->len, c->ours, &t->digest, p->ctx) < 0) {
		p->refused = true;
		return;
	}
	t->gen = c->gen;
	t->visible = true;
	p->stats.objects++;
}

static void walk_begin(struct pool_source *p)
{
	p->walking = true;
	p->walk = 0;
	p->complete = p->refused = false;
	p->pos = shm_change_head(p->shm);
	p->stats.walks++;
	p->handler->on_walk_begin(p->ctx);
}

static void close_pool(struct pool_source *p, const char *why)
{
	if (p->stats.trouble[0] == '\0')
		log_warn("source", "the pool cannot be followed path=%s reason=%s", p->path, why);
	snprintf(p->stats.trouble, sizeof(p->stats.trouble), "%s", why);
	pool_destroy(p->pool);
	p->pool = NULL;
	p->shm = NULL;
	p->walking = p->complete = false;
}

static int remember_file(struct pool_source *p)
{
	const uint64_t *key = p->shm->hdr->hash_key;

	if (p->known && memcmp(p->file_key, key, sizeof(p->file_key)) == 0 &&
		p->entries == p->shm->geo.entry_count)
		return 0;
	if (p->known)
		p->handler->on_clear(p->ctx);
	free(p->told);
	p->stats.objects = 0;
	p->known = false;
	p->entries = p->shm->geo.entry_count;
	p->told = calloc(p->entries, sizeof(*p->told));
	if (p->told == NULL)
		return -ENOMEM;
	memcpy(p->file_key, key, sizeof(p->file_key));
	p->known = true;
	return 0;
}

static void open_pool(struct pool_source *p)
{
	const struct shm_pool_options options = { .group = true };
	char err[256];

	p->pool = shm_pool_open(p->path, &options, err, sizeof(err));
	if (p->pool == NULL) {
		close_pool(p, err);
		return;
	}
	p->shm = shm_pool_file(p->pool);
	if (remember_file(p) < 0) {
		close_pool(p, "out of memory");
		return;
	}
	if (p->stats.trouble[0] != '\0')
		log_info("source", "the pool is followed path=%s", p->path);
	p->stats.trouble[0] = '\0';
	walk_begin(p);
}

static void read_changes(struct pool_source *p)
{
	int n = 1;

	for (int i = 0; i < READS && n > 0; i++) {
		n = shm_change_read(p->shm, &p->pos, on_change, p);
		p->stats.events += n > 0 ? (uint64_t)n : 0;
	}
	if (n == -ESTALE) {
		p->stats.behind++;
		walk_begin(p);
	} else if (n < 0) {
		close_pool(p, strerror(-n));
	} else if (n == 0 && !p->walking && !p->refused) {
		p->complete = true;
		p->stats.complete_ns = clock_now_ns();
	}
}

static void walk(struct pool_source *p)
{
	for (uint32_t end = p->walk + POOL_SOURCE_STEP; p->walk < end;) {
		int n = shm_change_scan(p->shm, &p->walk, on_change, p);

		if (n < 0) {
			close_pool(p, strerror(-n));
			return;
		}
		if (n == 0) {
			p->walking = false;
			if (p->refused)
				p->walk_again_ns = clock_now_ns() + WALK_AGAIN_NS;
			else
				p->handler->on_walk_end(p->ctx);
			return;
		}
	}
}

static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pool_source *p = arg;
	char why[256];

	(void)fd;
	(void)what;
	if (p->ticks++ % CHECK_TICKS == 0) {
		if (p->pool == NULL) {
			open_pool(p);
		} else if (pool_check(p->pool, why, sizeof(why)) < 0) {
			close_pool(p, why);
		} else {
			(void)pool_renew(p->pool); /* what dead clients held goes, with an event */
		}
	}
	if (p->pool != NULL && p->walking)
		walk(p);
	else if (p->pool != NULL && p->refused && clock_now_ns() >= p->walk_again_ns)
		walk_begin(p);
	if (p->pool != NULL)
		read_changes(p);
}

struct pool_source *pool_source_create(struct event_base *base, const char *path,
	const struct pool_source_handler *handler, void *ctx)
{
	struct timeval every = { 0, TICK_MS * 1000 };
	struct pool_source *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->handler = handler;
	p->ctx = ctx;
	p->path = strdup(path);
	p->tick = event_new(base, -1, EV_PERSIST, tick_cb, p);
	if (p->path == NULL || p->tick == NULL || event_add(p->tick, &every) < 0) {
		pool_source_destroy(p);
		errno = ENOMEM;
		return NULL;
	}
	return p;
}

void pool_source_destroy(struct pool_source *p)
{
	if (p == NULL)
		return;
	if (p->tick != NULL)
		event_free(p->tick);
	pool_destroy(p->pool);
	free(p->told);
	free(p->path);
	free(p);
}

bool pool_source_is_complete(const struct pool_source *p)
{
	return p->complete;
}

void pool_source_stats_get(const struct pool_source *p, struct pool_source_stats *out)
{
	*out = p->stats;
	out->state = p->pool == NULL ? "down" : p->complete ? "live" : "incomplete";
}
