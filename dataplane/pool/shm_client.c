/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_client.h"

#include "dataplane/pool/shm_index.h"
#include "dataplane/pool/shm_lru.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REAP_INTERVAL_NS 1000000000ull

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static int slot_fcntl(const struct shm *shm, uint32_t slot, int cmd, struct flock *lock)
{
	memset(lock, 0, sizeof(*lock));
	lock->l_type = F_WRLCK;
	lock->l_whence = SEEK_SET;
	lock->l_start = slot;
	lock->l_len = 1;
	return fcntl(shm->fd, cmd, lock);
}

bool shm_client_is_alive(const struct shm *shm, uint32_t slot)
{
	struct flock lock;

	if (slot >= SHM_CLIENTS || !shm->hdr->client[slot].used)
		return false;
	if (slot == shm->slot)
		return true;
	/*
	 * If the kernel cannot tell, assume the safe answer: bytes of a live reader are never
	 * reused.
	 */
	if (slot_fcntl(shm, slot, F_OFD_GETLK, &lock) != 0)
		return true;
	return lock.l_type != F_UNLCK;
}

void shm_lease_add(struct shm *shm, struct shm_entry *e)
{
	if (shm->leases[shm_entry_index(shm, e)]++ > 0)
		return;
	if (!shm_entry_is_leased(e)) {
		shm_lru_del(shm, e);
		shm->hdr->leased++;
	}
	e->lease[shm->slot / 64] |= 1ull << (shm->slot % 64);
}

/* Drop the slots' bits; the entry may go with them. */
static void lease_clear(struct shm *shm, struct shm_entry *e, const uint64_t slots[SHM_LEASE_WORDS])
{
	for (unsigned int i = 0; i < SHM_LEASE_WORDS; i++)
		e->lease[i] &= ~slots[i];
	if (shm_entry_is_leased(e))
		return;
	shm->hdr->leased--;
	if (e->state == SHM_DOOMED)
		shm_entry_drop(shm, e);
	else
		shm_lru_add(shm, e);
}

void shm_lease_del(struct shm *shm, struct shm_entry *e)
{
	uint64_t slots[SHM_LEASE_WORDS] = { 0 };
	uint32_t *leases = &shm->leases[shm_entry_index(shm, e)];

	if (*leases == 0 || --*leases > 0)
		return;
	slots[shm->slot / 64] = 1ull << (shm->slot % 64);
	lease_clear(shm, e, slots);
}

/* Give back what the clients in slots hold, dead or leaving. */
static void slots_release(struct shm *shm, const uint64_t slots[SHM_LEASE_WORDS], bool dead)
{
	struct shm_counters *counters = &shm->hdr->counters;
	uint32_t top = shm->hdr->entry_top;

	for (uint32_t idx = 0; idx < top && idx < shm->geo.entry_count; idx++) {
		struct shm_entry *e = &shm->entries[idx];
		unsigned int held = 0;

		if (e->state == SHM_FREE)
			continue;
		if (e->state == SHM_WRITING) {
			if (e->owner >= SHM_CLIENTS ||
				!((slots[e->owner / 64] >> (e->owner % 64)) & 1))
				continue;
			counters->reclaimed_writes += dead;
			if (e->flags & SHM_ENTRY_KEEP) {
				counters->partials_kept++;
				shm_entry_set_state(shm, e, SHM_PARTIAL);
				shm_lru_add(shm, e);
			} else {
				shm_entry_drop(shm, e);
			}
			continue;
		}
		for (unsigned int i = 0; i < SHM_LEASE_WORDS; i++)
			held += (unsigned int)__builtin_popcountll(e->lease[i] & slots[i]);
		if (held == 0)
			continue;
		counters->reclaimed_leases += dead ? held : 0;
		lease_clear(shm, e, slots);
	}
	/* Last: were this process killed in between, the slots would still be found dead. */
	for (uint32_t slot = 0; slot < SHM_CLIENTS; slot++) {
		if ((slots[slot / 64] >> (slot % 64)) & 1)
			__atomic_store_n(&shm->hdr->client[slot].used, 0, __ATOMIC_RELEASE);
	}
}

unsigned int shm_client_reap(struct shm *shm)
{
	uint64_t slots[SHM_LEASE_WORDS] = { 0 };
	unsigned int dead = 0;

	for (uint32_t slot = 0; slot < SHM_CLIENTS; slot++) {
		if (shm->hdr->client[slot].used && !shm_client_is_alive(shm, slot)) {
			slots[slot / 64] |= 1ull << (slot % 64);
			dead++;
		}
	}
	shm->next_reap_ns = clock_ns(CLOCK_MONOTONIC) + REAP_INTERVAL_NS;
	if (dead == 0)
		return 0;
	shm->hdr->counters.reclaimed_clients += dead;
	slots_release(shm, slots, true);
	return dead;
}

void shm_client_reap_sometimes(struct shm *shm)
{
	if (clock_ns(CLOCK_MONOTONIC) >= shm->next_reap_ns)
		shm_client_reap(shm);
}

int shm_client_join(struct shm *shm)
{
	struct flock lock;

	shm_client_reap(shm);
	for (uint32_t slot = 0; slot < SHM_CLIENTS; slot++) {
		struct shm_client *client = &shm->hdr->client[slot];

		/* The lock of a free slot may still be with a child of the client that left. */
		if (client->used || slot_fcntl(shm, slot, F_OFD_SETLK, &lock) != 0)
			continue;
		client->pid = (uint32_t)getpid();
		client->opened_ns = clock_ns(CLOCK_REALTIME);
		__atomic_store_n(&client->used, 1, __ATOMIC_RELEASE);
		shm->slot = slot;
		shm->hdr->boots++;
		return 0;
	}
	return -EUSERS;
}

void shm_client_leave(struct shm *shm)
{
	uint64_t slots[SHM_LEASE_WORDS] = { 0 };

	if (shm->slot == SHM_NONE)
		return;
	slots[shm->slot / 64] = 1ull << (shm->slot % 64);
	slots_release(shm, slots, false);
	shm->slot = SHM_NONE;
}
