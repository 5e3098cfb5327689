/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wan/forge.h"

#include <strait/wire.h>

#include <string.h>

enum {
	ETHERNET_BYTES = 14,
	IPV4_BYTES_MIN = 20,
	IPV6_BYTES = 40,
	UDP_BYTES = 8,
	IPPROTO_UDP_ = 17,
};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static bool is_ipv6(const uint8_t *frame, size_t len)
{
	return len >= ETHERNET_BYTES + IPV6_BYTES && get16(frame + 12) == 0x86dd &&
		frame[ETHERNET_BYTES] >> 4 == 6;
}

/* Offset of the UDP header, or 0. */
static size_t udp_find(const uint8_t *frame, size_t len)
{
	size_t ip_bytes;

	if (is_ipv6(frame, len))
		return frame[ETHERNET_BYTES + 6] == IPPROTO_UDP_ &&
				len >= ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES
			? ETHERNET_BYTES + IPV6_BYTES
			: 0;
	if (len < ETHERNET_BYTES + IPV4_BYTES_MIN || get16(frame + 12) != 0x0800 ||
		frame[ETHERNET_BYTES] >> 4 != 4)
		return 0;
	ip_bytes = (size_t)(frame[ETHERNET_BYTES] & 15) * 4;
	if (ip_bytes < IPV4_BYTES_MIN || len < ETHERNET_BYTES + ip_bytes + UDP_BYTES)
		return 0;
	if (frame[ETHERNET_BYTES + 9] != IPPROTO_UDP_ ||
		(get16(frame + ETHERNET_BYTES + 6) & 0x3fff) != 0)
		return 0;
	return ETHERNET_BYTES + ip_bytes;
}

size_t wan_frame_payload(const uint8_t *frame, size_t len)
{
	size_t udp = udp_find(frame, len);
	size_t end = ETHERNET_BYTES;

	if (udp)
		return udp + UDP_BYTES;
	if (is_ipv6(frame, len))
		end += IPV6_BYTES;
	else if (len >= ETHERNET_BYTES + IPV4_BYTES_MIN && get16(frame + 12) == 0x0800)
		end += (size_t)(frame[ETHERNET_BYTES] & 15) * 4;
	return end < len ? end : len;
}

/* Bytes of the UDP payload that are really there. */
static size_t payload_bytes(const uint8_t *frame, size_t len, size_t udp)
{
	size_t bytes = get16(frame + udp + 4);

	if (bytes < UDP_BYTES || udp + bytes > len)
		return 0;
	return bytes - UDP_BYTES;
}

bool wan_frame_is_data(const uint8_t *frame, size_t len)
{
	size_t udp = udp_find(frame, len);

	return udp && payload_bytes(frame, len, udp) > STRAIT_OVERHEAD_BYTES &&
		frame[udp + UDP_BYTES] == (STRAIT_WIRE_VERSION << 4 | STRAIT_PACKET_DATA);
}

static void fill(uint8_t *p, size_t n, struct prng *rnd)
{
	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = prng_next(rnd);

		memcpy(p + i, &v, n - i < 8 ? n - i : 8);
	}
}

static void packet_number_add(uint8_t *p, uint64_t add)
{
	for (int i = 7; i >= 0 && add; i--) {
		add += p[i];
		p[i] = (uint8_t)add;
		add >>= 8;
	}
}

/* RFC 8200 section 8.1. bytes: the UDP payload's. */
static void checksum6(uint8_t *frame, size_t bytes)
{
	uint8_t *udp = frame + ETHERNET_BYTES + IPV6_BYTES;
	const uint8_t *ip = frame + ETHERNET_BYTES;
	size_t len = UDP_BYTES + bytes;
	uint64_t sum = len + IPPROTO_UDP_;
	uint16_t folded;

	memset(udp + 6, 0, 2);
	for (size_t i = 8; i < IPV6_BYTES; i += 2)
		sum += get16(ip + i);
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += get16(udp + i);
	if (len % 2)
		sum += (uint64_t)udp[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	folded = (uint16_t)~sum;
	if (folded == 0)
		folded = 0xffff;
	udp[6] = (uint8_t)(folded >> 8);
	udp[7] = (uint8_t)folded;
}

void wan_frame_forge(uint8_t *frame, size_t len, struct prng *rnd)
{
	size_t udp = udp_find(frame, len);
	size_t bytes = udp ? payload_bytes(frame, len, udp) : 0;
	uint8_t *p = frame + udp + UDP_BYTES;
	uint64_t kind = prng_below(rnd, 4);

	if (bytes <= STRAIT_OVERHEAD_BYTES)
		return;
	memset(frame + udp + 6, 0, 2);
	switch (kind) {
	case 0: {
		/* The least change there is: one bit. */
		uint64_t bit = prng_below(rnd, (bytes - STRAIT_HEADER_BYTES) * 8);

		p[STRAIT_HEADER_BYTES + bit / 8] ^= (uint8_t)(1U << (bit % 8));
		break;
	}
	case 1:
		fill(p + bytes - STRAIT_TAG_BYTES, STRAIT_TAG_BYTES, rnd);
		break;
	case 2:
		/* A fresh packet number, or the data of one slot offered as another's. */
		if (prng_chance(rnd, 0.5))
			packet_number_add(p + STRAIT_OFF_PACKET_NUMBER, 1 + prng_below(rnd, 1000));
		else
			p[STRAIT_OFF_ESI] ^= (uint8_t)(1 + prng_below(rnd, 127));
		break;
	default:
		packet_number_add(p + STRAIT_OFF_PACKET_NUMBER, 1 + prng_below(rnd, 1000));
		fill(p + STRAIT_HEADER_BYTES, bytes - STRAIT_HEADER_BYTES, rnd);
		break;
	}
	if (is_ipv6(frame, len))
		checksum6(frame, bytes);
}
