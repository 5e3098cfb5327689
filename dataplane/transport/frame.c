/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/frame.h"

#include "dataplane/transport/bytes.h"

#include <strait/status.h>

#include <errno.h>
#include <string.h>

#define VARINT_MAX ((1ULL << 62) - 1)

enum {
	COUNT_BYTES = 2, /* a list's count is written as a 2-byte varint, patched at the end */
	COUNT_MAX = (1 << 14) - 1,
};

void frame_writer_init(struct frame_writer *w, uint8_t *buf, size_t cap)
{
	memset(w, 0, sizeof(*w));
	w->buf = buf;
	w->cap = cap;
}

void frame_reader_init(struct frame_reader *r, const uint8_t *buf, size_t len)
{
	r->p = buf;
	r->end = buf + len;
}

int frame_next(struct frame_reader *r, struct frame *f)
{
	size_t left = (size_t)(r->end - r->p);

	if (left == 0)
		return 0;
	if (left < STRAIT_FRAME_HEADER_BYTES)
		return -EPROTO;
	f->type = r->p[0];
	f->len = get_be16(r->p + 1);
	if (left - STRAIT_FRAME_HEADER_BYTES < f->len)
		return -EPROTO;
	f->body = r->p + STRAIT_FRAME_HEADER_BYTES;
	r->p = f->body + f->len;
	return 1;
}

size_t varint_size(uint64_t v)
{
	return v < 1 << 6 ? 1 : v < 1 << 14 ? 2 : v < 1 << 30 ? 4 : 8;
}

size_t varint_put(uint8_t *p, uint64_t v)
{
	switch (varint_size(v)) {
	case 1:
		p[0] = (uint8_t)v;
		return 1;
	case 2:
		put_be16(p, (uint16_t)(v | 1U << 14));
		return 2;
	case 4:
		put_be32(p, (uint32_t)(v | 2U << 30));
		return 4;
	default:
		put_be64(p, v | 3ULL << 62);
		return 8;
	}
}

int varint_get(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	const uint8_t *b = *p;
	size_t size;

	if (b >= end)
		return -EPROTO;
	size = (size_t)1 << (b[0] >> 6);
	if ((size_t)(end - b) < size)
		return -EPROTO;
	*v = b[0] & 0x3f;
	for (size_t i = 1; i < size; i++)
		*v = *v << 8 | b[i];
	*p = b + size;
	return 0;
}

/* Room for a frame; its header is written. NULL: does not fit, nothing changed. */
static uint8_t *put_frame(struct frame_writer *w, uint8_t type, size_t body)
{
	uint8_t *p = w->buf + w->len;

	if (w->cap - w->len < STRAIT_FRAME_HEADER_BYTES + body)
		return NULL;
	p[0] = type;
	put_be16(p + 1, (uint16_t)body);
	w->len += STRAIT_FRAME_HEADER_BYTES + body;
	return p + STRAIT_FRAME_HEADER_BYTES;
}

static uint8_t *list_begin(struct frame_writer *w, uint8_t type, size_t fixed)
{
	size_t start = w->len;
	uint8_t *p = put_frame(w, type, fixed + COUNT_BYTES);

	if (p == NULL)
		return NULL;
	w->frame = start;
	w->count_offset = start + STRAIT_FRAME_HEADER_BYTES + fixed;
	w->count = 0;
	return p;
}

/* Appends the varint a and then, as `b_is_byte` says, the byte or varint b to the open list. */
static int list_item(struct frame_writer *w, uint64_t a, uint64_t b, bool b_is_byte)
{
	size_t size, body = w->len - w->frame - STRAIT_FRAME_HEADER_BYTES;

	if (a > VARINT_MAX || b > VARINT_MAX)
		return -EINVAL;
	size = varint_size(a) + (b_is_byte ? 1 : varint_size(b));
	if (w->count == COUNT_MAX || w->cap - w->len < size || body + size > UINT16_MAX)
		return -ENOSPC;
	w->len += varint_put(w->buf + w->len, a);
	if (b_is_byte)
		w->buf[w->len++] = (uint8_t)b;
	else
		w->len += varint_put(w->buf + w->len, b);
	w->count++;
	return 0;
}

uint32_t frame_list_end(struct frame_writer *w)
{
	put_be16(w->buf + w->frame + 1, (uint16_t)(w->len - w->frame - STRAIT_FRAME_HEADER_BYTES));
	put_be16(w->buf + w->count_offset, (uint16_t)(w->count | 1U << 14));
	return w->count;
}

/* The count of a list frame. The entries, of at least two bytes each, must lie in [*list, *end). */
static int get_list(const struct frame *f, size_t fixed, uint32_t *count, const uint8_t **list,
	const uint8_t **end)
{
	const uint8_t *p = f->body + fixed;
	uint64_t n;

	*end = f->body + f->len;
	if (f->len < fixed || varint_get(&p, *end, &n) != 0 || n > (uint64_t)(*end - p) / 2)
		return -EPROTO;
	*count = (uint32_t)n;
	*list = p;
	return 0;
}

static int get_pair(const uint8_t **p, const uint8_t *end, uint64_t *a, uint64_t *b)
{
	if (varint_get(p, end, a) != 0 || varint_get(p, end, b) != 0)
		return -EPROTO;
	return 0;
}

int frame_put_open(struct frame_writer *w, const struct frame_open *o)
{
	uint8_t *p = put_frame(w, STRAIT_FRAME_OPEN, STRAIT_FRAME_OPEN_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be32(p, o->transfer);
	put_be64(p + 4, o->order);
	put_be64(p + 12, o->stream_bytes);
	put_be32(p + 20, o->manifest_bytes);
	put_be32(p + 24, o->objects);
	put_be16(p + 28, o->symbol_bytes);
	p[30] = o->class_;
	p[31] = 0;
	put_be32(p + 32, o->report_interval_us);
	put_be64(p + 36, o->deadline_ms);
	return 0;
}

/* The smallest record has a key of one byte, the largest a full key and tenant. */
static bool is_open_valid(const struct frame_open *o)
{
	const uint64_t record_min = STRAIT_MANIFEST_FIXED_BYTES + 1;
	const uint64_t record_max =
		STRAIT_MANIFEST_FIXED_BYTES + STRAIT_TENANT_BYTES_MAX + STRAIT_KEY_BYTES_MAX;

	return o->symbol_bytes >= STRAIT_SYMBOL_BYTES_MIN &&
		o->symbol_bytes <= STRAIT_SYMBOL_BYTES_MAX && o->class_ < STRAIT_CLASS_COUNT &&
		o->objects >= 1 && o->objects <= STRAIT_TRANSFER_OBJECTS_MAX &&
		o->stream_bytes >= o->objects &&
		o->stream_bytes <= (uint64_t)o->objects * STRAIT_OBJECT_BYTES_MAX &&
		o->manifest_bytes <= STRAIT_MANIFEST_BYTES_MAX &&
		o->manifest_bytes >= o->objects * record_min &&
		o->manifest_bytes <= o->objects * record_max;
}

int frame_get_open(const struct frame *f, struct frame_open *o)
{
	const uint8_t *p = f->body;

	if (f->len != STRAIT_FRAME_OPEN_BYTES)
		return -EPROTO;
	o->transfer = get_be32(p);
	o->order = get_be64(p + 4);
	o->stream_bytes = get_be64(p + 12);
	o->manifest_bytes = get_be32(p + 20);
	o->objects = get_be32(p + 24);
	o->symbol_bytes = get_be16(p + 28);
	o->class_ = p[30];
	o->report_interval_us = get_be32(p + 32);
	o->deadline_ms = get_be64(p + 36);
	return is_open_valid(o) ? 0 : -EPROTO;
}

static int put_status(struct frame_writer *w, uint8_t type, uint32_t transfer, uint8_t status)
{
	uint8_t *p = put_frame(w, type, STRAIT_FRAME_CLOSE_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be32(p, transfer);
	p[4] = status;
	return 0;
}

int frame_put_open_ack(struct frame_writer *w, uint32_t transfer, uint8_t status)
{
	return put_status(w, STRAIT_FRAME_OPEN_ACK, transfer, status);
}

int frame_put_close(struct frame_writer *w, uint32_t transfer, uint8_t status)
{
	return put_status(w, STRAIT_FRAME_CLOSE, transfer, status);
}

int frame_get_status(const struct frame *f, struct frame_status *s)
{
	if (f->len != STRAIT_FRAME_CLOSE_BYTES)
		return -EPROTO;
	s->transfer = get_be32(f->body);
	s->status = f->body[4];
	return 0;
}

int frame_put_close_ack(struct frame_writer *w, uint32_t transfer)
{
	uint8_t *p = put_frame(w, STRAIT_FRAME_CLOSE_ACK, STRAIT_FRAME_CLOSE_ACK_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be32(p, transfer);
	return 0;
}

int frame_get_close_ack(const struct frame *f, uint32_t *transfer)
{
	if (f->len != STRAIT_FRAME_CLOSE_ACK_BYTES)
		return -EPROTO;
	*transfer = get_be32(f->body);
	return 0;
}

int frame_report_begin(struct frame_writer *w, const struct frame_report *r)
{
	uint8_t *p = list_begin(w, STRAIT_FRAME_REPORT, STRAIT_FRAME_REPORT_FIXED_BYTES);

	if (p == NULL)
		return -ENOSPC;
	p[0] = r->queue;
	p[1] = 0;
	put_be64(p + 2, r->newest);
	put_be64(p + 10, r->newest_us);
	put_be32(p + 18, r->delay_us);
	put_be64(p + 22, r->base);
	return 0;
}

int frame_report_range(struct frame_writer *w, uint64_t received, uint64_t missing)
{
	if (received == 0)
		return -EINVAL;
	return list_item(w, received - 1, missing, false);
}

int frame_get_report(const struct frame *f, struct frame_report *r)
{
	const uint8_t *p = f->body;
	uint64_t left; /* packet numbers from 0 to the cursor */

	if (get_list(f, STRAIT_FRAME_REPORT_FIXED_BYTES, &r->count, &r->list, &r->end) != 0)
		return -EPROTO;
	r->queue = p[0];
	r->newest = get_be64(p + 2);
	r->newest_us = get_be64(p + 10);
	r->delay_us = get_be32(p + 18);
	r->base = get_be64(p + 22);
	if (r->base > r->newest || r->newest > VARINT_MAX || r->newest_us >= STRAIT_REPORT_US_LIMIT)
		return -EPROTO;
	left = r->base + 1;
	p = r->list;
	for (uint32_t i = 0; i < r->count; i++) {
		uint64_t received, missing;

		if (get_pair(&p, r->end, &received, &missing) != 0)
			return -EPROTO;
		received++;
		if (received > left || missing > left - received)
			return -EPROTO;
		left -= received + missing;
	}
	return p == r->end ? 0 : -EPROTO;
}

int frame_report_next(struct frame_report *r, uint64_t *cursor, uint64_t *low, uint64_t *high)
{
	uint64_t received, missing;

	if (r->count == 0 || get_pair(&r->list, r->end, &received, &missing) != 0)
		return 0;
	r->count--;
	*high = *cursor;
	*low = *cursor - received;
	*cursor = *low - missing - 1; /* wraps at the end when packet number 0 is reached */
	return 1;
}

int frame_have_begin(struct frame_writer *w, uint32_t transfer, uint8_t stream, uint32_t floor)
{
	uint8_t *p = list_begin(w, STRAIT_FRAME_HAVE, STRAIT_FRAME_HAVE_FIXED_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be32(p, transfer);
	p[4] = stream;
	put_be32(p + 5, floor);
	return 0;
}

int frame_have_run(struct frame_writer *w, uint32_t gap, uint32_t run)
{
	if (gap == 0 || run == 0)
		return -EINVAL;
	return list_item(w, gap, run, false);
}

int frame_get_have(const struct frame *f, struct frame_have *h)
{
	const uint8_t *p = f->body;
	uint64_t cursor, gap, run;

	if (get_list(f, STRAIT_FRAME_HAVE_FIXED_BYTES, &h->count, &h->list, &h->end) != 0)
		return -EPROTO;
	h->transfer = get_be32(p);
	h->stream = p[4];
	h->floor = get_be32(p + 5);
	if (h->stream >= STRAIT_STREAM_COUNT)
		return -EPROTO;
	cursor = h->floor;
	p = h->list;
	for (uint32_t i = 0; i < h->count; i++) {
		if (get_pair(&p, h->end, &gap, &run) != 0 || gap == 0 || run == 0 ||
			gap > UINT32_MAX - cursor || run > UINT32_MAX - cursor - gap)
			return -EPROTO;
		cursor += gap + run;
	}
	return p == h->end ? 0 : -EPROTO;
}

int frame_have_next(struct frame_have *h, uint64_t *cursor, uint32_t *first, uint32_t *run)
{
	uint64_t gap, n;

	if (h->count == 0 || get_pair(&h->list, h->end, &gap, &n) != 0)
		return 0;
	h->count--;
	*first = (uint32_t)(*cursor + gap);
	*run = (uint32_t)n;
	*cursor += gap + n;
	return 1;
}

int frame_need_begin(struct frame_writer *w, uint32_t transfer, uint8_t stream, uint64_t newest)
{
	uint8_t *p = list_begin(w, STRAIT_FRAME_NEED, STRAIT_FRAME_NEED_FIXED_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be32(p, transfer);
	p[4] = stream;
	put_be64(p + 5, newest);
	return 0;
}

int frame_need_block(struct frame_writer *w, uint32_t *previous, uint32_t block, uint32_t missing)
{
	int r;

	if (missing == 0 || missing > STRAIT_BLOCK_SYMBOLS_MAX ||
		(w->count > 0 && block <= *previous))
		return -EINVAL;
	r = list_item(w, w->count > 0 ? block - *previous : block, missing, false);
	if (r == 0)
		*previous = block;
	return r;
}

int frame_get_need(const struct frame *f, struct frame_need *n)
{
	const uint8_t *p = f->body;
	uint64_t block = 0, step, missing;

	if (get_list(f, STRAIT_FRAME_NEED_FIXED_BYTES, &n->count, &n->list, &n->end) != 0)
		return -EPROTO;
	n->transfer = get_be32(p);
	n->stream = p[4];
	n->newest = get_be64(p + 5);
	if (n->stream >= STRAIT_STREAM_COUNT)
		return -EPROTO;
	p = n->list;
	for (uint32_t i = 0; i < n->count; i++) {
		if (get_pair(&p, n->end, &step, &missing) != 0 || (i > 0 && step == 0) ||
			step > UINT32_MAX - block || missing == 0 ||
			missing > STRAIT_BLOCK_SYMBOLS_MAX)
			return -EPROTO;
		block += step;
	}
	return p == n->end ? 0 : -EPROTO;
}

int frame_need_next(struct frame_need *n, uint64_t *cursor, uint32_t *block, uint32_t *missing)
{
	uint64_t step, m;

	if (n->count == 0 || get_pair(&n->list, n->end, &step, &m) != 0)
		return 0;
	n->count--;
	*cursor += step;
	*block = (uint32_t)*cursor;
	*missing = (uint32_t)m;
	return 1;
}

int frame_put_credit(struct frame_writer *w, const struct frame_credit *c)
{
	uint8_t *p = put_frame(w, STRAIT_FRAME_CREDIT, STRAIT_FRAME_CREDIT_BYTES);

	if (p == NULL)
		return -ENOSPC;
	p[0] = c->class_;
	put_be64(p + 1, c->bytes);
	put_be64(p + 9, c->objects);
	return 0;
}

int frame_get_credit(const struct frame *f, struct frame_credit *c)
{
	if (f->len != STRAIT_FRAME_CREDIT_BYTES || f->body[0] >= STRAIT_CLASS_COUNT)
		return -EPROTO;
	c->class_ = f->body[0];
	c->bytes = get_be64(f->body + 1);
	c->objects = get_be64(f->body + 9);
	return 0;
}

int frame_object_begin(struct frame_writer *w, uint32_t transfer, uint32_t first)
{
	uint8_t *p = list_begin(w, STRAIT_FRAME_OBJECT, STRAIT_FRAME_OBJECT_FIXED_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be32(p, transfer);
	put_be32(p + 4, first);
	return 0;
}

int frame_withdraw_begin(struct frame_writer *w, uint32_t transfer)
{
	uint8_t *p = list_begin(w, STRAIT_FRAME_WITHDRAW, STRAIT_FRAME_WITHDRAW_FIXED_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be32(p, transfer);
	return 0;
}

int frame_objects_item(struct frame_writer *w, uint32_t object, uint8_t status)
{
	if (object >= STRAIT_TRANSFER_OBJECTS_MAX)
		return -EINVAL;
	return list_item(w, object, status, true);
}

static int get_object(const uint8_t **p, const uint8_t *end, uint64_t *object, uint8_t *status)
{
	if (varint_get(p, end, object) != 0 || *p == end)
		return -EPROTO;
	*status = *(*p)++;
	return 0;
}

/* A final one, and what is withdrawn was not stored. */
static bool is_status(uint8_t type, uint8_t status)
{
	return status != STRAIT_STATUS_PENDING &&
		(type != STRAIT_FRAME_WITHDRAW ||
			(status != STRAIT_STATUS_COMMITTED && status != STRAIT_STATUS_EXISTS));
}

int frame_get_objects(const struct frame *f, struct frame_objects *o)
{
	size_t fixed = f->type == STRAIT_FRAME_OBJECT ? STRAIT_FRAME_OBJECT_FIXED_BYTES
						      : STRAIT_FRAME_WITHDRAW_FIXED_BYTES;
	const uint8_t *p;
	uint64_t object;
	uint8_t status;

	if (get_list(f, fixed, &o->count, &o->list, &o->end) != 0)
		return -EPROTO;
	o->transfer = get_be32(f->body);
	o->first = f->type == STRAIT_FRAME_OBJECT ? get_be32(f->body + 4) : 0;
	if (o->count > UINT32_MAX - o->first)
		return -EPROTO;
	p = o->list;
	for (uint32_t i = 0; i < o->count; i++)
		if (get_object(&p, o->end, &object, &status) != 0 ||
			object >= STRAIT_TRANSFER_OBJECTS_MAX || !is_status(f->type, status))
			return -EPROTO;
	return p == o->end ? 0 : -EPROTO;
}

int frame_objects_next(struct frame_objects *o, uint32_t *object, uint8_t *status)
{
	uint64_t n;

	if (o->count == 0 || get_object(&o->list, o->end, &n, status) != 0)
		return 0;
	o->count--;
	*object = (uint32_t)n;
	return 1;
}

int frame_put_object_ack(struct frame_writer *w, uint32_t transfer, uint32_t next)
{
	uint8_t *p = put_frame(w, STRAIT_FRAME_OBJECT_ACK, STRAIT_FRAME_OBJECT_ACK_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be32(p, transfer);
	put_be32(p + 4, next);
	return 0;
}

int frame_get_object_ack(const struct frame *f, struct frame_object_ack *a)
{
	if (f->len != STRAIT_FRAME_OBJECT_ACK_BYTES)
		return -EPROTO;
	a->transfer = get_be32(f->body);
	a->next = get_be32(f->body + 4);
	return 0;
}

int frame_put_token(struct frame_writer *w, uint8_t type, uint64_t token)
{
	uint8_t *p;

	if (type != STRAIT_FRAME_CHALLENGE && type != STRAIT_FRAME_RESPONSE)
		return -EINVAL;
	p = put_frame(w, type, STRAIT_FRAME_TOKEN_BYTES);
	if (p == NULL)
		return -ENOSPC;
	put_be64(p, token);
	return 0;
}

int frame_get_token(const struct frame *f, uint64_t *token)
{
	if (f->len != STRAIT_FRAME_TOKEN_BYTES)
		return -EPROTO;
	*token = get_be64(f->body);
	return 0;
}

int frame_put_ping(struct frame_writer *w, uint32_t report_interval_us)
{
	uint8_t *p = put_frame(w, STRAIT_FRAME_PING, STRAIT_FRAME_PING_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be32(p, report_interval_us);
	return 0;
}

int frame_get_ping(const struct frame *f, uint32_t *report_interval_us)
{
	if (f->len != STRAIT_FRAME_PING_BYTES)
		return -EPROTO;
	*report_interval_us = get_be32(f->body);
	return 0;
}

int frame_put_recall(struct frame_writer *w, uint64_t from)
{
	uint8_t *p = put_frame(w, STRAIT_FRAME_RECALL, STRAIT_FRAME_RECALL_BYTES);

	if (p == NULL)
		return -ENOSPC;
	put_be64(p, from);
	return 0;
}

int frame_get_recall(const struct frame *f, uint64_t *from)
{
	if (f->len != STRAIT_FRAME_RECALL_BYTES)
		return -EPROTO;
	*from = get_be64(f->body);
	return 0;
}

int frame_put_padding(struct frame_writer *w, size_t len)
{
	uint8_t *p;

	if (len < w->len + STRAIT_FRAME_HEADER_BYTES)
		return -EINVAL;
	len -= w->len + STRAIT_FRAME_HEADER_BYTES;
	p = len <= UINT16_MAX ? put_frame(w, STRAIT_FRAME_PADDING, len) : NULL;
	if (p == NULL)
		return -ENOSPC;
	memset(p, 0, len);
	return 0;
}
