/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "dataplane/edge/order_private.h"
#include "dataplane/edge/pool_status.h"
#include "dataplane/transport/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS 1000000ULL
/* Commands about a closed transfer are long out of the worker's ring by then. */
#define REAP_NS (1000 * MS_NS)

static struct pool *object_pool(const struct order *o, const struct order_object *obj)
{
	if (o->copy != NULL)
		return order_copy_source(o, o->names + obj->name, obj->tenant_len);
	return o->orders->ops->pool(o->orders->ctx, o->names + obj->name, obj->tenant_len);
}

static const uint8_t *object_key(const struct order *o, const struct order_object *obj)
{
	return o->names + obj->name + obj->tenant_len;
}

/* ---- lookup ------------------------------------------------------------------------------ */

static void object_hold(struct order *o, struct order_object *obj, const struct pool_object *found)
{
	obj->lease = found->handle;
	obj->data = found->data;
	o->bytes_waiting -= obj->length < o->bytes_waiting ? obj->length : o->bytes_waiting;
}

/* 0: found or final; -EINPROGRESS, -EAGAIN, -ENOSPC: not yet (pool/gateway.h). */
static int object_lookup(struct order *o, uint32_t index)
{
	struct order_object *obj = &o->objects[index];
	struct pool *pool = object_pool(o, obj);
	struct pool_object found;
	int ret;

	if (obj->lease != 0)
		return 0;
	ret = pool == NULL ? -ENOENT : pool_lease(pool, object_key(o, obj), obj->key_len, &found);
	if (ret == -EINPROGRESS || ret == -EAGAIN || ret == -ENOSPC)
		return ret;
	if (ret < 0) {
		if (ret != -ENOENT && ret != -ENXIO && ret != -ESTALE && ret != -EFBIG)
			log_limited(LOG_LEVEL_ERROR, "order", 1000, "pool lookup failed: %s",
				strerror(-ret));
		order_object_final(o, index, pool_lease_status(ret, STRAIT_STATUS_NOT_FOUND));
		return 0;
	}
	obj->length = found.len;
	obj->digest = found.digest;
	obj->found = true;
	if (found.staged == 0) {
		pool_release(pool, found.handle);
		return 0;
	}
	object_hold(o, obj, &found);
	o->uncut_bytes += obj->length;
	o->uncut_limit = found.staged;
	return 0;
}

static void cut_failed(struct order *o)
{
	log_error("order", "out of memory order=%" PRIu64, o->id);
	free(o->parts);
	o->parts = NULL;
	o->part_count = 0;
	order_end(o, STRAIT_STATUS_INTERNAL);
}

/* Nothing of it travels or is about to. */
static bool order_is_idle(const struct order *o)
{
	for (uint32_t p = 0; p < o->part_count; p++) {
		if (!o->parts[p].done)
			return false;
	}
	return true;
}

/* What was found travels. */
static void order_cut(struct order *o, uint64_t unix_ms)
{
	if (o->copy != NULL) {
		o->state = ORDER_ACTIVE;
		order_copy_begin(o);
		order_admit(o, unix_ms);
		return;
	}
	if (o->state == ORDER_ACTIVE) {
		if (order_cut_more(o) < 0)
			log_limited(LOG_LEVEL_ERROR, "order", 1000, "out of memory, tried again");
		return;
	}
	o->state = ORDER_ACTIVE;
	if (order_cut_parts(o) < 0)
		cut_failed(o);
	else
		order_admit(o, unix_ms);
}

/*
 * Returns how many objects were looked at. *more: it is worth to call again at once. Beyond one
 * that is being brought it looks, too, so that many are brought at a time.
 */
static uint32_t order_lookup(struct order *o, uint32_t slice, uint64_t unix_ms, bool *more)
{
	uint32_t n = 0, first = o->object_count, at = o->looked_up;
	bool coming = false;
	int ret = 0;

	for (; at < o->object_count && n < slice && (ret == 0 || ret == -EINPROGRESS); at++) {
		if (o->objects[at].status != STRAIT_STATUS_PENDING || o->objects[at].lease != 0)
			continue;
		ret = object_lookup(o, at);
		n++;
		coming = coming || ret == -EINPROGRESS;
		if (ret < 0 && at < first)
			first = at;
	}
	o->looked_up = at < first ? at : first;
	*more = *more || (first == o->object_count && at < o->object_count);
	if (o->looked_up == o->object_count ||
		(o->uncut_bytes > 0 && o->uncut_bytes >= o->uncut_limit) ||
		(o->uncut_bytes > 0 && ret == -ENOSPC && !coming && order_is_idle(o)))
		order_cut(o, unix_ms);
	return n;
}

/* ---- transfers --------------------------------------------------------------------------- */

void order_tx_free(struct order_tx *t)
{
	tx_transfer_destroy(t->tx);
	free(t->map);
	free(t);
}

/* A transfer of the part's objects, final ones as SKIP. NULL + errno. */
static struct order_tx *tx_build(struct order_part *part)
{
	struct order *o = part->order;
	struct tx_params params = { .order = o->id,
		.flow = order_number(o),
		.class_ = o->class_,
		.lan = o->lan,
		.deadline_ms = o->deadline_ms,
		.symbol_bytes = o->link->queues[part->queue].symbol_bytes };
	struct order_tx *t = calloc(1, sizeof(*t));
	struct manifest_entry *entries;
	uint32_t n = part->end - part->first;

	entries = malloc(n * sizeof(*entries));
	if (t != NULL)
		t->map = malloc(n * sizeof(*t->map));
	if (t == NULL || entries == NULL || t->map == NULL) {
		errno = ENOMEM;
		goto fail;
	}
	n = 0;
	for (uint32_t at = part->first; at < part->end; at++) {
		uint32_t i = o->sequence[at];

		if (o->objects[i].length == 0)
			continue;
		t->map[n] = i;
		order_entry(o, &o->objects[i], &entries[n++]);
	}
	t->part = part;
	t->objects = n;
	params.objects = n;
	params.entries = entries;
	params.user = t;
	t->tx = tx_transfer_create(&params);
	if (t->tx == NULL)
		goto fail;
	free(entries);
	return t;
fail:
	free(entries);
	if (t != NULL)
		free(t->map);
	free(t);
	return NULL;
}

static bool part_has_pending(const struct order_part *part)
{
	const struct order *o = part->order;

	for (uint32_t i = part->first; i < part->end; i++) {
		if (o->objects[o->sequence[i]].status == STRAIT_STATUS_PENDING)
			return true;
	}
	return false;
}

static void part_finish(struct order_part *part, uint8_t status)
{
	for (uint32_t i = part->first; i < part->end; i++)
		order_object_final(part->order, part->order->sequence[i], status);
	part->done = true;
}

static void part_start(struct order_part *part, uint64_t now_ns)
{
	struct order *o = part->order;
	struct order_queue *q = &o->link->queues[part->queue];
	struct worker_command c = { .type = WORKER_TX_START,
		.session = q->session,
		.worker = part->queue };
	struct order_tx *t;

	if (!part_has_pending(part)) {
		part->done = true;
		return;
	}
	control_queue_place(o->orders->queue, part->queue);
	t = tx_build(part);
	control_queue_place(o->orders->queue, -1);
	if (t == NULL) {
		log_error("order", "transfer not created order=%" PRIu64 ": %s", o->id,
			strerror(errno));
		if (errno != ENOMEM)
			part_finish(part, STRAIT_STATUS_INTERNAL);
		else
			part->not_before_ns = now_ns + 1000 * MS_NS;
		return;
	}
	t->session = c.session;
	t->queue = part->queue;
	c.tx = t->tx;
	if (control_queue_push(o->orders->queue, &c) < 0) {
		order_tx_free(t);
		part->not_before_ns = now_ns + 1000 * MS_NS;
		return;
	}
	part->live = t;
	o->live++;
	q->live++;
	o->link->live++;
	o->orders->live++;
}

static void order_start_parts(struct order *o, uint64_t now_ns)
{
	uint32_t slots =
		o->class_ == STRAIT_CLASS_URGENT ? SESSION_TRANSFERS_MAX : ORDER_NORMAL_SLOTS;

	for (uint32_t p = 0; p < o->part_count; p++) {
		struct order_part *part = &o->parts[p];

		if (part->done || part->live != NULL || part->not_before_ns > now_ns)
			continue;
		if (o->link->queues[part->queue].live >= slots)
			continue;
		part_start(part, now_ns);
	}
}

static bool order_is_ending(const struct order *o)
{
	return o->end_status != STRAIT_STATUS_PENDING;
}

/* The link may have other queues than when the order was cut: all of it is dealt anew then. */
static void order_start(struct order *o, uint64_t now_ns)
{
	if (o->cut_queues != link_queues(o->link)) {
		if (o->live > 0)
			return; /* of the session before; they close */
		if (order_cut_parts(o) < 0) {
			cut_failed(o);
			return;
		}
	}
	order_start_parts(o, now_ns);
}

/* Lease an object that is wanted, or make sure of a lease. Errors as pool.h. */
static int object_lease(struct order *o, struct order_object *obj)
{
	struct pool *pool = object_pool(o, obj);
	struct pool_object found;
	int ret;

	if (pool == NULL)
		return -ENOENT;
	if (obj->lease != 0)
		return pool_confirm(pool, obj->lease, o->orders->now_ns);
	ret = pool_lease(pool, object_key(o, obj), obj->key_len, &found);
	if (ret < 0)
		return ret;
	if (found.len != obj->length || found.digest != obj->digest) {
		/* Another value took the key: what was ordered is gone. */
		pool_release(pool, found.handle);
		return -ENOENT;
	}
	object_hold(o, obj, &found);
	return 0;
}

/* Have all that were asked for confirmed at once, not one after the other. */
static void tx_confirm(struct order_tx *t)
{
	struct order *o = t->part->order;

	for (uint32_t i = t->wanted; i < t->asked; i++) {
		const struct order_object *obj = &o->objects[t->map[i]];

		if (obj->status == STRAIT_STATUS_PENDING && obj->lease != 0)
			(void)pool_confirm(object_pool(o, obj), obj->lease, o->orders->now_ns);
	}
}

/* Give the session the objects it asked for. -ENOMEM, -EINPROGRESS: not all yet. */
static int tx_feed(struct order_tx *t)
{
	struct order *o = t->part->order;

	if (!order_tx_is_current(t))
		return 0; /* the session is going; the next one asks again */
	for (; t->wanted < t->asked; t->wanted++) {
		struct order_object *obj = &o->objects[t->map[t->wanted]];
		struct worker_command c = { .type = WORKER_TX_READY,
			.session = t->session,
			.tx = t->tx,
			.worker = t->queue,
			.object = t->wanted };
		int ret;

		if (obj->status != STRAIT_STATUS_PENDING)
			continue;
		ret = object_lease(o, obj);
		if (ret == -EINPROGRESS) {
			tx_confirm(t);
			return ret;
		}
		c.data = obj->data;
		if (ret < 0) {
			c.type = WORKER_TX_GONE;
			c.status = pool_lease_status(ret, STRAIT_STATUS_EVICTED);
		}
		if (control_queue_push(o->orders->queue, &c) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void tx_want(struct order_tx *t, uint32_t end)
{
	struct orders *os = t->part->order->orders;

	if (end > t->objects)
		end = t->objects;
	if (end > t->asked)
		t->asked = end;
	switch (tx_feed(t)) {
	case 0:
		return;
	case -ENOMEM:
		log_limited(LOG_LEVEL_ERROR, "order", 1000, "out of memory, tried again");
	}
	os->starved = true;
}

/* What found no memory last time: without it a transfer would stand still for good. */
static void orders_retry(struct orders *os)
{
	struct order *o;

	if (!os->starved)
		return;
	os->starved = false;
	TAILQ_FOREACH(o, &os->sorted, sorted) {
		if (o->live == 0)
			continue;
		if (order_is_ending(o))
			order_end(o, o->end_status);
		for (uint32_t p = 0; p < o->part_count; p++) {
			struct order_tx *t = o->parts[p].live;

			if (t != NULL && !t->canceling && tx_feed(t) < 0)
				os->starved = true;
		}
	}
}

/* Transfers of before an order was repeated close first. */
static bool order_is_looking(const struct order *o)
{
	if (o->state == ORDER_LOOKUP)
		return o->live == 0;
	return o->copy == NULL && o->state == ORDER_ACTIVE && o->sequence_count < o->object_count &&
		!order_is_ending(o);
}

bool orders_run(struct orders *os, uint64_t now_ns, uint64_t unix_ms)
{
	uint32_t slice = ORDER_LOOKUP_SLICE;
	bool more = false;
	struct order *o;

	os->now_ns = now_ns;
	orders_retry(os);
	orders_check_deadlines(os, now_ns, unix_ms);
	TAILQ_FOREACH(o, &os->sorted, sorted) {
		if (o->state == ORDER_DONE)
			continue;
		if (o->deadline_ms != 0 && unix_ms > o->deadline_ms && !order_is_ending(o)) {
			log_info("order", "deadline passed order=%" PRIu64, o->id);
			order_end(o, STRAIT_STATUS_DEADLINE);
		}
		if (order_is_looking(o) && slice > 0)
			slice -= order_lookup(o, slice, unix_ms, &more);
		else
			more = more || order_is_looking(o);
		if (o->state == ORDER_ACTIVE && !order_is_ending(o)) {
			if (o->link->queues[0].session != NULL && !os->draining)
				order_start(o, now_ns);
			else if (o->link->queues[0].session == NULL && o->link->unreachable &&
				o->live == 0)
				order_end(o, STRAIT_STATUS_UNREACHABLE);
		}
		order_settle(o, now_ns);
	}
	return more;
}

/* ---- events of transfers ----------------------------------------------------------------- */

static void tx_object(struct order_tx *t, uint32_t object, uint8_t status)
{
	struct order_part *part = t->part;

	/* A reset ends the transfer, not the object. */
	if (object >= t->objects || status == STRAIT_STATUS_RESET ||
		status == STRAIT_STATUS_PENDING || status == STRAIT_STATUS_SKIPPED)
		return;
	part->reopens = 0;
	order_object_final(part->order, t->map[object], status);
}

static void tx_closed(struct order_tx *t, uint64_t now_ns, uint8_t status)
{
	struct order_part *part = t->part;
	struct order *o = part->order;
	struct orders *os = o->orders;

	control_queue_purge(os->queue, t->tx, NULL);
	part->live = NULL;
	o->live--;
	o->link->queues[t->queue].live--;
	o->link->live--;
	os->live--;
	t->part = NULL;
	t->closed_ns = now_ns;
	TAILQ_INSERT_TAIL(&os->closed, t, entry);

	if (t->refused != STRAIT_STATUS_PENDING)
		status = t->refused;
	if (!part_has_pending(part)) {
		part->done = true;
	} else if (order_is_ending(o)) {
		part_finish(part, o->end_status);
	} else if (status == STRAIT_STATUS_RESET || status == STRAIT_STATUS_BUSY ||
		status == STRAIT_STATUS_PENDING || status == STRAIT_STATUS_COMMITTED) {
		/* At once after a reset, slower when that keeps happening. */
		if (part->reopens >= ORDER_REOPENS_MAX)
			part_finish(part, STRAIT_STATUS_UNREACHABLE);
		else if (part->reopens > 0)
			part->not_before_ns =
				now_ns + (100 * MS_NS << (part->reopens < 6 ? part->reopens : 6));
		part->reopens++;
		log_info("order", "transfer ended early, opened again order=%" PRIu64 " status=%s",
			o->id, strait_status_name(status));
	} else {
		log_warn("order", "transfer failed order=%" PRIu64 " status=%s", o->id,
			strait_status_name(status));
		part_finish(part, status);
	}
	order_settle(o, now_ns);
}

void orders_event(struct orders *os, uint64_t now_ns, const struct session_event *ev)
{
	struct order_tx *t = tx_transfer_user(ev->tx);

	if (t->part == NULL)
		return;
	os->now_ns = now_ns;
	switch (ev->type) {
	case SESSION_EVENT_TX_OPENED:
		t->refused = ev->status;
		break;
	case SESSION_EVENT_TX_WANT:
		tx_want(t, ev->object);
		break;
	case SESSION_EVENT_TX_OBJECT:
		tx_object(t, ev->object, ev->status);
		os->ops->kick(os->ctx);
		break;
	case SESSION_EVENT_TX_CLOSED:
		tx_closed(t, now_ns, ev->status);
		os->ops->kick(os->ctx);
		break;
	default:
		break;
	}
}

void orders_reap(struct orders *os, uint64_t now_ns)
{
	struct order_tx *t;

	while ((t = TAILQ_FIRST(&os->closed)) != NULL && now_ns - t->closed_ns > REAP_NS) {
		TAILQ_REMOVE(&os->closed, t, entry);
		order_tx_free(t);
	}
}
