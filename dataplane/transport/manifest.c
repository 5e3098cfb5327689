/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/manifest.h"

#include "dataplane/transport/bytes.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_valid(const struct manifest_entry *e)
{
	return e->tenant_len <= STRAIT_TENANT_BYTES_MAX && e->key_len >= 1 &&
		e->key_len <= STRAIT_KEY_BYTES_MAX && e->length >= 1 &&
		e->length <= STRAIT_OBJECT_BYTES_MAX;
}

size_t manifest_entry_size(const struct manifest_entry *e)
{
	return (size_t)STRAIT_MANIFEST_FIXED_BYTES + e->tenant_len + e->key_len;
}

long manifest_entry_encode(const struct manifest_entry *e, uint8_t *buf, size_t cap)
{
	size_t size = manifest_entry_size(e);

	if (!is_valid(e))
		return -EINVAL;
	if (size > cap)
		return -ENOSPC;
	buf[0] = e->flags;
	buf[1] = e->tenant_len;
	put_be16(buf + 2, e->key_len);
	put_be64(buf + 4, e->length);
	put_be64(buf + 12, e->digest);
	buf += STRAIT_MANIFEST_FIXED_BYTES;
	if (e->tenant_len > 0)
		memcpy(buf, e->tenant, e->tenant_len);
	memcpy(buf + e->tenant_len, e->key, e->key_len);
	return (long)size;
}

int manifest_entry_decode(const uint8_t **p, const uint8_t *end, struct manifest_entry *e)
{
	const uint8_t *b = *p;

	if (end - b < STRAIT_MANIFEST_FIXED_BYTES)
		return -EPROTO;
	e->flags = b[0];
	e->tenant_len = b[1];
	e->key_len = get_be16(b + 2);
	e->length = get_be64(b + 4);
	e->digest = get_be64(b + 12);
	if (!is_valid(e) || (size_t)(end - b) < manifest_entry_size(e))
		return -EPROTO;
	e->tenant = b + STRAIT_MANIFEST_FIXED_BYTES;
	e->key = e->tenant + e->tenant_len;
	*p = e->key + e->key_len;
	return 0;
}

int manifest_check(const uint8_t *buf, size_t len, uint32_t objects, uint64_t stream_bytes)
{
	const uint8_t *p = buf, *end = buf + len;
	struct manifest_entry e;

	for (uint32_t i = 0; i < objects; i++) {
		if (manifest_entry_decode(&p, end, &e) != 0 || e.length > stream_bytes)
			return -EPROTO;
		stream_bytes -= e.length;
	}
	return p == end && stream_bytes == 0 ? 0 : -EPROTO;
}
