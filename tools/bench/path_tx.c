/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/host.h"
#include "tools/bench/path.h"
#include "tools/bench/source.h"
#include "tools/bench/standin.h"

#include "dataplane/transport/redundancy.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	BURST = SESSION_BURST_MAX,
	BLOCKS_IN_FLIGHT = 64,
	IDLE_MOST = 1 << 22,  /* turns without a packet: the session stalled */
	LOSS_SAMPLES = 15000, /* packets the sender's estimate rests on, about */
	FIRST_NS = 1000000000,
	STANDIN_CYCLES_MAX = 50000,        /* for a report */
	STANDIN_CYCLES_A_PACKET_MAX = 400, /* more: interrupted */
};

/* Of redundancy.h, as sessions use it. */
#define FAILURE_TARGET 2e-4

struct tx_bench {
	struct session *session;
	struct standin peer;
	struct source source;
	uint8_t *ring;
	size_t slot_bytes, cap;
	uint64_t now_ns, packet_ns, turn, standin_mean;
};

/*
 * The sender plans rows from measured losses: find the loss that makes it plan this many. Its
 * estimate is the mean and one deviation.
 */
static double loss_for_rows(uint32_t rows)
{
	struct redundancy *r = malloc(sizeof(*r));
	double low = 0, high = 0;

	if (r == NULL || redundancy_init(r, FAILURE_TARGET) < 0) {
		free(r);
		return 0;
	}
	for (double p = 1e-6; p < 0.3; p *= 1.01) {
		double seen = p + sqrt(p * (1 - p) / LOSS_SAMPLES);

		if (redundancy_rows(r, STRAIT_BLOCK_SYMBOLS_MAX, seen) != rows)
			continue;
		low = low > 0 ? low : p;
		high = p;
	}
	free(r);
	return sqrt(low * high);
}

struct tx_bench *tx_bench_create(const struct bench_options *o, const uint8_t *pool)
{
	struct standin_config peer = { .session = 1, .direction = STRAIT_DIR_RESPONDER, .seed = 1 };
	struct session_config cfg;
	struct tx_bench *b;
	int ret;

	b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
	if (b == NULL)
		return NULL;
	memset(b, 0, sizeof(*b));
	if (o->rows > 0) {
		peer.loss = loss_for_rows(o->rows);
		ret = -ERANGE;
		if (!(peer.loss > 0))
			goto fail;
	}
	b->slot_bytes = host_slot_bytes(o->symbol_bytes);
	b->cap = o->symbol_bytes + STRAIT_OVERHEAD_BYTES;
	b->ring = host_region_get(HOST_RING_SLOTS * b->slot_bytes);
	b->packet_ns = bench_source_packet_ns(o->symbol_bytes);
	b->now_ns = FIRST_NS;
	peer.rtt_ns = BLOCKS_IN_FLIGHT * STRAIT_BLOCK_SYMBOLS_MAX * b->packet_ns;
	bench_source_session_config(&cfg, (uint16_t)o->symbol_bytes, peer.rtt_ns);
	cfg.own_session = peer.session;
	cfg.peer_session = 2;
	cfg.direction = STRAIT_DIR_INITIATOR;
	cfg.loss_prior = peer.loss;
	peer.aead = cfg.aead;
	memcpy(peer.secret, cfg.secret, sizeof(peer.secret));
	ret = b->ring != NULL ? standin_init(&b->peer, &peer) : -ENOMEM;
	if (ret == 0)
		ret = bench_source_init(&b->source, pool, (uint64_t)o->pool_mib << 20,
			(uint16_t)o->symbol_bytes,
			o->rows > 0 ? STRAIT_CLASS_URGENT : STRAIT_CLASS_NORMAL, false);
	if (ret < 0)
		goto fail;
	b->session = b->source.session = session_create(&cfg);
	ret = -errno;
	if (b->session != NULL)
		return b;
fail:
	tx_bench_destroy(b);
	errno = -ret;
	return NULL;
}

void tx_bench_destroy(struct tx_bench *b)
{
	if (b == NULL)
		return;
	session_destroy(b->session);
	bench_source_fini(&b->source);
	standin_fini(&b->peer);
	host_region_put(b->ring, HOST_RING_SLOTS * b->slot_bytes);
	free(b);
}

/*
 * The stand-in's cycles are not the sender's: tx_bench_run() takes them off. A call that the
 * machine interrupted counts as the ones before, lest what others got of the CPU be taken off too.
 */
static void standin_add(struct tx_bench *b, struct stretch *out, uint64_t cycles, uint32_t packets)
{
	if (packets == 0) {
		if (cycles > STANDIN_CYCLES_MAX)
			return;
	} else if (cycles > packets * (uint64_t)STANDIN_CYCLES_A_PACKET_MAX) {
		cycles = packets * b->standin_mean;
	} else {
		b->standin_mean = (15 * b->standin_mean + cycles / packets) / 16;
	}
	out->standin_cycles += cycles;
}

static int feedback(struct tx_bench *b, struct stretch *out)
{
	uint8_t packet[STRAIT_SYMBOL_BYTES_MAX + STRAIT_OVERHEAD_BYTES];
	uint64_t t0 = host_cycles(), t1;
	size_t len = standin_give(&b->peer, b->now_ns, packet, b->cap);
	int ret = 0;

	t1 = host_cycles();
	standin_add(b, out, t1 - t0, 0);
	if (len > 0)
		ret = session_recv(b->session, b->now_ns, packet, len);
	out->feedback_cycles += host_cycles() - t1;
	return ret;
}

/* One turn of a worker: events, up to a burst of packets, reports when they are due. */
static int turn(struct tx_bench *b, struct stretch *out, uint32_t *sent)
{
	struct session_packet p[BURST];
	int ret = bench_source_poll(&b->source, b->now_ns);
	uint64_t t0;

	*sent = 0;
	for (uint32_t i = 0; i < BURST; i++)
		p[i].buf = b->ring + (b->turn + i) % HOST_RING_SLOTS * b->slot_bytes +
			HOST_HEADROOM_BYTES;
	if (ret == 0)
		*sent = session_send_burst(b->session, b->now_ns, p, BURST, b->cap);
	t0 = host_cycles();
	for (uint32_t i = 0; i < *sent && ret == 0; i++)
		ret = standin_take(&b->peer, b->now_ns, p[i].buf, p[i].len);
	standin_add(b, out, host_cycles() - t0, *sent);
	b->turn += *sent;
	b->now_ns += (*sent > 0 ? *sent : 1) * b->packet_ns;
	if (ret == 0 && b->now_ns >= b->peer.due_ns)
		ret = feedback(b, out);
	return ret;
}

static uint64_t delta(const struct session_stats s[2], int counter)
{
	return s[1].counters[counter] - s[0].counters[counter];
}

int tx_bench_run(struct tx_bench *b, double seconds, struct stretch *out)
{
	uint64_t cpu = host_cpu_ns(), start = host_now_ns(), now;
	uint64_t end = start + (uint64_t)(seconds * 1e9), standin;
	uint32_t symbol = b->source.symbol_bytes, sent, idle = 0;
	struct session_stats stats[2]; /* before, after */
	int ret = 0;

	session_stats(b->session, &stats[0]);
	standin = out->standin_cycles;
	do {
		/* As often as the ceiling looks at the clock. */
		for (int i = 0; i < STRAIT_BLOCK_SYMBOLS_MAX / BURST && ret == 0; i++) {
			ret = turn(b, out, &sent);
			idle = sent > 0 ? 0 : idle + 1;
		}
		if (ret == 0 && idle > IDLE_MOST)
			ret = -ETIME;
		now = host_now_ns();
	} while (ret == 0 && now < end);
	session_stats(b->session, &stats[1]);
	out->seconds += (double)(host_cpu_ns() - cpu) * 1e-9 -
		(double)(out->standin_cycles - standin) / host_cycles_a_second();
	out->wall_seconds += (double)(now - start) * 1e-9;
	out->packets += delta(stats, STRAIT_C_tx_packets);
	out->payload_bytes += delta(stats, STRAIT_C_tx_source) * symbol;
	out->rows += delta(stats, STRAIT_C_tx_repair);
	out->resent += delta(stats, STRAIT_C_tx_resend);
	out->blocks += (double)delta(stats, STRAIT_C_tx_source) / STRAIT_BLOCK_SYMBOLS_MAX;
	return ret;
}
