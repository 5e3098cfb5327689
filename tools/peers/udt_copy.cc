/* SPDX-License-Identifier: Apache-2.0 */
#include <udt/udt.h>

#include <arpa/inet.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

/*
 * Memory to memory with UDT 4, for tools/peers/bench_peers.py.
 *
 *   udt_copy send ADDRESS PORT MIB
 *   udt_copy recv ADDRESS PORT MIB
 *
 * Buffers hold several bandwidth-delay products of 1 Gbit/s and 200 ms. The receiver prints "ready",
 * then "received BYTES" when all came, or at SIGTERM; every byte is compared with what was sent.
 */

namespace {

const size_t CHUNK = 1 << 20;
volatile sig_atomic_t stopped;
size_t received;

void on_term(int)
{
	/* UDT's receive cannot be interrupted: tell and leave from here. */
	char text[64];
	int n = snprintf(text, sizeof(text), "received %zu\n", received);

	stopped = 1;
	if (write(STDOUT_FILENO, text, (size_t)n) < 0)
		_exit(1);
	_exit(0);
}

void fill(std::vector<char> &chunk, uint64_t number)
{
	uint64_t *word = reinterpret_cast<uint64_t *>(chunk.data());

	for (size_t i = 0; i < chunk.size() / 8; i++)
		word[i] = number << 32 | i;
}

int fail(const char *what)
{
	fprintf(stderr, "udt_copy: %s: %s\n", what, UDT::getlasterror().getErrorMessage());
	return 1;
}

void tune(UDTSOCKET s)
{
	int mss = 1500, packets = 262144, bytes = 256 << 20, udp = 64 << 20;

	UDT::setsockopt(s, 0, UDT_MSS, &mss, sizeof(mss));
	UDT::setsockopt(s, 0, UDT_FC, &packets, sizeof(packets));
	UDT::setsockopt(s, 0, UDT_SNDBUF, &bytes, sizeof(bytes));
	UDT::setsockopt(s, 0, UDT_RCVBUF, &bytes, sizeof(bytes));
	UDT::setsockopt(s, 0, UDP_SNDBUF, &udp, sizeof(udp));
	UDT::setsockopt(s, 0, UDP_RCVBUF, &udp, sizeof(udp));
}

} // namespace

int main(int argc, char **argv)
{
	struct sockaddr_in at = {};
	std::vector<char> chunk(CHUNK), want(CHUNK);
	UDTSOCKET s;
	size_t total;

	if (argc != 5) {
		fprintf(stderr, "usage: udt_copy send|recv ADDRESS PORT MIB\n");
		return 2;
	}
	at.sin_family = AF_INET;
	at.sin_port = htons((uint16_t)atoi(argv[3]));
	inet_pton(AF_INET, argv[2], &at.sin_addr);
	total = (size_t)atol(argv[4]) << 20;
	UDT::startup();
	s = UDT::socket(AF_INET, SOCK_STREAM, 0);
	tune(s);
	if (std::string(argv[1]) == "send") {
		if (UDT::connect(s, (struct sockaddr *)&at, sizeof(at)) == UDT::ERROR)
			return fail("connect");
		for (size_t n = 0; n < total / CHUNK; n++) {
			fill(chunk, n);
			for (size_t at_byte = 0; at_byte < CHUNK;) {
				int sent = UDT::send(s, chunk.data() + at_byte,
					(int)(CHUNK - at_byte), 0);

				if (sent == UDT::ERROR)
					return fail("send");
				at_byte += (size_t)sent;
			}
		}
		UDT::close(s); /* lingers until all was acknowledged */
		return 0;
	}
	if (UDT::bind(s, (struct sockaddr *)&at, sizeof(at)) == UDT::ERROR ||
		UDT::listen(s, 1) == UDT::ERROR)
		return fail("listen");
	signal(SIGTERM, on_term);
	printf("ready\n");
	fflush(stdout);
	s = UDT::accept(s, nullptr, nullptr);
	if (s == UDT::INVALID_SOCK)
		return fail("accept");
	while (received < total) {
		size_t have = received % CHUNK;
		int n = UDT::recv(s, chunk.data() + have, (int)(CHUNK - have), 0);

		if (n == UDT::ERROR)
			break;
		if (have + (size_t)n == CHUNK) {
			fill(want, received / CHUNK);
			if (memcmp(chunk.data(), want.data(), CHUNK) != 0) {
				fprintf(stderr, "udt_copy: MiB %zu differs\n", received / CHUNK);
				return 1;
			}
		}
		received += (size_t)n;
	}
	printf("received %zu\n", received);
	fflush(stdout);
	_exit(0);
}
