/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/ledger.h"

#include "control/master/ledger_private.h"

#include <strait/status.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { SCHEMA_VERSION = 5, BUSY_MS = 2000 };

static const char schema_sql[] =
	"CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
	"INSERT INTO meta VALUES ('term', 0), ('last_order', 0);"

	"CREATE TABLE sites(name TEXT PRIMARY KEY, label TEXT NOT NULL,"
	" cap_bps INTEGER NOT NULL) WITHOUT ROWID;"

	"CREATE TABLE edges(site TEXT, name TEXT, mgmt_address TEXT NOT NULL,"
	" program TEXT NOT NULL, last_seen_ms INTEGER NOT NULL,"
	" PRIMARY KEY(site, name)) WITHOUT ROWID;"

	"CREATE TABLE orders(id INTEGER PRIMARY KEY, state INTEGER NOT NULL,"
	" from_site TEXT NOT NULL, to_site TEXT NOT NULL, class INTEGER NOT NULL,"
	" deadline_ms INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
	" finished_ms INTEGER NOT NULL, objects INTEGER NOT NULL,"
	" committed INTEGER NOT NULL, existed INTEGER NOT NULL, failed INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL, next_attempt INTEGER NOT NULL,"
	" canceled INTEGER NOT NULL, text TEXT NOT NULL, idempotency TEXT UNIQUE);"
	"CREATE INDEX orders_by_state ON orders(state, finished_ms);"

	"CREATE TABLE objects(order_id INTEGER, idx INTEGER, status INTEGER NOT NULL,"
	" attempts INTEGER NOT NULL, shipment INTEGER NOT NULL, length INTEGER NOT NULL,"
	" tenant BLOB NOT NULL, key BLOB NOT NULL, PRIMARY KEY(order_id, idx)) WITHOUT ROWID;"

	"CREATE TABLE shipments(order_id INTEGER, attempt INTEGER, from_edge TEXT NOT NULL,"
	" to_edge TEXT NOT NULL, members BLOB NOT NULL,"
	" PRIMARY KEY(order_id, attempt)) WITHOUT ROWID;"

	"PRAGMA user_version=1;";

/* What version 2 added: open orders. opened is enum order_opened. */
static const char upgrade_1_sql[] =
	"ALTER TABLE orders ADD COLUMN opened INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE orders ADD COLUMN appends INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE appends(order_id INTEGER, number INTEGER, first INTEGER NOT NULL,"
	" PRIMARY KEY(order_id, number)) WITHOUT ROWID;"

	"PRAGMA user_version=2;";

/* What version 3 added: enum order_way. */
static const char upgrade_2_sql[] = "ALTER TABLE orders ADD COLUMN way INTEGER NOT NULL DEFAULT 0;"
				    "PRAGMA user_version=3;";

/*
 * What version 4 added: what was committed, in order; idx -1 is the order's end. The epoch tells
 * one ledger from the next that is begun in its place.
 */
static const char upgrade_3_sql[] =
	"CREATE TABLE commits(seq INTEGER PRIMARY KEY, order_id INTEGER NOT NULL,"
	" idx INTEGER NOT NULL, at_ms INTEGER NOT NULL);"
	"INSERT INTO meta VALUES ('last_commit', 0),"
	" ('commit_epoch', 1 + (random() & 2147483647));"

	"PRAGMA user_version=4;";

/* What version 5 added: enum ledger_edge_flag. */
static const char upgrade_4_sql[] = "ALTER TABLE edges ADD COLUMN flags INTEGER NOT NULL DEFAULT 0;"
				    "PRAGMA user_version=5;";

static const char *const statement_sql[STMT_COUNT] = {
#define LEDGER_STATEMENT_SQL(name, sql) [STMT_##name] = (sql),
	LEDGER_STATEMENTS(LEDGER_STATEMENT_SQL)
#undef LEDGER_STATEMENT_SQL
};

const char *ledger_error(struct ledger *l)
{
	return l->error[0] != '\0' ? l->error : sqlite3_errmsg(l->db);
}

static int failed(struct ledger *l)
{
	snprintf(l->error, sizeof(l->error), "%s", sqlite3_errmsg(l->db));
	return -EIO;
}

sqlite3_stmt *ledger_stmt(struct ledger *l, enum ledger_statement which)
{
	sqlite3_reset(l->stmts[which]);
	sqlite3_clear_bindings(l->stmts[which]);
	return l->stmts[which];
}

int ledger_run(struct ledger *l, sqlite3_stmt *s)
{
	int rc;

	while ((rc = sqlite3_step(s)) == SQLITE_ROW)
		;
	if (rc != SQLITE_DONE)
		failed(l);
	sqlite3_reset(s);
	return rc == SQLITE_DONE ? 0 : -EIO;
}

int ledger_row(struct ledger *l, sqlite3_stmt *s)
{
	int rc = sqlite3_step(s);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		failed(l);
	sqlite3_reset(s);
	return rc == SQLITE_DONE ? 0 : -EIO;
}

const char *ledger_text(sqlite3_stmt *s, int column)
{
	const unsigned char *text = sqlite3_column_text(s, column);

	return text != NULL ? (const char *)text : "";
}

/*
 * ---- opening
 * -------------------------------------------------------------------------------------
 */

static int take_lock(struct ledger *l, const char *path, char *err, size_t err_len)
{
	char lock[PATH_MAX];
	int rc = 0;

	if ((size_t)snprintf(lock, sizeof(lock), "%s.lock", path) >= sizeof(lock)) {
		snprintf(err, err_len, "%s: path too long", path);
		return -ENAMETOOLONG;
	}
	l->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (l->lock_fd < 0 || flock(l->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
		snprintf(err, err_len, "%s: %s", lock,
			rc == -EBUSY ? "another strait-master uses this ledger" : strerror(-rc));
	}
	return rc;
}

static int exec(struct ledger *l, const char *sql)
{
	return sqlite3_exec(l->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(l);
}

static int pragma_number(struct ledger *l, const char *sql, int64_t *out)
{
	sqlite3_stmt *s;
	int rc = -EIO;

	if (sqlite3_prepare_v2(l->db, sql, -1, &s, NULL) != SQLITE_OK)
		return failed(l);
	if (sqlite3_step(s) == SQLITE_ROW) {
		*out = sqlite3_column_int64(s, 0);
		rc = 0;
	} else {
		failed(l);
	}
	sqlite3_finalize(s);
	return rc;
}

static void say_damaged(const char *path, const char *what, char *err, size_t err_len)
{
	snprintf(err, err_len,
		"%s: the file is damaged (%.120s): keep a copy, put back an older one or begin "
		"with none, and with --min-term above the highest term that edges know",
		path, what);
}

/* Why it cannot be opened, by SQLite's last error. */
static void say(struct ledger *l, const char *path, char *err, size_t err_len)
{
	int code = sqlite3_errcode(l->db) & 0xff;

	if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
		say_damaged(path, ledger_error(l), err, err_len);
	else
		snprintf(err, err_len, "%s: %s", path, ledger_error(l));
}

/*
 * SQLite notices a damaged page when it comes across it, which may be after orders were told to
 * edges that a whole ledger would have known as done.
 */
static int check_pages(struct ledger *l, const char *path, char *err, size_t err_len)
{
	sqlite3_stmt *s;
	int rc = -EIO;

	if (sqlite3_prepare_v2(l->db, "PRAGMA quick_check(1)", -1, &s, NULL) != SQLITE_OK ||
		sqlite3_step(s) != SQLITE_ROW)
		say(l, path, err, err_len);
	else if (strcmp(ledger_text(s, 0), "ok") != 0)
		say_damaged(path, ledger_text(s, 0), err, err_len);
	else
		rc = 0;
	sqlite3_finalize(s);
	return rc;
}

static int open_schema(struct ledger *l, const char *path, char *err, size_t err_len)
{
	int64_t version;
	int rc;

	rc = exec(l,
		"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF;");
	if (rc == 0) {
		rc = check_pages(l, path, err, err_len);
		if (rc != 0)
			return rc;
		rc = pragma_number(l, "PRAGMA user_version", &version);
	}
	if (rc == 0 && version > SCHEMA_VERSION) {
		snprintf(err, err_len,
			"%s: written by a newer strait-master (schema %lld, this one knows %d)",
			path, (long long)version, SCHEMA_VERSION);
		return -EPROTO;
	}
	if (rc == 0 && version < SCHEMA_VERSION) {
		rc = exec(l, "BEGIN IMMEDIATE");
		if (rc == 0 && version < 1)
			rc = exec(l, schema_sql);
		if (rc == 0 && version < 2)
			rc = exec(l, upgrade_1_sql);
		if (rc == 0 && version < 3)
			rc = exec(l, upgrade_2_sql);
		if (rc == 0 && version < 4)
			rc = exec(l, upgrade_3_sql);
		if (rc == 0 && version < 5)
			rc = exec(l, upgrade_4_sql);
		if (rc == 0)
			rc = exec(l, "COMMIT");
	}
	for (int i = 0; rc == 0 && i < STMT_COUNT; i++)
		if (sqlite3_prepare_v3(l->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
			    &l->stmts[i], NULL) != SQLITE_OK)
			rc = failed(l);
	if (rc != 0)
		say(l, path, err, err_len);
	else
		ledger_commits_open(l);
	return rc;
}

struct ledger *ledger_open(const char *path, char *err, size_t err_len)
{
	struct ledger *l = calloc(1, sizeof(*l));
	int rc, fd;

	if (l == NULL) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	l->lock_fd = -1;
	rc = take_lock(l, path, err, err_len);
	if (rc == 0) {
		/* SQLite would create it with the umask's mode */
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0) {
			rc = -errno;
			snprintf(err, err_len, "%s: %s", path, strerror(-rc));
		} else {
			close(fd);
		}
	}
	if (rc == 0 &&
		sqlite3_open_v2(path, &l->db,
			SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			NULL) != SQLITE_OK) {
		rc = -EIO;
		snprintf(err, err_len, "%s: %s", path, sqlite3_errmsg(l->db));
	}
	if (rc == 0) {
		sqlite3_busy_timeout(l->db, BUSY_MS);
		rc = open_schema(l, path, err, err_len);
	}
	if (rc == 0)
		return l;
	ledger_close(l);
	errno = -rc;
	return NULL;
}

void ledger_close(struct ledger *l)
{
	if (l == NULL)
		return;
	for (int i = 0; i < STMT_COUNT; i++)
		sqlite3_finalize(l->stmts[i]);
	sqlite3_close(l->db);
	if (l->lock_fd >= 0)
		close(l->lock_fd);
	free(l);
}

int ledger_next_term(struct ledger *l, uint64_t min_term, uint64_t *term)
{
	char sql[128];
	int64_t value = 0;
	int rc;

	snprintf(sql, sizeof(sql),
		"UPDATE meta SET value = max(value + 1, %lld) WHERE name = 'term'",
		(long long)min_term);
	rc = exec(l, sql);
	if (rc == 0)
		rc = pragma_number(l, "SELECT value FROM meta WHERE name = 'term'", &value);
	*term = (uint64_t)value;
	return rc;
}

/*
 * ---- writing
 * ---------------------------------------------------------------------------------------
 */

int ledger_begin(struct ledger *l)
{
	l->error[0] = '\0';
	return ledger_run(l, ledger_stmt(l, STMT_BEGIN));
}

int ledger_commit(struct ledger *l)
{
	int rc = 0;

	if (l->last_commit != l->durable_commit) {
		sqlite3_stmt *s = ledger_stmt(l, STMT_COMMIT_LAST_PUT);

		sqlite3_bind_int64(s, 1, (sqlite3_int64)l->last_commit);
		rc = ledger_run(l, s);
	}
	if (rc == 0)
		rc = ledger_run(l, ledger_stmt(l, STMT_COMMIT));
	if (rc == 0)
		l->durable_commit = l->last_commit;
	return rc;
}

void ledger_rollback(struct ledger *l)
{
	char keep[sizeof(l->error)];

	l->last_commit = l->durable_commit;
	if (sqlite3_get_autocommit(l->db))
		return; /* the error ended the transaction already */
	memcpy(keep, l->error, sizeof(keep));
	ledger_run(l, ledger_stmt(l, STMT_ROLLBACK));
	memcpy(l->error, keep, sizeof(keep));
}

static int put_object(struct ledger *l, const struct order *o, const struct order_object *obj,
	uint64_t now_ms)
{
	sqlite3_stmt *s = ledger_stmt(l, obj->stored ? STMT_OBJECT_UPDATE : STMT_OBJECT_INSERT);
	int rc;

	sqlite3_bind_int64(s, 1, (sqlite3_int64)o->id);
	sqlite3_bind_int64(s, 2, obj - o->objects);
	sqlite3_bind_int(s, 3, obj->status);
	sqlite3_bind_int(s, 4, obj->attempts);
	sqlite3_bind_int64(s, 5, obj->last_shipment);
	sqlite3_bind_int64(s, 6, (sqlite3_int64)obj->length);
	if (!obj->stored) {
		sqlite3_bind_blob(s, 7, obj->name, obj->tenant_len, SQLITE_STATIC);
		sqlite3_bind_blob(s, 8, obj->name + obj->tenant_len, obj->key_len, SQLITE_STATIC);
	}
	rc = ledger_run(l, s);
	if (rc == 0 && obj->state == OBJECT_FINAL &&
		(obj->status == STRAIT_STATUS_COMMITTED || obj->status == STRAIT_STATUS_EXISTS))
		rc = ledger_commit_put(l, o, obj - o->objects, now_ms);
	return rc;
}

static int put_shipment(struct ledger *l, const struct shipment *sh)
{
	sqlite3_stmt *s =
		ledger_stmt(l, sh->open > 0 ? STMT_SHIPMENT_INSERT : STMT_SHIPMENT_DELETE);

	sqlite3_bind_int64(s, 1, (sqlite3_int64)sh->order->id);
	sqlite3_bind_int64(s, 2, sh->attempt);
	if (sh->open > 0) {
		sqlite3_bind_text(s, 3, sh->from_edge, -1, SQLITE_STATIC);
		sqlite3_bind_text(s, 4, sh->to_edge, -1, SQLITE_STATIC);
		sqlite3_bind_blob(s, 5, sh->members, (int)(sh->count * sizeof(*sh->members)),
			SQLITE_STATIC);
	}
	return ledger_run(l, s);
}

static int put_row(struct ledger *l, const struct order *o)
{
	sqlite3_stmt *s = ledger_stmt(l, o->stored ? STMT_ORDER_UPDATE : STMT_ORDER_INSERT);

	sqlite3_bind_int64(s, 1, (sqlite3_int64)o->id);
	sqlite3_bind_int(s, 2, (int)o->state);
	sqlite3_bind_int64(s, 8, (sqlite3_int64)o->finished_ms);
	sqlite3_bind_int64(s, 10, o->committed);
	sqlite3_bind_int64(s, 11, o->existed);
	sqlite3_bind_int64(s, 12, o->failed);
	sqlite3_bind_int64(s, 13, (sqlite3_int64)o->committed_bytes);
	sqlite3_bind_int64(s, 14, o->next_attempt);
	sqlite3_bind_int(s, 15, o->canceled);
	sqlite3_bind_text(s, 16, o->text, -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 9, o->count);
	sqlite3_bind_int(s, 18, o->opened);
	sqlite3_bind_int64(s, 19, o->appends);
	sqlite3_bind_int(s, 20, o->way);
	if (!o->stored) {
		sqlite3_bind_text(s, 3, o->from_site, -1, SQLITE_STATIC);
		sqlite3_bind_text(s, 4, o->to_site, -1, SQLITE_STATIC);
		sqlite3_bind_int(s, 5, o->class);
		sqlite3_bind_int64(s, 6, (sqlite3_int64)o->deadline_ms);
		sqlite3_bind_int64(s, 7, (sqlite3_int64)o->created_ms);
		if (o->idempotency[0] != '\0')
			sqlite3_bind_text(s, 17, o->idempotency, -1, SQLITE_STATIC);
	}
	return ledger_run(l, s);
}

static int put_appends(struct ledger *l, const struct order *o)
{
	int rc = 0;

	for (uint32_t n = o->appends_stored; rc == 0 && n <= o->appends; n++) {
		sqlite3_stmt *s = ledger_stmt(l, STMT_APPEND_INSERT);

		sqlite3_bind_int64(s, 1, (sqlite3_int64)o->id);
		sqlite3_bind_int64(s, 2, n);
		sqlite3_bind_int64(s, 3, o->append_first[n]);
		rc = ledger_run(l, s);
	}
	return rc;
}

int ledger_order_put(struct ledger *l, const struct order *o, uint64_t now_ms)
{
	const struct order_object *obj;
	const struct shipment *sh;
	sqlite3_stmt *s;
	int rc = put_row(l, o);

	if (rc == 0 && !o->stored) { /* numbers are not used again, even after pruning */
		s = ledger_stmt(l, STMT_LAST_ORDER_PUT);
		sqlite3_bind_int64(s, 1, (sqlite3_int64)o->id);
		rc = ledger_run(l, s);
	}
	if (rc == 0 && o->append_first != NULL)
		rc = put_appends(l, o);
	for (obj = o->dirty_objects; rc == 0 && obj != NULL; obj = obj->next_dirty)
		rc = put_object(l, o, obj, now_ms);
	TAILQ_FOREACH(sh, &o->shipments, of_order)
		if (rc == 0 && sh->dirty)
			rc = put_shipment(l, sh);
	if (rc == 0 && order_is_final(o))
		rc = ledger_commit_put(l, o, -1, now_ms);
	return rc;
}
