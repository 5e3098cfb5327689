/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/replica.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 16 }; /* records whose memory is on its way while one is applied */

static void prefetch(const struct replica *r, const struct log_record *rec, size_t n, size_t at,
	bool load)
{
	if (r->sink->prefetch == NULL)
		return;
	for (size_t i = at == 0 ? 0 : at + AHEAD - 1; i < n && i < at + AHEAD; i++)
		r->sink->prefetch(r->ctx, &rec[i], load);
}

int replica_init(struct replica *r, const struct replica_sink *sink, void *ctx)
{
	*r = (struct replica){ .sink = sink, .ctx = ctx };
	r->sums = sums_create();
	r->loading = sums_create();
	if (r->sums != NULL && r->loading != NULL)
		return 0;
	replica_fini(r);
	return -ENOMEM;
}

void replica_fini(struct replica *r)
{
	sums_destroy(r->sums);
	sums_destroy(r->loading);
	r->sums = r->loading = NULL;
}

/* Not live any more, for whatever reason; a snapshot on the way stays if it can go on. */
static void stale(struct replica *r)
{
	if (r->state == REPLICA_LIVE)
		r->state = REPLICA_STALE;
}

static void fail(struct replica *r)
{
	if (r->state != REPLICA_LOADING)
		return;
	r->sink->drop(r->ctx);
	r->failed++;
	r->bucket = 0;
	r->since = 0;
	r->changed_due = false;
	r->state = r->ever_live ? REPLICA_STALE : REPLICA_EMPTY;
	r->epoch = 0; /* nothing to resume at */
}

void replica_cut(struct replica *r)
{
	stale(r);
}

int replica_resumed(struct replica *r, uint64_t epoch, uint64_t next)
{
	if (epoch != r->epoch || next != r->next || r->state == REPLICA_EMPTY)
		return -EPROTO;
	if (r->state == REPLICA_STALE)
		r->state = REPLICA_LIVE;
	r->changed_due = r->state == REPLICA_LOADING && r->since != 0;
	return 0;
}

/* It was loaded, and does not come again. */
static bool is_there(const struct replica *r, uint32_t bucket)
{
	return bucket < r->bucket &&
		(r->since == 0 || bucket < r->again || !digest_set_has(r->changed, bucket));
}

static int apply(struct replica *r, const struct log_record *rec)
{
	bool loading = r->state == REPLICA_LOADING;
	struct sums *s = loading ? r->loading : r->sums;
	int ret;

	if (loading && !is_there(r, digest_bucket(rec->digest)))
		return 0;
	ret = loading ? r->sink->load(r->ctx, rec) : r->sink->event(r->ctx, rec);
	if (ret <= 0)
		return ret;
	if (rec->op == LOG_STORED)
		sums_add(s, rec->digest);
	else
		sums_del(s, rec->digest);
	return 0;
}

int replica_events(struct replica *r, uint64_t epoch, uint64_t seq, const struct log_record *rec,
	size_t n)
{
	if (r->state == REPLICA_EMPTY || r->state == REPLICA_STALE || epoch != r->epoch ||
		r->changed_due)
		return -EPROTO;
	for (size_t i = 0; i < n; i++, seq++) {
		int ret;

		prefetch(r, rec, n, i, r->state == REPLICA_LOADING);
		if (seq < r->next) {
			r->duplicates++;
			continue;
		}
		if (seq > r->next) {
			r->gaps++;
			fail(r);
			stale(r);
			return -ESTALE;
		}
		ret = apply(r, &rec[i]);
		if (ret < 0) {
			fail(r);
			stale(r);
			return ret;
		}
		r->next++;
	}
	return 0;
}

static void forget(struct replica *r, const uint64_t *buckets)
{
	static const struct sum none;

	r->sink->forget(r->ctx, buckets);
	for (uint32_t b = 0; b < DIGEST_BUCKETS; b++)
		if (digest_set_has(buckets, b))
			sums_set(r->loading, b, &none);
}

static int snapshot_goes_on(struct replica *r, uint64_t epoch, uint64_t watermark, uint32_t kept)
{
	if (r->state != REPLICA_LOADING || epoch != r->epoch || kept != r->bucket ||
		watermark + 1 < r->next) {
		fail(r);
		return -EPROTO;
	}
	if (r->since == 0)
		r->since = r->next;
	r->again = 0;
	r->changed_due = true;
	r->next = watermark + 1;
	return 0;
}

int replica_changed(struct replica *r, const uint64_t changed[static DIGEST_SET_WORDS])
{
	if (r->state != REPLICA_LOADING || !r->changed_due)
		return -EPROTO;
	for (uint32_t b = 0; b < DIGEST_BUCKETS; b++) {
		if (digest_set_has(changed, b) && (b < r->again || b >= r->bucket)) {
			fail(r);
			return -EPROTO;
		}
	}
	memcpy(r->changed, changed, sizeof(r->changed));
	r->changed_due = false;
	forget(r, r->changed);
	return 0;
}

void replica_reopen(struct replica *r)
{
	uint64_t last[DIGEST_SET_WORDS] = { 0 };

	if (r->state != REPLICA_LOADING || r->bucket != DIGEST_BUCKETS)
		return;
	digest_set_add(last, --r->bucket);
	forget(r, last);
}

int replica_snapshot_begin(struct replica *r, uint64_t epoch, uint64_t watermark, uint32_t kept)
{
	if (kept > 0)
		return snapshot_goes_on(r, epoch, watermark, kept);
	if (r->state == REPLICA_LOADING)
		r->sink->drop(r->ctx);
	memset(r->loading, 0, sizeof(*r->loading));
	r->state = REPLICA_LOADING;
	r->epoch = epoch;
	r->next = watermark + 1;
	r->bucket = 0;
	r->since = 0;
	r->changed_due = false;
	return 0;
}

/* Records of buckets first .. last in order; only what is stored. */
static int check(const struct log_record *rec, size_t n, uint32_t first, uint32_t last)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t b = digest_bucket(rec[i].digest);

		if (rec[i].op != LOG_STORED || b < first || b > last)
			return -EPROTO;
		first = b;
	}
	return 0;
}

static int load(struct replica *r, const struct log_record *rec, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int ret;

		prefetch(r, rec, n, i, true);
		ret = r->sink->load(r->ctx, &rec[i]);
		if (ret < 0) {
			fail(r);
			return ret;
		}
		if (ret > 0)
			sums_add(r->loading, rec[i].digest);
	}
	return 0;
}

int replica_snapshot_buckets(struct replica *r, uint64_t as_of, uint32_t last_bucket,
	const struct log_record *rec, size_t n)
{
	int ret;

	if (r->state != REPLICA_LOADING || r->since != 0)
		return -EPROTO;
	if (as_of + 1 != r->next || last_bucket < r->bucket || last_bucket >= DIGEST_BUCKETS ||
		check(rec, n, r->bucket, last_bucket) < 0) {
		fail(r);
		return -EPROTO;
	}
	ret = load(r, rec, n);
	if (ret == 0)
		r->bucket = last_bucket + 1;
	return ret;
}

int replica_again(struct replica *r, uint64_t as_of, uint32_t last_bucket,
	const struct log_record *rec, size_t n)
{
	int ret;

	if (r->state != REPLICA_LOADING || r->since == 0 || r->changed_due)
		return -EPROTO;
	ret = as_of + 1 != r->next || last_bucket < r->again || last_bucket >= r->bucket
		? -EPROTO
		: check(rec, n, r->again, last_bucket);
	for (size_t i = 0; i < n && ret == 0; i++)
		ret = is_there(r, digest_bucket(rec[i].digest)) ? -EPROTO : 0;
	if (ret < 0) {
		fail(r);
		return ret;
	}
	ret = load(r, rec, n);
	if (ret < 0)
		return ret;
	r->again = last_bucket + 1;
	if (r->again == r->bucket)
		r->since = 0; /* all of it is whole */
	return 0;
}

int replica_snapshot_end(struct replica *r, const struct sum *total)
{
	struct sums *old = r->sums;

	if (r->state != REPLICA_LOADING || r->since != 0)
		return -EPROTO;
	if (r->bucket != DIGEST_BUCKETS || !sum_equal(total, &r->loading->total)) {
		fail(r);
		return -EBADMSG;
	}
	r->sums = r->loading;
	r->loading = old;
	r->sink->swap(r->ctx, 0, DIGEST_BUCKETS - 1);
	r->state = REPLICA_LIVE;
	r->ever_live = true;
	r->snapshots++;
	return 0;
}

bool replica_progress(struct replica *r, uint64_t epoch, uint64_t seq, const struct sum *total)
{
	if (r->state != REPLICA_LIVE || epoch != r->epoch || seq + 1 != r->next ||
		sum_equal(total, &r->sums->total))
		return false;
	r->drifts++;
	return true;
}

int replica_repair(struct replica *r, uint64_t as_of, uint32_t bucket, const struct log_record *rec,
	size_t n)
{
	struct sum sum = { 0 };

	if (r->state != REPLICA_LIVE || as_of + 1 != r->next || bucket >= DIGEST_BUCKETS ||
		check(rec, n, bucket, bucket) < 0)
		return -EPROTO;
	for (size_t i = 0; i < n; i++) {
		int ret = r->sink->load(r->ctx, &rec[i]);

		if (ret < 0) {
			r->sink->drop(r->ctx);
			return ret;
		}
		if (ret > 0)
			sum_add(&sum, rec[i].digest);
	}
	r->sink->swap(r->ctx, bucket, bucket);
	sums_set(r->sums, bucket, &sum);
	r->repairs++;
	return 0;
}
