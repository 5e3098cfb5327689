/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/config.h"
#include "dataplane/pool/pool.h"

/*
 * Last words when a pool's mapping faults.
 *
 * A pool file that is cut while it is mapped, or whose memory its file system cannot provide,
 * makes the next access a SIGBUS, which nobody can survive: the bytes are gone. Without a handler
 * the process ends without a word; with this one it says which file it was, then ends as before.
 *
 * Threads: init before others start, fini after they ended. The handler runs on any.
 */

/** pools[i] is of cfg->pools[i]; both must stay until fini. 0 or -errno. */
int pool_fault_init(const struct edge_config *cfg, struct pool **pools);
/** Before the pools go. */
void pool_fault_fini(void);
