/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_recover.h"

#include "dataplane/pool/shm_check.h"
#include "dataplane/pool/shm_object.h"
#include "dataplane/pool/shm_pool.h"
#include "dataplane/pool/shm_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/*
 * kill -9 at a chosen machine instruction. A child runs one operation under ptrace, is stepped to
 * instruction n and killed there; then the pool must be consistent, what was visible before must
 * be whole (or gone where the operation may remove it), and the next client must be able to work.
 * n is every instruction that changed a primary fact (shm_layout.h), so that no order of stores
 * goes untested, and some random ones.
 */

#define POOL_BYTES     (1u << 20)
#define RESIDENTS      12u
#define MAX_STEPS      400000
#define RECOVERY_STEPS 20000u /* about what one takes; several times as many with sanitizers */
#ifdef __SANITIZE_ADDRESS__
#define IS_SLOW true
#else
#define IS_SLOW false
#endif
#define TRACE_MAX    64u
#define RESIDENT_LEN 9000u

struct trace {
	unsigned int count;
	long at[TRACE_MAX];
};

static struct testing_dir dir;
static struct pool *pool;
static uint64_t random_state = 20260101;
static unsigned int random_points = 4; /* per operation; the first argument overrides it */

static struct pool *open_pool(void)
{
	const struct shm_pool_options options = { .create = true, .create_size_bytes = POOL_BYTES };

	return shm_pool_open(dir.file, &options, NULL, 0);
}

static int put(struct pool *p, uint64_t id, uint64_t len)
{
	struct pool_object object;
	int rc = pool_reserve(p, &id, sizeof(id), len, 0, &object);

	if (rc != 0)
		return rc;
	testing_fill(object.data, id, 0, len);
	return pool_publish(p, object.handle, strait_digest(object.data, len));
}

/* What the child prepares before it is traced, and what it is killed in. */
struct operation {
	const char *name;
	int (*prepare)(struct pool *p, struct pool_object *object);
	void (*run)(struct pool *p, struct pool_object *object);
	bool resident_may_go; /* number 0, or with evicts any */
	bool evicts;
	bool leaves_partial; /* key 1000 is adoptable after any kill */
};

static int prepare_nothing(struct pool *p, struct pool_object *object)
{
	(void)p;
	(void)object;
	return 0;
}

static int prepare_reserved(struct pool *p, struct pool_object *object)
{
	uint64_t id = 1000;
	int rc = pool_reserve(p, &id, sizeof(id), 5000, 77, object);

	if (rc != 0)
		return rc;
	testing_fill(object->data, id, 0, 5000);
	memcpy(object->resume, "mark", 4);
	return 0;
}

static int prepare_partial(struct pool *p, struct pool_object *object)
{
	int rc = prepare_reserved(p, object);

	if (rc == 0)
		pool_abandon(p, object->handle, true);
	return rc;
}

static int prepare_leased(struct pool *p, struct pool_object *object)
{
	uint64_t id = 0;

	return pool_lease(p, &id, sizeof(id), object);
}

static int prepare_doomed(struct pool *p, struct pool_object *object)
{
	uint64_t id = 0;
	int rc = prepare_leased(p, object);

	return rc != 0 ? rc : pool_remove(p, &id, sizeof(id));
}

static void run_put(struct pool *p, struct pool_object *object)
{
	(void)object;
	put(p, 1000, 50);
}

static void run_fresh_put(struct pool *p, struct pool_object *object)
{
	uint64_t id = 1000;

	if (shm_reserve(shm_pool_file(p), SHM_RESERVE_FRESH, &id, sizeof(id), 50, 0, object) == 0)
		pool_abandon(p, object->handle, true);
}

static void run_big_put(struct pool *p, struct pool_object *object)
{
	uint64_t id = 1000;

	if (pool_reserve(p, &id, sizeof(id), 760000, 0, object) == 0)
		pool_abandon(p, object->handle, false);
}

static void run_adopt(struct pool *p, struct pool_object *object)
{
	uint64_t id = 1000;

	if (pool_reserve(p, &id, sizeof(id), 5000, 77, object) == 0)
		pool_abandon(p, object->handle, true);
}

static void run_publish(struct pool *p, struct pool_object *object)
{
	pool_publish(p, object->handle, strait_digest(object->data, object->len));
}

static void run_lease(struct pool *p, struct pool_object *object)
{
	uint64_t id = 0;

	pool_lease(p, &id, sizeof(id), object);
}

static void run_release(struct pool *p, struct pool_object *object)
{
	pool_release(p, object->handle);
}

static void run_remove(struct pool *p, struct pool_object *object)
{
	uint64_t id = 0;

	(void)object;
	pool_remove(p, &id, sizeof(id));
}

static void run_close(struct pool *p, struct pool_object *object)
{
	(void)object;
	pool_destroy(p);
}

static void run_open(struct pool *p, struct pool_object *object)
{
	(void)p;
	(void)object;
	open_pool();
}

static const struct operation operations[] = {
	{ .name = "put", .prepare = prepare_nothing, .run = run_put },
	{ .name = "fresh put", .prepare = prepare_nothing, .run = run_fresh_put },
	{ .name = "evicting put", .prepare = prepare_nothing, .run = run_big_put, .evicts = true },
	{ .name = "adopt", .prepare = prepare_partial, .run = run_adopt, .leaves_partial = true },
	{ .name = "publish", .prepare = prepare_reserved, .run = run_publish },
	{ .name = "lease", .prepare = prepare_nothing, .run = run_lease },
	{ .name = "release", .prepare = prepare_leased, .run = run_release },
	{ .name = "release of a removed one",
		.prepare = prepare_doomed,
		.run = run_release,
		.resident_may_go = true },
	{ .name = "removal",
		.prepare = prepare_nothing,
		.run = run_remove,
		.resident_may_go = true },
	{ .name = "removal while leased",
		.prepare = prepare_leased,
		.run = run_remove,
		.resident_may_go = true },
	{ .name = "close", .prepare = prepare_reserved, .run = run_close, .leaves_partial = true },
	{ .name = "open", .prepare = prepare_nothing, .run = run_open },
};

/* Does not return. Stops itself right before the operation and right after it. */
static void traced_child(const struct operation *op)
{
	struct pool_object object = { .handle = 0 };
	struct pool *mine = open_pool();

	/* A failed test leaves without ending it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mine == NULL || op->prepare(mine, &object) != 0)
		_exit(1);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(2);
	raise(SIGSTOP);
	op->run(mine, &object);
	raise(SIGSTOP);
	_exit(0);
}

/* The child, stopped right before the operation; -1 if there is no ptrace here. */
static pid_t child_start(const struct operation *op)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		traced_child(op);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSTOPPED(status))
		return pid;
	assert_int_equal(WEXITSTATUS(status), 2);
	return -1;
}

/* Of all primary facts: two instants of equal sums differ in derived ones at most. */
static uint64_t primary_sum(void)
{
	const struct shm *shm = shm_pool_file(pool);
	uint64_t sum = shm->hdr->entry_top;

	for (uint32_t slot = 0; slot < 8; slot++)
		sum = sum * 31 + shm->hdr->client[slot].used;
	for (uint32_t idx = 0; idx < shm->hdr->entry_top; idx++) {
		const struct shm_entry *e = &shm->entries[idx];

		sum = sum * 31 + e->state;
		if (e->state == SHM_FREE)
			continue;
		sum = sum * 31 + (e->page ^ (uint64_t)e->npages << 32);
		sum = sum * 31 + (e->key_len ^ (uint32_t)e->flags << 16);
		sum = sum * 31 + e->len;
		sum = sum * 31 + e->digest;
		sum = sum * 31 + (e->state == SHM_WRITING ? e->owner : 0);
		for (unsigned int i = 0; i < SHM_LEASE_WORDS; i++)
			sum = sum * 31 + e->lease[i];
	}
	return sum;
}

/*
 * Step the child up to limit instructions, then kill it. Returns how many it took to its end, or
 * limit; in trace, if given, the numbers of those that changed a primary fact.
 */
static long child_step_and_kill(pid_t pid, long limit, struct trace *trace)
{
	uint64_t sum = primary_sum(), last = sum;
	long steps = 0;
	int status;

	for (; steps < limit; steps++) {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0)
			break;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) != SIGTRAP)
			break;
		if (trace != NULL)
			sum = primary_sum();
		if (sum != last && trace->count < TRACE_MAX)
			trace->at[trace->count++] = steps + 1;
		last = sum;
	}
	kill(pid, SIGKILL);
	do
		assert_int_equal(waitpid(pid, &status, 0), pid);
	while (!WIFSIGNALED(status));
	return steps;
}

/* Returns how many instructions were run, -1 if there is no ptrace here. */
static long run_and_kill(const struct operation *op, long limit, struct trace *trace)
{
	pid_t pid = child_start(op);

	return pid < 0 ? -1 : child_step_and_kill(pid, limit, trace);
}

/* The kernel has marked the lock's owner dead and nobody has taken it since (futex(2)). */
static bool lock_is_orphaned(void)
{
	const int *word = &shm_pool_file(pool)->hdr->lock.__data.__lock;

	return (__atomic_load_n(word, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED) != 0;
}

static void assert_consistent(const struct operation *op, long at)
{
	struct pool_object object;
	uint64_t id;
	char why[128];
	int rc;

	rc = shm_check(shm_pool_file(pool), why, sizeof(why));
	if (rc != 0)
		fail_msg("%s killed at instruction %ld: %d %s", op->name, at, rc, why);
	for (id = 0; id < RESIDENTS; id++) {
		rc = pool_lease(pool, &id, sizeof(id), &object);
		if (rc == -ENOENT && (op->evicts || (id == 0 && op->resident_may_go)))
			continue;
		assert_int_equal(rc, 0);
		assert_int_equal(object.len, RESIDENT_LEN);
		if (!testing_is_object(object.data, id, 0, object.len) ||
			strait_digest(object.data, object.len) != object.digest)
			fail_msg("%s killed at instruction %ld: object damaged", op->name, at);
		pool_release(pool, object.handle);
	}
	id = 1000;
	if (pool_lease(pool, &id, sizeof(id), &object) == 0) {
		if (strait_digest(object.data, object.len) != object.digest)
			fail_msg("%s killed at instruction %ld: half visible", op->name, at);
		pool_release(pool, object.handle);
	}
}

/* After the dead are reaped nothing of theirs is left, and the pool works. */
static void assert_usable(const struct operation *op)
{
	struct strait_pool_stats s;
	struct pool_object object;
	uint64_t id = 1000;
	int rc;

	shm_pool_file(pool)->next_reap_ns = 0;
	assert_int_equal(pool_renew(pool), 0);
	assert_int_equal(pool_stats(pool, &s), 0);
	assert_int_equal(s.leased + s.doomed + s.writing, 0);
	assert_int_equal(s.clients, 1);
	rc = pool_reserve(pool, &id, sizeof(id), 5000, 77, &object);
	if (op->leaves_partial) {
		assert_int_equal(rc, 0);
		assert_true(object.resumed);
		assert_memory_equal(object.resume, "mark", 4);
		assert_true(testing_is_object(object.data, id, 0, 5000));
	}
	if (rc == 0)
		pool_abandon(pool, object.handle, false);
	else
		assert_int_equal(rc, -EEXIST);
	pool_remove(pool, &id, sizeof(id));
	for (id = 0; id < RESIDENTS; id++) {
		rc = put(pool, id, RESIDENT_LEN);
		assert_true(rc == 0 || rc == -EEXIST);
	}
}

static int setup(void **state)
{
	(void)state;
	if (!testing_dir_create(&dir))
		return -1;
	pool = open_pool();
	if (pool == NULL)
		return -1;
	for (uint64_t id = 0; id < RESIDENTS; id++) {
		if (put(pool, id, RESIDENT_LEN) != 0)
			return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pool_destroy(pool);
	testing_dir_remove(&dir);
	return 0;
}

static void kill_and_check(const struct operation *op, long at)
{
	run_and_kill(op, at, NULL);
	assert_consistent(op, at);
	assert_usable(op);
}

static void kill_at_any_instruction_of_any_operation_is_survived(void **state)
{
	struct strait_pool_stats s;
	unsigned int traced = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++) {
		const struct operation *op = &operations[i];
		struct trace trace = { .count = 0 };
		long total = run_and_kill(op, MAX_STEPS, &trace);

		if (total < 0)
			skip();
		assert_true(total < MAX_STEPS);
		assert_consistent(op, total);
		assert_usable(op);
		/*
		 * One operation after the other differs by a few instructions, hence the one after
		 * as well.
		 */
		for (unsigned int k = 0; k < trace.count; k++) {
			kill_and_check(op, trace.at[k]);
			if (!IS_SLOW)
				kill_and_check(op, trace.at[k] + 1);
		}
		traced += trace.count;
		for (unsigned int k = 0; k < random_points; k++)
			kill_and_check(op, (long)testing_below(&random_state, (uint64_t)total));
	}
	assert_int_equal(pool_stats(pool, &s), 0);
	print_message("%u changes of state, %llu recoveries\n", traced,
		(unsigned long long)s.recoveries);
	assert_true(s.recoveries > 0 && s.evictions > 0);
	assert_true(s.reclaimed_leases > 0 && s.reclaimed_writes > 0);
}

static void run_stats(struct pool *p, struct pool_object *object)
{
	struct strait_pool_stats s;

	(void)object;
	pool_stats(p, &s);
}

/*
 * One child is killed in a put; if that leaves the lock to a dead owner, a second one, which
 * opened the pool before, is killed in the recovery that its next call starts. The third to come
 * must still manage.
 */
static void kill_during_recovery_is_survived(void **state)
{
	const struct operation *op = &operations[0];
	const struct operation recovery = {
		.name = "recovery",
		.prepare = prepare_nothing,
		.run = run_stats,
	};
	long total = run_and_kill(op, MAX_STEPS, NULL);
	unsigned int both = 0, tries = 0, n = 2 * random_points;
	pid_t second;

	(void)state;
	if (total < 0)
		skip();
	assert_usable(op);
	for (; both < n && tries < 10 * n; tries++) {
		long at = (long)testing_below(&random_state, (uint64_t)total);
		long steps = (long)testing_below(&random_state, RECOVERY_STEPS);

		second = child_start(&recovery);
		assert_true(second > 0);
		run_and_kill(op, at, NULL);
		child_step_and_kill(second, lock_is_orphaned() ? steps : 0, NULL);
		both += lock_is_orphaned();
		assert_consistent(&recovery, at);
		assert_usable(op);
	}
	print_message("%u killed in recovery, of %u\n", both, tries);
	assert_true(both > 0);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(kill_at_any_instruction_of_any_operation_is_survived),
		TEST(kill_during_recovery_is_survived),
	};

	if (argc > 1)
		random_points = (unsigned int)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
