/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/orderbook_private.h"

#include <strait/status.h>
#include <strait/wire.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int orderbook_check_keys(const struct orderbook_key *keys, size_t count, char *err, size_t err_len)
{
	if (count == 0) {
		snprintf(err, err_len, "the order has no objects: give keys");
		return -EINVAL;
	}
	if (count > ORDERBOOK_OBJECTS_MAX) {
		snprintf(err, err_len,
			"%zu objects are too many for one order, at most %d: split it", count,
			ORDERBOOK_OBJECTS_MAX);
		return -E2BIG;
	}
	for (size_t i = 0; i < count; i++) {
		const struct orderbook_key *k = &keys[i];

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
	if (spec->count == 0 && spec->open)
		return 0;
	return orderbook_check_keys(spec->keys, spec->count, err, err_len);
}

static void *copy(uint8_t **at, const void *bytes, size_t len)
{
	void *to = *at;

	if (len > 0)
		memcpy(to, bytes, len);
	*at += len;
	return to;
}

int order_reserve(struct order *o, size_t count, bool open)
{
	size_t bytes = ORDERBOOK_OBJECTS_MAX * sizeof(*o->objects);
	void *p;

	if (!open) {
		o->objects = calloc(count, sizeof(*o->objects));
		return o->objects != NULL ? 0 : -ENOMEM;
	}
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		-1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	o->objects = p;
	o->reserved = true;
	return 0;
}

void order_release(struct order *o)
{
	struct order_names *n;

	if (o->reserved)
		munmap(o->objects, ORDERBOOK_OBJECTS_MAX * sizeof(*o->objects));
	else
		free(o->objects);
	while ((n = o->names) != NULL) {
		o->names = n->next;
		free(n);
	}
	free(o->append_first);
}

int order_extend(struct order *o, const struct orderbook_key *keys, size_t count)
{
	struct order_names *names;
	size_t bytes = 0;
	uint8_t *at;

	for (size_t i = 0; i < count; i++)
		bytes += keys[i].key_len + keys[i].tenant_len;
	names = malloc(sizeof(*names) + bytes);
	if (names == NULL)
		return -ENOMEM;
	names->next = o->names;
	o->names = names;
	at = names->bytes;
	for (size_t i = 0; i < count; i++) {
		const struct orderbook_key *k = &keys[i];
		struct order_object *obj = &o->objects[o->count++];

		memset(obj, 0, sizeof(*obj));
		obj->order = o;
		obj->name = copy(&at, k->tenant, k->tenant_len);
		copy(&at, k->key, k->key_len);
		obj->key_len = (uint16_t)k->key_len;
		obj->tenant_len = (uint8_t)k->tenant_len;
		obj->state = OBJECT_FOLLOWING; /* on no list yet */
	}
	o->pending += (uint32_t)count;
	return 0;
}

int order_note_append(struct order *o, uint32_t first)
{
	uint32_t n = o->appends;

	/* Doubles at powers of two. */
	if ((n & (n + 1)) == 0) {
		uint32_t *bigger = realloc(o->append_first, (2 * (size_t)n + 2) * sizeof(*bigger));

		if (bigger == NULL)
			return -ENOMEM;
		o->append_first = bigger;
	}
	o->append_first[n] = first;
	return 0;
}

static struct orderbook_link *link_of(struct orderbook *b, const struct orderbook_spec *spec)
{
	struct orderbook_link *l;

	LIST_FOREACH(l, &b->links, entry)
		if (strcmp(l->from_site, spec->from_site) == 0 &&
			strcmp(l->to_site, spec->to_site) == 0)
			return l;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return NULL;
	snprintf(l->from_site, sizeof(l->from_site), "%s", spec->from_site);
	snprintf(l->to_site, sizeof(l->to_site), "%s", spec->to_site);
	LIST_INSERT_HEAD(&b->links, l, entry);
	return l;
}

static struct order *order_create(struct orderbook *b, const struct orderbook_spec *spec)
{
	struct order *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return NULL;
	TAILQ_INIT(&o->ready);
	TAILQ_INIT(&o->shipments);
	o->link = link_of(b, spec);
	if (o->link == NULL || order_reserve(o, spec->count, spec->open) != 0 ||
		order_extend(o, spec->keys, spec->count) != 0 ||
		(spec->open && order_note_append(o, 0) != 0)) {
		order_free(o);
		return NULL;
	}
	snprintf(o->from_site, sizeof(o->from_site), "%s", spec->from_site);
	snprintf(o->to_site, sizeof(o->to_site), "%s", spec->to_site);
	if (spec->idempotency != NULL)
		snprintf(o->idempotency, sizeof(o->idempotency), "%s", spec->idempotency);
	o->class = (uint8_t)spec->class;
	o->deadline_ms = spec->deadline_ms;
	o->told_bytes = spec->bytes;
	o->next_due_ms = UINT64_MAX;
	o->opened = spec->open ? ORDER_OPEN : ORDER_CLOSED;
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

/* Undo the joins of [first, end), the last first: nobody but a later one follows a newcomer. */
static void leave_all(struct orderbook *b, struct order *o, uint32_t first, uint32_t end)
{
	while (end-- > first) {
		object_leave_ready(&o->objects[end], OBJECT_FOLLOWING);
		flights_leave(b->flights, &o->objects[end].member, object_naming);
	}
}

int order_join(struct orderbook *b, struct order *o, uint32_t first, uint64_t now_ms, char *err,
	size_t err_len)
{
	for (uint32_t i = first; i < o->count; i++) {
		struct order_object *obj = &o->objects[i], *before;
		int rc = object_join(b, obj, now_ms);

		if (rc != 0) {
			snprintf(err, err_len, "out of memory");
			leave_all(b, o, first, i);
			return rc;
		}
		/* Who joined just before us: one of these only if the key is there twice. */
		before = (struct order_object *)TAILQ_PREV(&obj->member, flight_members, entry);
		if (before != NULL && before->order == o && before >= &o->objects[first]) {
			snprintf(err, err_len, "objects %u and %u have the same key",
				(unsigned int)(before - o->objects) - first, i - first);
			leave_all(b, o, first, i + 1);
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
	if (spec->open && b->open_count >= ORDERBOOK_OPEN_MAX) {
		snprintf(err, err_len, "%d orders are open: seal some", ORDERBOOK_OPEN_MAX);
		errno = EBUSY;
		return NULL;
	}
	o = order_create(b, spec);
	if (o == NULL) {
		snprintf(err, err_len, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	o->id = b->next_id;
	o->created_ms = o->appended_ms = now_ms;
	rc = order_join(b, o, 0, now_ms, err, err_len);
	if (rc != 0) {
		order_free(o);
		errno = -rc;
		return NULL;
	}
	b->next_id++;
	b->open_count += spec->open;
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

	o = rc == 0 ? order_create(b, spec) : NULL;
	if (o == NULL) {
		errno = rc != 0 ? -rc : ENOMEM;
		return NULL;
	}
	o->id = id;
	o->stored = true;
	for (uint32_t i = 0; i < o->count; i++)
		o->objects[i].stored = true;
	o->appends_stored = spec->open; /* number 0 */
	b->open_count += spec->open;
	insert(b, o);
	if (id >= b->next_id)
		b->next_id = id + 1;
	return o;
}

void orderbook_restore_closed(struct orderbook *b, struct order *o, enum order_opened how)
{
	o->opened = (uint8_t)how;
	b->open_count--;
}

int orderbook_restore_append(struct order *o, uint32_t number, uint32_t first)
{
	int rc;

	if (number == 0)
		return 0; /* begins with the first */
	if (o->append_first == NULL || number != o->appends + 1 || first > o->count ||
		first < o->append_first[o->appends])
		return -EINVAL;
	o->appends = number;
	rc = order_note_append(o, first);
	o->appends_stored = number + 1;
	return rc;
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
	if (shipment_set_edges(b, s, from_edge, to_edge) < 0) {
		free(s->members);
		free(s);
		return -ENOMEM;
	}
	TAILQ_INSERT_TAIL(&o->shipments, s, of_order);
	LIST_INSERT_HEAD(&b->shipments[s->wire % ORDERBOOK_BUCKETS], s, hashed);
	for (uint32_t i = 0; i < count; i++) {
		struct order_object *obj = &o->objects[members[i]];

		if (obj->status == STRAIT_STATUS_PENDING && obj->last_shipment == attempt + 1 &&
			obj->shipment == NULL) {
			obj->shipment = s;
			s->open++;
			s->bytes += object_bytes(obj);
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

	TAILQ_FOREACH(o, &b->live, live) {
		recount(o);
		o->appended_ms = now_ms; /* nobody could append while there was no master */
	}
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
		if (o->pending == 0 && o->opened != ORDER_OPEN) {
			o->state = o->failed > 0 ? ORDER_FAILED : ORDER_DONE;
			o->finished_ms = now_ms;
			order_mark_dirty(b, o);
		}
	}
	return 0;
}
