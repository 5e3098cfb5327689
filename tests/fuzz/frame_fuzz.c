/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/frame.h"

#include <string.h>

/*
 * Any payload of a control packet: every frame is read by its getter and iterator, and what was
 * read must be in order and in bounds.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		__builtin_trap();
}

static void read_report(const struct frame *f)
{
	uint64_t cursor, low, high, below;
	struct frame_report r;
	uint32_t n = 0, count;

	if (frame_get_report(f, &r) != 0)
		return;
	count = r.count;
	cursor = r.base;
	below = r.newest + 1;
	for (; frame_report_next(&r, &cursor, &low, &high); n++) {
		require(low <= high && high < below);
		below = low;
	}
	require(n == count);
}

static void read_have(const struct frame *f)
{
	uint32_t first, run, n = 0, count;
	struct frame_have h;
	uint64_t cursor, end;

	if (frame_get_have(f, &h) != 0)
		return;
	count = h.count;
	cursor = end = h.floor;
	for (; frame_have_next(&h, &cursor, &first, &run); n++) {
		require(first > end && run >= 1);
		end = (uint64_t)first + run;
		require(end <= UINT32_MAX);
	}
	require(n == count && h.stream < STRAIT_STREAM_COUNT);
}

static void read_need(const struct frame *f)
{
	uint32_t block, missing, n = 0, count, previous = 0;
	struct frame_need need;
	uint64_t cursor = 0;

	if (frame_get_need(f, &need) != 0)
		return;
	for (count = need.count; frame_need_next(&need, &cursor, &block, &missing); n++) {
		require(n == 0 || block > previous);
		require(missing >= 1 && missing <= STRAIT_BLOCK_SYMBOLS_MAX);
		previous = block;
	}
	require(n == count && need.stream < STRAIT_STREAM_COUNT);
}

static void read_objects(const struct frame *f)
{
	uint32_t object, n = 0, count;
	struct frame_objects o;
	uint8_t status;

	if (frame_get_objects(f, &o) != 0)
		return;
	for (count = o.count; frame_objects_next(&o, &object, &status); n++)
		require(object < STRAIT_TRANSFER_OBJECTS_MAX);
	require(n == count);
}

/* What was read must be written and read again alike. */
static void read_open(const struct frame *f)
{
	uint8_t buf[STRAIT_FRAME_HEADER_BYTES + STRAIT_FRAME_OPEN_BYTES];
	struct frame_writer w;
	struct frame_open o;

	if (frame_get_open(f, &o) != 0)
		return;
	frame_writer_init(&w, buf, sizeof(buf));
	require(frame_put_open(&w, &o) == 0 && w.len == sizeof(buf));
	buf[STRAIT_FRAME_HEADER_BYTES + 31] = f->body[31]; /* reserved */
	require(memcmp(buf + STRAIT_FRAME_HEADER_BYTES, f->body, f->len) == 0);
}

static void read_frame(const struct frame *f)
{
	struct frame_object_ack ack;
	struct frame_status status;
	struct frame_credit credit;
	uint64_t token;
	uint32_t n;

	switch (f->type) {
	case STRAIT_FRAME_OPEN:
		read_open(f);
		break;
	case STRAIT_FRAME_OPEN_ACK:
	case STRAIT_FRAME_CLOSE:
		frame_get_status(f, &status);
		break;
	case STRAIT_FRAME_REPORT:
		read_report(f);
		break;
	case STRAIT_FRAME_HAVE:
		read_have(f);
		break;
	case STRAIT_FRAME_NEED:
		read_need(f);
		break;
	case STRAIT_FRAME_CREDIT:
		if (frame_get_credit(f, &credit) == 0)
			require(credit.class_ < STRAIT_CLASS_COUNT);
		break;
	case STRAIT_FRAME_OBJECT:
	case STRAIT_FRAME_WITHDRAW:
		read_objects(f);
		break;
	case STRAIT_FRAME_OBJECT_ACK:
		frame_get_object_ack(f, &ack);
		break;
	case STRAIT_FRAME_CLOSE_ACK:
		frame_get_close_ack(f, &n);
		break;
	case STRAIT_FRAME_CHALLENGE:
	case STRAIT_FRAME_RESPONSE:
		frame_get_token(f, &token);
		break;
	case STRAIT_FRAME_PING:
		frame_get_ping(f, &n);
		break;
	case STRAIT_FRAME_RECALL:
		frame_get_recall(f, &token);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_reader r;
	struct frame f;

	frame_reader_init(&r, data, size);
	while (frame_next(&r, &f) == 1)
		read_frame(&f);
	return 0;
}
