/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/ctl/ctl.h"

#include <stdint.h>

/**
 * Follow an order until it is final: a progress bar on a terminal, else a line a second; JSON
 * lines with -o json. Connects again for up to 30 s if the master goes away. CTL_OK if every
 * object is there, CTL_FAILED if not, or why it could not be followed.
 */
int watch_order(struct ctl *ctl, uint64_t id);
