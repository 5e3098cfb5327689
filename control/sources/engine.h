/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * What is known about an inference engine (vLLM, SGLang) as a source of KV events, and what to do
 * with its batches. Pure, one thread; the time is an argument. engine_source.h does what is said
 * here.
 *
 * An engine numbers its batches from 0 and cannot list what it holds. It can replay its last
 * batches (10,000 unless configured) over a second socket: everything from a seq on, then an end.
 * Nothing in a batch tells one run of an engine from the next, so whoever comes back asks for the
 * last batch it took, too, and compares: another one is another engine.
 *
 *   first time       replayed from 0; whole if 0 is still there, or there is nothing at all
 *   gap, reconnect   replayed from the last one taken
 *   seq goes back    another run: forget all, replay from 0
 *   cannot be replayed   forget all; what is told from now on is known, what was there before is
 *                    not, until the engine clears all: partial
 *   quiet            replayed all the same every poll_ns, which shows a lost last batch
 *
 * While a replay that may change the view goes on, live batches wait (engine_is_waiting). An engine
 * without a replay socket is believed as far as its seq goes, with the same loss.
 */

enum engine_state {
	ENGINE_DOWN,       /* not connected */
	ENGINE_INCOMPLETE, /* connected, a replay is due or going on */
	ENGINE_PARTIAL,    /* what it named is there, of the rest nothing is known */
	ENGINE_LIVE,       /* complete up to the last batch */
};

/* What to do, in this order. */
enum engine_action {
	ENGINE_CLEAR = 1, /* forget all it has */
	ENGINE_APPLY = 2, /* take the batch's events */
	ENGINE_ABORT = 4, /* end the replay that is going on */
};

struct engine_config {
	bool replay;
	uint64_t poll_ns, retry_ns;
};

struct engine {
	struct engine_config cfg;
	enum engine_state state;
	bool connected, replaying, first;
	bool whole;    /* nothing is missing since its run began, or since it cleared all */
	bool all;      /* the next replay is from 0: what was taken is not worth going on from */
	uint64_t next; /* after the last one taken; 0: none was */
	uint64_t mark; /* of the payload of that one */
	bool have_live;
	uint64_t live; /* last one of this connection */
	unsigned int failures;
	uint64_t asked_ns, due_ns, complete_ns;
	uint64_t batches, gaps, lost, restarts, replays, failed;
};

void engine_init(struct engine *e, const struct engine_config *cfg);
const char *engine_state_name(enum engine_state state);

/** ENGINE_CLEAR or nothing. */
unsigned int engine_connected(struct engine *e, uint64_t now_ns);
void engine_disconnected(struct engine *e);

/** Live batches are to be left where they are. */
bool engine_is_waiting(const struct engine *e);
/** A live batch; mark: a hash of its payload. */
unsigned int engine_batch(struct engine *e, uint64_t seq, uint64_t mark, uint64_t now_ns);
/** Its events could not be read. ENGINE_CLEAR. */
unsigned int engine_lost(struct engine *e);
/** It said that it holds nothing any more, and that was taken. */
void engine_cleared(struct engine *e);

bool engine_replay_is_due(const struct engine *e, uint64_t now_ns);
/** Of which batch on. */
uint64_t engine_replay_from(const struct engine *e);
/** It was asked for. ENGINE_CLEAR or nothing. */
unsigned int engine_replay_begin(struct engine *e, uint64_t now_ns);
unsigned int engine_replay_batch(struct engine *e, uint64_t seq, uint64_t mark, uint64_t now_ns);
/** It ended. */
unsigned int engine_replay_end(struct engine *e, uint64_t now_ns);
/** No answer. */
unsigned int engine_replay_failed(struct engine *e, uint64_t now_ns);

/** A few times a second. */
void engine_tick(struct engine *e, uint64_t now_ns);
/** Whether what it named is there. */
bool engine_is_known(const struct engine *e);
/** Whether absence of a key means that it is not there. */
bool engine_is_complete(const struct engine *e);
