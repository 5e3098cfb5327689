/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/retry.h"

#include <strait/status.h>

uint64_t retry_at(unsigned int status, unsigned int attempts, uint64_t now_ms, uint64_t deadline_ms)
{
	unsigned int limit = RETRY_ATTEMPTS_MAX;
	uint64_t delay_ms = 1000;

	switch (status) {
	case STRAIT_STATUS_UNREACHABLE:
	case STRAIT_STATUS_RESET:
		delay_ms = 2000;
		break;
	case STRAIT_STATUS_BUSY:
		break;
	case STRAIT_STATUS_FULL:
		limit = RETRY_FULL_ATTEMPTS_MAX;
		break;
	default:
		return 0;
	}
	if (deadline_ms == 0 && attempts >= limit)
		return 0;
	for (unsigned int i = 1; i < attempts && delay_ms < RETRY_DELAY_MAX_MS; i++)
		delay_ms *= 2;
	if (delay_ms > RETRY_DELAY_MAX_MS)
		delay_ms = RETRY_DELAY_MAX_MS;
	if (deadline_ms != 0 && now_ms + delay_ms >= deadline_ms)
		return 0;
	return now_ms + delay_ms;
}
