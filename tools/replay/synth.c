/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/synth.h"

#include "tools/link/prng.h"

#include <math.h>
#include <stdlib.h>

enum {
	CONVERSATIONS = 1024, /* remembered; the oldest make room */
	BLOCKS_MAX = 256,     /* of a conversation: 128 Ki tokens */
};

struct conversation {
	uint64_t ids[BLOCKS_MAX];
	uint32_t blocks; /* full ones */
};

struct replay_synth {
	struct prng rnd;
	uint64_t now_ms, next_id;
	uint64_t started;
	struct conversation talks[CONVERSATIONS];
};

struct replay_synth *replay_synth_create(uint64_t seed)
{
	struct replay_synth *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	prng_init(&s->rnd, seed, 0);
	s->next_id = 1; /* 0 is the system prompt */
	return s;
}

void replay_synth_destroy(struct replay_synth *s)
{
	free(s);
}

/* (0, 1], so that its logarithm exists. */
static double unit_positive(struct replay_synth *s)
{
	return 1.0 - prng_unit(&s->rnd);
}

/* Log-normal by Box and Muller (1958). */
static uint64_t length_draw(struct replay_synth *s, double median, double sigma, uint64_t max)
{
	double r = sqrt(-2.0 * log(unit_positive(s)));
	double v = median * exp(sigma * r * cos(6.283185307179586 * prng_unit(&s->rnd)));

	return v < 1.0 ? 1 : v > (double)max ? max : (uint64_t)v;
}

/* Age of the conversation to go on with: 0 the newest; P(age) falls about as 1/(age + 1). */
static uint64_t age_draw(struct replay_synth *s, uint64_t count)
{
	double v = exp(prng_unit(&s->rnd) * log((double)count + 1.0)) - 1.0;
	uint64_t age = (uint64_t)v;

	return age < count ? age : count - 1;
}

void replay_synth_next(struct replay_synth *s, uint64_t *ids, struct replay_request *req)
{
	const uint64_t max = (uint64_t)BLOCKS_MAX * REPLAY_TRACE_BLOCK_TOKENS;
	uint64_t known = s->started < CONVERSATIONS ? s->started : CONVERSATIONS;
	uint64_t tokens = length_draw(s, 6900.0, 1.05, max);
	struct conversation *talk;
	uint64_t age;

	s->now_ms += (uint64_t)(-300.0 * log(unit_positive(s)));
	talk = &s->talks[s->started % CONVERSATIONS];
	if (known > 0 && prng_chance(&s->rnd, 0.4)) {
		age = age_draw(s, known);
		talk = &s->talks[(s->started - 1 - age) % CONVERSATIONS];
		/* What was said before is the prefix, and a new turn comes after it. */
		tokens = (uint64_t)talk->blocks * REPLAY_TRACE_BLOCK_TOKENS +
			length_draw(s, 1500.0, 1.0, max / 4);
		tokens = tokens > max ? max : tokens;
	} else {
		talk->blocks = 1;
		talk->ids[0] = 0;
		s->started++;
	}
	req->timestamp_ms = s->now_ms;
	req->input_tokens = tokens;
	req->output_tokens = length_draw(s, 340.0, 0.6, 2000);
	req->id_count = (tokens + REPLAY_TRACE_BLOCK_TOKENS - 1) / REPLAY_TRACE_BLOCK_TOKENS;
	for (size_t i = 0; i < req->id_count; i++)
		ids[i] = i < talk->blocks ? talk->ids[i] : s->next_id++;
	req->ids = ids;
	/* A last block that is not full will be another one when the conversation goes on. */
	talk->blocks = (uint32_t)(tokens / REPLAY_TRACE_BLOCK_TOKENS);
	talk->blocks = talk->blocks > 0 ? talk->blocks : 1; /* the system prompt stays */
	for (uint32_t i = 0; i < talk->blocks; i++)
		talk->ids[i] = ids[i];
}
