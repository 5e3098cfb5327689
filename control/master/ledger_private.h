/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/master/ledger.h"

#include <sqlite3.h>

/* Shared by ledger.c (opening, transactions, writing), ledger_restore.c and ledger_query.c. */

/*
 *   X(name, sql)
 */
#define LEDGER_STATEMENTS(X)                                                                       \
	X(BEGIN, "BEGIN IMMEDIATE")                                                                \
	X(COMMIT, "COMMIT")                                                                        \
	X(ROLLBACK, "ROLLBACK")                                                                    \
	X(ORDER_INSERT,                                                                            \
		"INSERT INTO orders(id, state, from_site, to_site, class, "                        \
		"deadline_ms, created_ms, finished_ms, objects, committed, existed, "              \
		"failed, bytes, next_attempt, canceled, text, idempotency, opened, "               \
		"appends, way) VALUES "                                                            \
		"(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20)")        \
	X(ORDER_UPDATE,                                                                            \
		"UPDATE orders SET state=?2, finished_ms=?8, objects=?9, committed=?10, "          \
		"existed=?11, failed=?12, bytes=?13, next_attempt=?14, canceled=?15, "             \
		"text=?16, opened=?18, appends=?19, way=?20 WHERE id=?1")                          \
	X(OBJECT_INSERT,                                                                           \
		"INSERT INTO objects(order_id, idx, status, attempts, shipment, "                  \
		"length, tenant, key) VALUES (?1,?2,?3,?4,?5,?6,?7,?8)")                           \
	X(OBJECT_UPDATE,                                                                           \
		"UPDATE objects SET status=?3, attempts=?4, shipment=?5, length=?6 "               \
		"WHERE order_id=?1 AND idx=?2")                                                    \
	X(SHIPMENT_INSERT,                                                                         \
		"INSERT OR REPLACE INTO shipments(order_id, attempt, from_edge, "                  \
		"to_edge, members) VALUES (?1,?2,?3,?4,?5)")                                       \
	X(SHIPMENT_DELETE, "DELETE FROM shipments WHERE order_id=?1 AND attempt=?2")               \
	X(RESTORE_ORDERS,                                                                          \
		"SELECT id, state, from_site, to_site, class, deadline_ms, "                       \
		"created_ms, objects, next_attempt, canceled, text, idempotency, opened, way "     \
		"FROM orders WHERE state < 2 ORDER BY id")                                         \
	X(RESTORE_OBJECTS,                                                                         \
		"SELECT idx, status, attempts, shipment, length, tenant, key FROM "                \
		"objects WHERE order_id=?1 ORDER BY idx")                                          \
	X(RESTORE_SHIPMENTS,                                                                       \
		"SELECT attempt, from_edge, to_edge, members FROM shipments WHERE "                \
		"order_id=?1 ORDER BY attempt")                                                    \
	X(APPEND_INSERT, "INSERT INTO appends(order_id, number, first) VALUES (?1,?2,?3)")         \
	X(APPENDS, "SELECT number, first FROM appends WHERE order_id=?1 ORDER BY number")          \
	X(SITE_PUT,                                                                                \
		"INSERT INTO sites(name, label, cap_bps) VALUES (?1,?2,?3) ON "                    \
		"CONFLICT(name) DO UPDATE SET label=excluded.label, "                              \
		"cap_bps=excluded.cap_bps")                                                        \
	X(SITE_DEL, "DELETE FROM sites WHERE name=?1")                                             \
	X(SITES, "SELECT name, label, cap_bps FROM sites ORDER BY name")                           \
	X(EDGE_PUT,                                                                                \
		"INSERT INTO edges(site, name, mgmt_address, program, last_seen_ms, flags) "       \
		"VALUES (?1,?2,?3,?4,?5,?6) ON CONFLICT(site, name) DO UPDATE SET "                \
		"mgmt_address=excluded.mgmt_address, program=excluded.program, "                   \
		"last_seen_ms=excluded.last_seen_ms, flags=excluded.flags")                        \
	X(EDGES,                                                                                   \
		"SELECT site, name, mgmt_address, program, last_seen_ms, flags FROM edges "        \
		"ORDER BY site, name")                                                             \
	X(ORDERS,                                                                                  \
		"SELECT id, created_ms, finished_ms, deadline_ms, bytes, from_site, "              \
		"to_site, text, class, state, objects, committed, existed, failed, "               \
		"opened, appends, way "                                                            \
		"FROM orders ORDER BY id DESC LIMIT ?1")                                           \
	X(ORDER,                                                                                   \
		"SELECT id, created_ms, finished_ms, deadline_ms, bytes, from_site, "              \
		"to_site, text, class, state, objects, committed, existed, failed, "               \
		"opened, appends, way "                                                            \
		"FROM orders WHERE id=?1")                                                         \
	X(OBJECTS,                                                                                 \
		"SELECT key, tenant, status, length FROM objects WHERE order_id=?1 "               \
		"ORDER BY idx")                                                                    \
	X(CARRIED,                                                                                 \
		"SELECT coalesce(sum(length), 0) FROM objects WHERE order_id=?1 AND "              \
		"status=?2")                                                                       \
	X(IDEMPOTENT, "SELECT id FROM orders WHERE idempotency=?1")                                \
	X(COUNTS, "SELECT state, count(*) FROM orders GROUP BY state")                             \
	X(LAST_ORDER, "SELECT value FROM meta WHERE name='last_order'")                            \
	X(LAST_ORDER_PUT, "UPDATE meta SET value=max(value, ?1) WHERE name='last_order'")          \
	X(PRUNE_ONE, "SELECT id FROM orders WHERE state >= 2 AND finished_ms < ?1 LIMIT 1")        \
	X(PRUNE_OBJECTS, "DELETE FROM objects WHERE order_id=?1")                                  \
	X(PRUNE_APPENDS, "DELETE FROM appends WHERE order_id=?1")                                  \
	X(PRUNE_SHIPMENTS, "DELETE FROM shipments WHERE order_id=?1")                              \
	X(PRUNE_ORDER, "DELETE FROM orders WHERE id=?1")                                           \
	X(COMMIT_INSERT, "INSERT INTO commits(seq, order_id, idx, at_ms) VALUES (?1,?2,?3,?4)")    \
	X(COMMIT_LAST_PUT, "UPDATE meta SET value=?1 WHERE name='last_commit'")                    \
	X(COMMIT_LAST, "SELECT value FROM meta WHERE name='last_commit'")                          \
	X(COMMIT_EPOCH, "SELECT value FROM meta WHERE name='commit_epoch'")                        \
	X(COMMIT_FIRST, "SELECT coalesce(min(seq), 0) FROM commits")                               \
	X(COMMITS,                                                                                 \
		"SELECT c.seq, c.at_ms, c.order_id, c.idx, o.from_site, o.to_site, o.class, "      \
		"o.state, o.objects, o.committed, o.existed, o.failed, o.bytes, b.status, "        \
		"b.length, b.tenant, b.key FROM commits c "                                        \
		"LEFT JOIN orders o ON o.id=c.order_id "                                           \
		"LEFT JOIN objects b ON b.order_id=c.order_id AND b.idx=c.idx "                    \
		"WHERE c.seq>=?1 ORDER BY c.seq LIMIT ?2")                                         \
	X(COMMITS_OLD, "SELECT seq, at_ms FROM commits ORDER BY seq LIMIT ?1")                     \
	X(COMMITS_TRIM, "DELETE FROM commits WHERE seq < ?1")                                      \
	X(ORDER_IS_OF,                                                                             \
		"SELECT EXISTS(SELECT 1 FROM objects WHERE order_id=?1) AND NOT EXISTS("           \
		"SELECT 1 FROM objects WHERE order_id=?1 AND NOT ((?2 IS NULL OR ?2 = CASE "       \
		"length(tenant) WHEN 0 THEN x'64656661756c74' ELSE tenant END) AND "               \
		"substr(key, 1, length(?3)) = ?3))")

enum ledger_statement {
#define LEDGER_STATEMENT_ENUM(name, sql) STMT_##name,
	LEDGER_STATEMENTS(LEDGER_STATEMENT_ENUM)
#undef LEDGER_STATEMENT_ENUM
		STMT_COUNT
};

struct ledger {
	sqlite3 *db;
	sqlite3_stmt *stmts[STMT_COUNT];
	int lock_fd;
	char error[256];
	uint32_t commit_epoch;
	uint64_t last_commit, durable_commit; /* written in this transaction, and committed */
};

/** A statement, reset and without bindings. */
sqlite3_stmt *ledger_stmt(struct ledger *l, enum ledger_statement which);
/** Run to the end, reset. 0 or -EIO. */
int ledger_run(struct ledger *l, sqlite3_stmt *s);
/** Next row: 1, 0 at the end, -EIO. */
int ledger_row(struct ledger *l, sqlite3_stmt *s);
/** The number of a statement that gives one; 0: none. */
uint64_t ledger_number(struct ledger *l, sqlite3_stmt *s);
/** What is committed of this order from now on; ledger_commits.c. 0 or -EIO. */
int ledger_commit_put(struct ledger *l, const struct order *o, int64_t idx, uint64_t now_ms);
/** Epoch and last seq of the file. */
void ledger_commits_open(struct ledger *l);
/** In a transaction: forget commits of before, and all but the newest `most`. 0 or -EIO. */
int ledger_commits_trim(struct ledger *l, uint64_t before_ms, uint64_t most);
/** Text of a column, never NULL. */
const char *ledger_text(sqlite3_stmt *s, int column);
