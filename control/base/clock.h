/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* The two clocks of the adapters. Pure layers get the time as an argument instead. Any thread. */

/** CLOCK_MONOTONIC. */
uint64_t clock_now_ns(void);
/** Unix time; may step. Only for what is shown or leaves the machine. */
uint64_t clock_unix_ms(void);
