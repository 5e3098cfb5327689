/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/ledger_private.h"

#include <strait/status.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PRUNE_BATCH = 16 };

static void bind_text(sqlite3_stmt *s, int at, const char *text)
{
	sqlite3_bind_text(s, at, text != NULL ? text : "", -1, SQLITE_STATIC);
}

int ledger_site_put(struct ledger *l, const struct ledger_site *site)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_SITE_PUT);

	bind_text(s, 1, site->name);
	bind_text(s, 2, site->label);
	sqlite3_bind_int64(s, 3, (sqlite3_int64)site->cap_bps);
	return ledger_run(l, s);
}

int ledger_site_del(struct ledger *l, const char *name)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_SITE_DEL);
	int rc;

	bind_text(s, 1, name);
	rc = ledger_run(l, s);
	return rc == 0 && sqlite3_changes(l->db) == 0 ? -ENOENT : rc;
}

int ledger_sites(struct ledger *l, void (*cb)(const struct ledger_site *s, void *ctx), void *ctx)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_SITES);
	int rc;

	while ((rc = ledger_row(l, s)) > 0) {
		struct ledger_site site = { ledger_text(s, 0), ledger_text(s, 1),
			(uint64_t)sqlite3_column_int64(s, 2) };

		cb(&site, ctx);
	}
	return rc;
}

/*
 * Reading a database in WAL mode leaves its log behind, of whoever reads: where there is no log, no
 * master has the file open, and it is read as one that does not change.
 */
static int peek_uri(const char *path, char *uri, size_t len)
{
	size_t n = (size_t)snprintf(uri, len, "%s-wal", path);
	bool logged = n < len && access(uri, F_OK) == 0;

	n = (size_t)snprintf(uri, len, "file:");
	for (; *path != '\0' && n + 4 < len; path++)
		n += (size_t)snprintf(uri + n, len - n,
			strchr("?#%", *path) != NULL ? "%%%02x" : "%c", (unsigned char)*path);
	if (*path != '\0' || n + sizeof("?immutable=1") > len)
		return -ENAMETOOLONG;
	if (!logged)
		strcpy(uri + n, "?immutable=1");
	return 0;
}

bool ledger_peek_site(const char *path, const char *name, bool label)
{
	sqlite3_stmt *s = NULL;
	sqlite3 *db = NULL;
	char uri[PATH_MAX];
	bool found = false;

	if (peek_uri(path, uri, sizeof(uri)) != 0)
		return false;
	if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) == SQLITE_OK &&
		sqlite3_prepare_v2(db, "SELECT 1 FROM sites WHERE name=?1 OR (?2 AND label=?1)", -1,
			&s, NULL) == SQLITE_OK) {
		bind_text(s, 1, name);
		sqlite3_bind_int(s, 2, label);
		found = sqlite3_step(s) == SQLITE_ROW;
	}
	sqlite3_finalize(s);
	sqlite3_close(db);
	return found;
}

int ledger_edge_put(struct ledger *l, const struct ledger_edge *e)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_EDGE_PUT);

	bind_text(s, 1, e->site);
	bind_text(s, 2, e->name);
	bind_text(s, 3, e->mgmt_address);
	bind_text(s, 4, e->program);
	sqlite3_bind_int64(s, 5, (sqlite3_int64)e->last_seen_ms);
	sqlite3_bind_int(s, 6, (int)e->flags);
	return ledger_run(l, s);
}

int ledger_edges(struct ledger *l, void (*cb)(const struct ledger_edge *e, void *ctx), void *ctx)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_EDGES);
	int rc;

	while ((rc = ledger_row(l, s)) > 0) {
		struct ledger_edge e = { ledger_text(s, 0), ledger_text(s, 1), ledger_text(s, 2),
			ledger_text(s, 3), (uint64_t)sqlite3_column_int64(s, 4),
			(unsigned int)sqlite3_column_int(s, 5) };

		cb(&e, ctx);
	}
	return rc;
}

static void read_order(sqlite3_stmt *s, struct ledger_order *o)
{
	*o = (struct ledger_order){
		.id = (uint64_t)sqlite3_column_int64(s, 0),
		.created_ms = (uint64_t)sqlite3_column_int64(s, 1),
		.finished_ms = (uint64_t)sqlite3_column_int64(s, 2),
		.deadline_ms = (uint64_t)sqlite3_column_int64(s, 3),
		.bytes = (uint64_t)sqlite3_column_int64(s, 4),
		.from_site = ledger_text(s, 5),
		.to_site = ledger_text(s, 6),
		.text = ledger_text(s, 7),
		.class = (unsigned int)sqlite3_column_int(s, 8),
		.state = (unsigned int)sqlite3_column_int(s, 9),
		.objects = (uint32_t)sqlite3_column_int64(s, 10),
		.committed = (uint32_t)sqlite3_column_int64(s, 11),
		.existed = (uint32_t)sqlite3_column_int64(s, 12),
		.failed = (uint32_t)sqlite3_column_int64(s, 13),
		.opened = (unsigned int)sqlite3_column_int(s, 14),
		.appends = (uint32_t)sqlite3_column_int64(s, 15),
		.way = (unsigned int)sqlite3_column_int(s, 16),
	};
}

int ledger_orders(struct ledger *l, uint32_t limit,
	void (*cb)(const struct ledger_order *o, void *ctx), void *ctx)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_ORDERS);
	struct ledger_order o;
	int rc;

	sqlite3_bind_int64(s, 1, limit);
	while ((rc = ledger_row(l, s)) > 0) {
		read_order(s, &o);
		cb(&o, ctx);
	}
	return rc;
}

int ledger_order(struct ledger *l, uint64_t id, void (*cb)(const struct ledger_order *o, void *ctx),
	void *ctx)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_ORDER);
	struct ledger_order o;
	int rc;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
	rc = ledger_row(l, s);
	if (rc > 0) {
		read_order(s, &o);
		cb(&o, ctx);
		sqlite3_reset(s);
		return 0;
	}
	return rc == 0 ? -ENOENT : rc;
}

int ledger_objects(struct ledger *l, uint64_t order,
	void (*cb)(const struct ledger_object *o, void *ctx), void *ctx)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_OBJECTS);
	int rc;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)order);
	while ((rc = ledger_row(l, s)) > 0) {
		struct ledger_object o = {
			.key = sqlite3_column_blob(s, 0),
			.key_len = (size_t)sqlite3_column_bytes(s, 0),
			.tenant = sqlite3_column_blob(s, 1),
			.tenant_len = (size_t)sqlite3_column_bytes(s, 1),
			.status = (unsigned int)sqlite3_column_int(s, 2),
			.length = (uint64_t)sqlite3_column_int64(s, 3),
		};

		cb(&o, ctx);
	}
	return rc;
}

uint64_t ledger_number(struct ledger *l, sqlite3_stmt *s)
{
	uint64_t value = 0;

	if (ledger_row(l, s) > 0)
		value = (uint64_t)sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	return value;
}

int ledger_appends(struct ledger *l, uint64_t order,
	void (*cb)(uint32_t number, uint32_t first, void *ctx), void *ctx)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_APPENDS);
	int rc;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)order);
	while ((rc = ledger_row(l, s)) > 0)
		cb((uint32_t)sqlite3_column_int64(s, 0), (uint32_t)sqlite3_column_int64(s, 1), ctx);
	return rc;
}

uint64_t ledger_carried_bytes(struct ledger *l, uint64_t order)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_CARRIED);

	sqlite3_bind_int64(s, 1, (sqlite3_int64)order);
	sqlite3_bind_int(s, 2, STRAIT_STATUS_COMMITTED);
	return ledger_number(l, s);
}

uint64_t ledger_idempotent(struct ledger *l, const char *key)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_IDEMPOTENT);

	bind_text(s, 1, key);
	return ledger_number(l, s);
}

uint64_t ledger_last_order(struct ledger *l)
{
	return ledger_number(l, ledger_stmt(l, STMT_LAST_ORDER));
}

int ledger_counts(struct ledger *l, uint64_t counts[static ORDER_STATE_COUNT])
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_COUNTS);
	int rc;

	memset(counts, 0, ORDER_STATE_COUNT * sizeof(*counts));
	while ((rc = ledger_row(l, s)) > 0) {
		int state = sqlite3_column_int(s, 0);

		if (state >= 0 && state < ORDER_STATE_COUNT)
			counts[state] = (uint64_t)sqlite3_column_int64(s, 1);
	}
	return rc;
}

static int prune_order(struct ledger *l, uint64_t id)
{
	static const enum ledger_statement steps[] = { STMT_PRUNE_OBJECTS, STMT_PRUNE_APPENDS,
		STMT_PRUNE_SHIPMENTS, STMT_PRUNE_ORDER };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(steps) / sizeof(steps[0]); i++) {
		sqlite3_stmt *s = ledger_stmt(l, steps[i]);

		sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
		rc = ledger_run(l, s);
	}
	return rc;
}

int ledger_prune(struct ledger *l, uint64_t before_ms)
{
	int n = 0, rc = ledger_begin(l);

	if (rc == 0)
		rc = ledger_commits_trim(l, before_ms, LEDGER_COMMITS_MAX);
	while (rc == 0 && n < PRUNE_BATCH) {
		sqlite3_stmt *s = ledger_stmt(l, STMT_PRUNE_ONE);
		uint64_t id;

		sqlite3_bind_int64(s, 1, (sqlite3_int64)before_ms);
		id = ledger_number(l, s);
		if (id == 0)
			break;
		rc = prune_order(l, id);
		n++;
	}
	if (rc == 0)
		rc = ledger_commit(l);
	if (rc != 0) {
		ledger_rollback(l);
		return rc;
	}
	return n;
}
