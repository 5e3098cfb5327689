/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/order_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void order_entry(const struct order *o, const struct order_object *obj, struct manifest_entry *e)
{
	memset(e, 0, sizeof(*e));
	e->tenant = o->names + obj->name;
	e->tenant_len = obj->tenant_len;
	e->key = o->names + obj->name + obj->tenant_len;
	e->key_len = obj->key_len;
	e->length = obj->length;
	e->digest = obj->digest;
	e->flags = obj->status == STRAIT_STATUS_PENDING ? STRAIT_MANIFEST_DIGEST
							: STRAIT_MANIFEST_SKIP;
}

void order_count_bytes(struct order *o)
{
	o->bytes_total = o->bytes_left = o->bytes_waiting = 0;
	for (uint32_t i = 0; i < o->object_count; i++) {
		const struct order_object *obj = &o->objects[i];

		o->bytes_total += obj->length;
		if (obj->status != STRAIT_STATUS_PENDING)
			continue;
		o->bytes_left += obj->length;
		if (obj->lease == 0)
			o->bytes_waiting += obj->length;
	}
}

/* Not looked up yet, of a later cut; or of an earlier one. */
static bool is_of_another(const struct order *o, uint32_t i)
{
	const struct order_object *obj = &o->objects[i];

	return obj->in_part || (obj->status == STRAIT_STATUS_PENDING && !obj->found);
}

/* Which queue each object goes to. */
static void deal(const struct order *o, uint8_t *queue, uint32_t queues)
{
	uint64_t load[WORKERS_MAX] = { 0 };

	for (uint32_t i = 0; i < o->object_count; i++) {
		uint8_t least = 0;

		queue[i] = UINT8_MAX;
		if (is_of_another(o, i))
			continue;
		for (uint8_t q = 1; q < queues; q++) {
			if (load[q] < load[least])
				least = q;
		}
		queue[i] = least;
		load[least] += o->objects[i].length;
	}
}

struct cutter {
	struct order *o;
	uint32_t in_part;
	size_t manifest;
	bool fresh; /* the next object begins a part */
};

/* One more part; running transfers point at theirs. */
static int part_add(struct order *o, uint8_t queue)
{
	struct order_part *all = o->parts;

	if ((o->part_count & (o->part_count - 1)) == 0) {
		all = realloc(all, (o->part_count > 0 ? 2 * o->part_count : 1) * sizeof(*all));
		if (all == NULL)
			return -ENOMEM;
		o->parts = all;
		for (uint32_t p = 0; p < o->part_count; p++) {
			if (all[p].live != NULL)
				all[p].live->part = &all[p];
		}
	}
	all[o->part_count++] = (struct order_part){ .order = o,
		.first = o->sequence_count,
		.end = o->sequence_count,
		.queue = queue };
	return 0;
}

/* Put an object behind the last one of its queue. */
static int cut_add(struct cutter *c, uint32_t object, uint8_t queue)
{
	struct order *o = c->o;
	struct manifest_entry e;
	size_t size = 0;

	if (o->objects[object].length != 0) {
		order_entry(o, &o->objects[object], &e);
		size = manifest_entry_size(&e);
	}
	if (c->fresh || c->in_part == STRAIT_TRANSFER_OBJECTS_MAX ||
		c->manifest + size > STRAIT_MANIFEST_BYTES_MAX) {
		if (part_add(o, queue) < 0)
			return -ENOMEM;
		c->in_part = 0;
		c->manifest = 0;
		c->fresh = false;
	}
	o->sequence[o->sequence_count++] = object;
	o->objects[object].in_part = true;
	o->parts[o->part_count - 1].end = o->sequence_count;
	c->in_part += size != 0;
	c->manifest += size;
	return 0;
}

/* The queue with the least to do takes the first part: small orders have no second one. */
static uint32_t first_queue(const struct order_link *l)
{
	uint32_t least = 0;

	for (uint32_t q = 1; q < link_queues(l); q++) {
		if (l->queues[q].live < l->queues[least].live)
			least = q;
	}
	return least;
}

/* Deal the objects that were found and are in no part; cut what each queue gets. */
static int cut(struct order *o)
{
	uint32_t all = link_queues(o->link), queues, first;
	struct cutter c = { .o = o };
	uint8_t *queue;
	int ret = 0;

	o->cut_queues = all;
	order_count_bytes(o);
	queues = o->bytes_total / ORDER_QUEUE_BYTES + 1 < all
		? (uint32_t)(o->bytes_total / ORDER_QUEUE_BYTES) + 1
		: all;
	queue = malloc(o->object_count);
	if (queue == NULL)
		return -ENOMEM;
	deal(o, queue, queues);
	first = first_queue(o->link);
	for (uint8_t q = 0; q < queues && ret == 0; q++) {
		c.fresh = true;
		for (uint32_t i = 0; i < o->object_count && ret == 0; i++) {
			if (queue[i] == q)
				ret = cut_add(&c, i, (uint8_t)((first + q) % all));
		}
	}
	free(queue);
	if (ret == 0)
		o->uncut_bytes = 0;
	return ret;
}

int order_cut_parts(struct order *o)
{
	free(o->parts);
	free(o->sequence);
	o->parts = NULL;
	o->part_count = 0;
	o->sequence_count = 0;
	for (uint32_t i = 0; i < o->object_count; i++)
		o->objects[i].in_part = false;
	o->sequence = malloc(o->object_count * sizeof(*o->sequence));
	return o->sequence != NULL ? cut(o) : -ENOMEM;
}

int order_cut_more(struct order *o)
{
	uint32_t parts = o->part_count, objects = o->sequence_count;
	int ret = cut(o);

	if (ret == 0)
		return 0;
	while (o->sequence_count > objects)
		o->objects[o->sequence[--o->sequence_count]].in_part = false;
	o->part_count = parts;
	return ret;
}
