/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the line for tests of strait-wan: one process with two DPDK ports sends numbered,
 * time-stamped frames from each to the other and says as one line of JSON what arrived.
 *
 *   wan_peer VDEV_A VDEV_B PACKETS PPS FRAME_BYTES LINGER_MS
 *
 * PPS 0 sends as fast as the ports take frames, from A to B only. The frames look like Strait data
 * packets and end in a digest, so changed ones are told from good ones. Exit status 0 when the
 * links came up, whatever was lost: the caller judges.
 */
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEAD = 42 + 24, SEQ = HEAD, STAMP = HEAD + 8, BURST = 32, FRAME_MIN = HEAD + 16 + 8 + 40 };

#define NS_PER_SECOND 1000000000ULL

struct side {
	uint16_t port;
	uint64_t sent;
	uint64_t got;
	uint64_t bad;
	uint64_t late_order;
	uint64_t again;
	uint64_t next_seq;
	uint64_t delay_min_ns;
	uint64_t delay_max_ns;
	uint64_t delay_sum_ns;
	uint64_t first_ns;
	uint64_t last_ns;
	uint8_t *seen;
};

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

static uint64_t digest(const uint8_t *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = 0;

		memcpy(&v, p + i, n - i < 8 ? n - i : 8);
		h = (h ^ v) * 0x100000001b3ULL;
	}
	return h;
}

static void frame_fill(uint8_t *f, size_t len, uint64_t seq)
{
	static const uint8_t head[] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0 };
	uint64_t t = now();
	uint64_t h;

	memset(f, 0x5a, len);
	memset(f, 0, HEAD);
	memcpy(f, head, sizeof(head));
	f[16] = (uint8_t)((len - 14) >> 8);
	f[17] = (uint8_t)(len - 14);
	f[23] = 17;
	f[38] = (uint8_t)((len - 34) >> 8);
	f[39] = (uint8_t)(len - 34);
	f[42] = 0x11;
	memcpy(f + SEQ, &seq, 8);
	memcpy(f + STAMP, &t, 8);
	h = digest(f, len - 8);
	memcpy(f + len - 8, &h, 8);
}

static void frame_check(struct side *s, const uint8_t *f, size_t len, uint64_t packets)
{
	uint64_t seq, stamp, h, delay;
	uint64_t t = now();

	if (len < FRAME_MIN)
		return;
	memcpy(&h, f + len - 8, 8);
	if (h != digest(f, len - 8)) {
		s->bad++;
		return;
	}
	memcpy(&seq, f + SEQ, 8);
	memcpy(&stamp, f + STAMP, 8);
	delay = t - stamp;
	if (s->got++ == 0) {
		s->first_ns = t;
		s->delay_min_ns = delay;
	}
	s->last_ns = t;
	s->delay_sum_ns += delay;
	if (delay < s->delay_min_ns)
		s->delay_min_ns = delay;
	if (delay > s->delay_max_ns)
		s->delay_max_ns = delay;
	if (seq < packets) {
		s->again += s->seen[seq];
		s->seen[seq] = 1;
	}
	if (seq < s->next_seq)
		s->late_order++;
	else
		s->next_seq = seq + 1;
}

static void receive(struct side *s, uint64_t packets)
{
	struct rte_mbuf *m[BURST];
	uint16_t n = rte_eth_rx_burst(s->port, 0, m, BURST);

	for (uint16_t i = 0; i < n; i++)
		frame_check(s, rte_pktmbuf_mtod(m[i], uint8_t *), m[i]->data_len, packets);
	rte_pktmbuf_free_bulk(m, n);
}

static void send_some(struct side *s, struct rte_mempool *pool, size_t bytes, uint64_t until)
{
	struct rte_mbuf *m[BURST];
	uint16_t n = 0;
	uint16_t sent;

	while (n < BURST && s->sent + n < until) {
		uint8_t *f;

		m[n] = rte_pktmbuf_alloc(pool);
		if (!m[n])
			break;
		f = (uint8_t *)rte_pktmbuf_append(m[n], (uint16_t)bytes);
		if (f)
			frame_fill(f, bytes, s->sent + n);
		n++;
	}
	sent = rte_eth_tx_burst(s->port, 0, m, n);
	s->sent += sent;
	rte_pktmbuf_free_bulk(m + sent, n - sent);
}

static int port_up(uint16_t port, struct rte_mempool *pool)
{
	struct rte_eth_conf conf = { 0 };

	if (rte_eth_dev_configure(port, 1, 1, &conf) < 0 ||
		rte_eth_rx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL, pool) < 0 ||
		rte_eth_tx_queue_setup(port, 0, 1024, SOCKET_ID_ANY, NULL) < 0)
		return -1;
	return rte_eth_dev_start(port);
}

static int links_wait(const struct side *s)
{
	uint64_t end = now() + 10 * NS_PER_SECOND;
	struct timespec t = { .tv_nsec = 10000000 };

	while (now() < end) {
		struct rte_eth_link a, b;

		if (rte_eth_link_get_nowait(s[0].port, &a) == 0 &&
			rte_eth_link_get_nowait(s[1].port, &b) == 0 && a.link_status &&
			b.link_status)
			return 0;
		nanosleep(&t, NULL);
	}
	return -1;
}

static void report(const struct side *from, const struct side *to, const char *name)
{
	double mean = to->got ? (double)to->delay_sum_ns / (double)to->got / 1000 : 0;
	double span = (double)(to->last_ns - to->first_ns) * 1e-9;

	printf("\"%s\": {\"sent\": %" PRIu64 ", \"got\": %" PRIu64 ", \"bad\": %" PRIu64
	       ", \"out_of_order\": %" PRIu64 ", \"again\": %" PRIu64
	       ", \"delay_min_us\": %.1f, \"delay_mean_us\": %.1f, \"delay_max_us\": %.1f"
	       ", \"pps\": %.0f}",
		name, from->sent, to->got, to->bad, to->late_order, to->again,
		(double)to->delay_min_ns / 1000, mean, (double)to->delay_max_ns / 1000,
		span > 0 ? (double)to->got / span : 0);
}

int main(int argc, char **argv)
{
	char *eal[] = { argv[0], (char *)"--no-huge", (char *)"--no-shconf", (char *)"--no-pci",
		(char *)"--no-telemetry", (char *)"-m", (char *)"64", (char *)"--lcores",
		(char *)"0@(0-1)", (char *)"--log-level=*:error", (char *)"--file-prefix=wan_peer",
		(char *)"--vdev", argv[1], (char *)"--vdev", argv[2], NULL };
	struct side s[2] = { 0 };
	struct rte_mempool *pool;
	uint64_t packets, pps, bytes, linger_ns, start, end;

	if (argc != 7) {
		fprintf(stderr,
			"usage: wan_peer VDEV_A VDEV_B PACKETS PPS FRAME_BYTES LINGER_MS\n");
		return 2;
	}
	packets = strtoull(argv[3], NULL, 10);
	pps = strtoull(argv[4], NULL, 10);
	bytes = strtoull(argv[5], NULL, 10);
	linger_ns = strtoull(argv[6], NULL, 10) * 1000000;
	if (bytes < FRAME_MIN || bytes > 1514 || packets == 0)
		return 2;
	if (rte_eal_init(15, eal) < 0)
		return 1;
	pool = rte_pktmbuf_pool_create("p", 8191, 128, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	for (int i = 0; i < 2; i++) {
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(argv[1 + i], ","), argv[1 + i]);
		s[i].seen = calloc(packets, 1);
		if (!pool || !s[i].seen || rte_eth_dev_get_port_by_name(name, &s[i].port) < 0 ||
			port_up(s[i].port, pool) < 0)
			return 1;
	}
	if (links_wait(s) < 0) {
		fprintf(stderr, "wan_peer: links stay down\n");
		return 1;
	}
	start = now();
	end = UINT64_MAX;
	for (;;) {
		uint64_t t = now();
		uint64_t due = pps ? (t - start) * pps / NS_PER_SECOND : packets;
		bool done = s[0].sent == packets && (pps == 0 || s[1].sent == packets);

		if (due > packets)
			due = packets;
		if (done && end == UINT64_MAX)
			end = t + linger_ns;
		if (t > end)
			break;
		send_some(&s[0], pool, bytes, due);
		if (pps)
			send_some(&s[1], pool, bytes, due);
		receive(&s[0], packets);
		receive(&s[1], packets);
	}
	printf("{");
	report(&s[0], &s[1], "ab");
	printf(", ");
	report(&s[1], &s[0], "ba");
	printf("}\n");
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		rte_eth_dev_stop(s[i].port);
		free(s[i].seen);
	}
	rte_eal_cleanup();
	return 0;
}
