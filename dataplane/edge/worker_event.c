/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/worker_priv.h"

static_assert(sizeof(struct session_stats) % 8 == 0 &&
		sizeof(struct session_stats) <= 8 * SNAPSHOT_WORDS_MAX,
	"session_stats fits a snapshot");
static_assert(sizeof(struct worker_stats) <= 8 * SNAPSHOT_WORDS_MAX, "worker_stats too");

bool worker_event_push(struct worker *w, const struct worker_event *ev)
{
	if (rte_ring_sp_enqueue_elem(w->events, (void *)(uintptr_t)ev, sizeof(*ev)) != 0)
		return false;
	w->events_added = true;
	return true;
}

/* After these the transfer is the control thread's, and commands for it are void. */
static void give_back(struct worker_slot *s, const struct session_event *ev)
{
	for (unsigned int i = 0; i < SESSION_TRANSFERS_MAX; i++) {
		if (ev->type == SESSION_EVENT_TX_CLOSED && ev->tx != NULL && s->tx[i] == ev->tx)
			s->tx[i] = NULL;
		if (ev->type == SESSION_EVENT_RX_CLOSED && ev->rx != NULL && s->rx[i] == ev->rx)
			s->rx[i] = NULL;
	}
}

/* true: the session has no more events. */
static bool drain(struct worker *w, struct worker_slot *s, unsigned int *budget)
{
	struct session *session = atomic_load_explicit(&s->session, memory_order_relaxed);
	struct worker_event out = { .type = WORKER_EVENT_SESSION, .session = session };

	/* Room first: an event that was polled cannot be put back. */
	while (*budget > 0 && rte_ring_free_count(w->events) > 0) {
		if (!session_poll(session, &out.ev))
			return true;
		give_back(s, &out.ev);
		worker_event_push(w, &out);
		(*budget)--;
	}
	return false;
}

unsigned int worker_events(struct worker *w, bool all)
{
	unsigned int budget = WORKER_EVENTS_PER_TURN;

	for (unsigned int i = 0; i < w->slots_used; i++) {
		struct worker_slot *s = &w->slots[i];
		struct worker_event gone = { .type = WORKER_EVENT_SESSION_GONE };

		if (s->state == WORKER_SLOT_FREE || (!all && !s->active))
			continue;
		if (!drain(w, s, &budget))
			continue;
		s->active = false;
		if (s->state == WORKER_SLOT_LIVE)
			continue;
		gone.session = atomic_load_explicit(&s->session, memory_order_relaxed);
		if (!worker_event_push(w, &gone)) {
			s->active = true;
			continue;
		}
		atomic_store_explicit(&s->session, NULL, memory_order_release);
		s->state = WORKER_SLOT_FREE;
	}
	return WORKER_EVENTS_PER_TURN - budget;
}

void worker_publish_session(struct worker_slot *s)
{
	struct session_stats stats;

	session_stats(atomic_load_explicit(&s->session, memory_order_relaxed), &stats);
	snapshot_write(&s->figures, &stats, sizeof(stats));
}

void worker_publish(struct worker *w)
{
	for (unsigned int i = 0; i < w->slots_used; i++) {
		if (w->slots[i].state != WORKER_SLOT_FREE)
			worker_publish_session(&w->slots[i]);
	}
	snapshot_write(&w->published, &w->stats, sizeof(w->stats));
}
