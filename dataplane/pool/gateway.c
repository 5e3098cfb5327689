/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/gateway.h"

#include "dataplane/pool/shm_change.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { BUCKETS = 4096, STAGE_PARTS = 4 };

enum item_state {
	ITEM_ASK,      /* STAGE is to be sent */
	ITEM_ASKED,    /* .. was sent */
	ITEM_STAGED,   /* leased here */
	ITEM_FAILED,   /* to be told once */
	ITEM_RESERVED, /* being filled from the other site */
	ITEM_TELL,     /* ARRIVED is to be sent; leased here */
	ITEM_TOLD,     /* .. was sent */
};

/* Of what is staged: does the store still have it? */
enum item_check {
	CHECK_NONE,
	CHECK_DUE, /* CHECK is to be sent */
	CHECK_SENT,
};

/* An object on its way, in one direction. */
struct item {
	LIST_ENTRY(item) by_key, by_handle, by_id;
	TAILQ_ENTRY(item) queued; /* in ITEM_ASK, ITEM_TELL and CHECK_DUE */
	enum item_state state;
	enum item_check check;
	struct pool_object object;
	uint64_t since_ns; /* staged or confirmed */
	uint32_t id, refs, tries;
	int error;
	uint16_t key_len;
	uint8_t key[];
};

LIST_HEAD(item_bucket, item);
TAILQ_HEAD(item_queue, item);

struct gateway_pool {
	struct pool pool;
	struct pool *inner;
	uint64_t stage_bytes;
	struct item_bucket by_key[BUCKETS], by_handle[BUCKETS], by_id[BUCKETS];
	struct item_queue queue;
	struct gateway_totals totals;
	uint64_t now_ns;
	uint32_t next_id, asked; /* in ITEM_ASK and ITEM_ASKED */
	bool connected;
	char tenant[];
};

static struct gateway_pool *self_of(struct pool *pool)
{
	return (struct gateway_pool *)pool;
}

/* ---- items ------------------------------------------------------------------------------- */

static uint32_t key_bucket(const void *key, size_t len)
{
	return (uint32_t)(strait_digest(key, len) % BUCKETS);
}

static struct item *item_of_key(struct gateway_pool *g, const void *key, size_t len)
{
	struct item *x;

	LIST_FOREACH(x, &g->by_key[key_bucket(key, len)], by_key) {
		if (x->key_len == len && memcmp(x->key, key, len) == 0)
			return x;
	}
	return NULL;
}

static struct item *item_of_handle(struct gateway_pool *g, uint64_t handle)
{
	struct item *x;

	LIST_FOREACH(x, &g->by_handle[handle % BUCKETS], by_handle) {
		if (x->object.handle == handle)
			return x;
	}
	return NULL;
}

static struct item *item_of_id(struct gateway_pool *g, uint32_t id)
{
	struct item *x;

	LIST_FOREACH(x, &g->by_id[id % BUCKETS], by_id) {
		if (x->id == id)
			return x;
	}
	return NULL;
}

static struct item *item_add(struct gateway_pool *g, const void *key, size_t len,
	enum item_state state)
{
	struct item *x = len <= STRAIT_KEY_MAX ? calloc(1, sizeof(*x) + len) : NULL;

	if (x == NULL)
		return NULL;
	x->state = state;
	x->id = g->next_id++;
	x->key_len = (uint16_t)len;
	memcpy(x->key, key, len);
	LIST_INSERT_HEAD(&g->by_key[key_bucket(key, len)], x, by_key);
	LIST_INSERT_HEAD(&g->by_id[x->id % BUCKETS], x, by_id);
	if (state == ITEM_ASK || state == ITEM_TELL)
		TAILQ_INSERT_TAIL(&g->queue, x, queued);
	g->asked += state == ITEM_ASK;
	return x;
}

static void item_hold(struct gateway_pool *g, struct item *x, const struct pool_object *object)
{
	x->object = *object;
	LIST_INSERT_HEAD(&g->by_handle[object->handle % BUCKETS], x, by_handle);
}

/* What the pool gave for it is the caller's to give back. */
static void item_del(struct gateway_pool *g, struct item *x)
{
	if (x->state == ITEM_ASK || x->state == ITEM_TELL || x->check == CHECK_DUE)
		TAILQ_REMOVE(&g->queue, x, queued);
	if (x->state == ITEM_ASK || x->state == ITEM_ASKED)
		g->asked--;
	if (x->object.handle != 0)
		LIST_REMOVE(x, by_handle);
	LIST_REMOVE(x, by_key);
	LIST_REMOVE(x, by_id);
	free(x);
}

static void item_queue(struct gateway_pool *g, struct item *x, enum item_state state)
{
	x->state = state;
	TAILQ_INSERT_TAIL(&g->queue, x, queued);
}

/* The lease ends and the object goes. A failed removal leaves it to eviction or the next start. */
static void item_drop(struct gateway_pool *g, struct item *x)
{
	pool_release(g->inner, x->object.handle);
	(void)pool_remove(g->inner, x->key, x->key_len);
	if (x->state == ITEM_STAGED) {
		g->totals.held_bytes -= x->object.len;
	} else {
		g->totals.waiting--;
		g->totals.waiting_bytes -= x->object.len;
	}
	item_del(g, x);
}

/* It is visible in the inner pool: hold it until the gateway has it. */
static int item_arrived(struct gateway_pool *g, struct item *x)
{
	struct pool_object object;
	int rc = pool_lease(g->inner, x->key, x->key_len, &object);

	if (rc < 0)
		return rc;
	item_hold(g, x, &object);
	item_queue(g, x, ITEM_TELL);
	g->totals.waiting++;
	g->totals.waiting_bytes += object.len;
	return 0;
}

/* ---- operations of pool.h ---------------------------------------------------------------- */

static int stage(struct gateway_pool *g, const void *key, size_t len)
{
	if (g->totals.held_bytes >= g->stage_bytes)
		return -ENOSPC;
	if (g->asked >= GATEWAY_OUTSTANDING)
		return -EAGAIN;
	if (item_add(g, key, len, ITEM_ASK) == NULL)
		return -ENOMEM;
	return -EINPROGRESS;
}

static int op_lease(struct pool *pool, const void *key, size_t len, struct pool_object *out)
{
	struct gateway_pool *g = self_of(pool);
	struct item *x;
	int rc;

	if (key == NULL || len == 0 || len > STRAIT_KEY_MAX)
		return -EINVAL;
	x = item_of_key(g, key, len);
	if (x == NULL)
		return stage(g, key, len);
	switch (x->state) {
	case ITEM_STAGED:
		x->refs++;
		*out = x->object;
		out->staged = g->stage_bytes / STAGE_PARTS + 1;
		return 0;
	case ITEM_FAILED:
		rc = x->error;
		item_del(g, x);
		return rc;
	case ITEM_TELL:
	case ITEM_TOLD: /* brought here and not in the store yet: the bytes are verified */
		return pool_lease(g->inner, key, len, out);
	default:
		return -EINPROGRESS;
	}
}

static void op_release(struct pool *pool, uint64_t handle)
{
	struct gateway_pool *g = self_of(pool);
	struct item *x = item_of_handle(g, handle);

	if (x == NULL || x->state != ITEM_STAGED) {
		pool_release(g->inner, handle);
		return;
	}
	if (x->refs > 0)
		x->refs--;
	if (x->refs == 0)
		item_drop(g, x);
}

static int op_confirm(struct pool *pool, uint64_t handle, uint64_t now_ns)
{
	struct gateway_pool *g = self_of(pool);
	struct item *x = item_of_handle(g, handle);

	if (x == NULL || x->state != ITEM_STAGED)
		return 0;
	if (x->error != 0)
		return x->error;
	if (now_ns < x->since_ns + GATEWAY_SURE_NS)
		return 0;
	if (x->check == CHECK_NONE) {
		x->check = CHECK_DUE;
		TAILQ_INSERT_TAIL(&g->queue, x, queued);
	}
	return -EINPROGRESS;
}

static int op_renew(struct pool *pool)
{
	return pool_renew(self_of(pool)->inner);
}

static int op_reserve(struct pool *pool, const void *key, size_t key_len, uint64_t len,
	uint64_t digest, struct pool_object *out)
{
	struct gateway_pool *g = self_of(pool);
	int rc = pool_reserve(g->inner, key, key_len, len, digest, out);
	struct item *x;

	if (rc < 0)
		return rc;
	x = item_of_key(g, key, key_len);
	if (x != NULL && x->state == ITEM_FAILED) {
		item_del(g, x);
		x = NULL;
	}
	if (x != NULL) { /* being staged: the store has it, or had */
		pool_abandon(g->inner, out->handle, false);
		return x->state == ITEM_STAGED ? -EEXIST : -EBUSY;
	}
	x = item_add(g, key, key_len, ITEM_RESERVED);
	if (x == NULL) {
		pool_abandon(g->inner, out->handle, false);
		return -ENOMEM;
	}
	item_hold(g, x, out);
	return 0;
}

static int op_publish(struct pool *pool, uint64_t handle, uint64_t digest)
{
	struct gateway_pool *g = self_of(pool);
	struct item *x = item_of_handle(g, handle);
	int rc;

	if (x == NULL || x->state != ITEM_RESERVED)
		return -ESTALE;
	rc = pool_publish(g->inner, handle, digest);
	if (rc < 0)
		return rc;
	LIST_REMOVE(x, by_handle);
	x->object.handle = 0;
	rc = item_arrived(g, x);
	if (rc < 0) /* evicted in between, or no lock: it is lost, and said so */
		item_del(g, x);
	return rc;
}

static void op_abandon(struct pool *pool, uint64_t handle, bool keep)
{
	struct gateway_pool *g = self_of(pool);
	struct item *x = item_of_handle(g, handle);

	pool_abandon(g->inner, handle, keep);
	if (x != NULL && x->state == ITEM_RESERVED)
		item_del(g, x);
}

static int op_exist(struct pool *pool, const void *key, size_t len)
{
	return pool_exist(self_of(pool)->inner, key, len);
}

static int op_remove(struct pool *pool, const void *key, size_t len)
{
	return pool_remove(self_of(pool)->inner, key, len);
}

static int op_stats(struct pool *pool, struct strait_pool_stats *out)
{
	return pool_stats(self_of(pool)->inner, out);
}

static int op_check(struct pool *pool, char *err, size_t err_len)
{
	return pool_check(self_of(pool)->inner, err, err_len);
}

/* Leases end with the inner pool, which stays: what arrived is found by the next one. */
static void op_destroy(struct pool *pool)
{
	struct gateway_pool *g = self_of(pool);

	for (uint32_t i = 0; i < BUCKETS; i++) {
		struct item *x;

		while ((x = LIST_FIRST(&g->by_key[i])) != NULL) {
			if (x->state == ITEM_STAGED)
				item_drop(g, x);
			else if (x->state == ITEM_TELL || x->state == ITEM_TOLD) {
				pool_release(g->inner, x->object.handle);
				item_del(g, x);
			} else {
				item_del(g, x);
			}
		}
	}
	free(g);
}

static const struct pool_ops gateway_pool_ops = {
	.destroy = op_destroy,
	.lease = op_lease,
	.release = op_release,
	.confirm = op_confirm,
	.renew = op_renew,
	.reserve = op_reserve,
	.publish = op_publish,
	.abandon = op_abandon,
	.exist = op_exist,
	.remove = op_remove,
	.stats = op_stats,
	.check = op_check,
};

/* ---- start ------------------------------------------------------------------------------- */

/* What the file holds from before: arrived goes on, staged was for orders that are gone. */
static void found(const struct shm_change *c, void *ctx)
{
	struct gateway_pool *g = ctx;
	struct item *x;

	if (!c->visible)
		return;
	if (!c->ours) {
		(void)pool_remove(g->inner, c->key, c->key_len);
		return;
	}
	if (item_of_key(g, c->key, c->key_len) != NULL)
		return;
	x = item_add(g, c->key, c->key_len, ITEM_RESERVED);
	if (x != NULL && item_arrived(g, x) < 0)
		item_del(g, x);
}

struct pool *gateway_pool_create(struct pool *inner, struct shm *file, const char *tenant,
	uint64_t stage_bytes)
{
	struct gateway_pool *g = calloc(1, sizeof(*g) + strlen(tenant) + 1);
	uint32_t entry = 0;
	int rc;

	if (g == NULL)
		return NULL;
	g->pool.ops = &gateway_pool_ops;
	g->inner = inner;
	g->stage_bytes = stage_bytes;
	g->next_id = 1;
	strcpy(g->tenant, tenant);
	TAILQ_INIT(&g->queue);
	do {
		rc = shm_change_scan(file, &entry, found, g);
	} while (rc > 0);
	if (rc < 0) {
		op_destroy(&g->pool);
		errno = -rc;
		return NULL;
	}
	return &g->pool;
}

/* ---- frames ------------------------------------------------------------------------------ */

static size_t frame_encode(uint8_t *buf, uint8_t type, uint32_t id, const struct pool_object *o,
	const void *key, size_t key_len)
{
	uint16_t key_le = htole16((uint16_t)key_len);
	uint32_t id_le = htole32(id);
	uint64_t length = htole64(o != NULL ? o->len : 0), digest = htole64(o ? o->digest : 0);

	buf[0] = type;
	buf[1] = GATEWAY_OK;
	memcpy(buf + 2, &key_le, 2);
	memcpy(buf + 4, &id_le, 4);
	memcpy(buf + 8, &length, 8);
	memcpy(buf + 16, &digest, 8);
	memcpy(buf + GATEWAY_HEADER_BYTES, key, key_len);
	return GATEWAY_HEADER_BYTES + key_len;
}

static int frame_decode(const uint8_t *buf, size_t len, struct gateway_frame *f)
{
	if (len < GATEWAY_HEADER_BYTES)
		return -EPROTO;
	f->type = buf[0];
	f->status = buf[1];
	memcpy(&f->key_len, buf + 2, 2);
	memcpy(&f->id, buf + 4, 4);
	memcpy(&f->length, buf + 8, 8);
	memcpy(&f->digest, buf + 16, 8);
	f->key_len = le16toh(f->key_len);
	f->id = le32toh(f->id);
	f->length = le64toh(f->length);
	f->digest = le64toh(f->digest);
	f->key = buf + GATEWAY_HEADER_BYTES;
	return len == GATEWAY_HEADER_BYTES + (size_t)f->key_len ? 0 : -EPROTO;
}

void gateway_pool_connected(struct pool *pool, bool yes)
{
	struct gateway_pool *g = self_of(pool);

	g->connected = yes;
	for (uint32_t i = 0; i < BUCKETS && !yes; i++) {
		struct item *x;

		LIST_FOREACH(x, &g->by_key[i], by_key) {
			if (x->state == ITEM_ASKED) {
				item_queue(g, x, ITEM_ASK);
			} else if (x->state == ITEM_TOLD) {
				item_queue(g, x, ITEM_TELL);
			} else if (x->check == CHECK_SENT) {
				x->check = CHECK_DUE;
				TAILQ_INSERT_TAIL(&g->queue, x, queued);
			}
		}
	}
}

size_t gateway_pool_output(struct pool *pool, uint8_t buf[static GATEWAY_FRAME_MAX])
{
	struct gateway_pool *g = self_of(pool);
	struct item *x = TAILQ_FIRST(&g->queue);
	uint8_t type;

	if (!g->connected || x == NULL)
		return 0;
	TAILQ_REMOVE(&g->queue, x, queued);
	switch (x->state) {
	case ITEM_ASK:
		type = GATEWAY_STAGE;
		x->state = ITEM_ASKED;
		break;
	case ITEM_TELL:
		type = GATEWAY_ARRIVED;
		x->state = ITEM_TOLD;
		break;
	default:
		type = GATEWAY_CHECK;
		x->check = CHECK_SENT;
	}
	return frame_encode(buf, type, x->id, &x->object, x->key, x->key_len);
}

static void staged(struct gateway_pool *g, struct item *x, uint8_t status)
{
	static const int errors[] = {
		[GATEWAY_NOT_FOUND] = -ENOENT,
		[GATEWAY_GONE] = -ESTALE,
		[GATEWAY_NO_ROOM] = -ENOSPC,
		[GATEWAY_TOO_LARGE] = -EFBIG,
	};
	struct pool_object object;
	int rc = 0;

	g->asked--;
	x->state = ITEM_FAILED;
	x->since_ns = g->now_ns;
	if (status != GATEWAY_OK) {
		rc = status < sizeof(errors) / sizeof(errors[0]) ? errors[status] : 0;
		x->error = rc != 0 ? rc : -EIO;
		g->totals.failed += rc != -ENOSPC;
		return;
	}
	rc = pool_lease(g->inner, x->key, x->key_len, &object);
	if (rc == -ENOENT && ++x->tries < GATEWAY_RETRIES) {
		g->asked++;
		item_queue(g, x, ITEM_ASK);
		return;
	}
	if (rc < 0) {
		x->error = rc == -ENOENT ? -ESTALE : rc;
		g->totals.failed++;
		return;
	}
	x->state = ITEM_STAGED;
	item_hold(g, x, &object);
	g->totals.staged++;
	g->totals.staged_bytes += object.len;
	g->totals.held_bytes += object.len;
}

static void taken(struct gateway_pool *g, struct item *x, uint8_t status)
{
	if (status == GATEWAY_CORRUPT)
		g->totals.corrupt++;
	else if (status == GATEWAY_EXISTS)
		g->totals.existed++;
	else
		g->totals.taken++;
	if (status == GATEWAY_OK)
		g->totals.taken_bytes += x->object.len;
	item_drop(g, x);
}

int gateway_pool_input(struct pool *pool, const uint8_t *buf, size_t len, uint64_t now_ns)
{
	struct gateway_pool *g = self_of(pool);
	struct gateway_frame f;
	struct item *x;

	if (frame_decode(buf, len, &f) < 0)
		return -EPROTO;
	g->now_ns = now_ns;
	x = item_of_id(g, f.id);
	if (f.type == GATEWAY_STAGED && x != NULL && x->state == ITEM_ASKED) {
		staged(g, x, f.status);
		return 0;
	}
	if (f.type == GATEWAY_TAKEN && x != NULL && x->state == ITEM_TOLD) {
		taken(g, x, f.status);
		return 0;
	}
	if (f.type == GATEWAY_CHECKED && x != NULL && x->check == CHECK_SENT) {
		x->check = CHECK_NONE;
		x->since_ns = now_ns;
		x->error = f.status == GATEWAY_OK ? 0 : -ESTALE;
		g->totals.stale += x->error != 0;
		return 0;
	}
	/* Of an item that is gone: an answer that crossed with our loss of interest. */
	return x == NULL && f.type >= GATEWAY_STAGED && f.type <= GATEWAY_CHECKED ? 0 : -EPROTO;
}

void gateway_pool_tick(struct pool *pool, uint64_t now_ns)
{
	struct gateway_pool *g = self_of(pool);
	struct item *x, *next;

	for (uint32_t i = 0; i < BUCKETS; i++) {
		for (x = LIST_FIRST(&g->by_key[i]); x != NULL; x = next) {
			next = LIST_NEXT(x, by_key);
			if (x->state != ITEM_FAILED && (x->state != ITEM_STAGED || x->refs > 0))
				continue;
			if (now_ns < x->since_ns + GATEWAY_UNUSED_NS)
				continue;
			if (x->state == ITEM_STAGED)
				item_drop(g, x);
			else
				item_del(g, x);
		}
	}
}

void gateway_pool_totals(const struct pool *pool, struct gateway_totals *out)
{
	*out = ((const struct gateway_pool *)pool)->totals;
}
