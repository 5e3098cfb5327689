/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/reader.h"

#include "control/log/feed.h"

#include <errno.h>
#include <stdlib.h>

#define BACKOFF_LEAST_NS UINT64_C(100000000)
#define BACKOFF_MOST_NS  UINT64_C(30000000000)

int reader_init(struct reader *r, const struct replica_sink *sink, void *ctx,
	uint64_t compare_every_ns, uint64_t seed)
{
	*r = (struct reader){ .compare_every_ns = compare_every_ns };
	backoff_init(&r->backoff, BACKOFF_LEAST_NS, BACKOFF_MOST_NS, seed);
	r->differ = malloc(DIGEST_BUCKETS * sizeof(*r->differ));
	if (r->differ == NULL || replica_init(&r->replica, sink, ctx) < 0) {
		free(r->differ);
		return -ENOMEM;
	}
	return 0;
}

void reader_fini(struct reader *r)
{
	replica_fini(&r->replica);
	free(r->differ);
	free(r->records);
}

uint64_t reader_connect_ns(const struct reader *r)
{
	return r->retry_ns;
}

void reader_open(struct reader *r, uint64_t now_ns)
{
	r->open = r->due_resume = true;
	r->comparing = false;
	r->differs = r->asked = r->listed = 0;
	r->heard_ns = r->opened_ns = now_ns;
}

void reader_close(struct reader *r, uint64_t now_ns)
{
	replica_cut(&r->replica);
	r->open = r->due_resume = false;
	if (r->retry_ns <= now_ns)
		r->retry_ns = now_ns + backoff_next(&r->backoff);
}

bool reader_is_silent(const struct reader *r, uint64_t now_ns)
{
	return r->open && now_ns > r->heard_ns && now_ns - r->heard_ns >= READER_SILENCE_NS;
}

static void compare(struct reader *r, uint64_t now_ns)
{
	if (r->comparing)
		return;
	r->comparing = true;
	r->compare_at = 0;
	r->differs = r->asked = r->listed = 0;
	r->compared_ns = now_ns;
}

static int records_decode(struct reader *r, const struct log_frame *f)
{
	if (f->n > r->records_room) {
		struct log_record *p = realloc(r->records, f->n * sizeof(*p));

		if (p == NULL)
			return -ENOMEM;
		r->records = p;
		r->records_room = f->n;
	}
	return log_frame_records(f, r->records);
}

/* Sums of some buckets: what differs is asked for. */
static int sums_input(struct reader *r, const struct log_frame *f)
{
	struct sum *theirs;

	if (!r->comparing || f->bucket != r->compare_at || f->n == 0)
		return -EPROTO;
	theirs = malloc(f->n * sizeof(*theirs));
	if (theirs == NULL)
		return -ENOMEM;
	log_frame_sums(f, theirs);
	/* As of another seq they would differ for no reason; the stream is in order, so not so. */
	if (f->seq + 1 == r->replica.next)
		r->differs += (uint32_t)sums_differ(r->replica.sums, theirs, f->bucket, f->n,
			r->differ + r->differs);
	free(theirs);
	r->compare_at += f->n;
	if (r->compare_at >= DIGEST_BUCKETS && r->differs == 0)
		r->comparing = false;
	return 0;
}

/* Times in 32 bits, for 52 days: units of 2^20 ns, rounded down. 0 is no time. */
enum { UNIT_BITS = 20 };

static uint32_t stamp(uint64_t now_ns)
{
	uint32_t at = (uint32_t)(now_ns >> UNIT_BITS);

	return at != 0 ? at : UINT32_MAX;
}

/* When that was, or 0: it is not of this connection. */
static uint64_t stamp_ns(const struct reader *r, uint32_t asked, uint64_t now_ns)
{
	uint64_t now = now_ns >> UNIT_BITS, age = (uint32_t)((uint32_t)now - asked);

	if (asked == 0 || age > now - (r->opened_ns >> UNIT_BITS) + 1 || age > now)
		return 0;
	return (now - age) << UNIT_BITS;
}

/*
 * Nothing more was there when this left: a progress record, the end of a snapshot, or events that
 * do not fill a frame. Where the stream goes on proves nothing yet, much may be behind it. When it
 * left nobody knows: a line that stands still holds it back for seconds. It was after the site
 * heard what it names, so after we sent that.
 */
static void current(struct reader *r, uint32_t asked, uint64_t now_ns)
{
	uint64_t at_ns = stamp_ns(r, asked, now_ns);

	if (r->replica.state != REPLICA_LIVE)
		return;
	if (at_ns > r->current_ns)
		r->current_ns = at_ns;
	backoff_reset(&r->backoff);
}

static int repair_input(struct reader *r, const struct log_frame *f)
{
	int ret = records_decode(r, f);

	if (ret == 0)
		ret = replica_repair(&r->replica, f->seq, f->bucket, r->records, f->n);
	if (++r->listed >= r->differs && r->compare_at >= DIGEST_BUCKETS)
		r->comparing = false;
	return ret;
}

static int changed_input(struct reader *r, const struct log_frame *f)
{
	uint64_t changed[DIGEST_SET_WORDS];

	if (f->epoch != r->replica.epoch)
		return -EPROTO;
	log_frame_changed(f, changed);
	return replica_changed(&r->replica, changed);
}

/* Where it goes on. A snapshot of which nothing came begins anew. */
static void resume_at(struct reader *r, struct log_frame *f)
{
	struct replica *p = &r->replica;

	replica_reopen(p);
	f->epoch = p->epoch;
	f->seq = p->next;
	if (p->state != REPLICA_LOADING)
		return;
	f->bucket = p->bucket;
	f->n = LOG_RESUME_AGAIN;
	f->sum.lo = p->since;
	f->sum.hi = p->again;
	if (f->bucket == 0)
		f->epoch = 0;
}

int reader_input(struct reader *r, const uint8_t *buf, size_t len, uint64_t now_ns)
{
	struct log_frame f;
	int ret = log_frame_decode(buf, len, &f);

	if (ret < 0)
		return ret;
	r->heard_ns = now_ns;
	switch (f.type) {
	case LOG_FRAME_BUSY:
		r->retry_ns = now_ns + (f.seq < BACKOFF_MOST_NS ? f.seq : BACKOFF_MOST_NS);
		return -EBUSY;
	case LOG_FRAME_RESUMED:
		return replica_resumed(&r->replica, f.epoch, f.seq);
	case LOG_FRAME_SNAPSHOT:
		r->compared_ns = now_ns;
		return replica_snapshot_begin(&r->replica, f.epoch, f.seq, f.bucket);
	case LOG_FRAME_CHANGED:
		return changed_input(r, &f);
	case LOG_FRAME_AGAIN:
		ret = records_decode(r, &f);
		return ret == 0 ? replica_again(&r->replica, f.seq, f.bucket, r->records, f.n)
				: ret;
	case LOG_FRAME_EVENTS:
		ret = records_decode(r, &f);
		if (ret == 0)
			ret = replica_events(&r->replica, f.epoch, f.seq, r->records, f.n);
		if (ret == 0 && f.n < FEED_EVENTS)
			current(r, f.asked, now_ns);
		return ret;
	case LOG_FRAME_BUCKETS:
		ret = records_decode(r, &f);
		return ret == 0
			? replica_snapshot_buckets(&r->replica, f.seq, f.bucket, r->records, f.n)
			: ret;
	case LOG_FRAME_END:
		ret = replica_snapshot_end(&r->replica, &f.sum);
		current(r, f.asked, now_ns);
		return ret;
	case LOG_FRAME_PROGRESS:
		if (f.epoch != r->replica.epoch || f.seq + 1 != r->replica.next)
			return -EPROTO;
		current(r, f.asked, now_ns);
		if (replica_progress(&r->replica, f.epoch, f.seq, &f.sum) ||
			(r->replica.state == REPLICA_LIVE &&
				now_ns - r->compared_ns >= r->compare_every_ns))
			compare(r, now_ns);
		return 0;
	case LOG_FRAME_SUMS:
		return sums_input(r, &f);
	case LOG_FRAME_REPAIR:
		return repair_input(r, &f);
	default:
		return -EPROTO;
	}
}

bool reader_pull(struct reader *r, uint64_t now_ns, uint8_t buf[static LOG_FRAME_HEADER_BYTES])
{
	struct log_frame f = { .type = LOG_FRAME_RESUME };

	if (!r->open)
		return false;
	if (r->due_resume) {
		r->due_resume = false;
		r->asked_ns = now_ns;
		f.asked = stamp(now_ns);
		resume_at(r, &f);
	} else if (now_ns >= r->asked_ns + READER_ASK_NS) {
		r->asked_ns = now_ns;
		f.type = LOG_FRAME_ASK;
		f.asked = stamp(now_ns);
	} else if (r->comparing && r->compare_at == 0 && r->asked == 0) {
		f.type = LOG_FRAME_COMPARE;
		f.n = DIGEST_BUCKETS;
		r->asked = 1;
	} else if (r->comparing && r->compare_at >= DIGEST_BUCKETS && r->asked - 1 < r->differs &&
		r->asked - 1 - r->listed < READER_LISTS) {
		f.type = LOG_FRAME_LIST;
		f.bucket = r->differ[r->asked++ - 1];
	} else {
		return false;
	}
	log_frame_header_encode(buf, &f);
	return true;
}
