/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/log/frame.h"
#include "control/log/gate.h"
#include "control/log/ring.h"

/*
 * What a site sends to one reader of its log: live events first, then the next piece of a snapshot
 * or of a comparison if one was asked for, and a progress record five times a second, at once when
 * the reader asks. The owner
 * pulls a frame when its connection has room, so bulk never stands before heartbeats by more than
 * one frame and a slow reader costs no memory: it falls behind in the ring and at last gets a
 * snapshot. Pure, one thread.
 */

enum {
	FEED_EVENTS = 1024,  /* records of a frame of live events */
	FEED_RECORDS = 2048, /* after so many a frame of buckets ends */
	FEED_PENDING = 64,   /* buckets to list again that may wait */
};
#define FEED_PROGRESS_NS UINT64_C(200000000)

/* The site's set of objects, which is what its log adds up to. */
struct feed_source {
	struct log *log;
	const struct sums *sums; /* of all objects */
	/** Call fn for each object of a bucket. */
	void (*list)(void *ctx, uint32_t bucket,
		void (*fn)(void *fn_ctx, const struct log_record *r), void *fn_ctx);
	void *ctx;
};

struct feed {
	const struct feed_source *source;
	struct gate *gate;
	uint64_t next, epoch; /* of the log when it resumed */
	bool started, in_gate, begin_due, resumed_due, end_due, answer_due;
	uint32_t asked;   /* when the reader last did, by its clock */
	uint64_t busy_ns; /* to tell */
	bool loading;
	uint32_t bucket; /* next one of the snapshot */
	/* Of buckets that the reader had: those that changed come again, from again on. */
	bool changed_due, repeating;
	uint32_t again;
	uint64_t changed[DIGEST_SET_WORDS];
	uint64_t progress_ns;
	uint32_t compare_first, compare_n;
	uint32_t walk_first, walk_n;
	uint32_t list[FEED_PENDING], lists;
	uint8_t *buf;
	size_t len, room;
	bool no_memory;
};

void feed_init(struct feed *f, const struct feed_source *source, struct gate *gate);
void feed_fini(struct feed *f);

/** A frame from the reader. -EPROTO: close; -ENOBUFS: more LISTs than may wait, ignored. */
int feed_input(struct feed *f, const uint8_t *buf, size_t len);

/**
 * The next frame; valid until the next call. 1 and *frame, *len; 0: nothing to send now; -ENOMEM;
 * -ESTALE: the reader fell out of the ring or the log began anew; it must resume.
 */
int feed_pull(struct feed *f, uint64_t now_ns, const uint8_t **frame, size_t *len);
