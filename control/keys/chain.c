/* SPDX-License-Identifier: Apache-2.0 */
#include "control/keys/chain.h"

#include <errno.h>
#include <stdlib.h>

enum { WAYS = 4 };

struct slot {
	uint64_t hash;
	uint32_t place; /* 0: empty */
};

struct key_chain {
	struct slot *slots;
	size_t mask; /* of groups of WAYS */
};

struct key_chain *key_chain_create(size_t slots)
{
	struct key_chain *c = calloc(1, sizeof(*c));
	size_t groups = 1;

	if (c == NULL)
		return NULL;
	while (groups * WAYS < slots && groups < (size_t)1 << 32)
		groups *= 2;
	c->mask = groups - 1;
	c->slots = calloc(groups * WAYS, sizeof(*c->slots));
	if (c->slots != NULL)
		return c;
	free(c);
	errno = ENOMEM;
	return NULL;
}

void key_chain_destroy(struct key_chain *c)
{
	if (c == NULL)
		return;
	free(c->slots);
	free(c);
}

static struct slot *group_of(const struct key_chain *c, uint64_t hash)
{
	return &c->slots[((hash ^ hash >> 31) & c->mask) * WAYS];
}

uint32_t key_chain_place(const struct key_chain *c, uint64_t hash)
{
	const struct slot *s = group_of(c, hash);

	for (int i = 0; i < WAYS; i++)
		if (s[i].place != 0 && s[i].hash == hash)
			return s[i].place;
	return 0;
}

uint32_t key_chain_add(struct key_chain *c, uint64_t hash, int has_parent, uint64_t parent)
{
	struct slot *s = group_of(c, hash), *worst = s;
	uint32_t place = 1;

	if (has_parent) {
		place = key_chain_place(c, parent);
		if (place == 0 || place == UINT32_MAX)
			return key_chain_place(c, hash);
		place++;
	}
	for (int i = 0; i < WAYS; i++) {
		if (s[i].place != 0 && s[i].hash == hash) {
			s[i].place = place;
			return place;
		}
		if (worst->place != 0 && (s[i].place == 0 || s[i].place > worst->place))
			worst = &s[i];
	}
	if (worst->place != 0 && worst->place < place)
		return 0;
	*worst = (struct slot){ hash, place };
	return place;
}
