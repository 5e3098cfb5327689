/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/log/record.h"

#include <stddef.h>

/*
 * The tail of a site's repaired log: what readers that were away for a while can still get. One
 * thread, pure.
 *
 * An incarnation of the log has a random epoch; events have seq 1, 2, .. in it without a hole. The
 * ring keeps the last keep_ns of events, in at most max_bytes: at 100,000 events/s a minute takes
 * 240 MB; an idle site takes one chunk, and each 512 KiB for the last seqs of buckets. A reader
 * names what it has (epoch and the next seq it wants) and learns how to go on.
 */

enum { LOG_CHUNK_RECORDS = 1024 };

struct log;

enum log_resume {
	LOG_RESUME_EVENTS,   /* log_read() from the seq it wants */
	LOG_RESUME_SNAPSHOT, /* too old, or from a future that this log never had */
	LOG_RESUME_EPOCH,    /* another incarnation: nothing it has counts any more */
};

struct log_config {
	uint64_t epoch; /* random, not 0 */
	uint64_t keep_ns;
	size_t max_bytes; /* of records; at least one chunk is kept */
};

/** NULL + errno. */
struct log *log_create(const struct log_config *cfg);
void log_destroy(struct log *l);

/** Append one event. Returns its seq, or 0 without memory (then readers must see a new epoch). */
uint64_t log_append(struct log *l, const struct log_record *r, uint64_t now_ns);
/** Drop what is older than keep_ns, by whole chunks. */
void log_trim(struct log *l, uint64_t now_ns);

/**
 * Seq of the last event of a bucket in this incarnation, also of one that is not kept any more; 0:
 * none. So who has a bucket as of a seq knows whether it is still that, whatever the ring forgot.
 */
uint64_t log_changed(const struct log *l, uint32_t bucket);
uint64_t log_epoch(const struct log *l);
/** Seq that the next event gets; the first is 1. */
uint64_t log_next(const struct log *l);
/** Oldest seq that can be read; log_next() if there is none. */
uint64_t log_first(const struct log *l);
size_t log_bytes(const struct log *l);

enum log_resume log_resume(const struct log *l, uint64_t epoch, uint64_t next);
/** Copy events from seq on. Returns how many: 0 at the end or if seq is not kept. */
size_t log_read(const struct log *l, uint64_t seq, struct log_record *out, size_t max);
