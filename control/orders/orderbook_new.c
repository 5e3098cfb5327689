/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/orderbook_private.h"

#include <strait/status.h>
#include <strait/wire.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check(const struct orderbook_spec *spec, char *err, size_t err_len)
{
	if (spec->class >= STRAIT_CLASS_COUNT) {
		snprintf(err, err_len, "unknown class %u: use urgent, normal or bulk", spec->class);
		return -EINVAL;
	}
	if (strcmp(spec->from_site, spec->to_site) == 0) {
		snprintf(err, err_len, "source and destination are the same site, %s",
			spec->to_site);
		return -EINVAL;
	}
	if (strlen(spec->from_site) >= ORDERBOOK_SITE_MAX ||
		strlen(spec->to_site) >= ORDERBOOK_SITE_MAX) {
		snprintf(err, err_len, "site name too long");
		return -EINVAL;
	}
	if (spec->idempotency != NULL && strlen(spec->idempotency) > ORDERBOOK_IDEMPOTENCY_MAX) {
		snprintf(err, err_len, "idempotency key longer than %d bytes",
			ORDERBOOK_IDEMPOTENCY_MAX);
		return -EINVAL;
	}
	if (spec->count == 0) {
		snprintf(err, err_len, "the order has no objects: give keys");
		return -EINVAL;
	}
	if (spec->count > ORDERBOOK_OBJECTS_MAX) {
		snprintf(err, err_len,
			"%zu objects are too many for one order, at most %d: split it", spec->count,
			ORDERBOOK_OBJECTS_MAX);
		return -E2BIG;
	}
	for (size_t i = 0; i < spec->count; i++) {
		const struct orderbook_key *k = &spec->keys[i];

		if (k->key_len < 1 || k->key_len > STRAIT_KEY_BYTES_MAX) {
			snprintf(err, err_len, "object %zu: a key has 1 to %d bytes, this one %zu",
				i, (int)STRAIT_KEY_BYTES_MAX, k->key_len);
			return -EINVAL;
		}
		if (k->tenant_len > STRAIT_TENANT_BYTES_MAX) {
			snprintf(err, err_len, "object %zu: a tenant has at most %d bytes", i,
				(int)STRAIT_TENANT_BYTES_MAX);
			return -EINVAL;
		}
	}
	return 0;
}

static void *copy(uint8_t **at, const void *bytes, size_t len)
{
	void *to = *at;

	if (len > 0)
		memcpy(to, bytes, len);
	*at += len;
	return to;
}

static struct order *order_create(const struct orderbook_spec *spec)
{
	struct order *o = calloc(1, sizeof(*o));
	size_t bytes = 0;
	uint8_t *at;

	if (o == NULL)
		return NULL;
	for (size_t i = 0; i < spec->count; i++)
		bytes += spec->keys[i].key_len + spec->keys[i].tenant_len;
	TAILQ_INIT(&o->ready);
	TAILQ_INIT(&o->shipments);
	o->objects = calloc(spec->count, sizeof(*o->objects));
	o->names = at = malloc(bytes);
	if (o->objects == NULL || o->names == NULL) {
		order_free(o);
		return NULL;
	}
	snprintf(o->from_site, sizeof(o->from_site), "%s", spec->from_site);
	snprintf(o->to_site, sizeof(o->to_site), "%s", spec->to_site);
	if (spec->idempotency != NULL)
		snprintf(o->idempotency, sizeof(o->idempotency), "%s", spec->idempotency);
	o->class = (uint8_t)spec->class;
	o->deadline_ms = spec->deadline_ms;
	o->count = o->pending = (uint32_t)spec->count;
	o->next_due_ms = UINT64_MAX;
	for (size_t i = 0; i < spec->count; i++) {
		const struct orderbook_key *k = &spec->keys[i];
		struct order_object *obj = &o->objects[i];

		obj->order = o;
		obj->name = copy(&at, k->tenant, k->tenant_len);
		copy(&at, k->key, k->key_len);
		obj->key_len = (uint16_t)k->key_len;
		obj->tenant_len = (uint8_t)k->tenant_len;
		obj->state = OBJECT_FOLLOWING; /* on no list yet */
	}
	return o;
}

static bool goes_before(const struct order *a, const struct order *b)
{
	uint64_t da = a->deadline_ms != 0 ? a->deadline_ms : UINT64_MAX;
	uint64_t db = b->deadline_ms != 0 ? b->deadline_ms : UINT64_MAX;

	if (a->class != b->class)
		return a->class < b->class;
	return da != db ? da < db : a->id < b->id;
}

static void insert(struct orderbook *b, struct order *o)
{
	struct order *at;

	TAILQ_FOREACH_REVERSE(at, &b->live, order_list, live)
	{
		if (!goes_before(o, at))
			break;
	}
	if (at != NULL)
		TAILQ_INSERT_AFTER(&b->live, at, o, live);
	else
		TAILQ_INSERT_HEAD(&b->live, o, live);
	LIST_INSERT_HEAD(&b->orders[o->id % ORDERBOOK_BUCKETS], o, hashed);
	b->count++;
}

/*
 * Undo the first n joins. Nobody follows a newcomer but a duplicate of its own order, which
 * leaves first.
 */
static void leave_all(struct orderbook *b, struct order *o, uint32_t n)
{
	while (n-- > 0)
		flights_leave(b->flights, &o->objects[n].member, object_naming);
}

static int join_all(struct orderbook *b, struct order *o, uint64_t now_ms, char *err,
	size_t err_len)
{
	for (uint32_t i = 0; i < o->count; i++) {
		struct order_object *obj = &o->objects[i], *before;
		int rc = object_join(b, obj, now_ms);

		if (rc != 0) {
			snprintf(err, err_len, "out of memory");
			leave_all(b, o, i);
			return rc;
		}
		/*
		 * the one that joined just before us: of this order only if the key is there
		 * twice
		 */
		before = (struct order_object *)TAILQ_PREV(&obj->member, flight_members, entry);
		if (before != NULL && before->order == o) {
			snprintf(err, err_len, "objects %u and %u of the order have the same key",
				(unsigned int)(before - o->objects), i);
			leave_all(b, o, i + 1);
			return -EEXIST;
		}
	}
	return 0;
}

struct order *orderbook_submit(struct orderbook *b, const struct orderbook_spec *spec,
	uint64_t now_ms, char *err, size_t err_len)
{
	struct order *o;
	int rc = check(spec, err, err_len);

	if (rc == 0 && spec->deadline_ms != 0 && spec->deadline_ms <= now_ms) {
		snprintf(err, err_len, "the deadline has passed already");
		rc = -EINVAL;
	}
	if (rc != 0) {
		errno = -rc;
		return NULL;
	}
	o = order_create(spec);
	if (o == NULL) {
		snprintf(err, err_len, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	o->id = b->next_id;
	o->created_ms = now_ms;
	rc = join_all(b, o, now_ms, err, err_len);
	if (rc != 0) {
		order_free(o);
		errno = -rc;
		return NULL;
	}
	b->next_id++;
	insert(b, o);
	order_mark_dirty(b, o);
	for (uint32_t i = o->count; i-- > 0;) /* so that the list has them in order */
		object_mark_dirty(b, &o->objects[i]);
	return o;
}

/*
 * ---- restart
 * ---------------------------------------------------------------------------------------
 */

struct order *orderbook_restore(struct orderbook *b, uint64_t id, const struct orderbook_spec *spec,
	char *err, size_t err_len)
{
	struct order *o;
	int rc = check(spec, err, err_len);

	o = rc == 0 ? order_create(spec) : NULL;
	if (o == NULL) {
		errno = rc != 0 ? -rc : ENOMEM;
		return NULL;
	}
	o->id = id;
	o->stored = true;
	insert(b, o);
	if (id >= b->next_id)
		b->next_id = id + 1;
	return o;
}

int orderbook_restore_shipment(struct orderbook *b, struct order *o, uint32_t attempt,
	const char *from_edge, const char *to_edge, const uint32_t *members, uint32_t count)
{
	struct shipment *s;

	if (count == 0 || count > o->count)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++)
		if (members[i] >= o->count)
			return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->members = malloc(count * sizeof(*members));
	if (s->members == NULL) {
		free(s);
		return -ENOMEM;
	}
	memcpy(s->members, members, count * sizeof(*members));
	s->order = o;
	s->count = count;
	s->attempt = attempt;
	s->wire = (uint64_t)attempt << 40 | o->id;
	snprintf(s->from_edge, sizeof(s->from_edge), "%s", from_edge);
	snprintf(s->to_edge, sizeof(s->to_edge), "%s", to_edge);
	TAILQ_INSERT_TAIL(&o->shipments, s, of_order);
	LIST_INSERT_HEAD(&b->shipments[s->wire % ORDERBOOK_BUCKETS], s, hashed);
	for (uint32_t i = 0; i < count; i++) {
		struct order_object *obj = &o->objects[members[i]];

		if (obj->status == STRAIT_STATUS_PENDING && obj->last_shipment == attempt + 1 &&
			obj->shipment == NULL) {
			obj->shipment = s;
			s->open++;
		}
	}
	if (attempt >= o->next_attempt)
		o->next_attempt = attempt + 1;
	return 0;
}

/* Counters of the order from its objects. */
static void recount(struct order *o)
{
	o->pending = o->committed = o->existed = o->failed = 0;
	for (uint32_t i = 0; i < o->count; i++) {
		struct order_object *obj = &o->objects[i];

		if (obj->status == STRAIT_STATUS_PENDING) {
			o->pending++;
			continue;
		}
		obj->state = OBJECT_FINAL;
		if (obj->status == STRAIT_STATUS_COMMITTED)
			o->committed++;
		else if (obj->status == STRAIT_STATUS_EXISTS)
			o->existed++;
		else
			o->failed++;
		if (obj->status == STRAIT_STATUS_COMMITTED || obj->status == STRAIT_STATUS_EXISTS)
			o->committed_bytes += obj->length;
		if (obj->status == STRAIT_STATUS_EXISTS)
			o->existed_bytes += obj->length;
	}
}

/* What is flying joins first and so leads; one pass for those, one for the rest. */
static int join_pass(struct orderbook *b, bool flying, uint64_t now_ms)
{
	struct order *o;

	TAILQ_FOREACH(o, &b->live, live) {
		for (uint32_t i = 0; i < o->count; i++) {
			struct order_object *obj = &o->objects[i];
			int rc;

			if (obj->state == OBJECT_FINAL || (obj->shipment != NULL) != flying)
				continue;
			rc = object_join(b, obj, now_ms);
			if (rc != 0)
				return rc;
			if (!flying)
				continue;
			if (flight_is_leader(&obj->member)) {
				object_leave_ready(obj, OBJECT_FLYING);
				continue;
			}
			/* two shipments of one object cannot be; wait for the first */
			obj->shipment->open--;
			obj->shipment = NULL;
		}
	}
	return 0;
}

int orderbook_restored(struct orderbook *b, uint64_t now_ms)
{
	struct shipment *s, *next;
	struct order *o;
	int rc;

	TAILQ_FOREACH(o, &b->live, live)
		recount(o);
	rc = join_pass(b, true, now_ms);
	if (rc == 0)
		rc = join_pass(b, false, now_ms);
	if (rc != 0)
		return rc;
	TAILQ_FOREACH(o, &b->live, live) {
		for (s = TAILQ_FIRST(&o->shipments); s != NULL; s = next) {
			next = TAILQ_NEXT(s, of_order);
			if (s->open == 0) {
				s->dirty = true;
				order_mark_dirty(b, o);
			}
		}
		/* killed between its last result and its own row: cannot be, but must not hang */
		if (o->pending == 0) {
			o->state = o->failed > 0 ? ORDER_FAILED : ORDER_DONE;
			o->finished_ms = now_ms;
			order_mark_dirty(b, o);
		}
	}
	return 0;
}
