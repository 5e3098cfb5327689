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
 * A site and a reader over an ordered stream with delay that is cut now and then; the site
 * restarts, forgets, and its log outruns the reader; the reader's store loses an event. By seed.
 */

enum { KEYS = 3000, QUEUE = 4096, MS = 1000000 };

struct flight {
	uint64_t at_ns;
	size_t len;
	uint8_t *buf;
};

struct queue {
	struct flight f[QUEUE];
	uint32_t head, n;
};

struct world {
	uint64_t seed, now;
	/* site */
	struct log *log;
	struct sums *sums;
	bool truth[KEYS];
	struct feed_source source;
	struct gate gate;
	struct feed feed;
	/* reader */
	struct reader reader;
	bool live[KEYS], loading[KEYS];
	bool lose_next;
	uint32_t swaps;
	/* between */
	bool connected;
	struct queue to_reader, to_site;
};

static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t draw(struct world *w, uint64_t n)
{
	return (w->seed = mix(w->seed)) % n;
}

/* The key's number can be told from its digest; buckets hold about three keys. */
static struct digest128 key(uint32_t n)
{
	return (struct digest128){ (uint64_t)(n * 7919 % 1000 * 65) << 48, n };
}

static int event(void *ctx, const struct log_record *r)
{
	struct world *w = ctx;
	bool want = r->op == LOG_STORED;

	if (w->live[r->digest.lo] == want)
		return 0;
	if (w->lose_next) {
		w->lose_next = false;
		return 0;
	}
	w->live[r->digest.lo] = want;
	return 1;
}

static int load(void *ctx, const struct log_record *r)
{
	struct world *w = ctx;
	bool want = r->op == LOG_STORED;

	if (w->loading[r->digest.lo] == want)
		return 0;
	w->loading[r->digest.lo] = want;
	return 1;
}

static void swap(void *ctx, uint32_t first, uint32_t last)
{
	struct world *w = ctx;

	for (uint32_t i = 0; i < KEYS; i++) {
		uint32_t b = digest_bucket(key(i));

		if (b < first || b > last)
			continue;
		w->live[i] = w->loading[i];
		w->loading[i] = false;
	}
	w->swaps += first == 0 && last == DIGEST_BUCKETS - 1;
}

static void drop(void *ctx)
{
	struct world *w = ctx;

	memset(w->loading, 0, sizeof(w->loading));
}

static void forget(void *ctx, const uint64_t *buckets)
{
	struct world *w = ctx;

	for (uint32_t i = 0; i < KEYS; i++)
		if (digest_set_has(buckets, digest_bucket(key(i))))
			w->loading[i] = false;
}

static const struct replica_sink sink = { event, load, swap, drop, forget, NULL };

static void list(void *ctx, uint32_t bucket, void (*fn)(void *, const struct log_record *),
	void *fn_ctx)
{
	struct world *w = ctx;

	if (bucket % 65 != 0)
		return;
	for (uint32_t i = 0; i < KEYS; i++) {
		struct log_record r = { .digest = key(i), .op = LOG_STORED };

		if (digest_bucket(r.digest) == bucket && w->truth[i])
			fn(fn_ctx, &r);
	}
}

static void site_start(struct world *w)
{
	struct log_config cfg = { .epoch = mix(w->seed) | 1,
		.keep_ns = UINT64_C(2000) * MS,
		.max_bytes = 3 * LOG_CHUNK_RECORDS * sizeof(struct log_record) };

	w->log = log_create(&cfg);
	w->sums = sums_create();
	assert_non_null(w->log);
	for (uint32_t i = 0; i < KEYS; i++)
		if (w->truth[i])
			sums_add(w->sums, key(i));
	w->source = (struct feed_source){ w->log, w->sums, list, w };
	gate_init(&w->gate, 1, MS, w->seed);
	feed_init(&w->feed, &w->source, &w->gate);
}

static void site_stop(struct world *w)
{
	feed_fini(&w->feed);
	log_destroy(w->log);
	sums_destroy(w->sums);
}

static void queue_clear(struct queue *q)
{
	while (q->n > 0) {
		free(q->f[q->head].buf);
		q->head = (q->head + 1) % QUEUE;
		q->n--;
	}
}

static void queue_put(struct world *w, struct queue *q, const uint8_t *buf, size_t len)
{
	struct flight *f = &q->f[(q->head + q->n++) % QUEUE];

	f->at_ns = w->now + 50 * MS;
	f->len = len;
	f->buf = malloc(len);
	memcpy(f->buf, buf, len);
}

static void cut(struct world *w)
{
	if (!w->connected)
		return;
	w->connected = false;
	queue_clear(&w->to_reader);
	queue_clear(&w->to_site);
	reader_close(&w->reader, w->now);
	feed_fini(&w->feed);
	feed_init(&w->feed, &w->source, &w->gate);
}

static void toggle(struct world *w, uint32_t n)
{
	struct log_record r = { .digest = key(n), .op = LOG_STORED };

	if (w->truth[n])
		r.op = LOG_REMOVED;
	w->truth[n] = !w->truth[n];
	if (r.op == LOG_STORED)
		sums_add(w->sums, r.digest);
	else
		sums_del(w->sums, r.digest);
	assert_true(log_append(w->log, &r, w->now) > 0);
}

static void deliver(struct world *w)
{
	while (w->connected && w->to_site.n > 0 && w->to_site.f[w->to_site.head].at_ns <= w->now) {
		struct flight f = w->to_site.f[w->to_site.head];

		w->to_site.head = (w->to_site.head + 1) % QUEUE;
		w->to_site.n--;
		assert_int_equal(feed_input(&w->feed, f.buf, f.len), 0);
		free(f.buf);
	}
	while (w->connected && w->to_reader.n > 0 &&
		w->to_reader.f[w->to_reader.head].at_ns <= w->now) {
		struct flight f = w->to_reader.f[w->to_reader.head];
		int ret;

		w->to_reader.head = (w->to_reader.head + 1) % QUEUE;
		w->to_reader.n--;
		ret = reader_input(&w->reader, f.buf, f.len, w->now);
		free(f.buf);
		if (ret < 0)
			cut(w);
	}
}

static void step(struct world *w)
{
	uint8_t ask[LOG_FRAME_HEADER_BYTES];
	const uint8_t *frame;
	size_t len;
	int ret = 0;

	w->now += 10 * MS;
	deliver(w);
	if (!w->connected && w->now >= reader_connect_ns(&w->reader)) {
		w->connected = true;
		reader_open(&w->reader, w->now);
	}
	while (w->connected && reader_pull(&w->reader, w->now, ask))
		queue_put(w, &w->to_site, ask, sizeof(ask));
	for (int i = 0; w->connected && i < 3 && w->to_reader.n < QUEUE; i++) {
		ret = feed_pull(&w->feed, w->now, &frame, &len);
		if (ret <= 0)
			break;
		queue_put(w, &w->to_reader, frame, len);
	}
	if (ret < 0)
		cut(w);
}

static void run(uint64_t seed, bool *drifted)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.now = 1;
	for (uint32_t i = 0; i < KEYS / 2; i++)
		w.truth[draw(&w, KEYS)] = true;
	site_start(&w);
	assert_int_equal(reader_init(&w.reader, &sink, &w, UINT64_C(600000) * MS, seed), 0);
	for (int i = 0; i < 3000; i++) {
		for (uint64_t n = draw(&w, 20); n > 0; n--)
			toggle(&w, (uint32_t)draw(&w, KEYS));
		step(&w);
		if (draw(&w, 300) == 0)
			cut(&w);
		if (draw(&w, 1000) == 0) { /* restart, some keys lost */
			cut(&w);
			site_stop(&w);
			for (uint64_t n = draw(&w, 500); n > 0; n--)
				w.truth[draw(&w, KEYS)] = false;
			site_start(&w);
		}
		if (draw(&w, 1000) == 0) { /* away for long */
			cut(&w);
			w.now += UINT64_C(10000) * MS;
			for (int n = 0; n < 6000; n++)
				toggle(&w, (uint32_t)draw(&w, KEYS));
		}
		if (draw(&w, 1000) == 0)
			w.lose_next = true;
		if (w.reader.replica.state == REPLICA_LIVE && draw(&w, 100) == 0)
			assert_true(w.swaps > 0);
	}
	w.lose_next = false;
	for (int i = 0; i < 3000; i++)
		step(&w);
	assert_int_equal(w.reader.replica.state, REPLICA_LIVE);
	assert_true(w.now - w.reader.current_ns < UINT64_C(1200) * MS);
	assert_memory_equal(w.live, w.truth, sizeof(w.live));
	assert_false(w.reader.comparing);
	*drifted |= w.reader.replica.repairs > 0;
	cut(&w);
	reader_fini(&w.reader);
	site_stop(&w);
}

static void reader_converges_to_the_site_whatever_happens_to_the_stream(void **state)
{
	bool drifted = false;

	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++)
		run(seed, &drifted);
	assert_true(drifted);
}

static void failed_snapshot_changes_nothing(void **state)
{
	static struct world w;
	struct log_record r = { .digest = key(5), .op = LOG_STORED };
	struct log_record other = { .digest = key(6), .op = LOG_STORED };
	struct sum good = { 0 }, bad = { 1, 1, 1 };
	struct replica *p = &w.reader.replica;

	(void)state;
	memset(&w, 0, sizeof(w));
	assert_int_equal(reader_init(&w.reader, &sink, &w, 1, 1), 0);
	sum_add(&good, r.digest);
	assert_int_equal(replica_snapshot_begin(p, 1, 0, 0), 0);
	assert_int_equal(replica_snapshot_buckets(p, 0, DIGEST_BUCKETS - 1, &r, 1), 0);
	assert_false(w.live[5]);
	assert_int_equal(replica_snapshot_end(p, &good), 0);
	assert_true(w.live[5]);
	assert_int_equal(p->state, REPLICA_LIVE);

	assert_int_equal(replica_snapshot_begin(p, 2, 0, 0), 0);
	assert_int_equal(replica_snapshot_buckets(p, 0, DIGEST_BUCKETS - 1, NULL, 0), 0);
	assert_int_equal(replica_snapshot_end(p, &bad), -EBADMSG);
	assert_true(w.live[5]);
	assert_int_equal(p->state, REPLICA_STALE);

	/* One that is cut off by the next leaves nothing to it. */
	assert_int_equal(replica_snapshot_begin(p, 3, 0, 0), 0);
	assert_int_equal(replica_snapshot_buckets(p, 0, DIGEST_BUCKETS - 1, &other, 1), 0);
	assert_int_equal(replica_snapshot_begin(p, 4, 0, 0), 0);
	assert_int_equal(replica_snapshot_buckets(p, 0, DIGEST_BUCKETS - 1, &r, 1), 0);
	assert_int_equal(replica_snapshot_end(p, &good), 0);
	assert_true(w.live[5] && !w.live[6]);

	/* An incomplete one, too, and one out of order. */
	memset(&good, 0, sizeof(good));
	assert_int_equal(replica_snapshot_begin(p, 3, 0, 0), 0);
	assert_int_equal(replica_snapshot_buckets(p, 0, 100, NULL, 0), 0);
	assert_int_equal(replica_snapshot_end(p, &good), -EBADMSG);
	assert_true(w.live[5]);
	assert_int_equal(replica_snapshot_begin(p, 4, 0, 0), 0);
	assert_int_equal(replica_snapshot_buckets(p, 0, 65000, NULL, 0), 0);
	assert_int_equal(replica_snapshot_buckets(p, 0, 64000, NULL, 0), -EPROTO);
	assert_int_equal(p->state, REPLICA_STALE);
	assert_true(w.live[5]);
	reader_fini(&w.reader);
}

static void hole_and_duplicate_are_told_apart(void **state)
{
	static struct world w;
	struct log_record r[2] = { { .digest = key(1), .op = LOG_STORED },
		{ .digest = key(2), .op = LOG_STORED } };
	struct replica *p = &w.reader.replica;
	struct sum zero = { 0 };

	(void)state;
	memset(&w, 0, sizeof(w));
	assert_int_equal(reader_init(&w.reader, &sink, &w, 1, 1), 0);
	assert_int_equal(replica_events(p, 1, 1, r, 1), -EPROTO);
	assert_int_equal(replica_snapshot_begin(p, 1, 0, 0), 0);
	assert_int_equal(replica_snapshot_buckets(p, 0, DIGEST_BUCKETS - 1, NULL, 0), 0);
	assert_int_equal(replica_snapshot_end(p, &zero), 0);
	assert_int_equal(replica_events(p, 1, 1, r, 1), 0);
	assert_int_equal(replica_events(p, 1, 1, r, 2), 0);
	assert_int_equal(p->duplicates, 1);
	assert_true(w.live[1] && w.live[2]);
	assert_int_equal(replica_events(p, 1, 4, r, 1), -ESTALE);
	assert_int_equal(p->state, REPLICA_STALE);
	assert_int_equal(replica_resumed(p, 1, 4), -EPROTO);
	assert_int_equal(replica_resumed(p, 1, 3), 0);
	assert_int_equal(p->state, REPLICA_LIVE);
	assert_int_equal(replica_events(p, 2, 3, r, 1), -EPROTO);
	reader_fini(&w.reader);
}

#define AT(n) ((uint64_t)(n) << 20) /* as exact as a frame tells it */

/* Of a reader at event 0 of an empty log; the site has heard what was asked at AT(asked). */
static int give(struct world *w, enum log_frame_type type, uint64_t seq, uint32_t n, uint32_t asked,
	uint32_t now)
{
	static uint8_t buf[LOG_FRAME_HEADER_BYTES + FEED_EVENTS * LOG_RECORD_BYTES];
	struct log_frame f = { .type = type, .epoch = 1, .seq = seq, .n = n, .asked = asked };

	if (type == LOG_FRAME_BUCKETS)
		f.bucket = DIGEST_BUCKETS - 1;
	log_frame_header_encode(buf, &f);
	for (uint32_t i = 0; i < n; i++) {
		struct log_record r = { .digest = key(i % KEYS), .op = LOG_STORED };

		log_record_encode(buf + LOG_FRAME_HEADER_BYTES + i * LOG_RECORD_BYTES, &r);
	}
	return reader_input(&w->reader, buf, log_frame_bytes(type, n), AT(now));
}

static void a_stream_that_goes_on_is_not_yet_complete(void **state)
{
	static struct world w;

	(void)state;
	memset(&w, 0, sizeof(w));
	assert_int_equal(reader_init(&w.reader, &sink, &w, UINT64_MAX / 2, 1), 0);
	reader_open(&w.reader, AT(1));
	assert_int_equal(give(&w, LOG_FRAME_SNAPSHOT, 0, 0, 1, 10), 0);
	assert_int_equal(give(&w, LOG_FRAME_BUCKETS, 0, 0, 2, 20), 0);
	assert_int_equal(give(&w, LOG_FRAME_END, 0, 0, 3, 30), 0);
	assert_int_equal(w.reader.current_ns, AT(3));
	reader_close(&w.reader, AT(40));
	reader_open(&w.reader, AT(50));
	assert_int_equal(give(&w, LOG_FRAME_RESUMED, 1, 0, 50, 60), 0);
	assert_int_equal(w.reader.replica.state, REPLICA_LIVE);
	assert_int_equal(w.reader.current_ns, AT(3));
	/* a full frame: more may be behind it */
	assert_int_equal(give(&w, LOG_FRAME_EVENTS, 1, FEED_EVENTS, 51, 70), 0);
	assert_int_equal(w.reader.current_ns, AT(3));
	assert_int_equal(give(&w, LOG_FRAME_EVENTS, 1 + FEED_EVENTS, 1, 52, 80), 0);
	assert_int_equal(w.reader.current_ns, AT(52));
	/* nothing was asked, then, on another connection, in the future */
	for (uint32_t asked = 0; asked < 100; asked += asked == 0 ? 48 : 52)
		assert_int_equal(give(&w, LOG_FRAME_EVENTS, 2 + FEED_EVENTS, 0, asked, 90), 0);
	assert_int_equal(w.reader.current_ns, AT(52));
	reader_fini(&w.reader);
}

/* The reader's questions go to the site at once; whether there were any. */
static bool ask(struct world *w, uint64_t now_ns)
{
	uint8_t buf[LOG_FRAME_HEADER_BYTES];
	bool any = false;

	while (reader_pull(&w->reader, now_ns, buf)) {
		assert_int_equal(feed_input(&w->feed, buf, sizeof(buf)), 0);
		any = true;
	}
	return any;
}

/* What the site sends now arrives at arrival_ns. Returns how many frames. */
static int answer(struct world *w, uint64_t now_ns, uint64_t arrival_ns)
{
	const uint8_t *frame;
	size_t len;
	int n = 0;

	for (; feed_pull(&w->feed, now_ns, &frame, &len) == 1; n++)
		assert_int_equal(reader_input(&w->reader, frame, len, arrival_ns), 0);
	return n;
}

/* A site, and a reader whose first question has reached it. */
static void asked(struct world *w, uint64_t begin)
{
	memset(w, 0, sizeof(*w));
	w->seed = 1;
	site_start(w);
	assert_int_equal(reader_init(&w->reader, &sink, w, UINT64_MAX / 2, 1), 0);
	reader_open(&w->reader, begin);
	assert_true(ask(w, begin));
}

static void what_the_line_held_back_is_not_taken_for_news(void **state)
{
	const uint64_t begin = UINT64_C(1) << 40, second = UINT64_C(1000) * MS;
	static struct world w;

	(void)state;
	asked(&w, begin);
	assert_true(answer(&w, begin, begin + second) > 0);
	assert_int_equal(w.reader.replica.state, REPLICA_LIVE);
	/* it left when the question came, and that was at once */
	assert_true(w.reader.current_ns <= begin && w.reader.current_ns + 2 * MS > begin);
	assert_true(ask(&w, begin + second));
	w.now = begin + second;
	toggle(&w, 1);
	assert_true(answer(&w, begin + second, begin + 9 * second) > 0);
	assert_true(w.reader.current_ns <= begin + second &&
		w.reader.current_ns + 2 * MS > begin + second);
	assert_true(w.live[1]);
	reader_close(&w.reader, begin + 9 * second);
	reader_fini(&w.reader);
	site_stop(&w);
}

static void who_asks_is_answered_at_once(void **state)
{
	const uint64_t begin = UINT64_C(1) << 40;
	static struct world w;

	(void)state;
	asked(&w, begin);
	assert_true(answer(&w, begin, begin) > 0);
	assert_false(ask(&w, begin + READER_ASK_NS - 1));
	/* the site's own progress left a moment ago */
	assert_int_equal(answer(&w, begin + READER_ASK_NS, begin + READER_ASK_NS), 1);
	assert_true(ask(&w, begin + READER_ASK_NS));
	assert_int_equal(answer(&w, begin + READER_ASK_NS, begin + READER_ASK_NS), 1);
	assert_int_equal(answer(&w, begin + READER_ASK_NS, begin + READER_ASK_NS), 0);
	assert_int_equal(w.reader.current_ns >> 20, (begin + READER_ASK_NS) >> 20);
	reader_close(&w.reader, begin + READER_ASK_NS);
	reader_fini(&w.reader);
	site_stop(&w);
}

static void an_event_of_a_bucket_to_come_is_left_to_it(void **state)
{
	static struct world w;
	/* in buckets 0 and 64,935 */
	struct log_record r[2] = { { .digest = key(0), .op = LOG_STORED },
		{ .digest = key(321), .op = LOG_STORED } };
	struct replica *p = &w.reader.replica;
	struct sum sum = { 0 };

	(void)state;
	memset(&w, 0, sizeof(w));
	assert_int_equal(digest_bucket(r[1].digest), 64935);
	assert_int_equal(reader_init(&w.reader, &sink, &w, 1, 1), 0);
	assert_int_equal(replica_snapshot_begin(p, 1, 0, 0), 0);
	assert_int_equal(replica_snapshot_buckets(p, 0, 1000, NULL, 0), 0);
	assert_int_equal(replica_events(p, 1, 1, r, 2), 0);
	assert_true(w.loading[0]);
	assert_false(w.loading[321]);
	assert_int_equal(replica_snapshot_buckets(p, 2, DIGEST_BUCKETS - 1, &r[1], 1), 0);
	sum_add(&sum, r[0].digest);
	sum_add(&sum, r[1].digest);
	assert_int_equal(replica_snapshot_end(p, &sum), 0);
	assert_true(w.live[0] && w.live[321]);
	reader_fini(&w.reader);
}

static void nothing_here(void *ctx, uint32_t bucket, void (*fn)(void *, const struct log_record *),
	void *fn_ctx)
{
	uint32_t *last = ctx;

	(void)fn;
	(void)fn_ctx;
	*last = bucket;
}

/* So a bucket's state is that of the event sent last. */
static void events_that_wait_leave_before_the_next_bucket(void **state)
{
	struct log_config cfg = { .epoch = 9, .keep_ns = UINT64_MAX, .max_bytes = 1 << 20 };
	struct log_record r = { .digest = key(1), .op = LOG_STORED };
	struct log_frame resume = { .type = LOG_FRAME_RESUME }, got;
	struct sums *sums = sums_create();
	uint8_t buf[LOG_FRAME_HEADER_BYTES];
	uint32_t last = 0;
	struct feed_source source = { log_create(&cfg), sums, nothing_here, &last };
	struct gate gate;
	struct feed feed;
	const uint8_t *frame;
	size_t len;

	(void)state;
	gate_init(&gate, 1, 1, 1);
	feed_init(&feed, &source, &gate);
	log_frame_header_encode(buf, &resume);
	assert_int_equal(feed_input(&feed, buf, sizeof(buf)), 0);
	assert_int_equal(feed_pull(&feed, 1, &frame, &len), 1);
	assert_int_equal(log_frame_decode(frame, len, &got), 0);
	assert_int_equal(got.type, LOG_FRAME_SNAPSHOT);
	assert_int_equal(log_append(source.log, &r, 1), 1);
	assert_int_equal(feed_pull(&feed, 1, &frame, &len), 1);
	assert_int_equal(log_frame_decode(frame, len, &got), 0);
	assert_int_equal(got.type, LOG_FRAME_EVENTS);
	assert_int_equal(feed_pull(&feed, 1, &frame, &len), 1);
	assert_int_equal(log_frame_decode(frame, len, &got), 0);
	assert_int_equal(got.type, LOG_FRAME_BUCKETS);
	assert_int_equal(got.seq, 1);
	assert_int_equal(got.bucket, last);
	feed_fini(&feed);
	log_destroy(source.log);
	sums_destroy(sums);
}

static void a_stream_heard_of_since_the_clock_was_read_is_not_silent(void **state)
{
	static struct world w;

	(void)state;
	memset(&w, 0, sizeof(w));
	assert_int_equal(reader_init(&w.reader, &sink, &w, UINT64_MAX / 2, 1), 0);
	reader_open(&w.reader, 2000);
	assert_false(reader_is_silent(&w.reader, 1000));
	assert_false(reader_is_silent(&w.reader, 1999 + READER_SILENCE_NS));
	assert_true(reader_is_silent(&w.reader, 2000 + READER_SILENCE_NS));
	reader_fini(&w.reader);
}

static void frame_of_wrong_length_or_unknown_type_is_refused(void **state)
{
	struct log_frame f = { .type = LOG_FRAME_EVENTS, .n = 2, .epoch = 3, .seq = 4 }, got;
	uint8_t buf[LOG_FRAME_HEADER_BYTES + 2 * LOG_RECORD_BYTES] = { 0 };

	(void)state;
	log_frame_header_encode(buf, &f);
	assert_int_equal(log_frame_decode(buf, sizeof(buf), &got), 0);
	assert_int_equal(got.seq, 4);
	assert_int_equal(log_frame_decode(buf, sizeof(buf) - 1, &got), -EPROTO);
	assert_int_equal(log_frame_decode(buf, 10, &got), -EPROTO);
	buf[0] = LOG_FRAME_TYPES;
	assert_int_equal(log_frame_decode(buf, sizeof(buf), &got), -EPROTO);
	f.n = UINT32_MAX;
	log_frame_header_encode(buf, &f);
	assert_int_equal(log_frame_decode(buf, sizeof(buf), &got), -EPROTO);
	f = (struct log_frame){ .type = LOG_FRAME_COMPARE, .bucket = 2, .n = DIGEST_BUCKETS };
	log_frame_header_encode(buf, &f);
	assert_int_equal(log_frame_decode(buf, LOG_FRAME_HEADER_BYTES, &got), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reader_converges_to_the_site_whatever_happens_to_the_stream),
		cmocka_unit_test(failed_snapshot_changes_nothing),
		cmocka_unit_test(hole_and_duplicate_are_told_apart),
		cmocka_unit_test(a_stream_that_goes_on_is_not_yet_complete),
		cmocka_unit_test(what_the_line_held_back_is_not_taken_for_news),
		cmocka_unit_test(who_asks_is_answered_at_once),
		cmocka_unit_test(an_event_of_a_bucket_to_come_is_left_to_it),
		cmocka_unit_test(events_that_wait_leave_before_the_next_bucket),
		cmocka_unit_test(a_stream_heard_of_since_the_clock_was_read_is_not_silent),
		cmocka_unit_test(frame_of_wrong_length_or_unknown_type_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
