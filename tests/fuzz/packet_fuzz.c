/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/crypto/keys.h"
#include "dataplane/transport/packet.h"

#include <stdbool.h>
#include <string.h>

/*
 * Any datagram: the header decodes and encodes alike, and bytes that nobody sealed never
 * authenticate. Sealed by the harness they do, and then not after one more change.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PACKET_BYTES_MAX = 2048 };

static void require(bool condition)
{
	if (!condition)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t secret[STRAIT_SECRET_BYTES] = { 1 };
	static struct key_tx tx;
	static bool ready;
	uint8_t header[STRAIT_HEADER_BYTES], nonce[STRAIT_IV_BYTES], packet[PACKET_BYTES_MAX];
	uint8_t plain[PACKET_BYTES_MAX];
	struct packet_header h;
	size_t len;

	if (!ready) {
		require(key_tx_init(&tx, aead_default(), secret, 0, 0) == 0);
		ready = true;
	}
	if (size > PACKET_BYTES_MAX || packet_header_decode(data, size, &h) != 0)
		return 0;
	packet_header_encode(&h, header);
	require(memcmp(header, data, sizeof(header)) == 0);

	len = size - STRAIT_OVERHEAD_BYTES;
	key_nonce(tx.slot.iv, h.packet_number, nonce);
	require(aead_open(&tx.slot.aead, nonce, data, STRAIT_HEADER_BYTES,
			data + STRAIT_HEADER_BYTES, len, data + size - STRAIT_TAG_BYTES,
			plain) != 0);
	memcpy(packet, data, size);
	aead_seal(&tx.slot.aead, nonce, packet, STRAIT_HEADER_BYTES, data + STRAIT_HEADER_BYTES,
		len, packet + STRAIT_HEADER_BYTES, packet + size - STRAIT_TAG_BYTES);
	require(aead_open(&tx.slot.aead, nonce, packet, STRAIT_HEADER_BYTES,
			packet + STRAIT_HEADER_BYTES, len, packet + size - STRAIT_TAG_BYTES,
			plain) == 0);
	require(memcmp(plain, data + STRAIT_HEADER_BYTES, len) == 0);
	packet[h.packet_number % size] ^= 0x80;
	require(aead_open(&tx.slot.aead, nonce, packet, STRAIT_HEADER_BYTES,
			packet + STRAIT_HEADER_BYTES, len, packet + size - STRAIT_TAG_BYTES,
			plain) != 0);
	return 0;
}
