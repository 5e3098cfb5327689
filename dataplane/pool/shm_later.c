/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_later.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct item {
	uint64_t handle;
	enum shm_later_type type;
};

struct shm_later {
	pthread_mutex_t lock;
	struct item *items;
	size_t count, capacity;
};

struct shm_later *shm_later_create(void)
{
	struct shm_later *later = calloc(1, sizeof(*later));

	if (later != NULL)
		pthread_mutex_init(&later->lock, NULL);
	return later;
}

void shm_later_destroy(struct shm_later *later)
{
	if (later == NULL)
		return;
	pthread_mutex_destroy(&later->lock);
	free(later->items);
	free(later);
}

int shm_later_push(struct shm_later *later, enum shm_later_type type, uint64_t handle)
{
	struct item *bigger;
	size_t capacity;
	int rc = 0;

	pthread_mutex_lock(&later->lock);
	if (later->count == later->capacity) {
		capacity = later->capacity ? later->capacity * 2 : 64;
		bigger = reallocarray(later->items, capacity, sizeof(*bigger));
		if (bigger == NULL) {
			rc = -ENOMEM;
			goto out;
		}
		later->items = bigger;
		later->capacity = capacity;
	}
	later->items[later->count] = (struct item){ .handle = handle, .type = type };
	__atomic_store_n(&later->count, later->count + 1, __ATOMIC_RELAXED);
out:
	pthread_mutex_unlock(&later->lock);
	return rc;
}

bool shm_later_pop(struct shm_later *later, enum shm_later_type *type, uint64_t *handle)
{
	bool found = false;

	if (__atomic_load_n(&later->count, __ATOMIC_RELAXED) == 0)
		return false;
	pthread_mutex_lock(&later->lock);
	if (later->count > 0) {
		__atomic_store_n(&later->count, later->count - 1, __ATOMIC_RELAXED);
		*type = later->items[later->count].type;
		*handle = later->items[later->count].handle;
		found = true;
	}
	pthread_mutex_unlock(&later->lock);
	return found;
}
