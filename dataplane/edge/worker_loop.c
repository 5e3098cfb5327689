/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/worker_priv.h"

#include <rte_ethdev.h>
#include <rte_pause.h>

#include <time.h>
#include <unistd.h>

enum {
	HOUSEKEEPING_TURNS = 256,
	SPIN_TURNS = 4,        /* idle turns before the first sleep */
	SLEEP_LEAST_NS = 5000, /* less is over before the kernel put us to bed */
	ANNOUNCEMENTS = 3,
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts); /* vDSO: no system call */
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* The device may be plugged into something else now: tell the neighbors, and ask them again. */
static void check_link(struct worker *w)
{
	struct rte_eth_link link;
	bool up = rte_eth_link_get_nowait(w->port->id, &link) == 0 &&
		link.link_status == RTE_ETH_LINK_UP;

	if (up && !w->link_up) {
		w->announcements = w->cfg.queue == 0 ? ANNOUNCEMENTS : 0; /* one speaks for all */
		w->announce_ns = w->now_ns;
		arp_cache_recheck(&w->arp, w->now_ns);
	}
	w->link_up = up;
}

static void housekeeping(struct worker *w)
{
	w->turns = 0;
	w->housekeeping_ns = w->now_ns + WORKER_HOUSEKEEPING_NS;
	if (w->now_ns >= w->answers_ns) {
		w->answers = WORKER_ANSWERS;
		w->tells = WORKER_TELLS;
		w->answers_ns = w->now_ns + WORKER_ANSWERS_NS;
	}
	if (w->now_ns >= w->link_ns) {
		check_link(w);
		w->link_ns = w->now_ns + WORKER_LINK_NS;
	}
	worker_arp_timers(w);
	worker_events(w, true);
	if (w->now_ns >= w->stats_ns) {
		worker_publish(w);
		/* The cap of several is split by what they last said they have to send. */
		w->stats_ns =
			w->now_ns + (w->team_count > 1 ? WORKER_HOUSEKEEPING_NS : WORKER_STATS_NS);
	}
}

/*
 * Wake the control thread if it asked for it. The fence pairs with the one in worker_event_arm():
 * either it sees the event in the ring, or we see that it is armed.
 */
static void wake_control(struct worker *w)
{
	const uint64_t one = 1;

	w->events_added = false;
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&w->armed, memory_order_relaxed) ||
		!atomic_exchange_explicit(&w->armed, false, memory_order_relaxed))
		return;
	/* It cannot block: the counter would have to hold 2^64 - 2 wake-ups. */
	if (write(w->event_fd, &one, sizeof(one)) < 0)
		atomic_store_explicit(&w->armed, true, memory_order_relaxed);
}

static void idle(struct worker *w)
{
	uint64_t next, ns, slack;
	struct timespec ts = { 0 };

	if (w->cfg.poll_mode || w->idle_turns < SPIN_TURNS) {
		w->idle_turns++;
		rte_pause();
		return;
	}
	ns = (uint64_t)w->cfg.max_sleep_us * 1000;
	next = worker_tx_next(w, &slack);
	if (next > w->now_ns && next - w->now_ns < ns) {
		/* Oversleep what the pacers make up for: waking costs as much as some packets. */
		ns = next - w->now_ns > slack ? next - w->now_ns : slack;
		if (ns < SLEEP_LEAST_NS) {
			rte_pause();
			return;
		}
	}
	ts.tv_nsec = (long)ns;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	w->stats.sleeps++;
}

void worker_loop(struct worker *w)
{
	w->now_ns = clock_ns();
	housekeeping(w);
	while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
		unsigned int busy;

		w->now_ns = clock_ns();
		w->stats.loops++;
		busy = w->has_queue ? worker_rx(w) : 0;
		if (w->team_count > 1)
			busy += worker_rx_team(w) + worker_relay(w);
		busy += worker_commands(w);
		busy += worker_tx(w);
		busy += worker_events(w, false);
		if (++w->turns >= HOUSEKEEPING_TURNS || w->now_ns >= w->housekeeping_ns)
			housekeeping(w);
		if (w->events_added)
			wake_control(w);
		if (busy > 0) {
			w->stats.busy_loops++;
			w->idle_turns = 0;
		} else {
			idle(w);
		}
	}
	worker_publish(w);
	worker_drop_buffers(w);
}
