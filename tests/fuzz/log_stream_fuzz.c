/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/feed.h"
#include "control/log/reader.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Frames of a log's stream from a peer that means ill, to a reader and to a feed: memory stays in
 * bounds, and a reader that calls itself live has applied only records of its present generation.
 * An input is a row of frames, each after its length in two bytes.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		__builtin_trap();
}

struct sink {
	uint64_t swapped;
};

static int on_event(void *ctx, const struct log_record *r)
{
	(void)ctx;
	require(r->op == LOG_STORED || r->op == LOG_REMOVED);
	require(r->size <= LOG_SIZE_MAX && (r->flags & ~LOG_FLAGS) == 0);
	return 1;
}

static void on_swap(void *ctx, uint32_t first, uint32_t last)
{
	struct sink *s = ctx;

	require(first <= last && last < DIGEST_BUCKETS);
	s->swapped++;
}

static void on_drop(void *ctx)
{
	(void)ctx;
}

static void on_forget(void *ctx, const uint64_t *buckets)
{
	(void)ctx;
	(void)buckets;
}

static const struct replica_sink sink = { on_event, on_event, on_swap, on_drop, on_forget, NULL };

static void list_none(void *ctx, uint32_t bucket,
	void (*fn)(void *fn_ctx, const struct log_record *r), void *fn_ctx)
{
	const struct log_record r = { .digest = { (uint64_t)bucket << DIGEST_BUCKET_SHIFT, 1 },
		.op = LOG_STORED };

	(void)ctx;
	require(bucket < DIGEST_BUCKETS);
	if (bucket % 16 == 0)
		fn(fn_ctx, &r);
}

static void to_reader(const uint8_t *data, size_t size)
{
	uint8_t head[LOG_FRAME_HEADER_BYTES];
	struct sink s = { 0 };
	uint64_t now_ns = 1;
	struct reader r;

	if (reader_init(&r, &sink, &s, 1000, 1) < 0)
		return;
	reader_open(&r, now_ns);
	while (size >= 2) {
		size_t len = (size_t)data[0] | (size_t)data[1] << 8;

		data += 2;
		size -= 2;
		len = len < size ? len : size;
		now_ns += 500;
		if (reader_input(&r, data, len, now_ns) < 0) {
			reader_close(&r, now_ns);
			require(r.replica.state != REPLICA_LIVE);
			reader_open(&r, now_ns);
		}
		require(r.replica.state != REPLICA_LIVE || s.swapped > 0);
		for (int i = 0; i < 40 && reader_pull(&r, now_ns, head); i++)
			;
		data += len;
		size -= len;
	}
	reader_fini(&r);
}

/* outrun: the ring has not the first events any more. */
static void to_feed(const uint8_t *data, size_t size, bool outrun)
{
	struct log_config cfg = { .epoch = 7, .keep_ns = 1000, .max_bytes = 1 << 16 };
	struct log_record event = { .digest = { 1, 1 }, .op = LOG_STORED };
	struct log *log = log_create(&cfg);
	struct sums *sums = sums_create();
	struct feed_source source = { log, sums, list_none, NULL };
	const uint8_t *frame;
	struct gate gate;
	struct feed f;
	size_t n;

	if (log == NULL || sums == NULL)
		goto out;
	gate_init(&gate, 1, 1000, 1);
	feed_init(&f, &source, &gate);
	while (outrun && log_first(log) == 1)
		require(log_append(log, &event, 1) > 0);
	while (size >= 2) {
		size_t len = (size_t)data[0] | (size_t)data[1] << 8;

		data += 2;
		size -= 2;
		len = len < size ? len : size;
		(void)log_append(log, &event, 1);
		if (feed_input(&f, data, len) == -EPROTO)
			break;
		for (int i = 0; i < 4 && feed_pull(&f, 1, &frame, &n) > 0; i++) {
			struct log_frame out;

			require(log_frame_decode(frame, n, &out) == 0);
		}
		data += len;
		size -= len;
	}
	feed_fini(&f);
	require(gate.taken == 0);
out:
	sums_destroy(sums);
	log_destroy(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] % 2 == 0)
		to_reader(data + 1, size - 1);
	else
		to_feed(data + 1, size - 1, (data[0] & 2) != 0);
	return 0;
}
