/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/manifest.h"

#include <stdbool.h>
#include <string.h>

/* Any manifest: what decodes must be in bounds and encode to the same bytes. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t buf[STRAIT_MANIFEST_FIXED_BYTES + STRAIT_TENANT_BYTES_MAX + STRAIT_KEY_BYTES_MAX];
	const uint8_t *p = data, *end = data + size;
	struct manifest_entry e;
	uint64_t sum = 0;
	uint32_t n = 0;

	while (p < end) {
		const uint8_t *record = p;
		long written;

		if (manifest_entry_decode(&p, end, &e) != 0)
			break;
		require(p > record && p <= end);
		written = manifest_entry_encode(&e, buf, sizeof(buf));
		require(written == p - record && memcmp(buf, record, (size_t)written) == 0);
		sum += e.length;
		n++;
	}
	require((manifest_check(data, size, n, sum) == 0) == (p == end));
	require(manifest_check(data, size, n, sum + 1) != 0);
	require(manifest_check(data, size, n + 1, sum) != 0);
	return 0;
}
