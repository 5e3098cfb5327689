/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/pacer.h"

enum {
	BURST_PACKETS_MIN = 2,
	BURST_NS_MAX = 2000000,
};

/* 8 bits a byte, 10^9 ns a second, 32 fraction bits. */
#define BYTE_Q32_AT_1_BPS ((time_q32)8000000000ULL << 32)

/* Times with 32 fraction bits, wider than 64 bits as a machine may be up for years. */
typedef unsigned __int128 time_q32;

#define TIME_MAX (((time_q32)1 << 96) - 1)

static time_q32 next_q32(const struct pacer *p)
{
	return (time_q32)p->next_ns << 32 | p->next_q32;
}

static void set_next(struct pacer *p, time_q32 next)
{
	if (next > TIME_MAX)
		next = TIME_MAX;
	p->next_ns = (uint64_t)(next >> 32);
	p->next_q32 = (uint32_t)next;
}

/* t * to / from, rounded down, without overflow. */
static time_q32 rescale(time_q32 t, uint64_t to, uint64_t from)
{
	time_q32 whole = t / from, rest = t % from;

	if (whole > TIME_MAX / to)
		return TIME_MAX;
	return whole * to + rest * to / from;
}

static void set_costs(struct pacer *p, uint64_t rate_bps, uint32_t packet_line_bytes)
{
	const time_q32 burst_max = (time_q32)BURST_NS_MAX << 32;
	time_q32 byte, packet, burst;

	p->rate_bps = rate_bps;
	p->byte_q32 = 0;
	p->burst_ns = 0;
	if (rate_bps == 0)
		return;
	byte = (BYTE_Q32_AT_1_BPS + rate_bps - 1) / rate_bps;
	p->byte_q32 = byte > UINT64_MAX ? UINT64_MAX : (uint64_t)byte;
	packet = (time_q32)p->byte_q32 * packet_line_bytes;
	burst = p->burst_packets * packet;
	if (burst > burst_max)
		burst = burst_max;
	if (burst < BURST_PACKETS_MIN * packet)
		burst = BURST_PACKETS_MIN * packet;
	/*
	 * The last packet of a burst leaves on debt. Rounded up, lest a burst is one packet short.
	 */
	p->burst_ns = (uint64_t)((burst - packet + UINT32_MAX) >> 32);
}

void pacer_init(struct pacer *p, uint64_t rate_bps, uint32_t packet_line_bytes,
	uint32_t burst_packets)
{
	p->next_ns = 0;
	p->next_q32 = 0;
	p->burst_packets = burst_packets == 0     ? PACER_BURST
		: burst_packets > PACER_BURST_MAX ? PACER_BURST_MAX
						  : burst_packets;
	set_costs(p, rate_bps, packet_line_bytes);
}

/* Time before now - burst is forgotten: idle periods earn one burst, not more. */
static void clip_credit(struct pacer *p, uint64_t now_ns)
{
	uint64_t oldest_ns = now_ns > p->burst_ns ? now_ns - p->burst_ns : 0;

	if (p->next_ns < oldest_ns) {
		p->next_ns = oldest_ns;
		p->next_q32 = 0;
	}
}

void pacer_set_rate(struct pacer *p, uint64_t now_ns, uint64_t rate_bps, uint32_t packet_line_bytes)
{
	const time_q32 now = (time_q32)now_ns << 32;
	const uint64_t old_bps = p->rate_bps;
	time_q32 next;

	if (old_bps == 0 || rate_bps == 0) {
		set_costs(p, rate_bps, packet_line_bytes);
		set_next(p, now);
		return;
	}
	/*
	 * Credit and debt are bytes: in time they scale with the rate. Rounding is against the
	 * sender.
	 */
	clip_credit(p, now_ns);
	next = next_q32(p);
	if (next > now) {
		next = now + rescale(next - now, old_bps, rate_bps) + 1;
	} else {
		time_q32 credit = rescale(now - next, old_bps, rate_bps);

		next = credit < now ? now - credit : 0;
	}
	set_next(p, next);
	set_costs(p, rate_bps, packet_line_bytes);
	clip_credit(p, now_ns);
}

uint64_t pacer_next_ns(const struct pacer *p)
{
	if (p->rate_bps == 0)
		return 0;
	return p->next_ns + (p->next_q32 != 0);
}

void pacer_take(struct pacer *p, uint64_t now_ns, uint32_t line_bytes)
{
	if (p->rate_bps == 0)
		return;
	clip_credit(p, now_ns);
	set_next(p, next_q32(p) + (time_q32)p->byte_q32 * line_bytes);
}

uint32_t pacer_count(const struct pacer *p, uint64_t now_ns, uint32_t line_bytes, uint32_t most)
{
	struct pacer q = *p;
	time_q32 next, cost = (time_q32)p->byte_q32 * line_bytes;
	uint32_t n = 0;

	if (p->rate_bps == 0)
		return most;
	clip_credit(&q, now_ns);
	for (next = next_q32(&q); n < most && next <= (time_q32)now_ns << 32; n++)
		next += cost;
	return n;
}
