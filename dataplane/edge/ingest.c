/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/ingest.h"

#include "control/base/log.h"
#include "dataplane/edge/pool_status.h"
#include "dataplane/transport/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TENANT "default"
/* Commands about a closed transfer are long out of the worker's ring by then. */
#define REAP_NS (1000000000ULL)

enum ingest_state {
	INGEST_UNPLACED,
	INGEST_BUSY, /* another writer holds the key; since = when first seen */
	INGEST_PLACED,
	INGEST_DONE,
};

struct ingest_object {
	uint64_t offset; /* in the stream */
	union {
		uint64_t handle;
		uint64_t since_ns;
	};
	const void *data; /* while placed */
	uint8_t state;
};

struct ingest_transfer {
	TAILQ_ENTRY(ingest_transfer) entry;
	struct ingest_session *is; /* NULL when closed */
	struct rx_transfer *rx;
	struct ingest_object *objects; /* one more than there are, for the end offset */
	uint32_t count;
	uint32_t low;  /* all below are done */
	uint32_t next; /* all below were looked at */
	uint32_t busy;
	uint64_t placed_bytes;
	uint64_t memory;
	uint64_t closed_ns;
};

struct ingest {
	const struct ingest_ops *ops;
	void *ctx;
	struct control_queue *queue;
	LIST_HEAD(, ingest_session) sessions;
	struct ingest_transfer_list closed;
	struct ingest_totals totals;
	uint64_t memory;
	uint32_t live, busy;
	bool draining;
};

struct ingest *ingest_create(const struct ingest_ops *ops, void *ctx, struct control_queue *queue)
{
	struct ingest *in = calloc(1, sizeof(*in));

	if (in == NULL)
		return NULL;
	in->ops = ops;
	in->ctx = ctx;
	in->queue = queue;
	LIST_INIT(&in->sessions);
	TAILQ_INIT(&in->closed);
	return in;
}

static void transfer_free(struct ingest_transfer *t)
{
	rx_transfer_destroy(t->rx);
	free(t->objects);
	free(t);
}

void ingest_destroy(struct ingest *in)
{
	struct ingest_transfer *t;

	if (in == NULL)
		return;
	while ((t = TAILQ_FIRST(&in->closed)) != NULL) {
		TAILQ_REMOVE(&in->closed, t, entry);
		transfer_free(t);
	}
	free(in);
}

void ingest_session_add(struct ingest *in, struct ingest_session *is, struct session *session,
	uint8_t worker, const struct session_credit window[STRAIT_CLASS_COUNT])
{
	memset(is, 0, sizeof(*is));
	is->ingest = in;
	is->session = session;
	is->worker = worker;
	memcpy(is->window, window, sizeof(is->window));
	TAILQ_INIT(&is->transfers);
	LIST_INSERT_HEAD(&in->sessions, is, entry);
}

void ingest_session_close(struct ingest_session *is)
{
	is->closing = true;
}

static void session_command(struct ingest_session *is, struct worker_command *c)
{
	if (is->closing)
		return;
	c->session = is->session;
	c->worker = is->worker;
	if (control_queue_push(is->ingest->queue, c) < 0)
		log_limited(LOG_LEVEL_ERROR, "ingest", 1000, "out of memory, command lost");
}

/* ---- objects ----------------------------------------------------------------------------- */

static struct pool *entry_pool(struct ingest *in, const struct manifest_entry *e)
{
	if (e->tenant_len == 0)
		return in->ops->pool(in->ctx, (const uint8_t *)DEFAULT_TENANT,
			strlen(DEFAULT_TENANT));
	return in->ops->pool(in->ctx, e->tenant, e->tenant_len);
}

static struct pool *object_entry(struct ingest_transfer *t, uint32_t object,
	struct manifest_entry *e)
{
	if (rx_transfer_entry(t->rx, object, e) < 0)
		return NULL;
	return entry_pool(t->is->ingest, e);
}

static void object_done(struct ingest_transfer *t, uint32_t object)
{
	struct ingest_object *o = &t->objects[object];
	struct ingest_session *is = t->is;
	uint8_t class_ = rx_transfer_open(t->rx)->class_;
	uint64_t len = t->objects[object + 1].offset - o->offset;

	if (o->state == INGEST_PLACED) {
		is->placed[class_].bytes -= len;
		is->placed[class_].objects--;
		t->placed_bytes -= len;
	} else if (o->state == INGEST_BUSY) {
		t->busy--;
		is->ingest->busy--;
	}
	o->state = INGEST_DONE;
	while (t->low < t->count && t->objects[t->low].state == INGEST_DONE)
		t->low++;
}

static void object_finish(struct ingest_transfer *t, uint32_t object, uint8_t status)
{
	struct worker_command c = { .type = WORKER_RX_FINISH,
		.rx = t->rx,
		.object = object,
		.status = status };
	struct ingest_totals *totals = &t->is->ingest->totals;

	object_done(t, object);
	switch (status) {
	case STRAIT_STATUS_COMMITTED:
		totals->committed++;
		totals->committed_bytes +=
			t->objects[object + 1].offset - t->objects[object].offset;
		break;
	case STRAIT_STATUS_EXISTS:
		totals->existed++;
		break;
	case STRAIT_STATUS_FULL:
		totals->full++;
		break;
	case STRAIT_STATUS_BUSY:
		totals->busy++;
		break;
	case STRAIT_STATUS_DIGEST:
		totals->digest++;
		break;
	default:
		totals->failed++;
	}
	session_command(t->is, &c);
}

static void object_placed(struct ingest_transfer *t, uint32_t object,
	const struct pool_object *space)
{
	struct worker_command c = { .type = WORKER_RX_PLACE, .rx = t->rx, .object = object };
	struct ingest_object *o = &t->objects[object];
	struct ingest_session *is = t->is;
	uint8_t class_ = rx_transfer_open(t->rx)->class_;
	uint64_t there;

	if (o->state == INGEST_BUSY) {
		t->busy--;
		is->ingest->busy--;
	}
	o->state = INGEST_PLACED;
	o->handle = space->handle;
	o->data = space->data;
	is->placed[class_].bytes += space->len;
	is->placed[class_].objects++;
	t->placed_bytes += space->len;
	there = rx_object_prepare(t->rx, object, space->data, space->resume, space->resumed);
	if (there > 0) {
		is->ingest->totals.adopted++;
		is->ingest->totals.adopted_bytes += there;
	}
	session_command(is, &c);
}

/* Get memory for an object, or its final status. */
static void object_place(struct ingest_transfer *t, uint32_t object, uint64_t now_ns)
{
	struct ingest_object *o = &t->objects[object];
	struct ingest *in = t->is->ingest;
	struct pool_object space;
	struct manifest_entry e;
	struct pool *pool = object_entry(t, object, &e);
	int ret;

	if (pool == NULL) {
		object_finish(t, object, STRAIT_STATUS_REFUSED);
		return;
	}
	ret = pool_reserve(pool, e.key, e.key_len, e.length,
		e.flags & STRAIT_MANIFEST_DIGEST ? e.digest : 0, &space);
	if (ret == 0 && space.resume_len < SESSION_RESUME_BYTES) {
		pool_abandon(pool, space.handle, false);
		ret = -EPROTO;
	}
	if (ret == 0) {
		object_placed(t, object, &space);
		return;
	}
	if (ret == -EBUSY || ret == -ETIMEDOUT) {
		/* Often our own reservation of a session that is just closing. */
		if (o->state != INGEST_BUSY && t->busy < INGEST_BUSY_MAX) {
			o->state = INGEST_BUSY;
			o->since_ns = now_ns;
			t->busy++;
			in->busy++;
			return;
		}
		if (o->state == INGEST_BUSY && now_ns - o->since_ns < INGEST_BUSY_NS)
			return;
	} else if (ret != -EEXIST && ret != -ENOSPC) {
		log_limited(LOG_LEVEL_WARN, "ingest", 1000, "no space for an object: %s",
			strerror(-ret));
	}
	object_finish(t, object, pool_reserve_status(ret));
}

static void object_arrived(struct ingest_transfer *t, uint32_t object, uint8_t status)
{
	struct ingest_object *o;
	struct manifest_entry e;
	struct pool *pool;
	uint64_t digest;
	int ret;

	if (object >= t->count || t->objects[object].state != INGEST_PLACED)
		return;
	o = &t->objects[object];
	pool = object_entry(t, object, &e);
	if (pool == NULL)
		return;
	if (status != STRAIT_STATUS_COMMITTED) {
		pool_abandon(pool, o->handle, false);
		object_finish(t, object, status);
		return;
	}
	digest = e.digest;
	if ((e.flags & STRAIT_MANIFEST_DIGEST) == 0)
		digest = strait_digest(o->data, e.length);
	ret = pool_publish(pool, o->handle, digest);
	if (ret < 0) {
		log_limited(LOG_LEVEL_ERROR, "ingest", 1000, "cannot publish an object: %s",
			strerror(-ret));
		pool_abandon(pool, o->handle, false);
		status = ret == -EEXIST ? STRAIT_STATUS_EXISTS : STRAIT_STATUS_INTERNAL;
	}
	object_finish(t, object, status);
}

static void object_withdrawn(struct ingest_transfer *t, uint32_t object, uint8_t status)
{
	struct ingest_object *o;
	struct manifest_entry e;
	struct pool *pool;

	if (object >= t->count || t->objects[object].state == INGEST_DONE)
		return;
	o = &t->objects[object];
	pool = object_entry(t, object, &e);
	if (o->state == INGEST_PLACED && pool != NULL)
		pool_abandon(pool, o->handle, false);
	t->is->ingest->totals.withdrawn++;
	object_finish(t, object, status);
}

/* ---- transfers --------------------------------------------------------------------------- */

static void transfer_refuse(struct ingest_session *is, const struct session_open *open,
	uint8_t status, const char *why)
{
	struct worker_command c = { .type = WORKER_RX_REFUSE,
		.value = open->transfer,
		.status = status };

	is->ingest->totals.refused++;
	log_limited(LOG_LEVEL_WARN, "ingest", 1000, "transfer refused order=%" PRIu64 ": %s",
		open->order, why);
	session_command(is, &c);
}

static uint64_t transfer_memory(const struct session_open *open)
{
	uint64_t symbols = open->stream_bytes / open->symbol_bytes + 1;

	/* Tables of rx_transfer.h and ours. */
	return 2ULL * open->manifest_bytes + 192ULL * open->objects +
		40 * (symbols / STRAIT_BLOCK_SYMBOLS_MAX + open->objects + 1);
}

static void transfer_insert(struct ingest_session *is, struct ingest_transfer *t)
{
	uint64_t deadline = rx_transfer_open(t->rx)->deadline_ms;
	struct ingest_transfer *at;

	TAILQ_FOREACH(at, &is->transfers, entry) {
		uint64_t other = rx_transfer_open(at->rx)->deadline_ms;

		if (deadline != 0 && (other == 0 || other > deadline))
			break;
	}
	if (at != NULL)
		TAILQ_INSERT_BEFORE(at, t, entry);
	else
		TAILQ_INSERT_TAIL(&is->transfers, t, entry);
}

static void transfer_open(struct ingest_session *is, const struct session_open *open)
{
	struct worker_command c = { .type = WORKER_RX_ATTACH };
	struct ingest *in = is->ingest;
	uint64_t memory = transfer_memory(open);
	struct ingest_transfer *t;

	if (is->closing)
		return;
	if (in->draining) {
		transfer_refuse(is, open, STRAIT_STATUS_RESET, "draining");
		return;
	}
	if (memory > INGEST_MEMORY_MAX) {
		transfer_refuse(is, open, STRAIT_STATUS_REFUSED, "too large for this edge");
		return;
	}
	if (in->memory + memory > INGEST_MEMORY_MAX) {
		transfer_refuse(is, open, STRAIT_STATUS_BUSY, "too many large transfers");
		return;
	}
	t = calloc(1, sizeof(*t));
	control_queue_place(in->queue, is->worker);
	if (t != NULL)
		t->rx = rx_transfer_create(open, t);
	control_queue_place(in->queue, -1);
	if (t == NULL || t->rx == NULL) {
		transfer_refuse(is, open,
			errno == EINVAL ? STRAIT_STATUS_MALFORMED : STRAIT_STATUS_BUSY,
			strerror(errno));
		free(t);
		return;
	}
	t->is = is;
	t->memory = memory;
	in->memory += memory;
	in->live++;
	in->totals.transfers++;
	transfer_insert(is, t);
	log_debug("ingest", "open order=%" PRIu64 " objects=%u bytes=%" PRIu64, open->order,
		open->objects, open->stream_bytes);
	c.rx = t->rx;
	session_command(is, &c);
}

static void transfer_manifest(struct ingest_transfer *t)
{
	struct worker_command c = { .type = WORKER_RX_BEGIN, .rx = t->rx };
	const struct session_open *open = rx_transfer_open(t->rx);
	struct manifest_entry e;
	uint64_t offset = 0;
	uint32_t n = rx_transfer_objects(t->rx);

	if (t->objects != NULL)
		return;
	if (rx_transfer_load_objects(t->rx) < 0) {
		transfer_refuse(t->is, open, STRAIT_STATUS_MALFORMED, "malformed manifest");
		return;
	}
	t->objects = calloc((size_t)n + 1, sizeof(*t->objects));
	if (t->objects == NULL) {
		transfer_refuse(t->is, open, STRAIT_STATUS_BUSY, "out of memory");
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (rx_transfer_entry(t->rx, i, &e) < 0)
			return;
		t->objects[i].offset = offset;
		offset += e.length;
		if (e.flags & STRAIT_MANIFEST_SKIP)
			t->objects[i].state = INGEST_DONE;
	}
	t->objects[n].offset = offset;
	t->count = n;
	while (t->low < n && t->objects[t->low].state == INGEST_DONE)
		t->low++;
	session_command(t->is, &c);
}

static void transfer_closed(struct ingest_transfer *t, uint64_t now_ns, uint8_t status)
{
	struct ingest_session *is = t->is;
	struct ingest *in = is->ingest;
	bool keep = status == STRAIT_STATUS_RESET;
	struct manifest_entry e;
	struct pool *pool;

	for (uint32_t i = t->low; i < t->count; i++) {
		if (t->objects[i].state == INGEST_PLACED) {
			pool = object_entry(t, i, &e);
			if (pool != NULL)
				pool_abandon(pool, t->objects[i].handle, keep);
		}
		if (t->objects[i].state != INGEST_DONE)
			object_done(t, i);
	}
	control_queue_purge(in->queue, NULL, t->rx);
	TAILQ_REMOVE(&is->transfers, t, entry);
	t->is = NULL;
	t->closed_ns = now_ns;
	in->memory -= t->memory;
	in->live--;
	TAILQ_INSERT_TAIL(&in->closed, t, entry);
}

void ingest_session_del(struct ingest_session *is)
{
	struct ingest_transfer *t;

	is->closing = true;
	while ((t = TAILQ_FIRST(&is->transfers)) != NULL)
		transfer_closed(t, 0, STRAIT_STATUS_RESET);
	LIST_REMOVE(is, entry);
}

void ingest_event(struct ingest_session *is, uint64_t now_ns, const struct session_event *ev)
{
	struct ingest_transfer *t;

	if (ev->type == SESSION_EVENT_RX_OPEN) {
		transfer_open(is, &ev->open);
		return;
	}
	t = rx_transfer_user(ev->rx);
	if (t->is == NULL)
		return;
	switch (ev->type) {
	case SESSION_EVENT_RX_MANIFEST:
		transfer_manifest(t);
		break;
	case SESSION_EVENT_RX_OBJECT:
		object_arrived(t, ev->object, ev->status);
		break;
	case SESSION_EVENT_RX_WITHDRAWN:
		object_withdrawn(t, ev->object, ev->status);
		break;
	case SESSION_EVENT_RX_CLOSED:
		transfer_closed(t, now_ns, ev->status);
		break;
	default:
		return;
	}
	is->ingest->ops->kick(is->ingest->ctx);
}

/* ---- placement --------------------------------------------------------------------------- */

static bool may_place(const struct ingest_transfer *t, bool first)
{
	const struct ingest_session *is = t->is;
	const struct session_open *open = rx_transfer_open(t->rx);
	const struct session_credit *window = &is->window[open->class_];
	const struct session_credit *placed = &is->placed[open->class_];
	uint64_t at = t->objects[t->next].offset;
	uint64_t len = t->objects[t->next + 1].offset - at;
	/* A block completes only when all objects it overlaps are placed. */
	uint64_t shared = 2ULL * STRAIT_BLOCK_SYMBOLS_MAX * open->symbol_bytes;

	if (at < t->objects[t->low + 1].offset + shared)
		return true;
	if (first && t->placed_bytes + len <= window->bytes)
		return true;
	return placed->bytes + len <= window->bytes && placed->objects < window->objects;
}

static uint32_t transfer_place(struct ingest_transfer *t, uint64_t now_ns, uint32_t slice,
	bool first)
{
	uint32_t n = 0;

	for (uint32_t i = t->low, left = t->busy; left > 0 && i < t->next; i++) {
		if (t->objects[i].state == INGEST_BUSY) {
			object_place(t, i, now_ns);
			left--;
		}
	}
	while (t->next < t->count && n < slice) {
		if (t->objects[t->next].state == INGEST_UNPLACED) {
			if (!may_place(t, first))
				break;
			object_place(t, t->next, now_ns);
			n++;
		}
		t->next++;
	}
	return n;
}

bool ingest_run(struct ingest *in, uint64_t now_ns)
{
	uint32_t slice = INGEST_PLACE_SLICE;
	struct ingest_session *is;
	struct ingest_transfer *t;

	LIST_FOREACH(is, &in->sessions, entry) {
		bool first[STRAIT_CLASS_COUNT] = { true, true, true };

		if (is->closing)
			continue;
		TAILQ_FOREACH(t, &is->transfers, entry) {
			bool *head = &first[rx_transfer_open(t->rx)->class_];

			if (t->objects == NULL || slice == 0)
				continue;
			slice -= transfer_place(t, now_ns, slice, *head);
			*head = *head && t->next == t->count;
		}
	}
	while ((t = TAILQ_FIRST(&in->closed)) != NULL && now_ns - t->closed_ns > REAP_NS) {
		TAILQ_REMOVE(&in->closed, t, entry);
		transfer_free(t);
	}
	return slice == 0;
}

void ingest_drain(struct ingest *in)
{
	in->draining = true;
}

uint32_t ingest_live(const struct ingest *in)
{
	return in->live;
}

bool ingest_is_waiting(const struct ingest *in)
{
	return in->busy > 0;
}

const struct ingest_totals *ingest_totals(const struct ingest *in)
{
	return &in->totals;
}
