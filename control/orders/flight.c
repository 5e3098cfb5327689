/* SPDX-License-Identifier: Apache-2.0 */
#include "control/orders/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct flights {
	struct flight **buckets;
	size_t mask, count;
	uint64_t seed;
};

struct flights *flights_create(uint64_t seed)
{
	struct flights *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	f->mask = 1023;
	f->seed = seed;
	f->buckets = calloc(f->mask + 1, sizeof(*f->buckets));
	if (f->buckets == NULL) {
		free(f);
		return NULL;
	}
	return f;
}

void flights_destroy(struct flights *f)
{
	if (f == NULL)
		return;
	free(f->buckets);
	free(f);
}

size_t flights_count(const struct flights *f)
{
	return f->count;
}

/* FNV-1a, finished by a multiply and shift so that low bits depend on all. */
static uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h ^ len;
}

static uint64_t hash_name(const struct flights *f, const struct flight_name *n)
{
	uint64_t h = 0xcbf29ce484222325ull ^ f->seed;

	h = hash_bytes(h, n->to_site, strlen(n->to_site));
	h = hash_bytes(h, n->name, n->tenant_len);
	h = hash_bytes(h, n->name + n->tenant_len, n->key_len);
	h ^= h >> 32;
	h *= 0x9e3779b97f4a7c15ull;
	return h ^ h >> 29;
}

/* A failure to grow only makes chains longer. */
static void grow(struct flights *f)
{
	size_t mask = f->mask * 2 + 1;
	struct flight **buckets = calloc(mask + 1, sizeof(*buckets));

	if (buckets == NULL)
		return;
	for (size_t i = 0; i <= f->mask; i++) {
		struct flight *g = f->buckets[i], *next;

		for (; g != NULL; g = next) {
			next = g->next;
			g->next = buckets[g->hash & mask];
			buckets[g->hash & mask] = g;
		}
	}
	free(f->buckets);
	f->buckets = buckets;
	f->mask = mask;
}

int flights_join(struct flights *f, struct flight_member *m, const struct flight_name *n)
{
	uint64_t hash = hash_name(f, n);
	struct flight *g;

	for (g = f->buckets[hash & f->mask]; g != NULL; g = g->next)
		if (g->hash == hash && g->key_len == n->key_len && g->tenant_len == n->tenant_len &&
			strcmp(g->to_site, n->to_site) == 0 &&
			memcmp(g->name, n->name, (size_t)n->tenant_len + n->key_len) == 0)
			break;
	if (g == NULL) {
		g = malloc(sizeof(*g));
		if (g == NULL)
			return -ENOMEM;
		if (f->count++ > f->mask)
			grow(f);
		*g = (struct flight){
			.next = f->buckets[hash & f->mask],
			.hash = hash,
			.to_site = n->to_site,
			.name = n->name,
			.key_len = n->key_len,
			.tenant_len = n->tenant_len,
		};
		TAILQ_INIT(&g->members);
		f->buckets[hash & f->mask] = g;
	}
	TAILQ_INSERT_TAIL(&g->members, m, entry);
	m->flight = g;
	return 0;
}

struct flight_member *flights_leave(struct flights *f, struct flight_member *m,
	void (*naming)(const struct flight_member *m, struct flight_name *out))
{
	bool led = flight_is_leader(m);
	struct flight *g = m->flight, **link;
	struct flight_member *next;
	struct flight_name n;

	TAILQ_REMOVE(&g->members, m, entry);
	m->flight = NULL;
	next = TAILQ_FIRST(&g->members);
	if (next == NULL) {
		for (link = &f->buckets[g->hash & f->mask]; *link != g; link = &(*link)->next)
			;
		*link = g->next;
		f->count--;
		free(g);
		return NULL;
	}
	if (!led)
		return NULL;
	naming(next, &n);
	g->to_site = n.to_site;
	g->name = n.name;
	return next;
}
