/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/publish.h"

#include "control/sources/kv_event.h"

#include <jansson.h>
#include <zmq.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDED "tests/vectors/kv_events/mooncake_events.jsonl"

enum { WAIT_MS = 10000 };

static struct publisher *create(const char *backend)
{
	char err[200];
	struct publisher *p = publisher_create("tcp://127.0.0.1:*", backend, err, sizeof(err));

	if (p == NULL)
		fail_msg("%s", err);
	return p;
}

/* ---- the same bytes as a Mooncake master ---- */

struct again {
	struct publisher *p;
	uint32_t events;
};

static int publish_again(const struct kv_event *e, void *ctx)
{
	struct again *a = ctx;
	char tenant[64];

	assert_true(e->tenant.len < sizeof(tenant));
	memcpy(tenant, e->tenant.data, e->tenant.len);
	tenant[e->tenant.len] = '\0';
	a->events++;
	publisher_event(a->p, e->op == KV_STORED, tenant, e->key.data, e->key.len, e->timestamp_ms);
	return 0;
}

static size_t unhex(const char *s, uint8_t *out)
{
	size_t n = strlen(s) / 2;

	for (size_t i = 0; i < n; i++) {
		unsigned int v;

		assert_int_equal(sscanf(s + 2 * i, "%2x", &v), 1);
		out[i] = (uint8_t)v;
	}
	return n;
}

static void a_recorded_stream_is_published_again_byte_for_byte(void **state)
{
	struct again a = { .p = create("dc1") };
	FILE *f = fopen(RECORDED, "r");
	uint32_t compared = 0;
	char *text = NULL;
	size_t room = 0;

	(void)state;
	assert_non_null(f);
	while (getline(&text, &room, f) > 0) {
		json_t *line = json_loads(text, 0, NULL);
		const char *hex =
			json_string_value(json_array_get(json_object_get(line, "frames"), 2));
		uint8_t *want = malloc(strlen(hex));
		size_t n = unhex(hex, want), len;
		const uint8_t *got;
		struct kv_batch b;

		assert_int_equal(kv_batch_decode(want, n, publish_again, &a, &b), 0);
		if (b.events < PUBLISH_BATCH) { /* a full one left already */
			got = publisher_payload(a.p, b.timestamp_ms, &len);
			assert_int_equal(len, n);
			assert_memory_equal(got, want, n);
			compared++;
		}
		publisher_flush(a.p, b.timestamp_ms);
		free(want);
		json_decref(line);
	}
	assert_true(compared > 5 && a.events > 5);
	free(text);
	fclose(f);
	publisher_destroy(a.p);
}

/* ---- over a socket ---- */

static int count(const struct kv_event *e, void *ctx)
{
	uint32_t *n = ctx;

	assert_int_equal(e->key.len, 3);
	(*n)++;
	return 0;
}

static void batches_are_numbered_and_no_longer_than_mooncakes(void **state)
{
	struct publisher *p = create("pool");
	void *zmq = zmq_ctx_new(), *sub = zmq_socket(zmq, ZMQ_SUB);
	uint32_t events = 0, batches = 0;
	uint8_t buf[65536];
	int wait = 100;

	(void)state;
	assert_int_equal(zmq_setsockopt(sub, ZMQ_SUBSCRIBE, "", 0), 0);
	assert_int_equal(zmq_setsockopt(sub, ZMQ_RCVTIMEO, &wait, sizeof(wait)), 0);
	assert_int_equal(zmq_connect(sub, publisher_endpoint(p)), 0);
	/* until the subscription has arrived */
	for (int i = 0; i < WAIT_MS / wait && batches == 0; i++) {
		publisher_event(p, true, "default", "k-0", 3, 5);
		publisher_flush(p, 5);
		batches += zmq_recv(sub, buf, sizeof(buf), 0) == 0;
	}
	assert_int_equal(batches, 1);
	while (zmq_recv(sub, buf, sizeof(buf), 0) >= 0)
		;
	for (int i = 0; i < 3 * PUBLISH_BATCH / 2; i++)
		publisher_event(p, i % 2 == 0, "t", "k-1", 3, 6);
	publisher_flush(p, 7);
	for (uint64_t first = 0, seq; events < 3 * PUBLISH_BATCH / 2; first = seq) {
		struct kv_batch b;
		int n;

		assert_int_equal(zmq_recv(sub, buf, sizeof(buf), 0), 0);
		n = zmq_recv(sub, buf, sizeof(buf), 0);
		assert_int_equal(kv_seq_decode(buf, (size_t)n, &seq), 0);
		assert_true(first == 0 || seq == first + 1);
		n = zmq_recv(sub, buf, sizeof(buf), 0);
		assert_int_equal(kv_batch_decode(buf, (size_t)n, count, &events, &b), 0);
		assert_true(b.events <= PUBLISH_BATCH);
		assert_int_equal(b.rejected, 0);
	}
	zmq_close(sub);
	zmq_ctx_term(zmq);
	publisher_destroy(p);
}

static void an_endpoint_that_is_taken_is_said_so(void **state)
{
	struct publisher *p = create("pool");
	char err[200] = "";

	(void)state;
	assert_null(publisher_create(publisher_endpoint(p), "pool", err, sizeof(err)));
	assert_non_null(strstr(err, "in use"));
	publisher_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_recorded_stream_is_published_again_byte_for_byte),
		cmocka_unit_test(batches_are_numbered_and_no_longer_than_mooncakes),
		cmocka_unit_test(an_endpoint_that_is_taken_is_said_so),
	};

	return cmocka_run_group_tests_name("publish", tests, NULL, NULL);
}
