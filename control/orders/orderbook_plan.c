/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/orderbook_private.h"
#include "control/orders/retry.h"

#include <strait/wire.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A due time further away than any delay means that the clock stepped back. */
static bool is_due(uint64_t due_ms, uint64_t now_ms)
{
	return due_ms <= now_ms || due_ms > now_ms + RETRY_DELAY_MAX_MS;
}

static void wait_for(struct orderbook *b, struct order *o, const char *site)
{
	char text[ORDERBOOK_TEXT_MAX];

	snprintf(text, sizeof(text), "waits for an edge of site %s to connect", site);
	if (strcmp(text, o->text) == 0)
		return;
	memcpy(o->text, text, sizeof(text));
	order_mark_dirty(b, o);
}

static struct shipment *shipment_create(struct orderbook *b, struct order *o, const char *from_edge,
	const char *to_edge, uint32_t room)
{
	struct shipment *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->members = malloc(room * sizeof(*s->members));
	if (s->members == NULL) {
		free(s);
		return NULL;
	}
	s->order = o;
	s->attempt = o->next_attempt++;
	s->wire = (uint64_t)s->attempt << 40 | o->id;
	snprintf(s->from_edge, sizeof(s->from_edge), "%s", from_edge);
	snprintf(s->to_edge, sizeof(s->to_edge), "%s", to_edge);
	s->is_new = s->dirty = true;
	TAILQ_INSERT_TAIL(&o->shipments, s, of_order);
	LIST_INSERT_HEAD(&b->shipments[s->wire % ORDERBOOK_BUCKETS], s, hashed);
	return s;
}

static void shipment_add(struct orderbook *b, struct shipment *s, struct order_object *obj)
{
	object_leave_ready(obj, OBJECT_FLYING);
	obj->shipment = s;
	obj->last_shipment = s->attempt + 1;
	if (obj->attempts < UINT16_MAX)
		obj->attempts++;
	s->members[s->count++] = (uint32_t)(obj - obj->order->objects);
	s->open++;
	object_mark_dirty(b, obj);
}

static int compare_index(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * One shipment of what is due, in the order the objects were given. false: nothing (more) is due.
 */
static bool ship(struct orderbook *b, struct order *o, const char *from_edge, const char *to_edge,
	uint64_t now_ms)
{
	struct order_object *obj, *next;
	struct shipment *s = NULL;
	size_t bytes = 0;

	o->next_due_ms = UINT64_MAX;
	for (obj = TAILQ_FIRST(&o->ready); obj != NULL; obj = next) {
		next = TAILQ_NEXT(obj, ready);
		if (!is_due(obj->due_ms, now_ms) || bytes > ORDERBOOK_SHIPMENT_KEY_BYTES_MAX) {
			if (obj->due_ms < o->next_due_ms)
				o->next_due_ms = obj->due_ms;
			continue;
		}
		if (s == NULL)
			s = shipment_create(b, o, from_edge, to_edge, o->count);
		if (s == NULL) { /* out of memory: the next call tries again */
			o->next_due_ms = now_ms;
			return false;
		}
		/* 32: tenant and key lengths, object length and digest in a manifest entry */
		bytes += 32u + obj->tenant_len + obj->key_len;
		shipment_add(b, s, obj);
	}
	if (s == NULL)
		return false;
	qsort(s->members, s->count, sizeof(*s->members), compare_index);
	o->state = ORDER_RUNNING;
	o->text[0] = '\0';
	order_mark_dirty(b, o);
	return true;
}

static void count_flying(struct orderbook *b)
{
	const struct shipment *s;
	struct orderbook_link *l;
	const struct order *o;

	LIST_FOREACH(l, &b->links, entry) {
		l->flying = 0;
		l->one = NULL;
	}
	TAILQ_FOREACH(o, &b->live, live) {
		TAILQ_FOREACH(s, &o->shipments, of_order) {
			o->link->flying += s->open > 0;
			if (s->open > 0 && strchr(s->from_edge, '/') == NULL)
				o->link->one = s;
		}
	}
}

static const char *edge_of_site(const struct orderbook_sites *sites, const char *site,
	const char *busy)
{
	if (busy != NULL && sites->takes != NULL && sites->takes(sites->ctx, site, busy))
		return busy;
	return sites->edge(sites->ctx, site);
}

static bool has_room(const struct order *o)
{
	uint32_t most = ORDERBOOK_FLYING_MAX;

	if (o->class == STRAIT_CLASS_URGENT)
		most += ORDERBOOK_FLYING_URGENT;
	return o->link->flying < most;
}

void orderbook_plan(struct orderbook *b, const struct orderbook_sites *sites, uint64_t now_ms)
{
	struct order *o;

	count_flying(b);
	TAILQ_FOREACH(o, &b->live, live) {
		enum order_way way = ORDER_WAN;
		const char *from = NULL, *to;

		if (TAILQ_EMPTY(&o->ready)) {
			/* all of it is shipped by others */
			if (o->state == ORDER_QUEUED && o->pending > 0) {
				o->state = ORDER_RUNNING;
				snprintf(o->text, sizeof(o->text),
					"waits for other orders that ship the same objects");
				order_mark_dirty(b, o);
			}
			continue;
		}
		if (!is_due(o->next_due_ms, now_ms))
			continue;
		if (!has_room(o)) {
			/* Shown, not stored: it may concern thousands of orders. */
			snprintf(o->text, sizeof(o->text),
				"waits for its turn: %u shipments from %s to %s are under way",
				o->link->flying, o->from_site, o->to_site);
			continue;
		}
		if (sites->way != NULL)
			way = sites->way(sites->ctx, o->from_site, o->to_site, &from);
		to = from;
		if (way != ORDER_LOCAL) {
			const struct shipment *s = o->link->one;

			from = edge_of_site(sites, o->from_site, s != NULL ? s->from_edge : NULL);
			to = edge_of_site(sites, o->to_site, s != NULL ? s->to_edge : NULL);
		}
		if (from == NULL || to == NULL) {
			wait_for(b, o, from == NULL ? o->from_site : o->to_site);
			continue;
		}
		while (has_room(o) && ship(b, o, from, to, now_ms)) {
			o->link->flying++;
			o->way = (uint8_t)way;
			if (!is_due(o->next_due_ms, now_ms))
				break;
		}
	}
}
