/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_lock.h"

#include "dataplane/pool/shm_recover.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define TIMEOUT_NS         5000000000L
#define TIMEOUT_BRIEFLY_NS 100000000L
#define TIMEOUT_STUCK_NS   1000000L
#define S_NS               1000000000L

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

static int lock(struct shm *shm, long timeout_ns)
{
	pthread_mutex_t *mutex = &shm->hdr->lock;
	struct timespec until;
	int rc;

	if (*shm->alive == 0)
		return -ECHILD;
	if (shm->cut)
		return -ENXIO;
	rc = pthread_mutex_trylock(mutex);
	if (rc == EBUSY) {
		if (__atomic_load_n(&shm->stuck, __ATOMIC_RELAXED))
			timeout_ns = TIMEOUT_STUCK_NS;
		clock_gettime(CLOCK_MONOTONIC, &until);
		timeout_ns += until.tv_nsec;
		until.tv_sec += timeout_ns / S_NS;
		until.tv_nsec = timeout_ns % S_NS;
		rc = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
	}
	__atomic_store_n(&shm->stuck, rc == ETIMEDOUT, __ATOMIC_RELAXED);
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
	return lock(shm, TIMEOUT_NS);
}

int shm_lock_briefly(struct shm *shm)
{
	return lock(shm, TIMEOUT_BRIEFLY_NS);
}

void shm_unlock(struct shm *shm)
{
	pthread_mutex_unlock(&shm->hdr->lock);
}
