/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/spurious.h"

#include "dataplane/transport/bytes.h"
#include "dataplane/transport/session_pvt.h"

#include <errno.h>
#include <stdlib.h>

int spurious_start(struct spurious *p, const struct session *source)
{
	free(p->arrived);
	p->scanned = 0;
	p->arrived = calloc(((size_t)source->tx.log.mask + 64) / 64, sizeof(*p->arrived));
	return p->arrived ? 0 : -ENOMEM;
}

void spurious_fini(struct spurious *p)
{
	free(p->arrived);
	p->arrived = NULL;
}

/* The packet's place, SIZE_MAX when the log has forgotten it or it is of an earlier session. */
static size_t place(const struct session *source, const uint8_t *packet)
{
	const struct sent_packet *e =
		sentlog_find(&source->tx.log, get_be64(packet + STRAIT_OFF_PACKET_NUMBER));

	if (get_be32(packet + STRAIT_OFF_SESSION) != source->cfg.peer_session)
		return SIZE_MAX;
	return e ? (size_t)(e - source->tx.log.ring) : SIZE_MAX;
}

static bool get(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

void spurious_sent(struct spurious *p, const struct session *source, const uint8_t *packet)
{
	size_t i = place(source, packet);

	if (i != SIZE_MAX)
		p->arrived[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

void spurious_arrived(struct spurious *p, const struct session *source, const uint8_t *packet)
{
	size_t i = place(source, packet);

	if (i == SIZE_MAX || get(p->arrived, i))
		return;
	p->arrived[i / 64] |= UINT64_C(1) << (i % 64);
	p->count += get(source->tx.log.lost, i);
}

void spurious_look(struct spurious *p, const struct session *source)
{
	const struct sentlog *l = &source->tx.log;

	for (; p->scanned < l->scan; p->scanned++) {
		size_t i = p->scanned & l->mask;

		if (i % 64 == 0 && l->lost[i / 64] == 0 && l->scan - p->scanned >= 64) {
			p->scanned += 63;
			continue;
		}
		p->count += get(l->lost, i) && get(p->arrived, i);
	}
}
