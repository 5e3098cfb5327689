/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/client/exist_wire.h"
#include "control/site/exist_server.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Answers in the memory that a site master lends, as clients of libstrait have them. */

#define SECOND UINT64_C(1000000000)
#define ALWAYS (UINT64_MAX / 2) /* a beat of a master that lives as long as the test */

enum { KEYS = 1000 };

struct fixture {
	char dir[64], path[96];
	struct digest_key secret;
	struct index *index;
	struct existence *e;
	struct exist_server *server;
};

static bool tenant(const struct exist_peer *who, struct digest_key *out, void *ctx)
{
	*out = *(const struct digest_key *)ctx;
	return who->uid == getuid();
}

static struct digest128 digest(const struct fixture *f, int i)
{
	char key[16];
	int len = snprintf(key, sizeof(key), "key-%04d", i);

	return digest_of_key(&f->secret, key, (size_t)len);
}

/* A master with the even keys; or the odd ones. */
static void serve(struct fixture *f, int first)
{
	const struct exist_server_config cfg = { .path = f->path,
		.mode = 0600,
		.threads = 1,
		.clients_max = 8,
		.tenant = tenant,
		.ctx = &f->secret };
	char err[128];

	f->index = index_create_shared(0, 0, EXISTENCE_SHARED);
	f->e = malloc(sizeof(*f->e));
	assert_true(f->index != NULL && f->e != NULL);
	for (int i = first; i < KEYS; i += 2)
		assert_int_equal(index_update(f->index, digest(f, i), 0, INDEX_PRESENT(0), NULL,
					 NULL),
			0);
	existence_init(f->e, f->index, INDEX_PRESENT_MASK, 5 * SECOND);
	existence_current(f->e, 77, clock_now_ns());
	existence_beat(f->e, ALWAYS);
	f->server = exist_server_start(f->e, &cfg, err, sizeof(err));
	if (f->server == NULL)
		fail_msg("%s", err);
}

static void serve_no_more(struct fixture *f)
{
	existence_beat(f->e, 0);
	exist_server_stop(f->server);
	index_destroy(f->index);
	free(f->e);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->dir, sizeof(f->dir), "/tmp/strait-memory-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/sock", f->dir);
	f->secret.bytes[0] = 1;
	serve(f, 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	serve_no_more(f);
	rmdir(f->dir);
	free(f);
	return 0;
}

struct keys {
	char text[KEYS][16];
	struct strait_key k[KEYS];
};

static void keys_make(struct keys *k)
{
	for (int i = 0; i < KEYS; i++)
		k->k[i] = (struct strait_key){ k->text[i],
			(size_t)snprintf(k->text[i], 16, "key-%04d", i) };
}

static uint64_t requests(struct fixture *f)
{
	struct exist_server_stats st;

	exist_server_stats_get(f->server, &st);
	return st.requests;
}

/* "yn" and so on of the first keys. */
static const char *say(struct strait_exist *x, const struct keys *k, size_t n)
{
	static char text[KEYS + 1];
	uint8_t a[KEYS];

	if (strait_exist_batch(x, k->k, n, a, NULL) < 0)
		return "error";
	for (size_t i = 0; i < n; i++)
		text[i] = "ny?"[a[i]];
	text[n] = '\0';
	return text;
}

static void answers_in_memory_are_those_of_the_socket_and_ask_nobody(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	static const size_t sizes[] = { 0, 1, 3, 63, 64, 65, 1000 };
	struct strait_exist_age age[2];
	uint8_t a[2][KEYS];
	size_t first[2];
	struct keys k;

	keys_make(&k);
	assert_non_null(x);
	assert_true(strait_exist_is_mapped(x));
	existence_current(f->e, 78, clock_now_ns() - SECOND);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (int way = 0; way < 2; way++) {
			uint64_t before = requests(f);

			existence_beat(f->e, way == 0 ? ALWAYS : 0);
			assert_int_equal(strait_exist_is_mapped(x), way == 0);
			assert_int_equal(strait_exist_batch(x, k.k, sizes[s], a[way], &age[way]),
				0);
			assert_int_equal(strait_exist_prefix(x, k.k, sizes[s], &first[way], NULL),
				0);
			assert_int_equal(requests(f) - before, way == 0 || s == 0 ? 0 : 2);
		}
		assert_memory_equal(a[0], a[1], sizes[s]);
		assert_int_equal(first[0], first[1]);
		assert_int_equal(age[0].as_of, age[1].as_of);
		if (sizes[s] > 0)
			assert_true(age[0].age_ns >= SECOND && age[0].age_ns < 5 * SECOND);
	}
	strait_exist_close(x);
}

static void nothing_is_known_in_memory_when_the_view_is_lost_or_old(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys k;

	keys_make(&k);
	assert_string_equal(say(x, &k, 3), "yny");
	existence_lost(f->e);
	assert_string_equal(say(x, &k, 3), "???");
	existence_current(f->e, 79, clock_now_ns());
	existence_partial(f->e, true);
	assert_string_equal(say(x, &k, 3), "y?y");
	existence_partial(f->e, false);
	existence_current(f->e, 79, clock_now_ns() - 6 * SECOND);
	assert_string_equal(say(x, &k, 3), "???");
	assert_int_equal(requests(f), 0);
	strait_exist_close(x);
}

static void what_could_not_be_fetched_is_absent_until_it_comes(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct digest128 missed[8];
	struct keys k;

	keys_make(&k);
	existence_negative(f->e, digest(f, 2), clock_now_ns() + 3600 * SECOND);
	existence_negative(f->e, digest(f, 1), clock_now_ns() + 3600 * SECOND);
	assert_string_equal(say(x, &k, 5), "ynnny");
	existence_beat(f->e, 0);
	assert_string_equal(say(x, &k, 5), "ynnny");
	/* of those only what was not tried lately is worth an order */
	assert_int_equal(exist_server_missed(f->server, missed, 8), 2);
	assert_true(digest_equal(missed[0], digest(f, 3)));
	existence_beat(f->e, ALWAYS);
	existence_arrived(f->e, digest(f, 4));
	existence_arrived(f->e, digest(f, 2));
	assert_string_equal(say(x, &k, 5), "ynyny");
	existence_negative(f->e, digest(f, 2), clock_now_ns() - SECOND);
	assert_string_equal(say(x, &k, 5), "ynyny");
	for (uint64_t days = 1; days < 13; days++)
		assert_false(exist_view_is_negative(&f->e->view, digest(f, 2),
			clock_now_ns() + days * 86400 * SECOND));
	strait_exist_close(x);
}

/* The server's thread takes what was sent before; then the next answer is behind it. */
static size_t missed_get(struct fixture *f, struct strait_exist *x, const struct keys *k,
	struct digest128 *out)
{
	size_t n;

	existence_beat(f->e, 0);
	(void)say(x, k, 1); /* is there: no miss of its own */
	n = exist_server_missed(f->server, out, 2000);
	existence_beat(f->e, ALWAYS);
	return n;
}

static void what_is_missed_in_memory_is_told_and_a_flood_is_cut(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct digest128 *d = malloc(2000 * sizeof(*d));
	struct keys k;
	size_t first;

	keys_make(&k);
	assert_string_equal(say(x, &k, 4), "ynyn");
	assert_int_equal(missed_get(f, x, &k, d), 2);
	assert_true(digest_equal(d[1], digest(f, 3)));
	assert_int_equal(strait_exist_prefix(x, k.k, 4, &first, NULL), 0);
	assert_int_equal(first, 1);
	assert_int_equal(missed_get(f, x, &k, d), 1);
	for (int i = 0; i < 100; i++)
		assert_string_not_equal(say(x, &k, KEYS), "error");
	assert_true(missed_get(f, x, &k, d) <= 1024);
	existence_lost(f->e);
	assert_string_equal(say(x, &k, 4), "????");
	existence_current(f->e, 80, clock_now_ns());
	assert_int_equal(missed_get(f, x, &k, d), 0);
	strait_exist_close(x);
	free(d);
}

static unsigned int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[400];
	unsigned int n = 0;

	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, "strait-existence") != NULL && strstr(line, " r--s ") != NULL;
	fclose(maps);
	return n;
}

static void client_follows_a_master_that_starts_again_and_keeps_nothing_of_the_old(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys k;

	keys_make(&k);
	for (int round = 0; round < 10; round++) {
		assert_string_equal(say(x, &k, 4), round % 2 == 0 ? "ynyn" : "nyny");
		assert_true(strait_exist_is_mapped(x));
		assert_int_equal(mappings(), 1);
		serve_no_more(f);
		assert_string_equal(say(x, &k, 4), "error");
		f->secret.bytes[1]++; /* another deployment, even */
		serve(f, (round + 1) % 2);
	}
	strait_exist_close(x);
	assert_int_equal(mappings(), 0);
}

struct asker {
	struct strait_exist *x;
	const struct keys *k;
	_Atomic bool stop;
	_Atomic uint64_t wrong, asked;
};

/* Keys that every master has are there, or nothing is known. */
static void *ask(void *arg)
{
	struct asker *q = arg;
	uint8_t a[64];

	while (!q->stop) {
		int ret = strait_exist_batch(q->x, q->k->k, 64, a, NULL);

		for (int i = 0; i < 64; i++)
			if (ret < 0 ? a[i] != STRAIT_EXIST_UNKNOWN
				    : a[i] != (i % 2 ? STRAIT_EXIST_NO : STRAIT_EXIST_YES))
				q->wrong++;
		q->asked++;
	}
	return NULL;
}

static void threads_inside_are_never_left_without_the_memory_they_read(void **state)
{
	struct fixture *f = *state;
	struct asker q = { .x = strait_exist_open(f->path, 2000) };
	pthread_t t[3];
	struct keys k;

	keys_make(&k);
	q.k = &k;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, ask, &q), 0);
	for (int round = 0; round < 40; round++) {
		uint64_t until = q.asked + 50;

		while (q.asked < until)
			sched_yield();
		serve_no_more(f);
		serve(f, 0);
	}
	q.stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(q.wrong, 0);
	strait_exist_close(q.x);
}

/* Of a killed master: its memory stays as it was, without a beat, and then age tells. */
static void killed_master_is_believed_for_a_second_and_then_nothing_is_known(void **state)
{
	struct fixture *f = *state;
	uint64_t begin, said = 0;
	struct strait_exist *x;
	pid_t master;
	struct keys k;
	int go[2];
	char c;

	keys_make(&k);
	serve_no_more(f);
	assert_int_equal(pipe(go), 0);
	master = fork();
	if (master == 0) {
		serve(f, 0);
		existence_beat(f->e, clock_now_ns());
		if (write(go[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(go[0], &c, 1), 1);
	x = strait_exist_open(f->path, 2000);
	assert_non_null(x);
	begin = clock_now_ns();
	kill(master, SIGKILL);
	waitpid(master, NULL, 0);
	/* a second at most, whatever became of the writer */
	for (const char *got = say(x, &k, 2); strcmp(got, "error") != 0; got = say(x, &k, 2)) {
		if (!strait_exist_is_mapped(x))
			continue;
		assert_string_equal(got, "yn");
		said++;
	}
	assert_true(clock_now_ns() - begin < 2 * SECOND);
	assert_true(said > 0);
	strait_exist_close(x);
	close(go[0]);
	close(go[1]);
	unlink(f->path);
	serve(f, 0);
}

static void forked_child_is_told_to_open_its_own(void **state)
{
	struct fixture *f = *state;
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct keys k;
	pid_t child;
	int status;
	uint8_t a[4];

	keys_make(&k);
	child = fork();
	if (child == 0)
		_exit(strait_exist_batch(x, k.k, 4, a, NULL) == -ECHILD &&
					a[0] == STRAIT_EXIST_UNKNOWN && !strait_exist_is_mapped(x)
				? 7
				: 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_string_equal(say(x, &k, 4), "ynyn");
	strait_exist_close(x);
}

/* ---- peers of other versions ---- */

struct old_server {
	int listener;
	struct digest_key secret;
	unsigned int closed;
};

/* Of before there was memory to lend: closes at what it does not know, and ends after an answer. */
static void *old_server(void *arg)
{
	struct old_server *s = arg;
	struct exist_hello hello = { EXIST_MAGIC, 1, EXIST_KEYS_MAX, { 0 } };
	uint8_t in[EXIST_REQUEST_MAX];

	memcpy(hello.digest_key, s->secret.bytes, sizeof(hello.digest_key));
	for (int c = 0; c < 2; c++) {
		int fd = accept(s->listener, NULL, NULL);
		ssize_t n = send(fd, &hello, sizeof(hello), 0);

		if ((n = recv(fd, in, sizeof(in), 0)) > 0) {
			struct exist_reply r = { .n = 1 };
			struct exist_request q;
			uint8_t out[sizeof(r) + 1];

			memcpy(&q, in, sizeof(q));
			r.id = q.id;
			memcpy(out, &r, sizeof(r));
			out[sizeof(r)] = STRAIT_EXIST_YES;
			if ((q.flags & ~EXIST_PREFIX) != 0 || q.n == 0)
				s->closed++;
			else
				n = send(fd, out, sizeof(out), MSG_NOSIGNAL);
		}
		close(fd);
	}
	return NULL;
}

static void server_that_lends_no_memory_is_asked_over_the_socket_until_one_that_does(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct old_server s = { .secret = f->secret };
	struct strait_exist *x;
	pthread_t t;
	struct keys k;

	keys_make(&k);
	serve_no_more(f);
	memcpy(a.sun_path, f->path, strlen(f->path));
	s.listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(bind(s.listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(s.listener, 8), 0);
	assert_int_equal(pthread_create(&t, NULL, old_server, &s), 0);
	x = strait_exist_open(a.sun_path, 2000);
	assert_non_null(x);
	assert_false(strait_exist_is_mapped(x));
	assert_string_equal(say(x, &k, 1), "y");
	pthread_join(t, NULL);
	assert_int_equal(s.closed, 1);
	close(s.listener);
	serve(f, 0);
	assert_string_equal(say(x, &k, 4), "ynyn");
	assert_true(strait_exist_is_mapped(x));
	strait_exist_close(x);
}

static void client_of_before_and_one_that_is_wrong_are_answered_by_the_socket(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct strait_exist *x = strait_exist_open(f->path, 2000);
	struct exist_request bad[] = { { 1, 1, EXIST_MAP }, { 1, 0, EXIST_MISSED },
		{ 1, 1, EXIST_MISSED | EXIST_PREFIX }, { 1, 0, EXIST_MAP | EXIST_PREFIX } };
	uint8_t buf[64];
	struct keys k;

	keys_make(&k);
	memcpy(a.sun_path, f->path, strlen(f->path));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		size_t len = sizeof(bad[i]) + bad[i].n * 16u;

		assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
		assert_int_equal(recv(fd, buf, sizeof(buf), 0), sizeof(struct exist_hello));
		memset(buf, 0, sizeof(buf));
		memcpy(buf, &bad[i], sizeof(bad[i]));
		assert_int_equal(send(fd, buf, len, 0), len);
		assert_int_equal(recv(fd, buf, sizeof(buf), 0), 0);
		close(fd);
	}
	assert_string_equal(say(x, &k, 4), "ynyn");
	strait_exist_close(x);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(answers_in_memory_are_those_of_the_socket_and_ask_nobody),
		TEST(nothing_is_known_in_memory_when_the_view_is_lost_or_old),
		TEST(what_could_not_be_fetched_is_absent_until_it_comes),
		TEST(what_is_missed_in_memory_is_told_and_a_flood_is_cut),
		TEST(client_follows_a_master_that_starts_again_and_keeps_nothing_of_the_old),
		TEST(threads_inside_are_never_left_without_the_memory_they_read),
		TEST(killed_master_is_believed_for_a_second_and_then_nothing_is_known),
		TEST(forked_child_is_told_to_open_its_own),
		TEST(server_that_lends_no_memory_is_asked_over_the_socket_until_one_that_does),
		TEST(client_of_before_and_one_that_is_wrong_are_answered_by_the_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
