/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/orderbook_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Open orders: objects that come after the order, a layer or a chunk at a time, as an engine makes
 * them. Each append is written before it is answered, like a submission, and numbered by the
 * client, so that one whose answer was lost can be sent again.
 */

const char *order_opened_name(enum order_opened s)
{
	static const char *const names[ORDER_OPENED_COUNT] = { "closed", "open", "sealed",
		"expired", "ended" };

	return s < ORDER_OPENED_COUNT ? names[s] : "unknown";
}

void orderbook_set_open_idle(struct orderbook *b, uint64_t ms)
{
	b->open_idle_ms = ms;
}

void order_append_range(const struct order *o, uint32_t n, uint32_t *first, uint32_t *end)
{
	*first = o->append_first[n];
	*end = n < o->appends ? o->append_first[n + 1] : o->count;
}

static bool is_same(const struct order_object *obj, const struct orderbook_key *k)
{
	return obj->tenant_len == k->tenant_len && obj->key_len == k->key_len &&
		memcmp(obj->name + obj->tenant_len, k->key, k->key_len) == 0 &&
		(k->tenant_len == 0 || memcmp(obj->name, k->tenant, k->tenant_len) == 0);
}

/* An append that is here already. */
static int append_again(const struct order *o, uint32_t number, const struct orderbook_key *keys,
	size_t count, char *err, size_t err_len)
{
	uint32_t first, end;
	bool same;

	order_append_range(o, number, &first, &end);
	same = count == end - first;
	for (size_t i = 0; same && i < count; i++)
		same = is_same(&o->objects[first + i], &keys[i]);
	if (same)
		return 0;
	snprintf(err, err_len,
		"append %u of order %" PRIu64 " had other objects: the next one is %u", number,
		o->id, o->appends + 1);
	return -EEXIST;
}

static int check_append(const struct order *o, uint32_t number, size_t count, uint64_t now_ms,
	char *err, size_t err_len)
{
	if (o->opened == ORDER_CLOSED) {
		snprintf(err, err_len,
			"order %" PRIu64 " was not submitted as open: submit another one", o->id);
		return -ESHUTDOWN;
	}
	if (o->opened != ORDER_OPEN || (o->deadline_ms != 0 && now_ms >= o->deadline_ms)) {
		snprintf(err, err_len,
			"order %" PRIu64 " takes no more objects, it is %s: submit another one",
			o->id,
			o->opened == ORDER_OPEN ? "past its deadline"
						: order_opened_name(o->opened));
		return -ESHUTDOWN;
	}
	if (number != 0 && number != o->appends + 1) {
		snprintf(err, err_len, "append %u is not the next one of order %" PRIu64 ": %u is",
			number, o->id, o->appends + 1);
		return -ERANGE;
	}
	if (count > ORDERBOOK_OBJECTS_MAX - o->count) {
		snprintf(err, err_len,
			"order %" PRIu64 " has %u objects and may have %d: submit another one",
			o->id, o->count, ORDERBOOK_OBJECTS_MAX);
		return -E2BIG;
	}
	return 0;
}

int orderbook_append(struct orderbook *b, uint64_t id, uint32_t number,
	const struct orderbook_key *keys, size_t count, uint64_t now_ms, uint32_t *taken, char *err,
	size_t err_len)
{
	struct order *o = orderbook_find(b, id);
	uint32_t first;
	int rc;

	if (o == NULL) {
		snprintf(err, err_len, "order %" PRIu64 " is finished or was never there", id);
		return -ENOENT;
	}
	*taken = number;
	if (number != 0 && o->append_first != NULL && number <= o->appends)
		return append_again(o, number, keys, count, err, err_len);
	rc = orderbook_check_keys(keys, count, err, err_len);
	if (rc == 0)
		rc = check_append(o, number, count, now_ms, err, err_len);
	if (rc != 0)
		return rc;
	first = o->count;
	o->appends++;
	rc = order_note_append(o, first);
	if (rc == 0)
		rc = order_extend(o, keys, count);
	if (rc == 0) {
		rc = order_join(b, o, first, now_ms, err, err_len);
		if (rc != 0) {
			struct order_names *names = o->names;

			o->names = names->next;
			free(names);
			o->count = first;
			o->pending -= (uint32_t)count;
		}
	} else {
		snprintf(err, err_len, "out of memory");
	}
	if (rc != 0) {
		o->appends--;
		return rc;
	}
	o->appended_ms = now_ms;
	for (uint32_t i = o->count; i-- > first;) /* so that the list has them in order */
		object_mark_dirty(b, &o->objects[i]);
	order_mark_dirty(b, o);
	*taken = o->appends;
	return 0;
}

void order_close(struct orderbook *b, struct order *o, enum order_opened how)
{
	o->opened = (uint8_t)how;
	b->open_count--;
	order_mark_dirty(b, o);
}

int orderbook_seal(struct orderbook *b, uint64_t id, uint64_t now_ms)
{
	struct order *o = orderbook_find(b, id);

	if (o == NULL)
		return -ENOENT;
	if (o->opened != ORDER_OPEN)
		return 0;
	order_close(b, o, ORDER_SEALED);
	order_settle(b, o, now_ms);
	return 0;
}

void orderbook_expire(struct orderbook *b, struct order *o, uint64_t now_ms)
{
	/* A clock that stepped back starts it anew. */
	if (now_ms < o->appended_ms)
		o->appended_ms = now_ms;
	if (now_ms - o->appended_ms < b->open_idle_ms)
		return;
	order_close(b, o, ORDER_EXPIRED);
	snprintf(o->text, sizeof(o->text), "sealed because nothing was appended for %g s",
		(double)b->open_idle_ms / 1000);
	order_settle(b, o, now_ms);
}
