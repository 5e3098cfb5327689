/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/log/record.h"
#include "control/log/sums.h"

#include <stddef.h>

/*
 * Frames of a log's stream, between a site and who reads it. One fixed header for all,
 * little-endian, then records or sums:
 *
 *   type 8, zero 24, bucket 32, n 32, asked 32, epoch 64, seq 64, sum lo 64, sum hi 64, count 64
 *
 * asked is when, by the clock of the reader: in RESUME and ASK it says when they left, in what the
 * site sends it is that of the last of them that it has heard. So the reader knows of a frame that
 * it left after that time, however long it was on its way. A site's clock counts for nothing.
 *
 *   reader to site
 *     RESUME    epoch, seq = next wanted, bucket = next of a snapshot   (epoch 0: has nothing)
 *               n = 1: it understands AGAIN; sum lo = since, sum hi = again: see below
 *     COMPARE   bucket, n: send me the sums of these buckets
 *     LIST      bucket: send me what is in it
 *     WALK      bucket, n: tell me what is in these, once and not as a repair
 *     ASK       answer with PROGRESS, or with events that say as much
 *   site to reader
 *     RESUMED   epoch, seq = next
 *     SNAPSHOT  epoch, seq = watermark, bucket = the first that comes; 0: what the reader had
 *               loaded counts no more
 *     CHANGED   epoch, n = 1,024 words of 64 bits: a bit each for the buckets that AGAIN brings
 *     AGAIN     epoch, seq = as of, bucket = last one, n records of buckets of CHANGED up to it
 *     EVENTS    epoch, seq of the first, n records
 *     BUCKETS   epoch, seq = as of, bucket = last one, n records
 *     END       epoch, sum and count of all
 *     PROGRESS  epoch, seq, sum and count after it
 *     SUMS      epoch, seq = as of, bucket = first one, n sums
 *     REPAIR    epoch, seq = as of, bucket, n records
 *     BUSY      seq = ns to wait before asking again
 *     WALKED    epoch, seq = as of, bucket = last one, n records
 *
 * A snapshot that was cut goes on with the bucket that is missing. If the events since are there,
 * they follow; if not, in the same epoch they need not: the site knows which of the buckets that
 * the reader has changed since, says so after the SNAPSHOT (CHANGED), and sends these anew before
 * the others (AGAIN). Until it has them all the reader says in each RESUME since when the buckets
 * from `again` on are not known to be whole, and CHANGED follows RESUMED, too. Where more than half
 * of the buckets changed, all comes anew. A site that is older does not look at it, and a reader
 * that is older is not sent any of it; so the version is the same.
 *
 * Pure. The connection under it tells how long a frame is.
 */

enum log_frame_type {
	LOG_FRAME_RESUME = 1,
	LOG_FRAME_COMPARE,
	LOG_FRAME_LIST,
	LOG_FRAME_RESUMED,
	LOG_FRAME_SNAPSHOT,
	LOG_FRAME_EVENTS,
	LOG_FRAME_BUCKETS,
	LOG_FRAME_END,
	LOG_FRAME_PROGRESS,
	LOG_FRAME_SUMS,
	LOG_FRAME_REPAIR,
	LOG_FRAME_BUSY,
	LOG_FRAME_WALK,
	LOG_FRAME_WALKED,
	LOG_FRAME_ASK,
	LOG_FRAME_CHANGED,
	LOG_FRAME_AGAIN,
	LOG_FRAME_TYPES,
};

enum {
	LOG_FRAME_VERSION = 2, /* of the stream, told when a site registers; 1 had no ASK */
	LOG_FRAME_HEADER_BYTES = 56,
	LOG_SUM_BYTES = 24,
	LOG_RESUME_AGAIN = 1,            /* n of a RESUME */
	LOG_FRAME_RECORDS_MAX = 1 << 18, /* a bucket of one frame; 10 MiB */
};

struct log_frame {
	enum log_frame_type type;
	uint32_t bucket, n;
	uint32_t asked; /* 0: never */
	uint64_t epoch, seq;
	struct sum sum;
	const uint8_t *body; /* decode: n records or sums, encoded */
};

/** Bytes of a frame of this type with n records or sums. */
size_t log_frame_bytes(enum log_frame_type type, uint32_t n);
void log_frame_header_encode(uint8_t buf[static LOG_FRAME_HEADER_BYTES], const struct log_frame *f);
/** -EPROTO: type, zeros, bucket or length are not those of a frame. Does not look at the body. */
int log_frame_decode(const uint8_t *buf, size_t len, struct log_frame *out);

/** Records or sums of a decoded frame, n of them. -EPROTO as log_record_decode(). */
int log_frame_records(const struct log_frame *f, struct log_record *out);
void log_frame_sums(const struct log_frame *f, struct sum *out);
/** Bits of a decoded CHANGED. */
void log_frame_changed(const struct log_frame *f, uint64_t out[static DIGEST_SET_WORDS]);
