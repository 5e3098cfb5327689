/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/bounds.h"
#include "control/sources/kv_event.h"

#include <stdbool.h>
#include <string.h>

/* Any payload: what is handed over is in bounds, and the look before agrees with the decoder. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		__builtin_trap();
}

static uint64_t touch(const void *p, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ((const uint8_t *)p)[i];
	return sum;
}

static int event(const struct kv_event *e, void *ctx)
{
	uint64_t *sum = ctx;

	require(e->key.len <= KV_KEY_MAX && e->hash_count <= KV_HASHES_MAX);
	require(e->op == KV_CLEARED || e->key.len > 0 || e->hash_count > 0);
	*sum += touch(e->key.data, e->key.len) + touch(e->tenant.data, e->tenant.len) +
		touch(e->group.data, e->group.len) + touch(e->medium.data, e->medium.len);
	for (uint32_t i = 0; i < e->hash_count; i++)
		*sum += touch(e->hashes[i].data, e->hashes[i].len);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kv_batch b;
	uint64_t sum = 0;
	int checked = msgpack_bounds_check(data, size, NULL);
	int ret = kv_batch_decode(data, size, event, &sum, &b);

	require(checked == 0 || ret == checked);
	require(sum != 1 || size > 0);
	return 0;
}
