/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/orderbook.h"

#include "control/orders/orderbook_private.h"
#include "control/orders/retry.h"

#include <strait/status.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[ORDER_STATE_COUNT] = { "queued", "running", "done", "failed",
	"canceled" };

const char *order_state_name(enum order_state s)
{
	return s < ORDER_STATE_COUNT ? state_names[s] : "unknown";
}

bool order_is_final(const struct order *o)
{
	return o->state >= ORDER_DONE;
}

struct orderbook *orderbook_create(uint64_t next_id, uint64_t seed)
{
	struct orderbook *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->next_id = next_id;
	b->open_idle_ms = ORDERBOOK_OPEN_IDLE_MS;
	LIST_INIT(&b->links);
	LIST_INIT(&b->edges);
	TAILQ_INIT(&b->live);
	TAILQ_INIT(&b->dirty);
	b->flights = flights_create(seed);
	if (b->flights == NULL) {
		free(b);
		return NULL;
	}
	return b;
}

void shipment_free(struct shipment *s)
{
	TAILQ_REMOVE(&s->order->shipments, s, of_order);
	LIST_REMOVE(s, hashed);
	free(s->members);
	free(s);
}

void order_free(struct order *o)
{
	struct shipment *s;

	while ((s = TAILQ_FIRST(&o->shipments)) != NULL)
		shipment_free(s);
	order_release(o);
	free(o);
}

static void order_forget(struct orderbook *b, struct order *o)
{
	TAILQ_REMOVE(&b->live, o, live);
	if (o->dirty)
		TAILQ_REMOVE(&b->dirty, o, dirty_entry);
	LIST_REMOVE(o, hashed);
	b->count--;
	order_free(o);
}

void orderbook_destroy(struct orderbook *b)
{
	struct orderbook_link *link;
	struct orderbook_edge *edge;
	struct order *o;

	if (b == NULL)
		return;
	TAILQ_FOREACH(o, &b->live, live)
		for (uint32_t i = 0; i < o->count; i++)
			if (o->objects[i].member.flight != NULL)
				flights_leave(b->flights, &o->objects[i].member, object_naming);
	while ((o = TAILQ_FIRST(&b->live)) != NULL)
		order_forget(b, o);
	while ((link = LIST_FIRST(&b->links)) != NULL) {
		LIST_REMOVE(link, entry);
		free(link);
	}
	while ((edge = LIST_FIRST(&b->edges)) != NULL) {
		LIST_REMOVE(edge, entry);
		free(edge);
	}
	flights_destroy(b->flights);
	free(b);
}

struct order *orderbook_find(struct orderbook *b, uint64_t id)
{
	struct order *o;

	LIST_FOREACH(o, &b->orders[id % ORDERBOOK_BUCKETS], hashed)
		if (o->id == id)
			return o;
	return NULL;
}

struct order *orderbook_find_idempotent(struct orderbook *b, const char *key)
{
	struct order *o;

	TAILQ_FOREACH(o, &b->live, live)
		if (o->idempotency[0] != '\0' && strcmp(o->idempotency, key) == 0)
			return o;
	return NULL;
}

struct shipment *orderbook_find_shipment(struct orderbook *b, uint64_t wire)
{
	struct shipment *s;

	LIST_FOREACH(s, &b->shipments[wire % ORDERBOOK_BUCKETS], hashed)
		if (s->wire == wire)
			return s;
	return NULL;
}

size_t orderbook_count(const struct orderbook *b)
{
	return b->count;
}

struct order *orderbook_first(struct orderbook *b)
{
	return TAILQ_FIRST(&b->live);
}

struct order *orderbook_dirty(struct orderbook *b)
{
	return TAILQ_FIRST(&b->dirty);
}

void order_mark_dirty(struct orderbook *b, struct order *o)
{
	if (o->dirty)
		return;
	o->dirty = true;
	TAILQ_INSERT_TAIL(&b->dirty, o, dirty_entry);
}

void object_mark_dirty(struct orderbook *b, struct order_object *obj)
{
	order_mark_dirty(b, obj->order);
	if (obj->dirty)
		return;
	obj->dirty = true;
	obj->next_dirty = obj->order->dirty_objects;
	obj->order->dirty_objects = obj;
}

void object_naming(const struct flight_member *m, struct flight_name *out)
{
	const struct order_object *obj = (const struct order_object *)m;

	out->to_site = obj->order->to_site;
	out->name = obj->name;
	out->key_len = obj->key_len;
	out->tenant_len = obj->tenant_len;
}

void object_make_ready(struct order_object *obj, uint64_t due_ms)
{
	struct order *o = obj->order;

	obj->state = OBJECT_READY;
	obj->due_ms = due_ms;
	TAILQ_INSERT_TAIL(&o->ready, obj, ready);
	if (due_ms < o->next_due_ms)
		o->next_due_ms = due_ms;
}

void object_leave_ready(struct order_object *obj, enum object_state state)
{
	if (obj->state == OBJECT_READY)
		TAILQ_REMOVE(&obj->order->ready, obj, ready);
	obj->state = (uint8_t)state;
}

int object_join(struct orderbook *b, struct order_object *obj, uint64_t now_ms)
{
	struct flight_name name;
	int rc;

	object_naming(&obj->member, &name);
	rc = flights_join(b->flights, &obj->member, &name);
	if (rc != 0)
		return rc;
	if (flight_is_leader(&obj->member))
		object_make_ready(obj, now_ms);
	else
		obj->state = OBJECT_FOLLOWING;
	return 0;
}

/* Why a failed order failed: how many of which status. */
static void explain_failure(struct order *o)
{
	uint32_t by_status[STRAIT_STATUS_COUNT] = { 0 };
	size_t n;

	for (uint32_t i = 0; i < o->count; i++)
		if (o->objects[i].status < STRAIT_STATUS_COUNT)
			by_status[o->objects[i].status]++;
	n = (size_t)snprintf(o->text, sizeof(o->text), "%u of %u objects failed:", o->failed,
		o->count);
	for (unsigned int s = 0; s < STRAIT_STATUS_COUNT && n < sizeof(o->text); s++) {
		if (by_status[s] == 0 || s == STRAIT_STATUS_COMMITTED || s == STRAIT_STATUS_EXISTS)
			continue;
		n += (size_t)snprintf(o->text + n, sizeof(o->text) - n, " %u %s", by_status[s],
			strait_status_name(s));
	}
}

void order_settle(struct orderbook *b, struct order *o, uint64_t now_ms)
{
	if (o->pending > 0 || o->opened == ORDER_OPEN || order_is_final(o))
		return;
	o->finished_ms = now_ms;
	o->text[0] = '\0';
	if (o->canceled && (o->failed > 0 || o->opened == ORDER_ENDED))
		o->state = ORDER_CANCELED;
	else if (o->failed > 0)
		o->state = ORDER_FAILED;
	else
		o->state = ORDER_DONE;
	if (o->state == ORDER_FAILED)
		explain_failure(o);
	else if (o->state == ORDER_CANCELED)
		snprintf(o->text, sizeof(o->text), "canceled on request");
	else if (o->opened == ORDER_EXPIRED)
		snprintf(o->text, sizeof(o->text), "sealed because nothing was appended for %g s",
			(double)b->open_idle_ms / 1000);
	else if (o->opened == ORDER_ENDED)
		snprintf(o->text, sizeof(o->text), "sealed by its deadline");
	order_mark_dirty(b, o);
}

/* The one place where an object gets its final status. */
static void object_settle(struct orderbook *b, struct order_object *obj, unsigned int status,
	uint64_t length, uint64_t now_ms)
{
	struct order *o = obj->order;

	object_leave_ready(obj, OBJECT_FINAL);
	if (obj->shipment != NULL) {
		obj->shipment->open--;
		obj->shipment->dirty = true;
		obj->shipment = NULL;
	}
	obj->status = (uint8_t)status;
	if (length != 0)
		obj->length = length;
	o->pending--;
	if (status == STRAIT_STATUS_COMMITTED)
		o->committed++;
	else if (status == STRAIT_STATUS_EXISTS)
		o->existed++;
	else
		o->failed++;
	if (status == STRAIT_STATUS_COMMITTED || status == STRAIT_STATUS_EXISTS)
		o->committed_bytes += obj->length;
	if (status == STRAIT_STATUS_EXISTS)
		o->existed_bytes += obj->length;
	object_mark_dirty(b, obj);
	order_settle(b, o, now_ms);
}

/* End an object and pass on what that means to those who wait for it. */
static void object_final(struct orderbook *b, struct order_object *obj, unsigned int status,
	uint64_t length, uint64_t now_ms)
{
	bool success = status == STRAIT_STATUS_COMMITTED || status == STRAIT_STATUS_EXISTS;
	bool led = flight_is_leader(&obj->member);
	struct flight_member *next;

	object_settle(b, obj, status, length, now_ms);
	next = flights_leave(b->flights, &obj->member, object_naming);
	while (led && next != NULL) {
		struct order_object *follower = (struct order_object *)next;

		if (!success) {
			object_make_ready(follower, now_ms);
			return;
		}
		object_settle(b, follower, status, length, now_ms);
		next = flights_leave(b->flights, next, object_naming);
	}
}

/* Out of its shipment, ready again. */
static void object_back(struct orderbook *b, struct order_object *obj, uint64_t due_ms)
{
	obj->shipment->open--;
	obj->shipment->dirty = true;
	obj->shipment = NULL;
	obj->last_shipment = 0; /* after a restart it must not seem to fly */
	object_make_ready(obj, due_ms);
	object_mark_dirty(b, obj);
}

/* That edge did not have it; one of the others may. */
static bool object_elsewhere(struct orderbook *b, struct order_object *obj, uint64_t now_ms)
{
	struct shipment *s = obj->shipment;

	if (s->from == NULL)
		return false;
	obj->tried |= orderbook_edge_bit(s->from);
	if (!shipment_has_others(b, s, obj->tried))
		return false;
	obj->attempts--;
	object_back(b, obj, now_ms);
	return true;
}

static void object_attempt_ended(struct orderbook *b, struct order_object *obj, unsigned int status,
	uint64_t length, uint64_t now_ms)
{
	uint64_t again_ms = retry_at(status, obj->attempts, now_ms, obj->order->deadline_ms);

	obj->last = (uint8_t)status;
	if (status == STRAIT_STATUS_NOT_FOUND && object_elsewhere(b, obj, now_ms))
		return;
	if (again_ms == 0) {
		object_final(b, obj, status, length, now_ms);
		return;
	}
	if (length != 0)
		obj->length = length;
	object_back(b, obj, again_ms);
	snprintf(obj->order->text, sizeof(obj->order->text), "trying again in %.1f s after %s: %s",
		(double)(again_ms - now_ms) / 1000, strait_status_name(status),
		strait_status_text(status));
}

int orderbook_result(struct orderbook *b, uint64_t wire, uint32_t index, unsigned int status,
	uint64_t length, uint64_t now_ms)
{
	struct shipment *s = orderbook_find_shipment(b, wire);
	struct order_object *obj;

	if (s == NULL)
		return -ENOENT;
	if (index >= s->count)
		return -EINVAL;
	obj = &s->order->objects[s->members[index]];
	if (obj->shipment != s || status == STRAIT_STATUS_PENDING)
		return 0;
	/* a status of a newer edge is a failure this version has no name for */
	if (status >= STRAIT_STATUS_COUNT || status == STRAIT_STATUS_SKIPPED)
		status = STRAIT_STATUS_INTERNAL;
	if (status == STRAIT_STATUS_COMMITTED || status == STRAIT_STATUS_EXISTS)
		s->counted_bytes += length;
	object_attempt_ended(b, obj, status, length, now_ms);
	return 0;
}

void orderbook_explain(struct orderbook *b, uint64_t wire, const char *text)
{
	struct shipment *s = orderbook_find_shipment(b, wire);
	struct order *o = s != NULL ? s->order : NULL;

	if (o == NULL || o->state == ORDER_DONE || o->state == ORDER_CANCELED)
		return;
	snprintf(o->text, sizeof(o->text), "%s", text);
	order_mark_dirty(b, o);
}

int orderbook_shipment_end(struct orderbook *b, uint64_t wire, unsigned int status,
	const char *text, uint64_t now_ms)
{
	struct shipment *s = orderbook_find_shipment(b, wire);
	struct order *o;

	if (s == NULL)
		return -ENOENT;
	o = s->order;
	shipment_keep_sizes(s);
	for (uint32_t i = 0; i < s->count; i++) {
		struct order_object *obj = &o->objects[s->members[i]];

		if (obj->shipment == s)
			object_attempt_ended(b, obj, status, 0, now_ms);
	}
	s->cancel = true;
	s->dirty = true;
	order_mark_dirty(b, o);
	if (text != NULL && text[0] != '\0')
		snprintf(o->text, sizeof(o->text), "%s: %s", strait_status_name(status), text);
	return 0;
}

int orderbook_hand_over(struct orderbook *b, uint64_t wire, const char *text, uint64_t now_ms)
{
	struct shipment *s = orderbook_find_shipment(b, wire);
	struct order *o;

	if (s == NULL)
		return -ENOENT;
	o = s->order;
	shipment_keep_sizes(s);
	for (uint32_t i = 0; i < s->count; i++) {
		struct order_object *obj = &o->objects[s->members[i]];

		if (obj->shipment != s)
			continue;
		obj->attempts--;
		object_back(b, obj, now_ms);
	}
	s->cancel = true;
	s->dirty = true;
	order_mark_dirty(b, o);
	snprintf(o->text, sizeof(o->text), "%s", text);
	return 0;
}

/* End what is pending; flying: also what is on its way. */
static void order_end(struct orderbook *b, struct order *o, unsigned int status, bool flying,
	uint64_t now_ms)
{
	struct shipment *s;

	if (o->opened == ORDER_OPEN)
		order_close(b, o, ORDER_ENDED);
	for (uint32_t i = 0; i < o->count; i++) {
		struct order_object *obj = &o->objects[i];

		if (obj->state == OBJECT_FINAL || (obj->state == OBJECT_FLYING && !flying))
			continue;
		if (obj->shipment != NULL)
			obj->shipment->cancel = true;
		object_final(b, obj, status, 0, now_ms);
	}
	TAILQ_FOREACH(s, &o->shipments, of_order)
		if (s->cancel)
			s->dirty = true;
	order_mark_dirty(b, o);
	order_settle(b, o, now_ms);
}

void orderbook_drop(struct orderbook *b, uint64_t id, uint64_t now_ms)
{
	struct order *o = orderbook_find(b, id);

	if (o == NULL || o->stored)
		return;
	if (o->opened == ORDER_OPEN)
		order_close(b, o, ORDER_ENDED);
	for (uint32_t i = 0; i < o->count; i++) {
		struct order_object *obj = &o->objects[i];
		struct flight_member *next;

		if (obj->member.flight == NULL)
			continue;
		/* One of an order that stays is shipped in its place. */
		next = flights_leave(b->flights, &obj->member, object_naming);
		if (next != NULL)
			object_make_ready((struct order_object *)next, now_ms);
	}
	order_forget(b, o);
}

int orderbook_cancel(struct orderbook *b, uint64_t id, uint64_t now_ms)
{
	struct order *o = orderbook_find(b, id);

	if (o == NULL || order_is_final(o))
		return -ENOENT;
	o->canceled = true;
	order_end(b, o, STRAIT_STATUS_CANCELED, true, now_ms);
	return 0;
}

void orderbook_tick(struct orderbook *b, uint64_t now_ms)
{
	struct order *o;

	TAILQ_FOREACH(o, &b->live, live) {
		if (o->opened == ORDER_OPEN)
			orderbook_expire(b, o, now_ms);
		if (o->deadline_ms == 0 || now_ms < o->deadline_ms || order_is_final(o))
			continue;
		if (now_ms >= o->deadline_ms + ORDERBOOK_DEADLINE_GRACE_MS)
			order_end(b, o, STRAIT_STATUS_DEADLINE, true, now_ms);
		else if (!TAILQ_EMPTY(&o->ready) || TAILQ_EMPTY(&o->shipments))
			order_end(b, o, STRAIT_STATUS_DEADLINE, false, now_ms);
	}
}

void orderbook_flushed(struct orderbook *b)
{
	struct order *o, *next;

	for (o = TAILQ_FIRST(&b->dirty); o != NULL; o = next) {
		struct order_object *obj = o->dirty_objects;
		struct shipment *s, *after;

		next = TAILQ_NEXT(o, dirty_entry);
		for (; obj != NULL; obj = obj->next_dirty) {
			obj->dirty = false;
			obj->stored = true;
		}
		o->appends_stored = o->append_first != NULL ? o->appends + 1 : 0;
		o->dirty_objects = NULL;
		for (s = TAILQ_FIRST(&o->shipments); s != NULL; s = after) {
			after = TAILQ_NEXT(s, of_order);
			s->dirty = s->is_new = s->cancel = false;
			if (s->open == 0)
				shipment_free(s);
		}
		TAILQ_REMOVE(&b->dirty, o, dirty_entry);
		o->dirty = false;
		o->stored = true;
		if (order_is_final(o))
			order_forget(b, o);
	}
}

void order_progress(const struct order *o, uint64_t *done_bytes, uint64_t *total_bytes)
{
	const struct shipment *s;

	*done_bytes = *total_bytes = o->committed_bytes;
	TAILQ_FOREACH(s, &o->shipments, of_order) {
		if (s->progress_done_bytes > s->counted_bytes)
			*done_bytes += s->progress_done_bytes - s->counted_bytes;
		if (s->progress_total_bytes > s->counted_bytes)
			*total_bytes += s->progress_total_bytes - s->counted_bytes;
	}
}
