/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/worker_priv.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_ring_elem.h>

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
	RING_ENTRIES = 4096,
	TIMER_SLACK_NS = 1000, /* the kernel's default of 50 us would double the sleep */
};

static_assert((int)WORKERS_MAX == (int)PORT_WORKERS_MAX, "worker.h's and port.h's limit");
static_assert(sizeof(struct worker_command) % 4 == 0, "element of an rte_ring");
static_assert(sizeof(struct worker_event) % 4 == 0, "element of an rte_ring");

int worker_socket(const struct worker_config *cfg)
{
	/* Without hugepages the EAL has memory of one node only, and ANY finds it. */
	return cfg->numa > 0 && rte_eal_has_hugepages() ? cfg->numa - 1 : (int)SOCKET_ID_ANY;
}

static struct rte_ring *create_ring(const struct worker_config *cfg, const char *what,
	unsigned int element)
{
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "%s%u.%u", what, cfg->port->id, cfg->queue);
	return rte_ring_create_elem(name, element, cfg->ring_entries, worker_socket(cfg),
		RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

struct worker *worker_create(const struct worker_config *cfg)
{
	struct worker *w;
	int error;

	if (cfg->port == NULL || cfg->queue >= cfg->port->cfg.workers) {
		errno = EINVAL;
		return NULL;
	}
	if (posix_memalign((void **)&w, 64, sizeof(*w)) != 0) {
		errno = ENOMEM;
		return NULL;
	}
	memset(w, 0, sizeof(*w));
	w->cfg = *cfg;
	w->port = cfg->port;
	w->pool = cfg->port->pools[cfg->queue];
	w->has_queue = cfg->queue < cfg->port->queues;
	w->team[cfg->queue] = w;
	w->team_count = 1;
	w->slots_used = 1;
	if (w->cfg.max_sleep_us == 0)
		w->cfg.max_sleep_us = port_sleep_us(cfg->port);
	if (w->cfg.max_sleep_us > 100000)
		w->cfg.max_sleep_us = 100000;
	if (w->cfg.ring_entries == 0)
		w->cfg.ring_entries = RING_ENTRIES;
	arp_cache_init(&w->arp);
	w->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (w->event_fd < 0) {
		error = errno;
		goto err;
	}
	w->commands = create_ring(&w->cfg, "commands", sizeof(struct worker_command));
	error = rte_errno;
	if (w->commands == NULL)
		goto err;
	w->events = create_ring(&w->cfg, "events", sizeof(struct worker_event));
	error = rte_errno;
	if (w->events == NULL)
		goto err;
	return w;

err:
	worker_destroy(w);
	errno = error;
	return NULL;
}

void worker_destroy(struct worker *w)
{
	if (w == NULL)
		return;
	worker_stop(w);
	worker_team_free(w);
	rte_ring_free(w->commands);
	rte_ring_free(w->events);
	if (w->event_fd >= 0)
		close(w->event_fd);
	free(w);
}

struct starting {
	struct worker *w;
	sem_t done;
};

static int enter_thread(const struct worker_config *cfg)
{
	cpu_set_t set;
	const struct sched_param priority = { .sched_priority = (int)cfg->realtime };
	int rc;

	pthread_setname_np(pthread_self(), "strait-worker");
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
	if (cfg->pin) {
		if (cfg->cpu >= CPU_SETSIZE)
			return -EINVAL;
		CPU_ZERO(&set);
		CPU_SET(cfg->cpu, &set);
		rc = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
		if (rc != 0)
			return -rc;
	}
	if (cfg->realtime > 0) {
		rc = pthread_setschedparam(pthread_self(), SCHED_RR, &priority);
		if (rc != 0)
			return -rc;
	}
	/* Gives an lcore id, and with it a cache of packet buffers. */
	return rte_thread_register() == 0 ? 0 : -rte_errno;
}

static void *thread_main(void *arg)
{
	struct starting *s = arg;
	struct worker *w = s->w;
	int rc = enter_thread(&w->cfg);

	w->start_error = rc;
	sem_post(&s->done); /* s is gone from here on */
	if (rc != 0)
		return NULL;
	worker_loop(w);
	rte_thread_unregister();
	return NULL;
}

int worker_start(struct worker *w)
{
	struct starting s = { .w = w };
	sigset_t all, old;
	int rc;

	if (w->running)
		return -EALREADY;
	if (sem_init(&s.done, 0, 0) != 0)
		return -errno;
	atomic_store(&w->stop, false);
	/* Signals are the control thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = -pthread_create(&w->thread, NULL, thread_main, &s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0) {
		while (sem_wait(&s.done) != 0)
			;
		rc = w->start_error;
		if (rc != 0)
			pthread_join(w->thread, NULL);
		else
			w->running = true;
	}
	sem_destroy(&s.done);
	return rc;
}

void worker_stop(struct worker *w)
{
	if (!w->running)
		return;
	atomic_store(&w->stop, true);
	pthread_join(w->thread, NULL);
	w->running = false;
}

int worker_command(struct worker *w, const struct worker_command *c)
{
	int rc = rte_ring_sp_enqueue_elem(w->commands, (void *)(uintptr_t)c, sizeof(*c));

	return rc == 0 ? 0 : -EAGAIN;
}

bool worker_event(struct worker *w, struct worker_event *ev)
{
	return rte_ring_sc_dequeue_elem(w->events, ev, sizeof(*ev)) == 0;
}

int worker_event_fd(const struct worker *w)
{
	return w->event_fd;
}

bool worker_event_arm(struct worker *w)
{
	uint64_t wakeups;

	/*
	 * Empty it first: a wake-up that comes later is for the arming below. EAGAIN: there was
	 * none.
	 */
	if (read(w->event_fd, &wakeups, sizeof(wakeups)) < 0 && errno != EAGAIN)
		return true;
	atomic_store_explicit(&w->armed, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (rte_ring_empty(w->events))
		return false;
	atomic_store_explicit(&w->armed, false, memory_order_relaxed);
	return true;
}

bool worker_session_stats(struct worker *w, const struct session *session,
	struct session_stats *out)
{
	for (unsigned int i = 0; i < WORKER_SESSIONS_MAX; i++) {
		struct worker_slot *s = &w->slots[i];

		if (atomic_load_explicit(&s->session, memory_order_acquire) != session)
			continue;
		snapshot_read(&s->figures, out, sizeof(*out));
		/* The slot may have changed hands meanwhile. */
		if (atomic_load_explicit(&s->session, memory_order_relaxed) == session)
			return true;
	}
	return false;
}

void worker_capture(struct worker *w, struct capture_ring *ring)
{
	atomic_store_explicit(&w->capture, ring, memory_order_release);
}

void worker_stats(struct worker *w, struct worker_stats *out)
{
	snapshot_read(&w->published, out, sizeof(*out));
}
