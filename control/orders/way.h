/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How objects get from one site to another. The master says it with each order; the numbers are on
 * the wire (OrderStart) and in the ledger.
 */

enum order_way {
	ORDER_WAY_NONE, /* nothing was shipped yet */
	ORDER_WAN,
	ORDER_LAN,   /* between edges near each other: nothing is sent ahead of a loss */
	ORDER_LOCAL, /* one edge has pools of both sites and copies */
	ORDER_WAY_COUNT,
};

static inline const char *order_way_name(unsigned int way)
{
	static const char *const names[ORDER_WAY_COUNT] = { "none", "wan", "lan", "local" };

	return way < ORDER_WAY_COUNT ? names[way] : "unknown";
}
