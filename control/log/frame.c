/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/frame.h"

#include <errno.h>
#include <string.h>

struct wire {
	uint8_t type, zero[3];
	uint32_t bucket, n, asked;
	uint64_t epoch, seq, lo, hi, count;
};

_Static_assert(sizeof(struct wire) == LOG_FRAME_HEADER_BYTES, "no padding");
_Static_assert(sizeof(struct sum) == LOG_SUM_BYTES, "sums are copied");

size_t log_frame_bytes(enum log_frame_type type, uint32_t n)
{
	switch (type) {
	case LOG_FRAME_EVENTS:
	case LOG_FRAME_BUCKETS:
	case LOG_FRAME_REPAIR:
	case LOG_FRAME_WALKED:
	case LOG_FRAME_AGAIN:
		return LOG_FRAME_HEADER_BYTES + (size_t)n * LOG_RECORD_BYTES;
	case LOG_FRAME_SUMS:
		return LOG_FRAME_HEADER_BYTES + (size_t)n * LOG_SUM_BYTES;
	case LOG_FRAME_CHANGED:
		return LOG_FRAME_HEADER_BYTES + (size_t)n * sizeof(uint64_t);
	default:
		return LOG_FRAME_HEADER_BYTES;
	}
}

void log_frame_header_encode(uint8_t buf[static LOG_FRAME_HEADER_BYTES], const struct log_frame *f)
{
	struct wire w = { .type = (uint8_t)f->type,
		.bucket = f->bucket,
		.n = f->n,
		.asked = f->asked,
		.epoch = f->epoch,
		.seq = f->seq,
		.lo = f->sum.lo,
		.hi = f->sum.hi,
		.count = f->sum.count };

	memcpy(buf, &w, sizeof(w));
}

int log_frame_decode(const uint8_t *buf, size_t len, struct log_frame *out)
{
	struct wire w;

	if (len < sizeof(w))
		return -EPROTO;
	memcpy(&w, buf, sizeof(w));
	if (w.type == 0 || w.type >= LOG_FRAME_TYPES || w.zero[0] || w.zero[1] || w.zero[2] ||
		w.bucket >= DIGEST_BUCKETS || w.n > LOG_FRAME_RECORDS_MAX)
		return -EPROTO;
	if ((w.type == LOG_FRAME_SUMS || w.type == LOG_FRAME_COMPARE || w.type == LOG_FRAME_WALK) &&
		w.n > DIGEST_BUCKETS - w.bucket)
		return -EPROTO;
	if (w.type == LOG_FRAME_CHANGED && w.n != DIGEST_SET_WORDS)
		return -EPROTO;
	if (len != log_frame_bytes((enum log_frame_type)w.type, w.n))
		return -EPROTO;
	*out = (struct log_frame){ (enum log_frame_type)w.type, w.bucket, w.n, w.asked, w.epoch,
		w.seq, { w.lo, w.hi, w.count }, buf + sizeof(w) };
	return 0;
}

int log_frame_records(const struct log_frame *f, struct log_record *out)
{
	int ret = 0;

	for (uint32_t i = 0; i < f->n && ret == 0; i++)
		ret = log_record_decode(f->body + (size_t)i * LOG_RECORD_BYTES, &out[i]);
	return ret;
}

void log_frame_changed(const struct log_frame *f, uint64_t out[static DIGEST_SET_WORDS])
{
	memcpy(out, f->body, DIGEST_SET_WORDS * sizeof(*out));
}

void log_frame_sums(const struct log_frame *f, struct sum *out)
{
	memcpy(out, f->body, (size_t)f->n * LOG_SUM_BYTES);
}
