/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/ledger_private.h"

#include <strait/status.h>

#include <sqlite3.h>

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[96], err[400];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/strait-ledger-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/ledger.db", dir);
	return 0;
}

static int teardown(void **state)
{
	char cmd[96];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static struct ledger *open_ledger(void)
{
	struct ledger *l = ledger_open(path, err, sizeof(err));

	if (l == NULL)
		fail_msg("%s", err);
	return l;
}

static size_t edges_of(void *ctx, const char *site, const char **names, size_t max)
{
	(void)ctx;
	(void)max;
	names[0] = site[0] == 'a' ? "edge-a" : "edge-b";
	return 1;
}

static const struct orderbook_sites up = { edges_of, NULL, NULL, NULL, NULL };

static struct order *submit(struct orderbook *b, const char *idempotency)
{
	static const struct orderbook_key keys[] = {
		{ .key = (const uint8_t *)"k\0one",
			.key_len = 5,
			.tenant = (const uint8_t *)"t",
			.tenant_len = 1 },
		{ .key = (const uint8_t *)"\xff\xfe", .key_len = 2 },
		{ .key = (const uint8_t *)"three", .key_len = 5 },
	};
	struct orderbook_spec spec = { .from_site = "a",
		.to_site = "b",
		.class = 2,
		.deadline_ms = 99999,
		.idempotency = idempotency,
		.keys = keys,
		.count = 3 };

	return orderbook_submit(b, &spec, 1000, err, sizeof(err));
}

static void store(struct ledger *l, struct orderbook *b)
{
	assert_int_equal(ledger_begin(l), 0);
	for (struct order *o = orderbook_dirty(b); o != NULL; o = TAILQ_NEXT(o, dirty_entry))
		assert_int_equal(ledger_order_put(l, o, 5000), 0);
	assert_int_equal(ledger_commit(l), 0);
	orderbook_flushed(b);
}

static void term_grows_with_every_start(void **state)
{
	struct ledger *l;
	uint64_t term;

	(void)state;
	for (uint64_t want = 1; want < 4; want++) {
		l = open_ledger();
		assert_int_equal(ledger_next_term(l, 0, &term), 0);
		assert_int_equal(term, want);
		ledger_close(l);
	}
	l = open_ledger();
	assert_int_equal(ledger_next_term(l, 100, &term), 0);
	assert_int_equal(term, 100);
	ledger_close(l);
}

static void second_master_is_kept_out(void **state)
{
	struct ledger *l = open_ledger();

	(void)state;
	assert_null(ledger_open(path, err, sizeof(err)));
	assert_int_equal(errno, EBUSY);
	assert_non_null(strstr(err, "another strait-master"));
	ledger_close(l);
	ledger_close(open_ledger());
}

static void file_is_private_and_foreign_files_are_refused(void **state)
{
	struct stat st;
	sqlite3 *db;
	FILE *f;

	(void)state;
	ledger_close(open_ledger());
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_null(ledger_open(path, err, sizeof(err)));
	assert_non_null(strstr(err, "newer strait-master"));
	f = fopen(path, "w");
	fputs("this is no database, whatever its name says, and it is long enough to be read", f);
	fclose(f);
	assert_null(ledger_open(path, err, sizeof(err)));
	assert_non_null(strstr(err, path));
	assert_null(ledger_open("/nowhere/x.db", err, sizeof(err)));
}

static void unfinished_order_comes_back_as_it_was(void **state)
{
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);
	struct order *o = submit(b, "once");
	struct shipment *s;

	(void)state;
	store(l, b);
	orderbook_plan(b, &up, 2000);
	store(l, b);
	orderbook_result(b, 1, 1, STRAIT_STATUS_COMMITTED, 77, 3000);
	orderbook_result(b, 1, 2, STRAIT_STATUS_FULL, 0, 3000);
	store(l, b);
	orderbook_destroy(b);
	ledger_close(l);

	l = open_ledger();
	b = orderbook_create(ledger_last_order(l) + 1, 1);
	assert_int_equal(ledger_restore(l, b, 5000, err, sizeof(err)), 0);
	o = orderbook_find(b, 1);
	assert_non_null(o);
	assert_int_equal(o->state, ORDER_RUNNING);
	assert_int_equal(o->class, 2);
	assert_int_equal(o->deadline_ms, 99999);
	assert_int_equal(o->created_ms, 1000);
	assert_string_equal(o->idempotency, "once");
	assert_int_equal(o->count, 3);
	assert_memory_equal(o->objects[0].name, "tk\0one", 6);
	assert_memory_equal(o->objects[1].name, "\xff\xfe", 2);
	assert_int_equal(o->objects[0].state, OBJECT_FLYING);
	assert_int_equal(o->objects[1].status, STRAIT_STATUS_COMMITTED);
	assert_int_equal(o->objects[1].length, 77);
	assert_int_equal(o->objects[2].state, OBJECT_READY); /* was to be tried again */
	assert_int_equal(o->objects[2].attempts, 1);
	assert_int_equal(o->committed, 1);
	s = TAILQ_FIRST(&o->shipments);
	assert_string_equal(s->from_edge, "edge-a");
	assert_int_equal(s->open, 1);
	assert_int_equal(s->count, 3);
	orderbook_plan(b, &up, 5000);
	assert_int_equal(o->objects[2].shipment->wire, 1ull << 40 | 1);
	assert_int_equal(submit(b, NULL)->id, 2);
	orderbook_destroy(b);
	ledger_close(l);
}

static struct order *restored(struct ledger **l, struct orderbook **b, uint64_t id)
{
	orderbook_destroy(*b);
	ledger_close(*l);
	*l = open_ledger();
	*b = orderbook_create(ledger_last_order(*l) + 1, 1);
	if (ledger_restore(*l, *b, 5000, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	return orderbook_find(*b, id);
}

static void add_append(uint32_t number, uint32_t first, void *ctx)
{
	*(uint64_t *)ctx = *(uint64_t *)ctx * 100 + number * 10 + first;
}

static void open_order_comes_back_with_its_appends(void **state)
{
	static const struct orderbook_key keys[] = { { .key = (const uint8_t *)"x", .key_len = 1 },
		{ .key = (const uint8_t *)"y", .key_len = 1 },
		{ .key = (const uint8_t *)"z", .key_len = 1 } };
	struct orderbook_spec spec = { .from_site = "a", .to_site = "b", .open = true };
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);
	struct order *o = orderbook_submit(b, &spec, 1000, err, sizeof(err));
	uint64_t seen = 0;
	uint32_t taken;

	(void)state;
	assert_non_null(o);
	store(l, b);
	o = restored(&l, &b, 1);
	assert_int_equal(o->opened, ORDER_OPEN);
	assert_int_equal(o->count, 0);
	assert_int_equal(orderbook_append(b, 1, 1, keys, 2, 1, &taken, err, sizeof(err)), 0);
	orderbook_plan(b, &up, 2000);
	store(l, b);
	assert_int_equal(orderbook_append(b, 1, 2, keys + 2, 1, 1, &taken, err, sizeof(err)), 0);
	store(l, b);
	o = restored(&l, &b, 1);
	assert_int_equal(o->opened, ORDER_OPEN);
	assert_int_equal(o->appends, 2);
	assert_int_equal(o->count, 3);
	assert_int_equal(o->objects[1].state, OBJECT_FLYING);
	assert_int_equal(o->objects[2].state, OBJECT_READY);
	assert_memory_equal(o->objects[2].name, "z", 1);
	/* A repetition after the restart is known, the next one is taken. */
	assert_int_equal(orderbook_append(b, 1, 2, keys + 2, 1, 1, &taken, err, sizeof(err)), 0);
	assert_int_equal(orderbook_append(b, 1, 1, keys, 1, 1, &taken, err, sizeof(err)), -EEXIST);
	assert_int_equal(o->count, 3);
	assert_int_equal(ledger_appends(l, 1, add_append, &seen), 0);
	assert_int_equal(seen, 1022); /* 0 from 0, 1 from 0, 2 from 2 */
	assert_int_equal(orderbook_seal(b, 1, 3000), 0);
	store(l, b);
	o = restored(&l, &b, 1);
	assert_int_equal(o->opened, ORDER_SEALED);
	assert_int_equal(orderbook_append(b, 1, 3, keys, 1, 1, &taken, err, sizeof(err)),
		-ESHUTDOWN);
	orderbook_destroy(b);
	ledger_close(l);
}

static void ledger_of_an_older_version_is_taken_over(void **state)
{
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);
	struct order *o;
	sqlite3 *db;

	(void)state;
	submit(b, "once");
	store(l, b);
	ledger_close(l);
	/* What version 1 wrote is this without what version 2 added. */
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db,
				 "ALTER TABLE orders DROP COLUMN opened;"
				 "ALTER TABLE orders DROP COLUMN way;"
				 "ALTER TABLE edges DROP COLUMN flags;"
				 "ALTER TABLE orders DROP COLUMN appends;"
				 "DROP TABLE appends; DROP TABLE commits;"
				 "DELETE FROM meta WHERE name LIKE '%commit%';"
				 "PRAGMA user_version=1",
				 NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(db);
	l = open_ledger();
	o = restored(&l, &b, 1);
	assert_non_null(o);
	assert_int_equal(o->opened, ORDER_CLOSED);
	assert_int_equal(o->way, ORDER_WAY_NONE);
	assert_int_equal(o->count, 3);
	orderbook_destroy(b);
	ledger_close(l);
}

static uint32_t rnd(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)(*seed >> 4) * n >> 28);
}

static char *file_bytes(size_t *len)
{
	FILE *f = fopen(path, "r");
	char *bytes = malloc(1 << 20);

	assert_non_null(f);
	*len = fread(bytes, 1, 1 << 20, f);
	fclose(f);
	return bytes;
}

static void file_replace(const char *bytes, size_t len)
{
	char wal[128];
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	fclose(f);
	snprintf(wal, sizeof(wal), "%s-wal", path);
	(void)unlink(wal);
}

/*
 * Some bytes of the file are others, by seed: it is refused with words, or every order is there.
 * What is within the bytes of a key only a checksum could tell.
 */
static void damaged_file_is_refused_or_has_every_order(void **state)
{
	enum { ORDERS = 60, SEEDS = 300 };
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);
	unsigned int refused = 0;
	size_t len, before;
	char *good, *bad;

	(void)state;
	for (int i = 0; i < ORDERS; i++)
		assert_non_null(submit(b, NULL));
	store(l, b);
	orderbook_destroy(b);
	ledger_close(l);
	good = file_bytes(&len);
	assert_true(len > 8 * 4096);
	bad = malloc(len);
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		uint32_t r = seed * 2654435761u, n = 1 + rnd(&r, 200);
		size_t at = rnd(&r, (uint32_t)(len - n));

		memcpy(bad, good, len);
		for (uint32_t i = 0; i < n; i++)
			bad[at + i] = (char)rnd(&r, 256);
		before = rnd(&r, 10) == 0 ? rnd(&r, (uint32_t)len) + 1 : len; /* cut short */
		file_replace(bad, before);
		strcpy(err, "");
		l = ledger_open(path, err, sizeof(err));
		if (l == NULL) {
			assert_non_null(strstr(err, path));
			refused++;
			continue;
		}
		b = orderbook_create(1, 1);
		if (ledger_restore(l, b, 5000, err, sizeof(err)) != 0) {
			assert_true(err[0] != '\0');
			refused++;
		} else if (orderbook_count(b) != ORDERS) {
			fail_msg("seed %u: %zu orders of %d, and nothing said", seed,
				orderbook_count(b), ORDERS);
		}
		orderbook_destroy(b);
		ledger_close(l);
	}
	assert_true(refused > SEEDS / 4);
	file_replace(good, len);
	l = open_ledger();
	ledger_close(l);
	free(good);
	free(bad);
}

static void damage_is_told_with_what_to_do(void **state)
{
	char *bytes;
	size_t len;

	(void)state;
	ledger_close(open_ledger());
	bytes = file_bytes(&len);
	memset(bytes + 4096, 0xa5, 4096);
	file_replace(bytes, len);
	assert_null(ledger_open(path, err, sizeof(err)));
	assert_non_null(strstr(err, "the file is damaged"));
	assert_non_null(strstr(err, "--min-term"));
	file_replace("no database, but long enough to be read as the beginning of one ..........."
		     "................................................................",
		120);
	assert_null(ledger_open(path, err, sizeof(err)));
	assert_non_null(strstr(err, "the file is damaged (file is not a database)"));
	free(bytes);
}

static void count_orders(const struct ledger_order *o, void *ctx)
{
	assert_true(o->id > 0);
	++*(int *)ctx;
}

static void finished_orders_can_be_looked_up_until_they_are_pruned(void **state)
{
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);
	uint64_t counts[ORDER_STATE_COUNT];
	int n = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		char key[16];

		snprintf(key, sizeof(key), "key-%d", i);
		submit(b, key);
		orderbook_cancel(b, (uint64_t)i + 1, 2000 + (uint64_t)i);
	}
	store(l, b);
	assert_int_equal(orderbook_count(b), 0);
	assert_int_equal(ledger_idempotent(l, "key-7"), 8);
	assert_int_equal(ledger_idempotent(l, "key-77"), 0);
	assert_int_equal(ledger_orders(l, 15, count_orders, &n), 0);
	assert_int_equal(n, 15);
	assert_int_equal(ledger_counts(l, counts), 0);
	assert_int_equal(counts[ORDER_CANCELED], 20);
	assert_int_equal(ledger_prune(l, 2010), 10);
	assert_int_equal(ledger_prune(l, 2010), 0);
	assert_int_equal(ledger_order(l, 10, count_orders, &n), -ENOENT);
	assert_int_equal(ledger_order(l, 11, count_orders, &n), 0);
	assert_int_equal(ledger_prune(l, 9999), 10);
	assert_int_equal(ledger_last_order(l), 20); /* numbers are not used twice */
	orderbook_destroy(b);
	ledger_close(l);
}

static void uncommitted_changes_never_happened(void **state)
{
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);

	(void)state;
	submit(b, NULL);
	assert_int_equal(ledger_begin(l), 0);
	assert_int_equal(ledger_order_put(l, orderbook_dirty(b), 5000), 0);
	ledger_rollback(l);
	assert_int_equal(ledger_last_order(l), 0);
	store(l, b); /* still on the dirty list */
	assert_int_equal(ledger_last_order(l), 1);
	orderbook_destroy(b);
	ledger_close(l);
}

/*
 * A child stores orders and tells each commit through a pipe; it is killed in the middle. What it
 * told must be there, whole; at most one order more may be.
 */
static void killed_writer_leaves_whole_orders(void **state)
{
	(void)state;
	for (int round = 0; round < 10; round++) {
		struct orderbook *b;
		struct ledger *l;
		uint64_t told = 0, last, before;
		int pipes[2];
		pid_t child;

		l = open_ledger();
		before = ledger_last_order(l);
		ledger_close(l);
		assert_int_equal(pipe(pipes), 0);
		child = fork();
		if (child == 0) {
			l = open_ledger();
			b = orderbook_create(ledger_last_order(l) + 1, 1);
			for (;;) {
				uint64_t id = submit(b, NULL)->id;

				store(l, b);
				if (write(pipes[1], &id, sizeof(id)) != sizeof(id))
					_exit(1);
			}
		}
		close(pipes[1]);
		for (int i = 0; i <= round; i++)
			assert_int_equal(read(pipes[0], &told, sizeof(told)), sizeof(told));
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, NULL, 0), child);
		while (read(pipes[0], &last, sizeof(last)) == sizeof(last))
			told = last;
		close(pipes[0]);
		l = open_ledger();
		b = orderbook_create(1, 1);
		assert_int_equal(ledger_restore(l, b, 1, err, sizeof(err)), 0);
		last = ledger_last_order(l);
		assert_true(told > before && (last == told || last == told + 1));
		assert_int_equal(orderbook_count(b), last);
		orderbook_destroy(b);
		ledger_close(l);
	}
}

struct taken {
	struct ledger_commit c[64];
	char text[64][40]; /* "tenant/key", or the state of an order that ended */
	uint32_t n, most;
};

static bool take_commit(const struct ledger_commit *c, void *ctx)
{
	struct taken *t = ctx;

	if (t->n == t->most)
		return false;
	t->c[t->n] = *c;
	if (c->ended)
		snprintf(t->text[t->n], sizeof(t->text[0]), "%s",
			order_state_name((enum order_state)c->state));
	else
		snprintf(t->text[t->n], sizeof(t->text[0]), "%.*s/%.*s", (int)c->object.tenant_len,
			c->object.tenant_len > 0 ? (const char *)c->object.tenant : "",
			(int)c->object.key_len, (const char *)c->object.key);
	assert_string_equal(c->from_site, "a");
	assert_string_equal(c->to_site, "b");
	t->n++;
	return true;
}

static int take(struct ledger *l, uint64_t seq, struct taken *t)
{
	*t = (struct taken){ .most = 64 };
	return ledger_commits(l, seq, 64, take_commit, t);
}

/* An order of three objects: the first arrives, the second was there, the third fails. */
static struct order *ship(struct ledger *l, struct orderbook *b)
{
	struct order *o = submit(b, NULL);
	struct shipment *s;

	orderbook_plan(b, &up, 1000);
	store(l, b);
	s = TAILQ_FIRST(&o->shipments);
	assert_non_null(s);
	assert_int_equal(orderbook_result(b, s->wire, 0, STRAIT_STATUS_COMMITTED, 77, 2000), 0);
	store(l, b);
	assert_int_equal(orderbook_result(b, s->wire, 1, STRAIT_STATUS_EXISTS, 88, 2001), 0);
	assert_int_equal(orderbook_result(b, s->wire, 2, STRAIT_STATUS_NOT_FOUND, 0, 2002), 0);
	return o;
}

static void each_commit_is_told_once_in_order_over_a_restart(void **state)
{
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);
	uint32_t epoch = ledger_commit_epoch(l);
	struct taken t;

	(void)state;
	assert_int_not_equal(epoch, 0);
	assert_int_equal(ledger_commit_next(l), 1);
	assert_int_equal(ledger_commit_first(l), 1);
	assert_int_equal(take(l, 1, &t), 0);
	ship(l, b);
	/* the rest of it is not durable: nobody hears of it */
	assert_int_equal(ledger_commit_next(l), 2);
	assert_int_equal(take(l, 1, &t), 1);
	assert_string_equal(t.text[0], "t/k");
	assert_int_equal(t.c[0].object.length, 77);
	assert_int_equal(t.c[0].at_ms, 5000);
	assert_int_equal(t.c[0].class, 2);
	store(l, b);
	ledger_close(l);
	l = open_ledger();
	assert_int_equal(ledger_commit_epoch(l), epoch);
	assert_int_equal(ledger_commit_next(l), 4);
	assert_int_equal(take(l, 2, &t), 2);
	assert_string_equal(t.text[0], "/\xff\xfe");
	assert_int_equal(t.c[0].object.status, STRAIT_STATUS_EXISTS);
	assert_string_equal(t.text[1], "failed");
	assert_true(t.c[1].ended);
	assert_int_equal(t.c[1].committed, 1);
	assert_int_equal(t.c[1].existed, 1);
	assert_int_equal(t.c[1].failed, 1);
	assert_int_equal(take(l, 4, &t), 0);
	/* one that stops is told no more */
	t = (struct taken){ .most = 1 };
	assert_int_equal(ledger_commits(l, 1, 64, take_commit, &t), 1);
	orderbook_destroy(b);
	ledger_close(l);
}

static void a_commit_that_was_rolled_back_keeps_no_number(void **state)
{
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);
	struct taken t;

	(void)state;
	ship(l, b);
	assert_int_equal(ledger_begin(l), 0);
	assert_int_equal(ledger_order_put(l, orderbook_dirty(b), 6000), 0);
	assert_int_equal(ledger_commit_next(l), 2);
	ledger_rollback(l);
	store(l, b);
	assert_int_equal(ledger_commit_next(l), 4);
	assert_int_equal(take(l, 1, &t), 3);
	orderbook_destroy(b);
	ledger_close(l);
}

static void who_reads_commits_that_were_forgotten_is_told(void **state)
{
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);
	struct taken t;

	(void)state;
	for (int i = 0; i < 4; i++) {
		ship(l, b);
		store(l, b);
	}
	assert_int_equal(take(l, 1, &t), 12);
	assert_int_equal(ledger_begin(l), 0);
	assert_int_equal(ledger_commits_trim(l, 0, 5), 0);
	assert_int_equal(ledger_commit(l), 0);
	assert_int_equal(ledger_commit_first(l), 8);
	assert_int_equal(take(l, 7, &t), -ESTALE);
	assert_int_equal(take(l, 8, &t), 5);
	/* and by age, as finished orders are; numbers are not used twice */
	assert_int_equal(ledger_prune(l, 5001), 4);
	assert_int_equal(take(l, 8, &t), -ESTALE);
	assert_int_equal(take(l, 12, &t), -ESTALE);
	assert_int_equal(take(l, 13, &t), 0);
	assert_int_equal(ledger_commit_first(l), 13);
	ledger_close(l);
	l = open_ledger();
	assert_int_equal(ledger_commit_next(l), 13);
	orderbook_destroy(b);
	ledger_close(l);
}

/* The wall clock stood back when it ended: it is forgotten before its commits are. */
static void a_commit_whose_order_is_forgotten_is_not_kept(void **state)
{
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);
	struct taken t;

	(void)state;
	ship(l, b);
	store(l, b);
	assert_int_equal(ledger_prune(l, 3000), 1);
	assert_int_equal(ledger_commit_first(l), 1);
	assert_int_equal(take(l, 1, &t), -ESTALE);
	orderbook_destroy(b);
	ledger_close(l);
}

static void an_order_is_of_a_tenant_if_all_of_it_is(void **state)
{
	static const struct orderbook_key mine[] = {
		{ .key = (const uint8_t *)"model/1", .key_len = 7 },
		{ .key = (const uint8_t *)"model/2",
			.key_len = 7,
			.tenant = (const uint8_t *)"default",
			.tenant_len = 7 },
	};
	struct orderbook_spec spec = { .from_site = "a",
		.to_site = "b",
		.class = 1,
		.keys = mine,
		.count = 2 };
	struct ledger *l = open_ledger();
	struct orderbook *b = orderbook_create(1, 1);

	(void)state;
	submit(b, NULL);
	assert_non_null(orderbook_submit(b, &spec, 1000, err, sizeof(err)));
	store(l, b);
	assert_false(ledger_order_is_of(l, 1, "t", 1, NULL, 0));
	assert_false(ledger_order_is_of(l, 1, "default", 7, NULL, 0));
	assert_true(ledger_order_is_of(l, 1, NULL, 0, NULL, 0));
	assert_true(ledger_order_is_of(l, 2, "default", 7, NULL, 0));
	assert_true(ledger_order_is_of(l, 2, "default", 7, "model/", 6));
	assert_false(ledger_order_is_of(l, 2, "default", 7, "model/1", 7));
	assert_false(ledger_order_is_of(l, 2, "t", 1, NULL, 0));
	assert_false(ledger_order_is_of(l, 3, NULL, 0, NULL, 0));
	orderbook_destroy(b);
	ledger_close(l);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(term_grows_with_every_start),
		TEST(second_master_is_kept_out),
		TEST(file_is_private_and_foreign_files_are_refused),
		TEST(unfinished_order_comes_back_as_it_was),
		TEST(open_order_comes_back_with_its_appends),
		TEST(ledger_of_an_older_version_is_taken_over),
		TEST(finished_orders_can_be_looked_up_until_they_are_pruned),
		TEST(uncommitted_changes_never_happened),
		TEST(killed_writer_leaves_whole_orders),
		TEST(damaged_file_is_refused_or_has_every_order),
		TEST(damage_is_told_with_what_to_do),
		TEST(each_commit_is_told_once_in_order_over_a_restart),
		TEST(a_commit_that_was_rolled_back_keeps_no_number),
		TEST(who_reads_commits_that_were_forgotten_is_told),
		TEST(a_commit_whose_order_is_forgotten_is_not_kept),
		TEST(an_order_is_of_a_tenant_if_all_of_it_is),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
