/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/pool_prefault.h"

#include "dataplane/pool/shm_pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* About 1 ms: who changes the process's mappings waits so long, and more if we are preempted. */
#define CHUNK_BYTES (UINT64_C(2) << 20)

enum { NICE = 10 };

struct pool_prefault {
	struct pool *const *pools;
	uint32_t count;
	_Atomic bool stop;
	pthread_t thread;
};

static void *run(void *ctx)
{
	struct pool_prefault *p = ctx;
	int ret;

	pthread_setname_np(pthread_self(), "strait-prefault");
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread alone, on Linux */
	for (uint32_t i = 0; i < p->count; i++) {
		uint64_t at = 0;

		do {
			if (atomic_load_explicit(&p->stop, memory_order_relaxed))
				return NULL;
			ret = shm_pool_prefault(p->pools[i], &at, CHUNK_BYTES);
		} while (ret > 0);
	}
	return NULL;
}

struct pool_prefault *pool_prefault_start(struct pool *const *pools, uint32_t count)
{
	struct pool_prefault *p = calloc(1, sizeof(*p));
	sigset_t all, before;
	int ret;

	if (p == NULL)
		return NULL;
	p->pools = pools;
	p->count = count;
	/* Signals are the control thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&p->thread, NULL, run, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret != 0) {
		free(p);
		errno = ret;
		return NULL;
	}
	return p;
}

void pool_prefault_stop(struct pool_prefault *p)
{
	if (p == NULL)
		return;
	atomic_store(&p->stop, true);
	pthread_join(p->thread, NULL);
	free(p);
}
