/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * AES-256-GCM behind a vtable, so that the packet path, the tests and hardware use one contract.
 *
 * An aead holds one key. It embeds its backend's state; aead_ipsec_mb never allocates, so a worker
 * may re-key with it (aead_openssl allocates in init). Not thread safe: one aead belongs to one
 * thread. The tag compare is constant time.
 *
 * aead_open() writes plaintext before it knows whether the tag holds (all GCM backends do). The
 * caller opens into memory that nobody reads until the call returned 0.
 */

enum { AEAD_STATE_BYTES = 4096 };

struct aead;

/** One packet of several to seal. */
struct aead_job {
	uint8_t iv[12];
	uint32_t len;
	const uint8_t *aad, *src;
	uint8_t *dst, *tag;
};

struct aead_ops {
	const char *name;
	/**
	 * Expand the 32-byte key into a->state. 0, -ENOTSUP when the CPU or library cannot,
	 * -ENOMEM.
	 */
	int (*init)(struct aead *a, const uint8_t *key);
	void (*fini)(struct aead *a);
	/** src may equal dst; dst has len bytes, tag 16. */
	void (*seal)(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
		const uint8_t *src, size_t len, uint8_t *dst, uint8_t *tag);
	/** 0, or -EBADMSG: dst then holds garbage that must not be used. */
	int (*open)(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
		const uint8_t *src, size_t len, const uint8_t *tag, uint8_t *dst);
	/**
	 * The same as seal() for each job, all with aad_len bytes of AAD. NULL where packets
	 * together are no cheaper than one by one, so that the caller can work between them.
	 */
	void (*seal_many)(struct aead *a, const struct aead_job *jobs, uint32_t n, size_t aad_len);
};

struct aead {
	const struct aead_ops *ops;
	_Alignas(64) uint8_t state[AEAD_STATE_BYTES];
};

/**
 * intel-ipsec-mb, the default of the packet path: about five times OpenSSL's EVP for one packet.
 */
extern const struct aead_ops aead_ipsec_mb;
/** OpenSSL EVP: the oracle of the tests and the fallback of CPUs that ipsec-mb does not know. */
extern const struct aead_ops aead_openssl;

/** The fastest backend that works on this machine (decided once; thread safe). */
const struct aead_ops *aead_default(void);

static inline int aead_init(struct aead *a, const struct aead_ops *ops, const uint8_t *key)
{
	a->ops = ops;
	return ops->init(a, key);
}

/** "ipsec-mb" or "openssl"; NULL: no such backend here. It may still not work on this CPU. */
const struct aead_ops *aead_by_name(const char *name);

/** Wipes the key. Safe on a zeroed aead. */
void aead_fini(struct aead *a);

static inline void aead_seal(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
	const uint8_t *src, size_t len, uint8_t *dst, uint8_t *tag)
{
	a->ops->seal(a, iv, aad, aad_len, src, len, dst, tag);
}

static inline int aead_open(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
	const uint8_t *src, size_t len, const uint8_t *tag, uint8_t *dst)
{
	return a->ops->open(a, iv, aad, aad_len, src, len, tag, dst);
}
