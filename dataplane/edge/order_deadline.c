/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "control/orders/feasible.h"
#include "dataplane/edge/order_private.h"

#include <inttypes.h>
#include <stdio.h>

#define MS_NS 1000000ULL

/*
 * Deadlines that cannot be kept, told at once. Before an order begins the test is what is to be
 * expected of the link (feasible.h); once it was admitted, only what is certain: a lower bound
 * of the bytes to go, over the most that the cap lets through.
 */

static bool is_running(const struct order *o)
{
	return o->state == ORDER_ACTIVE && o->end_status == STRAIT_STATUS_PENDING;
}

static void weigh(const struct order *o, struct feasible_order *out)
{
	*out = (struct feasible_order){ .id = order_number(o),
		.bytes = o->bytes_left,
		.deadline_ms = o->deadline_ms,
		.class = o->class_ };
}

void order_admit(struct order *o, uint64_t unix_ms)
{
	struct feasible_link link = { .now_ms = unix_ms,
		.rate_bps = o->link->goodput_bps,
		.latency_ms = o->link->latency_ns / MS_NS,
		.tail_bytes = o->link->tail_bytes };
	struct feasible_order weight;
	struct feasible f;
	const struct order *other;

	if (o->deadline_ms == 0 || o->bytes_left == 0 || link.rate_bps == 0)
		return;
	weigh(o, &weight);
	feasible_begin(&f, &link, &weight);
	TAILQ_FOREACH(other, &o->orders->sorted, sorted) {
		if (other == o || other->link != o->link || !is_running(other))
			continue;
		weigh(other, &weight);
		feasible_add(&f, &weight);
	}
	if (feasible_end(&f, o->refusal, sizeof(o->refusal)))
		return;
	log_info("order", "deadline cannot be met order=%" PRIu64 ": %s", o->id, o->refusal);
	order_end(o, STRAIT_STATUS_DEADLINE);
}

static void check(struct order *o, uint64_t unix_ms)
{
	struct order_link *l = o->link;
	double ms;

	l->scan_bytes += o->bytes_waiting;
	if (o->deadline_ms == 0 || l->limit_bps == 0 || o->bytes_waiting == 0 ||
		unix_ms >= o->deadline_ms)
		return;
	ms = (double)l->scan_bytes * 8000 / (double)l->limit_bps;
	if (ms <= (double)(o->deadline_ms - unix_ms))
		return;
	l->scan_bytes -= o->bytes_waiting;
	snprintf(o->refusal, sizeof(o->refusal),
		"%.1f MB that were not sent yet need %.2f s at %.1f Mbit/s, its deadline is in "
		"%.2f s",
		(double)(l->scan_bytes + o->bytes_waiting) / 1e6, ms / 1000,
		(double)l->limit_bps / 1e6, (double)(o->deadline_ms - unix_ms) / 1000);
	log_info("order", "deadline cannot be met any more order=%" PRIu64 ": %s", o->id,
		o->refusal);
	order_end(o, STRAIT_STATUS_DEADLINE);
}

void orders_check_deadlines(struct orders *os, uint64_t now_ns, uint64_t unix_ms)
{
	struct order *o;

	if (now_ns - os->checked_ns < ORDER_CHECK_MS * MS_NS)
		return;
	os->checked_ns = now_ns;
	TAILQ_FOREACH(o, &os->sorted, sorted)
		o->link->scan_bytes = 0;
	TAILQ_FOREACH(o, &os->sorted, sorted)
		if (is_running(o))
			check(o, unix_ms);
}
