/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/net_frame.h"

/*
 * ICMP echo (RFC 792, RFC 4443): a request becomes its reply in place, so no buffer is needed. It
 * goes back to the MAC it came from: no ARP, and a router that sent it will know the way.
 */

/**
 * frame was classified NET_ICMP_ECHO as p. Returns the reply's length, Ethernet padding removed;
 * never more than the request's.
 */
size_t net_icmp_reply(uint8_t *frame, const struct net_packet *p, const struct net_identity *me);
