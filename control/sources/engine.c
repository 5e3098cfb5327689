/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/engine.h"

enum { FAILURES_MAX = 3 }; /* then we go on without a replay */

void engine_init(struct engine *e, const struct engine_config *cfg)
{
	*e = (struct engine){ .cfg = *cfg };
}

const char *engine_state_name(enum engine_state state)
{
	static const char *const names[] = { "down", "incomplete", "partial", "live" };

	return names[state];
}

static void settle(struct engine *e)
{
	e->state = e->whole ? ENGINE_LIVE : ENGINE_PARTIAL;
}

/* The view is not to be believed before a replay. */
static void suspect(struct engine *e, uint64_t now_ns)
{
	e->state = ENGINE_INCOMPLETE;
	e->failures = 0;
	e->due_ns = now_ns;
}

unsigned int engine_connected(struct engine *e, uint64_t now_ns)
{
	bool had = e->next > 0;

	if (e->connected)
		return 0;
	e->connected = true;
	e->have_live = false;
	if (e->cfg.replay) {
		suspect(e, now_ns);
		return 0;
	}
	e->whole = false;
	e->next = 0;
	e->complete_ns = now_ns;
	settle(e);
	return had ? ENGINE_CLEAR : 0;
}

void engine_disconnected(struct engine *e)
{
	e->connected = e->replaying = false;
	e->state = ENGINE_DOWN;
}

bool engine_is_waiting(const struct engine *e)
{
	return e->state == ENGINE_INCOMPLETE || e->replaying;
}

static unsigned int take(struct engine *e, uint64_t seq, uint64_t mark, uint64_t now_ns)
{
	e->next = seq + 1;
	e->mark = mark;
	e->whole = e->whole || seq == 0;
	e->complete_ns = now_ns;
	return ENGINE_APPLY;
}

/* Batches are gone for good. */
static unsigned int lose(struct engine *e, uint64_t seq, uint64_t mark, uint64_t now_ns)
{
	e->gaps++;
	e->lost += seq - e->next;
	e->whole = false;
	return ENGINE_CLEAR | take(e, seq, mark, now_ns);
}

/* Another run of the engine. */
static void anew(struct engine *e, uint64_t now_ns)
{
	e->restarts++;
	e->next = 0;
	e->whole = e->replaying = false;
	if (e->cfg.replay)
		suspect(e, now_ns);
}

unsigned int engine_batch(struct engine *e, uint64_t seq, uint64_t mark, uint64_t now_ns)
{
	bool back = e->have_live && seq <= e->live;
	unsigned int act;

	e->batches++;
	e->live = seq;
	e->have_live = true;
	if (back) {
		anew(e, now_ns);
		if (e->cfg.replay)
			return ENGINE_CLEAR; /* it comes again with the replay */
		act = ENGINE_CLEAR | take(e, seq, mark, now_ns);
	} else if (seq < e->next) {
		return 0; /* a replay brought it */
	} else if (seq == e->next || (e->next == 0 && e->state == ENGINE_PARTIAL)) {
		act = take(e, seq, mark, now_ns);
	} else if (e->cfg.replay && e->failures == 0) {
		suspect(e, now_ns);
		return 0;
	} else {
		act = lose(e, seq, mark, now_ns);
	}
	settle(e);
	return act;
}

unsigned int engine_lost(struct engine *e)
{
	e->whole = false;
	if (e->state == ENGINE_LIVE)
		e->state = ENGINE_PARTIAL;
	return ENGINE_CLEAR;
}

void engine_cleared(struct engine *e)
{
	e->whole = true;
	if (e->state == ENGINE_PARTIAL)
		e->state = ENGINE_LIVE;
}

bool engine_replay_is_due(const struct engine *e, uint64_t now_ns)
{
	return e->cfg.replay && e->connected && !e->replaying && now_ns >= e->due_ns;
}

uint64_t engine_replay_from(const struct engine *e)
{
	return e->next > 0 && (!e->all || e->whole) ? e->next - 1 : 0;
}

unsigned int engine_replay_begin(struct engine *e, uint64_t now_ns)
{
	bool again = e->all && !e->whole;

	if (again) {
		e->next = 0;
		e->state = ENGINE_INCOMPLETE;
	}
	e->all = false;
	e->replays++;
	e->replaying = e->first = true;
	e->asked_ns = now_ns;
	return again ? ENGINE_CLEAR : 0;
}

unsigned int engine_replay_batch(struct engine *e, uint64_t seq, uint64_t mark, uint64_t now_ns)
{
	bool first = e->first;

	if (!e->replaying)
		return 0;
	e->first = false;
	if (first && e->next > 0) {
		if (seq > e->next - 1) /* the one we took has left its memory */
			return lose(e, seq, mark, now_ns);
		if (mark == e->mark)
			return 0;
		anew(e, now_ns);
		return ENGINE_CLEAR | ENGINE_ABORT;
	}
	if (seq < e->next)
		return 0;
	if (first)
		e->whole = seq == 0;
	if (seq == e->next || first)
		return take(e, seq, mark, now_ns);
	return lose(e, seq, mark, now_ns);
}

unsigned int engine_replay_end(struct engine *e, uint64_t now_ns)
{
	if (!e->replaying)
		return 0;
	e->replaying = false;
	e->failures = 0;
	if (e->first && e->next > 0) { /* it has not come so far: another run */
		anew(e, now_ns);
		return ENGINE_CLEAR;
	}
	if (e->first)
		e->whole = true; /* it never said anything: it holds nothing */
	e->due_ns = now_ns + e->cfg.poll_ns;
	e->complete_ns = e->asked_ns;
	settle(e);
	return 0;
}

unsigned int engine_replay_failed(struct engine *e, uint64_t now_ns)
{
	e->replaying = false;
	e->failed++;
	e->failures++;
	e->due_ns = now_ns + e->cfg.retry_ns;
	if (e->state != ENGINE_INCOMPLETE || e->failures < FAILURES_MAX)
		return 0;
	e->next = 0;
	e->whole = false;
	e->all = true;
	e->due_ns = now_ns + e->cfg.poll_ns;
	e->complete_ns = now_ns;
	settle(e);
	return ENGINE_CLEAR;
}

void engine_tick(struct engine *e, uint64_t now_ns)
{
	/* Without a replay socket that the connection stands is all there is to say. */
	if (e->connected && !e->cfg.replay)
		e->complete_ns = now_ns;
}

bool engine_is_known(const struct engine *e)
{
	return e->state == ENGINE_LIVE || e->state == ENGINE_PARTIAL;
}

bool engine_is_complete(const struct engine *e)
{
	return e->state == ENGINE_LIVE;
}
