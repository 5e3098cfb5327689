/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/packet.h"

void packet_header_encode(const struct packet_header *h, uint8_t out[STRAIT_HEADER_BYTES])
{
	packet_header_put(h, out);
}
