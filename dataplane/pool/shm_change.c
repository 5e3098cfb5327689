/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_change.h"

#include "dataplane/pool/shm_lock.h"

#include <errno.h>
#include <string.h>

static void look(const struct shm *shm, uint32_t idx, struct shm_change *out)
{
	const struct shm_entry *e = &shm->entries[idx];

	out->entry = idx;
	out->gen = e->gen;
	out->visible = e->state == SHM_VISIBLE && e->key_len > 0 && e->key_len <= STRAIT_KEY_MAX;
	out->ours = (e->flags & SHM_ENTRY_KEEP) != 0;
	out->evicted = false;
	out->len = e->len;
	out->key_len = out->visible ? e->key_len : 0;
	if (out->visible)
		memcpy(out->key, shm->cold[idx].key, out->key_len);
}

uint64_t shm_change_head(const struct shm *shm)
{
	return __atomic_load_n(&shm->hdr->change_head, __ATOMIC_ACQUIRE);
}

int shm_change_read(struct shm *shm, uint64_t *pos,
	void (*fn)(const struct shm_change *c, void *ctx), void *ctx)
{
	struct shm_change out[SHM_CHANGE_BATCH];
	uint64_t head;
	int n = 0, rc;

	/* Without the lock first: nothing new is the rule. */
	if (shm_change_head(shm) == *pos)
		return 0;
	rc = shm_lock(shm);
	if (rc != 0)
		return rc;
	head = shm->hdr->change_head;
	if (head - *pos > SHM_CHANGES) {
		shm_unlock(shm);
		return -ESTALE;
	}
	while (*pos != head && n < SHM_CHANGE_BATCH) {
		uint32_t word = shm->hdr->change[(*pos)++ % SHM_CHANGES];
		uint32_t idx = word & ~SHM_CHANGE_EVICTED;

		if (idx >= shm->geo.entry_count)
			continue; /* a damaged file */
		look(shm, idx, &out[n]);
		out[n++].evicted = (word & SHM_CHANGE_EVICTED) != 0;
	}
	shm_unlock(shm);
	for (int i = 0; i < n; i++)
		fn(&out[i], ctx);
	return n > 0 ? n : 1;
}

int shm_change_scan(struct shm *shm, uint32_t *entry,
	void (*fn)(const struct shm_change *c, void *ctx), void *ctx)
{
	struct shm_change out[SHM_CHANGE_BATCH];
	int n = 0, rc = shm_lock(shm);

	if (rc != 0)
		return rc;
	while (*entry < shm->hdr->entry_top && *entry < shm->geo.entry_count &&
		n < SHM_CHANGE_BATCH)
		look(shm, (*entry)++, &out[n++]);
	shm_unlock(shm);
	for (int i = 0; i < n; i++)
		fn(&out[i], ctx);
	return n;
}
