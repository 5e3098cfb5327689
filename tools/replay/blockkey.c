/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/blockkey.h"

#include <openssl/evp.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void replay_chain_init(struct replay_chain *c)
{
	memset(c, 0, sizeof(*c));
}

int replay_chain_next(struct replay_chain *c, uint64_t trace_block_id, uint32_t position)
{
	uint8_t in[REPLAY_HASH_BYTES + 12];

	memcpy(in, c->hash, REPLAY_HASH_BYTES);
	for (int i = 0; i < 8; i++)
		in[REPLAY_HASH_BYTES + i] = (uint8_t)(trace_block_id >> (8 * (7 - i)));
	for (int i = 0; i < 4; i++)
		in[REPLAY_HASH_BYTES + 8 + i] = (uint8_t)(position >> (8 * (3 - i)));
	return EVP_Digest(in, sizeof(in), c->hash, NULL, EVP_sha256(), NULL) == 1 ? 0 : -EIO;
}

void replay_hex(const uint8_t *bytes, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
	out[2 * n] = '\0';
}

size_t replay_key_format(char key[static REPLAY_KEY_SIZE], const char *model, uint32_t rank,
	const uint8_t hash[static REPLAY_HASH_BYTES])
{
	char hex[2 * REPLAY_HASH_BYTES + 1];

	replay_hex(hash, REPLAY_HASH_BYTES, hex);
	return (size_t)snprintf(key, REPLAY_KEY_SIZE,
		"%.*s@tp_rank:%" PRIu32 "@pcp0@dcp0@pp_rank:0@group:0@%s", REPLAY_MODEL_MAX, model,
		rank, hex);
}
