/* SPDX-License-Identifier: Apache-2.0 */
#include "control/rpc/framing.h"

#include <errno.h>

void frame_header_encode(uint8_t buf[static FRAME_HEADER_BYTES], const struct frame_header *h)
{
	buf[0] = (uint8_t)(h->len >> 24);
	buf[1] = (uint8_t)(h->len >> 16);
	buf[2] = (uint8_t)(h->len >> 8);
	buf[3] = (uint8_t)h->len;
	buf[4] = (uint8_t)(h->type >> 8);
	buf[5] = (uint8_t)h->type;
	buf[6] = 0;
	buf[7] = 0;
}

int frame_header_decode(const uint8_t buf[static FRAME_HEADER_BYTES], uint32_t max,
	struct frame_header *out)
{
	out->len = (uint32_t)buf[0] << 24 | (uint32_t)buf[1] << 16 | (uint32_t)buf[2] << 8 | buf[3];
	out->type = (uint16_t)(buf[4] << 8 | buf[5]);
	if (out->len > max)
		return -EMSGSIZE;
	return out->type != 0 ? 0 : -EPROTO;
}
