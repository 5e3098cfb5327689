/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000ULL

/* Linux: delayed acknowledgments wait 40 ms, the timer is at least 200 ms and at most 120 s. */
#define DELAY_NS   (40 * NS_PER_MS)
#define RTO_MIN_NS (200 * NS_PER_MS)
#define RTO_MAX_NS (120000 * NS_PER_MS)

enum { LATER_ARRIVALS = 3, SACK_BACK = 64, QUICK_SEGMENTS = 32 };

/* State of a sent segment. */
enum { NEW, FLYING, LOST, ARRIVED };

int tcp_init(struct tcp *t, uint64_t window_segments)
{
	uint64_t n = 64;

	while (n < window_segments)
		n *= 2;
	memset(t, 0, sizeof(*t));
	cubic_init(&t->cubic);
	t->window = n;
	t->rto_ns = 1000 * NS_PER_MS;
	t->min_rtt_ns = UINT64_MAX;
	t->state = calloc(n, sizeof(*t->state));
	t->last = calloc(n, sizeof(*t->last));
	t->sent = calloc(2 * n, sizeof(*t->sent));
	t->again = calloc(n, sizeof(*t->again));
	t->got = calloc(n, sizeof(*t->got));
	if (t->state && t->last && t->sent && t->again && t->got)
		return 0;
	tcp_fini(t);
	return -ENOMEM;
}

void tcp_fini(struct tcp *t)
{
	free(t->state);
	free(t->last);
	free(t->sent);
	free(t->again);
	free(t->got);
	memset(t, 0, sizeof(*t));
}

/* ---- sender --------------------------------------------------------------------------------- */

static uint64_t slot(const struct tcp *t, uint64_t seq)
{
	return seq & (t->window - 1);
}

static bool again_pop(struct tcp *t, uint64_t *seq)
{
	while (t->again_head != t->again_tail) {
		*seq = t->again[t->again_head++ & (t->window - 1)];
		if (*seq >= t->una && t->state[slot(t, *seq)] == LOST)
			return true;
	}
	return false;
}

bool tcp_send(struct tcp *t, uint64_t now_ns, struct tcp_segment *out)
{
	uint64_t seq;

	/* The queue of transmissions holds some that arrived out of order beyond the window. */
	if (t->flying + 1.0 > t->cubic.cwnd || t->sent_tail - t->sent_head == 2 * t->window)
		return false;
	if (again_pop(t, &seq)) {
		t->resent++;
	} else {
		if (t->next - t->una >= t->window)
			return false;
		seq = t->next++;
	}
	t->state[slot(t, seq)] = FLYING;
	t->last[slot(t, seq)] = ++t->xmit;
	t->sent[t->sent_tail++ & (2 * t->window - 1)] =
		(struct tcp_sent){ .seq = seq, .xmit = t->xmit };
	t->flying++;
	if (t->rto_due_ns == 0)
		t->rto_due_ns = now_ns + t->rto_ns;
	*out = (struct tcp_segment){ .seq = seq, .xmit = t->xmit, .sent_ns = now_ns };
	return true;
}

static void lose(struct tcp *t, uint64_t seq)
{
	t->state[slot(t, seq)] = LOST;
	t->flying--;
	t->again[t->again_tail++ & (t->window - 1)] = seq;
}

static uint32_t arrived(struct tcp *t, uint64_t seq)
{
	uint8_t *state = &t->state[slot(t, seq)];

	if (seq < t->una || seq >= t->next || *state == ARRIVED)
		return 0;
	t->flying -= *state == FLYING;
	*state = ARRIVED;
	return 1;
}

static void rtt_sample(struct tcp *t, uint64_t rtt_ns)
{
	if (rtt_ns < t->min_rtt_ns)
		t->min_rtt_ns = rtt_ns;
	if (t->srtt_ns == 0) {
		t->srtt_ns = rtt_ns;
		t->rttvar_ns = rtt_ns / 2;
	} else {
		uint64_t d = rtt_ns > t->srtt_ns ? rtt_ns - t->srtt_ns : t->srtt_ns - rtt_ns;

		t->rttvar_ns = (3 * t->rttvar_ns + d) / 4;
		t->srtt_ns = (7 * t->srtt_ns + rtt_ns) / 8;
	}
	t->rto_ns = t->srtt_ns + 4 * t->rttvar_ns;
	if (t->rto_ns < RTO_MIN_NS)
		t->rto_ns = RTO_MIN_NS;
	cubic_rtt(&t->cubic, rtt_ns);
}

/* What was transmitted before enough that arrived is lost. */
static void find_losses(struct tcp *t)
{
	while (t->sent_head != t->sent_tail) {
		const struct tcp_sent *s = &t->sent[t->sent_head & (2 * t->window - 1)];
		uint64_t seq = s->seq;

		if (s->xmit > t->newest_xmit)
			break;
		if (seq >= t->una && t->state[slot(t, seq)] == FLYING &&
			t->last[slot(t, seq)] == s->xmit) {
			if (s->xmit + LATER_ARRIVALS > t->newest_xmit)
				break;
			lose(t, seq);
			if (seq >= t->recover) {
				t->recover = t->next;
				t->recovering = true;
				t->reductions++;
				cubic_lost(&t->cubic);
			}
		}
		t->sent_head++;
	}
}

void tcp_acked(struct tcp *t, uint64_t now_ns, const struct tcp_ack *a)
{
	uint32_t n = 0;

	if (a->cum > t->next || a->sack_to > t->next)
		return;
	for (uint64_t seq = a->sack_from; seq < a->sack_to; seq++)
		n += arrived(t, seq);
	for (; t->una < a->cum; t->una++) {
		n += arrived(t, t->una);
		t->state[slot(t, t->una)] = NEW;
	}
	if (a->xmit > t->newest_xmit)
		t->newest_xmit = a->xmit;
	rtt_sample(t, now_ns - a->echo_ns);
	if (t->una > t->round_end) {
		t->round_end = t->next;
		cubic_round(&t->cubic);
	}
	if (t->recovering && t->una >= t->recover)
		t->recovering = false;
	if (n > 0 && !t->recovering)
		cubic_acked(&t->cubic, now_ns, t->srtt_ns, n);
	find_losses(t);
	if (n > 0)
		t->rto_due_ns = t->una < t->next ? now_ns + t->rto_ns : 0;
}

uint64_t tcp_timer_ns(const struct tcp *t)
{
	return t->rto_due_ns ? t->rto_due_ns : UINT64_MAX;
}

void tcp_timeout(struct tcp *t, uint64_t now_ns)
{
	for (uint64_t seq = t->una; seq < t->next; seq++)
		if (t->state[slot(t, seq)] == FLYING)
			lose(t, seq);
	t->sent_head = t->sent_tail;
	t->recover = t->next;
	t->recovering = false;
	t->timeouts++;
	cubic_timeout(&t->cubic);
	t->rto_ns = 2 * t->rto_ns < RTO_MAX_NS ? 2 * t->rto_ns : RTO_MAX_NS;
	t->rto_due_ns = now_ns + t->rto_ns;
}

/* ---- receiver ------------------------------------------------------------------------------- */

uint64_t tcp_delay_ns(const struct tcp *t)
{
	return t->delay_due_ns ? t->delay_due_ns : UINT64_MAX;
}

void tcp_delayed(struct tcp *t, struct tcp_ack *out)
{
	*out = t->delayed;
	out->cum = t->expected;
	t->unacked = 0;
	t->delay_due_ns = 0;
}

bool tcp_receive(struct tcp *t, uint64_t now_ns, const struct tcp_segment *s, struct tcp_ack *out)
{
	bool in_order = s->seq == t->expected;
	bool filled = false;

	t->delayed.xmit = s->xmit;
	t->delayed.echo_ns = s->sent_ns;
	t->delayed.sack_from = t->delayed.sack_to = 0;
	if (s->seq >= t->expected && s->seq < t->expected + t->window && !t->got[slot(t, s->seq)]) {
		t->got[slot(t, s->seq)] = 1;
		t->delivered++;
	}
	for (; t->got[slot(t, t->expected)]; t->expected++) {
		t->got[slot(t, t->expected)] = 0;
		filled = filled || t->expected > s->seq;
	}
	if (!in_order && s->seq > t->expected) {
		/* Those before it too, lest one lost acknowledgment hides them. */
		t->delayed.sack_from = t->delayed.sack_to = s->seq + 1;
		while (t->delayed.sack_from > t->expected &&
			t->delayed.sack_to - t->delayed.sack_from < SACK_BACK &&
			t->got[slot(t, t->delayed.sack_from - 1)])
			t->delayed.sack_from--;
	}
	if (++t->unacked < 2 && in_order && !filled && t->delivered > QUICK_SEGMENTS) {
		t->delay_due_ns = now_ns + DELAY_NS;
		return false;
	}
	tcp_delayed(t, out);
	return true;
}
