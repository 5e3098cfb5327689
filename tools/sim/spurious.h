/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Packets that the source declared lost though they arrive: the simulator knows, where the core
 * only learns it when a report still speaks of the packet. After a delay longer than the reports
 * reach back (some round trips) none does.
 *
 * Reads the log of the source's session from the inside; the index of a packet there is its place
 * here. One a session, on the thread of the world.
 */

#include "dataplane/transport/session.h"

#include <stdint.h>

struct spurious {
	uint64_t *arrived; /* bit an entry of the log */
	uint64_t scanned;  /* the log's look for losses was here */
	uint64_t count;
};

/* 0 or -ENOMEM. Counts on where an earlier session ended. */
int spurious_start(struct spurious *p, const struct session *source);
void spurious_fini(struct spurious *p);

/* The source has sent this symbol; it, or a copy, arrived intact. */
void spurious_sent(struct spurious *p, const struct session *source, const uint8_t *packet);
void spurious_arrived(struct spurious *p, const struct session *source, const uint8_t *packet);

/* The source has heard a packet or its timers have run. */
void spurious_look(struct spurious *p, const struct session *source);
