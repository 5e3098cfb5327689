/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/wire.h>

#include <stddef.h>

/*
 * The manifest of a transfer: one record an object, in stream order (layout in wire.h). Encoding is
 * done by the sender's control thread, decoding by the receiver's: bounded, no recursion, keys and
 * tenants stay pointers into the manifest bytes.
 */
struct manifest_entry {
	uint8_t flags; /* enum strait_manifest_flags */
	const uint8_t *tenant;
	uint8_t tenant_len;
	const uint8_t *key;
	uint16_t key_len;
	uint64_t length; /* 1 .. STRAIT_OBJECT_BYTES_MAX */
	uint64_t digest;
};

/** Encoded size of an entry. */
size_t manifest_entry_size(const struct manifest_entry *e);

/**
 * Append at buf; bytes written, -ENOSPC, -EINVAL (key empty or too long, tenant too long, length
 * out of bounds).
 */
long manifest_entry_encode(const struct manifest_entry *e, uint8_t *buf, size_t cap);

/** Decode one record at *p, moves *p. 0, -EPROTO truncated or out of bounds. */
int manifest_entry_decode(const uint8_t **p, const uint8_t *end, struct manifest_entry *e);

/**
 * Check a whole manifest: exactly `objects` records filling `len` bytes whose lengths sum to
 * stream_bytes. 0 or -EPROTO.
 */
int manifest_check(const uint8_t *buf, size_t len, uint32_t objects, uint64_t stream_bytes);
