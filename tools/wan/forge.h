/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frame parsing and forged packets. A forged packet is a copy of a passing Strait data packet
 * (IPv4 or IPv6, UDP, version 1, type DATA) that only the AEAD check can tell from a good one:
 * addresses, ports, session and a plausible packet number are kept, the UDP checksum is set to 0
 * ("not used", RFC 768), over IPv6 to what it has to be. Pure: bytes in, bytes out, randomness from
 * the caller.
 */

#include "tools/link/prng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* End of the headers that corruption spares: UDP or IP if present, else Ethernet. */
size_t wan_frame_payload(const uint8_t *frame, size_t len);

/* True for a UDP frame, not a fragment, that carries a Strait data packet. */
bool wan_frame_is_data(const uint8_t *frame, size_t len);

/*
 * Turn a data frame into a forged one in place: by turns bits of ciphertext or tag flipped, the tag
 * replaced, the header changed, the whole ciphertext made up. len is that of the IP packet's end or
 * longer (padding is left alone).
 */
void wan_frame_forge(uint8_t *frame, size_t len, struct prng *rnd);
