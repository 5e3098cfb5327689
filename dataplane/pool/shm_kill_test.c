/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_check.h"
#include "dataplane/pool/shm_pool.h"
#include "dataplane/pool/shm_testing.h"

#include <strait/strait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

/*
 * Processes put, read, remove, leave partial objects, adopt them and evict each other's in one
 * crowded pool; one of them is killed after a random number of its operations and replaced, again
 * and again. A value follows from its key, so a reader whose leased bytes were reused, a half
 * visible object and a wrongly adopted one all show. After each kill the parent verifies every
 * invariant and every visible object while the others go on.
 */

#define POOL_BYTES (6u << 20)
#define WORKERS    4u
#define KEYS       240u /* of these the first ones hold real objects, */
#define BIG_KEYS   200u /* the others a few bytes */
#define HELD       4u
#define KILLS      4000u
#define SECONDS    4

struct progress {
	_Atomic uint64_t operations;
};

static struct testing_dir dir;
static struct progress *progress;
static uint64_t kills_max = KILLS, seconds_max = SECONDS;

static size_t length_of(uint64_t id)
{
	uint64_t state = id * 77;

	if (id >= BIG_KEYS)
		return 1 + id % 40;
	/* Many small ones and a few that fragment the arena. */
	if (id % 16 == 0)
		return 200000 + testing_below(&state, 300000);
	return 1 + testing_below(&state, id % 16 == 1 ? 60000 : 600);
}

/* A worker found the pool wrong. */
__attribute__((noreturn)) static void worker_fail(const char *what, uint64_t id, int rc)
{
	fprintf(stderr, "worker %d: %s, key %llu, %d\n", (int)getpid(), what,
		(unsigned long long)id, rc);
	_exit(3);
}

static void work_put(struct strait_pool *pool, uint64_t id)
{
	struct strait_writer w;
	int rc = strait_put_begin(pool, &id, sizeof(id), length_of(id), &w);

	if (rc != 0) {
		if (rc != -EEXIST && rc != -EBUSY && rc != -ENOSPC)
			worker_fail("put", id, rc);
		return;
	}
	testing_fill(w.data, id, 0, w.len);
	rc = strait_put_commit(pool, &w);
	if (rc != 0)
		worker_fail("commit", id, rc);
}

/* Like an edge: bytes first, then how far they reach. */
static void work_receive(struct pool *pool, uint64_t id, uint64_t *random)
{
	struct pool_object object;
	size_t len = length_of(id), at;
	uint64_t *have;
	int rc = pool_reserve(pool, &id, sizeof(id), len, id, &object);

	if (rc != 0) {
		if (rc != -EEXIST && rc != -EBUSY && rc != -ENOSPC)
			worker_fail("reserve", id, rc);
		return;
	}
	have = object.resume;
	if (*have > len || (!object.resumed && *have != 0))
		worker_fail("resume area", id, object.resumed);
	if (!testing_is_object(object.data, id, 0, *have))
		worker_fail("adopted bytes", id, object.resumed);
	while (*have < len) {
		at = *have + 4096 < len ? *have + 4096 : len;
		testing_fill(object.data, id, *have, at);
		__atomic_store_n(have, at, __ATOMIC_RELEASE);
		if (testing_below(random, 8) == 0) {
			pool_abandon(pool, object.handle, testing_below(random, 4) != 0);
			return;
		}
	}
	rc = pool_publish(pool, object.handle, strait_digest(object.data, len));
	if (rc != 0)
		worker_fail("publish", id, rc);
}

static void work_read(struct pool *pool, uint64_t id, struct pool_object *slot, uint64_t *held)
{
	int rc;

	if (slot->handle != 0) {
		if (!testing_is_object(slot->data, *held, 0, slot->len))
			worker_fail("leased bytes changed", *held, 0);
		pool_release(pool, slot->handle);
		slot->handle = 0;
		return;
	}
	rc = pool_lease(pool, &id, sizeof(id), slot);
	if (rc != 0) {
		slot->handle = 0;
		if (rc != -ENOENT)
			worker_fail("lease", id, rc);
		return;
	}
	*held = id;
	if (slot->len != length_of(id) || !testing_is_object(slot->data, id, 0, slot->len))
		worker_fail("wrong bytes", id, 0);
}

/* Little but critical sections, so that a good part of the kills strikes one. */
static void work_metadata(struct strait_pool *client, struct pool *pool, uint64_t *random)
{
	for (unsigned int i = 0; i < 40; i++) {
		uint64_t id = BIG_KEYS + testing_below(random, KEYS - BIG_KEYS);
		struct pool_object object;

		work_put(client, id);
		if (pool_lease(pool, &id, sizeof(id), &object) == 0)
			pool_release(pool, object.handle);
		if (i % 2 == 0)
			pool_remove(pool, &id, sizeof(id));
	}
}

__attribute__((noreturn)) static void worker_run(unsigned int number, uint64_t random)
{
	const struct shm_pool_options options = { .create = false };
	struct pool *pool = shm_pool_open(dir.file, &options, NULL, 0);
	struct strait_pool *client = strait_pool_open(dir.file, 0, 0);
	struct pool_object slot[HELD] = { 0 };
	uint64_t held[HELD] = { 0 };

	if (pool == NULL || client == NULL)
		worker_fail("open", 0, errno);
	for (;;) {
		uint64_t id = testing_below(&random, BIG_KEYS), i;
		int rc;

		switch (testing_below(&random, 10)) {
		case 0:
		case 1:
			work_put(client, id);
			break;
		case 2:
		case 3:
			work_receive(pool, id, &random);
			break;
		case 4:
			rc = pool_remove(pool, &id, sizeof(id));
			if (rc != 0 && rc != -ENOENT && rc != -EBUSY)
				worker_fail("remove", id, rc);
			break;
		case 5:
		case 6:
			work_metadata(client, pool, &random);
			break;
		default:
			i = testing_below(&random, HELD);
			work_read(pool, id, &slot[i], &held[i]);
		}
		atomic_fetch_add(&progress[number].operations, 1);
	}
}

static pid_t worker_start(unsigned int number, uint64_t seed)
{
	pid_t pid = fork();

	if (pid == 0) {
		/* A failed test leaves without ending them. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		worker_run(number, seed);
	}
	assert_true(pid > 0);
	return pid;
}

/* The digest of every visible object and, as that takes longer, every byte only if asked to. */
static void verify(struct pool *pool, bool bytes)
{
	struct pool_object object;
	char why[128];
	int rc = shm_check(shm_pool_file(pool), why, sizeof(why));

	if (rc != 0)
		fail_msg("%d %s", rc, why);
	for (uint64_t id = 0; id < KEYS; id++) {
		rc = pool_lease(pool, &id, sizeof(id), &object);
		if (rc == -ENOENT)
			continue;
		assert_int_equal(rc, 0);
		assert_int_equal(object.len, length_of(id));
		if (strait_digest(object.data, object.len) != object.digest ||
			(bytes && !testing_is_object(object.data, id, 0, object.len)))
			fail_msg("key %llu: visible with wrong bytes", (unsigned long long)id);
		pool_release(pool, object.handle);
	}
}

static uint64_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec;
}

/*
 * Until the worker has done some more operations, then a moment into the next one. False: it had
 * found an error.
 */
static bool wait_and_kill(pid_t pid, unsigned int number, uint64_t *random)
{
	uint64_t target = atomic_load(&progress[number].operations) + testing_below(random, 30);
	int status;

	while (atomic_load(&progress[number].operations) < target) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return false;
		sched_yield();
	}
	for (volatile uint64_t spin = testing_below(random, 4000); spin > 0; spin--)
		;
	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

static void pool_survives_any_kill(void **state)
{
	const struct shm_pool_options options = { .create = true, .create_size_bytes = POOL_BYTES };
	const struct shm_header *hdr;
	struct strait_pool_stats s;
	uint64_t random = 4711, seed = 1, deadline = now_s() + seconds_max;
	pid_t worker[WORKERS];
	struct pool *pool;
	unsigned int kills = 0;
	bool well = true;

	(void)state;
	assert_true(testing_dir_create(&dir));
	pool = shm_pool_open(dir.file, &options, NULL, 0);
	assert_non_null(pool);
	hdr = shm_pool_file(pool)->hdr;
	progress = mmap(NULL, WORKERS * sizeof(*progress), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(progress != MAP_FAILED);
	for (unsigned int i = 0; i < WORKERS; i++)
		worker[i] = worker_start(i, seed++);
	/* On a busy machine few kills fit in, so go on until one struck a lock. */
	for (; well && kills < kills_max; kills++) {
		unsigned int victim = (unsigned int)testing_below(&random, WORKERS);

		if (now_s() >= deadline &&
			(hdr->counters.recoveries > 0 || now_s() >= deadline + 15))
			break;
		well = wait_and_kill(worker[victim], victim, &random);
		verify(pool, kills % 16 == 0);
		worker[victim] = worker_start(victim, seed++);
	}
	for (unsigned int i = 0; i < WORKERS; i++) {
		kill(worker[i], SIGKILL);
		waitpid(worker[i], NULL, 0);
	}
	assert_true(well);
	verify(pool, true);
	shm_pool_file(pool)->next_reap_ns = 0;
	assert_int_equal(pool_renew(pool), 0);
	verify(pool, true);
	assert_int_equal(pool_stats(pool, &s), 0);
	print_message("%u kills, %llu recoveries, reclaimed %llu leases and %llu writes, "
		      "%llu adopted, %llu puts, %llu evictions\n",
		kills, (unsigned long long)s.recoveries, (unsigned long long)s.reclaimed_leases,
		(unsigned long long)s.reclaimed_writes, (unsigned long long)s.partials_adopted,
		(unsigned long long)s.puts, (unsigned long long)s.evictions);
	assert_int_equal(s.clients, 1);
	assert_int_equal(s.leased + s.writing + s.doomed, 0);
	assert_true(s.recoveries > 0 && s.reclaimed_leases > 0 && s.reclaimed_writes > 0);
	assert_true(s.partials_adopted > 0 && s.evictions > 0);
	pool_destroy(pool);
	testing_dir_remove(&dir);
}

/* Arguments for long runs by hand: seconds. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pool_survives_any_kill),
	};

	if (argc > 1) {
		seconds_max = strtoull(argv[1], NULL, 10);
		kills_max = UINT64_MAX;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
