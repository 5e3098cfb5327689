/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/mtu.h"

#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

/* PMTU_RAISE_TIMER of RFC 8899 section 5.1.1, and its like while hardly anything passes. */
#define RAISE_NS (600 * NS_PER_S)
#define ERROR_NS (30 * NS_PER_S)

enum {
	ROUND_SHARE = 6, /* a round is followed by the next after this part of a round trip */
	GAP_SHARE = 64,  /* between probes: a queue of few packets is no black hole */
	GAP_PACKETS = 4, /* or so many packets, of a line that may be slower than we think */
	ROUND_BACKOFF = 2 * MTU_ROUNDS, /* rounds, after which the time between them doubles */
	ROUND_BACKOFF_MAX = 8,
};

#define ROUND_MIN_NS (5 * NS_PER_MS)
#define GAP_MIN_NS   (NS_PER_MS / 2)
#define ROUND_MAX_NS NS_PER_S

/*
 * MTUs of links and tunnels: jumbo, FDDI, 802.11, Ethernet, PPPoE, IPIP, GRE, VXLAN, WireGuard,
 * IPsec and clouds, IPv6's least, ARPANET's; then BASE_PLPMTU and the smallest symbol.
 */
static const uint16_t link_mtus[] = { 9000, 4352, 2304, 1500, 1492, 1480, 1450, 1420, 1400, 1350,
	1280, 1006 };

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void ladder_add(struct mtu *m, uint32_t bytes)
{
	uint8_t at = m->n_ladder;

	if (bytes >= m->most || bytes < STRAIT_SYMBOL_BYTES_MIN || at == MTU_LADDER_MAX)
		return;
	for (uint8_t i = 0; i < m->n_ladder; i++)
		if (m->ladder[i] == bytes)
			return;
	for (; at > 0 && m->ladder[at - 1] < bytes; at--)
		m->ladder[at] = m->ladder[at - 1];
	m->ladder[at] = (uint16_t)bytes;
	m->n_ladder++;
}

void mtu_init(struct mtu *m, uint16_t most, uint16_t ip_bytes)
{
	memset(m, 0, sizeof(*m));
	m->most = m->current = most;
	m->open = -1;
	ladder_add(m, STRAIT_SYMBOL_BYTES_MIN);
	ladder_add(m, MTU_BASE_BYTES);
	for (size_t i = 0; i < sizeof(link_mtus) / sizeof(link_mtus[0]); i++)
		ladder_add(m, link_mtus[i] - ip_bytes - STRAIT_OVERHEAD_BYTES);
}

static void confirm_begin(struct mtu *m, uint16_t bytes, uint64_t now_ns)
{
	m->confirming = true;
	m->by_data = m->doubted = false;
	m->confirm_bytes = bytes;
	m->misses = m->told = 0;
	m->hits = 0;
	m->open = -1;
	m->sent_rounds = 0;
	m->round_ns = now_ns;
	m->probe_bytes = 0;
	memset(m->rounds, 0, sizeof(m->rounds));
}

void mtu_start(struct mtu *m, uint64_t now_ns)
{
	if (m->state != MTU_DISABLED || m->n_ladder == 0)
		return;
	m->state = MTU_BASE;
	confirm_begin(m, m->most, now_ns);
}

static uint8_t known_state(const struct mtu *m)
{
	return m->current < MTU_BASE_BYTES && m->current < m->most ? MTU_ERROR
								   : MTU_SEARCH_COMPLETE;
}

static void search_end(struct mtu *m, uint64_t now_ns)
{
	if (m->low > m->current) {
		m->current = m->low;
		m->changed = true;
	}
	m->state = known_state(m);
	m->probe_bytes = 0;
	m->raise_ns = m->current == m->most
		? UINT64_MAX
		: now_ns + (m->state == MTU_ERROR ? ERROR_NS : RAISE_NS);
}

static void search_begin(struct mtu *m, bool from_top)
{
	m->state = MTU_SEARCHING;
	m->low = m->current;
	m->from_top = from_top;
	m->tries = m->unheard = 0;
	m->probe_bytes = 0;
	m->raise_ns = UINT64_MAX;
}

/* The size in doubt passes. */
static void confirm_passed(struct mtu *m)
{
	m->confirming = false;
	m->waiting_bytes = 0;
	if (m->state != MTU_BASE)
		return;
	m->state = MTU_SEARCH_COMPLETE;
	m->raise_ns = UINT64_MAX;
}

/* The size in doubt does not pass: go down to the largest one that did. */
static void confirm_failed(struct mtu *m)
{
	uint16_t high = m->confirm_bytes, low = STRAIT_SYMBOL_BYTES_MIN;

	for (uint8_t i = 0; i < m->n_ladder; i++) {
		if (m->ladder[i] >= m->confirm_bytes)
			continue;
		if (m->hits >> i & 1) {
			low = m->ladder[i];
			break;
		}
		high = m->ladder[i];
	}
	m->confirming = false;
	m->waiting_bytes = 0;
	m->current = low;
	m->changed = true;
	m->high = high > low ? high : low + 1;
	search_begin(m, false);
}

static uint16_t round_bytes(const struct mtu *m, uint8_t probe)
{
	if (probe == 0 || probe == MTU_ROUND_LAST)
		return MTU_SENTINEL_BYTES;
	return probe == 1 ? m->confirm_bytes : m->ladder[probe - 2];
}

/* The next probe this round wants, from `probe` on: no size below one that passed. */
static uint8_t round_skip(const struct mtu *m, const struct mtu_round *r, uint8_t probe)
{
	while (probe > 1 && probe < MTU_ROUND_LAST &&
		(!r->with_ladder || probe - 2 >= m->n_ladder ||
			m->ladder[probe - 2] >= m->confirm_bytes ||
			(m->hits & ((UINT32_C(1) << (probe - 2)) - 1)) != 0))
		probe++;
	return probe;
}

static bool round_is_framed(const struct mtu_round *r)
{
	return (r->acked & 1) != 0 && r->acked >> MTU_ROUND_LAST & 1;
}

/* Judge the rounds whose time has come, drop those that nobody answered. */
static void rounds_judge(struct mtu *m, const struct mtu_times *t)
{
	for (int i = 0; i < MTU_ROUNDS && m->confirming; i++) {
		struct mtu_round *r = &m->rounds[i];

		if (!r->used || r->next != MTU_ROUND_PROBES)
			continue;
		if (round_is_framed(r) && t->now >= r->judge_ns) {
			r->used = false;
			m->misses += m->misses < MTU_MISSES;
			m->told += r->with_ladder && m->told < MTU_TOLD;
			if (m->misses >= MTU_MISSES && m->told >= MTU_TOLD)
				confirm_failed(m);
		} else if (!round_is_framed(r) && t->now >= r->last_ns + 2 * t->rto) {
			r->used = false;
		}
	}
}

/* While nothing is in doubt, one round at a time; while nothing is answered, fewer and fewer. */
static uint64_t round_interval(const struct mtu *m, const struct mtu_times *t)
{
	uint64_t ns = m->misses == 0 && !m->by_data ? t->rto : t->rtt / ROUND_SHARE;
	uint32_t doubled = m->sent_rounds / ROUND_BACKOFF;

	ns = max_u64(ns, ROUND_MIN_NS)
		<< (doubled < ROUND_BACKOFF_MAX ? doubled : ROUND_BACKOFF_MAX);
	return ns < ROUND_MAX_NS ? ns : ROUND_MAX_NS;
}

static uint64_t probe_gap(const struct mtu_times *t)
{
	return max_u64(GAP_PACKETS * t->packet, max_u64(t->rtt / GAP_SHARE, GAP_MIN_NS));
}

static uint16_t round_probe(struct mtu *m, const struct mtu_times *t)
{
	if (m->open < 0) {
		if (t->now < m->round_ns)
			return 0;
		for (int8_t i = 0; i < MTU_ROUNDS && m->open < 0; i++)
			if (!m->rounds[i].used)
				m->open = i;
		if (m->open < 0)
			return 0;
		m->gap_ns = 0;
		memset(&m->rounds[m->open], 0, sizeof(m->rounds[0]));
		memset(m->rounds[m->open].pn, 0xff, sizeof(m->rounds[0].pn));
		m->rounds[m->open].used = true;
		m->rounds[m->open].with_ladder = m->doubted;
		m->round_ns = t->now + round_interval(m, t);
		if (m->sent_rounds < UINT16_MAX)
			m->sent_rounds++;
	}
	if (t->now < m->gap_ns)
		return 0;
	m->gap_ns = t->now + probe_gap(t);
	return round_bytes(m, m->rounds[m->open].next);
}

/* How long a try may take; longer and longer while nothing at all arrives. */
static uint64_t probe_wait(const struct mtu *m, const struct mtu_times *t)
{
	uint64_t ns = t->rto + t->rtt / 2;

	for (uint8_t i = 0; i < m->unheard && ns < ROUND_MAX_NS; i++)
		ns *= 2;
	return ns;
}

static void probe_begin(struct mtu *m, uint16_t bytes)
{
	m->probe_bytes = bytes;
	m->probe_pn = m->small_pn = UINT64_MAX;
	m->overtaken = m->small_acked = false;
}

/* The time of a try is over. */
static void probe_failed(struct mtu *m)
{
	uint16_t bytes = m->probe_bytes;

	if (!m->overtaken) {
		m->unheard += m->unheard < UINT8_MAX;
	} else if (++m->tries < MTU_TRIES) {
		m->unheard = 0;
	} else {
		m->high = bytes;
		m->from_top = false;
		m->tries = m->unheard = 0;
		bytes = 0;
	}
	probe_begin(m, bytes);
}

static uint16_t search_probe(struct mtu *m, const struct mtu_times *t)
{
	if (m->probe_bytes != 0 && m->probe_pn != UINT64_MAX) {
		if (m->small_pn == UINT64_MAX)
			return t->now < m->gap_ns ? 0 : MTU_SENTINEL_BYTES;
		if (t->now < m->probe_ns + probe_wait(m, t))
			return 0;
		probe_failed(m);
	}
	if (m->probe_bytes == 0) {
		if (!m->from_top && m->high - m->low <= MTU_STEP) {
			search_end(m, t->now);
			return 0;
		}
		probe_begin(m, m->from_top ? m->most : (uint16_t)(m->low + (m->high - m->low) / 2));
	}
	m->gap_ns = t->now + probe_gap(t);
	return m->probe_bytes;
}

uint16_t mtu_probe(struct mtu *m, const struct mtu_times *t)
{
	if (m->state == MTU_DISABLED)
		return 0;
	if (m->waiting_bytes != 0 && t->now >= m->waiting_ns + t->pto) {
		if (!m->confirming || m->waiting_bytes < m->confirm_bytes)
			confirm_begin(m, m->waiting_bytes, t->now);
		m->by_data = true;
	}
	if (m->confirming) {
		rounds_judge(m, t);
		if (m->confirming)
			return round_probe(m, t);
	}
	if (m->state != MTU_SEARCHING && t->now >= m->raise_ns && m->current < m->most) {
		m->high = m->most;
		search_begin(m, true);
	}
	return m->state == MTU_SEARCHING ? search_probe(m, t) : 0;
}

void mtu_probe_sent(struct mtu *m, uint64_t pn, uint64_t now_ns)
{
	struct mtu_round *r;

	if (!m->confirming) {
		if (m->probe_pn != UINT64_MAX) {
			m->small_pn = pn;
			return;
		}
		m->probe_pn = pn;
		m->probe_ns = now_ns;
		return;
	}
	r = &m->rounds[m->open];
	r->pn[r->next] = pn;
	r->last_ns = now_ns;
	r->next = round_skip(m, r, r->next + 1);
	if (r->next == MTU_ROUND_PROBES)
		m->open = -1;
}

uint64_t mtu_next_ns(const struct mtu *m, const struct mtu_times *t)
{
	uint64_t at = UINT64_MAX;
	bool room = false;

	if (m->state == MTU_DISABLED)
		return UINT64_MAX;
	if (m->waiting_bytes != 0 && !(m->confirming && m->by_data))
		at = m->waiting_ns + t->pto;
	if (m->confirming) {
		if (m->open >= 0)
			at = m->gap_ns < at ? m->gap_ns : at;
		for (int i = 0; i < MTU_ROUNDS; i++) {
			const struct mtu_round *r = &m->rounds[i];
			uint64_t due = round_is_framed(r) ? r->judge_ns : r->last_ns + 2 * t->rto;

			room = room || !r->used;
			if (r->used && r->next == MTU_ROUND_PROBES && due < at)
				at = due;
		}
		return room && m->open < 0 && m->round_ns < at ? m->round_ns : at;
	}
	if (m->state == MTU_SEARCHING) {
		uint64_t due = t->now;

		if (m->probe_bytes != 0 && m->probe_pn != UINT64_MAX)
			due = m->small_pn == UINT64_MAX ? m->gap_ns
							: m->probe_ns + probe_wait(m, t);
		return due < at ? due : at;
	}
	return m->current < m->most && m->raise_ns < at ? m->raise_ns : at;
}

/* A report while searching upward. */
static void search_acked(struct mtu *m, uint64_t low, uint64_t high)
{
	if (m->state != MTU_SEARCHING || m->probe_bytes == 0 || m->probe_pn == UINT64_MAX)
		return;
	m->overtaken = m->overtaken || high > m->probe_pn;
	m->small_acked = m->small_acked || (m->small_pn >= low && m->small_pn <= high);
	if (m->probe_pn < low || m->probe_pn > high)
		return;
	m->low = m->probe_bytes;
	m->probe_bytes = 0;
	m->tries = m->unheard = 0;
	if (m->from_top)
		m->high = m->low; /* all that was wished for */
	m->from_top = false;
}

void mtu_acked(struct mtu *m, uint64_t low, uint64_t high, const struct mtu_times *t)
{
	if (!m->confirming) {
		search_acked(m, low, high);
		return;
	}
	for (int i = 0; i < MTU_ROUNDS; i++) {
		struct mtu_round *r = &m->rounds[i];
		bool framed = round_is_framed(r);

		for (uint8_t p = 0; r->used && p < MTU_ROUND_PROBES; p++) {
			if (r->pn[p] < low || r->pn[p] > high || r->acked >> p & 1)
				continue;
			r->acked |= UINT32_C(1) << p;
			if (p == 1) {
				confirm_passed(m);
				return;
			}
			if (p > 1 && p < MTU_ROUND_LAST)
				m->hits |= UINT32_C(1) << (p - 2);
		}
		/* The large one may be late, or in the next packet of the same report. */
		if (!framed && round_is_framed(r)) {
			r->judge_ns = t->now + max_u64(t->rtt / 2, 2 * NS_PER_MS);
			m->doubted = true;
		}
	}
}

uint64_t mtu_missing(const struct mtu *m, uint64_t low, uint64_t high)
{
	uint64_t n = 0;

	if (!m->confirming) {
		if (m->state != MTU_SEARCHING || m->probe_bytes == 0)
			return 0;
		return (m->probe_pn >= low && m->probe_pn <= high) +
			(!m->small_acked && m->small_pn >= low && m->small_pn <= high);
	}
	for (int i = 0; i < MTU_ROUNDS; i++)
		for (uint8_t p = 0; m->rounds[i].used && p < MTU_ROUND_PROBES; p++)
			n += m->rounds[i].pn[p] >= low && m->rounds[i].pn[p] <= high &&
				!(m->rounds[i].acked >> p & 1);
	return n;
}

void mtu_data_acked(struct mtu *m, uint16_t bytes, uint64_t sent_ns)
{
	/* What was sent before the doubt arose says nothing. */
	if (m->confirming && bytes >= m->confirm_bytes && (!m->by_data || sent_ns >= m->waiting_ns))
		confirm_passed(m);
	if (bytes >= m->waiting_bytes && sent_ns >= m->waiting_ns)
		m->waiting_bytes = 0;
}
