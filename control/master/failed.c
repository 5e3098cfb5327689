/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/replication.h"

#include "control/rpc/strait.pb-c.h"

#include <strait/status.h>

#include <stdlib.h>
#include <string.h>

/*
 * A failed fetch (an urgent order, or one of what nobody has) leaves a negative entry where it was
 * wanted, so that requests there do not run into the same, and, where the object was said to be and
 * is not, at its source. Keys are sent where they are known: a master needs no secret for it. Of
 * what was gone before an order was made of it there are digests alone.
 */

enum { BATCH = 64 };

struct batch {
	struct client *client; /* NULL: nobody to tell */
	Strait__OrderObject objects[BATCH], *list[BATCH];
	size_t n;
};

static void batch_init(struct batch *b, struct client *client)
{
	b->client = client;
	b->n = 0;
}

static void batch_send(struct batch *b)
{
	Strait__SiteFailed msg = STRAIT__SITE_FAILED__INIT;

	msg.objects = b->list;
	msg.n_objects = b->n;
	if (b->n > 0)
		(void)rpc_send(b->client->conn, STRAIT__MSG_TYPE__MSG_SITE_FAILED, &msg.base);
	b->n = 0;
}

static void batch_add(struct batch *b, const Strait__OrderObject *o)
{
	if (b->client == NULL)
		return;
	b->objects[b->n] = *o;
	b->list[b->n] = &b->objects[b->n];
	if (++b->n == BATCH)
		batch_send(b);
}

static struct client *client_of(const struct replication *r, int slot)
{
	if (slot < 0 || !r->slot[slot].takes_failed)
		return NULL;
	return r->slot[slot].client;
}

/* Whether its source turned out not to have it. */
static bool is_gone(unsigned int status)
{
	return status == STRAIT_STATUS_NOT_FOUND || status == STRAIT_STATUS_EVICTED;
}

/* What was canceled nobody wants. */
static bool is_failure(unsigned int status)
{
	return status != STRAIT_STATUS_COMMITTED && status != STRAIT_STATUS_EXISTS &&
		status != STRAIT_STATUS_SKIPPED && status != STRAIT_STATUS_CANCELED;
}

void failed_order(struct master *m, const struct order *o)
{
	const struct replication *r = m->replication;
	struct batch from, to;

	/* In the background nobody waits, and a site's edge may not read all that it holds. */
	if (o->class != STRAIT_CLASS_URGENT)
		return;
	batch_init(&from, client_of(r, replication_slot(r, o->from_site)));
	batch_init(&to, client_of(r, replication_slot(r, o->to_site)));
	for (const struct order_object *x = o->dirty_objects; x != NULL; x = x->next_dirty) {
		Strait__OrderObject msg = STRAIT__ORDER_OBJECT__INIT;

		if (x->state != OBJECT_FINAL || !is_failure(x->status))
			continue;
		msg.has_tenant = x->tenant_len > 0;
		msg.tenant.data = (uint8_t *)(uintptr_t)x->name;
		msg.tenant.len = x->tenant_len;
		msg.key.data = (uint8_t *)(uintptr_t)x->name + x->tenant_len;
		msg.key.len = x->key_len;
		msg.has_status = true;
		msg.status = x->status;
		batch_add(&to, &msg);
		if (is_gone(x->status))
			batch_add(&from, &msg);
	}
	batch_send(&from);
	batch_send(&to);
}

void failed_fetch(struct master *m, int slot, const Strait__OrderObject *o)
{
	Strait__OrderObject msg = STRAIT__ORDER_OBJECT__INIT;
	struct batch to;

	batch_init(&to, client_of(m->replication, slot));
	msg.has_tenant = o->has_tenant;
	msg.tenant = o->tenant;
	msg.key = o->key;
	msg.has_status = true;
	msg.status = STRAIT_STATUS_NOT_FOUND;
	batch_add(&to, &msg);
	batch_send(&to);
}

void failed_nowhere(struct master *m, int slot, const struct digest128 *d, size_t n)
{
	struct client *c = client_of(m->replication, slot);
	Strait__SiteFailed msg = STRAIT__SITE_FAILED__INIT;
	uint8_t bytes[FEDERATION_BATCH * 16];

	if (c == NULL || n > FEDERATION_BATCH)
		return;
	for (size_t i = 0; i < n; i++) {
		memcpy(bytes + i * 16, &d[i].lo, 8);
		memcpy(bytes + i * 16 + 8, &d[i].hi, 8);
	}
	msg.has_digests = true;
	msg.digests.data = bytes;
	msg.digests.len = n * 16;
	(void)rpc_send(c->conn, STRAIT__MSG_TYPE__MSG_SITE_FAILED, &msg.base);
}
