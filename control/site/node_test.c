/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/expand.h"

#include "control/base/file.h"
#include "control/base/log.h"

#include <strait/strait.h>

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <zmq.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* A site master beside a publisher with an admin port; a client asks over the socket. */

enum { KEYS = 8, WAIT_S = 20 };

struct fixture {
	struct event_base *base;
	struct evhttp *admin;
	struct site_config *cfg;
	struct site_node *node;
	void *zmq, *pub;
	char dir[64], path[128], socket[128];
	uint64_t seq;
	bool truth[KEYS], down;
	/* of the last expansion */
	size_t expanded;
	uint64_t sizes[KEYS];
	bool named[KEYS];
};

/* Keys are key-0 .. of 1000 bytes and their number. */
static void answer_query(const struct fixture *f, const char *path, struct evbuffer *out)
{
	const char *comma = "";

	evbuffer_add_printf(out, "{\"success\":true,\"data\":{");
	for (const char *k = strstr(path, "key-"); k != NULL; k = strstr(k + 1, "key-")) {
		int n = atoi(k + 4);

		if (f->truth[n])
			evbuffer_add_printf(out,
				"%s\"key-%d\":{\"ok\":true,\"values\":[{\"size_\":%d}]}", comma, n,
				1000 + n);
		else
			evbuffer_add_printf(out,
				"%s\"key-%d\":{\"ok\":false,\"error\":\"OBJECT_NOT_FOUND\"}", comma,
				n);
		comma = ",";
	}
	evbuffer_add_printf(out, "}}");
}

static void admin_cb(struct evhttp_request *req, void *arg)
{
	struct evbuffer *out = evbuffer_new();
	const char *path = evhttp_request_get_uri(req);
	struct fixture *f = arg;

	if (strcmp(path, "/kv_events/status") == 0)
		evbuffer_add_printf(out,
			"{\"enabled\":true,\"published_batches\":%llu,\"dropped_events\":0}",
			(unsigned long long)f->seq);
	else if (strcmp(path, "/get_segments_detail") == 0)
		evbuffer_add_printf(out, "{\"segments\":[]}");
	else if (strncmp(path, "/batch_query_keys", 17) == 0)
		answer_query(f, path, out);
	else
		for (int i = 0; i < KEYS; i++)
			if (f->truth[i])
				evbuffer_add_printf(out, "key-%d\n", i);
	evhttp_send_reply(req, f->down ? 503 : 200, "", out);
	evbuffer_free(out);
}

/* [1, [["stored"..]]] would need hashes; Mooncake names keys in maps. */
static void publish(struct fixture *f, int n, bool stored)
{
	uint8_t p[96] = { 0x92, 0x01, 0x91, 0x82 }, seq[8] = { 0 };
	size_t at = 4;

	f->truth[n] = stored;
	seq[7] = (uint8_t)++f->seq;
	at += (size_t)sprintf((char *)p + at, "\xaa%s%c%s\xaaobject_key\xa5key-%d", "event_type",
		stored ? 0xa6 : 0xa7, stored ? "stored" : "removed", n);
	assert_int_equal(zmq_send(f->pub, "", 0, ZMQ_SNDMORE), 0);
	assert_int_equal(zmq_send(f->pub, seq, 8, ZMQ_SNDMORE), 8);
	assert_int_equal(zmq_send(f->pub, p, at, 0), at);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct evhttp_bound_socket *bound;
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	char endpoint[64], text[800], secret[128], err[300];
	size_t endpoint_len = sizeof(endpoint);

	log_set_level(LOG_LEVEL_ERROR);
	snprintf(f->dir, sizeof(f->dir), "/tmp/strait-node-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/site.yaml", f->dir);
	snprintf(secret, sizeof(secret), "%s/secret", f->dir);
	snprintf(f->socket, sizeof(f->socket), "%s/exist", f->dir);
	assert_int_equal(file_write_atomic(secret, "0123456789abcdef", strlen("0123456789abcdef"),
				 0600),
		0);
	f->base = event_base_new();
	f->admin = evhttp_new(f->base);
	evhttp_set_gencb(f->admin, admin_cb, f);
	bound = evhttp_bind_socket_with_handle(f->admin, "127.0.0.1", 0);
	assert_non_null(bound);
	getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&at, &len);
	f->zmq = zmq_ctx_new();
	f->pub = zmq_socket(f->zmq, ZMQ_PUB);
	assert_int_equal(zmq_bind(f->pub, "tcp://127.0.0.1:*"), 0);
	assert_int_equal(zmq_getsockopt(f->pub, ZMQ_LAST_ENDPOINT, endpoint, &endpoint_len), 0);
	snprintf(text, sizeof(text),
		"site: a\nsecret: %s\nsources:\n  - { name: m, events: \"%s\", admin: "
		"\"http://127.0.0.1:%u\" }\ntenants:\n  - { name: default, socket: %s }\n",
		secret, endpoint, ntohs(at.sin_port), f->socket);
	assert_int_equal(file_write_atomic(f->path, text, strlen(text), 0600), 0);
	f->cfg = site_config_load(f->path, err, sizeof(err));
	if (f->cfg == NULL)
		fail_msg("%s", err);
	f->truth[1] = true;
	f->seq = 3;
	f->node = site_node_create(f->base, f->cfg, err, sizeof(err));
	if (f->node == NULL)
		fail_msg("%s", err);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char secret[128];

	site_node_destroy(f->node);
	site_config_free(f->cfg);
	evhttp_free(f->admin);
	event_base_free(f->base);
	zmq_close(f->pub);
	zmq_ctx_term(f->zmq);
	snprintf(secret, sizeof(secret), "%s/secret", f->dir);
	unlink(secret);
	unlink(f->path);
	assert_int_equal(rmdir(f->dir), 0);
	free(f);
	return 0;
}

/* Run the loop until a client gets these answers. */
static bool answers(struct fixture *f, struct strait_exist *x, const char *want)
{
	struct strait_key k[KEYS];
	char text[KEYS][8], got[KEYS + 1] = "";
	struct timespec now, end;
	uint8_t a[KEYS];

	for (int i = 0; i < KEYS; i++)
		k[i] = (struct strait_key){ text[i],
			(size_t)snprintf(text[i], sizeof(text[i]), "key-%d", i) };
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

static void site_answers_for_its_caches_and_says_when_it_cannot(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->socket, 5000);
	struct site_source_view v;
	struct store_stats st;

	assert_non_null(x);
	assert_true(answers(f, x, "????????"));
	assert_true(answers(f, x, "nynnnnnn"));
	assert_true(site_node_is_ready(f->node));
	publish(f, 2, true);
	publish(f, 1, false);
	assert_true(answers(f, x, "nnynnnnn"));
	/* A batch is lost and the admin port is down: nothing is known until it is back. */
	f->down = true;
	f->seq++;
	f->truth[5] = true;
	publish(f, 3, true);
	assert_true(answers(f, x, "????????"));
	f->down = false;
	assert_true(answers(f, x, "nnyynynn"));
	site_node_store_stats(f->node, &st);
	assert_int_equal(st.objects, 3);
	site_node_source_view(f->node, 0, &v);
	assert_int_equal(v.gaps, 1);
	strait_exist_close(x);
}

/* Whether key-0 is told as missed without key-6; they are asked for together. */
static bool is_no_hint(struct fixture *f, struct strait_exist *x)
{
	const struct digest_key *key = &f->cfg->tenants[0].key;
	struct digest128 d0 = digest_of_key(key, "key-0", 5), d6 = digest_of_key(key, "key-6", 5);

	for (int i = 0; i < 40; i++) {
		bool has0 = false, has6 = false;
		struct digest128 d[64];
		size_t n;

		assert_true(answers(f, x, "nyynnnnn"));
		n = site_node_missed(f->node, 0, d, 64);
		for (size_t k = 0; k < n; k++) {
			has0 = has0 || digest_equal(d[k], d0);
			has6 = has6 || digest_equal(d[k], d6);
		}
		if (has0 && !has6)
			return true;
		(void)usleep(10000);
	}
	return false;
}

static void what_could_not_be_fetched_is_said_not_to_be_there_until_it_comes(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->socket, 5000);

	assert_non_null(x);
	publish(f, 2, true);
	assert_true(answers(f, x, "nyynnnnn"));
	assert_true(strait_exist_is_mapped(x));
	f->cfg->negative_ns = UINT64_C(3600000000000);
	site_node_failed(f->node, NULL, 0, "key-1", 5);
	site_node_failed(f->node, "default", 7, "key-2", 5);
	assert_true(answers(f, x, "nnnnnnnn"));
	/* of a tenant that is not here, or of a longer or shorter name, it is nothing to us */
	publish(f, 1, true);
	assert_true(answers(f, x, "nynnnnnn"));
	site_node_failed(f->node, "def", 3, "key-1", 5);
	site_node_failed(f->node, "default2", 8, "key-1", 5);
	publish(f, 2, false);
	publish(f, 2, true);
	assert_true(answers(f, x, "nyynnnnn"));
	site_node_nowhere(f->node, digest_of_key(&f->cfg->tenants[0].key, "key-6", 5));
	assert_true(is_no_hint(f, x));
	site_node_nowhere(f->node,
		digest_of_key(&f->cfg->tenants[0].key, "key-1", 5)); /* it came meanwhile */
	assert_true(answers(f, x, "nyynnnnn"));
	f->cfg->negative_ns = 0;
	site_node_failed(f->node, NULL, 0, "key-1", 5);
	assert_true(answers(f, x, "nyynnnnn"));
	f->cfg->negative_ns = 200000000;
	site_node_failed(f->node, NULL, 0, "key-1", 5);
	assert_true(answers(f, x, "nnynnnnn"));
	assert_true(answers(f, x, "nyynnnnn"));
	strait_exist_close(x);
}

static void on_expanded(const struct expanded *list, size_t n, void *ctx)
{
	struct fixture *f = ctx;

	assert_true(n <= KEYS);
	for (size_t i = 0; i < n; i++) {
		f->named[i] = list[i].len > 0;
		f->sizes[i] = list[i].size;
	}
	f->expanded = n;
}

static void expand(struct fixture *f)
{
	struct digest128 d[KEYS];
	char key[8];

	for (int i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "key-%d", i);
		d[i] = digest_of_key(&f->cfg->tenants[0].key, key, strlen(key));
	}
	f->expanded = 0;
	assert_int_equal(expand_start(f->node, d, KEYS, on_expanded, f), 0);
	while (f->expanded == 0)
		event_base_loop(f->base, EVLOOP_ONCE);
}

static void keys_are_named_with_sizes_unless_they_went_in_silence(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->socket, 5000);

	assert_non_null(x);
	assert_true(answers(f, x, "nynnnnnn"));
	publish(f, 2, true);
	publish(f, 3, true);
	assert_true(answers(f, x, "nyyynnnn"));
	expand(f);
	for (int i = 0; i < KEYS; i++) {
		assert_int_equal(f->named[i], f->truth[i]);
		assert_int_equal(f->sizes[i], f->truth[i] ? 1000 + i : 0);
	}
	/* gone without a word: not named, and found out by that */
	f->truth[2] = false;
	expand(f);
	assert_false(f->named[2]);
	assert_true(f->named[1] && f->named[3]);
	assert_true(answers(f, x, "nynynnnn"));
	/* an admin port that fails changes nothing */
	f->down = true;
	expand(f);
	assert_true(f->named[1] && f->named[3]);
	assert_int_equal(f->sizes[1], 0);
	strait_exist_close(x);
}

static void state_directory_is_of_one_process_alone(void **state)
{
	struct fixture *f = *state;
	struct site_config first = *f->cfg, second = *f->cfg;
	struct site_tenant_config silent = f->cfg->tenants[0];
	struct site_node *a, *b;
	char recall[128], err[300];

	silent.socket = NULL;
	first.tenants = second.tenants = &silent;
	first.state_dir = second.state_dir = f->dir;
	a = site_node_create(f->base, &first, err, sizeof(err));
	assert_non_null(a);
	b = site_node_create(f->base, &second, err, sizeof(err));
	assert_null(b);
	assert_int_equal(errno, EBUSY);
	assert_non_null(strstr(err, "another strait-master uses it"));
	site_node_destroy(a);
	second.state_dir = (char[]){ "/nonexistent" };
	assert_null(site_node_create(f->base, &second, err, sizeof(err)));
	assert_non_null(strstr(err, "/nonexistent: No such file"));
	second.state_dir = f->dir;
	b = site_node_create(f->base, &second, err, sizeof(err));
	assert_non_null(b);
	site_node_destroy(b);
	snprintf(recall, sizeof(recall), "%s/recall", f->dir);
	unlink(recall);
}

static void configuration_mistakes_name_file_and_line(void **state)
{
	struct fixture *f = *state;
	char path[160], text[600], err[300];
	static const struct {
		const char *yaml, *want;
	} bad[] = {
		{ "site: A!\n", "missing" },
		{ "site: a\nsecret: /nonexistent\nsources:\n  - { name: m, events: x, admin: "
		  "http://x }\ntenants:\n  - { name: t }\n",
			":2" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: m, events: x, admin: y }\n"
		  "tenants:\n  - { name: t }\n",
			":4" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: m, events: x, admin: "
		  "http://x }\ntenants:\n  - { name: t }\n  - { name: t }\n",
			":7" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, engine: trt, events: x }\n"
		  "tenants:\n  - { name: default }\n",
			":4: sources[0].engine: use vllm or sglang" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, engine: vllm, events: x }\n"
		  "tenants:\n  - { name: default }\n",
			"sources[0].keys: needed" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - name: v\n    engine: vllm\n"
		  "    events: x\n    keys: [\"{hash}\", \"{rank}\"]\n"
		  "tenants:\n  - { name: default }\n",
			":7: sources[0].keys: {rank}: needs {hash}" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: m, events: x, admin: "
		  "http://x, replay: y }\ntenants:\n  - { name: t }\n",
			"give engine" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x, list_every: 5s }\n"
		  "tenants:\n  - { name: default }\n",
			"list_every is for Mooncake masters" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "  - { name: v, pool: y }\ntenants:\n  - { name: default }\n",
			":5: sources[1]: source v is listed twice" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default, socket: /s }\n  - { name: t, socket: /s }\n",
			":7: tenants[1].socket: is that of tenant default" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: \"a\\nb\" }\n  - { name: default }\n",
			":6: tenants[0].name: a tenant is UTF-8" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default }\n  - { name: "
		  "x1234567890123456789012345678901234567890123456789012345678901234 }\n",
			":7: tenants[1].name: a tenant has 1 to 64 bytes" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: t, socket: /s, users: [root, no-one] }\n"
		  "  - { name: default }\n",
			":6: tenants[0].users: this machine knows no user of that name or "
			"number: no-one" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default, socket: /s, users: [4294967295] }\n",
			":6: tenants[0].users: this machine knows no user" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: t, socket: /s, users: [root], groups: [no-one] }\n"
		  "  - { name: default }\n",
			":6: tenants[0].groups: this machine knows no group of that name or "
			"number: no-one" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default, groups: [root] }\n",
			":6: tenants[0].groups: is of those who ask over a socket: give socket" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "  - { name: w, pool: x, tenant: t }\ntenants:\n  - { name: default }\n"
		  "  - { name: t }\n",
			":5: sources[1]: x is the pool of source v, too: a pool is of one tenant" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default }\nnegative_for: 2h\n",
			":7: negative_for: must be" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default }\nevicted_for: 0\n",
			":7: evicted_for: must be 1.00 s to 90" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default }\nevicted_for: 91d\n",
			":7: evicted_for: must be 1.00 s to 90" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default }\nmax_age: 0\n",
			":7: max_age: must be 100 ms" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default }\nmemory: 0\n",
			":7: memory: must be 1M or more" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default }\nkeys: -1\n",
			":7: keys: must be 1 to 10000000000" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: v, pool: x }\n"
		  "tenants:\n  - { name: default }\nmax_age: 200000d\n",
			":7: max_age: must be 100 ms to 365" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: m, events: x, admin: "
		  "http://x, list_every: 200000d }\ntenants:\n  - { name: default }\n",
			":4: sources[0].list_every: must be 1.00 s to 365" },
		{ "site: a\nsecret: %s/secret\nsources:\n  - { name: \"\\e[31m\", pool: x }\n"
		  "tenants:\n  - { name: default }\n",
			":4: sources[0].name: a name is UTF-8" },
	};

	snprintf(path, sizeof(path), "%s/bad.yaml", f->dir);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *hole = strstr(bad[i].yaml, "%s");

		if (hole != NULL)
			snprintf(text, sizeof(text), "%.*s%s%s", (int)(hole - bad[i].yaml),
				bad[i].yaml, f->dir, hole + 2);
		else
			snprintf(text, sizeof(text), "%s", bad[i].yaml);
		assert_int_equal(file_write_atomic(path, text, strlen(text), 0600), 0);
		assert_null(site_config_load(path, err, sizeof(err)));
		assert_int_equal(errno, EINVAL);
		assert_non_null(strstr(err, "bad.yaml"));
		if (strstr(err, bad[i].want) == NULL)
			fail_msg("\"%s\" has no \"%s\"", err, bad[i].want);
	}
	unlink(path);
}

static void each_tenant_has_a_key_of_its_own(void **state)
{
	struct digest_key a, b, c;

	(void)state;
	assert_int_equal(site_tenant_key("0123456789abcdef", 16, "default", &a), 0);
	assert_int_equal(site_tenant_key("0123456789abcdef", 16, "other", &b), 0);
	assert_int_equal(site_tenant_key("0123456789abcdef", 16, "default", &c), 0);
	assert_memory_not_equal(a.bytes, b.bytes, 16);
	assert_memory_equal(a.bytes, c.bytes, 16);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(site_answers_for_its_caches_and_says_when_it_cannot),
		TEST(what_could_not_be_fetched_is_said_not_to_be_there_until_it_comes),
		TEST(keys_are_named_with_sizes_unless_they_went_in_silence),
		TEST(state_directory_is_of_one_process_alone),
		TEST(configuration_mistakes_name_file_and_line),
		cmocka_unit_test(each_tenant_has_a_key_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
