/* SPDX-License-Identifier: Apache-2.0 */
#include "control/client/exist_maps.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

enum { DRAIN_TURNS = 100 };

void exist_maps_init(struct exist_maps *m)
{
	memset(m, 0, sizeof(*m));
}

void exist_maps_fini(struct exist_maps *m)
{
	for (int i = 0; i < EXIST_MAPS; i++)
		if (m->slots[i].mapped)
			index_view_close(&m->slots[i].view.index);
	exist_maps_init(m);
}

/* Threads are dealt out over the stripes as they come. */
static unsigned int stripe_get(void)
{
	static _Atomic unsigned int dealt;
	static _Thread_local unsigned int mine;

	if (mine == 0)
		mine = 1 +
			atomic_fetch_add_explicit(&dealt, 1, memory_order_relaxed) % EXIST_STRIPES;
	return mine - 1;
}

bool exist_maps_enter(struct exist_maps *m, struct exist_inside *in)
{
	struct exist_map_slot *s = atomic_load_explicit(&m->now, memory_order_acquire);

	if (s == NULL)
		return false;
	in->slot = s;
	in->count = &s->stripes[stripe_get()].inside;
	/* Either who drops it sees us inside, or we see that it was dropped. */
	atomic_fetch_add(in->count, 1);
	if (atomic_load(&m->now) == s)
		return true;
	exist_maps_leave(in);
	return false;
}

void exist_maps_leave(struct exist_inside *in)
{
	atomic_fetch_sub_explicit(in->count, 1, memory_order_release);
}

/* Each stripe was empty once since the slot was dropped: who comes later turns at the door. */
static bool is_drained(struct exist_map_slot *s)
{
	for (int i = 0; i < EXIST_STRIPES; i++)
		for (int turn = 0; atomic_load(&s->stripes[i].inside) != 0; turn++) {
			if (turn == DRAIN_TURNS)
				return false;
			sched_yield();
		}
	return true;
}

static void sweep(struct exist_maps *m)
{
	for (int i = 0; i < EXIST_MAPS; i++) {
		struct exist_map_slot *s = &m->slots[i];

		if (s->mapped && s != m->now && is_drained(s)) {
			index_view_close(&s->view.index);
			s->mapped = false;
		}
	}
}

int exist_maps_put(struct exist_maps *m, int fd, uint64_t limit, const struct digest_key *key)
{
	struct exist_map_slot *s = NULL;
	const void *user;
	int ret;

	exist_maps_drop(m);
	for (int i = 0; i < EXIST_MAPS && s == NULL; i++)
		if (!m->slots[i].mapped)
			s = &m->slots[i];
	if (s == NULL)
		return -EBUSY;
	ret = index_view_open(fd, limit, &s->view.index, &user, sizeof(struct exist_shared));
	if (ret < 0)
		return ret;
	s->view.shared = user;
	s->key = *key;
	s->mapped = true;
	atomic_store(&m->now, s);
	return 0;
}

void exist_maps_drop(struct exist_maps *m)
{
	atomic_store(&m->now, NULL);
	sweep(m);
}
