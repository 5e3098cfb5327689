/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/record.h"

#include <errno.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are copied, not swapped");

struct wire {
	uint64_t lo, hi, set;
	uint32_t size, position;
	uint16_t tenant, member, members;
	uint8_t op, flags;
};

_Static_assert(sizeof(struct wire) == LOG_RECORD_BYTES, "no padding");

void log_record_encode(uint8_t buf[static LOG_RECORD_BYTES], const struct log_record *r)
{
	struct wire w = { r->digest.lo, r->digest.hi, r->set, r->size, r->position, r->tenant,
		r->member, r->members, r->op, r->flags };

	memcpy(buf, &w, sizeof(w));
}

int log_record_decode(const uint8_t buf[static LOG_RECORD_BYTES], struct log_record *out)
{
	struct wire w;

	memcpy(&w, buf, sizeof(w));
	if ((w.op != LOG_STORED && w.op != LOG_REMOVED) || (w.flags & ~LOG_FLAGS) != 0 ||
		w.size > LOG_SIZE_MAX)
		return -EPROTO;
	if (w.set == 0 ? w.members != 0 || w.member != 0 : w.member >= w.members)
		return -EPROTO;
	*out = (struct log_record){ { w.hi, w.lo }, w.set, w.size, w.position, w.tenant, w.member,
		w.members, w.op, w.flags };
	return 0;
}
