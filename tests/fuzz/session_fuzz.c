/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/manifest.h"
#include "dataplane/transport/session_pvt.h"
#include "dataplane/transport/transfer.h"

#include <stdlib.h>
#include <string.h>

/*
 * A whole session whose peer has the keys: the input says what authentic packets come, when, and
 * what the control thread answers. The session may refuse all of it, but its own state must stay
 * within its bounds, every byte within its objects (the address sanitizer watches), and it must let
 * go of every transfer in the end.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	SYMBOL = 600,
	LOG_PACKETS = 256,
	SLOTS = 64, /* of scratch and of the row store */
	TX_OBJECTS = 3,
	TX_BYTES = 100000,
	MEMORY_MAX = 1 << 20, /* of one transfer, as the edge bounds it */
	OPS_MAX = 400,
};

static void require(bool condition)
{
	if (!condition)
		__builtin_trap();
}

struct input {
	const uint8_t *p, *end;
};

static uint64_t take(struct input *in, unsigned int bytes)
{
	uint64_t v = 0;

	for (; bytes > 0; bytes--)
		v = v << 8 | (in->p < in->end ? *in->p++ : 0);
	return v;
}

/* The receiver's side of a transfer, and the memory of its objects. */
struct rx_user {
	uint8_t **object;
	uint8_t (*resume)[SESSION_RESUME_BYTES];
	uint32_t n;
};

struct fuzz {
	struct session *s;
	struct key_tx peer;
	uint64_t peer_pn, now_ns;
	struct tx_transfer *tx[4];
	uint32_t rx_live, tx_live;
};

static uint8_t tx_bytes[TX_BYTES];

static void peer_says(struct fuzz *f, struct packet_header *h, const uint8_t *body, size_t len)
{
	static uint8_t packet[STRAIT_SYMBOL_BYTES_MAX + STRAIT_OVERHEAD_BYTES];
	uint8_t nonce[STRAIT_IV_BYTES];

	while (f->peer_pn >> STRAIT_GENERATION_SHIFT > f->peer.slot.generation)
		require(key_tx_advance(&f->peer) == 0);
	h->session = 7;
	h->packet_number = f->peer_pn++;
	packet_header_encode(h, packet);
	key_nonce(f->peer.slot.iv, h->packet_number, nonce);
	aead_seal(&f->peer.slot.aead, nonce, packet, STRAIT_HEADER_BYTES, body, len,
		packet + STRAIT_HEADER_BYTES, packet + STRAIT_HEADER_BYTES + len);
	session_recv(f->s, f->now_ns, packet, len + STRAIT_OVERHEAD_BYTES);
}

/* ---- the control thread --------------------------------------------------------------------- */

static void rx_free(struct fuzz *f, struct rx_transfer *t)
{
	struct rx_user *u = rx_transfer_user(t);

	for (uint32_t i = 0; i < u->n; i++)
		free(u->object[i]);
	free(u->object);
	free(u->resume);
	free(u);
	rx_transfer_destroy(t);
	f->rx_live--;
}

static void rx_open(struct fuzz *f, const struct session_open *o, uint8_t how)
{
	uint64_t memory = 2ULL * o->manifest_bytes + 192ULL * o->objects + o->stream_bytes;
	struct rx_transfer *t = NULL;
	struct rx_user *u;

	if (how % 8 == 0 || memory > MEMORY_MAX) {
		session_rx_refuse(f->s, o->transfer, STRAIT_STATUS_REFUSED);
		return;
	}
	u = calloc(1, sizeof(*u));
	require(u != NULL);
	t = rx_transfer_create(o, u);
	require(t != NULL);
	f->rx_live++;
	if (session_rx_attach(f->s, f->now_ns, t) != 0)
		rx_free(f, t);
}

static void rx_manifest(struct fuzz *f, struct rx_transfer *t, uint8_t how)
{
	struct rx_user *u = rx_transfer_user(t);
	struct manifest_entry e;

	if (rx_transfer_load_objects(t) < 0) {
		session_rx_refuse(f->s, rx_transfer_open(t)->transfer, STRAIT_STATUS_MALFORMED);
		return;
	}
	u->n = rx_transfer_objects(t);
	u->object = calloc(u->n, sizeof(*u->object));
	u->resume = calloc(u->n, sizeof(*u->resume));
	require(u->object != NULL && u->resume != NULL);
	session_rx_begin(f->s, f->now_ns, t);
	for (uint32_t i = 0; i < u->n; i++) {
		require(rx_transfer_entry(t, i, &e) == 0);
		if (e.flags & STRAIT_MANIFEST_SKIP)
			continue;
		if ((how + i) % 5 == 0) {
			session_rx_object_finish(f->s, t, i, STRAIT_STATUS_FULL);
			continue;
		}
		if ((how + i) % 7 == 0)
			continue; /* waits for its memory for good */
		u->object[i] = malloc(e.length);
		require(u->object[i] != NULL);
		rx_object_prepare(t, i, u->object[i], u->resume[i], false);
		session_rx_object_place(f->s, f->now_ns, t, i);
	}
}

static void poll_all(struct fuzz *f, uint8_t how)
{
	struct session_event ev;

	while (session_poll(f->s, &ev)) {
		switch (ev.type) {
		case SESSION_EVENT_RX_OPEN:
			rx_open(f, &ev.open, how);
			break;
		case SESSION_EVENT_RX_MANIFEST:
			rx_manifest(f, ev.rx, how);
			break;
		case SESSION_EVENT_RX_OBJECT:
		case SESSION_EVENT_RX_WITHDRAWN:
			require(ev.status != STRAIT_STATUS_PENDING);
			require(ev.object < rx_transfer_objects(ev.rx));
			session_rx_object_finish(f->s, ev.rx, ev.object, ev.status);
			break;
		case SESSION_EVENT_RX_CLOSED:
			rx_free(f, ev.rx);
			break;
		case SESSION_EVENT_TX_WANT:
			for (uint32_t i = 0; i < ev.object; i++)
				if ((how + i) % 4 == 3)
					session_tx_object_gone(f->s, ev.tx, i,
						STRAIT_STATUS_EVICTED);
				else
					session_tx_object_ready(f->s, ev.tx, i, tx_bytes);
			break;
		case SESSION_EVENT_TX_CLOSED:
			for (size_t i = 0; i < sizeof(f->tx) / sizeof(f->tx[0]); i++)
				if (f->tx[i] == ev.tx)
					f->tx[i] = NULL;
			tx_transfer_destroy(ev.tx);
			f->tx_live--;
			break;
		default:
			break;
		}
	}
}

static void tx_begin(struct fuzz *f, struct input *in)
{
	struct manifest_entry e[TX_OBJECTS];
	struct tx_params p = {
		.class_ = (uint8_t)(take(in, 1) % STRAIT_CLASS_COUNT),
		.symbol_bytes = SYMBOL,
		.objects = 1 + (uint32_t)take(in, 1) % TX_OBJECTS,
		.entries = e,
	};
	struct tx_transfer **t = &f->tx[take(in, 1) % 4];

	if (*t != NULL) {
		session_tx_cancel(f->s, *t, STRAIT_STATUS_CANCELED);
		return;
	}
	for (uint32_t i = 0; i < p.objects; i++)
		e[i] = (struct manifest_entry){
			.tenant = (const uint8_t *)"",
			.key = (const uint8_t *)"key",
			.key_len = 3,
			.length = 1 + take(in, 3) % TX_BYTES,
		};
	*t = tx_transfer_create(&p);
	require(*t != NULL);
	f->tx_live++;
	if (session_tx_start(f->s, f->now_ns, *t) == 0)
		return;
	tx_transfer_destroy(*t);
	*t = NULL;
	f->tx_live--;
}

/* ---- the peer ------------------------------------------------------------------------------- */

static void say_frames(struct fuzz *f, struct input *in)
{
	static uint8_t body[SYMBOL];
	struct packet_header h = { .type = STRAIT_PACKET_CONTROL, .flags = (uint8_t)take(in, 1) };
	uint64_t next = f->s->next_pn;
	struct frame_writer w;
	uint32_t previous = 0;

	frame_writer_init(&w, body, sizeof(body));
	for (uint32_t n = 1 + take(in, 1) % 4; n > 0; n--) {
		uint8_t type = 1 + take(in, 1) % 14, stream = take(in, 1) % 2;
		uint32_t id = (uint32_t)take(in, 1) % 8, count = (uint32_t)take(in, 1) % 16;
		struct frame_open o = {
			.transfer = id,
			.objects = 1 + count,
			.manifest_bytes = (1 + count) * (21 + (uint32_t)take(in, 1) % 4),
			.stream_bytes = 1 + count + take(in, 3),
			.symbol_bytes = stream ? SYMBOL : STRAIT_SYMBOL_BYTES_MIN,
			.class_ = (uint8_t)(count % STRAIT_CLASS_COUNT),
			.report_interval_us = (uint32_t)take(in, 4),
		};
		struct frame_report r = { .newest = next - 1 - take(in, 1) % 4,
			.newest_us = take(in, 5),
			.delay_us = (uint32_t)take(in, 3) };
		struct frame_credit c = { .class_ = (uint8_t)(id % STRAIT_CLASS_COUNT),
			.bytes = take(in, 8),
			.objects = take(in, 2) };
		bool list = true;

		r.base = r.newest - take(in, 1) % 8;
		switch (type) {
		case STRAIT_FRAME_OPEN:
			frame_put_open(&w, &o);
			list = false;
			break;
		case STRAIT_FRAME_REPORT:
			list = r.base <= r.newest && r.newest < next &&
				frame_report_begin(&w, &r) == 0;
			for (uint32_t i = 0; list && i < count; i++)
				if (frame_report_range(&w, 1 + take(in, 1), take(in, 1)) < 0)
					break;
			break;
		case STRAIT_FRAME_HAVE:
			list = frame_have_begin(&w, id, stream, (uint32_t)take(in, 1) % 8) == 0;
			for (uint32_t i = 0; list && i < count; i++)
				frame_have_run(&w, 1 + (uint32_t)take(in, 1) % 3,
					1 + (uint32_t)take(in, 1) % 3);
			break;
		case STRAIT_FRAME_NEED:
			list = frame_need_begin(&w, id, stream, next - 1) == 0;
			previous = 0;
			for (uint32_t i = 0; list && i < count; i++)
				frame_need_block(&w, &previous, i,
					1 + (uint32_t)take(in, 1) % STRAIT_BLOCK_SYMBOLS_MAX);
			break;
		case STRAIT_FRAME_OBJECT:
			list = frame_object_begin(&w, id, (uint32_t)take(in, 1) % 4) == 0;
			for (uint32_t i = 0; list && i < count; i++)
				frame_objects_item(&w, (uint32_t)take(in, 1) % 8,
					(uint8_t)take(in, 1));
			break;
		case STRAIT_FRAME_WITHDRAW:
			list = frame_withdraw_begin(&w, id) == 0;
			for (uint32_t i = 0; list && i < count; i++)
				frame_objects_item(&w, (uint32_t)take(in, 1) % 20,
					(uint8_t)take(in, 1));
			break;
		default:
			list = false;
			if (type == STRAIT_FRAME_OPEN_ACK)
				frame_put_open_ack(&w, id, (uint8_t)count);
			else if (type == STRAIT_FRAME_CREDIT)
				frame_put_credit(&w, &c);
			else if (type == STRAIT_FRAME_OBJECT_ACK)
				frame_put_object_ack(&w, id, count);
			else if (type == STRAIT_FRAME_CLOSE)
				frame_put_close(&w, id, (uint8_t)count);
			else if (type == STRAIT_FRAME_CLOSE_ACK)
				frame_put_close_ack(&w, id);
			else if (type == STRAIT_FRAME_PING)
				frame_put_ping(&w, o.report_interval_us);
			else if (type == STRAIT_FRAME_RECALL)
				frame_put_recall(&w, c.bytes);
			else
				frame_put_token(&w, type, count ? f->s->token : c.bytes);
		}
		if (list)
			frame_list_end(&w);
	}
	peer_says(f, &h, body, w.len);
}

static void say_bytes(struct fuzz *f, struct input *in)
{
	struct packet_header h = { .type = STRAIT_PACKET_CONTROL };
	size_t n = take(in, 2) % (STRAIT_SYMBOL_BYTES_MAX + 1);

	if (n > (size_t)(in->end - in->p))
		n = (size_t)(in->end - in->p);
	peer_says(f, &h, in->p, n);
	in->p += n;
}

/* A manifest that holds, of `objects` equal objects: what an honest one would be. */
static size_t manifest_make(uint8_t *out, size_t cap, uint32_t objects, uint64_t length,
	uint8_t flags)
{
	size_t at = 0;

	for (uint32_t i = 0; i < objects; i++) {
		struct manifest_entry e = { .flags = flags,
			.tenant = (const uint8_t *)"",
			.key = (const uint8_t *)"k",
			.key_len = 1,
			.length = length };
		long n = manifest_entry_encode(&e, out + at, cap - at);

		if (n < 0)
			return 0;
		at += (size_t)n;
	}
	return at;
}

/* OPEN and manifest of a transfer that can be, so that the input gets on to its data. */
static void say_transfer(struct fuzz *f, struct input *in)
{
	static uint8_t body[SYMBOL];
	uint32_t id = 1 + (uint32_t)take(in, 1) % 6, objects = 1 + (uint32_t)take(in, 1) % 20;
	uint64_t length = 1 + take(in, 2) % 20000;
	uint8_t flags = take(in, 1) % 4;
	struct packet_header h = { .type = STRAIT_PACKET_CONTROL };
	struct frame_open o = { .transfer = id,
		.objects = objects,
		.stream_bytes = objects * length,
		.symbol_bytes = SYMBOL };
	struct frame_writer w;
	size_t n = manifest_make(body, sizeof(body), objects, length, flags);

	o.manifest_bytes = (uint32_t)n;
	if (n == 0)
		return;
	h = (struct packet_header){ .type = STRAIT_PACKET_MANIFEST, .transfer = id };
	peer_says(f, &h, body, n);
	h = (struct packet_header){ .type = STRAIT_PACKET_CONTROL };
	frame_writer_init(&w, body, sizeof(body));
	frame_put_open(&w, &o);
	peer_says(f, &h, body, w.len);
}

static void say_symbols(struct fuzz *f, struct input *in)
{
	static uint8_t body[STRAIT_SYMBOL_BYTES_MAX];
	struct packet_header h = {
		.type = take(in, 1) % 4 ? STRAIT_PACKET_DATA : STRAIT_PACKET_MANIFEST,
		.transfer = (uint32_t)take(in, 1) % 8,
		.block = (uint32_t)take(in, 1) % 4,
		.flags = (uint8_t)take(in, 1),
	};
	uint8_t esi = (uint8_t)take(in, 1), n = 1 + take(in, 1) % 140;
	uint8_t how = (uint8_t)take(in, 1);
	size_t len = how % 8 ? SYMBOL : take(in, 2) % (STRAIT_SYMBOL_BYTES_MAX + 1);

	memset(body, how, sizeof(body));
	for (; n > 0; n--) {
		h.esi = esi++;
		peer_says(f, &h, body, len);
	}
}

static void session_sends(struct fuzz *f, uint32_t packets)
{
	static uint8_t packet[SYMBOL + STRAIT_OVERHEAD_BYTES];

	for (; packets > 0; packets--) {
		size_t n = session_send(f->s, f->now_ns, packet, sizeof(packet));

		require(n <= sizeof(packet));
		if (n == 0)
			return;
	}
}

static void check(const struct fuzz *f)
{
	const struct session *s = f->s;

	require(s->tx.n_closing <= CLOSING_MAX && s->tx.live <= SESSION_TRANSFERS_MAX);
	require(s->tx.log.n_out <= LOG_PACKETS);
	require(s->rx.early.used <= SLOTS && s->rx.rows.used <= SLOTS);
	require(s->rx.n_close_acks <= REFUSED_MAX);
	require(s->tx.rate.rate_bps <= s->cfg.cap_bps);
	require(s->rx.interval_ns >= 10000 && s->rx.interval_ns <= NS_PER_S);
}

static void play(struct fuzz *f, struct input *in)
{
	for (int ops = 0; in->p < in->end && ops < OPS_MAX; ops++) {
		uint8_t op = (uint8_t)take(in, 1);

		switch (op % 8) {
		case 0:
			f->now_ns += take(in, 2) << (op / 8);
			break;
		case 1:
			say_bytes(f, in);
			break;
		case 2:
			say_frames(f, in);
			break;
		case 3:
			say_symbols(f, in);
			break;
		case 4:
			session_sends(f, op / 8 * 8U + 1);
			break;
		case 5:
			poll_all(f, op / 8);
			break;
		case 6:
			if (op / 8 == 31) /* the next generation, or one too far */
				f->peer_pn += 1ULL << STRAIT_GENERATION_SHIFT;
			else if (op / 8 % 2)
				say_transfer(f, in);
			else
				tx_begin(f, in);
			break;
		default:
			session_next(f->s, f->now_ns);
			if (op / 8 % 4 == 0)
				f->peer_pn -= f->peer_pn > 3 ? take(in, 1) % 3 : 0;
			break;
		}
		check(f);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session_config c = {
		.peer_session = 9,
		.own_session = 7,
		.direction = STRAIT_DIR_INITIATOR,
		.secret = { 1 },
		.aead = aead_default(),
		.cap_bps = 1000000000,
		.loss_prior = -1,
		.symbol_bytes = SYMBOL,
		.log_packets = LOG_PACKETS,
		.window_packets = 256,
		.scratch_slots = SLOTS,
		.row_slots = SLOTS,
	};
	struct input in = { data, data + size };
	struct fuzz f = { .now_ns = NS_PER_S };
	struct packet_header h = { .type = STRAIT_PACKET_CONTROL };
	uint8_t up[11] = { STRAIT_FRAME_RESPONSE, 0, 8 };

	for (int i = 0; i < STRAIT_CLASS_COUNT; i++)
		c.peer_credit[i] = c.own_credit[i] = (struct session_credit){ 1 << 20, 64 };
	f.s = session_create(&c);
	require(f.s != NULL);
	require(key_tx_init(&f.peer, c.aead, c.secret, STRAIT_DIR_RESPONDER, 0) == 0);
	for (int i = 0; i < 8; i++)
		up[3 + i] = (uint8_t)(f.s->token >> (56 - 8 * i));
	peer_says(&f, &h, up, sizeof(up));
	require(f.s->up);
	play(&f, &in);
	session_reset(f.s, STRAIT_STATUS_RESET);
	poll_all(&f, 1);
	require(f.rx_live == 0 && f.tx_live == 0);
	require(f.s->rx.rows.used == 0);
	session_destroy(f.s);
	key_tx_fini(&f.peer);
	return 0;
}
