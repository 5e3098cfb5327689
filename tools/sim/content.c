/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/content.h"

#include "dataplane/fec/digest.h"

#include <string.h>

enum { CHUNK_WORDS = 1024, CHUNK_BYTES = CHUNK_WORDS * 8 };

static inline uint64_t content_word(uint64_t seed, uint64_t i)
{
	uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static void words_fill(uint64_t seed, uint64_t first, size_t n, uint64_t *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = content_word(seed, first + i);
}

#if defined(__x86_64__)
/* The same with eight words a step: AVX512DQ multiplies 64-bit words. */
__attribute__((target("avx512f,avx512dq"), optimize("O3"))) static void words_fill_wide(
	uint64_t seed, uint64_t first, size_t n, uint64_t *out)
{
	for (size_t i = 0; i < n; i++)
		out[i] = content_word(seed, first + i);
}

static bool has_wide(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}
#else
#define words_fill_wide words_fill

static bool has_wide(void)
{
	return false;
}
#endif

static size_t chunk_fill(uint64_t seed, size_t offset, size_t len, uint64_t chunk[CHUNK_WORDS])
{
	size_t n = len - offset < CHUNK_BYTES ? len - offset : CHUNK_BYTES;

	(has_wide() ? words_fill_wide : words_fill)(seed, offset / 8, (n + 7) / 8, chunk);
	return n;
}

void content_fill(uint64_t seed, uint8_t *out, size_t len)
{
	uint64_t chunk[CHUNK_WORDS];

	for (size_t at = 0; at < len; at += CHUNK_BYTES) {
		size_t n = chunk_fill(seed, at, len, chunk);

		memcpy(out + at, chunk, n);
	}
}

bool content_is(uint64_t seed, const uint8_t *buf, size_t len)
{
	uint64_t chunk[CHUNK_WORDS];

	for (size_t at = 0; at < len; at += CHUNK_BYTES) {
		size_t n = chunk_fill(seed, at, len, chunk);

		if (memcmp(buf + at, chunk, n) != 0)
			return false;
	}
	return true;
}

uint64_t content_digest(uint64_t seed, size_t len)
{
	uint64_t chunk[CHUNK_WORDS];
	uint64_t digest = 0;

	/* Horner over the pieces: what came before moves up by the bytes of the next piece. */
	for (size_t at = 0; at < len; at += CHUNK_BYTES) {
		size_t n = chunk_fill(seed, at, len, chunk);

		digest = digest_shift(digest, n) ^ digest_bytes(chunk, n);
	}
	return digest;
}
