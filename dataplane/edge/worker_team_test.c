/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/worker_fixture.h"

#include "dataplane/edge/net_arp.h"
#include "dataplane/fec/digest.h"
#include "dataplane/transport/manifest.h"

#include <rte_ethdev.h>

#include <stdlib.h>

/*
 * Two workers on one end of a memif, in one process and without hugepages; on the other end the
 * test itself, frame by frame, or two workers more. With one queue pair and with one a worker.
 */

enum {
	TEAM = 2,
	OBJECTS = 3,
	OBJECT_BYTES = 1000001,
};

/* An end of the wire. */
struct end {
	struct port *port;
	struct worker *workers[TEAM];
};

static struct end near_end, far_end;

static void open_workers(struct end *e)
{
	for (uint16_t i = 0; i < TEAM; i++) {
		const struct worker_config cfg = { .port = e->port, .queue = i };

		e->workers[i] = worker_create(&cfg);
		assert_non_null(e->workers[i]);
	}
	assert_int_equal(worker_team(e->workers, TEAM), 0);
	for (int i = 0; i < TEAM; i++)
		assert_int_equal(worker_start(e->workers[i]), 0);
}

static int open_ends(uint16_t queues, bool both)
{
	rounds++;
	memset(&near_end, 0, sizeof(near_end));
	memset(&far_end, 0, sizeof(far_end));
	/* In one process the driver listens only if the server comes first. */
	near_end.port = wire_open("server", 0, TEAM, queues);
	far_end.port = wire_open("client", 1, TEAM, queues);
	if (near_end.port == NULL || far_end.port == NULL)
		return -1;
	open_workers(&near_end);
	if (both)
		open_workers(&far_end);
	await_link(far_end.port);
	await_link(near_end.port);
	return 0;
}

static int open_near_one_queue(void **state)
{
	(void)state;
	return open_ends(1, false);
}

static int open_near_two_queues(void **state)
{
	(void)state;
	return open_ends(2, false);
}

static int open_both_one_queue(void **state)
{
	(void)state;
	return open_ends(1, true);
}

static int open_both_two_queues(void **state)
{
	(void)state;
	return open_ends(2, true);
}

static int close_ends(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * TEAM; i++) {
		struct worker *w = (i < TEAM ? near_end : far_end).workers[i % TEAM];

		if (w != NULL)
			worker_stop(w);
	}
	for (int i = 0; i < TEAM; i++) {
		worker_destroy(near_end.workers[i]);
		worker_destroy(far_end.workers[i]);
	}
	port_destroy(near_end.port);
	port_destroy(far_end.port);
	return 0;
}

static uint64_t counter(const struct worker *w, size_t offset)
{
	struct worker_stats s;

	worker_stats((struct worker *)(uintptr_t)w, &s);
	return *(uint64_t *)((uint8_t *)&s + offset);
}

#define COUNTER(end, worker, name)                                                                 \
	counter((end).workers[worker], offsetof(struct worker_stats, name))

static void await_counter(const struct worker *w, size_t offset, uint64_t value)
{
	uint64_t end = now_ms() + PATIENCE_MS;

	while (counter(w, offset) < value)
		assert_true(now_ms() < end);
	assert_int_equal(counter(w, offset), value);
}

#define AWAIT_COUNTER(end, worker, name, value)                                                    \
	await_counter((end).workers[worker], offsetof(struct worker_stats, name), value)

static void send_frame(const uint8_t *frame, size_t len, uint16_t queue)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(far_end.port->pools[0]);
	uint64_t end = now_ms() + PATIENCE_MS;

	assert_non_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	while (rte_eth_tx_burst(far_end.port->id, queue, &m, 1) != 1)
		assert_true(now_ms() < end);
}

/* The next frame of an EtherType, from any queue. */
static size_t receive(uint16_t type, uint8_t *frame)
{
	uint64_t end = now_ms() + PATIENCE_MS;
	struct rte_mbuf *m;
	size_t len;

	for (uint16_t q = 0;; q = (uint16_t)((q + 1) % far_end.port->queues)) {
		assert_true(now_ms() < end);
		if (rte_eth_rx_burst(far_end.port->id, q, &m, 1) != 1)
			continue;
		len = m->data_len;
		memcpy(frame, rte_pktmbuf_mtod(m, uint8_t *), len);
		rte_pktmbuf_free(m);
		if (net_get16(frame + 12) == type)
			return len;
	}
}

/* A datagram for queue n of a session nobody has. */
static size_t stranger(uint8_t *frame, uint8_t queue, uint16_t udp_port)
{
	struct net_flow flow = { .src = net_ip4(FAR_IP),
		.dst = net_ip4(NEAR_IP),
		.src_port = UDP_PORT,
		.dst_port = udp_port };
	struct net_header h;

	memcpy(flow.dst_mac, near_mac, NET_MAC_BYTES);
	net_header_init(&h, &flow, far_mac);
	memset(frame + h.len, 0, 100);
	frame[h.len + STRAIT_OFF_QUEUE] = queue;
	return net_header_write(&h, frame, 100, NET_UDP_SUM_FULL);
}

static void a_packet_goes_to_the_worker_its_queue_names(void **state)
{
	uint8_t frame[2048];

	(void)state;
	send_frame(frame, stranger(frame, 1, UDP_PORT + 1), 0);
	AWAIT_COUNTER(near_end, 1, drop_no_session, 1);
	AWAIT_COUNTER(near_end, 0, rx_misdirected, 1);
	send_frame(frame, stranger(frame, 0, UDP_PORT), 0);
	AWAIT_COUNTER(near_end, 0, drop_no_session, 1);
	/* A queue there is not, and a port that is not ours, go nowhere. */
	send_frame(frame, stranger(frame, TEAM, UDP_PORT), 0);
	AWAIT_COUNTER(near_end, 0, drop_no_session, 2);
	send_frame(frame, stranger(frame, 1, UDP_PORT + TEAM), 0);
	AWAIT_COUNTER(near_end, 0, drop_protocol, 1);
	send_frame(frame, stranger(frame, 1, UDP_PORT - 1), 0);
	AWAIT_COUNTER(near_end, 0, drop_protocol, 2);
	/* Its owner looks at all of it again. */
	send_frame(frame, stranger(frame, 1, UDP_PORT + 1) - 1, 0);
	AWAIT_COUNTER(near_end, 1, drop_malformed, 1);
	AWAIT_COUNTER(near_end, 0, rx_misdirected, 2);
	assert_int_equal(COUNTER(near_end, 1, rx_packets), 0);
}

static void a_packet_on_its_own_queue_stays_there(void **state)
{
	uint8_t frame[2048];

	(void)state;
	send_frame(frame, stranger(frame, 1, UDP_PORT + 1), 1);
	AWAIT_COUNTER(near_end, 1, drop_no_session, 1);
	AWAIT_COUNTER(near_end, 1, rx_packets, 1);
	assert_int_equal(COUNTER(near_end, 0, rx_misdirected), 0);
	send_frame(frame, stranger(frame, 0, UDP_PORT), 1);
	AWAIT_COUNTER(near_end, 0, drop_no_session, 1);
	AWAIT_COUNTER(near_end, 1, rx_misdirected, 1);
}

static void more_than_a_ring_holds_is_dropped_and_counted(void **state)
{
	struct rte_ring *ring = near_end.workers[1]->rx_from[0];
	struct worker *one = near_end.workers[1];
	uint8_t frame[2048];
	size_t len;

	(void)state;
	worker_stop(one);
	len = stranger(frame, 1, UDP_PORT + 1);
	for (unsigned int i = 0; i < WORKER_TEAM_RING + 100; i++)
		send_frame(frame, len, 0);
	AWAIT_COUNTER(near_end, 0, rx_misdirected, WORKER_TEAM_RING + 100);
	AWAIT_COUNTER(near_end, 0, drop_misdirected, 101);
	assert_true(rte_ring_full(ring));
	/* What is in it is not lost, nor leaked when nobody takes it. */
}

/* The session 0x1111 at the near end, 0x2222 at the far one, of one queue. */

static void add_session(struct worker *w, struct session *s, uint32_t id, uint8_t queue,
	uint32_t remote)
{
	tell(w,
		(struct worker_command){ .type = WORKER_SESSION_ADD,
			.session = s,
			.session_id = id,
			.endpoint = { .remote_ip = net_ip4(remote),
				.local_port = (uint16_t)(UDP_PORT + queue),
				.remote_port = (uint16_t)(UDP_PORT + queue) } });
}

/* Until the worker gave its session back. */
static void del_session(struct worker *w, struct session *s)
{
	uint64_t end = now_ms() + PATIENCE_MS;
	struct worker_event ev;

	tell(w, (struct worker_command){ .type = WORKER_SESSION_DEL, .session = s });
	do {
		assert_true(now_ms() < end);
		if (!worker_event(w, &ev))
			ev.type = WORKER_EVENT_SESSION;
	} while (ev.type != WORKER_EVENT_SESSION_GONE);
	session_destroy(s);
}

static void all_workers_learn_where_a_neighbor_is(void **state)
{
	struct session *s = open_session(true, 1, 500000000);
	struct net_arp arp;
	uint8_t frame[2048];

	(void)state;
	add_session(near_end.workers[1], s, 0x1111, 1, FAR_IP);
	do {
		assert_int_equal(receive(NET_TYPE_ARP, frame), NET_ARP_FRAME_BYTES);
		assert_int_equal(net_arp_decode(frame, NET_ARP_FRAME_BYTES, &arp), 0);
	} while (arp.target_ip != FAR_IP);
	/* The answer comes in at the other worker. */
	net_arp_encode_reply(frame, &far, &arp);
	send_frame(frame, NET_ARP_FRAME_BYTES, 0);
	receive(NET_TYPE_IPV4, frame);
	assert_int_equal(frame[NET_HEADERS_BYTES + STRAIT_OFF_QUEUE], 1);
	assert_int_equal(net_get16(frame + NET_ETH_BYTES + NET_IPV4_BYTES), UDP_PORT + 1);
	del_session(near_end.workers[1], s);
}

/* A transfer on a queue, as both control threads see it. */
struct way {
	struct session *source, *sink;
	struct tx_transfer *tx;
	uint8_t *from[OBJECTS], *to[OBJECTS];
	uint8_t resume[OBJECTS][SESSION_RESUME_BYTES];
	unsigned int committed;
	bool tx_closed, rx_closed;
};

static void make_transfer(struct way *w)
{
	struct manifest_entry entries[OBJECTS] = { 0 };
	static const char *const keys[OBJECTS] = { "one", "two", "three" };
	struct tx_params params = { .order = 1,
		.class_ = STRAIT_CLASS_NORMAL,
		.symbol_bytes = STRAIT_SYMBOL_BYTES_IPV4,
		.objects = OBJECTS,
		.entries = entries };

	for (int i = 0; i < OBJECTS; i++) {
		w->from[i] = malloc(OBJECT_BYTES);
		w->to[i] = calloc(1, OBJECT_BYTES);
		for (size_t n = 0; n < OBJECT_BYTES; n++)
			w->from[i][n] = (uint8_t)(n * 2654435761u >> 13 ^ (size_t)i);
		entries[i].key = (const uint8_t *)keys[i];
		entries[i].key_len = (uint16_t)strlen(keys[i]);
		entries[i].length = OBJECT_BYTES;
		entries[i].flags = STRAIT_MANIFEST_DIGEST;
		entries[i].digest = digest_bytes(w->from[i], OBJECT_BYTES);
	}
	w->tx = tx_transfer_create(&params);
	assert_non_null(w->tx);
}

static void source_event(struct way *w, struct worker *worker, const struct session_event *ev)
{
	if (ev->type == SESSION_EVENT_TX_WANT)
		for (uint32_t i = 0; i < ev->object && i < OBJECTS; i++)
			tell(worker,
				(struct worker_command){ .type = WORKER_TX_READY,
					.session = w->source,
					.tx = w->tx,
					.object = i,
					.data = w->from[i] });
	w->committed +=
		ev->type == SESSION_EVENT_TX_OBJECT && ev->status == STRAIT_STATUS_COMMITTED;
	w->tx_closed = w->tx_closed || ev->type == SESSION_EVENT_TX_CLOSED;
}

static void sink_event(struct way *w, struct worker *worker, const struct session_event *ev)
{
	struct worker_command c = { .session = w->sink, .rx = ev->rx, .object = ev->object };

	switch (ev->type) {
	case SESSION_EVENT_RX_OPEN:
		c.type = WORKER_RX_ATTACH;
		c.rx = rx_transfer_create(&ev->open, NULL);
		assert_non_null(c.rx);
		tell(worker, c);
		break;
	case SESSION_EVENT_RX_MANIFEST:
		assert_int_equal(rx_transfer_load_objects(c.rx), 0);
		c.type = WORKER_RX_BEGIN;
		tell(worker, c);
		c.type = WORKER_RX_PLACE;
		for (c.object = 0; c.object < OBJECTS; c.object++) {
			rx_object_prepare(c.rx, c.object, w->to[c.object], w->resume[c.object],
				false);
			tell(worker, c);
		}
		break;
	case SESSION_EVENT_RX_OBJECT:
		assert_int_equal(ev->status, STRAIT_STATUS_COMMITTED);
		c.type = WORKER_RX_FINISH;
		c.status = STRAIT_STATUS_COMMITTED;
		tell(worker, c);
		break;
	case SESSION_EVENT_RX_CLOSED:
		w->rx_closed = true;
		rx_transfer_destroy(ev->rx);
		break;
	default:
		break;
	}
}

static void transfers_run_beside_each_other_on_all_queues(void **state)
{
	struct way ways[TEAM] = { 0 };
	uint64_t end = now_ms() + 4 * PATIENCE_MS;
	struct worker_event ev;
	unsigned int closed;

	(void)state;
	for (uint8_t q = 0; q < TEAM; q++) {
		struct way *w = &ways[q];

		w->source = open_session(true, q, 500000000);
		w->sink = open_session(false, q, 500000000);
		add_session(near_end.workers[q], w->source, 0x1111, q, FAR_IP);
		add_session(far_end.workers[q], w->sink, 0x2222, q, NEAR_IP);
		make_transfer(w);
		tell(near_end.workers[q],
			(struct worker_command){ .type = WORKER_TX_START,
				.session = w->source,
				.tx = w->tx });
	}
	do {
		assert_true(now_ms() < end);
		closed = 0;
		for (int q = 0; q < TEAM; q++) {
			while (worker_event(near_end.workers[q], &ev))
				source_event(&ways[q], near_end.workers[q], &ev.ev);
			while (worker_event(far_end.workers[q], &ev))
				sink_event(&ways[q], far_end.workers[q], &ev.ev);
			closed += ways[q].tx_closed && ways[q].rx_closed;
		}
	} while (closed < TEAM);
	for (int q = 0; q < TEAM; q++) {
		struct way *w = &ways[q];

		assert_int_equal(w->committed, OBJECTS);
		for (int i = 0; i < OBJECTS; i++) {
			assert_memory_equal(w->from[i], w->to[i], OBJECT_BYTES);
			free(w->from[i]);
			free(w->to[i]);
		}
		tx_transfer_destroy(w->tx);
		del_session(near_end.workers[q], w->source);
		del_session(far_end.workers[q], w->sink);
	}
	/* With a queue pair each nobody meets another's packet. */
	if (near_end.port->queues == TEAM)
		assert_int_equal(COUNTER(far_end, 0, rx_misdirected), 0);
	else
		assert_true(COUNTER(far_end, 0, rx_misdirected) > OBJECTS * OBJECT_BYTES / 1432);
	assert_int_equal(COUNTER(far_end, 0, drop_misdirected), 0);
	assert_int_equal(COUNTER(far_end, 1, rx_misdirected), 0);
}

int main(void)
{
#define WITH(test, open) cmocka_unit_test_setup_teardown(test, open, close_ends)
	const struct CMUnitTest tests[] = {
		WITH(a_packet_goes_to_the_worker_its_queue_names, open_near_one_queue),
		WITH(a_packet_on_its_own_queue_stays_there, open_near_two_queues),
		WITH(more_than_a_ring_holds_is_dropped_and_counted, open_near_one_queue),
		WITH(all_workers_learn_where_a_neighbor_is, open_near_one_queue),
		WITH(all_workers_learn_where_a_neighbor_is, open_near_two_queues),
		WITH(transfers_run_beside_each_other_on_all_queues, open_both_one_queue),
		WITH(transfers_run_beside_each_other_on_all_queues, open_both_two_queues),
	};

	return cmocka_run_group_tests(tests, start_eal, stop_eal);
}
