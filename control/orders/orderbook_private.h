/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/orders/orderbook.h"

/*
 * Shared by orderbook.c (events), orderbook_plan.c (shipments) and orderbook_new.c (submit,
 * restore).
 */

enum { ORDERBOOK_BUCKETS = 4096 };

TAILQ_HEAD(order_list, order);
LIST_HEAD(order_bucket, order);
LIST_HEAD(shipment_bucket, shipment);

/* From one site to another. Never goes away: there are as many as pairs of sites had orders. */
struct orderbook_link {
	LIST_ENTRY(orderbook_link) entry;
	char from_site[ORDERBOOK_SITE_MAX], to_site[ORDERBOOK_SITE_MAX];
	uint32_t flying;  /* shipments with open objects, counted by each plan */
	const char *away; /* a site of it that has no edge at all now; NULL: both have */
};

struct orderbook {
	uint64_t next_id;
	size_t count;
	uint32_t open_count; /* orders that are open */
	uint64_t open_idle_ms;
	LIST_HEAD(, orderbook_link) links;
	LIST_HEAD(, orderbook_edge) edges;
	struct orderbook_sites sites; /* of the last plan */
	struct flights *flights;
	struct order_list live, dirty;
	struct order_bucket orders[ORDERBOOK_BUCKETS];
	struct shipment_bucket shipments[ORDERBOOK_BUCKETS];
};

void order_mark_dirty(struct orderbook *b, struct order *o);
void object_mark_dirty(struct orderbook *b, struct order_object *obj);
/* Into the order's ready list. */
void object_make_ready(struct order_object *obj, uint64_t due_ms);
/* Out of it; state is the next one. */
void object_leave_ready(struct order_object *obj, enum object_state state);
/* Join the flight of its name: READY as its leader, else FOLLOWING. 0, -ENOMEM. */
int object_join(struct orderbook *b, struct order_object *obj, uint64_t now_ms);
void object_naming(const struct flight_member *m, struct flight_name *out);
void shipment_free(struct shipment *s);
/* orderbook_edges.c */
/* The one of this name, new or known. NULL: out of memory. */
struct orderbook_edge *orderbook_edge(struct orderbook *b, const char *site, const char *name);
/* In order_object.tried; a site's 17th edge has that of its first, which is asked instead. */
uint16_t orderbook_edge_bit(const struct orderbook_edge *e);
/* 0, or -1 without memory. */
int shipment_set_edges(struct orderbook *b, struct shipment *s, const char *from, const char *to);
/* Into what its edges have to do. */
void shipment_count(const struct shipment *s);
/* What the edge found counts for the next shipment: this one's objects go back. */
void shipment_keep_sizes(const struct shipment *s);
uint64_t object_bytes(const struct order_object *obj);
/* Edges for objects which those in tried do not have. NULL, or the site that has none. */
const char *order_pick_edges(struct orderbook *b, const struct order *o, uint16_t tried,
	const char **from, const char **to);
/* An edge of the source that takes orders was not asked yet. */
bool shipment_has_others(struct orderbook *b, const struct shipment *s, uint16_t tried);
/* Without its objects' memberships. */
void order_free(struct order *o);
/* Give back what order_reserve(), order_extend() and order_note_append() took. */
void order_release(struct order *o);
/* Room for the objects of a new order, all of ORDERBOOK_OBJECTS_MAX if it is open. 0, -ENOMEM. */
int order_reserve(struct order *o, size_t count, bool open);
/* Objects from o->count on, of these keys, on no list yet. 0, -ENOMEM. */
int order_extend(struct order *o, const struct orderbook_key *keys, size_t count);
/* What makes keys unfit for any order. 0, -EINVAL, -E2BIG. */
int orderbook_check_keys(const struct orderbook_key *keys, size_t count, char *err, size_t err_len);
/* All objects from first on join their flights; none does if it fails. 0, -ENOMEM, -EEXIST. */
int order_join(struct orderbook *b, struct order *o, uint32_t first, uint64_t now_ms, char *err,
	size_t err_len);
/* Note that append number o->appends begins at first. 0, -ENOMEM. */
int order_note_append(struct order *o, uint32_t first);
/* Takes no more from now on. */
void order_close(struct orderbook *b, struct order *o, enum order_opened how);
void order_settle(struct orderbook *b, struct order *o, uint64_t now_ms);
void orderbook_expire(struct orderbook *b, struct order *o, uint64_t now_ms);
