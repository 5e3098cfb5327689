/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/pacer.h"

enum {
	BURST_PACKETS = 16,
	BURST_PACKETS_MIN = 2,
	BURST_NS_MAX = 2000000,
};

/* 8 bits a byte, 10^9 ns a second, 32 fraction bits. */
#define BYTE_Q32_AT_1_BPS ((unsigned __int128)8000000000ULL << 32)

static unsigned __int128 next_q32(const struct pacer *p)
{
	return (unsigned __int128)p->next_ns << 32 | p->next_q32;
}

static void set_next(struct pacer *p, unsigned __int128 next)
{
	p->next_ns = (uint64_t)(next >> 32);
	p->next_q32 = (uint32_t)next;
}

static void set_costs(struct pacer *p, uint64_t rate_bps, uint32_t packet_line_bytes)
{
	unsigned __int128 byte_q32;
	uint64_t packet_ns, burst_ns;

	p->rate_bps = rate_bps;
	p->byte_q32 = 0;
	p->burst_ns = 0;
	if (rate_bps == 0)
		return;
	byte_q32 = (BYTE_Q32_AT_1_BPS + rate_bps - 1) / rate_bps;
	p->byte_q32 = byte_q32 > UINT64_MAX ? UINT64_MAX : (uint64_t)byte_q32;
	packet_ns = (uint64_t)(((unsigned __int128)p->byte_q32 * packet_line_bytes) >> 32);
	burst_ns = BURST_PACKETS * packet_ns;
	if (burst_ns > BURST_NS_MAX)
		burst_ns = BURST_NS_MAX;
	if (burst_ns < BURST_PACKETS_MIN * packet_ns)
		burst_ns = BURST_PACKETS_MIN * packet_ns;
	/* The last packet of a burst leaves on debt. */
	p->burst_ns = burst_ns - packet_ns;
}

void pacer_init(struct pacer *p, uint64_t rate_bps, uint32_t packet_line_bytes)
{
	p->next_ns = 0;
	p->next_q32 = 0;
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
	const uint64_t old_bps = p->rate_bps;
	const unsigned __int128 now = (unsigned __int128)now_ns << 32;

	if (old_bps == 0 || rate_bps == 0) {
		set_costs(p, rate_bps, packet_line_bytes);
		set_next(p, now);
		return;
	}
	/* Credit and debt are bytes: in time they scale with the rate. */
	clip_credit(p, now_ns);
	if (next_q32(p) >= now) {
		uint64_t debt_ns = p->next_ns - now_ns;

		set_costs(p, rate_bps, packet_line_bytes);
		set_next(p, now + ((unsigned __int128)debt_ns * old_bps / rate_bps << 32));
	} else {
		unsigned __int128 credit = (now - next_q32(p)) >> 32;

		set_costs(p, rate_bps, packet_line_bytes);
		credit = credit * old_bps / rate_bps;
		if (credit > p->burst_ns)
			credit = p->burst_ns;
		set_next(p, now - (credit << 32));
	}
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
	set_next(p, next_q32(p) + (unsigned __int128)p->byte_q32 * line_bytes);
}
