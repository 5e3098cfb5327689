/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/bounds.h"

#include <errno.h>

static uint32_t load_be(const uint8_t *p, int bytes)
{
	uint32_t v = 0;

	while (bytes-- > 0)
		v = v << 8 | *p++;
	return v;
}

/*
 * What follows a type byte (specification of msgpack, "Formats"): bytes of a length or count field,
 * bytes whatever that says, and values per count.
 */
struct shape {
	uint8_t count_bytes; /* of a big-endian field after the type */
	uint8_t fixed;       /* bytes that always follow it */
	uint8_t values;      /* 1 array, 2 map, 0: the field counts bytes */
};

static const struct shape shapes[32] = {
	[0xc4 - 0xc0] = { 1, 0, 0 }, /* bin */
	[0xc5 - 0xc0] = { 2, 0, 0 },
	[0xc6 - 0xc0] = { 4, 0, 0 },
	[0xc7 - 0xc0] = { 1, 1, 0 }, /* ext: a type byte, too */
	[0xc8 - 0xc0] = { 2, 1, 0 },
	[0xc9 - 0xc0] = { 4, 1, 0 },
	[0xca - 0xc0] = { 0, 4, 0 }, /* float */
	[0xcb - 0xc0] = { 0, 8, 0 },
	[0xcc - 0xc0] = { 0, 1, 0 }, /* unsigned */
	[0xcd - 0xc0] = { 0, 2, 0 },
	[0xce - 0xc0] = { 0, 4, 0 },
	[0xcf - 0xc0] = { 0, 8, 0 },
	[0xd0 - 0xc0] = { 0, 1, 0 }, /* signed */
	[0xd1 - 0xc0] = { 0, 2, 0 },
	[0xd2 - 0xc0] = { 0, 4, 0 },
	[0xd3 - 0xc0] = { 0, 8, 0 },
	[0xd4 - 0xc0] = { 0, 2, 0 }, /* fixext */
	[0xd5 - 0xc0] = { 0, 3, 0 },
	[0xd6 - 0xc0] = { 0, 5, 0 },
	[0xd7 - 0xc0] = { 0, 9, 0 },
	[0xd8 - 0xc0] = { 0, 17, 0 },
	[0xd9 - 0xc0] = { 1, 0, 0 }, /* str */
	[0xda - 0xc0] = { 2, 0, 0 },
	[0xdb - 0xc0] = { 4, 0, 0 },
	[0xdc - 0xc0] = { 2, 0, 1 }, /* array */
	[0xdd - 0xc0] = { 4, 0, 1 },
	[0xde - 0xc0] = { 2, 0, 2 }, /* map */
	[0xdf - 0xc0] = { 4, 0, 2 },
};

/* One value's head: bytes it takes and values it holds. */
static int head(const uint8_t *p, size_t len, uint64_t *bytes, uint64_t *inner)
{
	uint8_t t = *p;
	const struct shape *s;

	*bytes = 1;
	*inner = 0;
	if (t < 0x80 || t >= 0xe0)
		return 0;
	if (t < 0x90) {
		*inner = 2u * (t & 15);
		return 0;
	}
	if (t < 0xa0) {
		*inner = t & 15;
		return 0;
	}
	if (t < 0xc0) {
		*bytes += t & 31;
		return *bytes > len ? -EBADMSG : 0;
	}
	if (t == 0xc1)
		return -EBADMSG;
	s = &shapes[t - 0xc0];
	*bytes += s->count_bytes + s->fixed;
	if (*bytes > len)
		return -EBADMSG;
	if (s->values > 0)
		*inner = (uint64_t)load_be(p + 1, s->count_bytes) * s->values;
	else
		*bytes += load_be(p + 1, s->count_bytes);
	return *bytes > len ? -EBADMSG : 0;
}

int msgpack_bounds_check(const uint8_t *p, size_t len, uint32_t *values)
{
	uint64_t left[BOUNDS_DEPTH_MAX + 1], bytes, inner;
	uint32_t depth = 0, seen = 0;

	left[0] = 1;
	for (;;) {
		while (left[depth] == 0) {
			if (depth == 0) {
				if (values != NULL)
					*values = seen;
				return len == 0 ? 0 : -EBADMSG;
			}
			depth--;
		}
		if (len == 0 || head(p, len, &bytes, &inner) < 0)
			return -EBADMSG;
		if (++seen > BOUNDS_VALUES_MAX)
			return -E2BIG;
		p += bytes;
		len -= bytes;
		left[depth]--;
		if (inner == 0)
			continue;
		if (inner > len) /* a value is at least a byte */
			return -EBADMSG;
		if (depth == BOUNDS_DEPTH_MAX)
			return -E2BIG;
		left[++depth] = inner;
	}
}
