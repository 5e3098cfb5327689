/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { COMPARE_SUMS = 4096 };

void feed_init(struct feed *f, const struct feed_source *source, struct gate *gate)
{
	*f = (struct feed){ .source = source, .gate = gate };
}

static void leave(struct feed *f)
{
	if (f->in_gate)
		gate_leave(f->gate);
	f->in_gate = false;
}

void feed_fini(struct feed *f)
{
	leave(f);
	free(f->buf);
	f->buf = NULL;
}

/* Buckets first .. last - 1 that have an event of since or later come again. How many. */
static uint32_t mark(struct feed *f, uint32_t first, uint32_t last, uint64_t since)
{
	uint32_t n = 0;

	for (uint32_t b = first; b < last; b++) {
		if (log_changed(f->source->log, b) < since)
			continue;
		digest_set_add(f->changed, b);
		n++;
	}
	return n;
}

/*
 * Which of the buckets that a reader has loaded must come again, as far as the events that it has
 * not had cannot tell. false: it would be most of them, or it cannot be told.
 */
static bool keeps(struct feed *f, const struct log_frame *q, bool known)
{
	const struct log *l = f->source->log;
	uint64_t since = q->sum.lo;
	uint32_t again = since != 0 && q->sum.hi < q->bucket ? (uint32_t)q->sum.hi : q->bucket;
	uint32_t n = 0;

	memset(f->changed, 0, sizeof(f->changed));
	if (q->bucket == 0 || q->epoch != log_epoch(l) || q->seq > log_next(l) || q->seq == 0 ||
		(q->n & LOG_RESUME_AGAIN) == 0)
		return false;
	if (!known)
		n += mark(f, 0, again, q->seq);
	n += mark(f, again, q->bucket, since);
	f->again = known ? again : 0;
	return known || n <= q->bucket / 2;
}

static void resume(struct feed *f, const struct log_frame *q)
{
	const struct log *l = f->source->log;
	bool known = log_resume(l, q->epoch, q->seq) == LOG_RESUME_EVENTS;
	bool kept = keeps(f, q, known);
	bool loads = !known || q->bucket > 0;

	leave(f);
	f->changed_due = f->repeating = false;
	f->lists = f->compare_n = f->walk_n = 0;
	f->started = f->loading = f->begin_due = f->resumed_due = f->end_due = false;
	f->answer_due = false;
	f->asked = q->asked;
	f->busy_ns = 0;
	if (loads) {
		f->busy_ns = gate_enter(f->gate);
		if (f->busy_ns > 0)
			return;
		f->in_gate = f->loading = true;
		f->bucket = known || kept ? q->bucket : 0;
		f->changed_due = kept && (!known || q->sum.lo != 0);
	}
	f->started = true;
	f->epoch = log_epoch(l);
	f->next = known ? q->seq : log_next(l);
	f->begin_due = !known;
	f->resumed_due = known;
}

int feed_input(struct feed *f, const uint8_t *buf, size_t len)
{
	struct log_frame q;

	if (log_frame_decode(buf, len, &q) < 0)
		return -EPROTO;
	switch (q.type) {
	case LOG_FRAME_RESUME:
		resume(f, &q);
		return 0;
	case LOG_FRAME_ASK:
		f->asked = q.asked;
		f->answer_due = true;
		return 0;
	case LOG_FRAME_COMPARE:
		f->compare_first = q.bucket;
		f->compare_n = q.n;
		return 0;
	case LOG_FRAME_WALK:
		f->walk_first = q.bucket;
		f->walk_n = q.n;
		return 0;
	case LOG_FRAME_LIST:
		if (f->lists == FEED_PENDING)
			return -ENOBUFS;
		f->list[f->lists++] = q.bucket;
		return 0;
	default:
		return -EPROTO;
	}
}

static uint8_t *more(struct feed *f, size_t n)
{
	uint8_t *p;

	if (f->len + n > f->room) {
		size_t room = (f->len + n) * 2;

		p = realloc(f->buf, room);
		if (p == NULL) {
			f->no_memory = true;
			return NULL;
		}
		f->buf = p;
		f->room = room;
	}
	p = f->buf + f->len;
	f->len += n;
	return p;
}

static void add_record(void *ctx, const struct log_record *r)
{
	uint8_t *p = more(ctx, LOG_RECORD_BYTES);

	if (p != NULL)
		log_record_encode(p, r);
}

/* Fill in the header of what was put after it. */
static int finish(struct feed *f, enum log_frame_type type, uint32_t bucket, uint64_t seq,
	const struct sum *sum, size_t item_bytes, const uint8_t **frame, size_t *len)
{
	struct log_frame h = { .type = type, .bucket = bucket, .epoch = f->epoch, .seq = seq };

	h.asked = f->asked;
	if (f->no_memory) {
		f->no_memory = false;
		return -ENOMEM;
	}
	if (sum != NULL)
		h.sum = *sum;
	if (item_bytes > 0)
		h.n = (uint32_t)((f->len - LOG_FRAME_HEADER_BYTES) / item_bytes);
	log_frame_header_encode(f->buf, &h);
	*frame = f->buf;
	*len = f->len;
	return 1;
}

static int pull_events(struct feed *f, const uint8_t **frame, size_t *len)
{
	struct log_record rec[64];
	uint64_t seq = f->next;

	for (size_t total = 0, n; total < FEED_EVENTS; total += n) {
		n = log_read(f->source->log, f->next, rec, sizeof(rec) / sizeof(rec[0]));
		if (n == 0)
			break;
		for (size_t i = 0; i < n; i++)
			add_record(f, &rec[i]);
		f->next += n;
	}
	if (f->next - seq < FEED_EVENTS)
		f->answer_due = false;
	return finish(f, LOG_FRAME_EVENTS, 0, seq, NULL, LOG_RECORD_BYTES, frame, len);
}

/* All live events were sent, so the set now is what the reader's position says. */
static int pull_buckets(struct feed *f, const uint8_t **frame, size_t *len)
{
	while (f->bucket < DIGEST_BUCKETS &&
		f->len < LOG_FRAME_HEADER_BYTES + (size_t)FEED_RECORDS * LOG_RECORD_BYTES)
		f->source->list(f->source->ctx, f->bucket++, add_record, f);
	if (f->bucket == DIGEST_BUCKETS) {
		f->loading = false;
		f->end_due = true;
	}
	return finish(f, LOG_FRAME_BUCKETS, f->bucket - 1, f->next - 1, NULL, LOG_RECORD_BYTES,
		frame, len);
}

static int send_changed(struct feed *f, const uint8_t **frame, size_t *len)
{
	uint8_t *p = more(f, sizeof(f->changed));

	if (p != NULL)
		memcpy(p, f->changed, sizeof(f->changed));
	f->changed_due = false;
	f->repeating = true;
	return finish(f, LOG_FRAME_CHANGED, 0, f->next - 1, NULL, sizeof(f->changed[0]), frame,
		len);
}

/* Before the buckets to come: those that changed since the reader had them. */
static int pull_again(struct feed *f, const uint8_t **frame, size_t *len)
{
	while (f->again < f->bucket &&
		f->len < LOG_FRAME_HEADER_BYTES + (size_t)FEED_RECORDS * LOG_RECORD_BYTES) {
		uint32_t b = f->again++;

		if (digest_set_has(f->changed, b))
			f->source->list(f->source->ctx, b, add_record, f);
	}
	f->repeating = f->again < f->bucket;
	return finish(f, LOG_FRAME_AGAIN, f->again - 1, f->next - 1, NULL, LOG_RECORD_BYTES, frame,
		len);
}

/* For a reader that has them already: as many buckets as fit. */
static int pull_walk(struct feed *f, const uint8_t **frame, size_t *len)
{
	while (f->walk_n > 0 &&
		f->len < LOG_FRAME_HEADER_BYTES + (size_t)FEED_RECORDS * LOG_RECORD_BYTES) {
		f->source->list(f->source->ctx, f->walk_first++, add_record, f);
		f->walk_n--;
	}
	return finish(f, LOG_FRAME_WALKED, f->walk_first - 1, f->next - 1, NULL, LOG_RECORD_BYTES,
		frame, len);
}

static int pull_sums(struct feed *f, const uint8_t **frame, size_t *len)
{
	uint32_t first = f->compare_first;
	uint32_t n = f->compare_n < COMPARE_SUMS ? f->compare_n : COMPARE_SUMS;
	uint8_t *p = more(f, (size_t)n * LOG_SUM_BYTES);

	if (p != NULL)
		memcpy(p, &f->source->sums->bucket[first], (size_t)n * LOG_SUM_BYTES);
	f->compare_first += n;
	f->compare_n -= n;
	return finish(f, LOG_FRAME_SUMS, first, f->next - 1, NULL, LOG_SUM_BYTES, frame, len);
}

int feed_pull(struct feed *f, uint64_t now_ns, const uint8_t **frame, size_t *len)
{
	const struct feed_source *s = f->source;

	f->len = 0;
	(void)more(f, LOG_FRAME_HEADER_BYTES);
	if (f->busy_ns > 0) {
		uint64_t wait = f->busy_ns;

		f->busy_ns = 0;
		return finish(f, LOG_FRAME_BUSY, 0, wait, NULL, 0, frame, len);
	}
	if (!f->started)
		return 0;
	if (f->epoch != log_epoch(s->log) || f->next < log_first(s->log)) {
		f->started = false;
		leave(f);
		return -ESTALE;
	}
	if (f->begin_due || f->resumed_due) {
		enum log_frame_type type = f->begin_due ? LOG_FRAME_SNAPSHOT : LOG_FRAME_RESUMED;

		f->begin_due = f->resumed_due = false;
		return finish(f, type, type == LOG_FRAME_SNAPSHOT ? f->bucket : 0,
			type == LOG_FRAME_SNAPSHOT ? f->next - 1 : f->next, NULL, 0, frame, len);
	}
	if (f->changed_due)
		return send_changed(f, frame, len);
	if (f->next < log_next(s->log))
		return pull_events(f, frame, len);
	if (f->end_due) {
		f->end_due = false;
		leave(f);
		return finish(f, LOG_FRAME_END, 0, f->next - 1, &s->sums->total, 0, frame, len);
	}
	if (!f->loading && (f->answer_due || now_ns - f->progress_ns >= FEED_PROGRESS_NS)) {
		f->answer_due = false;
		f->progress_ns = now_ns;
		return finish(f, LOG_FRAME_PROGRESS, 0, f->next - 1, &s->sums->total, 0, frame,
			len);
	}
	if (f->loading)
		return f->repeating ? pull_again(f, frame, len) : pull_buckets(f, frame, len);
	if (f->compare_n > 0)
		return pull_sums(f, frame, len);
	if (f->lists > 0) {
		uint32_t bucket = f->list[--f->lists];

		s->list(s->ctx, bucket, add_record, f);
		return finish(f, LOG_FRAME_REPAIR, bucket, f->next - 1, NULL, LOG_RECORD_BYTES,
			frame, len);
	}
	if (f->walk_n > 0)
		return pull_walk(f, frame, len);
	return 0;
}
