/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/client/exist_view.h"

/*
 * The site master's memory as mapped by one strait_exist. Threads that read enter and leave, with
 * two atomic additions on a line that few others use and nothing else; they never wait. Who finds
 * that the master went takes its mapping away from those who come later, and unmaps it when those
 * who are inside have left: otherwise the memory of a master that ended stayed with its clients.
 */

enum { EXIST_STRIPES = 16, EXIST_MAPS = 4 };

struct exist_stripe {
	_Atomic uint32_t inside;
} __attribute__((aligned(64)));

/* Stays where it is until exist_maps_fini(), what it says changes. */
struct exist_map_slot {
	struct exist_stripe stripes[EXIST_STRIPES];
	struct exist_view view;
	struct digest_key key;
	bool mapped;
};

struct exist_maps {
	_Atomic(struct exist_map_slot *) now; /* NULL: none */
	struct exist_map_slot slots[EXIST_MAPS];
};

void exist_maps_init(struct exist_maps *m);
/** Nobody is inside. */
void exist_maps_fini(struct exist_maps *m);

/* Where a thread is. */
struct exist_inside {
	const struct exist_map_slot *slot;
	_Atomic uint32_t *count;
};

/** Any thread. false: there is none. Else exist_maps_leave() soon. */
bool exist_maps_enter(struct exist_maps *m, struct exist_inside *in);
void exist_maps_leave(struct exist_inside *in);

/**
 * One thread at a time: from now on this one, of descriptor fd (which stays the caller's), counts.
 * -EBUSY: threads sleep in all earlier ones; errors of index_view_open().
 */
int exist_maps_put(struct exist_maps *m, int fd, uint64_t limit, const struct digest_key *key);
/** One thread at a time: none counts. */
void exist_maps_drop(struct exist_maps *m);
