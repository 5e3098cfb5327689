/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/rx_transfer.h"

#include "dataplane/fec/digest.h"
#include "dataplane/transport/rx_resume.h"

#include <errno.h>
#include <stdlib.h>

/* What the receiver's control thread does with a transfer before and after the worker has it. */

static int stream_init(struct rx_stream *s, uint64_t bytes, uint32_t symbol_bytes)
{
	int ret = partition_init(&s->part, bytes, symbol_bytes);

	if (ret < 0)
		return ret;
	s->blocks = calloc(s->part.blocks, sizeof(*s->blocks));
	if (s->blocks == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->part.blocks; i++)
		s->blocks[i].row = RX_NO_ROW;
	return 0;
}

struct rx_transfer *rx_transfer_create(const struct session_open *open, void *user)
{
	struct rx_transfer *t;
	int ret = -ENOMEM;

	if (open->objects == 0 || open->objects > STRAIT_TRANSFER_OBJECTS_MAX ||
		open->manifest_bytes == 0 || open->manifest_bytes > STRAIT_MANIFEST_BYTES_MAX ||
		open->stream_bytes > (uint64_t)open->objects * STRAIT_OBJECT_BYTES_MAX) {
		errno = EINVAL;
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (t == NULL)
		return NULL;
	t->open = *open;
	t->user = user;
	t->manifest = calloc(1, open->manifest_bytes);
	t->offsets = calloc((size_t)open->objects + 1, sizeof(*t->offsets));
	t->object = calloc(open->objects, sizeof(*t->object));
	t->manifest_at = calloc(open->objects, sizeof(*t->manifest_at));
	t->log = calloc(open->objects, sizeof(*t->log));
	t->event_queue = calloc(open->objects, sizeof(*t->event_queue));
	if (t->manifest == NULL || t->offsets == NULL || t->object == NULL ||
		t->manifest_at == NULL || t->log == NULL || t->event_queue == NULL)
		goto err;
	ret = stream_init(&t->stream[STRAIT_STREAM_OBJECTS], open->stream_bytes,
		open->symbol_bytes);
	if (ret < 0)
		goto err;
	ret = stream_init(&t->stream[STRAIT_STREAM_MANIFEST], open->manifest_bytes,
		open->symbol_bytes);
	if (ret < 0)
		goto err;
	return t;
err:
	rx_transfer_destroy(t);
	errno = -ret;
	return NULL;
}

void rx_transfer_destroy(struct rx_transfer *t)
{
	if (t == NULL)
		return;
	for (int i = 0; i < STRAIT_STREAM_COUNT; i++)
		free(t->stream[i].blocks);
	free(t->manifest);
	free(t->offsets);
	free(t->object);
	free(t->manifest_at);
	free(t->log);
	free(t->event_queue);
	free(t);
}

void *rx_transfer_user(const struct rx_transfer *t)
{
	return t->user;
}

const struct session_open *rx_transfer_open(const struct rx_transfer *t)
{
	return &t->open;
}

const uint8_t *rx_transfer_manifest(const struct rx_transfer *t, size_t *len)
{
	*len = t->open.manifest_bytes;
	return t->manifest;
}

uint32_t rx_transfer_objects(const struct rx_transfer *t)
{
	return t->open.objects;
}

int rx_transfer_entry(const struct rx_transfer *t, uint32_t object, struct manifest_entry *e)
{
	const uint8_t *p;

	if (object >= t->open.objects)
		return -EINVAL;
	p = t->manifest + t->manifest_at[object];
	return manifest_entry_decode(&p, t->manifest + t->open.manifest_bytes, e);
}

int rx_transfer_load_objects(struct rx_transfer *t)
{
	const uint8_t *p = t->manifest, *end = p + t->open.manifest_bytes;
	const struct partition *part = &t->stream[STRAIT_STREAM_OBJECTS].part;

	if (manifest_check(p, t->open.manifest_bytes, t->open.objects, t->open.stream_bytes) < 0)
		return -EPROTO;
	for (uint32_t i = 0; i < t->open.objects; i++) {
		struct rx_object *o = &t->object[i];
		struct manifest_entry e;

		t->manifest_at[i] = (uint32_t)(p - t->manifest);
		if (manifest_entry_decode(&p, end, &e) < 0)
			return -EPROTO;
		t->offsets[i + 1] = t->offsets[i] + e.length;
		o->flags = e.flags;
		o->first_block = partition_block_of(part, t->offsets[i]);
		o->blocks_left = rx_object_last_block(t, i) - o->first_block + 1;
	}
	return 0;
}

uint64_t rx_object_prepare(struct rx_transfer *t, uint32_t object, uint8_t *data, void *resume,
	bool resumed)
{
	const struct partition *part = &t->stream[STRAIT_STREAM_OBJECTS].part;
	struct rx_object *o = &t->object[object];
	uint32_t last = rx_object_last_block(t, object);
	uint64_t start = t->offsets[object], end = t->offsets[object + 1], kept = 0;
	struct rx_resume_layout layout = {
		.symbol_bytes = t->open.symbol_bytes,
		.stream_bytes = t->open.stream_bytes,
		.offset = start,
		.length = end - start,
		.digest = rx_object_digest(t, object),
	};

	o->data = data;
	o->resume = resume;
	o->digest_so_far = 0;
	o->resumed = rx_resume_open(resume, &layout, resumed);
	for (uint32_t block = o->first_block; o->resumed && block <= last; block++) {
		uint64_t at = partition_offset(part, block, 0);
		uint64_t to = partition_offset(part, block, partition_k(part, block));

		if (to > part->bytes)
			to = part->bytes;
		/*
		 * A block shared with a neighbour comes anew: the symbol on the seam needs both
		 * objects, and their have states are not tied to each other.
		 */
		if (at < start || to > end) {
			rx_resume_clear(resume, block - o->first_block);
			continue;
		}
		if (!rx_resume_has(resume, block - o->first_block))
			continue;
		o->digest_so_far ^=
			digest_shift(digest_bytes(data + (at - start), to - at), end - to);
		kept += to - at;
	}
	return kept;
}
