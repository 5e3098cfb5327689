/* SPDX-License-Identifier: Apache-2.0 */
#include "control/index/index_private.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * A key that stands in its second bucket moves to its first one after a lookup has looked there,
 * and before it looks into the second. The moment is made by a page that cannot be read: the fault
 * of the second look runs the move.
 */

enum { KEYS = 100000, VALUE = 5 };

static struct {
	struct index *x;
	struct shard *shard;
	struct table t;
	struct name n;
	uint32_t first, second;
	volatile sig_atomic_t faults;
} at;

static struct digest128 key(uint64_t i)
{
	return (struct digest128){ i * UINT64_C(0x9e3779b97f4a7c15),
		i * UINT64_C(0xbf58476d1ce4e5b9) };
}

static void *page_of(uint32_t bucket)
{
	return (void *)((uintptr_t)&at.t.b[bucket] & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1));
}

/* As table_insert() moves keys: the copy first, then the slot. */
static void put(uint32_t bucket)
{
	store(&at.t.b[bucket].value[0], at.n.extra | VALUE);
	store(&at.t.b[bucket].tag[0], at.n.tag | (load(&at.t.b[bucket].tag[0]) & COUNT_MASK));
}

static void on_fault(int signo)
{
	if (at.faults++ > 0) { /* not ours */
		(void)signal(signo, SIG_DFL);
		return;
	}
	if (mprotect(page_of(at.second), (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE) !=
		0)
		_exit(1);
	put(at.first);
	table_remove(&at.t, at.second, 0, &at.shard->version);
}

static void look(bool wide)
{
	struct sigaction fault = { .sa_handler = on_fault }, before;
	_Atomic uint64_t *count;
	struct digest128 d;
	uint64_t got = 0;

	at.x = index_create(KEYS);
	assert_non_null(at.x);
	at.faults = 0;
	for (uint64_t i = 1;; i++) {
		d = key(i);
		at.shard = &at.x->shards[shard_of(&at.x->view, d)];
		at.t = table_of(at.x, at.shard);
		at.n = name_of(d);
		at.first = bucket_first(at.n.tag, at.t.buckets);
		at.second = bucket_second(at.n.tag, at.t.buckets);
		if (page_of(at.first) != page_of(at.second))
			break;
		assert_true(i < 1000);
	}
	count = &at.t.b[at.first].tag[class_of(at.n.tag)];
	store(count, load(count) + 1);
	put(at.second);
	lookup_batch(&at.x->view, &d, 1, &got, wide);
	assert_int_equal(got, VALUE);
	assert_int_equal(sigaction(SIGSEGV, &fault, &before), 0);
	assert_int_equal(mprotect(page_of(at.second), (size_t)sysconf(_SC_PAGESIZE), PROT_NONE), 0);
	lookup_batch(&at.x->view, &d, 1, &got, wide);
	assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
	assert_int_equal(at.faults, 1);
	assert_int_equal(got, VALUE);
	index_destroy(at.x);
}

static void key_that_moves_between_the_two_looks_is_found(void **state)
{
	(void)state;
	look(false);
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
		look(true);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_that_moves_between_the_two_looks_is_found),
	};

	return cmocka_run_group_tests_name("second look", tests, NULL, NULL);
}
