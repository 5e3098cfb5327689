/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/tx_transfer.h"

#include <errno.h>
#include <stdlib.h>

/* Making and unmaking the sender's side of a transfer: control thread only. */

static int stream_init(struct tx_stream *s, uint64_t bytes, uint32_t symbol_bytes)
{
	int ret = partition_init(&s->part, bytes, symbol_bytes);

	if (ret < 0)
		return ret;
	s->blocks = calloc(s->part.blocks, sizeof(*s->blocks));
	s->queue = calloc(s->part.blocks, sizeof(*s->queue));
	return s->blocks != NULL && s->queue != NULL ? 0 : -ENOMEM;
}

static int manifest_build(struct tx_transfer *t, const struct tx_params *p)
{
	size_t total = 0, at = 0;

	for (uint32_t i = 0; i < p->objects; i++)
		total += manifest_entry_size(&p->entries[i]);
	if (total > STRAIT_MANIFEST_BYTES_MAX)
		return -E2BIG;
	t->manifest = malloc(total);
	if (t->manifest == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->objects; i++) {
		long n = manifest_entry_encode(&p->entries[i], t->manifest + at, total - at);

		if (n < 0)
			return (int)n;
		at += (size_t)n;
		t->offsets[i + 1] = t->offsets[i] + p->entries[i].length;
		if (p->entries[i].flags & STRAIT_MANIFEST_SKIP) {
			t->object[i].state = TX_OBJECT_FINAL;
			t->object[i].status = STRAIT_STATUS_SKIPPED;
			t->objects_final++;
		}
	}
	t->manifest_bytes = (uint32_t)at;
	return 0;
}

struct tx_transfer *tx_transfer_create(const struct tx_params *p)
{
	struct tx_transfer *t;
	int ret = -ENOMEM;

	if (p->objects == 0 || p->objects > STRAIT_TRANSFER_OBJECTS_MAX ||
		p->class_ >= STRAIT_CLASS_COUNT) {
		errno = EINVAL;
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (t == NULL)
		return NULL;
	t->order = p->order;
	t->flow = p->flow;
	t->deadline_ms = p->deadline_ms;
	t->objects = p->objects;
	t->symbol_bytes = p->symbol_bytes;
	t->class_ = p->class_;
	t->lan = p->lan;
	t->user = p->user;
	t->offsets = calloc((size_t)p->objects + 1, sizeof(*t->offsets));
	t->object = calloc(p->objects, sizeof(*t->object));
	t->event_queue = calloc(p->objects, sizeof(*t->event_queue));
	if (t->offsets == NULL || t->object == NULL || t->event_queue == NULL)
		goto err;
	ret = manifest_build(t, p);
	if (ret < 0)
		goto err;
	ret = stream_init(&t->stream[STRAIT_STREAM_OBJECTS], t->offsets[t->objects],
		t->symbol_bytes);
	if (ret < 0)
		goto err;
	ret = stream_init(&t->stream[STRAIT_STREAM_MANIFEST], t->manifest_bytes, t->symbol_bytes);
	if (ret < 0)
		goto err;
	return t;
err:
	tx_transfer_destroy(t);
	errno = -ret;
	return NULL;
}

void tx_transfer_destroy(struct tx_transfer *t)
{
	if (t == NULL)
		return;
	for (int i = 0; i < STRAIT_STREAM_COUNT; i++) {
		free(t->stream[i].blocks);
		free(t->stream[i].queue);
	}
	free(t->manifest);
	free(t->offsets);
	free(t->object);
	free(t->event_queue);
	free(t);
}

void *tx_transfer_user(const struct tx_transfer *t)
{
	return t->user;
}

uint32_t tx_transfer_objects(const struct tx_transfer *t)
{
	return t->objects;
}

uint64_t tx_transfer_bytes(const struct tx_transfer *t)
{
	return t->offsets[t->objects];
}
