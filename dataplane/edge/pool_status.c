/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/pool_status.h"

#include <strait/status.h>

#include <errno.h>

uint8_t pool_lease_status(int err, uint8_t absent)
{
	switch (err) {
	case -ENOENT:
		return absent;
	case -ESTALE:
		return STRAIT_STATUS_EVICTED;
	case -EFBIG:
		return STRAIT_STATUS_TOO_LARGE;
	case -ENXIO: /* pool_check() failed, which says more in the log */
		return STRAIT_STATUS_REFUSED;
	default:
		return STRAIT_STATUS_INTERNAL;
	}
}

uint8_t pool_reserve_status(int err)
{
	switch (err) {
	case -EEXIST:
		return STRAIT_STATUS_EXISTS;
	case -ENOSPC:
		return STRAIT_STATUS_FULL;
	case -EFBIG:
		return STRAIT_STATUS_TOO_LARGE;
	case -EBUSY:
	case -ETIMEDOUT:
		return STRAIT_STATUS_BUSY;
	case -EINVAL:
	case -ENXIO: /* pool_check() failed */
		return STRAIT_STATUS_REFUSED;
	default:
		return STRAIT_STATUS_INTERNAL;
	}
}
