/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/frame.h"

#include "dataplane/transport/bytes.h"
#include "tools/link/prng.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct frame_open example_open = {
	.transfer = 7,
	.order = 0x0102030405060708,
	.stream_bytes = 5000000,
	.manifest_bytes = 300,
	.objects = 3,
	.symbol_bytes = 1432,
	.class_ = STRAIT_CLASS_NORMAL,
	.report_interval_us = 25000,
	.deadline_ms = 1760000000000,
};
static const struct frame_report example_report = {
	.queue = 5,
	.newest = 70000,
	.newest_us = 123456789,
	.delay_us = 250,
	.base = 69000,
};

/* Reads any frame to its end; 0 or the error. Values out of range fail the test. */
static int walk(const struct frame *f)
{
	struct frame_open open;
	struct frame_status status;
	struct frame_report report;
	struct frame_have have;
	struct frame_need need;
	struct frame_credit credit;
	struct frame_objects objects;
	struct frame_object_ack ack;
	uint64_t cursor = 0, low, high, token, below = UINT64_MAX;
	uint32_t a, b, n = 0, count;
	uint8_t s;
	int r = 0;

	switch (f->type) {
	case STRAIT_FRAME_OPEN:
		return frame_get_open(f, &open);
	case STRAIT_FRAME_OPEN_ACK:
	case STRAIT_FRAME_CLOSE:
		return frame_get_status(f, &status);
	case STRAIT_FRAME_CLOSE_ACK:
		return frame_get_close_ack(f, &a);
	case STRAIT_FRAME_REPORT:
		r = frame_get_report(f, &report);
		if (r != 0)
			return r;
		count = report.count;
		for (cursor = report.base; frame_report_next(&report, &cursor, &low, &high); n++) {
			assert_true(low <= high && high < below);
			below = low;
		}
		assert_int_equal(n, count);
		return 0;
	case STRAIT_FRAME_HAVE:
		r = frame_get_have(f, &have);
		if (r != 0)
			return r;
		count = have.count;
		for (cursor = have.floor; frame_have_next(&have, &cursor, &a, &b); n++) {
			assert_true(a > have.floor && b >= 1);
			assert_true((uint64_t)a + b == cursor && cursor <= UINT32_MAX);
		}
		assert_int_equal(n, count);
		return 0;
	case STRAIT_FRAME_NEED:
		r = frame_get_need(f, &need);
		if (r != 0)
			return r;
		count = need.count;
		for (below = 0; frame_need_next(&need, &cursor, &a, &b); n++) {
			assert_true(n == 0 || a > below);
			assert_in_range(b, 1, STRAIT_BLOCK_SYMBOLS_MAX);
			below = a;
		}
		assert_int_equal(n, count);
		return 0;
	case STRAIT_FRAME_CREDIT:
		return frame_get_credit(f, &credit);
	case STRAIT_FRAME_OBJECT:
	case STRAIT_FRAME_WITHDRAW:
		r = frame_get_objects(f, &objects);
		if (r != 0)
			return r;
		for (count = objects.count; frame_objects_next(&objects, &a, &s); n++)
			assert_true(a < STRAIT_TRANSFER_OBJECTS_MAX);
		assert_int_equal(n, count);
		return 0;
	case STRAIT_FRAME_OBJECT_ACK:
		return frame_get_object_ack(f, &ack);
	case STRAIT_FRAME_CHALLENGE:
	case STRAIT_FRAME_RESPONSE:
		return frame_get_token(f, &token);
	case STRAIT_FRAME_PING:
		return frame_get_ping(f, &a);
	case STRAIT_FRAME_RECALL:
		return frame_get_recall(f, &token);
	}
	return 0;
}

/* One of each frame; returns the bytes. */
static size_t write_examples(uint8_t *buf, size_t cap)
{
	const struct frame_credit credit = { STRAIT_CLASS_BULK, 1ULL << 40, 99 };
	struct frame_writer w;
	uint32_t previous = 0;

	frame_writer_init(&w, buf, cap);
	assert_int_equal(frame_put_open(&w, &example_open), 0);
	assert_int_equal(frame_put_open_ack(&w, 7, 11), 0);
	assert_int_equal(frame_report_begin(&w, &example_report), 0);
	assert_int_equal(frame_report_range(&w, 1, 1), 0);
	assert_int_equal(frame_report_range(&w, 60000, 20), 0);
	assert_int_equal(frame_report_range(&w, 100, 0), 0);
	assert_int_equal(frame_list_end(&w), 3);
	assert_int_equal(frame_have_begin(&w, 7, STRAIT_STREAM_MANIFEST, 12), 0);
	assert_int_equal(frame_have_run(&w, 1, 3), 0);
	assert_int_equal(frame_have_run(&w, 70, 20000), 0);
	assert_int_equal(frame_list_end(&w), 2);
	assert_int_equal(frame_need_begin(&w, 7, STRAIT_STREAM_OBJECTS, 70001), 0);
	assert_int_equal(frame_need_block(&w, &previous, 0, 1), 0);
	assert_int_equal(frame_need_block(&w, &previous, 1, 128), 0);
	assert_int_equal(frame_need_block(&w, &previous, 500000, 3), 0);
	assert_int_equal(frame_list_end(&w), 3);
	assert_int_equal(frame_put_credit(&w, &credit), 0);
	assert_int_equal(frame_object_begin(&w, 7, 2), 0);
	assert_int_equal(frame_objects_item(&w, 0, 1), 0);
	assert_int_equal(frame_objects_item(&w, 65535, 16), 0);
	assert_int_equal(frame_list_end(&w), 2);
	assert_int_equal(frame_put_object_ack(&w, 7, 4), 0);
	assert_int_equal(frame_withdraw_begin(&w, 7), 0);
	assert_int_equal(frame_objects_item(&w, 2, 4), 0);
	assert_int_equal(frame_list_end(&w), 1);
	assert_int_equal(frame_put_close(&w, 7, 8), 0);
	assert_int_equal(frame_put_close_ack(&w, 7), 0);
	assert_int_equal(frame_put_token(&w, STRAIT_FRAME_CHALLENGE, 0x1122334455667788), 0);
	assert_int_equal(frame_put_token(&w, STRAIT_FRAME_RESPONSE, 0x8877665544332211), 0);
	assert_int_equal(frame_put_ping(&w, 10000), 0);
	assert_int_equal(frame_put_recall(&w, 0x123456789a), 0);
	return w.len;
}

static void take(struct frame_reader *r, struct frame *f, uint8_t type)
{
	assert_int_equal(frame_next(r, f), 1);
	assert_int_equal(f->type, type);
}

static void transfers_survive_a_round_trip(void **state)
{
	uint8_t buf[1000];
	struct frame_reader r;
	struct frame f;
	struct frame_open open;
	struct frame_status status;

	(void)state;
	frame_reader_init(&r, buf, write_examples(buf, sizeof(buf)));
	take(&r, &f, STRAIT_FRAME_OPEN);
	assert_int_equal(f.len, STRAIT_FRAME_OPEN_BYTES);
	assert_int_equal(frame_get_open(&f, &open), 0);
	assert_int_equal(open.transfer, example_open.transfer);
	assert_true(open.order == example_open.order);
	assert_true(open.stream_bytes == example_open.stream_bytes);
	assert_int_equal(open.manifest_bytes, example_open.manifest_bytes);
	assert_int_equal(open.objects, example_open.objects);
	assert_int_equal(open.symbol_bytes, example_open.symbol_bytes);
	assert_int_equal(open.class_, example_open.class_);
	assert_int_equal(open.report_interval_us, example_open.report_interval_us);
	assert_true(open.deadline_ms == example_open.deadline_ms);
	take(&r, &f, STRAIT_FRAME_OPEN_ACK);
	assert_int_equal(frame_get_status(&f, &status), 0);
	assert_int_equal(status.transfer, 7);
	assert_int_equal(status.status, 11);
}

static void lists_survive_a_round_trip(void **state)
{
	uint8_t buf[1000];
	struct frame_reader r;
	struct frame f;
	struct frame_report report;
	struct frame_have have;
	struct frame_need need;
	uint64_t cursor, low, high;
	uint32_t a, b;

	(void)state;
	frame_reader_init(&r, buf, write_examples(buf, sizeof(buf)));
	take(&r, &f, STRAIT_FRAME_OPEN);
	take(&r, &f, STRAIT_FRAME_OPEN_ACK);

	take(&r, &f, STRAIT_FRAME_REPORT);
	assert_int_equal(frame_get_report(&f, &report), 0);
	assert_int_equal(report.queue, 5);
	assert_true(report.newest == 70000 && report.newest_us == 123456789);
	assert_int_equal(report.delay_us, 250);
	cursor = report.base;
	assert_true(frame_report_next(&report, &cursor, &low, &high));
	assert_true(low == 69000 && high == 69000);
	assert_true(frame_report_next(&report, &cursor, &low, &high));
	assert_true(low == 8999 && high == 68998);
	assert_true(frame_report_next(&report, &cursor, &low, &high));
	assert_true(low == 8879 && high == 8978);
	assert_false(frame_report_next(&report, &cursor, &low, &high));

	take(&r, &f, STRAIT_FRAME_HAVE);
	assert_int_equal(frame_get_have(&f, &have), 0);
	assert_int_equal(have.stream, STRAIT_STREAM_MANIFEST);
	cursor = have.floor;
	assert_true(frame_have_next(&have, &cursor, &a, &b));
	assert_true(a == 13 && b == 3);
	assert_true(frame_have_next(&have, &cursor, &a, &b));
	assert_true(a == 86 && b == 20000);
	assert_false(frame_have_next(&have, &cursor, &a, &b));

	take(&r, &f, STRAIT_FRAME_NEED);
	assert_int_equal(frame_get_need(&f, &need), 0);
	assert_true(need.newest == 70001);
	cursor = 0;
	assert_true(frame_need_next(&need, &cursor, &a, &b));
	assert_true(a == 0 && b == 1);
	assert_true(frame_need_next(&need, &cursor, &a, &b));
	assert_true(a == 1 && b == 128);
	assert_true(frame_need_next(&need, &cursor, &a, &b));
	assert_true(a == 500000 && b == 3);
	assert_false(frame_need_next(&need, &cursor, &a, &b));
}

static void small_frames_survive_a_round_trip(void **state)
{
	uint8_t buf[1000], s;
	struct frame_reader r;
	struct frame f;
	struct frame_credit credit;
	struct frame_objects objects;
	struct frame_object_ack ack;
	struct frame_status status;
	uint64_t token;
	uint32_t n;

	(void)state;
	frame_reader_init(&r, buf, write_examples(buf, sizeof(buf)));
	do
		assert_int_equal(frame_next(&r, &f), 1);
	while (f.type != STRAIT_FRAME_CREDIT);
	assert_int_equal(frame_get_credit(&f, &credit), 0);
	assert_int_equal(credit.class_, STRAIT_CLASS_BULK);
	assert_true(credit.bytes == 1ULL << 40 && credit.objects == 99);
	take(&r, &f, STRAIT_FRAME_OBJECT);
	assert_int_equal(frame_get_objects(&f, &objects), 0);
	assert_int_equal(objects.first, 2);
	assert_true(frame_objects_next(&objects, &n, &s));
	assert_true(n == 0 && s == 1);
	assert_true(frame_objects_next(&objects, &n, &s));
	assert_true(n == 65535 && s == 16);
	assert_false(frame_objects_next(&objects, &n, &s));
	take(&r, &f, STRAIT_FRAME_OBJECT_ACK);
	assert_int_equal(frame_get_object_ack(&f, &ack), 0);
	assert_true(ack.transfer == 7 && ack.next == 4);
	take(&r, &f, STRAIT_FRAME_WITHDRAW);
	assert_int_equal(frame_get_objects(&f, &objects), 0);
	assert_true(frame_objects_next(&objects, &n, &s));
	assert_true(objects.transfer == 7 && n == 2 && s == 4);
	take(&r, &f, STRAIT_FRAME_CLOSE);
	assert_int_equal(frame_get_status(&f, &status), 0);
	assert_int_equal(status.status, 8);
	take(&r, &f, STRAIT_FRAME_CLOSE_ACK);
	assert_int_equal(frame_get_close_ack(&f, &n), 0);
	assert_int_equal(n, 7);
	take(&r, &f, STRAIT_FRAME_CHALLENGE);
	assert_int_equal(frame_get_token(&f, &token), 0);
	assert_true(token == 0x1122334455667788);
	take(&r, &f, STRAIT_FRAME_RESPONSE);
	take(&r, &f, STRAIT_FRAME_PING);
	assert_int_equal(frame_get_ping(&f, &n), 0);
	assert_int_equal(n, 10000);
	take(&r, &f, STRAIT_FRAME_RECALL);
	assert_int_equal(frame_get_recall(&f, &token), 0);
	assert_true(token == 0x123456789a);
	assert_int_equal(frame_next(&r, &f), 0);
}

static void every_truncation_is_refused(void **state)
{
	uint8_t buf[1000];
	size_t total = write_examples(buf, sizeof(buf));
	struct frame_reader all;
	struct frame whole, f;

	(void)state;
	frame_reader_init(&all, buf, total);
	while (frame_next(&all, &whole) == 1) {
		assert_int_equal(walk(&whole), 0);
		for (uint16_t n = 0; n < whole.len; n++) {
			/* Exactly as many bytes as given, so that a sanitizer sees an overrun. */
			uint8_t *cut = malloc(STRAIT_FRAME_HEADER_BYTES + n);
			struct frame_reader r;

			assert_non_null(cut);
			memcpy(cut, whole.body - STRAIT_FRAME_HEADER_BYTES,
				STRAIT_FRAME_HEADER_BYTES + n);
			frame_reader_init(&r, cut, STRAIT_FRAME_HEADER_BYTES + n);
			assert_int_equal(frame_next(&r, &f), -EPROTO);
			put_be16(cut + 1, n); /* a frame that is too short in itself */
			assert_int_equal(frame_next(&r, &f), 1);
			assert_int_equal(walk(&f), -EPROTO);
			free(cut);
		}
	}
	for (size_t n = 1; n < STRAIT_FRAME_HEADER_BYTES; n++) {
		frame_reader_init(&all, buf, n);
		assert_int_equal(frame_next(&all, &f), -EPROTO);
	}
}

static void trailing_bytes_in_a_body_are_refused(void **state)
{
	uint8_t buf[1000], longer[1000];
	struct frame_reader all;
	struct frame f;

	(void)state;
	frame_reader_init(&all, buf, write_examples(buf, sizeof(buf)));
	while (frame_next(&all, &f) == 1) {
		memcpy(longer, f.body, f.len);
		longer[f.len] = 1;
		f.body = longer;
		f.len++;
		assert_int_equal(walk(&f), -EPROTO);
	}
}

static void writers_never_overrun_and_fail_whole(void **state)
{
	uint8_t full[1000], *buf;
	size_t total = write_examples(full, sizeof(full));
	const struct frame_credit credit = { 0, 1, 1 };

	(void)state;
	for (size_t cap = 0; cap < total; cap++) {
		struct frame_writer w;
		size_t before;

		buf = malloc(cap + 1);
		assert_non_null(buf);
		frame_writer_init(&w, buf, cap);
		if (frame_report_begin(&w, &example_report) == 0) {
			int r = 0;

			for (int i = 0; i < 400 && r == 0; i++) {
				before = w.len;
				r = frame_report_range(&w, 100, 100);
			}
			if (r != 0)
				assert_int_equal(w.len, before);
			frame_list_end(&w);
		} else {
			assert_int_equal(w.len, 0);
		}
		before = w.len;
		if (frame_put_open(&w, &example_open) != 0)
			assert_int_equal(w.len, before);
		before = w.len;
		if (frame_put_credit(&w, &credit) != 0)
			assert_int_equal(w.len, before);
		assert_true(w.len <= cap);
		free(buf);
	}
}

static void lists_stop_at_their_largest_count(void **state)
{
	static uint8_t buf[70000];
	struct frame_reader reader;
	struct frame_writer w;
	struct frame_have have;
	struct frame f;
	uint32_t n = 0;

	(void)state;
	frame_writer_init(&w, buf, sizeof(buf));
	assert_int_equal(frame_have_begin(&w, 1, 0, 0), 0);
	while (frame_have_run(&w, 1, 1) == 0)
		n++;
	assert_int_equal(n, 16383);
	assert_int_equal(frame_list_end(&w), n);
	frame_reader_init(&reader, buf, w.len);
	assert_int_equal(frame_next(&reader, &f), 1);
	assert_int_equal(frame_get_have(&f, &have), 0);
	assert_int_equal(have.count, n);
	/* And at a body of 65535 bytes. */
	frame_writer_init(&w, buf, sizeof(buf));
	assert_int_equal(frame_have_begin(&w, 1, 0, 0), 0);
	while (frame_have_run(&w, 20000, 20000) == 0)
		;
	assert_in_range(w.len, 65528, 65538);
}

static void varints_follow_rfc_9000(void **state)
{
	/* The examples of RFC 9000 appendix A.1. */
	static const uint8_t a[] = { 0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c };
	static const uint8_t b[] = { 0x9d, 0x7f, 0x3e, 0x7d }, c[] = { 0x7b, 0xbd }, d[] = { 0x25 },
			     e[] = { 0x40, 0x25 };
	static const struct {
		const uint8_t *bytes;
		size_t size;
		uint64_t value;
		bool shortest;
	} examples[] = {
		{ a, 8, 151288809941952652, true },
		{ b, 4, 494878333, true },
		{ c, 2, 15293, true },
		{ d, 1, 37, true },
		{ e, 2, 37, false },
	};
	uint8_t out[8];
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		const uint8_t *p = examples[i].bytes;

		for (size_t n = 0; n < examples[i].size; n++)
			assert_int_equal(varint_get(&p, examples[i].bytes + n, &v), -EPROTO);
		assert_ptr_equal(p, examples[i].bytes);
		assert_int_equal(varint_get(&p, p + examples[i].size, &v), 0);
		assert_true(v == examples[i].value);
		assert_ptr_equal(p, examples[i].bytes + examples[i].size);
		if (!examples[i].shortest)
			continue;
		assert_int_equal(varint_put(out, v), examples[i].size);
		assert_memory_equal(out, examples[i].bytes, examples[i].size);
	}
	for (unsigned shift = 0; shift < 62; shift++) {
		for (int delta = -1; delta <= 1; delta++) {
			uint64_t value = (1ULL << shift) + (uint64_t)delta;
			const uint8_t *p = out;
			size_t n = varint_put(out, value);

			assert_int_equal(n, varint_size(value));
			assert_int_equal(varint_get(&p, out + n, &v), 0);
			assert_true(v == value);
		}
	}
}

static int check_open(const struct frame_open *o)
{
	uint8_t buf[64];
	struct frame_writer w;
	struct frame_reader r;
	struct frame_open got;
	struct frame f;

	frame_writer_init(&w, buf, sizeof(buf));
	assert_int_equal(frame_put_open(&w, o), 0);
	frame_reader_init(&r, buf, w.len);
	assert_int_equal(frame_next(&r, &f), 1);
	return frame_get_open(&f, &got);
}

static void open_limits_are_enforced(void **state)
{
	struct frame_open o = example_open;

	(void)state;
	assert_int_equal(check_open(&o), 0);
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		o = example_open;                                                                  \
		o.field = (value);                                                                 \
		assert_int_equal(check_open(&o), -EPROTO);                                         \
	} while (0)
	REFUSED(symbol_bytes, STRAIT_SYMBOL_BYTES_MIN - 1);
	REFUSED(symbol_bytes, STRAIT_SYMBOL_BYTES_MAX + 1);
	REFUSED(class_, STRAIT_CLASS_COUNT);
	REFUSED(objects, 0);
	REFUSED(objects, STRAIT_TRANSFER_OBJECTS_MAX + 1);
	REFUSED(stream_bytes, 0);
	REFUSED(stream_bytes, 2);
	REFUSED(stream_bytes, 3ULL * STRAIT_OBJECT_BYTES_MAX + 1);
	REFUSED(stream_bytes, UINT64_MAX);
	REFUSED(manifest_bytes, 0);
	REFUSED(manifest_bytes, 62);
	REFUSED(manifest_bytes, 3 * 1108 + 1);
	REFUSED(manifest_bytes, UINT32_MAX);
#undef REFUSED
	o = example_open;
	o.objects = 65536;
	o.stream_bytes = 65536;
	o.manifest_bytes = STRAIT_MANIFEST_BYTES_MAX;
	assert_int_equal(check_open(&o), 0);
	o.manifest_bytes++;
	assert_int_equal(check_open(&o), -EPROTO);
}

/* A list frame with given raw entries. */
static struct frame raw(uint8_t type, uint8_t *buf, size_t fixed, const char *entries, size_t n)
{
	memcpy(buf + fixed, entries, n);
	return (struct frame){ .type = type, .len = (uint16_t)(fixed + n), .body = buf };
}

static void impossible_lists_are_refused(void **state)
{
	uint8_t buf[64];
	struct frame f;

	(void)state;
	memset(buf, 0, sizeof(buf));
	buf[9] = 9;  /* newest */
	buf[29] = 9; /* base: ten numbers, 0 to 9 */
	f = raw(STRAIT_FRAME_REPORT, buf, 30, "\x01\x09\x00", 3);
	assert_int_equal(walk(&f), 0); /* 0..9 */
	f = raw(STRAIT_FRAME_REPORT, buf, 30, "\x01\x0a\x00", 3);
	assert_int_equal(walk(&f), -EPROTO); /* -1..9 */
	f = raw(STRAIT_FRAME_REPORT, buf, 30, "\x01\x04\x05", 3);
	assert_int_equal(walk(&f), 0); /* 5..9, without 0..4 */
	f = raw(STRAIT_FRAME_REPORT, buf, 30, "\x01\x04\x06", 3);
	assert_int_equal(walk(&f), -EPROTO);
	f = raw(STRAIT_FRAME_REPORT, buf, 30, "\x02\x04\x05\x00\x00", 5);
	assert_int_equal(walk(&f), -EPROTO); /* nothing is left below */
	f = raw(STRAIT_FRAME_REPORT, buf, 30, "\x02\x04\x04\x00\x00", 5);
	assert_int_equal(walk(&f), 0);
	f = raw(STRAIT_FRAME_REPORT, buf, 30, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
	assert_int_equal(walk(&f), -EPROTO); /* a count the body cannot hold */
	buf[29] = 10;
	f = raw(STRAIT_FRAME_REPORT, buf, 30, "\x00", 1);
	assert_int_equal(walk(&f), -EPROTO); /* base above newest */

	memset(buf, 0, sizeof(buf));
	f = raw(STRAIT_FRAME_HAVE, buf, 9, "\x01\x00\x01", 3);
	assert_int_equal(walk(&f), -EPROTO); /* gap 0 */
	f = raw(STRAIT_FRAME_HAVE, buf, 9, "\x01\x01\x00", 3);
	assert_int_equal(walk(&f), -EPROTO); /* run 0 */
	memset(buf + 5, 0xff, 4);
	f = raw(STRAIT_FRAME_HAVE, buf, 9, "\x01\x01\x01", 3);
	assert_int_equal(walk(&f), -EPROTO); /* past the last block */
	buf[4] = STRAIT_STREAM_COUNT;
	f = raw(STRAIT_FRAME_HAVE, buf, 9, "\x00", 1);
	assert_int_equal(walk(&f), -EPROTO);

	memset(buf, 0, sizeof(buf));
	f = raw(STRAIT_FRAME_NEED, buf, 13, "\x02\x05\x01\x00\x01", 5);
	assert_int_equal(walk(&f), -EPROTO); /* a block twice */
	f = raw(STRAIT_FRAME_NEED, buf, 13, "\x01\x05\x00", 3);
	assert_int_equal(walk(&f), -EPROTO); /* nothing missing */
	f = raw(STRAIT_FRAME_NEED, buf, 13, "\x01\x05\x40\x81", 4);
	assert_int_equal(walk(&f), -EPROTO); /* 129 missing */
	f = raw(STRAIT_FRAME_NEED, buf, 13, "\x01\xc0\x00\x00\x01\x00\x00\x00\x00\x01", 10);
	assert_int_equal(walk(&f), -EPROTO); /* block 2^32 */

	f = raw(STRAIT_FRAME_OBJECT, buf, 8, "\x01\x80\x01\x00\x00\x01", 6);
	assert_int_equal(walk(&f), -EPROTO); /* object 65536 */
	memset(buf + 4, 0xff, 4);
	f = raw(STRAIT_FRAME_OBJECT, buf, 8, "\x01\x01\x01", 3);
	assert_int_equal(walk(&f), -EPROTO); /* log position 2^32 */

	buf[0] = STRAIT_CLASS_COUNT;
	f = raw(STRAIT_FRAME_CREDIT, buf, 17, "", 0);
	assert_int_equal(walk(&f), -EPROTO);
}

static void wrong_arguments_of_writers_are_refused(void **state)
{
	uint8_t buf[200];
	struct frame_writer w;
	uint32_t previous = 0;

	(void)state;
	frame_writer_init(&w, buf, sizeof(buf));
	assert_int_equal(frame_report_begin(&w, &example_report), 0);
	assert_int_equal(frame_report_range(&w, 0, 1), -EINVAL);
	assert_int_equal(frame_report_range(&w, 1, 1ULL << 62), -EINVAL);
	frame_list_end(&w);
	assert_int_equal(frame_have_begin(&w, 1, 0, 0), 0);
	assert_int_equal(frame_have_run(&w, 0, 1), -EINVAL);
	assert_int_equal(frame_have_run(&w, 1, 0), -EINVAL);
	frame_list_end(&w);
	assert_int_equal(frame_need_begin(&w, 1, 0, 0), 0);
	assert_int_equal(frame_need_block(&w, &previous, 3, 0), -EINVAL);
	assert_int_equal(frame_need_block(&w, &previous, 3, 129), -EINVAL);
	assert_int_equal(frame_need_block(&w, &previous, 3, 1), 0);
	assert_int_equal(frame_need_block(&w, &previous, 3, 1), -EINVAL);
	frame_list_end(&w);
	assert_int_equal(frame_withdraw_begin(&w, 1), 0);
	assert_int_equal(frame_objects_item(&w, STRAIT_TRANSFER_OBJECTS_MAX, 0), -EINVAL);
	assert_int_equal(frame_list_end(&w), 0);
	assert_int_equal(frame_put_token(&w, STRAIT_FRAME_PING, 0), -EINVAL);
}

static void unknown_frames_are_skipped(void **state)
{
	static const uint8_t buf[] = { 200, 0, 2, 1, 2, 0, 0, 0, STRAIT_FRAME_PING, 0, 4, 0, 0, 0,
		9 };
	struct frame_reader r;
	struct frame f;

	(void)state;
	frame_reader_init(&r, buf, sizeof(buf));
	take(&r, &f, 200);
	assert_int_equal(f.len, 2);
	take(&r, &f, 0);
	take(&r, &f, STRAIT_FRAME_PING);
	assert_int_equal(frame_next(&r, &f), 0);
}

static void mutated_and_random_bytes_are_read_safely(void **state)
{
	uint8_t good[1000];
	size_t total = write_examples(good, sizeof(good));
	struct prng rnd;

	(void)state;
	prng_init(&rnd, 1, 0);
	for (int round = 0; round < 30000; round++) {
		size_t len = round % 2 ? total : prng_below(&rnd, 200);
		uint8_t *buf = malloc(len + 1);
		struct frame_reader r;
		struct frame f;

		assert_non_null(buf);
		for (size_t i = 0; i < len; i++)
			buf[i] = round % 2 ? good[i] : (uint8_t)prng_next(&rnd);
		for (uint64_t n = 1 + prng_below(&rnd, 6); len > 0 && n > 0; n--)
			buf[prng_below(&rnd, len)] = (uint8_t)prng_next(&rnd);
		if (round % 2 == 0 && len >= 3) {
			buf[0] = (uint8_t)prng_below(&rnd, 16);
			put_be16(buf + 1, (uint16_t)(len - 3));
		}
		frame_reader_init(&r, buf, len);
		while (frame_next(&r, &f) == 1)
			walk(&f);
		free(buf);
	}
}

static void padding_fills_a_packet_to_the_byte(void **state)
{
	uint8_t buf[1500];
	struct frame_writer w;
	struct frame_reader r;
	struct frame f;

	(void)state;
	memset(buf, 0xee, sizeof(buf));
	frame_writer_init(&w, buf, 1432);
	assert_int_equal(frame_put_ping(&w, 7), 0);
	assert_int_equal(frame_put_padding(&w, w.len + 2), -EINVAL);
	assert_int_equal(frame_put_padding(&w, 1433), -ENOSPC);
	assert_int_equal(frame_put_padding(&w, 1432), 0);
	assert_int_equal(w.len, 1432);
	assert_int_equal(buf[1432], 0xee);
	frame_reader_init(&r, buf, w.len);
	take(&r, &f, STRAIT_FRAME_PING);
	take(&r, &f, STRAIT_FRAME_PADDING);
	assert_int_equal(f.len, 1432 - 7 - 3);
	for (size_t i = 0; i < f.len; i++)
		assert_int_equal(f.body[i], 0);
	assert_int_equal(frame_next(&r, &f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(transfers_survive_a_round_trip),
		cmocka_unit_test(lists_survive_a_round_trip),
		cmocka_unit_test(small_frames_survive_a_round_trip),
		cmocka_unit_test(padding_fills_a_packet_to_the_byte),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(trailing_bytes_in_a_body_are_refused),
		cmocka_unit_test(writers_never_overrun_and_fail_whole),
		cmocka_unit_test(lists_stop_at_their_largest_count),
		cmocka_unit_test(varints_follow_rfc_9000),
		cmocka_unit_test(open_limits_are_enforced),
		cmocka_unit_test(impossible_lists_are_refused),
		cmocka_unit_test(wrong_arguments_of_writers_are_refused),
		cmocka_unit_test(unknown_frames_are_skipped),
		cmocka_unit_test(mutated_and_random_bytes_are_read_safely),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
