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

static const char waits_for_edge[] = "waits for an edge of site ";

static void wait_for(struct orderbook *b, struct order *o, const char *site)
{
	char text[ORDERBOOK_TEXT_MAX];
	const char *why = b->sites.why != NULL ? b->sites.why(b->sites.ctx, site) : NULL;

	snprintf(text, sizeof(text), "%s%s%s%s", waits_for_edge, site,
		why != NULL ? ": " : " to connect", why != NULL ? why : "");
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
	if (shipment_set_edges(b, s, from_edge, to_edge) < 0) {
		free(s->members);
		free(s);
		return NULL;
	}
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
	s->bytes += object_bytes(obj);
	s->open++;
	object_mark_dirty(b, obj);
}

static int compare_index(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * One shipment of what is due, in the order the objects were given, and of what the same edges were
 * asked for in vain. copier: the edge that copies; NULL: edges send. false: nothing (more) is due,
 * or no edge takes it.
 */
static bool ship(struct orderbook *b, struct order *o, const char *copier, uint64_t now_ms)
{
	const char *from = copier, *to = copier, *without;
	struct order_object *obj, *next;
	struct shipment *s = NULL;
	uint16_t tried = 0;
	size_t bytes = 0;

	o->next_due_ms = UINT64_MAX;
	for (obj = TAILQ_FIRST(&o->ready); obj != NULL; obj = next) {
		next = TAILQ_NEXT(obj, ready);
		if (!is_due(obj->due_ms, now_ms) || bytes > ORDERBOOK_SHIPMENT_KEY_BYTES_MAX ||
			(s != NULL && obj->tried != tried)) {
			if (obj->due_ms < o->next_due_ms)
				o->next_due_ms = obj->due_ms;
			continue;
		}
		if (s == NULL) {
			tried = obj->tried;
			without = copier != NULL ? NULL : order_pick_edges(b, o, tried, &from, &to);
			if (without != NULL)
				wait_for(b, o, without);
			else
				s = shipment_create(b, o, from, to, o->count);
		}
		if (s == NULL) { /* no edge, or out of memory: the next call tries again */
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
	shipment_count(s);
	o->state = ORDER_RUNNING;
	o->text[0] = '\0';
	order_mark_dirty(b, o);
	return true;
}

static void count_flying(struct orderbook *b)
{
	const struct shipment *s;
	struct orderbook_link *l;
	struct orderbook_edge *e;
	const struct order *o;

	LIST_FOREACH(l, &b->links, entry)
		l->flying = 0;
	LIST_FOREACH(e, &b->edges, entry) {
		e->backlog_bytes = 0;
		e->shipments = 0;
	}
	TAILQ_FOREACH(o, &b->live, live) {
		TAILQ_FOREACH(s, &o->shipments, of_order) {
			o->link->flying += s->open > 0;
			shipment_count(s);
		}
	}
}

static bool is_away(struct orderbook *b, const char *site)
{
	const char *names[ORDERBOOK_EDGES_MAX];

	return b->sites.edges(b->sites.ctx, site, names, ORDERBOOK_EDGES_MAX) == 0 &&
		(b->sites.why == NULL || b->sites.why(b->sites.ctx, site) == NULL);
}

static void look_for_edges(struct orderbook *b)
{
	struct orderbook_link *l;

	LIST_FOREACH(l, &b->links, entry) {
		l->away = NULL;
		if (l->flying == 0)
			continue;
		if (is_away(b, l->to_site))
			l->away = l->to_site;
		else if (is_away(b, l->from_site))
			l->away = l->from_site;
	}
}

/* An order that is under way, all of it: whether its edges are there. */
static void tell_away(struct orderbook *b, struct order *o)
{
	const struct shipment *s;

	TAILQ_FOREACH(s, &o->shipments, of_order)
		if (s->open > 0 && !shipment_is_local(s))
			break;
	if (s != NULL && o->link->away != NULL) {
		wait_for(b, o, o->link->away);
	} else if (s != NULL && strncmp(o->text, waits_for_edge, sizeof(waits_for_edge) - 1) == 0) {
		o->text[0] = '\0';
		order_mark_dirty(b, o);
	}
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

	b->sites = *sites;
	count_flying(b);
	look_for_edges(b);
	TAILQ_FOREACH(o, &b->live, live) {
		enum order_way way = ORDER_WAN;
		const char *copier = NULL;

		if (TAILQ_EMPTY(&o->ready)) {
			/* all of it is shipped by others */
			if (o->state == ORDER_QUEUED && o->pending > 0) {
				o->state = ORDER_RUNNING;
				snprintf(o->text, sizeof(o->text),
					"waits for other orders that ship the same objects");
				order_mark_dirty(b, o);
			}
			tell_away(b, o);
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
			way = sites->way(sites->ctx, o->from_site, o->to_site, &copier);
		if (way != ORDER_LOCAL)
			copier = NULL;
		while (has_room(o) && ship(b, o, copier, now_ms)) {
			o->link->flying++;
			o->way = (uint8_t)way;
			if (!is_due(o->next_due_ms, now_ms))
				break;
		}
	}
}
