/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/query.h"

#include "control/sources/http.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <netinet/in.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <cmocka.h>

/* An admin port in this process; even keys are there, of 1000 bytes. */

enum { KEYS = 300 };

struct fixture {
	struct event_base *base;
	struct evhttp *admin;
	struct http *http;
	char url[64], text[KEYS][200];
	struct kv_text keys[KEYS];
	struct query_answer answers[KEYS];
	size_t n, longest;
	unsigned int requests, calls;
	int status;
	const char *body; /* in place of an answer */
};

static void admin_cb(struct evhttp_request *req, void *arg)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	struct evkeyvalq q = TAILQ_HEAD_INITIALIZER(q);
	struct evbuffer *out = evbuffer_new();
	struct fixture *f = arg;
	const char *comma = "";
	char *copy, *save = NULL;

	assert_string_equal(evhttp_uri_get_path(uri), "/batch_query_keys");
	assert_int_equal(evhttp_parse_query_str(evhttp_uri_get_query(uri), &q), 0);
	copy = strdup(evhttp_find_header(&q, "keys") != NULL ? evhttp_find_header(&q, "keys") : "");
	f->requests++;
	if (strlen(evhttp_request_get_uri(req)) > f->longest)
		f->longest = strlen(evhttp_request_get_uri(req));
	evbuffer_add_printf(out, "{\"success\":true,\"data\":{");
	for (char *k = strtok_r(copy, ",", &save); k != NULL; k = strtok_r(NULL, ",", &save)) {
		if (strtoul(strrchr(k, '#') + 1, NULL, 10) % 2 == 0)
			evbuffer_add_printf(out,
				"%s\"%s\":{\"ok\":true,\"error\":null,\"values\":"
				"[{\"size_\":1000,\"protocol_\":\"tcp\"}]}",
				comma, k);
		else
			evbuffer_add_printf(out,
				"%s\"%s\":{\"ok\":false,\"error\":\"OBJECT_NOT_FOUND\",\"values\":"
				"null}",
				comma, k);
		comma = ",";
	}
	evbuffer_add_printf(out, "}}");
	if (f->body != NULL) {
		evbuffer_drain(out, evbuffer_get_length(out));
		evbuffer_add_printf(out, "%s", f->body);
	}
	evhttp_send_reply(req, f->status, "", out);
	evhttp_clear_headers(&q);
	evbuffer_free(out);
	free(copy);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct evhttp_bound_socket *bound;
	struct sockaddr_in at;
	socklen_t len = sizeof(at);

	f->base = event_base_new();
	f->http = http_create(f->base);
	f->admin = evhttp_new(f->base);
	evhttp_set_gencb(f->admin, admin_cb, f);
	bound = evhttp_bind_socket_with_handle(f->admin, "127.0.0.1", 0);
	assert_non_null(bound);
	getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&at, &len);
	snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%u", ntohs(at.sin_port));
	f->status = 200;
	for (int i = 0; i < KEYS; i++) {
		snprintf(f->text[i], sizeof(f->text[i]),
			"org/model-A+B&C=%%41@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@"
			"6d0b07ee773591f2a1b492d3ca65afdefc90e1cadfcc542a74048bb0ae7daa27 #%d",
			i);
		f->keys[i] = (struct kv_text){ f->text[i], (uint32_t)strlen(f->text[i]) };
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	http_destroy(f->http);
	evhttp_free(f->admin);
	event_base_free(f->base);
	free(f);
	return 0;
}

static void done(const struct query_answer *a, size_t n, void *ctx)
{
	struct fixture *f = ctx;

	memcpy(f->answers, a, n * sizeof(*a));
	f->n = n;
	f->calls++;
}

static void ask(struct fixture *f, size_t n)
{
	unsigned int calls = f->calls;

	assert_int_equal(query_start(f->http, f->url, 5000, f->keys, n, done, f), 0);
	assert_int_equal(f->calls, calls);
	while (f->calls == calls)
		assert_int_equal(event_base_loop(f->base, EVLOOP_ONCE), 0);
	assert_int_equal(f->n, n);
}

static void keys_of_any_number_are_answered_a_few_kilobytes_at_a_time(void **state)
{
	struct fixture *f = *state;

	ask(f, KEYS);
	for (size_t i = 0; i < KEYS; i++) {
		assert_true(f->answers[i].known);
		assert_int_equal(f->answers[i].there, i % 2 == 0);
		assert_int_equal(f->answers[i].size, i % 2 == 0 ? 1000 : 0);
	}
	assert_true(f->requests > 5 && f->longest < 8192);
	ask(f, 1);
	assert_true(f->answers[0].there);
}

static void what_cannot_be_asked_for_is_not_known(void **state)
{
	struct fixture *f = *state;

	f->keys[1] = (struct kv_text){ "a,b#0", 5 };
	f->keys[2] = (struct kv_text){ "a\0#0", 4 };
	f->keys[3] = (struct kv_text){ "", 0 };
	ask(f, 5);
	assert_true(f->answers[0].known && f->answers[4].known);
	assert_false(f->answers[1].known || f->answers[2].known || f->answers[3].known);
	f->keys[0] = f->keys[1];
	ask(f, 1);
	assert_false(f->answers[0].known);
}

static void answers_that_tell_nothing_are_no_answers(void **state)
{
	static const char *const bodies[] = { "", "[]", "{\"data\":7}", "{\"data\":{}}", "{",
		"{\"success\":false,\"error_code\":-1011}" };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		f->body = bodies[i];
		ask(f, 2);
		assert_false(f->answers[0].known || f->answers[1].known);
	}
	f->body = NULL;
	f->status = 503;
	ask(f, 2);
	assert_false(f->answers[0].known || f->answers[1].known);
	strcpy(f->url, "http://127.0.0.1:1");
	ask(f, 2);
	assert_false(f->answers[0].known || f->answers[1].known);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(keys_of_any_number_are_answered_a_few_kilobytes_at_a_time),
		TEST(what_cannot_be_asked_for_is_not_known),
		TEST(answers_that_tell_nothing_are_no_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
