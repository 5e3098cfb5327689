/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"

/*
 * One event of a site's repaired log: an object became available there or went. 40 bytes on the
 * wire and in memory; the position in the log (its seq) is told by the frame around it. Pure.
 *
 * Little-endian: digest lo 64, hi 64, set 64, size 32, position 32, tenant 16, member 16,
 * members 16, op 8, flags 8.
 */

enum {
	LOG_RECORD_BYTES = 40,
	LOG_SIZE_UNKNOWN = 0, /* events of many sources name no size */
	LOG_SIZE_MAX = 64 << 20,
};

enum log_op {
	LOG_STORED = 1,
	LOG_REMOVED = 2,
};

enum log_flag {
	LOG_FLAG_OURS = 1, /* we brought it there: not to be shipped back */
	/* removed for want of room, it seems: not by a user, nor as its source began anew */
	LOG_FLAG_EVICTED = 2,
	LOG_FLAG_FIXED = 4, /* only engines have it: known to exist, not to be had from there */
	LOG_FLAGS = 7,
};

struct log_record {
	struct digest128 digest;
	uint64_t set;      /* objects usable only together; 0: it stands alone */
	uint32_t size;     /* bytes, LOG_SIZE_UNKNOWN */
	uint32_t position; /* of the set in its chain, 0: unknown */
	uint16_t tenant;
	uint16_t member, members; /* member of members in the set; 0 of 0 without one */
	uint8_t op, flags;
};

void log_record_encode(uint8_t buf[static LOG_RECORD_BYTES], const struct log_record *r);
/** -EPROTO: an op, flag, size or membership that no sender writes. *out is then undefined. */
int log_record_decode(const uint8_t buf[static LOG_RECORD_BYTES], struct log_record *out);
