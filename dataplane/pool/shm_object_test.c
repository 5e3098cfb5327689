/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/pool/shm_check.h"
#include "dataplane/pool/shm_lock.h"
#include "dataplane/pool/shm_object.h"
#include "dataplane/pool/shm_pool.h"
#include "dataplane/pool/shm_recover.h"
#include "dataplane/pool/shm_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>

/*
 * Random operations on a pool, by two clients of one process, against an array that says what each
 * key holds. Under pressure the pool may lose visible and partial objects, but only as many as it
 * counts as evicted.
 */

#define KEYS  64u
#define HELD  8u
#define STEPS 20000u

struct model_key {
	enum shm_state state;
	uint64_t version; /* which bytes */
	uint64_t len;
	uint64_t filled; /* of a partial */
	uint64_t handle; /* while WRITING */
	uint8_t *data;
	unsigned int writer;
};

struct model_lease {
	struct pool_object object; /* handle 0: none */
	uint64_t version;
	unsigned int reader;
};

static struct testing_dir dir;
static struct shm *client[2];
static struct pool *pool[2];
static struct model_key model[KEYS];
static struct model_lease lease[HELD];
static uint64_t next_version, lost, random_state;

static int start(uint64_t pool_bytes)
{
	const struct shm_pool_options options = { .create = true, .create_size_bytes = pool_bytes };
	char err[256];

	memset(model, 0, sizeof(model));
	memset(lease, 0, sizeof(lease));
	next_version = 1;
	lost = 0;
	if (!testing_dir_create(&dir))
		return -1;
	for (unsigned int i = 0; i < 2; i++) {
		pool[i] = shm_pool_open(dir.file, &options, err, sizeof(err));
		if (pool[i] == NULL)
			return -1;
		client[i] = shm_pool_file(pool[i]);
	}
	return 0;
}

static void stop(void)
{
	for (unsigned int i = 0; i < 2; i++)
		pool_destroy(pool[i]);
	testing_dir_remove(&dir);
}

static unsigned int any_client(void)
{
	return (unsigned int)testing_below(&random_state, 2);
}

/* The pool does not have what the model has: it must have been evicted. */
static void forget(struct model_key *m)
{
	assert_true(m->state == SHM_VISIBLE || m->state == SHM_PARTIAL);
	m->state = SHM_FREE;
	lost++;
}

static void step_reserve(uint32_t key, bool evicting)
{
	struct model_key *m = &model[key];
	unsigned int by = any_client();
	bool again = testing_below(&random_state, 2);
	uint64_t len = 1 + testing_below(&random_state, 60000);
	uint64_t version = next_version;
	struct pool_object object;
	int rc;

	if (m->state == SHM_PARTIAL && again) {
		len = m->len;
		version = m->version;
	}
	rc = shm_reserve(client[by], SHM_RESERVE_KEEP, &key, sizeof(key), len, version, &object);
	if (m->state == SHM_WRITING) {
		assert_int_equal(rc, -EBUSY);
		return;
	}
	if (rc == -EEXIST) {
		assert_int_equal(m->state, SHM_VISIBLE);
		return;
	}
	if (m->state == SHM_VISIBLE)
		forget(m);
	if (rc == -ENOSPC) {
		assert_true(evicting);
		/* A partial that did not match is gone without having been evicted. */
		if (m->state == SHM_PARTIAL && version != m->version)
			m->state = SHM_FREE;
		return;
	}
	assert_int_equal(rc, 0);
	if (object.resumed) {
		assert_int_equal(m->state, SHM_PARTIAL);
		assert_int_equal(version, m->version);
		assert_true(testing_is_object(object.data, version, 0, m->filled));
		assert_memory_equal(object.resume, &m->filled, sizeof(m->filled));
	} else {
		if (m->state == SHM_PARTIAL && version == m->version)
			forget(m);
		m->filled = 0;
		assert_int_equal(((uint64_t *)object.resume)[0], 0);
		next_version += version == next_version;
	}
	m->state = SHM_WRITING;
	m->version = version;
	m->len = len;
	m->handle = object.handle;
	m->data = object.data;
	m->writer = by;
	if (m->filled < len) {
		uint64_t to = m->filled + testing_below(&random_state, len - m->filled);

		testing_fill(m->data, version, m->filled, to);
		m->filled = to;
		memcpy(object.resume, &m->filled, sizeof(m->filled));
	}
}

static void step_end_write(uint32_t key)
{
	struct model_key *m = &model[key];
	struct shm *by = client[m->writer];

	if (m->state != SHM_WRITING)
		return;
	assert_int_equal(shm_publish(client[!m->writer], m->handle, 0), -ESTALE);
	switch (testing_below(&random_state, 4)) {
	case 0:
		shm_abandon(by, m->handle, false);
		m->state = SHM_FREE;
		break;
	case 1:
		shm_abandon(by, m->handle, true);
		m->state = SHM_PARTIAL;
		break;
	default:
		testing_fill(m->data, m->version, m->filled, m->len);
		assert_int_equal(shm_publish(by, m->handle, strait_digest(m->data, (size_t)m->len)),
			0);
		m->state = SHM_VISIBLE;
	}
}

static void step_lease(uint32_t key)
{
	struct model_lease *l = &lease[testing_below(&random_state, HELD)];
	int rc;

	if (l->object.handle != 0) {
		assert_true(testing_is_object(l->object.data, l->version, 0, l->object.len));
		shm_release(client[l->reader], l->object.handle);
		l->object.handle = 0;
		return;
	}
	l->reader = any_client();
	rc = shm_lease(client[l->reader], &key, sizeof(key), &l->object);
	if (rc != 0) {
		assert_int_equal(rc, -ENOENT);
		l->object.handle = 0;
		if (model[key].state == SHM_VISIBLE)
			forget(&model[key]);
		return;
	}
	assert_int_equal(model[key].state, SHM_VISIBLE);
	assert_int_equal(l->object.len, model[key].len);
	l->version = model[key].version;
}

static void step_remove(uint32_t key)
{
	struct model_key *m = &model[key];
	int rc = shm_remove(client[any_client()], &key, sizeof(key));

	if (m->state == SHM_WRITING) {
		assert_int_equal(rc, -EBUSY);
	} else if (m->state == SHM_FREE) {
		assert_int_equal(rc, -ENOENT);
	} else if (rc == -ENOENT) {
		forget(m);
	} else {
		assert_int_equal(rc, 0);
		m->state = SHM_FREE;
	}
}

static void step_exist(void)
{
	struct strait_key keys[KEYS];
	uint32_t id[KEYS];
	uint8_t found[KEYS];

	for (uint32_t i = 0; i < KEYS; i++) {
		id[i] = i;
		keys[i] = (struct strait_key){ .data = &id[i], .len = sizeof(id[i]) };
	}
	assert_true(shm_exist_batch(client[any_client()], keys, KEYS, found) >= 0);
	for (uint32_t i = 0; i < KEYS; i++) {
		if (found[i])
			assert_int_equal(model[i].state, SHM_VISIBLE);
		else if (model[i].state == SHM_VISIBLE)
			forget(&model[i]);
	}
}

static void check(bool rebuild)
{
	char why[128];

	if (rebuild) {
		assert_int_equal(shm_lock(client[0]), 0);
		shm_recover(client[0]);
		shm_unlock(client[0]);
	}
	if (shm_check(client[0], why, sizeof(why)) != 0)
		fail_msg("%s", why);
}

static void run(uint64_t seed, bool evicting)
{
	struct strait_pool_stats s;

	random_state = seed;
	for (unsigned int step = 0; step < STEPS; step++) {
		uint32_t key = (uint32_t)testing_below(&random_state, KEYS);

		switch (testing_below(&random_state, 8)) {
		case 0:
		case 1:
			step_reserve(key, evicting);
			break;
		case 2:
		case 3:
			step_end_write(key);
			break;
		case 4:
		case 5:
			step_lease(key);
			break;
		case 6:
			step_remove(key);
			break;
		default:
			step_exist();
		}
		if (step % 64 == 0)
			check(step % 256 == 0);
	}
	/* Settle the partials: whoever is not there was evicted. */
	for (uint32_t key = 0; key < KEYS; key++) {
		if (model[key].state == SHM_PARTIAL &&
			shm_remove(client[0], &key, sizeof(key)) == -ENOENT)
			forget(&model[key]);
	}
	step_exist();
	assert_int_equal(shm_stats(client[0], &s), 0);
	if (!evicting) {
		assert_int_equal(s.evictions + s.evicted_partials, 0);
		assert_int_equal(lost, 0);
	} else {
		assert_true(s.evictions > 0 && s.evicted_partials > 0);
		/*
		 * A partial may be evicted to make room for its own successor; that is not missed.
		 */
		assert_true(lost <= s.evictions + s.evicted_partials);
		assert_true(lost >= s.evictions);
	}
}

static void roomy_pool_agrees_with_a_simple_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		assert_int_equal(start(16u << 20), 0);
		run(seed, false);
		stop();
	}
}

static void crowded_pool_loses_only_what_it_evicts(void **state)
{
	(void)state;
	for (uint64_t seed = 11; seed <= 16; seed++) {
		assert_int_equal(start(1u << 20), 0);
		run(seed, true);
		stop();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roomy_pool_agrees_with_a_simple_model),
		cmocka_unit_test(crowded_pool_loses_only_what_it_evicts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
