/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * What a pool's refusal means for an object of an order: errors of pool.h as statuses of
 * strait/status.h. For whatever ships, takes in or copies objects. Pure; control thread.
 */

/** Of an object that pool_lease() refused with err. absent: the status of one that is not there. */
uint8_t pool_lease_status(int err, uint8_t absent);

/** Of an object for which pool_reserve() failed with err. */
uint8_t pool_reserve_status(int err);
