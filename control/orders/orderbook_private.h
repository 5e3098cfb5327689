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

struct orderbook {
	uint64_t next_id;
	size_t count;
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
/* Without its objects' memberships. */
void order_free(struct order *o);
