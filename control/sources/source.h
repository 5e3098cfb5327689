/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What is known about a Mooncake master as a source of KV events, and what has to be asked next.
 * Pure, one thread; the time is an argument. The adapter (adapter.h) subscribes, fetches and lists
 * as it is told.
 *
 * Events are hints. PUB/SUB drops them, some removals are never published (removal by expression,
 * of all objects, death of the client whose memory it was) and a publisher that restarts begins
 * again at 1. So a source is complete only after a listing of all its objects, and again only after
 * a new one when anything was missed:
 *
 *   gap               the seq jumped: events are lost
 *   restart           the seq went back, or the status counts less than it did
 *   reconnect         the connection was gone: anything may have happened
 *   missed            the status counts more than has come, with nothing on its way
 *   overflow          our own queue or memory was full
 *   silent            an object that was to be there turned out not to be
 *   segments          a segment of memory went: its objects went with it, unpublished
 *   period            every 10 to 15 minutes without a reason
 *
 * A publisher that is switched off, or not built in, is polled: listings alone, as often as they
 * are cheap, while the admin port answers, and the view is as old as the last. Engines have no
 * listing and are another matter (engine.h).
 *
 * Listing and events overlap: begin with source_listing_begin(), remember which keys events touch
 * from then on, and let those win over the listing, which is older or as old.
 */

enum source_state {
	SOURCE_DOWN,       /* not connected */
	SOURCE_INCOMPLETE, /* connected, a listing is due or going on */
	SOURCE_LIVE,       /* complete up to the last event */
	SOURCE_POLLED,     /* publisher is off: complete as of the last listing */
};

enum source_reason {
	SOURCE_FIRST,
	SOURCE_GAP,
	SOURCE_RESTART,
	SOURCE_RECONNECT,
	SOURCE_MISSED,
	SOURCE_OVERFLOW,
	SOURCE_SILENT,
	SOURCE_SEGMENTS,
	SOURCE_PERIOD,
	SOURCE_REASONS,
};

/* What is due. */
enum source_action {
	SOURCE_NOTHING,
	SOURCE_LIST,   /* fetch the listing, after source_listing_begin() */
	SOURCE_STATUS, /* fetch status and segments */
};

struct source_config {
	uint64_t period_ns; /* between listings without a reason; jitter of half is added */
	uint64_t poll_ns;   /* the same while the publisher is off, at most */
	uint64_t status_ns; /* between looks at status and segments */
	uint64_t least_ns;  /* between two listings, whatever happens; doubles to period_ns */
	uint64_t seed;
};

struct source {
	struct source_config cfg;
	enum source_state state;
	bool connected, publisher_off, listing, have_seq, have_base;
	bool dirty;         /* something was missed since the listing going on began */
	uint32_t reasons;   /* 1 << reason, of the listing that is due */
	uint64_t seq;       /* last one seen */
	uint64_t asked_seq; /* when the status was asked for */
	uint64_t base;      /* what the status counted when the listing began */
	bool have_published;
	uint64_t published; /* as the status said last */
	uint64_t offset;    /* seqs that it does not count: dropped behind its back */
	uint64_t segments;  /* hash of what was mounted */
	bool have_segments;
	uint64_t wait_ns; /* between listings now */
	uint64_t next_list_ns, last_list_ns, next_status_ns;
	uint64_t complete_ns; /* the view was complete as of */
	uint64_t missing_since_ns;
	uint64_t random;
	uint64_t batches, gaps, lost, listings, failed, resyncs[SOURCE_REASONS];
};

void source_init(struct source *s, const struct source_config *cfg);
const char *source_state_name(enum source_state state);
const char *source_reason_name(enum source_reason reason);

void source_connected(struct source *s, uint64_t now_ns);
void source_disconnected(struct source *s, uint64_t now_ns);

/** A batch came; its events are to be taken in any case. */
void source_batch(struct source *s, uint64_t seq, uint64_t now_ns);
/** We dropped something ourselves. */
void source_overflow(struct source *s, uint64_t now_ns);

/** Something is not there that nobody said has gone. */
void source_silent(struct source *s, uint64_t now_ns);

/** Answer of /kv_events/status. published is batches plus dropped events: the seq it stands at. */
void source_status(struct source *s, bool enabled, uint64_t published, uint64_t now_ns);
/** The admin port did not answer. */
void source_unanswered(struct source *s, uint64_t now_ns);
/** Hash over the mounted segments. */
void source_segments(struct source *s, uint64_t hash, uint64_t now_ns);

void source_listing_begin(struct source *s, uint64_t now_ns);
/** The listing that began at began_ns was merged, or failed and changed nothing. */
void source_listing_end(struct source *s, bool ok, uint64_t began_ns, uint64_t now_ns);

/** What is due: SOURCE_LIST, SOURCE_STATUS or SOURCE_NOTHING. */
enum source_action source_tick(const struct source *s, uint64_t now_ns);
/** A listing is due and the status is known since it was reached: no need to look at it first. */
bool source_may_list(const struct source *s, uint64_t now_ns);
/** The look that SOURCE_STATUS asked for was begun. */
void source_status_begin(struct source *s, uint64_t now_ns);

/** Whether absence of a key means that it is not there. */
bool source_is_complete(const struct source *s);
