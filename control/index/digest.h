/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Names of objects in the control plane: 128 bits of a keyed hash of (tenant, key). Key strings
 * stay with the site that has them; records, indexes and existence queries carry digests.
 *
 * SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, "SipHash: a fast short-input PRF";
 * the 128-bit variant of their reference code): without the tenant's secret nobody can make two
 * keys collide or tell from a digest which key it names. Pure, any thread.
 */

struct digest128 {
	uint64_t hi, lo;
};

/*
 * A tenant's secret. Equal at all sites that compare digests, told apart by its id
 * (tenant_id()).
 */
struct digest_key {
	uint8_t bytes[16];
};

enum {
	/* Of the anti-entropy sums: the digest's top 16 bits name the bucket. */
	DIGEST_BUCKETS = 65536,
	DIGEST_BUCKET_SHIFT = 48,
	DIGEST_SET_WORDS = DIGEST_BUCKETS / 64, /* of a set of buckets, a bit each */
};

/** Any bytes, also none. About 1 ns a byte for short keys. */
struct digest128 digest_of_key(const struct digest_key *k, const void *key, size_t len);

/* Laid out as strait_key is. */
struct digest_text {
	const void *data;
	size_t len;
};

/** The same of n keys, several times as fast where they are of one length. */
void digest_of_keys(const struct digest_key *k, const struct digest_text *keys, size_t n,
	struct digest128 *out);

static inline int digest_equal(struct digest128 a, struct digest128 b)
{
	return a.hi == b.hi && a.lo == b.lo;
}

static inline uint32_t digest_bucket(struct digest128 d)
{
	return (uint32_t)(d.hi >> DIGEST_BUCKET_SHIFT);
}

static inline bool digest_set_has(const uint64_t *set, uint32_t bucket)
{
	return (set[bucket / 64] >> (bucket % 64) & 1) != 0;
}

static inline void digest_set_add(uint64_t *set, uint32_t bucket)
{
	set[bucket / 64] |= UINT64_C(1) << (bucket % 64);
}
