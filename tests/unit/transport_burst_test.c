/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/packet.h"
#include "tools/bench/source.h"
#include "tools/bench/standin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/*
 * session_send_burst() against repeated session_send(): two senders with the same seed, pool and
 * peer must send the same bytes.
 */

enum {
	SYMBOL = 1432,
	POOL_BYTES = 12 << 20,
	RTT_NS = 500000,
	PACKET_NS = 61,
	START_NS = 1000000000,
	TURNS = 3000,
	CAP = SYMBOL + STRAIT_OVERHEAD_BYTES,
};

struct side {
	struct session *session;
	struct standin peer;
	struct source source;
	uint8_t bytes[SESSION_BURST_MAX][CAP];
	size_t lens[SESSION_BURST_MAX];
};

static uint8_t *pool;
static struct side *side[2];

static void side_init(struct side *x, double loss, uint8_t class_)
{
	struct standin_config peer = { .session = 1,
		.direction = STRAIT_DIR_RESPONDER,
		.rtt_ns = RTT_NS,
		.loss = loss,
		.seed = 4 };
	struct session_config cfg;

	bench_source_session_config(&cfg, SYMBOL, RTT_NS);
	cfg.own_session = 1;
	cfg.peer_session = 2;
	cfg.direction = STRAIT_DIR_INITIATOR;
	cfg.loss_prior = loss;
	peer.aead = cfg.aead;
	memcpy(peer.secret, cfg.secret, sizeof(peer.secret));
	memset(x, 0, sizeof(*x));
	assert_int_equal(standin_init(&x->peer, &peer), 0);
	assert_int_equal(bench_source_init(&x->source, pool, POOL_BYTES, SYMBOL, class_, false), 0);
	/* Who is next among several is asked once a burst, so they would differ there. */
	x->source.live_most = 1;
	x->session = x->source.session = session_create(&cfg);
	assert_non_null(x->session);
}

static void side_fini(struct side *x)
{
	session_destroy(x->session);
	bench_source_fini(&x->source);
	standin_fini(&x->peer);
}

static unsigned int send(struct side *x, uint64_t now_ns, unsigned int n, bool burst)
{
	struct session_packet p[SESSION_BURST_MAX];
	unsigned int sent = 0;

	for (unsigned int i = 0; i < n; i++)
		p[i].buf = x->bytes[i];
	if (burst)
		sent = session_send_burst(x->session, now_ns, p, n, CAP);
	else
		while (sent < n &&
			(p[sent].len = session_send(x->session, now_ns, p[sent].buf, CAP)) > 0)
			sent++;
	for (unsigned int i = 0; i < sent; i++) {
		x->lens[i] = p[i].len;
		assert_int_equal(standin_take(&x->peer, now_ns, p[i].buf, p[i].len), 0);
	}
	return sent;
}

static void answer(struct side *x, uint64_t now_ns)
{
	uint8_t buf[CAP];
	size_t len = standin_give(&x->peer, now_ns, buf, sizeof(buf));

	if (len > 0)
		assert_int_equal(session_recv(x->session, now_ns, buf, len), 0);
	assert_int_equal(bench_source_poll(&x->source, now_ns), 0);
}

static void compare(double loss, uint8_t class_)
{
	struct session_stats st[2];
	uint64_t now_ns = START_NS, rows = 0;

	side_init(side[0], loss, class_);
	side_init(side[1], loss, class_);
	for (unsigned int turn = 0; turn < TURNS; turn++) {
		unsigned int n = 1 + turn % SESSION_BURST_MAX, sent[2];

		for (int i = 0; i < 2; i++) {
			answer(side[i], now_ns);
			sent[i] = send(side[i], now_ns, n, i == 1);
		}
		assert_int_equal(sent[0], sent[1]);
		for (unsigned int i = 0; i < sent[0]; i++) {
			assert_int_equal(side[0]->lens[i], side[1]->lens[i]);
			assert_memory_equal(side[0]->bytes[i], side[1]->bytes[i], side[0]->lens[i]);
		}
		now_ns += (sent[0] + turn % 3) * PACKET_NS;
	}
	for (int i = 0; i < 2; i++)
		session_stats(side[i]->session, &st[i]);
	assert_memory_equal(st[0].counters, st[1].counters, sizeof(st[0].counters));
	assert_true(st[0].counters[STRAIT_C_tx_source] > TURNS);
	rows = st[0].counters[STRAIT_C_tx_repair];
	assert_true(loss == 0 || class_ != STRAIT_CLASS_URGENT || rows > 0);
	side_fini(side[0]);
	side_fini(side[1]);
}

static void a_burst_is_the_same_packets(void **state)
{
	(void)state;
	compare(0, STRAIT_CLASS_BULK);
}

static void a_burst_is_the_same_packets_with_losses(void **state)
{
	(void)state;
	compare(0.02, STRAIT_CLASS_NORMAL);
}

static void a_burst_is_the_same_packets_with_rows(void **state)
{
	(void)state;
	compare(0.02, STRAIT_CLASS_URGENT);
}

static int group_setup(void **state)
{
	uint32_t x = 1;

	(void)state;
	pool = malloc(POOL_BYTES);
	for (int i = 0; i < 2; i++)
		side[i] = aligned_alloc(64, (sizeof(struct side) + 63) / 64 * 64);
	if (pool == NULL || side[0] == NULL || side[1] == NULL)
		return -1;
	for (size_t i = 0; i < POOL_BYTES; i++)
		pool[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	free(pool);
	free(side[0]);
	free(side[1]);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_is_the_same_packets),
		cmocka_unit_test(a_burst_is_the_same_packets_with_losses),
		cmocka_unit_test(a_burst_is_the_same_packets_with_rows),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
