/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/exist_server.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/client/exist_wire.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

static const struct digest_key secret = { { 1, 2, 3 } };

struct fixture {
	char dir[64], path[96];
	struct index *index;
	struct existence e;
	struct exist_server *server;
	bool refuse;
	char err[128];
};

static bool tenant(const struct exist_peer *who, struct digest_key *out, void *ctx)
{
	const struct fixture *f = ctx;

	*out = secret;
	return who->uid == getuid() && !f->refuse;
}

static void serve(struct fixture *f)
{
	const struct exist_server_config cfg = { .path = f->path,
		.mode = 0600,
		.threads = 2,
		.clients_max = 8,
		.tenant = tenant,
		.ctx = f };

	f->server = exist_server_start(&f->e, &cfg, f->err, sizeof(f->err));
	assert_non_null(f->server);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->dir, sizeof(f->dir), "/tmp/strait-exist-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/sock", f->dir);
	f->index = index_create(0);
	for (int i = 0; i < 1000; i += 2) {
		char key[16];
		int len = snprintf(key, sizeof(key), "key-%d", i);

		assert_int_equal(index_update(f->index, digest_of_key(&secret, key, (size_t)len), 0,
					 INDEX_PRESENT(0), NULL, NULL),
			0);
	}
	existence_init(&f->e, f->index, INDEX_PRESENT_MASK, 5 * SECOND);
	existence_current(&f->e, 77, clock_now_ns());
	serve(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	exist_server_stop(f->server);
	assert_int_equal(access(f->path, F_OK), -1);
	index_destroy(f->index);
	rmdir(f->dir);
	free(f);
	return 0;
}

struct keys {
	char text[10000][16];
	struct strait_key k[10000];
};

static struct keys *keys_make(int first, int step, int n)
{
	struct keys *k = malloc(sizeof(*k));

	for (int i = 0; i < n; i++) {
		int len = snprintf(k->text[i], 16, "key-%d", first + i * step);

		k->k[i] = (struct strait_key){ k->text[i], (size_t)len };
	}
	return k;
}

static void answers_of_any_number_of_keys_are_those_of_the_index(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys *k = keys_make(0, 1, 10000);
	uint8_t answers[10000];
	static const size_t sizes[] = { 0, 1, 3, 64, 4096, 4097, 10000 };
	struct strait_exist_age age;

	assert_non_null(x);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		assert_int_equal(strait_exist_batch(x, k->k, sizes[s], answers, &age), 0);
		for (size_t i = 0; i < sizes[s]; i++)
			assert_int_equal(answers[i],
				i < 1000 && i % 2 == 0 ? STRAIT_EXIST_YES : STRAIT_EXIST_NO);
		assert_int_equal(age.as_of, sizes[s] == 0 ? 0 : 77);
	}
	assert_int_equal(strait_exist_batch(x, NULL, 1, answers, NULL), -EINVAL);
	k->k[1].len = 0;
	assert_int_equal(strait_exist_batch(x, k->k, 2, answers, NULL), -EINVAL);
	assert_int_equal(answers[0], STRAIT_EXIST_UNKNOWN);
	strait_exist_close(x);
	free(k);
}

static void what_is_missed_is_told_to_the_planner(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys *k = keys_make(0, 1, 3000);
	struct digest128 *d = malloc(2000 * sizeof(*d));
	uint8_t answers[3000];
	size_t first;

	assert_non_null(x);
	assert_int_equal(strait_exist_batch(x, k->k, 4, answers, NULL), 0);
	assert_int_equal(exist_server_missed(f->server, d, 2000), 2);
	assert_true(digest_equal(d[0], digest_of_key(&secret, "key-1", 5)));
	assert_true(digest_equal(d[1], digest_of_key(&secret, "key-3", 5)));
	assert_int_equal(exist_server_missed(f->server, d, 2000), 0);
	/* of a prefix the first that is missing alone */
	assert_int_equal(strait_exist_prefix(x, k->k, 4, &first, NULL), 0);
	assert_int_equal(exist_server_missed(f->server, d, 2000), 1);
	/* a flood is cut, and what nobody knows is no miss */
	assert_int_equal(strait_exist_batch(x, k->k, 3000, answers, NULL), 0);
	assert_int_equal(exist_server_missed(f->server, d, 2000), 1024);
	existence_lost(&f->e);
	assert_int_equal(strait_exist_batch(x, k->k, 4, answers, NULL), 0);
	assert_int_equal(exist_server_missed(f->server, d, 2000), 0);
	strait_exist_close(x);
	free(d);
	free(k);
}

static void prefix_ends_at_the_first_key_that_is_not_there(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys *even = keys_make(0, 2, 10000), *all = keys_make(0, 1, 10);
	size_t first;

	assert_int_equal(strait_exist_prefix(x, even->k, 10000, &first, NULL), 0);
	assert_int_equal(first, 500);
	assert_int_equal(strait_exist_prefix(x, even->k, 200, &first, NULL), 0);
	assert_int_equal(first, 200);
	assert_int_equal(strait_exist_prefix(x, all->k, 10, &first, NULL), 0);
	assert_int_equal(first, 1);
	strait_exist_close(x);
	free(even);
	free(all);
}

static void nothing_is_known_while_the_view_is_not_whole_or_too_old(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys *k = keys_make(0, 1, 4);
	struct strait_exist_age age;
	uint8_t a[4];

	existence_lost(&f->e);
	assert_int_equal(strait_exist_batch(x, k->k, 4, a, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(a[i], STRAIT_EXIST_UNKNOWN);
	f->e.shared->complete_ns = 0; /* as after the start */
	assert_int_equal(strait_exist_batch(x, k->k, 4, a, &age), 0);
	assert_true(age.age_ns == UINT64_MAX);
	existence_current(&f->e, 78, clock_now_ns() - SECOND);
	assert_int_equal(strait_exist_batch(x, k->k, 4, a, &age), 0);
	assert_int_equal(a[0], STRAIT_EXIST_YES);
	assert_true(age.age_ns >= SECOND && age.as_of == 78);
	existence_current(&f->e, 78, clock_now_ns() - 6 * SECOND);
	assert_int_equal(strait_exist_batch(x, k->k, 4, a, &age), 0);
	assert_int_equal(a[0], STRAIT_EXIST_UNKNOWN);
	strait_exist_close(x);
	free(k);
}

static void of_a_part_nothing_is_said_to_be_absent(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys *k = keys_make(0, 1, 4);
	struct digest128 missed[8];
	uint8_t a[4];

	existence_partial(&f->e, true);
	assert_int_equal(strait_exist_batch(x, k->k, 4, a, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(a[i], i % 2 == 0 ? STRAIT_EXIST_YES : STRAIT_EXIST_UNKNOWN);
	assert_int_equal(exist_server_missed(f->server, missed, 8), 2); /* asked for all the same */
	existence_partial(&f->e, false);
	assert_int_equal(strait_exist_batch(x, k->k, 4, a, NULL), 0);
	assert_int_equal(a[1], STRAIT_EXIST_NO);
	strait_exist_close(x);
	free(k);
}

static void failed_fetch_makes_a_key_absent_for_a_while(void **state)
{
	struct fixture *f = *state;
	struct digest128 d = digest_of_key(&secret, "key-2", 5),
			 other = digest_of_key(&secret, "key-4", 5);
	struct exist_age age;
	uint64_t now = clock_now_ns();
	uint8_t a;

	existence_negative(&f->e, d, now + 3 * SECOND);
	existence_ask(&f->e, &d, 1, now, &a, &age);
	assert_int_equal(a, STRAIT_EXIST_NO);
	existence_ask(&f->e, &other, 1, now, &a, &age);
	assert_int_equal(a, STRAIT_EXIST_YES);
	existence_current(&f->e, 79, now + 5 * SECOND);
	existence_ask(&f->e, &d, 1, now + 5 * SECOND, &a, &age);
	assert_int_equal(a, STRAIT_EXIST_YES);
}

static void client_finds_a_restarted_server_and_a_stranger_none(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys *k = keys_make(0, 1, 2);
	uint8_t a[2];

	exist_server_stop(f->server);
	assert_true(strait_exist_batch(x, k->k, 2, a, NULL) < 0);
	assert_int_equal(a[0], STRAIT_EXIST_UNKNOWN);
	serve(f);
	assert_int_equal(strait_exist_batch(x, k->k, 2, a, NULL), 0);
	assert_int_equal(a[0], STRAIT_EXIST_YES);
	strait_exist_close(x);
	f->refuse = true;
	assert_null(strait_exist_open(f->path, 2000));
	assert_int_equal(errno, EACCES);
	assert_null(strait_exist_open("/nonexistent/sock", 2000));
	assert_int_equal(errno, ENOENT);
	free(k);
}

static void socket_that_answers_is_not_taken_from_who_has_it(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct exist_server_config cfg = { .path = f->path,
		.mode = 0600,
		.threads = 1,
		.clients_max = 8,
		.tenant = tenant,
		.ctx = f };
	struct keys *k = keys_make(0, 1, 4);
	uint8_t answers[4];
	char err[128];

	assert_non_null(x);
	assert_null(exist_server_start(&f->e, &cfg, err, sizeof(err)));
	assert_int_equal(errno, EADDRINUSE);
	assert_non_null(strstr(err, f->path));
	assert_int_equal(strait_exist_batch(x, k->k, 4, answers, NULL), 0);
	strait_exist_close(x);
	x = strait_exist_open(f->path, 2000);
	assert_non_null(x);
	strait_exist_close(x);
	free(k);
}

static void socket_of_another_stays_when_an_old_server_ends(void **state)
{
	struct fixture *f = *state;
	struct exist_server *old = f->server;
	struct strait_exist *x;

	assert_int_equal(unlink(f->path), 0); /* as by hand, or by a start in a race */
	serve(f);
	exist_server_stop(old);
	x = strait_exist_open(f->path, 2000);
	assert_non_null(x);
	strait_exist_close(x);
}

static void broken_request_ends_its_own_connection_alone(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys *k = keys_make(0, 1, 2);
	struct exist_request bad[] = { { 1, 0, 0 }, { 1, 3, 0 }, { 1, 4097, 0 }, { 1, 1, 6 } };
	uint8_t buf[sizeof(struct exist_request) + 16] = { 0 }, answers[2];

	memcpy(a.sun_path, f->path, strlen(f->path));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
		assert_int_equal(recv(fd, buf, sizeof(buf), 0), sizeof(struct exist_hello));
		memcpy(buf, &bad[i], sizeof(bad[i]));
		assert_int_equal(send(fd, buf, sizeof(buf), 0), sizeof(buf));
		assert_true(recv(fd, buf, sizeof(buf), 0) <= 0);
		close(fd);
	}
	assert_int_equal(strait_exist_batch(x, k->k, 2, answers, NULL), 0);
	strait_exist_close(x);
	free(k);
}

struct asker {
	const char *path;
	uint64_t wrong;
};

static void *ask(void *arg)
{
	struct asker *q = arg;
	struct strait_exist *x = strait_exist_open(q->path, 5000);
	struct keys *k = keys_make(0, 1, 64);
	uint8_t a[64];

	for (int round = 0; round < 500; round++) {
		if (strait_exist_batch(x, k->k, 64, a, NULL) < 0)
			q->wrong++;
		for (int i = 0; i < 64; i++)
			q->wrong += a[i] != (i % 2 ? STRAIT_EXIST_NO : STRAIT_EXIST_YES);
	}
	strait_exist_close(x);
	free(k);
	return NULL;
}

static void clients_at_once_get_their_own_answers_while_the_index_grows(void **state)
{
	struct fixture *f = *state;
	struct asker q[4] = { { 0 } };
	pthread_t t[4];
	struct exist_server_stats st;

	for (int i = 0; i < 4; i++) {
		q[i].path = f->path;
		assert_int_equal(pthread_create(&t[i], NULL, ask, &q[i]), 0);
	}
	for (uint64_t i = 0; i < 200000; i++)
		assert_int_equal(index_update(f->index,
					 (struct digest128){ i * UINT64_C(0x9e3779b97f4a7c15),
						 i * UINT64_C(0xbf58476d1ce4e5b9) },
					 0, INDEX_PRESENT(1), NULL, NULL),
			0);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(q[i].wrong, 0);
	}
	exist_server_stats_get(f->server, &st);
	assert_int_equal(st.requests, 2000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(answers_of_any_number_of_keys_are_those_of_the_index),
		TEST(prefix_ends_at_the_first_key_that_is_not_there),
		TEST(what_is_missed_is_told_to_the_planner),
		TEST(nothing_is_known_while_the_view_is_not_whole_or_too_old),
		TEST(of_a_part_nothing_is_said_to_be_absent),
		TEST(failed_fetch_makes_a_key_absent_for_a_while),
		TEST(client_finds_a_restarted_server_and_a_stranger_none),
		TEST(socket_that_answers_is_not_taken_from_who_has_it),
		TEST(socket_of_another_stays_when_an_old_server_ends),
		TEST(broken_request_ends_its_own_connection_alone),
		TEST(clients_at_once_get_their_own_answers_while_the_index_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
