/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/sentlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sentlog_init(struct sentlog *l, uint32_t size)
{
	uint32_t n = 64;

	if (size > 1u << 30)
		return -EINVAL;
	while (n < size)
		n *= 2;
	memset(l, 0, sizeof(*l));
	l->mask = n - 1;
	l->ring = calloc(n, sizeof(*l->ring));
	l->out = calloc(n / 64, sizeof(*l->out));
	l->lost = calloc(n / 64, sizeof(*l->lost));
	if (l->ring == NULL || l->out == NULL || l->lost == NULL) {
		sentlog_fini(l);
		return -ENOMEM;
	}
	l->n_jumps = 1; /* number 0 has order 0 */
	return 0;
}

void sentlog_fini(struct sentlog *l)
{
	free(l->ring);
	free(l->out);
	free(l->lost);
	memset(l, 0, sizeof(*l));
}

static bool bit_get(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

static void bit_set(uint64_t *bits, uint32_t i)
{
	bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static void bit_clear(uint64_t *bits, uint32_t i)
{
	bits[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static uint64_t oldest_order(const struct sentlog *l)
{
	return l->next > l->mask ? l->next - l->mask - 1 : 0;
}

void sentlog_make_room(struct sentlog *l, sentlog_cb cb, void *ctx)
{
	uint32_t i = l->next & l->mask;

	if (!bit_get(l->out, i))
		return;
	bit_clear(l->out, i);
	l->n_out--;
	cb(ctx, &l->ring[i], true);
}

/* Packet number the next packet has when there is no jump. */
static uint64_t expected_pn(const struct sentlog *l)
{
	const struct sentlog_jump *j = &l->jumps[(l->n_jumps - 1) % SENTLOG_JUMPS];

	return j->pn + (l->next - j->order);
}

struct sent_packet *sentlog_add(struct sentlog *l, uint64_t pn, bool tracked)
{
	uint32_t i = l->next & l->mask;

	if (pn != expected_pn(l)) {
		struct sentlog_jump *j = &l->jumps[l->n_jumps++ % SENTLOG_JUMPS];

		j->pn = pn;
		j->order = l->next;
	}
	bit_clear(l->lost, i);
	if (tracked) {
		bit_set(l->out, i);
		l->n_out++;
	}
	l->next++;
	return &l->ring[i];
}

/* Bits of a 64-bit word that lie in orders [first, last], for the word holding order `at`. */
static uint64_t word_mask(uint64_t at, uint64_t first, uint64_t last)
{
	uint64_t base = at & ~UINT64_C(63);
	uint64_t m = ~UINT64_C(0);

	if (first > base)
		m &= ~UINT64_C(0) << (first - base);
	if (last < base + 63)
		m &= ~UINT64_C(0) >> (63 - (last - base));
	return m;
}

uint64_t sentlog_add_run(struct sentlog *l, uint64_t pn, uint32_t n, sentlog_cb cb, void *ctx)
{
	uint64_t first = l->next, last = first + n - 1;

	for (uint64_t at = first & ~UINT64_C(63); at <= last; at += 64) {
		uint32_t w = (at & l->mask) / 64;
		uint64_t mask = word_mask(at, first, last), hit = l->out[w] & mask;

		for (; hit != 0; hit &= hit - 1) {
			uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(hit);

			bit_clear(l->out, i);
			l->n_out--;
			cb(ctx, &l->ring[i], true);
		}
		l->out[w] |= mask;
		l->lost[w] &= ~mask;
	}
	if (pn != expected_pn(l)) {
		struct sentlog_jump *j = &l->jumps[l->n_jumps++ % SENTLOG_JUMPS];

		j->pn = pn;
		j->order = first;
	}
	l->n_out += n;
	l->next += n;
	return first;
}

/* Orders of the packet numbers [low, high] within one run between jumps; false when there are
 * none. */
static bool run_orders(const struct sentlog *l, unsigned int jump, uint64_t low, uint64_t high,
	uint64_t *first, uint64_t *last)
{
	const struct sentlog_jump *j = &l->jumps[jump % SENTLOG_JUMPS];
	uint64_t end =
		jump + 1 == l->n_jumps ? l->next : l->jumps[(jump + 1) % SENTLOG_JUMPS].order;

	if (high < j->pn || end == j->order)
		return false;
	if (low < j->pn)
		low = j->pn;
	if (low - j->pn >= end - j->order)
		return false;
	*first = j->order + (low - j->pn);
	*last = high - j->pn >= end - j->order ? end - 1 : j->order + (high - j->pn);
	if (*last < oldest_order(l))
		return false;
	if (*first < oldest_order(l))
		*first = oldest_order(l);
	return true;
}

static unsigned int first_jump(const struct sentlog *l)
{
	return l->n_jumps > SENTLOG_JUMPS ? l->n_jumps - SENTLOG_JUMPS : 0;
}

const struct sent_packet *sentlog_find(const struct sentlog *l, uint64_t pn)
{
	uint64_t first, last;

	for (unsigned int j = first_jump(l); j < l->n_jumps; j++)
		if (run_orders(l, j, pn, pn, &first, &last))
			return &l->ring[first & l->mask];
	return NULL;
}

/* Bits set from bit 0 of the word on. */
static uint32_t leading_run(uint64_t word)
{
	return ~word != 0 ? (uint32_t)__builtin_ctzll(~word) : 64;
}

static uint64_t ack_orders(struct sentlog *l, uint64_t first, uint64_t last, sentlog_run_cb cb,
	void *ctx)
{
	uint64_t n = 0;

	for (uint64_t at = first & ~UINT64_C(63); at <= last; at += 64) {
		uint32_t w = (at & l->mask) / 64;
		uint64_t hit = (l->out[w] | l->lost[w]) & word_mask(at, first, last);

		while (hit != 0) {
			uint32_t b = (uint32_t)__builtin_ctzll(hit);
			bool was_lost = l->lost[w] >> b & 1;
			uint64_t *bits = was_lost ? &l->lost[w] : &l->out[w];
			uint32_t run = leading_run((hit & *bits) >> b);
			uint64_t mask = ~UINT64_C(0) >> (64 - run) << b;

			hit &= ~mask;
			*bits &= ~mask;
			if (!was_lost)
				l->n_out -= run;
			cb(ctx, &l->ring[w * 64 + b], run, was_lost);
			n += run;
		}
	}
	return n;
}

uint64_t sentlog_ack(struct sentlog *l, uint64_t low, uint64_t high, sentlog_run_cb cb, void *ctx)
{
	uint64_t n = 0, first, last;

	if (low > high)
		return 0;
	for (unsigned int j = first_jump(l); j < l->n_jumps; j++)
		if (run_orders(l, j, low, high, &first, &last))
			n += ack_orders(l, first, last, cb, ctx);
	return n;
}

uint64_t sentlog_detect(struct sentlog *l, uint64_t before_ns, sentlog_cb cb, void *ctx)
{
	uint64_t n = 0;

	if (l->scan < oldest_order(l))
		l->scan = oldest_order(l);
	while (l->scan < l->next) {
		uint32_t i = l->scan & l->mask;

		/* Most often nothing of a word is out: its last packet speaks for all. */
		if (i % 64 == 0 && l->out[i / 64] == 0 && l->next - l->scan >= 64 &&
			l->ring[i + 63].time_ns <= before_ns) {
			l->scan += 64;
			continue;
		}
		if (l->ring[i].time_ns > before_ns)
			break;
		l->scan++;
		if (!bit_get(l->out, i))
			continue;
		bit_clear(l->out, i);
		bit_set(l->lost, i);
		l->n_out--;
		cb(ctx, &l->ring[i], true);
		n++;
	}
	return n;
}

bool sentlog_full(struct sentlog *l)
{
	uint64_t size = (uint64_t)l->mask + 1;

	/* The oldest packet out moves on with what is acknowledged: a step a packet. */
	return sentlog_oldest_ns(l) != UINT64_MAX && l->next - l->first_out >= size - size / 8;
}

uint64_t sentlog_oldest_ns(struct sentlog *l)
{
	if (l->first_out < oldest_order(l))
		l->first_out = oldest_order(l);
	while (l->first_out < l->next) {
		uint32_t i = l->first_out & l->mask;
		uint64_t word = l->out[i / 64] >> (i % 64);

		if (word != 0) {
			l->first_out += (uint64_t)__builtin_ctzll(word);
			return l->first_out < l->next ? l->ring[l->first_out & l->mask].time_ns
						      : UINT64_MAX;
		}
		l->first_out += 64 - i % 64;
	}
	l->first_out = l->next;
	return UINT64_MAX;
}
