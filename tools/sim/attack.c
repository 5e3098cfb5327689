/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/attack.h"

#include "dataplane/transport/bytes.h"
#include "dataplane/transport/session_pvt.h"
#include "tools/sim/wire.h"
#include "tools/sim/world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	KEPT = 256, /* accepted packets to replay, old ones and new ones */
	PACKET_BYTES = STRAIT_SYMBOL_BYTES_MAX + STRAIT_OVERHEAD_BYTES,
	TELL_OBJECTS = 100,
	NUMBERS_LEFT = 4096, /* of a generation: closer to its end the peer's own need them */
};

struct attack {
	double share;
	struct prng rnd;
	uint64_t tries;
	uint64_t newest_generation[WORLD_SIDES]; /* of accepted packets, by sending side */
	struct {
		uint8_t from;
		uint16_t len;
		uint8_t bytes[PACKET_BYTES];
	} kept[KEPT];
	uint64_t nkept;                              /* ever */
	struct frame_open open[WORLD_TRANSFERS_MAX]; /* of transfers that were opened */
	bool told[WORLD_TRANSFERS_MAX];
	struct session_stats before, after;
	uint8_t bytes[PACKET_BYTES], body[PACKET_BYTES];
};

struct attack *attack_create(double share, uint64_t seed)
{
	struct attack *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->share = share;
	prng_init(&a->rnd, seed, 3000);
	return a;
}

void attack_destroy(struct attack *a)
{
	free(a);
}

uint64_t attack_tries(const struct attack *a)
{
	return a->tries;
}

void attack_sessions(struct attack *a, struct world *w)
{
	memset(a->open, 0, sizeof(a->open));
	memset(a->told, 0, sizeof(a->told));
	memset(a->newest_generation, 0, sizeof(a->newest_generation));
	/* The nonce is the IV xor the number: one IV for both directions repeats every nonce. */
	if (memcmp(w->session[WORLD_SOURCE]->tx_keys.slot.iv,
		    w->session[WORLD_SINK]->tx_keys.slot.iv, STRAIT_IV_BYTES) == 0)
		world_fail(w, "both directions seal with the same nonces");
}

/* ---- what must be refused ------------------------------------------------------------------- */

/* Figures of a session that a refused packet may not move. */
static bool is_same(const struct session_stats *a, const struct session_stats *b)
{
	return a->srtt_ns == b->srtt_ns && a->min_rtt_ns == b->min_rtt_ns && a->loss == b->loss &&
		a->outstanding_bytes == b->outstanding_bytes &&
		a->backlog_bytes == b->backlog_bytes && a->delivered_bytes == b->delivered_bytes &&
		a->up == b->up && a->dead == b->dead;
}

/* Refused, one drop counter up, and nothing else. expected: it must be this one, -1: any. */
static void must_refuse(struct attack *a, struct world *w, int from, const uint8_t *packet,
	size_t len, int expected, const char *what)
{
	struct session *s = w->session[!from];
	int moved = -1, rc;

	session_stats(s, &a->before);
	rc = session_recv(s, w->now_ns, packet, len);
	session_stats(s, &a->after);
	a->tries++;
	if (rc >= 0)
		world_fail(w, "%s was taken", what);
	for (int i = 0; i < STRAIT_COUNTER_COUNT; i++) {
		uint64_t n = a->after.counters[i] - a->before.counters[i];

		if (n == 0)
			continue;
		if (n != 1 || moved >= 0 || strait_counter_descs[i].kind != STRAIT_COUNTER_DROP)
			world_fail(w, "%s moved %s", what, strait_counter_descs[i].name);
		moved = i;
	}
	if (moved < 0 || (expected >= 0 && moved != expected))
		world_fail(w, "%s was counted as %s", what,
			moved < 0 ? "nothing" : strait_counter_descs[moved].name);
	if (!is_same(&a->before, &a->after))
		world_fail(w, "%s changed the session's figures", what);
}

/* Key generations the receiver must hold: the newest it has seen, and its neighbors. */
static bool is_held(const struct attack *a, int from, uint64_t packet_number)
{
	uint64_t g = packet_number >> STRAIT_GENERATION_SHIFT, newest = a->newest_generation[from];

	return g + 1 >= newest && g <= newest + 1;
}

static void generation_seen(struct attack *a, int from, uint64_t packet_number)
{
	uint64_t g = packet_number >> STRAIT_GENERATION_SHIFT;

	if (g > a->newest_generation[from])
		a->newest_generation[from] = g;
}

static void replay(struct attack *a, struct world *w)
{
	/* The latest ones are the ones that may still wait for their place. */
	uint32_t back = prng_chance(&a->rnd, 0.5) ? 4 : KEPT;
	uint32_t n = a->nkept < KEPT ? (uint32_t)a->nkept : KEPT;
	uint32_t i = (uint32_t)((a->nkept - 1 - prng_below(&a->rnd, back < n ? back : n)) % KEPT);
	const uint8_t *p = a->kept[i].bytes;
	int from = a->kept[i].from, expected = STRAIT_C_rx_replay;

	if (get_be32(p + STRAIT_OFF_SESSION) != w->session[!from]->cfg.own_session)
		expected = STRAIT_C_rx_session;
	else if (!is_held(a, from, get_be64(p + STRAIT_OFF_PACKET_NUMBER)))
		expected = STRAIT_C_rx_generation;
	must_refuse(a, w, from, p, a->kept[i].len, expected, "a replayed packet");
}

static void damage(struct attack *a, struct world *w, int from, const uint8_t *packet, size_t len)
{
	uint64_t bit = prng_below(&a->rnd, 8 * (len - STRAIT_HEADER_BYTES));

	memcpy(a->bytes, packet, len);
	switch (prng_below(&a->rnd, 4)) {
	case 0: /* only packet number and place: what a flip in the rest does is known */
		put_be64(a->bytes + STRAIT_OFF_PACKET_NUMBER,
			get_be64(packet + STRAIT_OFF_PACKET_NUMBER) ^ 1 << prng_below(&a->rnd, 20));
		must_refuse(a, w, from, a->bytes, len, STRAIT_C_rx_auth, "a renumbered packet");
		return;
	case 1:
		put_be64(a->bytes + STRAIT_OFF_PACKET_NUMBER,
			get_be64(packet + STRAIT_OFF_PACKET_NUMBER) +
				((2 + prng_below(&a->rnd, 8)) << STRAIT_GENERATION_SHIFT));
		must_refuse(a, w, from, a->bytes, len, STRAIT_C_rx_generation,
			"a packet of a generation to come");
		return;
	case 2:
		len -= 1 + prng_below(&a->rnd, len);
		must_refuse(a, w, from, a->bytes, len,
			len < STRAIT_OVERHEAD_BYTES ? STRAIT_C_rx_short : STRAIT_C_rx_auth,
			"a cut packet");
		return;
	default:
		a->bytes[STRAIT_HEADER_BYTES + bit / 8] ^= (uint8_t)(1 << bit % 8);
		must_refuse(a, w, from, a->bytes, len, STRAIT_C_rx_auth, "a damaged packet");
	}
}

/* ---- what the peer seals -------------------------------------------------------------------- */

static bool may_seal(const struct session *s)
{
	uint64_t used = s->next_pn & ((1 << STRAIT_GENERATION_SHIFT) - 1);

	return s->up && !s->dead && used < (1 << STRAIT_GENERATION_SHIFT) - NUMBERS_LEFT;
}

/* Sealed as the session itself does, into out. Its length. */
static size_t seal(struct attack *a, struct world *w, int from, struct packet_header *h, size_t len,
	uint8_t *out)
{
	struct session *s = w->session[from];
	struct sent_packet *sent;
	size_t n;

	sentlog_make_room(&s->tx.log, feedback_lost, s);
	sent = sentlog_add(&s->tx.log, s->next_pn, false);
	memset(sent, 0, sizeof(*sent));
	sent->time_ns = w->now_ns;
	sent->kind = SENT_CONTROL;
	n = session_seal(s, h, out, a->body, len);
	generation_seen(a, from, h->packet_number);
	a->tries++;
	return n;
}

/* Without what others on the line lose: the queue and the path. */
static uint64_t arrival_ns(const struct world *w, int from)
{
	struct link *l = &w->link[from];
	uint64_t rate = l->cfg.rate_bps, queue_ns = 0;

	if (rate)
		queue_ns =
			(uint64_t)((double)link_backlog_bytes(l, w->now_ns) * 8e9 / (double)rate);
	return w->now_ns + queue_ns + l->owd_ns;
}

/*
 * Put on the way, to arrive at at_ns, 0: when a packet sent now does. A packet that came at once
 * would make the path seem shorter, and all others late. right: see wrong_length().
 */
static void say(struct attack *a, struct world *w, int from, struct packet_header *h, size_t len,
	uint64_t at_ns, uint32_t right)
{
	uint32_t slot = wire_get(&w->wire);
	size_t n;

	if (slot == UINT32_MAX) {
		world_fail(w, "no memory for packets");
		return;
	}
	n = seal(a, w, from, h, len, wire_bytes(&w->wire, slot));
	w->wire.packets[slot] =
		(struct world_packet){ .len = (uint32_t)n, .right = right, .planted = true };
	if (delayq_push(&w->queue[from], at_ns ? at_ns : arrival_ns(w, from), slot) < 0)
		world_fail(w, "no memory for packets under way");
}

static bool is_moved(const struct attack *a, enum strait_counter c)
{
	return a->after.counters[c] != a->before.counters[c];
}

/* A symbol of another length, right before its own: whatever it is, it may not be stored. */
static void wrong_length(struct attack *a, struct world *w, int from, const uint8_t *packet,
	size_t len, uint64_t at_ns)
{
	uint32_t right = (uint32_t)len - STRAIT_OVERHEAD_BYTES, n = right;
	struct packet_header h;

	if (packet_header_decode(packet, len, &h) < 0)
		return;
	while (n == right)
		n = prng_chance(&a->rnd, 0.3)
			? right + 1 - 2 * (uint32_t)prng_below(&a->rnd, 2)
			: (uint32_t)prng_below(&a->rnd, w->cfg.symbol_bytes + 1);
	if (n > w->cfg.symbol_bytes)
		n = right - 1;
	for (uint32_t i = 0; i < n; i++)
		a->body[i] = (uint8_t)~i;
	say(a, w, from, &h, n, at_ns, right);
}

void attack_deliver(struct attack *a, struct world *w, int from, const uint8_t *packet, size_t len,
	uint32_t right)
{
	session_stats(w->session[!from], &a->before);
	session_recv(w->session[!from], w->now_ns, packet, len);
	session_stats(w->session[!from], &a->after);
	/* Ahead of its transfer it waits in scratch like any other. */
	if (right > 0 &&
		(is_moved(a, STRAIT_C_rx_source) || is_moved(a, STRAIT_C_rx_repair) ||
			is_moved(a, STRAIT_C_rx_decoded_blocks)))
		world_fail(w, "a symbol of %zu instead of %u bytes was stored",
			len - STRAIT_OVERHEAD_BYTES, right);
}

/* A transfer that ended is opened once more. */
static void open_again(struct attack *a, struct world *w)
{
	struct packet_header h = { .type = STRAIT_PACKET_CONTROL };
	struct frame_writer f;

	frame_writer_init(&f, a->body, w->cfg.symbol_bytes);
	for (uint32_t i = 0; i < w->ntransfers; i++) {
		const struct world_transfer *t = &w->transfers[i];

		if (t->tx && !t->closed && t->tx->opened)
			control_open_frame(w->session[WORLD_SOURCE], t->tx, &a->open[i]);
		else if (t->closed && a->open[i].transfer != 0)
			frame_put_open(&f, &a->open[i]);
	}
	if (f.len > 0)
		say(a, w, WORLD_SOURCE, &h, f.len, 0, 0);
}

/*
 * All objects of a transfer have their status and the source is about to hear it: twice. It comes
 * at once, before what is on its way: no report of data is in it.
 */
static void tell_twice(struct attack *a, struct world *w, uint32_t i)
{
	const struct tx_transfer *tx = w->transfers[i].tx;
	const struct rx_slot *slot = receiver_find(w->session[WORLD_SINK], tx->id);
	struct packet_header h = { .type = STRAIT_PACKET_CONTROL };
	struct frame_writer f;

	if (a->told[i] || !slot || !slot->t || slot->t->log_len != tx->objects ||
		tx->log_next >= tx->objects || tx->objects - tx->log_next > TELL_OBJECTS)
		return;
	a->told[i] = true;
	frame_writer_init(&f, a->body, w->cfg.symbol_bytes);
	frame_object_begin(&f, tx->id, tx->log_next);
	/* All but the last, which ends the transfer: it would hide what the copies did. */
	for (uint32_t at = tx->log_next; at + 1 < tx->objects; at++)
		for (int n = 0; n < 2; n++)
			frame_objects_item(&f, slot->t->log[at].object, slot->t->log[at].status);
	frame_objects_item(&f, slot->t->log[tx->objects - 1].object,
		slot->t->log[tx->objects - 1].status);
	if (frame_list_end(&f) != 2 * (tx->objects - tx->log_next) - 1)
		return;
	w->wake_ns[WORLD_SOURCE] = w->now_ns;
	session_recv(w->session[WORLD_SOURCE], w->now_ns, a->bytes,
		seal(a, w, WORLD_SINK, &h, f.len, a->bytes));
}

/* ---- when ----------------------------------------------------------------------------------- */

void attack_sent(struct attack *a, struct world *w, int side, const uint8_t *packet, size_t len,
	uint64_t at_ns)
{
	if (side == WORLD_SINK)
		for (uint32_t i = 0; i < w->ntransfers; i++)
			if (w->transfers[i].tx && may_seal(w->session[side]))
				tell_twice(a, w, i);
	if (!prng_chance(&a->rnd, a->share) || !may_seal(w->session[side]))
		return;
	if ((packet[STRAIT_OFF_VERSION_TYPE] & 15) != STRAIT_PACKET_CONTROL)
		wrong_length(a, w, side, packet, len, at_ns);
}

void attack_arrived(struct attack *a, struct world *w, int from, const uint8_t *packet, size_t len,
	int rc)
{
	uint32_t at = (uint32_t)(a->nkept % KEPT);

	if (rc != 0)
		return;
	generation_seen(a, from, get_be64(packet + STRAIT_OFF_PACKET_NUMBER));
	/* Every packet while there are few, then fewer: some stay for long. */
	if (a->nkept < KEPT || prng_chance(&a->rnd, 0.2)) {
		a->nkept++;
		a->kept[at].from = (uint8_t)from;
		a->kept[at].len = (uint16_t)len;
		memcpy(a->kept[at].bytes, packet, len);
	}
	if (!prng_chance(&a->rnd, a->share))
		return;
	replay(a, w);
	if (!w->cfg.light) /* without a cipher anybody's packets are authentic */
		damage(a, w, from, packet, len);
	if (may_seal(w->session[WORLD_SOURCE]))
		open_again(a, w);
}
