/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/log/frame.h"
#include "control/log/gate.h"
#include "control/log/replica.h"

/*
 * The reader's end of a log's stream: frames in, questions out, a replica kept. Pure, one thread,
 * the time is an argument. The owner connects when reader_connect_ns() says so, tells
 * reader_open(), sends what reader_pull() gives and closes when reader_input() fails.
 */

enum {
	READER_LISTS = 32, /* buckets asked for at once when repairing */
};
/* How often the site is asked for a word. */
#define READER_ASK_NS UINT64_C(200000000)
/* A stream without a frame for so long is dead: progress comes every second. */
#define READER_SILENCE_NS UINT64_C(10000000000)

struct reader {
	struct replica replica;
	struct backoff backoff;
	bool open, due_resume, comparing;
	uint64_t retry_ns; /* not before this time */
	uint64_t heard_ns; /* last frame */
	uint64_t opened_ns, asked_ns;
	uint64_t current_ns; /* the replica is known to be complete as of this time */
	uint64_t compared_ns, compare_every_ns;
	uint32_t compare_at;
	uint32_t *differ;
	uint32_t differs, asked, listed;
	struct log_record *records;
	uint32_t records_room;
};

/** compare_every_ns: anti-entropy also without suspicion (10 to 15 minutes). -ENOMEM. */
int reader_init(struct reader *r, const struct replica_sink *sink, void *ctx,
	uint64_t compare_every_ns, uint64_t seed);
void reader_fini(struct reader *r);

/** When to connect again. */
uint64_t reader_connect_ns(const struct reader *r);
void reader_open(struct reader *r, uint64_t now_ns);
void reader_close(struct reader *r, uint64_t now_ns);

/** A frame came. Negative: close the connection, which reader_close() then must be told. */
int reader_input(struct reader *r, const uint8_t *buf, size_t len, uint64_t now_ns);
/** A frame to send. true: one was written to buf. */
bool reader_pull(struct reader *r, uint64_t now_ns, uint8_t buf[static LOG_FRAME_HEADER_BYTES]);
/** Nothing was heard for READER_SILENCE_NS: close. */
bool reader_is_silent(const struct reader *r, uint64_t now_ns);
