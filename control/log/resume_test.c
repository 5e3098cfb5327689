/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/feed.h"
#include "control/log/reader.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/*
 * A snapshot over a line that is thin, cut in the middle again and again: what is sent of it in
 * all, counted where it leaves, and that the view is the truth at the end. By seed.
 */

enum {
	KEYS = 400000,
	QUEUE = 256,
	QUEUE_BYTES = 128 << 10, /* as an uplink's */
	LINE_BYTES = 64 << 10,   /* a step */
	MS = 1000000,
	CUTS = 6,
	OUTRUN = 2100, /* events in so much time that the ring does not hold them */
};

struct flight {
	size_t len, left;
	uint8_t *buf;
};

struct world {
	uint64_t seed, now;
	struct log *log;
	struct sums *sums;
	bool truth[KEYS], live[KEYS], loading[KEYS];
	struct feed_source source;
	struct gate gate;
	struct feed feed;
	struct reader reader;
	bool connected;
	struct flight f[QUEUE];
	uint32_t head, n;
	size_t queued;
	uint64_t sent; /* bytes of snapshots */
	uint32_t cuts, outrun;
	bool anew;
};

static struct world w;

static uint64_t draw(uint64_t n)
{
	uint64_t x = w.seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % n;
}

static struct digest128 key(uint32_t n)
{
	return (struct digest128){ (uint64_t)(n % DIGEST_BUCKETS) << 48, n };
}

static int put(bool *set, const struct log_record *r)
{
	bool want = r->op == LOG_STORED;

	if (set[r->digest.lo] == want)
		return 0;
	set[r->digest.lo] = want;
	return 1;
}

static int on_event(void *ctx, const struct log_record *r)
{
	(void)ctx;
	return put(w.live, r);
}

static int on_load(void *ctx, const struct log_record *r)
{
	(void)ctx;
	return put(w.loading, r);
}

static void on_swap(void *ctx, uint32_t first, uint32_t last)
{
	(void)ctx;
	for (uint32_t i = 0; i < KEYS; i++) {
		if (digest_bucket(key(i)) < first || digest_bucket(key(i)) > last)
			continue;
		w.live[i] = w.loading[i];
		w.loading[i] = false;
	}
}

static void on_drop(void *ctx)
{
	(void)ctx;
	memset(w.loading, 0, sizeof(w.loading));
}

static void on_forget(void *ctx, const uint64_t *buckets)
{
	(void)ctx;
	for (uint32_t i = 0; i < KEYS; i++)
		if (digest_set_has(buckets, digest_bucket(key(i))))
			w.loading[i] = false;
}

static const struct replica_sink sink = { on_event, on_load, on_swap, on_drop, on_forget, NULL };

static void list(void *ctx, uint32_t bucket, void (*fn)(void *, const struct log_record *),
	void *fn_ctx)
{
	(void)ctx;
	for (uint32_t i = bucket; i < KEYS; i += DIGEST_BUCKETS) {
		struct log_record r = { .digest = key(i), .op = LOG_STORED };

		if (w.truth[i])
			fn(fn_ctx, &r);
	}
}

static void toggle(uint32_t n)
{
	struct log_record r = { .digest = key(n), .op = LOG_STORED };

	if (w.truth[n])
		r.op = LOG_REMOVED;
	w.truth[n] = !w.truth[n];
	(r.op == LOG_STORED ? sums_add : sums_del)(w.sums, r.digest);
	assert_true(log_append(w.log, &r, w.now) > 0);
}

static void world_init(uint64_t seed)
{
	struct log_config cfg = { .epoch = seed + 1,
		.keep_ns = UINT64_C(2000) * MS,
		.max_bytes = 3 * LOG_CHUNK_RECORDS * sizeof(struct log_record) };

	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.now = 1;
	w.log = log_create(&cfg);
	w.sums = sums_create();
	for (uint32_t i = 0; i < KEYS; i++) {
		w.truth[i] = draw(20) > 0;
		if (w.truth[i])
			sums_add(w.sums, key(i));
	}
	w.source = (struct feed_source){ w.log, w.sums, list, NULL };
	gate_init(&w.gate, 1, MS, seed);
	feed_init(&w.feed, &w.source, &w.gate);
	assert_int_equal(reader_init(&w.reader, &sink, NULL, UINT64_MAX / 2, seed), 0);
}

static void queue_clear(void)
{
	for (; w.n > 0; w.n--, w.head = (w.head + 1) % QUEUE)
		free(w.f[w.head].buf);
	w.queued = 0;
}

/* events: that happen before it is there again. */
static void cut(uint32_t events)
{
	queue_clear();
	reader_close(&w.reader, w.now);
	feed_fini(&w.feed);
	feed_init(&w.feed, &w.source, &w.gate);
	w.connected = false;
	w.cuts++;
	w.outrun += events >= OUTRUN;
	for (uint32_t i = 0; i < events; i++) {
		if (events >= OUTRUN && i % 100 == 0)
			w.now += UINT64_C(1000) * MS;
		toggle((uint32_t)draw(KEYS));
	}
}

static void world_fini(void)
{
	cut(0);
	reader_fini(&w.reader);
	feed_fini(&w.feed);
	log_destroy(w.log);
	sums_destroy(w.sums);
}

static void pull(void)
{
	const uint8_t *frame;
	struct log_frame h;
	size_t len;
	int rc = 0;

	while (w.queued < QUEUE_BYTES && w.n < QUEUE &&
		(rc = feed_pull(&w.feed, w.now, &frame, &len)) == 1) {
		struct flight *f = &w.f[(w.head + w.n++) % QUEUE];

		assert_int_equal(log_frame_decode(frame, len, &h), 0);
		if (h.type == LOG_FRAME_BUCKETS || h.type == LOG_FRAME_CHANGED ||
			h.type == LOG_FRAME_AGAIN)
			w.sent += len;
		w.anew = w.anew || (h.type == LOG_FRAME_SNAPSHOT && h.bucket == 0 && w.cuts > 0);
		*f = (struct flight){ len, len, malloc(len) };
		memcpy(f->buf, frame, len);
		w.queued += len;
	}
	assert_true(rc >= 0);
}

/* What the line carries in a step. Stops when the test wants to look. */
static void deliver(bool (*look)(void))
{
	size_t room = LINE_BYTES;

	while (w.connected && w.n > 0 && room > 0) {
		struct flight *f = &w.f[w.head];
		size_t take = f->left < room ? f->left : room;

		f->left -= take;
		w.queued -= take;
		room -= take;
		if (f->left > 0)
			break;
		assert_int_equal(reader_input(&w.reader, f->buf, f->len, w.now), 0);
		free(f->buf);
		w.head = (w.head + 1) % QUEUE;
		w.n--;
		if (look != NULL && look())
			break;
	}
}

static void step(bool (*look)(void))
{
	uint8_t ask[LOG_FRAME_HEADER_BYTES];

	w.now += 10 * MS;
	if (!w.connected && w.now >= reader_connect_ns(&w.reader)) {
		w.connected = true;
		reader_open(&w.reader, w.now);
	}
	if (!w.connected)
		return;
	while (reader_pull(&w.reader, w.now, ask))
		assert_int_equal(feed_input(&w.feed, ask, sizeof(ask)), 0);
	pull();
	deliver(look);
	for (uint64_t n = draw(20); n > 0; n--)
		toggle((uint32_t)draw(KEYS));
}

static bool is_live(void)
{
	return w.reader.replica.state == REPLICA_LIVE;
}

/* All buckets are there and the end is not. */
static bool lacks_end(void)
{
	return w.reader.replica.state == REPLICA_LOADING &&
		w.reader.replica.bucket == DIGEST_BUCKETS;
}

static uint64_t whole_bytes(void)
{
	return w.sums->total.count * LOG_RECORD_BYTES;
}

static void run_until_live(void)
{
	for (int i = 0; i < 5000 && !is_live(); i++)
		step(NULL);
	assert_true(is_live());
	for (int i = 0; i < 20; i++)
		step(NULL);
	/* what the last step brought about is on its way */
	pull();
	while (w.n > 0)
		deliver(NULL);
	assert_memory_equal(w.live, w.truth, sizeof(w.live));
	assert_int_equal(w.reader.replica.snapshots, 1);
	assert_int_equal(w.reader.replica.failed, 0);
	assert_int_equal(w.reader.replica.drifts, 0);
}

/* Into the snapshot so far that its next bucket is this. */
static void run_to(uint32_t bucket)
{
	for (int i = 0; i < 5000 && w.reader.replica.bucket < bucket && !is_live(); i++)
		step(NULL);
	assert_false(is_live());
}

static void a_snapshot_cut_many_times_is_sent_about_once(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		double ratio;

		world_init(seed);
		for (uint32_t i = 0; i < CUTS; i++) {
			run_to((i + 1) * DIGEST_BUCKETS / (CUTS + 1));
			cut(draw(2) == 0 ? OUTRUN : (uint32_t)draw(500));
		}
		run_until_live();
		assert_false(w.anew);
		ratio = (double)w.sent / (double)whole_bytes();
		if (ratio > 1.2)
			fail_msg("seed %u: %.3f of a snapshot, %u cuts, %u of them long",
				(unsigned int)seed, ratio, w.cuts, w.outrun);
		world_fini();
	}
}

/* Cuts where what changed is being sent again, and before it is said what that is. */
static void a_cut_while_buckets_come_again_loses_none(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		world_init(seed);
		run_to(DIGEST_BUCKETS / 2);
		cut(10 * OUTRUN);
		for (int i = 0; i < 5; i++) {
			for (int n = 0; n < 5000 && w.reader.replica.since == 0; n++)
				step(NULL);
			for (uint64_t n = draw(8); n > 0 && w.reader.replica.since != 0; n--)
				step(NULL);
			if (w.reader.replica.since == 0)
				break;
			cut(draw(3) == 0 ? OUTRUN : (uint32_t)draw(500));
		}
		assert_true(w.cuts > 2);
		assert_false(w.anew);
		run_until_live();
		world_fini();
	}
}

static void a_cut_before_the_end_costs_one_bucket(void **state)
{
	(void)state;
	for (int again = 0; again < 2; again++) {
		uint64_t sent;

		world_init(7);
		for (int i = 0; i < 5000 && !lacks_end(); i++)
			step(lacks_end);
		assert_true(lacks_end());
		sent = w.sent;
		cut(again ? OUTRUN : 100);
		run_until_live();
		assert_false(w.anew);
		assert_true(w.sent - sent < whole_bytes() / (again ? 10 : 1000));
		world_fini();
	}
}

static void where_most_has_changed_all_comes_anew(void **state)
{
	(void)state;
	world_init(3);
	run_to(DIGEST_BUCKETS / 3);
	cut(DIGEST_BUCKETS);
	run_until_live();
	assert_true(w.anew);
	world_fini();
}

/* One that does not say that it understands is sent what it does. */
static void an_older_reader_begins_anew(void **state)
{
	struct log_frame f = { .type = LOG_FRAME_RESUME, .bucket = 5 }, got;
	uint8_t buf[LOG_FRAME_HEADER_BYTES];
	const uint8_t *frame;
	size_t len;

	(void)state;
	world_init(1);
	cut(4 * OUTRUN);
	f.epoch = log_epoch(w.log);
	f.seq = 1;
	for (int knows = 0; knows < 2; knows++) {
		f.n = knows ? LOG_RESUME_AGAIN : 0;
		log_frame_header_encode(buf, &f);
		assert_int_equal(feed_input(&w.feed, buf, sizeof(buf)), 0);
		assert_int_equal(feed_pull(&w.feed, 1, &frame, &len), 1);
		assert_int_equal(log_frame_decode(frame, len, &got), 0);
		assert_int_equal(got.type, LOG_FRAME_SNAPSHOT);
		assert_int_equal(got.bucket, knows ? 5 : 0);
		assert_int_equal(feed_pull(&w.feed, 1, &frame, &len), 1);
		assert_int_equal(log_frame_decode(frame, len, &got), 0);
		assert_int_equal(got.type, knows ? LOG_FRAME_CHANGED : LOG_FRAME_BUCKETS);
	}
	world_fini();
}

static void what_comes_again_must_be_what_was_said(void **state)
{
	uint64_t changed[DIGEST_SET_WORDS] = { 0x6 };
	struct log_record r[2] = { { .digest = key(1), .op = LOG_STORED },
		{ .digest = key(2), .op = LOG_STORED } };
	struct replica *p = &w.reader.replica;

	(void)state;
	for (int bad = 0; bad < 6; bad++) {
		int rc = 0;

		world_init(1);
		assert_int_equal(replica_snapshot_begin(p, 9, 0, 0), 0);
		assert_int_equal(replica_snapshot_buckets(p, 0, 9, r, 2), 0);
		/* not what it has, or of another log */
		if (bad == 0)
			rc = replica_snapshot_begin(p, 9, 100, 9);
		else if (bad == 1)
			rc = replica_snapshot_begin(p, 8, 100, 10);
		else
			assert_int_equal(replica_snapshot_begin(p, 9, 100, 10), 0);
		if (bad == 2) { /* nothing before it is said what changed */
			assert_int_equal(replica_events(p, 9, 101, r, 1), -EPROTO);
			assert_int_equal(replica_again(p, 100, 9, r, 1), -EPROTO);
			assert_int_equal(replica_snapshot_buckets(p, 100, 20, NULL, 0), -EPROTO);
			world_fini();
			continue;
		}
		changed[0] = bad == 3 ? 1 << 10 : 0x6;
		if (bad >= 3)
			rc = replica_changed(p, changed);
		if (bad > 3)
			assert_false(w.loading[1] || w.loading[2]);
		changed[0] = 0x4;
		if (bad == 4) /* one that is there */
			rc = replica_again(p, 100, 9,
				(struct log_record[]){ { .digest = key(3), .op = LOG_STORED } }, 1);
		if (bad == 5) { /* all of it, and then the next */
			assert_int_equal(rc, 0);
			assert_int_equal(replica_again(p, 100, 1, r, 1), 0);
			assert_int_equal(replica_snapshot_buckets(p, 100, 20, NULL, 0), -EPROTO);
			assert_int_equal(replica_again(p, 100, 9, r + 1, 1), 0);
			assert_true(w.loading[1] && w.loading[2]);
			assert_int_equal(replica_snapshot_buckets(p, 100, 20, NULL, 0), 0);
		} else {
			assert_int_equal(rc, -EPROTO);
			assert_int_equal(p->failed, 1);
			assert_int_equal(p->state, REPLICA_EMPTY);
		}
		world_fini();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_cut_many_times_is_sent_about_once),
		cmocka_unit_test(a_cut_while_buckets_come_again_loses_none),
		cmocka_unit_test(a_cut_before_the_end_costs_one_bucket),
		cmocka_unit_test(where_most_has_changed_all_comes_anew),
		cmocka_unit_test(an_older_reader_begins_anew),
		cmocka_unit_test(what_comes_again_must_be_what_was_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
