/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/wire.h>

#include <stdbool.h>
#include <stddef.h>

/*
 * Control frames (wire.h lists their bodies). Pure functions over byte spans.
 *
 * Writers append to a struct frame_writer and return 0 or -ENOSPC, having written nothing then.
 * Frames with lists are written by begin / item / end: item returns -ENOSPC when the next entry
 * does not fit (end still works). Readers take one frame at a time and return -EPROTO on anything
 * malformed: a bad length, a varint past the end, a list that does not fill the body exactly, or
 * values outside their limits.
 */

struct frame_writer {
	uint8_t *buf;
	size_t len, cap;
	size_t frame;        /* offset of the open list frame */
	size_t count_offset; /* offset of its count, 2-byte varint: at most 16383 entries */
	uint32_t count;
};

struct frame_reader {
	const uint8_t *p, *end;
};

struct frame {
	uint8_t type;
	uint16_t len;
	const uint8_t *body;
};

void frame_writer_init(struct frame_writer *w, uint8_t *buf, size_t cap);
void frame_reader_init(struct frame_reader *r, const uint8_t *buf, size_t len);

/** 1 a frame was read, 0 at the end, -EPROTO truncated. */
int frame_next(struct frame_reader *r, struct frame *f);

/* RFC 9000 section 16. get: 0 or -EPROTO, moves *p. put: bytes written (caller made room for 8). */
int varint_get(const uint8_t **p, const uint8_t *end, uint64_t *v);
size_t varint_put(uint8_t *p, uint64_t v);
size_t varint_size(uint64_t v);

struct frame_open {
	uint32_t transfer;
	uint64_t order;
	uint64_t stream_bytes;
	uint32_t manifest_bytes;
	uint32_t objects;
	uint16_t symbol_bytes;
	uint8_t class_;
	uint32_t report_interval_us;
	uint64_t deadline_ms; /* Unix time, 0 = none; informational, never used as a clock */
};
int frame_put_open(struct frame_writer *w, const struct frame_open *o);
/**
 * Checks every limit of wire.h: symbol bytes, class, objects >= 1, stream >= objects, manifest
 * bounds.
 */
int frame_get_open(const struct frame *f, struct frame_open *o);

struct frame_status { /* OPEN_ACK, CLOSE */
	uint32_t transfer;
	uint8_t status;
};
int frame_put_open_ack(struct frame_writer *w, uint32_t transfer, uint8_t status);
int frame_put_close(struct frame_writer *w, uint32_t transfer, uint8_t status);
int frame_get_status(const struct frame *f, struct frame_status *s);

int frame_put_close_ack(struct frame_writer *w, uint32_t transfer);
int frame_get_close_ack(const struct frame *f, uint32_t *transfer);

struct frame_report {
	uint8_t queue;
	uint64_t newest;     /* newest packet number received */
	uint64_t newest_us;  /* its receive time on the receiver's monotonic clock */
	uint32_t delay_us;   /* from then to this report */
	uint64_t base;       /* highest packet number the ranges speak of */
	uint32_t count;      /* ranges */
	const uint8_t *list; /* encoded ranges, iterate with frame_report_next() */
	const uint8_t *end;
};
/** Starts a REPORT; follow with frame_report_range() from high to low, then frame_list_end(). */
int frame_report_begin(struct frame_writer *w, const struct frame_report *r);
/** `received` >= 1 packets up to and including the cursor, then `missing` below them. */
int frame_report_range(struct frame_writer *w, uint64_t received, uint64_t missing);
/** Checks the whole list: no underflow below packet number 0. */
int frame_get_report(const struct frame *f, struct frame_report *r);
/** Next received range [*low, *high], downward. *cursor starts at r->base. 1, or 0 at the end. */
int frame_report_next(struct frame_report *r, uint64_t *cursor, uint64_t *low, uint64_t *high);

struct frame_have {
	uint32_t transfer;
	uint8_t stream;
	uint32_t floor;
	uint32_t count;
	const uint8_t *list, *end;
};
int frame_have_begin(struct frame_writer *w, uint32_t transfer, uint8_t stream, uint32_t floor);
/**
 * `gap` >= 1 incomplete blocks after the previous run (or the floor), then `run` >= 1 complete
 * ones.
 */
int frame_have_run(struct frame_writer *w, uint32_t gap, uint32_t run);
int frame_get_have(const struct frame *f, struct frame_have *h);
/** Next complete run [*first, *first + *run). *cursor starts at h->floor. 1, or 0 at the end. */
int frame_have_next(struct frame_have *h, uint64_t *cursor, uint32_t *first, uint32_t *run);

struct frame_need {
	uint32_t transfer;
	uint8_t stream;
	uint64_t newest; /* newest packet number received when this was written */
	uint32_t count;
	const uint8_t *list, *end;
};
int frame_need_begin(struct frame_writer *w, uint32_t transfer, uint8_t stream, uint64_t newest);
/** Blocks in ascending order; *previous starts at 0 and is the writer's memory. missing 1..128. */
int frame_need_block(struct frame_writer *w, uint32_t *previous, uint32_t block, uint32_t missing);
int frame_get_need(const struct frame *f, struct frame_need *n);
/** *cursor starts at 0. 1, or 0 at the end. */
int frame_need_next(struct frame_need *n, uint64_t *cursor, uint32_t *block, uint32_t *missing);

struct frame_credit {
	uint8_t class_;
	uint64_t bytes, objects;
};
int frame_put_credit(struct frame_writer *w, const struct frame_credit *c);
int frame_get_credit(const struct frame *f, struct frame_credit *c);

struct frame_objects { /* OBJECT, WITHDRAW (first unused) */
	uint32_t transfer;
	uint32_t first;
	uint32_t count;
	const uint8_t *list, *end;
};
int frame_object_begin(struct frame_writer *w, uint32_t transfer, uint32_t first);
int frame_withdraw_begin(struct frame_writer *w, uint32_t transfer);
int frame_objects_item(struct frame_writer *w, uint32_t object, uint8_t status);
int frame_get_objects(const struct frame *f, struct frame_objects *o);
/** 1, or 0 at the end. Advances o->list. */
int frame_objects_next(struct frame_objects *o, uint32_t *object, uint8_t *status);

struct frame_object_ack {
	uint32_t transfer, next;
};
int frame_put_object_ack(struct frame_writer *w, uint32_t transfer, uint32_t next);
int frame_get_object_ack(const struct frame *f, struct frame_object_ack *a);

int frame_put_token(struct frame_writer *w, uint8_t type, uint64_t token); /* CHALLENGE, RESPONSE */
int frame_get_token(const struct frame *f, uint64_t *token);
int frame_put_ping(struct frame_writer *w, uint32_t report_interval_us);
int frame_get_ping(const struct frame *f, uint32_t *report_interval_us);
int frame_put_recall(struct frame_writer *w, uint64_t from);
int frame_get_recall(const struct frame *f, uint64_t *from);
/** Fills what is left of the packet up to len bytes in all, the frame's header included. */
int frame_put_padding(struct frame_writer *w, size_t len);

/** Closes a list frame: patches length and count. Returns the number of entries. */
uint32_t frame_list_end(struct frame_writer *w);
