/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/worker_fixture.h"

#include "dataplane/edge/net_arp.h"
#include "dataplane/edge/net_icmp.h"
#include "dataplane/fec/digest.h"
#include "dataplane/transport/manifest.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

/*
 * A worker on one end of a memif, in one process and without hugepages. On the other end either
 * the test itself, frame by frame, or a second worker. Waiting is polling with a deadline.
 */

enum { SILENCE_MS = 30 };

static struct port *near_port, *far_port;
static struct worker *near_worker;

static struct worker *open_worker(struct port *p)
{
	const struct worker_config cfg = { .port = p };
	struct worker *w = worker_create(&cfg);

	assert_non_null(w);
	assert_int_equal(worker_start(w), 0);
	return w;
}

static int open_near(void **state)
{
	(void)state;
	/*
	 * In one process the driver makes the socket once: as a listener only if the server
	 * comes first.
	 */
	rounds++;
	near_port = wire_open("server", 0, 0, 0);
	far_port = wire_open("client", 1, 0, 0);
	if (near_port == NULL || far_port == NULL)
		return -1;
	near_worker = open_worker(near_port);
	await_link(far_port);
	await_link(near_port);
	return 0;
}

static int close_near(void **state)
{
	(void)state;
	worker_destroy(near_worker);
	port_destroy(near_port);
	port_destroy(far_port);
	return 0;
}

static void send_frame(const uint8_t *frame, size_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(far_port->pools[0]);
	uint64_t end = now_ms() + PATIENCE_MS;

	assert_non_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	while (rte_eth_tx_burst(far_port->id, 0, &m, 1) != 1)
		assert_true(now_ms() < end);
}

/* The next frame of an EtherType, 0: none came. */
static size_t receive(uint16_t type, uint8_t *frame, unsigned int wait_ms)
{
	uint64_t end = now_ms() + wait_ms;
	struct rte_mbuf *m;
	size_t len;

	while (now_ms() < end) {
		if (rte_eth_rx_burst(far_port->id, 0, &m, 1) != 1)
			continue;
		len = m->data_len;
		memcpy(frame, rte_pktmbuf_mtod(m, uint8_t *), len);
		rte_pktmbuf_free(m);
		if (net_get16(frame + 12) == type)
			return len;
	}
	return 0;
}

static uint64_t counter(size_t offset)
{
	struct worker_stats s;

	worker_stats(near_worker, &s);
	return *(uint64_t *)((uint8_t *)&s + offset);
}

#define COUNTER(name) counter(offsetof(struct worker_stats, name))

static void await_counter(size_t offset, uint64_t value)
{
	uint64_t end = now_ms() + PATIENCE_MS;

	while (counter(offset) < value)
		assert_true(now_ms() < end);
	assert_int_equal(counter(offset), value);
}

#define AWAIT_COUNTER(name, value) await_counter(offsetof(struct worker_stats, name), value)

static void address_is_announced_when_the_link_comes_up(void **state)
{
	uint8_t frame[2048];
	struct net_arp arp;

	(void)state;
	assert_int_not_equal(receive(NET_TYPE_ARP, frame, PATIENCE_MS), 0);
	assert_int_equal(net_arp_decode(frame, sizeof(frame), &arp), 0);
	assert_int_equal(arp.sender_ip, NEAR_IP);
	assert_int_equal(arp.target_ip, NEAR_IP);
	assert_memory_equal(arp.sender_mac, near_mac, NET_MAC_BYTES);
}

static void arp_for_us_is_answered_and_for_others_not(void **state)
{
	uint8_t frame[2048];
	struct net_arp arp;

	(void)state;
	net_arp_encode_request(frame, &far, NEAR_IP, NULL);
	send_frame(frame, NET_ARP_FRAME_BYTES);
	do {
		assert_int_not_equal(receive(NET_TYPE_ARP, frame, PATIENCE_MS), 0);
		assert_int_equal(net_arp_decode(frame, sizeof(frame), &arp), 0);
	} while (arp.op != NET_ARP_REPLY);
	assert_memory_equal(frame, far_mac, NET_MAC_BYTES);
	assert_int_equal(arp.sender_ip, NEAR_IP);
	assert_memory_equal(arp.sender_mac, near_mac, NET_MAC_BYTES);

	net_arp_encode_request(frame, &far, NEAR_IP + 100, NULL);
	send_frame(frame, NET_ARP_FRAME_BYTES);
	while (receive(NET_TYPE_ARP, frame, SILENCE_MS) != 0) {
		net_arp_decode(frame, sizeof(frame), &arp);
		assert_int_not_equal(arp.op, NET_ARP_REPLY);
	}
	AWAIT_COUNTER(arp_replies, 1);
}

static size_t far_datagram(uint8_t *frame, size_t payload, uint8_t protocol)
{
	struct net_flow flow = { .src = net_ip4(FAR_IP),
		.dst = net_ip4(NEAR_IP),
		.src_port = UDP_PORT,
		.dst_port = UDP_PORT };
	uint8_t *ip = frame + NET_ETH_BYTES;
	struct net_header h;
	size_t len;

	memcpy(flow.dst_mac, near_mac, NET_MAC_BYTES);
	net_header_init(&h, &flow, far_mac);
	len = net_header_write(&h, frame, payload, NET_UDP_SUM_FULL);
	ip[9] = protocol;
	net_put16(ip + 10, 0);
	net_sum_put(ip + 10, net_sum_fold(net_sum_add(0, ip, NET_IPV4_BYTES)));
	return len;
}

static void ping_of_any_size_is_answered(void **state)
{
	static const size_t sizes[] = { 0, 1, 56, 1000, 1472 };
	uint8_t frame[2048] = { 0 }, *icmp = frame + NET_ETH_BYTES + NET_IPV4_BYTES;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t len = far_datagram(frame, sizes[i], NET_PROTO_ICMP);

		memset(icmp, 0, 8);
		icmp[0] = 8;
		net_put16(icmp + 6, (uint16_t)i);
		net_sum_put(icmp + 2, net_sum_fold(net_sum_add(0, icmp, 8 + sizes[i])));
		send_frame(frame, len);
		assert_int_equal(receive(NET_TYPE_IPV4, frame, PATIENCE_MS), len);
		assert_int_equal(icmp[0], 0);
		assert_int_equal(net_get16(icmp + 6), i);
		assert_memory_equal(frame, far_mac, NET_MAC_BYTES);
	}
	AWAIT_COUNTER(icmp_echo, 5);
}

static void strangers_get_silence_and_a_counter(void **state)
{
	uint8_t frame[2048] = { 0 };
	size_t len;

	(void)state;
	len = far_datagram(frame, 100, NET_PROTO_UDP);
	send_frame(frame, len);
	AWAIT_COUNTER(drop_no_session, 1);
	frame[len - 1] ^= 1;
	send_frame(frame, len);
	AWAIT_COUNTER(drop_checksum, 1);
	send_frame(frame, 30);
	AWAIT_COUNTER(drop_malformed, 1);
	frame[5]++;
	send_frame(frame, len);
	AWAIT_COUNTER(drop_not_for_us, 1);
	far_datagram(frame, 100, 6);
	send_frame(frame, len);
	AWAIT_COUNTER(drop_protocol, 1);
	far_datagram(frame, 100, NET_PROTO_UDP);
	net_put16(frame + NET_ETH_BYTES + 6, 0x2000);
	net_put16(frame + NET_ETH_BYTES + 10, 0);
	net_sum_put(frame + NET_ETH_BYTES + 10,
		net_sum_fold(net_sum_add(0, frame + NET_ETH_BYTES, NET_IPV4_BYTES)));
	send_frame(frame, len);
	AWAIT_COUNTER(drop_fragment, 1);
	assert_int_equal(receive(NET_TYPE_IPV4, frame, SILENCE_MS), 0);
}

static void answers_are_limited(void **state)
{
	uint8_t frame[2048];

	(void)state;
	net_arp_encode_request(frame, &far, NEAR_IP, NULL);
	for (int i = 0; i < 2000; i++)
		send_frame(frame, NET_ARP_FRAME_BYTES);
	await_counter(offsetof(struct worker_stats, rx_packets), 2000);
	assert_true(COUNTER(drop_limited) + COUNTER(arp_replies) <= 2000);
}

static void lost_peer_is_found_again(void **state)
{
	uint8_t frame[2048];
	struct net_arp arp;

	(void)state;
	for (int i = 0; i < 3; i++) {
		port_destroy(far_port);
		far_port = wire_open("client", 1, 0, 0);
		assert_non_null(far_port);
		await_link(far_port);
		net_arp_encode_request(frame, &far, NEAR_IP, NULL);
		send_frame(frame, NET_ARP_FRAME_BYTES);
		do {
			assert_int_not_equal(receive(NET_TYPE_ARP, frame, PATIENCE_MS), 0);
			net_arp_decode(frame, sizeof(frame), &arp);
		} while (arp.op != NET_ARP_REPLY);
	}
}

static void peers_that_vanish_in_the_handshake_do_no_harm(void **state)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int len = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, WIRE_SOCKET, (int)getpid(),
		rounds);
	socklen_t to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
	uint8_t garbage[128] = { 1, 2, 3 };

	for (int i = 0; i <= 300; i++) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&to, to_len), 0);
		if (i % 3 == 1)
			send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
		/* When the last one is greeted, all were accepted. */
		if (i == 300)
			assert_true(recv(fd, garbage, sizeof(garbage), 0) > 0);
		close(fd);
	}
	lost_peer_is_found_again(state);
}

/*
 * ---- two workers, two sessions
 * -------------------------------------------------------------------
 */

enum { OBJECTS = 3, OBJECT_BYTES = 1000001 };

static struct worker *far_worker;

static int open_both(void **state)
{
	if (open_near(state) != 0)
		return -1;
	far_worker = open_worker(far_port);
	return 0;
}

static int close_both(void **state)
{
	worker_destroy(far_worker);
	return close_near(state);
}

static void add_session(struct worker *w, struct session *s, uint32_t id, uint32_t remote)
{
	const struct worker_command c = { .type = WORKER_SESSION_ADD,
		.session = s,
		.session_id = id,
		.endpoint = { .remote_ip = net_ip4(remote), .remote_port = UDP_PORT } };

	assert_int_equal(worker_command(w, &c), 0);
}

/* What the test's control thread knows. */
struct ends {
	struct session *source, *sink;
	struct tx_transfer *tx;
	uint8_t *from[OBJECTS], *to[OBJECTS];
	uint8_t resume[OBJECTS][SESSION_RESUME_BYTES];
	unsigned int received, committed;
	bool tx_closed, rx_closed, source_gone, sink_gone, source_up, sink_up;
	unsigned int rejected;
};

static void source_event(struct ends *e, const struct worker_event *ev)
{
	switch (ev->type) {
	case WORKER_EVENT_SESSION_GONE:
		e->source_gone = true;
		return;
	case WORKER_EVENT_TX_REJECTED:
		e->rejected++;
		return;
	case WORKER_EVENT_SESSION:
		break;
	default:
		fail();
	}
	switch (ev->ev.type) {
	case SESSION_EVENT_UP:
		e->source_up = true;
		break;
	case SESSION_EVENT_TX_WANT:
		for (uint32_t i = 0; i < ev->ev.object && i < OBJECTS; i++)
			tell(near_worker,
				(struct worker_command){ .type = WORKER_TX_READY,
					.session = e->source,
					.tx = e->tx,
					.object = i,
					.data = e->from[i] });
		break;
	case SESSION_EVENT_TX_OBJECT:
		if (ev->ev.status == STRAIT_STATUS_COMMITTED)
			e->committed++;
		break;
	case SESSION_EVENT_TX_CLOSED:
		e->tx_closed = true;
		break;
	default:
		break;
	}
}

static void sink_event(struct ends *e, const struct worker_event *ev)
{
	struct worker_command c = { .session = e->sink, .rx = ev->ev.rx };

	if (ev->type == WORKER_EVENT_SESSION_GONE) {
		e->sink_gone = true;
		return;
	}
	assert_int_equal(ev->type, WORKER_EVENT_SESSION);
	switch (ev->ev.type) {
	case SESSION_EVENT_UP:
		e->sink_up = true;
		break;
	case SESSION_EVENT_RX_OPEN:
		c.type = WORKER_RX_ATTACH;
		c.rx = rx_transfer_create(&ev->ev.open, NULL);
		assert_non_null(c.rx);
		tell(far_worker, c);
		break;
	case SESSION_EVENT_RX_MANIFEST:
		assert_int_equal(rx_transfer_load_objects(c.rx), 0);
		assert_int_equal(rx_transfer_objects(c.rx), OBJECTS);
		c.type = WORKER_RX_BEGIN;
		tell(far_worker, c);
		c.type = WORKER_RX_PLACE;
		for (c.object = 0; c.object < OBJECTS; c.object++) {
			rx_object_prepare(c.rx, c.object, e->to[c.object], e->resume[c.object],
				false);
			tell(far_worker, c);
		}
		break;
	case SESSION_EVENT_RX_OBJECT:
		assert_int_equal(ev->ev.status, STRAIT_STATUS_COMMITTED);
		c.type = WORKER_RX_FINISH;
		c.object = ev->ev.object;
		c.status = STRAIT_STATUS_COMMITTED;
		e->received++;
		tell(far_worker, c);
		break;
	case SESSION_EVENT_RX_CLOSED:
		e->rx_closed = true;
		if (ev->ev.rx != NULL)
			rx_transfer_destroy(ev->ev.rx);
		break;
	default:
		break;
	}
}

/* As the control thread does: drain, arm, sleep on the eventfds. */
static void serve_until(struct ends *e, const bool *done)
{
	uint64_t end = now_ms() + 4 * PATIENCE_MS;
	struct pollfd fds[] = { { .fd = worker_event_fd(near_worker), .events = POLLIN },
		{ .fd = worker_event_fd(far_worker), .events = POLLIN } };

	while (!*done) {
		struct worker_event ev;

		assert_true(now_ms() < end);
		while (worker_event(near_worker, &ev))
			source_event(e, &ev);
		while (worker_event(far_worker, &ev))
			sink_event(e, &ev);
		if (!*done && !worker_event_arm(near_worker) && !worker_event_arm(far_worker))
			poll(fds, 2, 1000);
	}
}

static struct tx_transfer *make_transfer(struct ends *e)
{
	struct manifest_entry entries[OBJECTS] = { 0 };
	static const char *const keys[OBJECTS] = { "one", "two", "three" };
	struct tx_params params = { .order = 1,
		.class_ = STRAIT_CLASS_NORMAL,
		.symbol_bytes = STRAIT_SYMBOL_BYTES_IPV4,
		.objects = OBJECTS,
		.entries = entries };

	for (int i = 0; i < OBJECTS; i++) {
		e->from[i] = malloc(OBJECT_BYTES);
		e->to[i] = calloc(1, OBJECT_BYTES);
		for (size_t n = 0; n < OBJECT_BYTES; n++)
			e->from[i][n] = (uint8_t)(n * 2654435761u >> 13 ^ (size_t)i);
		entries[i].key = (const uint8_t *)keys[i];
		entries[i].key_len = (uint16_t)strlen(keys[i]);
		entries[i].length = OBJECT_BYTES;
		entries[i].flags = STRAIT_MANIFEST_DIGEST;
		entries[i].digest = digest_bytes(e->from[i], OBJECT_BYTES);
	}
	return tx_transfer_create(&params);
}

static void transfer_arrives_through_two_workers(void **state)
{
	struct ends e = { 0 };
	struct session_stats stats;
	struct worker_command c = { 0 };

	(void)state;
	e.source = open_session(true, 0, 1000000000);
	e.sink = open_session(false, 0, 1000000000);
	add_session(near_worker, e.source, 0x1111, FAR_IP);
	add_session(far_worker, e.sink, 0x2222, NEAR_IP);
	serve_until(&e, &e.source_up);

	e.tx = make_transfer(&e);
	assert_non_null(e.tx);
	c = (struct worker_command){ .type = WORKER_TX_START, .session = e.source, .tx = e.tx };
	tell(near_worker, c);
	serve_until(&e, &e.tx_closed);
	assert_int_equal(e.committed, OBJECTS);
	for (int i = 0; i < OBJECTS; i++)
		assert_memory_equal(e.from[i], e.to[i], OBJECT_BYTES);
	serve_until(&e, &e.rx_closed);
	tx_transfer_destroy(e.tx);

	assert_true(worker_session_stats(near_worker, e.source, &stats));
	assert_true(stats.counters[STRAIT_C_tx_source] > 0);

	/* Void: that transfer was given back. Nothing may look at it. */
	c.type = WORKER_TX_CANCEL;
	tell(near_worker, c);
	c.type = WORKER_SESSION_DEL;
	tell(near_worker, c);
	c.session = e.sink;
	tell(far_worker, c);
	serve_until(&e, &e.source_gone);
	serve_until(&e, &e.sink_gone);
	assert_false(worker_session_stats(near_worker, e.source, &stats));
	session_destroy(e.source);
	session_destroy(e.sink);
	for (int i = 0; i < OBJECTS; i++) {
		free(e.from[i]);
		free(e.to[i]);
	}
}

static void deleted_session_gives_its_transfers_back(void **state)
{
	struct ends e = { 0 };
	struct worker_command c;

	(void)state;
	e.source = open_session(true, 0, 1000000000);
	/* Nobody answers there. */
	add_session(near_worker, e.source, 0x1111, FAR_IP + 50);
	e.tx = make_transfer(&e);
	c = (struct worker_command){ .type = WORKER_TX_START, .session = e.source, .tx = e.tx };
	tell(near_worker, c);
	c.type = WORKER_SESSION_DEL;
	c.status = STRAIT_STATUS_RESET;
	tell(near_worker, c);
	/* Behind the end of its session: it comes straight back. */
	c.type = WORKER_TX_START;
	tell(near_worker, c);
	serve_until(&e, &e.source_gone);
	assert_true(e.tx_closed);
	assert_int_equal(e.rejected, 1);
	tx_transfer_destroy(e.tx);
	session_destroy(e.source);
	for (int i = 0; i < OBJECTS; i++) {
		free(e.from[i]);
		free(e.to[i]);
	}
}

static void taken_id_is_refused(void **state)
{
	struct ends e = { 0 };
	struct session *other;
	struct worker_event ev;
	uint64_t end = now_ms() + PATIENCE_MS;

	(void)state;
	e.source = open_session(true, 0, 1000000000);
	other = open_session(true, 0, 1000000000);
	add_session(near_worker, e.source, 0x1111, FAR_IP);
	add_session(near_worker, other, 0x1111, FAR_IP);
	while (!worker_event(near_worker, &ev))
		assert_true(now_ms() < end);
	assert_int_equal(ev.type, WORKER_EVENT_SESSION_GONE);
	assert_ptr_equal(ev.session, other);
	tell(near_worker,
		(struct worker_command){ .type = WORKER_SESSION_DEL, .session = e.source });
	serve_until(&e, &e.source_gone);
	session_destroy(e.source);
	session_destroy(other);
}

/* A worker that has not looked yet: the command waits in its ring, the packet at its port. */
static int open_waiting(void **state)
{
	struct worker_config cfg = { 0 };

	(void)state;
	rounds++;
	near_port = wire_open("server", 0, 0, 0);
	far_port = wire_open("client", 1, 0, 0);
	if (near_port == NULL || far_port == NULL)
		return -1;
	cfg.port = near_port;
	near_worker = worker_create(&cfg);
	if (near_worker == NULL)
		return -1;
	await_link(far_port);
	await_link(near_port);
	return 0;
}

static void first_packet_finds_a_session_told_of_before(void **state)
{
	uint8_t frame[2048] = { 0 };
	struct ends e = { 0 };
	size_t len = far_datagram(frame, 100, NET_PROTO_UDP);

	(void)state;
	e.sink = open_session(false, 0, 1000000000);
	add_session(near_worker, e.sink, 0x2222, FAR_IP);
	net_put32(frame + len - 100 + STRAIT_OFF_SESSION, 0x2222);
	net_put16(frame + NET_ETH_BYTES + NET_IPV4_BYTES + 6, 0); /* no checksum */
	send_frame(frame, len);
	assert_int_equal(worker_start(near_worker), 0);
	AWAIT_COUNTER(rx_packets, 1);
	assert_int_equal(COUNTER(drop_no_session), 0);
	assert_int_equal(COUNTER(drop_checksum), 0);
	tell(near_worker, (struct worker_command){ .type = WORKER_SESSION_DEL, .session = e.sink });
	while (!e.sink_gone) {
		struct worker_event ev;

		if (worker_event(near_worker, &ev) && ev.type == WORKER_EVENT_SESSION_GONE)
			e.sink_gone = true;
	}
	session_destroy(e.sink);
}

static void every_session_of_several_has_its_turn(void **state)
{
	struct session *s[3];
	unsigned int gone = 0;
	uint64_t end = now_ms() + PATIENCE_MS;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		s[i] = open_session(true, 0, 1000000000);
		add_session(near_worker, s[i], 0x1111 + i, FAR_IP);
	}
	for (int i = 2; i >= 0; i--)
		tell(near_worker,
			(struct worker_command){ .type = WORKER_SESSION_DEL, .session = s[i] });
	while (gone < 3) {
		struct worker_event ev;

		assert_true(now_ms() < end);
		gone += worker_event(near_worker, &ev) && ev.type == WORKER_EVENT_SESSION_GONE;
	}
	for (int i = 0; i < 3; i++)
		session_destroy(s[i]);
}

/* A priority is given, or refused: as who may ask for it. Seen by the worker's own thread. */
static void realtime_is_had_or_the_start_fails(void **state)
{
	const struct worker_config cfg = { .port = near_port, .realtime = 7 };
	const struct rlimit none = { 0 };
	struct sched_param p;
	struct rlimit was;
	int policy, allowed;

	(void)state;
	worker_destroy(near_worker);
	near_worker = worker_create(&cfg);
	assert_non_null(near_worker);
	assert_int_equal(getrlimit(RLIMIT_RTPRIO, &was), 0);
	allowed = worker_start(near_worker);
	if (allowed == 0) {
		assert_int_equal(pthread_getschedparam(near_worker->thread, &policy, &p), 0);
		assert_int_equal(policy, SCHED_RR);
		assert_int_equal(p.sched_priority, 7);
		worker_stop(near_worker);
	} else {
		assert_int_equal(allowed, -EPERM);
	}
	if (geteuid() != 0)
		return;
	/* Takes CAP_SYS_NICE from every thread. */
	assert_int_equal(setrlimit(RLIMIT_RTPRIO, &none), 0);
	assert_int_equal(seteuid(65534), 0);
	allowed = worker_start(near_worker);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setrlimit(RLIMIT_RTPRIO, &was), 0);
	assert_int_equal(allowed, -EPERM);
}

int main(void)
{
#define NEAR(test) cmocka_unit_test_setup_teardown(test, open_near, close_near)
#define BOTH(test) cmocka_unit_test_setup_teardown(test, open_both, close_both)
	const struct CMUnitTest tests[] = {
		NEAR(address_is_announced_when_the_link_comes_up),
		NEAR(arp_for_us_is_answered_and_for_others_not),
		NEAR(ping_of_any_size_is_answered),
		NEAR(strangers_get_silence_and_a_counter),
		NEAR(answers_are_limited),
		NEAR(realtime_is_had_or_the_start_fails),
		NEAR(lost_peer_is_found_again),
		NEAR(peers_that_vanish_in_the_handshake_do_no_harm),
		BOTH(transfer_arrives_through_two_workers),
		BOTH(deleted_session_gives_its_transfers_back),
		BOTH(taken_id_is_refused),
		BOTH(every_session_of_several_has_its_turn),
		cmocka_unit_test_setup_teardown(first_packet_finds_a_session_told_of_before,
			open_waiting, close_near),
	};

	return cmocka_run_group_tests(tests, start_eal, stop_eal);
}
