/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/standin.h"

#include "dataplane/transport/frame.h"
#include "dataplane/transport/packet.h"
#include "tools/bench/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

enum {
	SYMBOL = 1432,
	POOL_BYTES = 16 << 20,
	PACKET_NS = 61,
	RTT_NS = 500000,
	START_NS = 1000000000
};

/* A real session against the stand-in, over a small pool. */
struct pair {
	struct session *session;
	struct standin peer;
	struct source source;
	struct key_rx keys; /* of the stand-in's packets, to look into them */
	uint64_t now_ns, reports, frames[32];
	uint64_t newest, low, missing;
	uint32_t have_floor;
};

static uint8_t *pool;

static void look_at_report(struct pair *p, const struct frame *f)
{
	struct frame_report r;
	uint64_t cursor, low, high, previous = 0;

	assert_int_equal(frame_get_report(f, &r), 0);
	assert_true(r.newest >= p->newest && r.base == r.newest);
	p->newest = r.newest;
	cursor = r.base;
	for (p->missing = 0; frame_report_next(&r, &cursor, &low, &high); previous = low) {
		assert_true(low <= high && (previous == 0 || high < previous));
		if (previous != 0)
			p->missing += previous - high - 1;
		p->low = low;
	}
	p->reports++;
}

/* Every packet opens with the peer's keys and holds whole frames. */
static void look(struct pair *p, const uint8_t *packet, size_t len)
{
	uint8_t nonce[STRAIT_IV_BYTES], body[SYMBOL];
	struct packet_header h = { 0 };
	struct frame_reader r;
	struct frame_have have;
	struct key_slot *key;
	struct frame f;
	int ret;

	assert_int_equal(packet_header_decode(packet, len, &h), 0);
	assert_int_equal(h.type, STRAIT_PACKET_CONTROL);
	assert_int_equal(h.session, 1);
	key = key_rx_find(&p->keys, 0);
	key_nonce(key->iv, h.packet_number, nonce);
	assert_int_equal(aead_open(&key->aead, nonce, packet, STRAIT_HEADER_BYTES,
				 packet + STRAIT_HEADER_BYTES, len - STRAIT_OVERHEAD_BYTES,
				 packet + len - STRAIT_TAG_BYTES, body),
		0);
	frame_reader_init(&r, body, len - STRAIT_OVERHEAD_BYTES);
	while ((ret = frame_next(&r, &f)) == 1) {
		p->frames[f.type % 32]++;
		if (f.type == STRAIT_FRAME_REPORT)
			look_at_report(p, &f);
		if (f.type != STRAIT_FRAME_HAVE)
			continue;
		assert_int_equal(frame_get_have(&f, &have), 0);
		if (have.stream == STRAIT_STREAM_OBJECTS && have.transfer == 1) {
			assert_true(have.floor > p->have_floor);
			p->have_floor = have.floor;
		}
	}
	assert_int_equal(ret, 0);
}

static void pair_init(struct pair *p, double loss, uint8_t class_)
{
	struct standin_config peer = { .session = 1,
		.direction = STRAIT_DIR_RESPONDER,
		.rtt_ns = RTT_NS,
		.loss = loss };
	struct session_config cfg;

	memset(p, 0, sizeof(*p));
	p->now_ns = START_NS;
	bench_source_session_config(&cfg, SYMBOL, RTT_NS);
	cfg.own_session = 1;
	cfg.peer_session = 2;
	cfg.direction = STRAIT_DIR_INITIATOR;
	cfg.loss_prior = loss;
	peer.aead = cfg.aead;
	memcpy(peer.secret, cfg.secret, sizeof(peer.secret));
	assert_int_equal(standin_init(&p->peer, &peer), 0);
	assert_int_equal(key_rx_init(&p->keys, cfg.aead, cfg.secret, STRAIT_DIR_RESPONDER, 0), 0);
	assert_int_equal(bench_source_init(&p->source, pool, POOL_BYTES, SYMBOL, class_, false), 0);
	p->source.live_most = 1; /* one after the other: what is expected is easy to say */
	p->session = p->source.session = session_create(&cfg);
	assert_non_null(p->session);
}

static void pair_fini(struct pair *p)
{
	session_destroy(p->session);
	bench_source_fini(&p->source);
	standin_fini(&p->peer);
	key_rx_fini(&p->keys);
}

static void pair_run(struct pair *p, uint64_t objects)
{
	uint8_t buf[SYMBOL + STRAIT_OVERHEAD_BYTES];
	size_t len;

	for (int i = 0; i < 4000000 && p->source.committed < objects; i++) {
		if (i % 32 == 0)
			assert_int_equal(bench_source_poll(&p->source, p->now_ns), 0);
		len = session_send(p->session, p->now_ns, buf, sizeof(buf));
		if (len > 0)
			assert_int_equal(standin_take(&p->peer, p->now_ns, buf, len), 0);
		p->now_ns += PACKET_NS;
		len = standin_give(&p->peer, p->now_ns, buf, sizeof(buf));
		if (len == 0)
			continue;
		look(p, buf, len);
		assert_int_equal(session_recv(p->session, p->now_ns, buf, len), 0);
	}
	assert_true(p->source.committed >= objects);
}

static void a_sender_finishes_transfers_against_it(void **state)
{
	struct pair *p = *state;
	struct session_stats st;

	pair_init(p, 0, STRAIT_CLASS_NORMAL);
	pair_run(p, 13);
	session_stats(p->session, &st);
	assert_true(st.srtt_ns >= RTT_NS && st.srtt_ns < RTT_NS + RTT_NS / 4);
	assert_int_equal(st.counters[STRAIT_C_tx_lost], 0);
	assert_int_equal(st.counters[STRAIT_C_rx_frame], 0);
	assert_int_equal(p->missing, 0);
	assert_true(
		p->frames[STRAIT_FRAME_OPEN_ACK] >= 3 && p->frames[STRAIT_FRAME_CLOSE_ACK] >= 2);
	assert_int_equal(p->have_floor, (POOL_BYTES + 128 * SYMBOL - 1) / (128 * SYMBOL));
	pair_fini(p);
}

static void it_reports_five_times_a_round_trip(void **state)
{
	struct pair *p = *state;
	uint64_t start;

	pair_init(p, 0, STRAIT_CLASS_NORMAL);
	pair_run(p, 2);
	start = p->now_ns;
	p->reports = 0;
	pair_run(p, 3); /* within a transfer: at its end there is nothing new to report */
	assert_in_range(p->reports, (p->now_ns - start) / (RTT_NS / 5) - 1,
		(p->now_ns - start) / (RTT_NS / 5) + 1);
	pair_fini(p);
}

static void its_losses_are_seen_and_repaired(void **state)
{
	struct pair *p = *state;
	struct session_stats st;

	pair_init(p, 0.01, STRAIT_CLASS_URGENT);
	pair_run(p, 8);
	session_stats(p->session, &st);
	assert_true(p->peer.lost > 0 && st.counters[STRAIT_C_tx_repair] > 0);
	assert_in_range(st.counters[STRAIT_C_tx_lost], 1, p->peer.lost);
	assert_int_equal(st.counters[STRAIT_C_tx_spurious], 0);
	assert_int_equal(st.counters[STRAIT_C_rx_frame], 0);
	pair_fini(p);
}

static void forged_packets_are_refused(void **state)
{
	uint8_t buf[SYMBOL + STRAIT_OVERHEAD_BYTES] = { 0 };
	struct pair *p = *state;
	size_t len;

	pair_init(p, 0, STRAIT_CLASS_NORMAL);
	len = session_send(p->session, p->now_ns, buf, sizeof(buf));
	assert_true(len > STRAIT_OVERHEAD_BYTES); /* CHALLENGE */
	buf[len - 1] ^= 1;
	assert_int_equal(standin_take(&p->peer, p->now_ns, buf, len), -EBADMSG);
	assert_int_equal(standin_take(&p->peer, p->now_ns, buf, 10), -EMSGSIZE);
	assert_int_equal(standin_give(&p->peer, p->now_ns, buf, sizeof(buf)), 0);
	pair_fini(p);
}

static int group_setup(void **state)
{
	*state = aligned_alloc(64, (sizeof(struct pair) + 63) / 64 * 64);
	pool = malloc(POOL_BYTES);
	if (*state == NULL || pool == NULL)
		return -1;
	memset(pool, 3, POOL_BYTES);
	return 0;
}

static int group_teardown(void **state)
{
	free(*state);
	free(pool);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sender_finishes_transfers_against_it),
		cmocka_unit_test(it_reports_five_times_a_round_trip),
		cmocka_unit_test(its_losses_are_seen_and_repaired),
		cmocka_unit_test(forged_packets_are_refused),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
