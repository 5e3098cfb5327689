/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The 8 bytes before every control message: { length 32, type 16, reserved 16 }, big-endian.
 * Reserved is sent as 0 and ignored, so that a later version can use it. Pure.
 */

enum { FRAME_HEADER_BYTES = 8 };

struct frame_header {
	uint32_t len; /* of the message that follows */
	uint16_t type;
};

void frame_header_encode(uint8_t buf[static FRAME_HEADER_BYTES], const struct frame_header *h);

/** 0; -EMSGSIZE if the length is over max; -EPROTO for type 0, which no message has. */
int frame_header_decode(const uint8_t buf[static FRAME_HEADER_BYTES], uint32_t max,
	struct frame_header *out);
