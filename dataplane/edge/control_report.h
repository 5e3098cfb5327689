/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/strait.pb-c.h"
#include "dataplane/edge/control.h"
#include "dataplane/edge/ingest.h"
#include "dataplane/edge/order.h"
#include "dataplane/edge/peer.h"

/* The EdgeReport: figures of links, orders, worker, port and pools. Control thread only. */

struct control_report;

/** NULL + errno. */
struct control_report *control_report_create(const struct edge_config *cfg,
	const struct control_parts *parts, struct peers *peers, struct orders *orders,
	struct ingest *ingest);
void control_report_destroy(struct control_report *r);

/** Why it refuses orders, for people; "": it does not. */
void control_report_trouble(char *buf, size_t len, const struct edge_config *cfg,
	struct pool *const *pools);
/** Fill m with pointers that stay until the next call. */
void control_report_write(struct control_report *r, uint64_t now_ns, Strait__EdgeReport *m);
