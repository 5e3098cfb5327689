/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/source.h"

/* A batch that the status has counted may be on its way for so long. */
#define IN_FLIGHT_NS UINT64_C(2000000000)

static uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

void source_init(struct source *s, const struct source_config *cfg)
{
	*s = (struct source){ .cfg = *cfg, .random = cfg->seed, .wait_ns = cfg->least_ns };
}

const char *source_state_name(enum source_state state)
{
	static const char *const names[] = { "down", "incomplete", "live", "polled" };

	return names[state];
}

const char *source_reason_name(enum source_reason reason)
{
	static const char *const names[SOURCE_REASONS] = { "first", "gap", "restart", "reconnect",
		"missed", "overflow", "silent", "segments", "period" };

	return names[reason];
}

/* The view is not to be believed before another listing. */
static void suspect(struct source *s, enum source_reason why, uint64_t now_ns)
{
	s->resyncs[why]++;
	s->reasons |= 1u << why;
	if (s->listing)
		s->dirty = true;
	if (why != SOURCE_PERIOD && (s->state == SOURCE_LIVE || s->state == SOURCE_POLLED))
		s->state = SOURCE_INCOMPLETE;
	if (s->last_list_ns > 0 && now_ns < s->last_list_ns + s->wait_ns)
		s->next_list_ns = s->last_list_ns + s->wait_ns;
	else
		s->next_list_ns = now_ns;
}

void source_connected(struct source *s, uint64_t now_ns)
{
	enum source_reason why = s->batches + s->listings > 0 ? SOURCE_RECONNECT : SOURCE_FIRST;

	if (s->connected)
		return;
	s->connected = true;
	s->state = SOURCE_INCOMPLETE;
	s->next_status_ns = now_ns;
	suspect(s, why, now_ns);
}

void source_disconnected(struct source *s, uint64_t now_ns)
{
	(void)now_ns;
	s->connected = false;
	s->state = SOURCE_DOWN;
	s->have_base = s->have_published = false;
	s->offset = s->asked_seq = 0;
	s->dirty = true;
}

void source_batch(struct source *s, uint64_t seq, uint64_t now_ns)
{
	bool first = !s->have_seq, back = !first && seq <= s->seq, gap;
	uint64_t last = s->seq;

	/* The one before the first must be what the status had counted when we began to list. */
	gap = first ? s->have_base && seq > s->base + 1 : !back && seq > s->seq + 1;
	s->have_seq = true;
	s->seq = seq;
	s->batches++;
	s->missing_since_ns = 0;
	if (gap) {
		s->gaps++;
		s->lost += seq - (first ? s->base : last) - 1;
	}
	if (back || gap) {
		suspect(s, back ? SOURCE_RESTART : SOURCE_GAP, now_ns);
		s->have_base = false;
	}
	if (back) { /* an answer on its way is of the old count */
		s->have_published = false;
		s->offset = s->asked_seq = 0;
	}
	if (s->state == SOURCE_LIVE)
		s->complete_ns = now_ns;
}

void source_overflow(struct source *s, uint64_t now_ns)
{
	suspect(s, SOURCE_OVERFLOW, now_ns);
}

void source_silent(struct source *s, uint64_t now_ns)
{
	suspect(s, SOURCE_SILENT, now_ns);
}

void source_status_begin(struct source *s, uint64_t now_ns)
{
	s->next_status_ns = now_ns + s->cfg.status_ns;
	s->asked_seq = s->have_seq ? s->seq : 0;
}

void source_status(struct source *s, bool enabled, uint64_t published, uint64_t now_ns)
{
	s->publisher_off = !enabled;
	if (!enabled) {
		s->have_base = s->have_seq = s->have_published = false;
		s->offset = 0;
		if (s->state == SOURCE_LIVE)
			s->state = SOURCE_POLLED;
		/* Nobody to connect to: that the admin port answers is all there will ever be. */
		if (s->state == SOURCE_DOWN) {
			s->state = SOURCE_INCOMPLETE;
			suspect(s, s->listings > 0 ? SOURCE_RECONNECT : SOURCE_FIRST, now_ns);
		}
		return;
	}
	if (s->state == SOURCE_POLLED) { /* switched on again: what did we not hear? */
		suspect(s, SOURCE_MISSED, now_ns);
		return;
	}
	if (s->have_published && published < s->published) {
		suspect(s, SOURCE_RESTART, now_ns);
		s->have_seq = false;
		s->have_base = true;
		s->published = s->base = published;
		s->offset = s->asked_seq = 0;
		return;
	}
	s->have_published = true;
	s->published = published;
	/* Batches may have come after the answer was given, so the seq when we asked counts. */
	if (published + s->offset < s->asked_seq)
		s->offset = s->asked_seq - published;
	published += s->offset;
	if (!s->have_seq && !s->have_base) {
		s->have_base = true;
		s->base = published;
	}
	if (published <= (s->have_seq ? s->seq : s->base)) {
		s->missing_since_ns = 0;
		if (s->state == SOURCE_LIVE)
			s->complete_ns = now_ns;
		return;
	}
	/* More than we have: on its way, or lost with nothing after it to show the gap. */
	if (s->missing_since_ns == 0) {
		s->missing_since_ns = now_ns;
	} else if (now_ns - s->missing_since_ns > IN_FLIGHT_NS) {
		suspect(s, SOURCE_MISSED, now_ns);
		s->missing_since_ns = 0;
		s->have_seq = s->have_base = true;
		s->seq = s->base = published;
	}
}

void source_unanswered(struct source *s, uint64_t now_ns)
{
	if (!s->connected && s->publisher_off)
		source_disconnected(s, now_ns);
}

void source_segments(struct source *s, uint64_t hash, uint64_t now_ns)
{
	if (s->have_segments && s->segments != hash)
		suspect(s, SOURCE_SEGMENTS, now_ns);
	s->have_segments = true;
	s->segments = hash;
}

void source_listing_begin(struct source *s, uint64_t now_ns)
{
	s->listing = true;
	s->dirty = false;
	s->last_list_ns = now_ns;
	s->reasons = 0;
}

/* Often while it costs the master little: a twentieth of its time. */
static uint64_t poll_ns(const struct source *s, uint64_t took_ns)
{
	uint64_t ns = took_ns * 20 > s->cfg.least_ns ? took_ns * 20 : s->cfg.least_ns;

	return ns < s->cfg.poll_ns ? ns : s->cfg.poll_ns;
}

static bool is_reached(const struct source *s)
{
	return s->connected || (s->publisher_off && s->state != SOURCE_DOWN);
}

void source_listing_end(struct source *s, bool ok, uint64_t began_ns, uint64_t now_ns)
{
	uint64_t every = s->publisher_off ? poll_ns(s, now_ns - began_ns) : s->cfg.period_ns;

	s->listing = false;
	if (!ok) {
		s->failed++;
		s->next_list_ns = now_ns + s->wait_ns / 2 + draw(&s->random) % (s->wait_ns / 2 + 1);
		s->wait_ns = s->wait_ns > every / 2 ? every : s->wait_ns * 2;
		return;
	}
	s->listings++;
	if (s->dirty || !is_reached(s)) {
		/* Lost more while listing: again, less often each time. */
		s->wait_ns = s->wait_ns > every / 2 ? every : s->wait_ns * 2;
		s->next_list_ns = now_ns + s->wait_ns;
		return;
	}
	s->wait_ns = s->cfg.least_ns;
	s->next_list_ns = now_ns + every + draw(&s->random) % (every / 2 + 1);
	s->state = s->publisher_off ? SOURCE_POLLED : SOURCE_LIVE;
	s->complete_ns = began_ns;
}

enum source_action source_tick(const struct source *s, uint64_t now_ns)
{
	/* The status comes first: its count is what the first event is held against. */
	if (now_ns >= s->next_status_ns)
		return SOURCE_STATUS;
	if (!s->listing && is_reached(s) && now_ns >= s->next_list_ns)
		return SOURCE_LIST;
	return SOURCE_NOTHING;
}

bool source_may_list(const struct source *s, uint64_t now_ns)
{
	return !s->listing && is_reached(s) && now_ns >= s->next_list_ns &&
		(s->have_published || s->publisher_off);
}

bool source_is_complete(const struct source *s)
{
	return s->state == SOURCE_LIVE || s->state == SOURCE_POLLED;
}
