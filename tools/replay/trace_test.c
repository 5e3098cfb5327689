/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];
static char err[512];

static struct replay_trace *open_text(const char *text)
{
	struct replay_trace *t;
	int fd;

	strcpy(path, "/tmp/strait-trace-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
	close(fd);
	t = replay_trace_open(path, err, sizeof(err));
	assert_non_null(t);
	unlink(path);
	return t;
}

static void requests_are_read_in_order(void **state)
{
	struct replay_request req;
	struct replay_trace *t;

	(void)state;
	t = open_text("{\"timestamp\": 5, \"input_length\": 700, \"output_length\": 3, "
		      "\"hash_ids\": [0, 7]}\n\n"
		      "{\"timestamp\": 9, \"input_length\": 512, \"output_length\": 0, "
		      "\"hash_ids\": [4611686018427387904], \"extra\": 1}");
	assert_int_equal(replay_trace_next(t, &req, err, sizeof(err)), 1);
	assert_int_equal(req.timestamp_ms, 5);
	assert_int_equal(req.input_tokens, 700);
	assert_int_equal(req.output_tokens, 3);
	assert_int_equal(req.id_count, 2);
	assert_int_equal(req.ids[1], 7);
	assert_int_equal(replay_trace_next(t, &req, err, sizeof(err)), 1);
	assert_int_equal(req.id_count, 1);
	assert_true(req.ids[0] == 4611686018427387904ull);
	assert_int_equal(replay_trace_next(t, &req, err, sizeof(err)), 0);
	replay_trace_close(t);
}

static void a_bad_line_is_told_by_file_and_number(void **state)
{
	static const struct {
		const char *line, *says;
	} cases[] = {
		{ "{\"timestamp\": 5", "column" },
		{ "[]", "not a JSON object" },
		{ "{\"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1]}", "timestamp" },
		{ "{\"timestamp\": 0, \"input_length\": -1, \"output_length\": 1}",
			"input_length" },
		{ "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1.5, \"hash_ids\": "
		  "[1]}",
			"output_length" },
		{ "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}", "hash_ids" },
		{ "{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 1, \"hash_ids\": "
		  "[1]}",
			"2 blocks" },
		{ "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": "
		  "[\"x\"]}",
			"hash_ids[0]" },
	};
	char text[512], where[80];
	struct replay_request req;
	struct replay_trace *t;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text),
			"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, "
			"\"hash_ids\": [1]}\n%s\n",
			cases[i].line);
		t = open_text(text);
		assert_int_equal(replay_trace_next(t, &req, err, sizeof(err)), 1);
		assert_int_equal(replay_trace_next(t, &req, err, sizeof(err)), -EINVAL);
		snprintf(where, sizeof(where), "%s:2: ", path);
		if (strncmp(err, where, strlen(where)) != 0 || strstr(err, cases[i].says) == NULL)
			fail_msg("%s: %s", cases[i].line, err);
		replay_trace_close(t);
	}
}

static void a_missing_file_is_told(void **state)
{
	(void)state;
	assert_null(replay_trace_open("/nonexistent/trace", err, sizeof(err)));
	assert_int_equal(errno, ENOENT);
	assert_non_null(strstr(err, "/nonexistent/trace"));
}

/* The figures of the published conversation trace, loosely: it is a stand-in for that one. */
static void a_generated_trace_looks_like_a_real_one(void **state)
{
	enum { REQUESTS = 5000 };
	struct replay_trace *t = replay_trace_generate(3, REQUESTS);
	uint64_t last_ms = 0, tokens = 0, blocks = 0, fresh = 0, next = 0;
	struct replay_request req;
	int n = 0;

	(void)state;
	assert_non_null(t);
	while (replay_trace_next(t, &req, err, sizeof(err)) == 1) {
		n++;
		assert_true(req.timestamp_ms >= last_ms);
		last_ms = req.timestamp_ms;
		assert_true(req.input_tokens > 0 && req.output_tokens > 0);
		assert_int_equal(req.id_count, (req.input_tokens + 511) / 512);
		assert_int_equal(req.ids[0], 0);
		tokens += req.input_tokens;
		blocks += req.id_count;
		for (size_t i = 0; i < req.id_count; i++) {
			fresh += req.ids[i] >= next;
			next = req.ids[i] >= next ? req.ids[i] + 1 : next;
		}
	}
	assert_int_equal(n, REQUESTS);
	assert_in_range(tokens / REQUESTS, 8000, 20000);
	assert_in_range(100 * (blocks - fresh) / blocks, 25, 65);
	replay_trace_close(t);
}

static void a_seed_gives_the_same_trace(void **state)
{
	struct replay_trace *a = replay_trace_generate(7, 100);
	struct replay_trace *b = replay_trace_generate(7, 100);
	struct replay_trace *c = replay_trace_generate(8, 100);
	struct replay_request ra, rb, rc;
	int other = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(replay_trace_next(a, &ra, err, sizeof(err)), 1);
		assert_int_equal(replay_trace_next(b, &rb, err, sizeof(err)), 1);
		assert_int_equal(replay_trace_next(c, &rc, err, sizeof(err)), 1);
		assert_int_equal(ra.input_tokens, rb.input_tokens);
		assert_memory_equal(ra.ids, rb.ids, ra.id_count * sizeof(*ra.ids));
		other += ra.input_tokens != rc.input_tokens;
	}
	assert_int_equal(replay_trace_next(a, &ra, err, sizeof(err)), 0);
	assert_true(other > 90);
	replay_trace_close(a);
	replay_trace_close(b);
	replay_trace_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_read_in_order),
		cmocka_unit_test(a_bad_line_is_told_by_file_and_number),
		cmocka_unit_test(a_missing_file_is_told),
		cmocka_unit_test(a_generated_trace_looks_like_a_real_one),
		cmocka_unit_test(a_seed_gives_the_same_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
