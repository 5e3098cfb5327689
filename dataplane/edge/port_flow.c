/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_priv.h"

#include <rte_flow.h>

/*
 * Flow rules: UDP port udp_port + n to queue n. A driver without rules, or with others than these,
 * refuses; the workers then hand each other what RSS spreads.
 */

static struct rte_flow *rule_add(const struct port *p, uint16_t n)
{
	const struct rte_flow_attr attr = { .ingress = 1 };
	const struct rte_flow_item_udp udp = { .hdr.dst_port = rte_cpu_to_be_16(
						       (uint16_t)(p->cfg.udp_port + n)) };
	const struct rte_flow_item_udp mask = { .hdr.dst_port = RTE_BE16(0xffff) };
	const struct rte_flow_action_queue queue = { .index = n };
	const struct rte_flow_item pattern[] = {
		{ .type = RTE_FLOW_ITEM_TYPE_ETH },
		{ .type = net_ip_is4(p->cfg.ip) ? RTE_FLOW_ITEM_TYPE_IPV4
						: RTE_FLOW_ITEM_TYPE_IPV6 },
		{ .type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &mask },
		{ .type = RTE_FLOW_ITEM_TYPE_END },
	};
	const struct rte_flow_action actions[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_error error;

	if (rte_flow_validate(p->id, &attr, pattern, actions, &error) != 0)
		return NULL;
	return rte_flow_create(p->id, &attr, pattern, actions, &error);
}

uint16_t port_flow_steer(const struct port *p)
{
	uint16_t n = 0;

	/* The device drops its rules when it is closed. */
	for (uint16_t i = 0; i < p->queues; i++)
		n += rule_add(p, i) != NULL;
	return n;
}
