/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/site/recall.h"
#include "control/site/store.h"

/*
 * The destination's last word before objects are ordered: a site master knows for certain what is
 * there and remembers, over restarts of anybody, what went lately. What it takes is remembered as
 * brought from then on. Pure.
 */

/* Of each object of an OFFER; the values of control/planner/federation.h. */
enum offer_verdict { OFFER_BRING, OFFER_HERE, OFFER_EVICTED };

/** asked: somebody here wants them, evicted or not. Returns how many were declined as evicted. */
size_t offer_judge(const struct store *s, struct recall *r, const struct digest128 *d, size_t n,
	bool asked, uint64_t now_s, uint8_t *verdicts);
