/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/assign.h"
#include "control/orders/orderbook_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which edges there are, what each has to do, and which ones an order's next shipment gets. */

enum { UNKNOWN_BYTES = 1 << 20 }; /* an object whose size nobody told */

struct orderbook_edge *orderbook_edge(struct orderbook *b, const char *site, const char *name)
{
	struct orderbook_edge *e;
	uint32_t number = 0;

	LIST_FOREACH(e, &b->edges, entry) {
		if (strcmp(e->site, site) != 0)
			continue;
		if (strcmp(e->name, name) == 0)
			return e;
		number++;
	}
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return NULL;
	snprintf(e->site, sizeof(e->site), "%s", site);
	snprintf(e->name, sizeof(e->name), "%s", name);
	e->number = number;
	LIST_INSERT_HEAD(&b->edges, e, entry);
	return e;
}

uint16_t orderbook_edge_bit(const struct orderbook_edge *e)
{
	return (uint16_t)(1u << e->number % 16);
}

bool shipment_is_local(const struct shipment *s)
{
	return strchr(s->from_edge, '/') != NULL;
}

int shipment_set_edges(struct orderbook *b, struct shipment *s, const char *from, const char *to)
{
	snprintf(s->from_edge, sizeof(s->from_edge), "%s", from);
	snprintf(s->to_edge, sizeof(s->to_edge), "%s", to);
	if (shipment_is_local(s))
		return 0;
	s->from = orderbook_edge(b, s->order->from_site, from);
	s->to = orderbook_edge(b, s->order->to_site, to);
	if (s->from == NULL || s->to == NULL)
		return -1;
	s->order->last_from = s->from;
	s->order->last_to = s->to;
	return 0;
}

uint64_t shipment_left_bytes(const struct shipment *s)
{
	uint64_t done = s->progress_done_bytes > s->counted_bytes ? s->progress_done_bytes
								  : s->counted_bytes;

	if (s->open == 0)
		return 0;
	if (s->progress_total_bytes == 0) /* the edge did not look yet */
		return s->bytes / s->count * s->open;
	return s->progress_total_bytes > done ? s->progress_total_bytes - done : 0;
}

void shipment_keep_sizes(const struct shipment *s)
{
	if (s->open > 0 && s->progress_total_bytes > s->counted_bytes)
		s->order->seen_bytes = (s->progress_total_bytes - s->counted_bytes) / s->open;
}

uint64_t object_bytes(const struct order_object *obj)
{
	const struct order *o = obj->order;

	if (obj->length != 0)
		return obj->length;
	if (o->seen_bytes != 0)
		return o->seen_bytes;
	return o->told_bytes != 0 && o->count > 0 ? o->told_bytes / o->count : UNKNOWN_BYTES;
}

void shipment_count(const struct shipment *s)
{
	uint64_t bytes = shipment_left_bytes(s);

	if (s->from == NULL || s->to == NULL || s->open == 0)
		return;
	s->from->backlog_bytes += bytes;
	s->to->backlog_bytes += bytes;
	s->from->shipments++;
	s->to->shipments++;
}

/* The site's edges that take orders. */
static size_t list_edges(struct orderbook *b, const char *site, uint16_t tried,
	struct assign_edge *out)
{
	const char *names[ORDERBOOK_EDGES_MAX];
	size_t n = b->sites.edges(b->sites.ctx, site, names, ORDERBOOK_EDGES_MAX), count = 0;

	for (size_t i = 0; i < n; i++) {
		const struct orderbook_edge *e = orderbook_edge(b, site, names[i]);

		if (e == NULL)
			continue;
		out[count++] = (struct assign_edge){ e->name, e->backlog_bytes, e->shipments,
			(tried & orderbook_edge_bit(e)) != 0 };
	}
	return count;
}

struct asked_pair {
	const struct orderbook_sites *sites;
	const struct order *order;
};

static bool is_avoided(void *ctx, const char *from, const char *to)
{
	const struct asked_pair *p = ctx;

	return p->sites->avoid(p->sites->ctx, p->order->from_site, from, p->order->to_site, to);
}

const char *order_pick_edges(struct orderbook *b, const struct order *o, uint16_t tried,
	const char **from, const char **to)
{
	struct assign_edge a[ORDERBOOK_EDGES_MAX], z[ORDERBOOK_EDGES_MAX];
	size_t an = list_edges(b, o->from_site, tried, a), zn, i, k;
	struct asked_pair pair = { &b->sites, o };
	struct assign_rule rule = { o->last_from != NULL ? o->last_from->name : NULL,
		o->last_to != NULL ? o->last_to->name : NULL,
		b->sites.avoid != NULL ? is_avoided : NULL, &pair };

	if (an == 0)
		return o->from_site;
	zn = list_edges(b, o->to_site, 0, z);
	if (!assign_pick(a, an, z, zn, &rule, &i, &k))
		return o->to_site;
	*from = a[i].name;
	*to = z[k].name;
	return NULL;
}

bool shipment_has_others(struct orderbook *b, const struct shipment *s, uint16_t tried)
{
	const char *names[ORDERBOOK_EDGES_MAX];
	const char *site = s->order->from_site;
	size_t n;

	if (b->sites.edges == NULL || s->from == NULL)
		return false;
	n = b->sites.edges(b->sites.ctx, site, names, ORDERBOOK_EDGES_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct orderbook_edge *e = orderbook_edge(b, site, names[i]);

		if (e != NULL && (tried & orderbook_edge_bit(e)) == 0)
			return true;
	}
	return false;
}
