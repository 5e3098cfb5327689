/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/crypto/aead.h"

#include <strait/wire.h>

#include <endian.h>
#include <stdbool.h>
#include <string.h>

/*
 * Key schedule: from the session secret (TLS 1.3 exporter, RFC 8446 section 7.5) to packet keys.
 *
 *   chain_0(dir, queue) = Expand-Label(session secret, "strait chain", dir || queue, 48)
 *   chain_g+1           = Expand-Label(chain_g, "strait ku", "", 48)
 *   key_g               = Expand-Label(chain_g, "strait key", "", 32)
 *   iv_g                = Expand-Label(chain_g, "strait iv", "", 12)
 *   nonce(pn)           = iv_g xor pn, g = pn >> 23, pn left-padded (RFC 9001 section 5.3)
 *
 * Expand-Label is HKDF-Expand-Label of RFC 8446 section 7.1 with SHA-384 (label prefix "tls13 "),
 * so any TLS library has it. A step of the chain costs some microseconds, once in 2^23 packets. All
 * secrets are wiped when replaced.
 */

/**
 * HKDF-Expand-Label, SHA-384. 0, -EINVAL (label > 249 or context > 255 bytes, out > 255 * 48),
 * -EIO.
 */
int key_expand_label(const uint8_t secret[STRAIT_SECRET_BYTES], const char *label,
	const uint8_t *context, size_t context_len, uint8_t *out, size_t out_len);

struct key_chain {
	uint8_t secret[STRAIT_SECRET_BYTES];
	uint64_t generation;
};

/** One usable generation. */
struct key_slot {
	uint64_t generation;
	bool valid;
	uint8_t iv[STRAIT_IV_BYTES];
	struct aead aead;
};

/** Sender side: exactly one generation. */
struct key_tx {
	struct key_chain chain;
	struct key_slot slot;
};

/** Receiver side: g-1, g, g+1 in slots[generation % 3]; chain stands at g+1. */
struct key_rx {
	struct key_chain chain;
	uint64_t generation; /* g: newest generation an authentic packet used */
	struct key_slot slots[3];
};

/** Start at generation 0. 0 or the error of the backend or of HKDF. */
int key_tx_init(struct key_tx *k, const struct aead_ops *ops,
	const uint8_t secret[STRAIT_SECRET_BYTES], uint8_t direction, uint8_t queue);
int key_rx_init(struct key_rx *k, const struct aead_ops *ops,
	const uint8_t secret[STRAIT_SECRET_BYTES], uint8_t direction, uint8_t queue);

/** Next generation. The caller makes sure that no packet number of it was used yet. */
int key_tx_advance(struct key_tx *k);

/** The slot for a packet number's generation, NULL when that generation is not held. */
static inline struct key_slot *key_rx_find(struct key_rx *k, uint64_t generation)
{
	struct key_slot *s = &k->slots[generation % 3];

	return s->valid && s->generation == generation ? s : NULL;
}

/** key_rx_used() when it was g+1. */
int key_rx_advance(struct key_rx *k, uint64_t generation);

/** An authentic packet used `generation` (held). Moves the window when it was g+1. 0 or -EIO. */
static inline int key_rx_used(struct key_rx *k, uint64_t generation)
{
	return generation == k->generation + 1 ? key_rx_advance(k, generation) : 0;
}

void key_tx_fini(struct key_tx *k);
void key_rx_fini(struct key_rx *k);

/** nonce = iv xor packet number. */
static inline void key_nonce(const uint8_t iv[STRAIT_IV_BYTES], uint64_t packet_number,
	uint8_t nonce[STRAIT_IV_BYTES])
{
	uint64_t low;

	memcpy(nonce, iv, 4);
	memcpy(&low, iv + 4, sizeof(low));
	low ^= htobe64(packet_number);
	memcpy(nonce + 4, &low, sizeof(low));
}
