/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/packet.h"

#include "dataplane/transport/bytes.h"

#include <errno.h>

void packet_header_encode(const struct packet_header *h, uint8_t out[STRAIT_HEADER_BYTES])
{
	packet_header_put(h, out);
}

int packet_header_decode(const uint8_t *packet, size_t len, struct packet_header *h)
{
	uint8_t type;

	if (len < STRAIT_OVERHEAD_BYTES)
		return -EMSGSIZE;
	type = packet[STRAIT_OFF_VERSION_TYPE] & 15;
	if (packet[STRAIT_OFF_VERSION_TYPE] >> 4 != STRAIT_WIRE_VERSION ||
		type < STRAIT_PACKET_DATA || type > STRAIT_PACKET_CONTROL)
		return -EPROTONOSUPPORT;
	h->type = type;
	h->queue = packet[STRAIT_OFF_QUEUE];
	h->flags = packet[STRAIT_OFF_FLAGS];
	h->esi = packet[STRAIT_OFF_ESI];
	h->session = get_be32(packet + STRAIT_OFF_SESSION);
	h->packet_number = get_be64(packet + STRAIT_OFF_PACKET_NUMBER);
	h->transfer = get_be32(packet + STRAIT_OFF_TRANSFER);
	h->block = get_be32(packet + STRAIT_OFF_BLOCK);
	return 0;
}
