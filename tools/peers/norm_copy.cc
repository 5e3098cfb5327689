/* SPDX-License-Identifier: Apache-2.0 */
#include <normApi.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

/*
 * Memory to memory with NRL's NORM (RFC 5740), for tools/peers/bench_peers.py.
 *
 *   norm_copy send ADDRESS PORT MIB RATE_MBIT RTT_MS
 *   norm_copy recv ADDRESS PORT MIB
 *
 * Unicast, NACK based, fixed rate (congestion control off). The object is cut into data objects of
 * 16 MiB. The receiver prints "ready", then "received BYTES" with each that came, and ends after the
 * last. Every object is compared with what was sent.
 */

namespace {

const size_t CHUNK = 16 << 20;
volatile sig_atomic_t stopped;

void on_term(int)
{
	stopped = 1;
}

/* Eight bytes that name the chunk and the position: a shifted or foreign block differs. */
void fill(std::vector<char> &chunk, uint32_t number)
{
	uint64_t *word = reinterpret_cast<uint64_t *>(chunk.data());

	for (size_t i = 0; i < chunk.size() / 8; i++)
		word[i] = (uint64_t)number << 32 | i;
}

int send_all(NormInstanceHandle instance, NormSessionHandle session, uint32_t chunks, double mbit,
	double rtt)
{
	std::vector<std::vector<char>> data(chunks, std::vector<char>(CHUNK));
	uint32_t next = 0;
	NormEvent event;

	NormSetCongestionControl(session, false);
	NormSetTxRate(session, mbit * 1e6);
	NormSetGrttEstimate(session, rtt);
	NormSetGroupSize(session, 2);
	NormSetBackoffFactor(session, 0.0);
	/* Short of room it waits for an event that does not come: all of it fits. */
	NormSetTxCacheBounds(session, (NormSize)CHUNK * (chunks + 1), chunks + 1, chunks + 1);
	if (!NormStartSender(session, NormGetRandomSessionId(), 256 << 20, 1400, 64, 16))
		return 1;
	NormSetTxSocketBuffer(session, 64 << 20);
	for (uint32_t i = 0; i < chunks; i++)
		fill(data[i], i);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		while (next < chunks &&
			NormDataEnqueue(session, data[next].data(), CHUNK,
				reinterpret_cast<char *>(&next), sizeof(next)) !=
				NORM_OBJECT_INVALID)
			next++;
		if (!NormGetNextEvent(instance, &event) || stopped)
			return 0; /* the caller ends us when the receiver has all */
	}
}

int recv_all(NormInstanceHandle instance, NormSessionHandle session, uint32_t chunks)
{
	std::vector<char> want(CHUNK);
	std::vector<bool> seen(chunks);
	uint32_t done = 0;
	NormEvent event;

	NormSetDefaultUnicastNack(session, true);
	NormSetRxCacheLimit(session, 4096);
	if (!NormStartReceiver(session, 1024 << 20))
		return 1;
	NormSetRxSocketBuffer(session, 64 << 20);
	printf("ready\n");
	fflush(stdout);
	while (done < chunks && !stopped && NormGetNextEvent(instance, &event)) {
		uint32_t number;

		if (event.type != NORM_RX_OBJECT_COMPLETED)
			continue;
		if (NormObjectGetInfo(event.object, reinterpret_cast<char *>(&number),
			    sizeof(number)) != sizeof(number) ||
			number >= chunks || seen[number])
			continue;
		fill(want, number);
		if ((size_t)NormObjectGetSize(event.object) != CHUNK ||
			memcmp(NormDataAccessData(event.object), want.data(), CHUNK) != 0) {
			fprintf(stderr, "norm_copy: object %u differs\n", number);
			return 1;
		}
		seen[number] = true;
		done++;
		printf("received %zu\n", (size_t)done * CHUNK);
		fflush(stdout);
	}
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	bool sending = argc > 1 && std::string(argv[1]) == "send";
	struct sigaction action = {};
	NormInstanceHandle instance;
	NormSessionHandle session;
	uint32_t chunks;
	int status;

	if (argc != (sending ? 7 : 5)) {
		fprintf(stderr, "usage: norm_copy send ADDRESS PORT MIB RATE_MBIT RTT_MS\n"
				"       norm_copy recv ADDRESS PORT MIB\n");
		return 2;
	}
	action.sa_handler = on_term;
	sigaction(SIGTERM, &action, nullptr);
	chunks = (uint32_t)(atol(argv[4]) * (1 << 20) / CHUNK);
	instance = NormCreateInstance();
	session = NormCreateSession(instance, argv[2], (UINT16)atoi(argv[3]), sending ? 1 : 2);
	if (session == NORM_SESSION_INVALID) {
		fprintf(stderr, "norm_copy: no session\n");
		return 1;
	}
	status = sending ? send_all(instance, session, chunks, atof(argv[5]), atof(argv[6]) / 1e3)
			 : recv_all(instance, session, chunks);
	_exit(status); /* tearing down gigabytes of history takes seconds */
}
