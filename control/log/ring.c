/* SPDX-License-Identifier: Apache-2.0 */
#include "control/log/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct chunk {
	uint64_t last_ns; /* time of its newest record */
	struct log_record records[LOG_CHUNK_RECORDS];
};

/* Chunks are aligned to seq: record s is at (s - 1) % LOG_CHUNK_RECORDS of its chunk. */
struct log {
	struct log_config cfg;
	uint64_t next;
	uint64_t first_chunk; /* number of chunks[head] */
	struct chunk **chunks;
	size_t head, count, slots; /* a circular array */
	uint64_t changed[DIGEST_BUCKETS];
};

struct log *log_create(const struct log_config *cfg)
{
	struct log *l;

	if (cfg->epoch == 0) {
		errno = EINVAL;
		return NULL;
	}
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return NULL;
	l->cfg = *cfg;
	l->next = 1;
	l->slots = cfg->max_bytes / sizeof(struct chunk) + 2;
	l->chunks = calloc(l->slots, sizeof(struct chunk *));
	if (l->chunks == NULL) {
		free(l);
		errno = ENOMEM;
		return NULL;
	}
	return l;
}

static struct chunk *chunk_at(const struct log *l, size_t i)
{
	return l->chunks[(l->head + i) % l->slots];
}

static struct chunk *drop_oldest(struct log *l)
{
	struct chunk *c = chunk_at(l, 0);

	l->head = (l->head + 1) % l->slots;
	l->first_chunk++;
	l->count--;
	return c;
}

void log_destroy(struct log *l)
{
	if (l == NULL)
		return;
	while (l->count > 0)
		free(drop_oldest(l));
	free(l->chunks);
	free(l);
}

void log_trim(struct log *l, uint64_t now_ns)
{
	while (l->count > 1 && now_ns - chunk_at(l, 0)->last_ns > l->cfg.keep_ns &&
		now_ns > chunk_at(l, 0)->last_ns)
		free(drop_oldest(l));
}

uint64_t log_append(struct log *l, const struct log_record *r, uint64_t now_ns)
{
	size_t at = (l->next - 1) % LOG_CHUNK_RECORDS;
	struct chunk *c = NULL;

	if (at == 0) {
		log_trim(l, now_ns);
		if (l->count + 1 >= l->slots)
			c = drop_oldest(l);
		if (c == NULL)
			c = malloc(sizeof(*c));
		if (c == NULL)
			return 0;
		l->chunks[(l->head + l->count++) % l->slots] = c;
	}
	c = chunk_at(l, l->count - 1);
	c->records[at] = *r;
	c->last_ns = now_ns;
	l->changed[digest_bucket(r->digest)] = l->next;
	return l->next++;
}

uint64_t log_changed(const struct log *l, uint32_t bucket)
{
	return l->changed[bucket];
}

uint64_t log_epoch(const struct log *l)
{
	return l->cfg.epoch;
}

uint64_t log_next(const struct log *l)
{
	return l->next;
}

uint64_t log_first(const struct log *l)
{
	return l->count == 0 ? l->next : l->first_chunk * LOG_CHUNK_RECORDS + 1;
}

size_t log_bytes(const struct log *l)
{
	return l->count * sizeof(struct chunk);
}

enum log_resume log_resume(const struct log *l, uint64_t epoch, uint64_t next)
{
	if (epoch != l->cfg.epoch)
		return LOG_RESUME_EPOCH;
	return next >= log_first(l) && next <= l->next ? LOG_RESUME_EVENTS : LOG_RESUME_SNAPSHOT;
}

size_t log_read(const struct log *l, uint64_t seq, struct log_record *out, size_t max)
{
	size_t n = 0;

	if (seq < log_first(l))
		return 0;
	while (n < max && seq < l->next) {
		uint64_t at = (seq - 1) % LOG_CHUNK_RECORDS;
		uint64_t take = LOG_CHUNK_RECORDS - at;
		const struct chunk *c =
			chunk_at(l, (size_t)((seq - 1) / LOG_CHUNK_RECORDS - l->first_chunk));

		take = take < l->next - seq ? take : l->next - seq;
		take = take < max - n ? take : max - n;
		memcpy(out + n, c->records + at, take * sizeof(*out));
		n += take;
		seq += take;
	}
	return n;
}
