/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/engine_source.h"

#include "control/base/log.h"
#include "control/sources/block_names.h"
#include "control/sources/stream.h"

#include <event2/event.h>
#include <jansson.h>
#include <zmq.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/*
 * An engine in this process, over loopback: it publishes and replays batches that msgspec encoded,
 * the encoder of vLLM and SGLang, with their framing; what it holds after each one is told with
 * it.
 */

#define RUNS "tests/vectors/kv_events/engine_runs.jsonl"
#define MS   UINT64_C(1000000)

enum { BATCHES = 64, HELD = 128, NAME = 96, WAIT_S = 20 };

struct batch {
	uint8_t *payload;
	size_t len;
	const json_t *holds;
};

struct fixture {
	struct event_base *base;
	struct stream_hub *hub;
	struct engine_source *e;
	void *zmq, *pub, *router;
	char events[64], replay[64];
	json_t *lines[2 * BATCHES];
	struct batch batch[2][BATCHES]; /* of vLLM, of SGLang */
	uint32_t batches[2];
	/* the engine's run */
	int engine;
	uint32_t next, memory; /* batches it published, and how many it can replay */
	bool deaf;             /* answers no replay */
	uint32_t replays;
	/* ours */
	char held[HELD][NAME];
	uint32_t n;
};

static void name_of(const struct kv_event *e, const struct kv_hash *h, char out[static NAME])
{
	char key[KV_KEY_MAX];
	size_t len = block_name("{group}/{hash}", h, e->group_index, key);

	snprintf(out, NAME, "%.*s/%.*s", (int)e->medium.len, e->medium.data, (int)len, key);
}

static void on_event(const struct kv_event *e, void *ctx)
{
	struct fixture *f = ctx;
	char name[NAME];
	uint32_t at;

	for (uint32_t i = 0; i < e->hash_count; i++) {
		name_of(e, &e->hashes[i], name);
		for (at = 0; at < f->n && strcmp(f->held[at], name) != 0; at++)
			;
		assert_true(at < HELD);
		if (e->op == KV_STORED && at == f->n)
			memcpy(f->held[f->n++], name, NAME);
		else if (e->op == KV_REMOVED && at < f->n)
			memcpy(f->held[at], f->held[--f->n], NAME);
	}
}

static void on_clear(void *ctx)
{
	((struct fixture *)ctx)->n = 0;
}

static const struct engine_source_handler handler = { on_event, on_clear };

static void unhex(const char *s, struct batch *b)
{
	b->len = strlen(s) / 2;
	b->payload = malloc(b->len);
	for (size_t i = 0; i < b->len; i++) {
		unsigned int v;

		assert_int_equal(sscanf(s + 2 * i, "%2x", &v), 1);
		b->payload[i] = (uint8_t)v;
	}
}

static void runs_load(struct fixture *f)
{
	FILE *in = fopen(RUNS, "r");
	char *text = NULL;
	size_t room = 0;
	int n = 0;

	assert_non_null(in);
	while (getline(&text, &room, in) > 0) {
		json_t *line = f->lines[n++] = json_loads(text, 0, NULL);
		int k = strcmp(json_string_value(json_object_get(line, "engine")), "vllm") != 0;
		struct batch *b = &f->batch[k][f->batches[k]++];

		unhex(json_string_value(json_array_get(json_object_get(line, "frames"), 2)), b);
		b->holds = json_object_get(line, "holds");
	}
	free(text);
	fclose(in);
	assert_true(f->batches[0] >= 50 && f->batches[1] >= 50);
}

/* ---- the engine ---- */

static bool past(time_t end)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > end;
}

static time_t until(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + WAIT_S;
}

/* ZeroMQ closes in a thread of its own: the port of an earlier run is free a little later. */
static void *bind_to(struct fixture *f, int type, char endpoint[static 64])
{
	const char *where = endpoint[0] != '\0' ? endpoint : "tcp://127.0.0.1:*";
	void *socket = zmq_socket(f->zmq, type);
	time_t end = until();
	size_t len = 64;
	int zero = 0;

	zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof(zero));
	while (zmq_bind(socket, where) != 0 && !past(end))
		event_base_loop(f->base, EVLOOP_ONCE);
	assert_int_equal(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &len), 0);
	return socket;
}

static void seq_put(uint64_t seq, uint8_t out[static 8])
{
	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t)(seq >> (56 - 8 * i));
}

static const struct batch *batch_at(const struct fixture *f, uint32_t i)
{
	return &f->batch[f->engine][i % BATCHES];
}

static void publish(struct fixture *f, uint32_t n, bool lost)
{
	for (; n > 0; n--, f->next++) {
		const struct batch *b = batch_at(f, f->next);
		uint8_t seq[8];

		if (lost)
			continue;
		seq_put(f->next, seq);
		zmq_send(f->pub, "kv-events", 9, ZMQ_SNDMORE);
		zmq_send(f->pub, seq, 8, ZMQ_SNDMORE);
		zmq_send(f->pub, b->payload, b->len, 0);
	}
}

/* As vLLM's and SGLang's _service_replay(). */
static void replay_serve(struct fixture *f)
{
	uint8_t client[16], start[16], seq[8];
	uint32_t oldest = f->next > f->memory ? f->next - f->memory : 0;
	int len = zmq_recv(f->router, client, sizeof(client), ZMQ_DONTWAIT);
	uint64_t from = 0;

	if (len < 0)
		return;
	assert_int_equal(zmq_recv(f->router, start, sizeof(start), 0), 0);
	assert_int_equal(zmq_recv(f->router, start, sizeof(start), 0), 8);
	f->replays++;
	if (f->deaf)
		return;
	for (int i = 0; i < 8; i++)
		from = from << 8 | start[i];
	for (uint32_t i = oldest; i <= f->next; i++) {
		const struct batch *b = batch_at(f, i);

		if (i < from && i < f->next)
			continue;
		seq_put(i < f->next ? i : UINT64_MAX, seq);
		zmq_send(f->router, client, (size_t)len, ZMQ_SNDMORE);
		zmq_send(f->router, "", 0, ZMQ_SNDMORE);
		zmq_send(f->router, seq, 8, ZMQ_SNDMORE);
		zmq_send(f->router, b->payload, i < f->next ? b->len : 0, 0);
	}
}

static void sockets_open(struct fixture *f)
{
	f->pub = bind_to(f, ZMQ_PUB, f->events);
	f->router = bind_to(f, ZMQ_ROUTER, f->replay);
}

/* ---- what is asked of it ---- */

static void source_start(struct fixture *f, bool replay)
{
	struct engine_source_config cfg = { .name = "engine",
		.events = f->events,
		.replay = replay ? f->replay : NULL,
		.topic = "kv-",
		.timeout_ns = 300 * MS,
		.machine = { .poll_ns = 200 * MS, .retry_ns = 50 * MS } };
	char err[200];

	f->e = engine_source_create(f->base, f->hub, &cfg, &handler, f, err, sizeof(err));
	if (f->e == NULL)
		fail_msg("%s", err);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	log_set_level(LOG_LEVEL_ERROR);
	runs_load(f);
	f->base = event_base_new();
	f->hub = stream_hub_create(f->base);
	f->zmq = zmq_ctx_new();
	f->memory = BATCHES;
	sockets_open(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	engine_source_destroy(f->e);
	stream_hub_destroy(f->hub);
	event_base_free(f->base);
	zmq_close(f->pub);
	zmq_close(f->router);
	zmq_ctx_term(f->zmq);
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < f->batches[k]; i++)
			free(f->batch[k][i].payload);
	for (int i = 0; i < 2 * BATCHES; i++)
		json_decref(f->lines[i]);
	free(f);
	return 0;
}

static bool is_held(const struct fixture *f, const char *name)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (strcmp(f->held[i], name) == 0)
			return true;
	return false;
}

static bool view_is_true(const struct fixture *f)
{
	const json_t *holds = f->next > 0 ? batch_at(f, f->next - 1)->holds : NULL, *one;
	size_t i;

	if (f->n != json_array_size(holds))
		return false;
	json_array_foreach(holds, i, one)
		if (!is_held(f, json_string_value(one)))
			return false;
	return true;
}

static bool in_state(const struct fixture *f, enum engine_state state)
{
	return engine_source_state(f->e)->state == state;
}

static bool settles(struct fixture *f, enum engine_state state)
{
	time_t end = until();

	do {
		event_base_loop(f->base, EVLOOP_ONCE);
		replay_serve(f);
		if (in_state(f, state) && view_is_true(f))
			return true;
	} while (!past(end));
	return false;
}

static void reaches(struct fixture *f, enum engine_state state)
{
	time_t end = until();

	while (!in_state(f, state) && !past(end)) {
		event_base_loop(f->base, EVLOOP_ONCE);
		replay_serve(f);
	}
	assert_true(in_state(f, state));
}

/* Killed, and another run that begins at 0 with other batches. */
static void restart(struct fixture *f)
{
	zmq_close(f->pub);
	zmq_close(f->router);
	reaches(f, ENGINE_DOWN);
	f->next = 0;
	f->engine = !f->engine;
	sockets_open(f);
}

/* ---- tests ---- */

static void replay_and_live_batches_of_either_engine_make_the_view(void **state)
{
	struct fixture *f = *state;

	for (f->engine = 0; f->engine < 2; f->engine++) {
		f->next = f->n = 0;
		publish(f, 10, true); /* before anybody listens */
		source_start(f, true);
		assert_true(settles(f, ENGINE_LIVE));
		for (int i = 0; i < 25; i++) {
			publish(f, 2, false);
			assert_true(settles(f, ENGINE_LIVE));
		}
		assert_int_equal(engine_source_state(f->e)->gaps, 0);
		assert_int_equal(engine_source_rejected(f->e), 0);
		engine_source_destroy(f->e);
		f->e = NULL;
	}
}

static void lost_batches_come_back_with_a_replay(void **state)
{
	struct fixture *f = *state;

	source_start(f, true);
	assert_true(settles(f, ENGINE_LIVE));
	publish(f, 5, false);
	assert_true(settles(f, ENGINE_LIVE));
	publish(f, 7, true);
	publish(f, 1, false);
	assert_true(settles(f, ENGINE_LIVE));
	publish(f, 3, true); /* with nothing after it */
	assert_true(settles(f, ENGINE_LIVE));
	assert_int_equal(engine_source_state(f->e)->lost, 0);
}

static void what_cannot_be_replayed_is_forgotten(void **state)
{
	struct fixture *f = *state;

	f->memory = 4;
	publish(f, 30, true);
	source_start(f, true);
	reaches(f, ENGINE_PARTIAL);
	for (uint32_t i = 0; i < f->n; i++) { /* what it says is there, is */
		json_t *name = json_string(f->held[i]), *one;
		bool there = false;
		size_t k;

		json_array_foreach(batch_at(f, f->next - 1)->holds, k, one)
			there = there || json_equal(one, name);
		assert_true(there);
		json_decref(name);
	}
	/* 34 clears all, and then it is whole again */
	publish(f, 6, false);
	assert_true(settles(f, ENGINE_LIVE));
}

static void restarted_engine_is_another_one(void **state)
{
	struct fixture *f = *state;

	publish(f, 10, true);
	source_start(f, true);
	assert_true(settles(f, ENGINE_LIVE));
	restart(f);
	assert_true(settles(f, ENGINE_LIVE)); /* it holds nothing */
	publish(f, 8, false);
	assert_true(settles(f, ENGINE_LIVE));
	restart(f);
	publish(f, 30, true); /* further than the old one before we are back */
	assert_true(settles(f, ENGINE_LIVE));
	assert_true(engine_source_state(f->e)->restarts >= 2);
}

static void reconnected_engine_goes_on(void **state)
{
	struct fixture *f = *state;
	char endpoint[64];

	publish(f, 10, true);
	source_start(f, true);
	assert_true(settles(f, ENGINE_LIVE));
	memcpy(endpoint, f->events, sizeof(endpoint));
	zmq_close(f->pub);
	reaches(f, ENGINE_DOWN);
	publish(f, 5, true);
	f->pub = bind_to(f, ZMQ_PUB, endpoint);
	assert_true(settles(f, ENGINE_LIVE));
	assert_int_equal(engine_source_state(f->e)->restarts, 0);
}

static void silent_replay_socket_leaves_live_batches(void **state)
{
	struct fixture *f = *state;

	f->deaf = true;
	publish(f, 5, true);
	source_start(f, true);
	reaches(f, ENGINE_PARTIAL);
	publish(f, 3, false);
	reaches(f, ENGINE_PARTIAL);
	f->deaf = false;
	assert_true(settles(f, ENGINE_LIVE));
	assert_true(engine_source_state(f->e)->failed >= 3);
}

/* Another kind of socket at its address breaks the protocol, and ZeroMQ connects no more. */
static void replay_socket_that_was_wrong_once_is_asked_again(void **state)
{
	struct fixture *f = *state;

	zmq_close(f->router);
	f->router = bind_to(f, ZMQ_PUB, f->replay);
	publish(f, 5, true);
	source_start(f, true);
	reaches(f, ENGINE_PARTIAL);
	zmq_close(f->router);
	f->router = bind_to(f, ZMQ_ROUTER, f->replay);
	assert_true(settles(f, ENGINE_LIVE));
}

static void engine_without_a_replay_socket_is_known_from_its_start(void **state)
{
	struct fixture *f = *state;

	source_start(f, false);
	reaches(f, ENGINE_PARTIAL);
	publish(f, 10, false);
	assert_true(settles(f, ENGINE_LIVE));
	publish(f, 1, true);
	publish(f, 1, false);
	reaches(f, ENGINE_PARTIAL);
	assert_int_equal(engine_source_state(f->e)->gaps, 1);
	assert_int_equal(f->replays, 0);
}

static void garbage_is_counted(void **state)
{
	struct fixture *f = *state;

	source_start(f, true);
	publish(f, 5, true);
	assert_true(settles(f, ENGINE_LIVE));
	zmq_send(f->pub, "kv-x", 4, 0);
	zmq_send(f->pub, "other", 5, ZMQ_SNDMORE); /* not our topic */
	zmq_send(f->pub, "12345678", 8, ZMQ_SNDMORE);
	zmq_send(f->pub, "\x90", 1, 0);
	zmq_send(f->pub, "kv-events", 9, ZMQ_SNDMORE);
	zmq_send(f->pub, "\0\0\0\0\0\0\0\x05", 8, ZMQ_SNDMORE);
	zmq_send(f->pub, "\xdd\xff\xff\xff\xff", 5, 0);
	reaches(f, ENGINE_PARTIAL);
	assert_int_equal(engine_source_rejected(f->e), 2);
	assert_int_equal(f->n, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(replay_and_live_batches_of_either_engine_make_the_view),
		TEST(lost_batches_come_back_with_a_replay),
		TEST(what_cannot_be_replayed_is_forgotten),
		TEST(restarted_engine_is_another_one),
		TEST(reconnected_engine_goes_on),
		TEST(silent_replay_socket_leaves_live_batches),
		TEST(replay_socket_that_was_wrong_once_is_asked_again),
		TEST(engine_without_a_replay_socket_is_known_from_its_start),
		TEST(garbage_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
