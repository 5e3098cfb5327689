/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/strait.pb-c.h"

#include <stddef.h>

/**
 * Table of the links of these edges: rate, round trip, loss, backlog, ETA. Nothing if there are
 * none.
 */
void links_print(const Strait__EdgeInfo *const *edges, size_t n);
/** Of a reported edge: what each queue of its links does, if they have several. */
void queues_print(const Strait__EdgeInfo *e);
/** ... and each worker. */
void workers_print(const Strait__EdgeInfo *e);
