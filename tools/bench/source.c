/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/source.h"

#include "dataplane/fec/digest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int bench_source_init(struct source *s, const uint8_t *pool, uint64_t pool_bytes,
	uint16_t symbol_bytes, uint8_t class_, bool with_digest)
{
	static const uint8_t tenant[] = "bench";

	memset(s, 0, sizeof(*s));
	s->pool = pool;
	s->objects = (uint32_t)(pool_bytes / SOURCE_OBJECT_BYTES);
	s->symbol_bytes = symbol_bytes;
	s->class_ = class_;
	s->live_most = SOURCE_LIVE;
	s->entries = calloc(s->objects, sizeof(*s->entries));
	s->keys = calloc(s->objects, SOURCE_KEY_BYTES);
	if (s->entries == NULL || s->keys == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->objects; i++) {
		struct manifest_entry *e = &s->entries[i];
		uint8_t *key = s->keys + (size_t)i * SOURCE_KEY_BYTES;

		snprintf((char *)key, SOURCE_KEY_BYTES, "object %u", i);
		e->tenant = tenant;
		e->tenant_len = sizeof(tenant) - 1;
		e->key = key;
		e->key_len = SOURCE_KEY_BYTES;
		e->length = SOURCE_OBJECT_BYTES;
		if (!with_digest)
			continue;
		e->flags = STRAIT_MANIFEST_DIGEST;
		e->digest =
			digest_bytes(pool + (size_t)i * SOURCE_OBJECT_BYTES, SOURCE_OBJECT_BYTES);
	}
	return 0;
}

void bench_source_fini(struct source *s)
{
	for (uint32_t i = 0; i < SOURCE_LIVE; i++)
		if (s->live[i] != NULL)
			tx_transfer_destroy(s->live[i]);
	free(s->entries);
	free(s->keys);
}

static int transfer_start(struct source *s, uint64_t now_ns, uint32_t i)
{
	const uint32_t n = s->objects / s->live_most;
	const struct tx_params params = {
		.order = ++s->order * SOURCE_LIVE + i,
		.class_ = s->class_,
		.deadline_ms = s->order, /* one after the other, not in turns */
		.symbol_bytes = s->symbol_bytes,
		.objects = n,
		.entries = s->entries + (size_t)i * n,
		.user = &s->ready[i],
	};

	s->live[i] = tx_transfer_create(&params);
	if (s->live[i] == NULL)
		return -errno;
	s->ready[i] = 0;
	return session_tx_start(s->session, now_ns, s->live[i]);
}

/* Object of the pool that is the first of the transfer with this counter of ready objects. */
static size_t first_of(const struct source *s, const uint32_t *ready)
{
	return (size_t)(ready - s->ready) * (s->objects / s->live_most);
}

int bench_source_poll(struct source *s, uint64_t now_ns)
{
	struct session_event ev;

	while (session_poll(s->session, &ev)) {
		uint32_t *ready = ev.tx != NULL ? tx_transfer_user(ev.tx) : NULL;

		switch (ev.type) {
		case SESSION_EVENT_TX_WANT:
			for (; *ready < ev.object; (*ready)++)
				session_tx_object_ready(s->session, ev.tx, *ready,
					s->pool +
						(first_of(s, ready) + (size_t)*ready) *
							SOURCE_OBJECT_BYTES);
			break;
		case SESSION_EVENT_TX_OBJECT:
			if (ev.status != STRAIT_STATUS_COMMITTED)
				return -EBADMSG;
			s->committed++;
			break;
		case SESSION_EVENT_TX_CLOSED:
			if (ev.status != STRAIT_STATUS_COMMITTED)
				return -EBADMSG;
			s->live[ready - s->ready] = NULL;
			tx_transfer_destroy(ev.tx);
			break;
		case SESSION_EVENT_DEAD:
			return -ETIME;
		default:
			break;
		}
	}
	for (uint32_t i = 0; i < s->live_most; i++)
		if (s->live[i] == NULL) {
			int ret = transfer_start(s, now_ns, i);

			if (ret < 0)
				return ret;
		}
	return 0;
}

void bench_source_session_config(struct session_config *c, uint16_t symbol_bytes, uint64_t rtt_ns)
{
	const struct session_credit plenty = { UINT64_C(1) << 60, UINT64_C(1) << 40 };

	memset(c, 0, sizeof(*c));
	memset(c->secret, 7, sizeof(c->secret));
	c->aead = aead_default();
	c->cap_bps = SOURCE_CAP_BPS;
	c->rtt_hint_ns = rtt_ns;
	c->symbol_bytes = symbol_bytes;
	for (int i = 0; i < STRAIT_CLASS_COUNT; i++)
		c->peer_credit[i] = c->own_credit[i] = plenty;
	c->seed = 1;
}

uint64_t bench_source_packet_ns(uint32_t symbol_bytes)
{
	uint32_t line = symbol_bytes + STRAIT_OVERHEAD_BYTES + STRAIT_LINE_OVERHEAD_BYTES;

	return (uint64_t)(line * 8e9 / SOURCE_LINE_BPS);
}
