/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/value.h"

#include "tools/link/prng.h"

#include <openssl/evp.h>

#include <errno.h>
#include <string.h>

int replay_value_fill(const char *key, size_t key_len, uint8_t *out, size_t len)
{
	uint8_t hash[REPLAY_HASH_BYTES];
	uint64_t seed = 0, word;
	struct prng rnd;
	size_t at = 0;

	if (replay_value_hash(key, key_len, hash) < 0)
		return -EIO;
	for (int i = 0; i < 8; i++)
		seed = seed << 8 | hash[i];
	prng_init(&rnd, seed, len);
	for (; len - at >= sizeof(word); at += sizeof(word)) {
		word = prng_next(&rnd);
		memcpy(out + at, &word, sizeof(word));
	}
	word = prng_next(&rnd);
	memcpy(out + at, &word, len - at);
	return 0;
}

int replay_value_hash(const void *data, size_t len, uint8_t hash[static REPLAY_HASH_BYTES])
{
	return EVP_Digest(data, len, hash, NULL, EVP_sha256(), NULL) == 1 ? 0 : -EIO;
}
