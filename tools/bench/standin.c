/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/standin.h"

#include "dataplane/transport/frame.h"
#include "dataplane/transport/packet.h"

#include <strait/status.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS_A_FRAME = 100 };

static uint64_t random_next(struct standin *p)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return p->random;
}

/* Packets until the next loss: geometric, so that a packet costs a decrement. */
static uint64_t draw_loss(struct standin *p)
{
	double u = ((double)(random_next(p) >> 11) + 1) * 0x1p-53;

	return p->cfg.loss > 0 ? (uint64_t)(log(u) / log1p(-p->cfg.loss)) : UINT64_MAX;
}

int standin_init(struct standin *p, const struct standin_config *cfg)
{
	int ret;

	memset(p, 0, sizeof(*p));
	p->cfg = *cfg;
	p->random = cfg->seed * 2 + 1;
	p->until_loss = draw_loss(p);
	ret = key_tx_init(&p->tx_keys, cfg->aead, cfg->secret, cfg->direction, 0);
	if (ret == 0)
		ret = key_rx_init(&p->rx_keys, cfg->aead, cfg->secret, !cfg->direction, 0);
	return ret;
}

static void transfer_free(struct standin_transfer *t)
{
	for (int i = 0; i < STRAIT_STREAM_COUNT; i++)
		free(t->stream[i].count);
	memset(t, 0, sizeof(*t));
}

void standin_fini(struct standin *p)
{
	for (int i = 0; i < STANDIN_TRANSFERS; i++)
		transfer_free(&p->transfers[i]);
	key_tx_fini(&p->tx_keys);
	key_rx_fini(&p->rx_keys);
}

static struct standin_transfer *transfer_find(struct standin *p, uint32_t id)
{
	struct standin_transfer *t = &p->transfers[id % STANDIN_TRANSFERS];

	return id != 0 && t->id == id ? t : NULL;
}

static int on_open(struct standin *p, const struct frame_open *o)
{
	struct standin_transfer *t = &p->transfers[o->transfer % STANDIN_TRANSFERS];
	const uint64_t bytes[STRAIT_STREAM_COUNT] = {
		[STRAIT_STREAM_OBJECTS] = o->stream_bytes,
		[STRAIT_STREAM_MANIFEST] = o->manifest_bytes,
	};

	if (t->id != o->transfer) {
		transfer_free(t);
		for (int i = 0; i < STRAIT_STREAM_COUNT; i++) {
			struct standin_stream *s = &t->stream[i];
			int ret = partition_init(&s->part, bytes[i], o->symbol_bytes);

			if (ret < 0)
				return ret;
			s->count = calloc(s->part.blocks, 1);
			if (s->count == NULL)
				return -ENOMEM;
		}
		t->id = o->transfer;
		t->objects = o->objects;
		t->object_bytes = o->stream_bytes / o->objects;
	}
	t->ack_due = true;
	return 0;
}

static int on_frame(struct standin *p, const struct frame *f)
{
	struct standin_transfer *t;
	struct frame_object_ack ack;
	struct frame_status status;
	struct frame_open open;
	int ret = 0;

	switch (f->type) {
	case STRAIT_FRAME_CHALLENGE:
		ret = frame_get_token(f, &p->token);
		p->response_due = ret == 0;
		break;
	case STRAIT_FRAME_OPEN:
		ret = frame_get_open(f, &open);
		if (ret == 0)
			ret = on_open(p, &open);
		break;
	case STRAIT_FRAME_OBJECT_ACK:
		ret = frame_get_object_ack(f, &ack);
		t = ret == 0 ? transfer_find(p, ack.transfer) : NULL;
		if (t != NULL && ack.next > t->log_acked && ack.next <= t->log_len)
			t->log_acked = ack.next;
		break;
	case STRAIT_FRAME_CLOSE:
		ret = frame_get_status(f, &status);
		t = ret == 0 ? transfer_find(p, status.transfer) : NULL;
		if (t != NULL)
			t->close_due = true;
		break;
	default:
		break; /* PING: reports go out anyway; REPORT: nothing it sends is tracked */
	}
	return ret;
}

static int control_take(struct standin *p, const struct packet_header *h, const uint8_t *packet,
	size_t len)
{
	struct key_slot *key =
		key_rx_find(&p->rx_keys, h->packet_number >> STRAIT_GENERATION_SHIFT);
	uint8_t nonce[STRAIT_IV_BYTES], body[STRAIT_SYMBOL_BYTES_MAX];
	struct frame_reader r;
	struct frame f;
	int ret;

	if (key == NULL || len - STRAIT_OVERHEAD_BYTES > sizeof(body))
		return -EBADMSG;
	key_nonce(key->iv, h->packet_number, nonce);
	ret = aead_open(&key->aead, nonce, packet, STRAIT_HEADER_BYTES,
		packet + STRAIT_HEADER_BYTES, len - STRAIT_OVERHEAD_BYTES,
		packet + len - STRAIT_TAG_BYTES, body);
	if (ret == 0)
		ret = key_rx_used(&p->rx_keys, h->packet_number >> STRAIT_GENERATION_SHIFT);
	if (ret < 0)
		return ret;
	frame_reader_init(&r, body, len - STRAIT_OVERHEAD_BYTES);
	while ((ret = frame_next(&r, &f)) == 1) {
		ret = on_frame(p, &f);
		if (ret < 0)
			return ret;
	}
	return ret;
}

int standin_take(struct standin *p, uint64_t now_ns, const uint8_t *packet, size_t len)
{
	struct standin_flight *e = &p->flight[p->head % STANDIN_FLIGHT];
	struct packet_header h;
	int ret = packet_header_decode(packet, len, &h);

	if (ret < 0)
		return ret;
	if (p->head - p->tail == STANDIN_FLIGHT)
		return -ENOBUFS;
	*e = (struct standin_flight){
		.pn = h.packet_number,
		.time_ns = now_ns,
		.transfer = h.transfer,
		.block = h.block,
		.type = h.type,
	};
	p->head++;
	if (h.type == STRAIT_PACKET_CONTROL)
		return control_take(p, &h, packet, len);
	if (p->until_loss-- == 0) {
		p->until_loss = draw_loss(p);
		p->lost++;
		e->lost = true;
	}
	return 0;
}

static void gap_add(struct standin *p, uint64_t first, uint64_t last)
{
	struct standin_gap *g = &p->gaps[(p->n_gaps - 1) % STANDIN_GAPS];

	if (p->n_gaps > 0 && g->last + 1 == first) {
		g->last = last;
		return;
	}
	p->gaps[p->n_gaps++ % STANDIN_GAPS] = (struct standin_gap){ first, last };
}

static void symbol_count(struct standin *p, const struct standin_flight *e)
{
	struct standin_transfer *t = transfer_find(p, e->transfer);
	struct standin_stream *s;

	if (t == NULL || e->type == STRAIT_PACKET_CONTROL)
		return;
	s = &t->stream[e->type == STRAIT_PACKET_MANIFEST];
	if (e->block >= s->part.blocks)
		return;
	if (s->count[e->block] < UINT8_MAX)
		s->count[e->block]++;
	while (s->floor < s->part.blocks && s->count[s->floor] >= partition_k(&s->part, s->floor)) {
		s->floor++;
		s->changed = true;
	}
}

/* Objects are whole in order, as the floor passes their ends. */
static void log_grow(struct standin_transfer *t)
{
	const struct standin_stream *s = &t->stream[STRAIT_STREAM_OBJECTS];
	uint64_t at =
		s->floor < s->part.blocks ? partition_offset(&s->part, s->floor, 0) : s->part.bytes;

	while (t->log_len < t->objects && (t->log_len + 1) * t->object_bytes <= at)
		t->log_len++;
}

static void arrive(struct standin *p, uint64_t now_ns)
{
	while (p->tail != p->head) {
		const struct standin_flight *e = &p->flight[p->tail % STANDIN_FLIGHT];

		if (e->time_ns + p->cfg.rtt_ns > now_ns)
			return;
		p->tail++;
		if (p->any && e->pn > p->seen + 1)
			gap_add(p, p->seen + 1, e->pn - 1);
		p->seen = e->pn;
		p->any = true;
		if (e->lost) {
			gap_add(p, e->pn, e->pn);
			continue;
		}
		p->newest = e->pn;
		p->newest_ns = e->time_ns + p->cfg.rtt_ns / 2;
		p->fresh = true;
		symbol_count(p, e);
	}
}

static void write_report(struct standin *p, struct frame_writer *w)
{
	struct frame_report f = {
		.newest = p->newest,
		.newest_us = p->newest_ns / 1000,
		.base = p->newest,
	};
	uint64_t *slot = &p->floors[p->reports % STANDIN_REPORT_REPEATS], floor = *slot;
	uint64_t high = p->newest;

	if (frame_report_begin(w, &f) < 0)
		return;
	for (uint32_t n = 1; n <= p->n_gaps && n <= STANDIN_GAPS; n++) {
		const struct standin_gap *g = &p->gaps[(p->n_gaps - n) % STANDIN_GAPS];

		if (g->first > high)
			continue;
		if (g->last < floor ||
			frame_report_range(w, high - g->last, g->last - g->first + 1))
			break;
		high = g->first - 1;
	}
	if (high >= floor)
		(void)frame_report_range(w, high - floor + 1, 0);
	frame_list_end(w);
	*slot = p->newest + 1;
	p->reports++;
	p->fresh = false;
}

static void write_transfer(struct frame_writer *w, struct standin_transfer *t)
{
	if (t->ack_due && frame_put_open_ack(w, t->id, STRAIT_STATUS_PENDING) == 0)
		t->ack_due = false;
	for (uint8_t i = 0; i < STRAIT_STREAM_COUNT; i++) {
		struct standin_stream *s = &t->stream[i];

		if (!s->changed || frame_have_begin(w, t->id, i, s->floor) < 0)
			continue;
		frame_list_end(w);
		s->changed = false;
	}
	log_grow(t);
	if (t->log_acked < t->log_len && frame_object_begin(w, t->id, t->log_acked) == 0) {
		for (uint32_t i = t->log_acked;
			i < t->log_len && i - t->log_acked < OBJECTS_A_FRAME; i++)
			if (frame_objects_item(w, i, STRAIT_STATUS_COMMITTED) < 0)
				break;
		frame_list_end(w);
	}
	if (t->close_due && frame_put_close_ack(w, t->id) == 0)
		transfer_free(t);
}

size_t standin_give(struct standin *p, uint64_t now_ns, uint8_t *buf, size_t cap)
{
	struct packet_header h = {
		.type = STRAIT_PACKET_CONTROL,
		.session = p->cfg.session,
	};
	uint8_t nonce[STRAIT_IV_BYTES], *body = buf + STRAIT_HEADER_BYTES;
	struct frame_writer w;

	if (now_ns < p->due_ns || cap <= STRAIT_OVERHEAD_BYTES)
		return 0;
	p->due_ns = now_ns + p->cfg.rtt_ns / STANDIN_REPORTS_A_ROUND;
	arrive(p, now_ns);
	frame_writer_init(&w, body, cap - STRAIT_OVERHEAD_BYTES);
	if (p->response_due && frame_put_token(&w, STRAIT_FRAME_RESPONSE, p->token) == 0)
		p->response_due = false;
	for (int i = 0; i < STANDIN_TRANSFERS; i++)
		if (p->transfers[i].id != 0)
			write_transfer(&w, &p->transfers[i]);
	if (p->fresh)
		write_report(p, &w);
	if (w.len == 0)
		return 0;
	h.packet_number = p->next_pn++;
	packet_header_encode(&h, buf);
	key_nonce(p->tx_keys.slot.iv, h.packet_number, nonce);
	aead_seal(&p->tx_keys.slot.aead, nonce, buf, STRAIT_HEADER_BYTES, body, w.len, body,
		body + w.len);
	return STRAIT_OVERHEAD_BYTES + w.len;
}
