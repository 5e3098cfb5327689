/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/host.h"
#include "tools/bench/path.h"
#include "tools/bench/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A real sender fills a ring, untimed; a real receiver empties it, timed; its reports go back,
 * untimed. So is the ring's first eighth: what the receiver had in the near caches made room for
 * the sender, which on a line has caches of its own. Fill and drain take turns in virtual time too,
 * so a round trip is two rings long.
 */

enum {
	BURST = 32,
	WARM_UP = 256,     /* packets of a ring */
	HEADERS_AHEAD = 5, /* packets, as the worker of an edge */
	REPLIES = 4096,
	STALLED = 1000, /* rings without a packet of data */
	FIRST_NS = 1000000000,
};

struct reply {
	uint64_t time_ns;
	uint32_t len;
	uint8_t packet[STRAIT_SYMBOL_BYTES_MAX + STRAIT_OVERHEAD_BYTES];
};

struct rx_bench {
	struct session *tx, *rx;
	struct source source;
	uint8_t *ring, *pool, *resume;
	uint32_t *lens;
	struct reply *replies;
	size_t ring_bytes, pool_bytes, slot_bytes, cap;
	uint32_t slots, filled, n_replies, objects;
	uint64_t now_ns, packet_ns, lap_ns, random;
	double loss;
};

uint32_t bench_ring_slots(const struct bench_options *o)
{
	if (o->verb != BENCH_RX || o->ring_mib == 0)
		return HOST_RING_SLOTS;
	return (uint32_t)(((size_t)o->ring_mib << 20) / host_slot_bytes(o->symbol_bytes));
}

struct rx_bench *rx_bench_create(const struct bench_options *o, const uint8_t *pool)
{
	struct rx_bench *b = calloc(1, sizeof(*b));
	struct session_config cfg;
	int ret = -ENOMEM;

	if (b == NULL)
		return NULL;
	b->slot_bytes = host_slot_bytes(o->symbol_bytes);
	b->slots = bench_ring_slots(o);
	b->ring_bytes = b->slots * b->slot_bytes;
	b->pool_bytes = (size_t)o->pool_mib << 20;
	b->cap = o->symbol_bytes + STRAIT_OVERHEAD_BYTES;
	b->objects = (uint32_t)(b->pool_bytes / SOURCE_OBJECT_BYTES);
	b->packet_ns = bench_source_packet_ns(o->symbol_bytes);
	b->lap_ns = b->slots * b->packet_ns;
	b->now_ns = FIRST_NS;
	b->random = 1;
	b->loss = o->loss;
	b->ring = host_region_get(b->ring_bytes);
	b->pool = host_region_get(b->pool_bytes);
	b->resume = aligned_alloc(64, (size_t)b->objects * SESSION_RESUME_BYTES);
	b->lens = calloc(b->slots, sizeof(*b->lens));
	b->replies = malloc(REPLIES * sizeof(*b->replies));
	if (!b->ring || !b->pool || !b->resume || !b->lens || !b->replies)
		goto fail;
	ret = bench_source_init(&b->source, pool, b->pool_bytes, (uint16_t)o->symbol_bytes,
		b->loss > 0 ? STRAIT_CLASS_URGENT : STRAIT_CLASS_NORMAL, true);
	if (ret < 0)
		goto fail;
	bench_source_session_config(&cfg, (uint16_t)o->symbol_bytes, 2 * b->lap_ns);
	cfg.own_session = 1;
	cfg.peer_session = 2;
	cfg.direction = STRAIT_DIR_INITIATOR;
	cfg.loss_prior = b->loss;
	b->tx = b->source.session = session_create(&cfg);
	cfg.own_session = 2;
	cfg.peer_session = 1;
	cfg.direction = STRAIT_DIR_RESPONDER;
	b->rx = session_create(&cfg);
	ret = -errno;
	if (b->tx != NULL && b->rx != NULL)
		return b;
fail:
	rx_bench_destroy(b);
	errno = -ret;
	return NULL;
}

/* Transfers the receiver still holds are closed by a reset, which tells them one by one. */
static void receiver_drop(struct session *s)
{
	struct session_event ev;

	session_reset(s, STRAIT_STATUS_RESET);
	while (session_poll(s, &ev))
		if (ev.type == SESSION_EVENT_RX_CLOSED)
			rx_transfer_destroy(ev.rx);
	session_destroy(s);
}

void rx_bench_destroy(struct rx_bench *b)
{
	if (b == NULL)
		return;
	if (b->rx != NULL)
		receiver_drop(b->rx);
	session_destroy(b->tx);
	bench_source_fini(&b->source);
	host_region_put(b->ring, b->ring_bytes);
	host_region_put(b->pool, b->pool_bytes);
	free(b->resume);
	free(b->lens);
	free(b->replies);
	free(b);
}

static bool is_dropped(struct rx_bench *b, const uint8_t *packet)
{
	if (b->loss <= 0 || (packet[STRAIT_OFF_VERSION_TYPE] & 0x0f) == STRAIT_PACKET_CONTROL)
		return false;
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return (double)(b->random >> 11) * 0x1p-53 < b->loss;
}

/* A slot per moment of the line; length 0: nothing was sent then, or it was lost. */
static int ring_fill(struct rx_bench *b)
{
	uint64_t until = b->now_ns + b->lap_ns;
	int ret = 0;

	b->filled = 0;
	for (uint32_t i = 0; i < b->slots && ret == 0; i++, b->now_ns += b->packet_ns) {
		uint8_t *packet = b->ring + b->filled * b->slot_bytes + HOST_HEADROOM_BYTES;
		size_t len;

		if (i % BURST == 0)
			ret = bench_source_poll(&b->source, b->now_ns);
		len = session_send(b->tx, b->now_ns, packet, b->cap);
		if (len > 0 && !is_dropped(b, packet))
			b->lens[b->filled++] = (uint32_t)len;
	}
	b->now_ns = until;
	return ret;
}

/* The receiving side's control thread: objects lie in its pool as in the sender's. */
static int receiver_poll(struct rx_bench *b)
{
	struct session_event ev;
	struct rx_transfer *t;
	uint64_t part;

	while (session_poll(b->rx, &ev)) {
		switch (ev.type) {
		case SESSION_EVENT_RX_OPEN:
			t = rx_transfer_create(&ev.open, NULL);
			if (t == NULL)
				return -errno;
			if (session_rx_attach(b->rx, b->now_ns, t) < 0)
				rx_transfer_destroy(t);
			break;
		case SESSION_EVENT_RX_MANIFEST:
			if (rx_transfer_load_objects(ev.rx) < 0)
				return -EPROTO;
			session_rx_begin(b->rx, b->now_ns, ev.rx);
			part = rx_transfer_open(ev.rx)->order % SOURCE_LIVE;
			for (uint32_t i = 0; i < rx_transfer_objects(ev.rx); i++) {
				uint64_t at = part * (b->objects / SOURCE_LIVE) + i;

				rx_object_prepare(ev.rx, i,
					b->pool + (size_t)at * SOURCE_OBJECT_BYTES,
					b->resume + (size_t)at * SESSION_RESUME_BYTES, false);
				session_rx_object_place(b->rx, b->now_ns, ev.rx, i);
			}
			break;
		case SESSION_EVENT_RX_OBJECT:
			session_rx_object_finish(b->rx, ev.rx, ev.object, ev.status);
			if (ev.status != STRAIT_STATUS_COMMITTED)
				return -EBADMSG;
			break;
		case SESSION_EVENT_RX_CLOSED:
			rx_transfer_destroy(ev.rx);
			break;
		case SESSION_EVENT_DEAD:
			return -ETIME;
		default:
			break;
		}
	}
	return 0;
}

static int receiver_answer(struct rx_bench *b)
{
	while (b->n_replies < REPLIES) {
		struct reply *r = &b->replies[b->n_replies];

		r->len = (uint32_t)session_send(b->rx, b->now_ns, r->packet, b->cap);
		if (r->len == 0)
			return 0;
		r->time_ns = b->now_ns;
		b->n_replies++;
	}
	return -ENOBUFS;
}

/* Turns of a worker over what arrived, from packet *at up to `end`. */
static int ring_drain(struct rx_bench *b, uint32_t *at, uint32_t end, struct stretch *out)
{
	uint32_t i = *at;
	int ret = 0;

	do {
		uint64_t t0;

		for (uint32_t n = 0; n < BURST && i < b->filled; n++, i++) {
			const uint8_t *packet = b->ring + i * b->slot_bytes + HOST_HEADROOM_BYTES;

			if (i + SESSION_AHEAD < b->filled)
				session_recv_ahead(b->rx, packet + SESSION_AHEAD * b->slot_bytes,
					b->lens[i + SESSION_AHEAD]);
			if (i + HEADERS_AHEAD < b->filled)
				__builtin_prefetch(packet + HEADERS_AHEAD * b->slot_bytes);
			if (session_recv(b->rx, b->now_ns, packet, b->lens[i]) == -EBADMSG)
				return -EBADMSG;
			b->now_ns += b->packet_ns;
		}
		t0 = host_cycles();
		ret = receiver_answer(b);
		out->feedback_cycles += host_cycles() - t0;
		if (ret == 0)
			ret = receiver_poll(b);
	} while (ret == 0 && i < end);
	*at = i;
	return ret;
}

static uint64_t delta(const struct session_stats s[2], int counter)
{
	return s[1].counters[counter] - s[0].counters[counter];
}

static int ring_measure(struct rx_bench *b, struct stretch *out)
{
	uint64_t until = b->now_ns + b->lap_ns, start, cpu;
	struct session_stats rx[2]; /* before, after */
	struct stretch untimed = { 0 };
	uint32_t at = 0;
	int ret;

	b->n_replies = 0;
	ret = ring_drain(b, &at, b->filled < WARM_UP ? 0 : WARM_UP, &untimed);
	session_stats(b->rx, &rx[0]);
	start = host_now_ns();
	cpu = host_cpu_ns();
	if (ret == 0)
		ret = ring_drain(b, &at, b->filled, out);
	if (b->now_ns < until)
		b->now_ns = until;
	if (ret == 0)
		ret = receiver_answer(b);
	out->seconds += (double)(host_cpu_ns() - cpu) * 1e-9;
	out->wall_seconds += (double)(host_now_ns() - start) * 1e-9;
	session_stats(b->rx, &rx[1]);
	out->packets += delta(rx, STRAIT_C_rx_packets);
	/* Placed as they came, or rebuilt: each counts once. */
	out->payload_bytes +=
		(delta(rx, STRAIT_C_rx_source) + delta(rx, STRAIT_C_rx_decoded_symbols)) *
		b->source.symbol_bytes;
	return ret;
}

static int replies_deliver(struct rx_bench *b)
{
	for (uint32_t i = 0; i < b->n_replies; i++) {
		int ret = session_recv(b->tx, b->replies[i].time_ns, b->replies[i].packet,
			b->replies[i].len);

		if (ret < 0)
			return ret;
	}
	return 0;
}

int rx_bench_run(struct rx_bench *b, double seconds, struct stretch *out)
{
	struct session_stats tx[2], rx[2]; /* before, after */
	double until = out->wall_seconds + seconds;
	uint32_t stalled = 0;
	int ret = 0;

	session_stats(b->tx, &tx[0]);
	session_stats(b->rx, &rx[0]);
	while (ret == 0 && out->wall_seconds < until) {
		ret = ring_fill(b);
		stalled = b->filled > BURST ? 0 : stalled + 1;
		if (ret == 0 && stalled > STALLED)
			ret = -ETIME;
		if (ret < 0)
			break;
		ret = ring_measure(b, out);
		if (ret == 0)
			ret = replies_deliver(b);
	}
	session_stats(b->tx, &tx[1]);
	session_stats(b->rx, &rx[1]);
	out->rows += delta(tx, STRAIT_C_tx_repair);
	out->resent += delta(tx, STRAIT_C_tx_resend);
	out->blocks += (double)delta(tx, STRAIT_C_tx_source) / STRAIT_BLOCK_SYMBOLS_MAX;
	out->blocks_decoded += delta(rx, STRAIT_C_rx_decoded_blocks);
	if (ret == 0 && delta(rx, STRAIT_C_rx_digest) > 0)
		ret = -EBADMSG;
	return ret;
}
