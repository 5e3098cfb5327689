/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/ledger_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the objects table has of one order. */
struct loaded {
	struct orderbook_key *keys;
	struct order_object *values; /* only the columns */
	uint8_t *bytes;
	size_t count, room, nbytes, bytes_room;
};

static void loaded_free(struct loaded *in)
{
	free(in->keys);
	free(in->values);
	free(in->bytes);
}

static int grow(void **array, size_t *room, size_t need, size_t size)
{
	size_t bigger = *room * 2 + 64;
	void *p;

	if (need <= *room)
		return 0;
	if (bigger < need)
		bigger = need;
	p = realloc(*array, bigger * size);
	if (p == NULL)
		return -ENOMEM;
	*array = p;
	*room = bigger;
	return 0;
}

/* The blob of a column goes to the end of in->bytes. */
static int take_blob(struct loaded *in, sqlite3_stmt *s, int column, size_t *len)
{
	const void *blob = sqlite3_column_blob(s, column);

	*len = (size_t)sqlite3_column_bytes(s, column);
	if (grow((void **)&in->bytes, &in->bytes_room, in->nbytes + *len, 1) != 0)
		return -ENOMEM;
	if (*len > 0)
		memcpy(in->bytes + in->nbytes, blob, *len);
	in->nbytes += *len;
	return 0;
}

static int take_object(struct loaded *in, sqlite3_stmt *s)
{
	size_t room = in->room;
	struct orderbook_key *k;
	struct order_object *v;

	if (grow((void **)&in->keys, &room, in->count + 1, sizeof(*in->keys)) != 0)
		return -ENOMEM;
	if (grow((void **)&in->values, &in->room, in->count + 1, sizeof(*in->values)) != 0)
		return -ENOMEM;
	k = &in->keys[in->count];
	v = &in->values[in->count];
	if (take_blob(in, s, 5, &k->tenant_len) != 0 || take_blob(in, s, 6, &k->key_len) != 0)
		return -ENOMEM;
	v->status = (uint8_t)sqlite3_column_int(s, 1);
	v->attempts = (uint16_t)sqlite3_column_int(s, 2);
	v->last_shipment = (uint32_t)sqlite3_column_int64(s, 3);
	v->length = (uint64_t)sqlite3_column_int64(s, 4);
	in->count++;
	return 0;
}

static int load_objects(struct ledger *l, uint64_t id, struct loaded *in)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_RESTORE_OBJECTS);
	size_t at = 0;
	int rc;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
	while ((rc = ledger_row(l, s)) > 0) {
		rc = take_object(in, s);
		if (rc != 0)
			break;
	}
	sqlite3_reset(s);
	/* the array may have moved while it grew */
	for (size_t i = 0; i < in->count; i++) {
		in->keys[i].tenant = in->bytes + at;
		in->keys[i].key = in->bytes + at + in->keys[i].tenant_len;
		at += in->keys[i].tenant_len + in->keys[i].key_len;
	}
	return rc;
}

static int load_shipments(struct ledger *l, struct orderbook *b, struct order *o)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_RESTORE_SHIPMENTS);
	int rc;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)o->id);
	while ((rc = ledger_row(l, s)) > 0) {
		const void *blob = sqlite3_column_blob(s, 3);
		size_t bytes = (size_t)sqlite3_column_bytes(s, 3);
		uint32_t *members = malloc(bytes + 1);

		if (members == NULL) {
			rc = -ENOMEM;
			break;
		}
		if (bytes > 0)
			memcpy(members, blob, bytes);
		rc = orderbook_restore_shipment(b, o, (uint32_t)sqlite3_column_int64(s, 0),
			ledger_text(s, 1), ledger_text(s, 2), members,
			(uint32_t)(bytes / sizeof(*members)));
		free(members);
		if (rc != 0)
			break;
	}
	sqlite3_reset(s);
	return rc;
}

static int load_appends(struct ledger *l, struct order *o)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_APPENDS);
	int rc;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)o->id);
	while ((rc = ledger_row(l, s)) > 0) {
		rc = orderbook_restore_append(o, (uint32_t)sqlite3_column_int64(s, 0),
			(uint32_t)sqlite3_column_int64(s, 1));
		if (rc != 0)
			break;
	}
	sqlite3_reset(s);
	return rc;
}

static int load_order(struct ledger *l, struct orderbook *b, sqlite3_stmt *row, char *err,
	size_t err_len)
{
	uint64_t id = (uint64_t)sqlite3_column_int64(row, 0);
	struct orderbook_spec spec = {
		.from_site = ledger_text(row, 2),
		.to_site = ledger_text(row, 3),
		.class = (unsigned int)sqlite3_column_int(row, 4),
		.deadline_ms = (uint64_t)sqlite3_column_int64(row, 5),
		.idempotency = ledger_text(row, 11),
		.open = sqlite3_column_int(row, 12) != ORDER_CLOSED,
	};
	struct loaded in = { 0 };
	struct order *o = NULL;
	int rc;

	rc = load_objects(l, id, &in);
	if (rc == 0 && in.count != (size_t)sqlite3_column_int64(row, 7)) {
		snprintf(err, err_len, "has %zu objects where %lld should be", in.count,
			(long long)sqlite3_column_int64(row, 7));
		rc = -EIO;
	}
	if (rc == 0) {
		spec.keys = in.keys;
		spec.count = in.count;
		o = orderbook_restore(b, id, &spec, err, err_len);
		rc = o != NULL ? 0 : -errno;
	}
	for (size_t i = 0; rc == 0 && i < in.count; i++) {
		o->objects[i].status = in.values[i].status;
		o->objects[i].attempts = in.values[i].attempts;
		o->objects[i].last_shipment = in.values[i].last_shipment;
		o->objects[i].length = in.values[i].length;
	}
	if (rc == 0) {
		o->state =
			sqlite3_column_int(row, 1) == ORDER_QUEUED ? ORDER_QUEUED : ORDER_RUNNING;
		o->created_ms = (uint64_t)sqlite3_column_int64(row, 6);
		o->next_attempt = (uint32_t)sqlite3_column_int64(row, 8);
		o->canceled = sqlite3_column_int(row, 9) != 0;
		o->way = (uint8_t)sqlite3_column_int(row, 13);
		snprintf(o->text, sizeof(o->text), "%s", ledger_text(row, 10));
		if (spec.open)
			rc = load_appends(l, o);
		if (rc == 0 && sqlite3_column_int(row, 12) != ORDER_OPEN && spec.open)
			orderbook_restore_closed(b, o,
				(enum order_opened)sqlite3_column_int(row, 12));
		if (rc == 0)
			rc = load_shipments(l, b, o);
	}
	loaded_free(&in);
	return rc;
}

int ledger_restore(struct ledger *l, struct orderbook *b, uint64_t now_ms, char *err,
	size_t err_len)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_RESTORE_ORDERS);
	char why[160] = "";
	int rc;

	while ((rc = ledger_row(l, s)) > 0) {
		uint64_t id = (uint64_t)sqlite3_column_int64(s, 0);

		rc = load_order(l, b, s, why, sizeof(why));
		if (rc != 0) {
			sqlite3_reset(s);
			snprintf(err, err_len, "order %llu: %s", (unsigned long long)id,
				why[0] != '\0'       ? why
					: rc == -EIO ? ledger_error(l)
						     : strerror(-rc));
			return rc;
		}
	}
	if (rc == 0)
		rc = orderbook_restored(b, now_ms);
	if (rc != 0)
		snprintf(err, err_len, "%s", rc == -EIO ? ledger_error(l) : strerror(-rc));
	return rc;
}
