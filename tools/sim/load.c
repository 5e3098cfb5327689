/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/load.h"

#include <math.h>

enum { TENANT_BYTES = 3, KEY_BYTES_LOW = 9, RND_STREAM = 3000 };

void load_init(struct load *l, const struct plan *p)
{
	*l = (struct load){ .plan = p, .left = p->total_bytes };
	prng_init(&l->rnd, p->world.seed, RND_STREAM);
}

static uint64_t object_size(const struct plan *p, struct prng *r)
{
	double low = (double)p->object_bytes;
	double high = (double)p->object_bytes_max;

	if (p->object_bytes_max <= p->object_bytes)
		return p->object_bytes;
	return (uint64_t)exp(log(low) + prng_unit(r) * (log(high) - log(low)));
}

bool load_next(struct load *l, struct world_object *o)
{
	const struct plan *p = l->plan;
	struct prng *r = &l->rnd;

	if (p->total_bytes ? l->left == 0 : l->n == p->objects)
		return false;
	l->n++;
	o->length = object_size(p, r);
	if (p->total_bytes) {
		if (o->length > l->left)
			o->length = l->left;
		l->left -= o->length;
	}
	o->key_len = p->key_len;
	if (!o->key_len)
		o->key_len = (uint16_t)(KEY_BYTES_LOW +
			prng_below(r, STRAIT_KEY_BYTES_MAX - KEY_BYTES_LOW + 1));
	if (prng_chance(r, p->gone))
		o->gone = prng_chance(r, 0.5) ? STRAIT_STATUS_EVICTED : STRAIT_STATUS_NOT_FOUND;
	if (prng_chance(r, p->refused))
		o->refuse = prng_chance(r, 0.5) ? STRAIT_STATUS_FULL : STRAIT_STATUS_TOO_LARGE;
	o->with_digest = !prng_chance(r, p->no_digest);
	o->lie = prng_chance(r, p->lie) && o->with_digest;
	return true;
}

uint32_t load_deal(const struct plan *p, uint32_t n, uint32_t i)
{
	return (uint32_t)((uint64_t)n * (i + 1) / p->transfers);
}

uint64_t load_manifest_bytes(const struct world_object *o)
{
	return STRAIT_MANIFEST_FIXED_BYTES + TENANT_BYTES + (uint64_t)o->key_len;
}
