/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/control_queue.h"
#include "dataplane/pool/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Doubles at the borders of order.c and ingest.c, for their unit tests: a worker that records
 * what it is told, and a pool of a few objects whose calls fail on demand.
 */

enum { FAKE_COMMANDS = 4096, FAKE_OBJECTS = 64 };

struct fake_worker {
	struct worker_command commands[FAKE_COMMANDS];
	unsigned int count;
	unsigned int room; /* commands it still takes */
};

static int fake_push(void *ctx, const struct worker_command *c)
{
	struct fake_worker *w = ctx;

	if (w->room == 0 || w->count == FAKE_COMMANDS)
		return -EAGAIN;
	w->room--;
	w->commands[w->count++] = *c;
	return 0;
}

/* How many commands of this type came; *last is the last of them. */
static inline unsigned int fake_count(const struct fake_worker *w, enum worker_command_type type,
	struct worker_command *last)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < w->count; i++) {
		if (w->commands[i].type != type)
			continue;
		n++;
		if (last != NULL)
			*last = w->commands[i];
	}
	return n;
}

struct fake_object {
	char key[32];
	uint8_t *data;
	uint64_t len, digest;
	uint8_t resume[256];
	unsigned int leases;
	enum { FAKE_FREE, FAKE_RESERVED, FAKE_PARTIAL, FAKE_VISIBLE } state;
};

struct fake_pool {
	struct pool pool;
	struct fake_object objects[FAKE_OBJECTS];
	int reserve_error; /* next reserves fail so */
	unsigned int reserves;
	/* As a gateway's pool (pool/gateway.h): */
	bool staging;
	unsigned int stage_room; /* so many may be leased */
	int lease_error;         /* next leases fail so */
	int confirm_error;
	const char *coming; /* the lease of this key is -EINPROGRESS */
	unsigned int confirms;
};

static struct fake_object *fake_find(struct fake_pool *p, const void *key, size_t len)
{
	for (int i = 0; i < FAKE_OBJECTS; i++) {
		struct fake_object *o = &p->objects[i];

		if (o->state != FAKE_FREE && strlen(o->key) == len && memcmp(o->key, key, len) == 0)
			return o;
	}
	return NULL;
}

static void fake_clear(struct fake_object *o)
{
	free(o->data);
	memset(o, 0, sizeof(*o));
}

static struct fake_object *fake_add(struct fake_pool *p, const void *key, size_t key_len,
	uint64_t len, uint64_t digest)
{
	for (int i = 0; i < FAKE_OBJECTS; i++) {
		struct fake_object *o = &p->objects[i];

		if (o->state != FAKE_FREE)
			continue;
		memcpy(o->key, key, key_len);
		o->len = len;
		o->digest = digest;
		o->data = calloc(1, len);
		o->state = FAKE_VISIBLE;
		return o;
	}
	abort();
}

static void fake_out(struct fake_pool *p, struct fake_object *o, struct pool_object *out)
{
	memset(out, 0, sizeof(*out));
	out->handle = (uint64_t)(o - p->objects) + 1;
	out->data = o->data;
	out->len = o->len;
	out->digest = o->digest;
	out->resume = o->resume;
	out->resume_len = sizeof(o->resume);
}

static int fake_lease(struct pool *pool, const void *key, size_t len, struct pool_object *out)
{
	struct fake_pool *p = (struct fake_pool *)pool;
	struct fake_object *o = fake_find(p, key, len);

	if (p->lease_error != 0)
		return p->lease_error;
	if (p->coming != NULL && strlen(p->coming) == len && memcmp(p->coming, key, len) == 0)
		return -EINPROGRESS;
	if (o == NULL || o->state != FAKE_VISIBLE)
		return -ENOENT;
	if (p->staging && p->stage_room == 0)
		return -ENOSPC;
	p->stage_room -= p->staging;
	o->leases++;
	fake_out(p, o, out);
	out->staged = p->staging ? 1 << 30 : 0;
	return 0;
}

static void fake_release(struct pool *pool, uint64_t handle)
{
	struct fake_pool *p = (struct fake_pool *)pool;

	p->objects[handle - 1].leases--;
	p->stage_room += p->staging;
}

static int fake_confirm(struct pool *pool, uint64_t handle, uint64_t now_ns)
{
	struct fake_pool *p = (struct fake_pool *)pool;

	(void)handle;
	(void)now_ns;
	p->confirms++;
	return p->confirm_error;
}

static int fake_reserve(struct pool *pool, const void *key, size_t key_len, uint64_t len,
	uint64_t digest, struct pool_object *out)
{
	struct fake_pool *p = (struct fake_pool *)pool;
	struct fake_object *o = fake_find(p, key, key_len);
	bool resumed = false;

	p->reserves++;
	if (p->reserve_error != 0)
		return p->reserve_error;
	if (o != NULL && o->state == FAKE_VISIBLE)
		return -EEXIST;
	if (o != NULL && o->state == FAKE_RESERVED)
		return -EBUSY;
	if (o != NULL)
		resumed = true;
	else
		o = fake_add(p, key, key_len, len, digest);
	o->state = FAKE_RESERVED;
	fake_out(p, o, out);
	out->resumed = resumed;
	return 0;
}

static int fake_publish(struct pool *pool, uint64_t handle, uint64_t digest)
{
	struct fake_object *o = &((struct fake_pool *)pool)->objects[handle - 1];

	if (o->state != FAKE_RESERVED)
		return -ESTALE;
	o->digest = digest;
	o->state = FAKE_VISIBLE;
	return 0;
}

static void fake_abandon(struct pool *pool, uint64_t handle, bool keep)
{
	struct fake_object *o = &((struct fake_pool *)pool)->objects[handle - 1];

	if (o->state != FAKE_RESERVED)
		return;
	if (keep)
		o->state = FAKE_PARTIAL;
	else
		fake_clear(o);
}

static const struct pool_ops fake_pool_ops = {
	.lease = fake_lease,
	.release = fake_release,
	.confirm = fake_confirm,
	.reserve = fake_reserve,
	.publish = fake_publish,
	.abandon = fake_abandon,
};

static inline unsigned int fake_leases(const struct fake_pool *p)
{
	unsigned int n = 0;

	for (int i = 0; i < FAKE_OBJECTS; i++)
		n += p->objects[i].leases;
	return n;
}

static inline unsigned int fake_in_state(const struct fake_pool *p, int state)
{
	unsigned int n = 0;

	for (int i = 0; i < FAKE_OBJECTS; i++)
		n += (int)p->objects[i].state == state;
	return n;
}
