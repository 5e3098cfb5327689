/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "dataplane/edge/order_private.h"
#include "dataplane/edge/pool_status.h"
#include "dataplane/fec/digest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Orders from a pool of one site to a pool of another when this edge has both: copied by the
 * control thread, object by object, in slices, so that everything else has its turn between two of
 * them. An object is reserved, filled, held against the digest that it has at the source, and
 * published only then. What a killed edge left is a partial object of the pool, which the repeated
 * order reserves again and fills from its first byte.
 *
 * A cap of the master counts for all orders between the same two sites.
 */

#define MS_NS 1000000ULL
/* Another writer of the key is waited for so long, as by ingest.c. */
#define BUSY_NS  (2000 * MS_NS)
#define RETRY_NS (20 * MS_NS)

enum {
	SLICE_BYTES = 1 << 20, /* 0.1 ms: what a message to this thread may wait for it */
	SLICE_OBJECTS = 64,    /* small ones cost a lock of both pools each */
	SITE_MAX = 64,
};

/* Two sites; orders between them share its pace. One for each pair that ever had an order. */
struct copy_link {
	LIST_ENTRY(copy_link) entry;
	char from[SITE_MAX], to[SITE_MAX];
	struct order_link link;
	uint64_t due_ns; /* the cap allows the next slice */
};

struct order_copy {
	struct copy_link *link;
	uint32_t next; /* all objects below are final */
	/* Object `next`, while handle is not 0. */
	uint64_t handle;
	uint8_t *to;
	uint64_t done, digest;
	uint64_t busy_ns; /* since when another writer holds its key; 0: none does */
};

static struct copy_link *link_get(struct orders *os, const char *from, const char *to)
{
	struct copy_link *l;

	LIST_FOREACH(l, &os->copy_links, entry)
		if (strcmp(l->from, from) == 0 && strcmp(l->to, to) == 0)
			return l;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return NULL;
	snprintf(l->from, sizeof(l->from), "%s", from);
	snprintf(l->to, sizeof(l->to), "%s", to);
	LIST_INSERT_HEAD(&os->copy_links, l, entry);
	return l;
}

static struct pool *pool_at(const struct order *o, const char *site, const uint8_t *tenant,
	size_t len)
{
	return o->orders->ops->pool_of(o->orders->ctx, site, tenant, len);
}

const char *order_copy_init(struct order *o, const Strait__OrderStart *m)
{
	struct copy_link *l;

	if (m->from_site == NULL || o->orders->ops->pool_of == NULL ||
		strcmp(m->from_site, m->to_site) == 0 ||
		pool_at(o, m->from_site, NULL, 0) == NULL ||
		pool_at(o, m->to_site, NULL, 0) == NULL || strlen(m->from_site) >= SITE_MAX ||
		strlen(m->to_site) >= SITE_MAX)
		return "this edge does not have pools of both sites";
	l = link_get(o->orders, m->from_site, m->to_site);
	o->copy = l != NULL ? calloc(1, sizeof(*o->copy)) : NULL;
	if (o->copy == NULL)
		return "out of memory";
	l->link.goodput_bps = l->link.limit_bps = m->has_cap_bps ? m->cap_bps : 0;
	o->copy->link = l;
	o->link = &l->link;
	return NULL;
}

struct pool *order_copy_source(const struct order *o, const uint8_t *tenant, size_t len)
{
	return pool_at(o, o->copy->link->from, tenant, len);
}

static struct pool *destination(const struct order *o, const struct order_object *obj)
{
	return pool_at(o, o->copy->link->to, o->names + obj->name, obj->tenant_len);
}

void order_copy_begin(struct order *o)
{
	order_copy_drop(o, o->copy->next);
	o->copy->next = 0;
	order_count_bytes(o);
}

/* The reservation is somebody else's from now on: published, or given back. */
static uint64_t handle_take(struct order *o)
{
	uint64_t handle = o->copy->handle;

	o->copy->handle = 0;
	o->orders->live--;
	return handle;
}

void order_copy_drop(struct order *o, uint32_t index)
{
	struct order_copy *c = o->copy;
	struct pool *pool;

	if (c->handle == 0 || c->next != index)
		return;
	pool = destination(o, &o->objects[index]);
	if (pool != NULL)
		pool_abandon(pool, handle_take(o), false);
}

void order_copy_fini(struct order *o)
{
	if (o->copy != NULL)
		order_copy_drop(o, o->copy->next);
}

void orders_copy_fini(struct orders *os)
{
	struct copy_link *l;

	while ((l = LIST_FIRST(&os->copy_links)) != NULL) {
		LIST_REMOVE(l, entry);
		free(l);
	}
}

/* ---- one object -------------------------------------------------------------------------- */

/* What became of one call: bytes copied, or nothing to do now. */
enum step { STEP_ON, STEP_LATER };

static void finish(struct order *o, uint8_t status)
{
	struct order_copy *c = o->copy;
	uint32_t index = c->next;

	c->busy_ns = 0;
	order_object_final(o, index, status);
	c->next++;
}

/* Hold the object at the source, unless it is held. 0 or the status it ends with. */
static uint8_t object_hold(struct order *o, struct order_object *obj)
{
	struct pool *pool = order_copy_source(o, o->names + obj->name, obj->tenant_len);
	struct pool_object found;
	int ret;

	if (obj->lease != 0)
		return STRAIT_STATUS_PENDING;
	ret = pool != NULL
		? pool_lease(pool, o->names + obj->name + obj->tenant_len, obj->key_len, &found)
		: -ENOENT;
	if (ret == 0 && (found.len != obj->length || found.digest != obj->digest)) {
		/* Another value took the key: what was ordered is gone. */
		pool_release(pool, found.handle);
		ret = -ENOENT;
	}
	if (ret < 0)
		return pool_lease_status(ret, STRAIT_STATUS_EVICTED);
	obj->lease = found.handle;
	obj->data = found.data;
	o->bytes_waiting -= obj->length < o->bytes_waiting ? obj->length : o->bytes_waiting;
	return STRAIT_STATUS_PENDING;
}

static enum step object_begin(struct order *o, struct order_object *obj, uint64_t now_ns)
{
	struct pool *pool = destination(o, obj);
	uint8_t status = object_hold(o, obj);
	struct order_copy *c = o->copy;
	struct pool_object space;
	int ret;

	if (status != STRAIT_STATUS_PENDING || pool == NULL) {
		finish(o, status != STRAIT_STATUS_PENDING ? status : STRAIT_STATUS_REFUSED);
		return STEP_ON;
	}
	ret = pool_reserve(pool, o->names + obj->name + obj->tenant_len, obj->key_len, obj->length,
		obj->digest, &space);
	if (ret == -EBUSY || ret == -ETIMEDOUT) {
		c->busy_ns = c->busy_ns != 0 ? c->busy_ns : now_ns;
		if (now_ns - c->busy_ns < BUSY_NS)
			return STEP_LATER;
	}
	if (ret < 0) {
		if (ret != -EEXIST && ret != -ENOSPC)
			log_limited(LOG_LEVEL_WARN, "order", 1000, "no space for an object: %s",
				strerror(-ret));
		finish(o, pool_reserve_status(ret));
		return STEP_ON;
	}
	/* What a transfer left there of it is no help, and must not vouch for what we write. */
	memset(space.resume, 0, space.resume_len);
	c->handle = space.handle;
	c->to = space.data;
	c->done = c->digest = 0;
	c->busy_ns = 0;
	o->orders->live++;
	return STEP_ON;
}

/* All bytes are there: visible if they are right. */
static void object_end(struct order *o, struct order_object *obj)
{
	struct pool *pool = destination(o, obj);
	struct order_copy *c = o->copy;
	uint8_t status = STRAIT_STATUS_COMMITTED;
	uint64_t handle = handle_take(o);
	int ret = 0;

	if (c->digest != obj->digest) {
		log_warn("order", "an object's bytes are not those of its digest order=%" PRIu64,
			o->id);
		status = STRAIT_STATUS_DIGEST;
	} else {
		ret = pool_publish(pool, handle, obj->digest);
		if (ret < 0)
			status = ret == -EEXIST ? STRAIT_STATUS_EXISTS : STRAIT_STATUS_INTERNAL;
	}
	if (status != STRAIT_STATUS_COMMITTED) {
		if (status == STRAIT_STATUS_INTERNAL)
			log_limited(LOG_LEVEL_ERROR, "order", 1000, "cannot publish an object: %s",
				strerror(-ret));
		pool_abandon(pool, handle, false);
	} else {
		o->orders->copied_objects++;
		o->orders->copied_bytes += obj->length;
	}
	finish(o, status);
}

static size_t object_go_on(struct order *o, struct order_object *obj, size_t most)
{
	struct order_copy *c = o->copy;
	size_t n = obj->length - c->done < most ? obj->length - c->done : most;

	memcpy(c->to + c->done, obj->data + c->done, n);
	/* Of what is there now, not of what was read: that is what is vouched for. */
	c->digest = digest_shift(c->digest, n) ^ digest_bytes(c->to + c->done, n);
	c->done += n;
	if (c->done == obj->length)
		object_end(o, obj);
	return n;
}

/* ---- slices ------------------------------------------------------------------------------ */

bool orders_are_copied(const struct orders *os)
{
	return os->copies > 0;
}

void orders_copied(const struct orders *os, uint64_t *objects, uint64_t *bytes)
{
	*objects = os->copied_objects;
	*bytes = os->copied_bytes;
}

static bool is_to_copy(const struct order *o)
{
	return o->copy != NULL && o->state == ORDER_ACTIVE &&
		o->end_status == STRAIT_STATUS_PENDING && o->remaining > 0;
}

/* A slice of one order. *bytes: copied. STEP_LATER: it has to wait for another writer. */
static enum step slice(struct order *o, uint64_t now_ns, size_t *bytes)
{
	struct order_copy *c = o->copy;
	enum step step = STEP_ON;
	uint32_t objects = 0;

	while (step == STEP_ON && *bytes < SLICE_BYTES && objects < SLICE_OBJECTS &&
		c->next < o->object_count) {
		struct order_object *obj = &o->objects[c->next];

		if (obj->status != STRAIT_STATUS_PENDING) {
			c->next++;
		} else if (c->handle != 0) {
			*bytes += object_go_on(o, obj, SLICE_BYTES - *bytes);
		} else if (o->orders->draining) {
			return STEP_LATER;
		} else {
			step = object_begin(o, obj, now_ns);
			objects++;
		}
	}
	return step;
}

/* In how many ns the order has something to do; UINT64_MAX: it has done a slice. */
static uint64_t run(struct order *o, uint64_t now_ns)
{
	struct copy_link *l = o->copy->link;
	uint64_t cap = l->link.limit_bps;
	size_t bytes = 0;
	enum step step;

	if (cap != 0 && l->due_ns > now_ns)
		return l->due_ns - now_ns;
	step = slice(o, now_ns, &bytes);
	if (l->due_ns < now_ns)
		l->due_ns = now_ns;
	if (cap != 0)
		l->due_ns += (uint64_t)((double)bytes * 8e9 / (double)cap);
	if (o->remaining == 0)
		order_settle(o, now_ns);
	return step == STEP_LATER && bytes == 0 ? RETRY_NS : UINT64_MAX;
}

uint64_t orders_copy(struct orders *os, uint64_t now_ns)
{
	uint64_t wait = UINT64_MAX;
	struct order *o;

	os->now_ns = now_ns;
	TAILQ_FOREACH(o, &os->sorted, sorted) {
		uint64_t ns;

		if (!is_to_copy(o))
			continue;
		ns = run(o, now_ns);
		if (ns == UINT64_MAX)
			return 0;
		wait = ns < wait ? ns : wait;
	}
	return wait;
}
