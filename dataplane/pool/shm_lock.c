/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_lock.h"

#include "dataplane/pool/shm_recover.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define LOCK_TIMEOUT_S 5

int shm_lock_init(struct shm_header *hdr)
{
	pthread_mutexattr_t attr;
	int rc;

	rc = pthread_mutexattr_init(&attr);
	if (rc != 0)
		return -rc;
	rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (rc == 0)
		rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (rc == 0)
		rc = pthread_mutex_init(&hdr->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	return -rc;
}

static int lock(struct shm *shm, bool wait)
{
	pthread_mutex_t *mutex = &shm->hdr->lock;
	struct timespec until;
	int rc;

	if (*shm->alive == 0)
		return -ECHILD;
	rc = pthread_mutex_trylock(mutex);
	if (rc == EBUSY && wait) {
		rc = pthread_mutex_lock(mutex);
	} else if (rc == EBUSY) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += LOCK_TIMEOUT_S;
		rc = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
	}
	if (rc == EOWNERDEAD) {
		shm_recover(shm);
		shm->hdr->counters.recoveries++;
		pthread_mutex_consistent(mutex);
		rc = 0;
	}
	return -rc;
}

int shm_lock(struct shm *shm)
{
	return lock(shm, false);
}

int shm_lock_wait(struct shm *shm)
{
	return lock(shm, true);
}

void shm_unlock(struct shm *shm)
{
	pthread_mutex_unlock(&shm->hdr->lock);
}
