/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/ledger_private.h"

#include <errno.h>

enum { TRIM_BATCH = 1 << 16 };

void ledger_commits_open(struct ledger *l)
{
	l->commit_epoch = (uint32_t)ledger_number(l, ledger_stmt(l, STMT_COMMIT_EPOCH));
	l->last_commit = ledger_number(l, ledger_stmt(l, STMT_COMMIT_LAST));
	l->durable_commit = l->last_commit;
}

int ledger_commit_put(struct ledger *l, const struct order *o, int64_t idx, uint64_t now_ms)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_COMMIT_INSERT);
	int rc;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)(l->last_commit + 1));
	sqlite3_bind_int64(s, 2, (sqlite3_int64)o->id);
	sqlite3_bind_int64(s, 3, idx);
	sqlite3_bind_int64(s, 4, (sqlite3_int64)now_ms);
	rc = ledger_run(l, s);
	if (rc == 0)
		l->last_commit++;
	return rc;
}

uint32_t ledger_commit_epoch(const struct ledger *l)
{
	return l->commit_epoch;
}

uint64_t ledger_commit_next(const struct ledger *l)
{
	return l->durable_commit + 1;
}

uint64_t ledger_commit_first(struct ledger *l)
{
	uint64_t first = ledger_number(l, ledger_stmt(l, STMT_COMMIT_FIRST));

	return first > 0 ? first : ledger_commit_next(l);
}

static void read_commit(sqlite3_stmt *s, struct ledger_commit *c)
{
	*c = (struct ledger_commit){
		.seq = (uint64_t)sqlite3_column_int64(s, 0),
		.at_ms = (uint64_t)sqlite3_column_int64(s, 1),
		.order = (uint64_t)sqlite3_column_int64(s, 2),
		.ended = sqlite3_column_int64(s, 3) < 0,
		.from_site = ledger_text(s, 4),
		.to_site = ledger_text(s, 5),
		.class = (unsigned int)sqlite3_column_int(s, 6),
		.state = (unsigned int)sqlite3_column_int(s, 7),
		.objects = (uint32_t)sqlite3_column_int64(s, 8),
		.committed = (uint32_t)sqlite3_column_int64(s, 9),
		.existed = (uint32_t)sqlite3_column_int64(s, 10),
		.failed = (uint32_t)sqlite3_column_int64(s, 11),
		.bytes = (uint64_t)sqlite3_column_int64(s, 12),
	};
	if (c->ended)
		return;
	c->object.status = (unsigned int)sqlite3_column_int(s, 13);
	c->object.length = (uint64_t)sqlite3_column_int64(s, 14);
	c->object.tenant = sqlite3_column_blob(s, 15);
	c->object.tenant_len = (size_t)sqlite3_column_bytes(s, 15);
	c->object.key = sqlite3_column_blob(s, 16);
	c->object.key_len = (size_t)sqlite3_column_bytes(s, 16);
}

int ledger_commits(struct ledger *l, uint64_t seq, uint32_t n,
	bool (*cb)(const struct ledger_commit *c, void *ctx), void *ctx)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_COMMITS);
	int taken = 0, rc;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)seq);
	sqlite3_bind_int64(s, 2, n);
	while ((rc = ledger_row(l, s)) > 0) {
		struct ledger_commit c;

		read_commit(s, &c);
		/* trimmed before the reader came to it, or its order went just before it */
		if (c.seq != seq || sqlite3_column_type(s, 4) == SQLITE_NULL) {
			rc = taken > 0 ? 0 : -ESTALE;
			break;
		}
		if (!cb(&c, ctx)) {
			rc = 0;
			break;
		}
		taken++;
		seq++;
	}
	sqlite3_reset(s);
	if (rc == 0 && taken == 0 && n > 0 && seq < ledger_commit_first(l))
		rc = -ESTALE;
	return rc < 0 ? rc : taken;
}

bool ledger_order_is_of(struct ledger *l, uint64_t order, const void *tenant, size_t tenant_len,
	const void *prefix, size_t prefix_len)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_ORDER_IS_OF);
	bool is = false;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)order);
	if (tenant_len > 0)
		sqlite3_bind_blob(s, 2, tenant, (int)tenant_len, SQLITE_STATIC);
	sqlite3_bind_blob(s, 3, prefix_len > 0 ? prefix : "", (int)prefix_len, SQLITE_STATIC);
	if (ledger_row(l, s) > 0)
		is = sqlite3_column_int(s, 0) != 0;
	sqlite3_reset(s);
	return is;
}

/* From the oldest on, so that it costs what is forgotten; a clock that went back forgets later. */
int ledger_commits_trim(struct ledger *l, uint64_t before_ms, uint64_t most)
{
	sqlite3_stmt *s = ledger_stmt(l, STMT_COMMITS_OLD);
	uint64_t keep = l->last_commit > most ? l->last_commit - most + 1 : 1;
	uint64_t floor = 0;
	int rc;

	sqlite3_bind_int64(s, 1, TRIM_BATCH);
	while ((rc = ledger_row(l, s)) > 0) {
		uint64_t seq = (uint64_t)sqlite3_column_int64(s, 0);

		if (seq >= keep && (uint64_t)sqlite3_column_int64(s, 1) >= before_ms)
			break;
		floor = seq + 1;
	}
	sqlite3_reset(s);
	if (rc < 0 || floor == 0)
		return rc < 0 ? rc : 0;
	s = ledger_stmt(l, STMT_COMMITS_TRIM);
	sqlite3_bind_int64(s, 1, (sqlite3_int64)floor);
	return ledger_run(l, s);
}
