/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/order.h"

#include "control/base/log.h"
#include "dataplane/edge/order_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DONE_KEPT_NS   (60ULL * 1000000000)
#define RESEND_NS      (1000000000ULL)
#define DEFAULT_TENANT "default"

struct orders *orders_create(const struct order_ops *ops, void *ctx, struct control_queue *queue)
{
	struct orders *os = calloc(1, sizeof(*os));

	if (os == NULL)
		return NULL;
	os->ops = ops;
	os->ctx = ctx;
	os->queue = queue;
	TAILQ_INIT(&os->sorted);
	TAILQ_INIT(&os->closed);
	LIST_INIT(&os->copy_links);
	return os;
}

static struct order *order_find(struct orders *os, uint64_t id)
{
	struct order *o;

	LIST_FOREACH(o, &os->buckets[id % ORDER_BUCKETS], hashed) {
		if (o->id == id)
			return o;
	}
	return NULL;
}

static struct pool *object_pool(const struct order *o, const struct order_object *obj)
{
	if (o->copy != NULL)
		return order_copy_source(o, o->names + obj->name, obj->tenant_len);
	return o->orders->ops->pool(o->orders->ctx, o->names + obj->name, obj->tenant_len);
}

static void object_release(struct order *o, struct order_object *obj)
{
	struct pool *pool;

	if (obj->lease == 0)
		return;
	pool = object_pool(o, obj);
	if (pool != NULL)
		pool_release(pool, obj->lease);
	obj->lease = 0;
	obj->data = NULL;
}

static void order_free_memory(struct order *o)
{
	free(o->objects);
	free(o->names);
	free(o->parts);
	free(o->sequence);
	free(o->log);
	free(o->copy);
	free(o);
}

static void order_count_in(struct order *o)
{
	o->link->orders++;
	o->orders->pending++;
	o->orders->copies += o->copy != NULL;
}

static void order_count_out(struct order *o)
{
	o->link->orders--;
	o->orders->pending--;
	o->orders->copies -= o->copy != NULL;
}

/* Only an order without live transfers. */
static void order_destroy(struct order *o)
{
	struct orders *os = o->orders;

	order_copy_fini(o);
	for (uint32_t i = 0; i < o->object_count; i++)
		object_release(o, &o->objects[i]);
	if (o->state != ORDER_DONE)
		order_count_out(o);
	TAILQ_REMOVE(&os->sorted, o, sorted);
	LIST_REMOVE(o, hashed);
	os->count--;
	order_free_memory(o);
}

void orders_destroy(struct orders *os)
{
	struct order_tx *t;
	struct order *o;

	if (os == NULL)
		return;
	while ((o = TAILQ_FIRST(&os->sorted)) != NULL) {
		for (uint32_t i = 0; i < o->part_count; i++) {
			if (o->parts[i].live != NULL)
				order_tx_free(o->parts[i].live);
		}
		order_destroy(o);
	}
	while ((t = TAILQ_FIRST(&os->closed)) != NULL) {
		TAILQ_REMOVE(&os->closed, t, entry);
		order_tx_free(t);
	}
	orders_copy_fini(os);
	free(os);
}

/* ---- the log ----------------------------------------------------------------------------- */

static void log_append(struct order *o, uint32_t index, uint8_t status)
{
	struct order_log_entry *bigger;
	uint32_t capacity;

	if (o->log_count == o->log_capacity) {
		capacity = o->log_capacity + o->object_count;
		bigger = realloc(o->log, capacity * sizeof(*bigger));
		if (bigger == NULL) {
			/* The master keeps the object pending and asks again. */
			log_error("order", "out of memory, result not logged order=%" PRIu64,
				o->id);
			return;
		}
		o->log = bigger;
		o->log_capacity = capacity;
	}
	o->log[o->log_count++] = (struct order_log_entry){ .index = index, .status = status };
}

void order_object_final(struct order *o, uint32_t index, uint8_t status)
{
	struct order_object *obj = &o->objects[index];

	if (obj->status == STRAIT_STATUS_PENDING && obj->length <= o->bytes_left) {
		o->bytes_left -= obj->length;
		if (obj->lease == 0 && obj->length <= o->bytes_waiting)
			o->bytes_waiting -= obj->length;
	}
	if (obj->lease != 0 && !obj->in_part && obj->length <= o->uncut_bytes)
		o->uncut_bytes -= obj->length;
	if (o->copy != NULL)
		order_copy_drop(o, index);
	object_release(o, obj);
	if (obj->status != STRAIT_STATUS_PENDING)
		return;
	obj->status = status;
	o->remaining--;
	if (status == STRAIT_STATUS_COMMITTED || status == STRAIT_STATUS_EXISTS)
		o->bytes_done += obj->length;
	log_append(o, index, status);
}

void order_settle(struct order *o, uint64_t now_ns)
{
	if (o->state == ORDER_DONE || o->remaining > 0 || o->live > 0)
		return;
	o->state = ORDER_DONE;
	o->done_ns = now_ns;
	order_count_out(o);
	log_info("order", "done order=%" PRIu64 " objects=%u bytes=%" PRIu64, o->id,
		o->object_count, o->bytes_done);
	o->orders->ops->kick(o->orders->ctx);
}

void order_end(struct order *o, uint8_t status)
{
	bool all = o->part_count == 0 || (o->state == ORDER_LOOKUP && o->live == 0);

	if (o->state == ORDER_LOOKUP)
		o->state = ORDER_ACTIVE;
	o->end_status = status;
	o->looked_up = o->object_count;
	/* The others are final when their parts are. */
	for (uint32_t i = 0; i < o->object_count; i++) {
		if (all || !o->objects[i].in_part)
			order_object_final(o, i, status);
	}
	for (uint32_t p = 0; p < o->part_count; p++) {
		struct order_part *part = &o->parts[p];
		struct order_tx *t = part->live;

		if (t == NULL) {
			for (uint32_t i = part->first; i < part->end; i++)
				order_object_final(o, o->sequence[i], status);
			part->done = true;
		} else if (!t->canceling && order_tx_is_current(t)) {
			struct worker_command c = { .type = WORKER_TX_CANCEL,
				.session = t->session,
				.tx = t->tx,
				.worker = t->queue,
				.status = status };

			t->canceling = control_queue_push(o->orders->queue, &c) == 0;
			o->orders->starved = o->orders->starved || !t->canceling;
		}
	}
}

void orders_resend(struct orders *os)
{
	struct order *o;

	TAILQ_FOREACH(o, &os->sorted, sorted)
		o->log_sent = o->log_acked;
	os->ops->kick(os->ctx);
}

static int log_send(struct order *o, int (*send)(void *ctx, const Strait__OrderResults *m),
	void *ctx)
{
	static Strait__ObjectResult results[ORDER_RESULTS_BATCH];
	static Strait__ObjectResult *pointers[ORDER_RESULTS_BATCH];
	Strait__OrderResults m = STRAIT__ORDER_RESULTS__INIT;
	uint32_t n = o->log_count - o->log_sent;
	int ret;

	if (n > ORDER_RESULTS_BATCH)
		n = ORDER_RESULTS_BATCH;
	if (n > o->object_count)
		n = o->object_count; /* told twice: the master takes no more at once */
	for (uint32_t i = 0; i < n; i++) {
		const struct order_log_entry *e = &o->log[o->log_sent + i];

		strait__object_result__init(&results[i]);
		results[i].index = e->index;
		results[i].status = e->status;
		results[i].has_length = o->objects[e->index].length != 0;
		results[i].length = o->objects[e->index].length;
		pointers[i] = &results[i];
	}
	m.order = o->id;
	m.first = o->log_sent;
	m.n_results = n;
	m.results = pointers;
	m.text = o->refusal[0] != '\0' ? o->refusal : NULL;
	ret = send(ctx, &m);
	if (ret == 0)
		o->log_sent += n;
	return ret;
}

void orders_flush(struct orders *os, uint64_t now_ns,
	int (*send)(void *ctx, const Strait__OrderResults *m), void *ctx)
{
	struct order *o, *next;

	for (o = TAILQ_FIRST(&os->sorted); o != NULL; o = next) {
		next = TAILQ_NEXT(o, sorted);
		if (o->log_acked < o->log_sent && now_ns - o->log_sent_ns > RESEND_NS)
			o->log_sent = o->log_acked;
		while (o->log_sent < o->log_count) {
			if (log_send(o, send, ctx) != 0)
				return;
			o->log_sent_ns = now_ns;
		}
		if (o->state == ORDER_DONE && o->log_acked == o->log_count &&
			(o->forget || now_ns - o->done_ns > DONE_KEPT_NS))
			order_destroy(o);
	}
}

void orders_ack(struct orders *os, const Strait__OrderResultsAck *m)
{
	struct order *o = order_find(os, m->order);

	if (o == NULL)
		return;
	/*
	 * A lower position than before is a master that restored an older ledger: send it
	 * again.
	 */
	o->log_acked = m->next < o->log_count ? m->next : o->log_count;
	if (o->log_sent < o->log_acked)
		o->log_sent = o->log_acked;
	if (m->has_forget && m->forget) {
		o->forget = true;
		o->log_acked = o->log_sent = o->log_count;
		if (o->state != ORDER_DONE)
			order_end(o, STRAIT_STATUS_CANCELED);
		os->ops->kick(os->ctx);
	}
}

/* ---- messages ---------------------------------------------------------------------------- */

static bool order_before(const struct order *a, const struct order *b)
{
	uint64_t da = a->deadline_ms ? a->deadline_ms : UINT64_MAX;
	uint64_t db = b->deadline_ms ? b->deadline_ms : UINT64_MAX;

	if (a->class_ != b->class_)
		return a->class_ < b->class_;
	if (da != db)
		return da < db;
	/* What was appended to an order, or is tried again, comes right behind what it had. */
	if (order_number(a) != order_number(b))
		return order_number(a) < order_number(b);
	return a->id < b->id;
}

static void order_insert(struct orders *os, struct order *o)
{
	struct order *at;

	/* Most orders come last among their like. */
	TAILQ_FOREACH_REVERSE(at, &os->sorted, order_list, sorted)
	{
		if (!order_before(o, at))
			break;
	}
	if (at != NULL)
		TAILQ_INSERT_AFTER(&os->sorted, at, o, sorted);
	else
		TAILQ_INSERT_HEAD(&os->sorted, o, sorted);
	LIST_INSERT_HEAD(&os->buckets[o->id % ORDER_BUCKETS], o, hashed);
	os->count++;
	order_count_in(o);
}

static const char *order_check(const Strait__OrderStart *m)
{
	if (m->n_objects == 0)
		return "an order needs objects";
	if (m->n_objects > UINT32_MAX / 2)
		return "too many objects";
	if (m->class_ >= STRAIT_CLASS_COUNT)
		return "unknown class";
	for (size_t i = 0; i < m->n_objects; i++) {
		const Strait__OrderObject *obj = m->objects[i];

		if (obj->key.len == 0 || obj->key.len > STRAIT_KEY_BYTES_MAX)
			return "a key must have 1 to 1024 bytes";
		if (obj->has_tenant && obj->tenant.len > STRAIT_TENANT_BYTES_MAX)
			return "a tenant's name has at most 64 bytes";
		if (obj->has_length && obj->length > STRAIT_OBJECT_BYTES_MAX)
			return "an object has at most 64 MiB";
	}
	return NULL;
}

static void order_fill(struct order *o, const Strait__OrderStart *m)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < o->object_count; i++) {
		const Strait__OrderObject *from = m->objects[i];
		struct order_object *obj = &o->objects[i];
		const void *tenant = DEFAULT_TENANT;
		size_t tenant_len = strlen(DEFAULT_TENANT);

		if (from->has_tenant && from->tenant.len > 0) {
			tenant = from->tenant.data;
			tenant_len = from->tenant.len;
		}
		obj->name = at;
		obj->tenant_len = (uint8_t)tenant_len;
		obj->key_len = (uint16_t)from->key.len;
		memcpy(o->names + at, tenant, tenant_len);
		memcpy(o->names + at + tenant_len, from->key.data, from->key.len);
		at += (uint32_t)(tenant_len + from->key.len);
		obj->length = from->has_length ? from->length : 0;
		obj->status = from->has_status ? (uint8_t)from->status : STRAIT_STATUS_PENDING;
		if (obj->status == STRAIT_STATUS_PENDING)
			o->remaining++;
		else if (obj->status == STRAIT_STATUS_COMMITTED ||
			obj->status == STRAIT_STATUS_EXISTS)
			o->bytes_done += obj->length;
	}
}

static struct order *order_create(const Strait__OrderStart *m)
{
	struct order *o = calloc(1, sizeof(*o));
	size_t names = 0;

	if (o == NULL)
		return NULL;
	for (size_t i = 0; i < m->n_objects; i++)
		names += m->objects[i]->key.len +
			(m->objects[i]->has_tenant ? m->objects[i]->tenant.len : 0) +
			strlen(DEFAULT_TENANT);
	o->object_count = (uint32_t)m->n_objects;
	o->objects = calloc(m->n_objects, sizeof(*o->objects));
	o->names = malloc(names);
	if (o->objects == NULL || o->names == NULL || names > UINT32_MAX) {
		order_free_memory(o);
		return NULL;
	}
	o->id = m->order;
	o->class_ = (uint8_t)m->class_;
	o->deadline_ms = m->has_deadline_ms ? m->deadline_ms : 0;
	order_fill(o, m);
	return o;
}

/* An order that would end REFUSED, object by object, is better refused with a reason. */
static bool order_is_of_lost_pool(const struct order *o)
{
	for (uint32_t i = 0; i < o->object_count; i++) {
		struct pool *pool = object_pool(o, &o->objects[i]);

		if (pool != NULL && pool->lost)
			return true;
	}
	return false;
}

/*
 * What the master lists as pending though it has our result: a failure is tried again, a
 * success is told again. An order of the same id but other objects is not one the master can
 * mean.
 */
static uint8_t order_continue(struct order *o, const Strait__OrderStart *m, const char **text)
{
	uint32_t again = 0;

	if (m->n_objects != o->object_count) {
		*text = "an order of this number with other objects is known";
		return STRAIT_STATUS_REFUSED;
	}
	for (uint32_t i = 0; i < o->log_acked; i++) {
		uint32_t index = o->log[i].index;
		struct order_object *obj = &o->objects[index];
		const Strait__OrderObject *asked = m->objects[index];

		if (asked->has_status && asked->status != STRAIT_STATUS_PENDING)
			continue;
		if (obj->status == STRAIT_STATUS_PENDING)
			continue;
		if (obj->status == STRAIT_STATUS_COMMITTED || obj->status == STRAIT_STATUS_EXISTS) {
			log_append(o, index, obj->status);
			continue;
		}
		obj->status = STRAIT_STATUS_PENDING;
		obj->found = false;
		o->remaining++;
		again++;
	}
	o->log_sent = o->log_acked;
	if (again > 0) {
		log_info("order", "tried again order=%" PRIu64 " objects=%u", o->id, again);
		o->end_status = STRAIT_STATUS_PENDING;
		o->refusal[0] = '\0';
		if (o->state == ORDER_DONE)
			order_count_in(o);
		/* Transfers that still live close first; the lookup then cuts parts anew. */
		o->state = ORDER_LOOKUP;
		o->looked_up = 0;
	}
	return STRAIT_STATUS_PENDING;
}

/* What it is sent over, or copied between. NULL, or why it cannot be. */
static const char *order_connect(struct order *o, const Strait__OrderStart *m)
{
	const char *why = NULL;

	if (m->has_way && m->way == ORDER_LOCAL)
		why = order_copy_init(o, m);
	if (why != NULL)
		return why;
	if (order_is_of_lost_pool(o))
		return "the pool's file was deleted, replaced or cut: restart the edge";
	if (o->copy != NULL)
		return NULL;
	o->lan = m->has_way && m->way == ORDER_LAN;
	o->link = o->orders->ops->link(o->orders->ctx, m);
	return o->link != NULL
		? NULL
		: "the destination's address is unusable or there are too many peers";
}

uint8_t orders_start(struct orders *os, uint64_t now_ns, const Strait__OrderStart *m,
	const char **text)
{
	struct order *o;

	*text = NULL;
	if (os->draining) {
		*text = "the edge is draining";
		return STRAIT_STATUS_RESET;
	}
	*text = order_check(m);
	if (*text != NULL)
		return STRAIT_STATUS_REFUSED;
	o = order_find(os, m->order);
	if (o != NULL && !(o->forget && o->live == 0)) {
		os->ops->kick(os->ctx);
		return order_continue(o, m, text);
	}
	if (o != NULL)
		order_destroy(o);
	if (os->count >= ORDERS_MAX) {
		*text = "the edge has too many orders";
		return STRAIT_STATUS_BUSY;
	}
	o = order_create(m);
	if (o == NULL) {
		*text = "out of memory";
		return STRAIT_STATUS_BUSY;
	}
	o->orders = os;
	*text = order_connect(o, m);
	if (*text != NULL) {
		order_free_memory(o);
		return STRAIT_STATUS_REFUSED;
	}
	order_insert(os, o);
	log_info("order", "start order=%" PRIu64 " to=%s/%s class=%u objects=%u pending=%u", o->id,
		m->to_site, m->to_edge, o->class_, o->object_count, o->remaining);
	if (o->remaining == 0)
		order_end(o, STRAIT_STATUS_CANCELED);
	order_settle(o, now_ns);
	os->ops->kick(os->ctx);
	return STRAIT_STATUS_PENDING;
}

bool orders_cancel(struct orders *os, uint64_t id)
{
	struct order *o = order_find(os, id);

	if (o == NULL)
		return false;
	if (o->state != ORDER_DONE) {
		log_info("order", "cancel order=%" PRIu64, id);
		order_end(o, STRAIT_STATUS_CANCELED);
	}
	os->ops->kick(os->ctx);
	return true;
}

void orders_drain(struct orders *os)
{
	os->draining = true;
}

uint32_t orders_live(const struct orders *os)
{
	return os->live;
}

uint32_t orders_pending(const struct orders *os)
{
	return os->pending;
}

void orders_progress(struct orders *os,
	void (*cb)(void *ctx, uint64_t order, uint64_t total, uint64_t done), void *ctx)
{
	struct order *o;

	TAILQ_FOREACH(o, &os->sorted, sorted) {
		if (o->state != ORDER_DONE)
			cb(ctx, o->id, o->bytes_total, o->bytes_done);
	}
}
