/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/replay/trace.h"

#include <stdint.h>

/*
 * A seeded stand-in for a real conversation trace: every request starts with the same system
 * prompt, four in ten continue an earlier conversation (recent ones more often, with a long tail
 * as in Zipf's law), the others open a new one; input lengths are log-normal around 7,000 tokens
 * with a mean near 12,000, outputs around 340. A seed gives the same trace everywhere libm rounds
 * alike. One thread.
 */

struct replay_synth;

/** NULL + errno. */
struct replay_synth *replay_synth_create(uint64_t seed);
void replay_synth_destroy(struct replay_synth *s);

/** ids: room for REPLAY_TRACE_BLOCKS_MAX. */
void replay_synth_next(struct replay_synth *s, uint64_t *ids, struct replay_request *req);
