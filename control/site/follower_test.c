/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/file.h"
#include "control/base/log.h"
#include "control/site/node.h"

#include <strait/strait.h>

#include <event2/event.h>
#include <zmq.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* A site whose only source is an engine; two objects a block. */

enum { BLOCKS = 4, KEYS = 2 * BLOCKS, WAIT_S = 20 };

struct fixture {
	struct event_base *base;
	struct site_config *cfg;
	struct site_node *node;
	void *zmq, *pub;
	char dir[64], path[128], socket[128], secret[128];
	uint64_t seq;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char endpoint[64], text[800], err[300];
	size_t len = sizeof(endpoint);
	int zero = 0;

	log_set_level(LOG_LEVEL_ERROR);
	snprintf(f->dir, sizeof(f->dir), "/tmp/strait-follower-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/site.yaml", f->dir);
	snprintf(f->secret, sizeof(f->secret), "%s/secret", f->dir);
	snprintf(f->socket, sizeof(f->socket), "%s/exist", f->dir);
	assert_int_equal(file_write_atomic(f->secret, "0123456789abcdef",
				 strlen("0123456789abcdef"), 0600),
		0);
	f->base = event_base_new();
	f->zmq = zmq_ctx_new();
	f->pub = zmq_socket(f->zmq, ZMQ_PUB);
	zmq_setsockopt(f->pub, ZMQ_LINGER, &zero, sizeof(zero));
	assert_int_equal(zmq_bind(f->pub, "tcp://127.0.0.1:*"), 0);
	assert_int_equal(zmq_getsockopt(f->pub, ZMQ_LAST_ENDPOINT, endpoint, &len), 0);
	snprintf(text, sizeof(text),
		"site: a\nsecret: %s\nsources:\n  - { name: v, engine: vllm, events: \"%s\", "
		"keys: [\"{hash}@0\", \"{hash}@1\"], media: [gpu, CPU], tenant: t }\n"
		"tenants:\n  - { name: other }\n  - { name: t, socket: %s }\n",
		f->secret, endpoint, f->socket);
	assert_int_equal(file_write_atomic(f->path, text, strlen(text), 0600), 0);
	f->cfg = site_config_load(f->path, err, sizeof(err));
	if (f->cfg == NULL)
		fail_msg("%s", err);
	f->node = site_node_create(f->base, f->cfg, err, sizeof(err));
	if (f->node == NULL)
		fail_msg("%s", err);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	site_node_destroy(f->node);
	site_config_free(f->cfg);
	event_base_free(f->base);
	zmq_close(f->pub);
	zmq_ctx_term(f->zmq);
	unlink(f->secret);
	unlink(f->path);
	assert_int_equal(rmdir(f->dir), 0);
	free(f);
	return 0;
}

static void publish(struct fixture *f, const char *event, size_t len)
{
	uint8_t p[96] = { 0x92, 0x01, 0x91 }, seq[8] = { 0 };

	memcpy(p + 3, event, len);
	seq[7] = (uint8_t)f->seq++;
	assert_int_equal(zmq_send(f->pub, "", 0, ZMQ_SNDMORE), 0);
	assert_int_equal(zmq_send(f->pub, seq, 8, ZMQ_SNDMORE), 8);
	assert_int_equal(zmq_send(f->pub, p, 3 + len, 0), 3 + len);
}

/* ["BlockStored", [n], nil, [], 16, nil, medium], ["BlockRemoved", [n], medium] */
static void block(struct fixture *f, int n, bool stored, const char *medium)
{
	char e[96];
	int len = stored ? snprintf(e, sizeof(e),
				   "\x97\xab"
				   "BlockStored\x91%c\xc0\x90\x10\xc0%c%s",
				   n, 0xa0 + (int)strlen(medium), medium)
			 : snprintf(e, sizeof(e),
				   "\x93\xac"
				   "BlockRemoved\x91%c%c%s",
				   n, 0xa0 + (int)strlen(medium), medium);

	publish(f, e, (size_t)len);
}

/* Run the loop until a client gets these answers, of blocks 1 .. and both objects of each. */
static bool answers(struct fixture *f, struct strait_exist *x, const char *want)
{
	char text[KEYS][24], got[KEYS + 1] = "";
	struct strait_key k[KEYS];
	struct timespec now, end;
	uint8_t a[KEYS];

	for (int i = 0; i < KEYS; i++)
		k[i] = (struct strait_key){ text[i],
			(size_t)snprintf(text[i], sizeof(text[i]), "%016x@%d", i / 2 + 1, i % 2) };
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += WAIT_S;
	do {
		event_base_loop(f->base, EVLOOP_ONCE);
		assert_int_equal(strait_exist_batch(x, k, KEYS, a, NULL), 0);
		for (int i = 0; i < KEYS; i++)
			got[i] = "ny?"[a[i]];
		if (strcmp(got, want) == 0)
			return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
	print_error("got %s, want %s\n", got, want);
	return false;
}

static void state_is(struct fixture *f, const char *state, uint64_t objects)
{
	struct site_source_view v;

	site_node_source_view(f->node, 0, &v);
	assert_string_equal(v.kind, "vllm");
	assert_string_equal(v.state, state);
	assert_int_equal(v.objects, objects);
	assert_int_equal(v.trouble[0] == '\0', strcmp(state, "live") == 0);
}

static void blocks_of_an_engine_are_objects_of_the_site(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->socket, 5000);
	struct store_key k;
	struct digest128 d;

	assert_non_null(x);
	assert_true(answers(f, x, "????????"));
	while (!site_node_is_ready(f->node))
		event_base_loop(f->base, EVLOOP_ONCE);
	assert_true(site_node_is_partial(f->node)); /* what it held before is not known */
	state_is(f, "partial", 0);
	block(f, 1, true, "GPU"); /* its first batch: nothing was before */
	assert_true(answers(f, x, "yynnnnnn"));
	state_is(f, "live", 2);
	d = digest_of_key(&f->cfg->tenants[1].key, "0000000000000001@1", 18);
	assert_true(store_key_of(site_node_store(f->node), d, &k));
	assert_false(store_is_readable(site_node_store(f->node), d));
	/* to the host's memory, and gone from both */
	block(f, 1, true, "CPU");
	block(f, 2, true, "GPU");
	block(f, 1, false, "GPU");
	block(f, 3, true, "DISK"); /* not to be followed */
	block(f, 2, false, "gpu");
	block(f, 4, true, "GPU"); /* the last: what was before it is through */
	assert_true(answers(f, x, "yynnnnyy"));
	state_is(f, "live", 4);
	block(f, 1, false, "CPU");
	block(f, 4, false, "GPU");
	assert_true(answers(f, x, "nnnnnnnn"));
	strait_exist_close(x);
}

static void of_an_engine_that_lost_events_only_what_it_names_is_known(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->socket, 5000);

	assert_non_null(x);
	while (!site_node_is_ready(f->node))
		event_base_loop(f->base, EVLOOP_ONCE);
	block(f, 1, true, "GPU");
	assert_true(answers(f, x, "yynnnnnn"));
	f->seq++;
	block(f, 2, true, "GPU");
	assert_true(answers(f, x, "??yy????"));
	state_is(f, "partial", 2);
	publish(f,
		"\x91\xb0"
		"AllBlocksCleared",
		18);
	assert_true(answers(f, x, "nnnnnnnn"));
	state_is(f, "live", 0);
	block(f, 4, true, "CPU");
	assert_true(answers(f, x, "nnnnnnyy"));
	strait_exist_close(x);
}

static void too_few_descriptors_for_all_sources_are_an_error_at_the_start(void **state)
{
	struct rlimit before, few = { .rlim_cur = 60 };
	struct fixture *f = *state;
	char err[300] = "";

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_null(site_node_create(f->base, f->cfg, err, sizeof(err)));
	assert_int_equal(errno, EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(strstr(err, "1 sources need 72 open files, 60 are allowed: raise"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(blocks_of_an_engine_are_objects_of_the_site),
		TEST(of_an_engine_that_lost_events_only_what_it_names_is_known),
		TEST(too_few_descriptors_for_all_sources_are_an_error_at_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
