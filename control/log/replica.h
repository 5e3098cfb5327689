/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/log/frame.h"

/*
 * One reader's copy of one site's log. Pure, one thread.
 *
 *   EMPTY -> LOADING -> LIVE <-> STALE -> LOADING ..
 *
 * A snapshot comes bucket by bucket on the same ordered stream as the live events, each bucket in
 * the state of the newest event sent before it. So an event of a bucket that is there already is
 * applied to the new generation, and one of a bucket still to come is in it anyway: nothing is
 * buffered. Until the snapshot is complete and its sums hold, the sink keeps the old generation,
 * marked stale; a failed or cut snapshot changes nothing. After a cut the stream goes on at
 * (epoch, next) and the bucket that is missing first; where the events since are gone, what changed
 * of the buckets that are there comes again before (frame.h).
 *
 * At any time the seq may only go on by one. A lower one was seen already and is ignored, a hole
 * makes the replica STALE and it must resume. A progress record compares count and sum at a seq:
 * when they differ, something was lost on neither side's account, and only the buckets that differ
 * are listed again (replica_repair).
 */

enum replica_state {
	REPLICA_EMPTY,   /* never loaded: nothing is known */
	REPLICA_LOADING, /* a snapshot is coming; what the sink had before is stale */
	REPLICA_LIVE,
	REPLICA_STALE, /* was live; events are missing */
};

/* What the owner does with it. All are called from within replica_*() calls. */
struct replica_sink {
	/** A live event of the present generation. 1, 0 if it changed nothing, or -ENOMEM. */
	int (*event)(void *ctx, const struct log_record *r);
	/** The same of the generation that is being loaded (LOG_STORED or LOG_REMOVED). */
	int (*load)(void *ctx, const struct log_record *r);
	/** What was loaded into buckets first .. last replaces what was there. */
	void (*swap)(void *ctx, uint32_t first, uint32_t last);
	/** What was loaded is forgotten. */
	void (*drop)(void *ctx);
	/** Of these buckets alone: a bit each, DIGEST_SET_WORDS words. The load goes on. */
	void (*forget)(void *ctx, const uint64_t *buckets);
	/** An event() or load() of this record follows soon. NULL: nothing to prepare. */
	void (*prefetch)(void *ctx, const struct log_record *r, bool load);
};

struct replica {
	const struct replica_sink *sink;
	void *ctx;
	enum replica_state state;
	bool ever_live;
	uint64_t epoch, next; /* what it wants */
	uint32_t bucket;      /* the next one of the snapshot */
	/*
	 * While some of those before it come again: of the buckets from again on the marked ones
	 * are not there, and the site was told that they are as of since. 0: none come again.
	 */
	uint64_t since;
	uint32_t again;
	bool changed_due; /* the site is to say which */
	uint64_t changed[DIGEST_SET_WORDS];
	struct sums *sums, *loading;
	uint64_t gaps, duplicates, snapshots, failed, drifts, repairs;
};

/** -ENOMEM. */
int replica_init(struct replica *r, const struct replica_sink *sink, void *ctx);
void replica_fini(struct replica *r);

/** The stream is gone. What is known stays, stale; a snapshot that had begun can be resumed. */
void replica_cut(struct replica *r);
/** The stream goes on where it was (LOG_RESUME_EVENTS). -EPROTO if it does not. */
int replica_resumed(struct replica *r, uint64_t epoch, uint64_t next);

/**
 * n events from seq on. 0; -ESTALE: a hole, resume; -EPROTO: another epoch or an event of a
 * stream that has not begun; -ENOMEM: as a hole.
 */
int replica_events(struct replica *r, uint64_t epoch, uint64_t seq, const struct log_record *rec,
	size_t n);

/**
 * A snapshot begins; events go on after its watermark. What was loaded before is dropped, unless
 * kept is the bucket that it is to go on with: then replica_changed() follows. -EPROTO: it is not.
 */
int replica_snapshot_begin(struct replica *r, uint64_t epoch, uint64_t watermark, uint32_t kept);
/** Which of the buckets that are there come again. -EPROTO: one that is not, or not now. */
int replica_changed(struct replica *r, const uint64_t changed[static DIGEST_SET_WORDS]);
/** Those of them up to last_bucket. As replica_snapshot_buckets(). */
int replica_again(struct replica *r, uint64_t as_of, uint32_t last_bucket,
	const struct log_record *rec, size_t n);
/**
 * Only the end of a snapshot is missing, which cannot be asked for: its last bucket counts as
 * missing, too.
 */
void replica_reopen(struct replica *r);
/**
 * The next buckets up to `bucket` in the state of as_of: all their records, in order of buckets.
 * -EPROTO: not the next one, a record of another bucket, not as of the last event; the snapshot
 * has failed then.
 */
int replica_snapshot_buckets(struct replica *r, uint64_t as_of, uint32_t last_bucket,
	const struct log_record *rec, size_t n);
/** All buckets were sent. -EBADMSG: the sums differ, nothing was changed. */
int replica_snapshot_end(struct replica *r, const struct sum *total);

/** The sender's count and sum after event seq. true: they differ, compare the buckets. */
bool replica_progress(struct replica *r, uint64_t epoch, uint64_t seq, const struct sum *total);
/** One bucket as of the last event, all its records. -EPROTO as above. Only when LIVE. */
int replica_repair(struct replica *r, uint64_t as_of, uint32_t bucket, const struct log_record *rec,
	size_t n);
