/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/sets.h"

#include "control/base/log.h"
#include "control/planner/planner.h"
#include "control/site/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A site's store with layouts, and the planner that is told what its log says. */

#define HASH(end)      "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f0" end
#define KEY(rank, end) "Qwen/Qwen3-32B@tp_rank:" rank "@pcp0@dcp0@pp_rank:0@group:0@" HASH(end)

struct fixture {
	char path[64];
	struct site_tenant_config tenants[2];
	struct site_config cfg;
	struct sets *sets;
	struct log *log;
	struct index *indexes[2];
	struct store *store;
	struct planner *planner;
	uint64_t taken;
};

static int setup(void **state)
{
	static const char layouts[] = "layouts:\n  - { model: \"Qwen/*\", form: vllm, tp: 2 }\n";
	static const struct planner_config planner = { .keys = 1000,
		.wanted_max = 1000,
		.memory_entries = 1 << 12,
		.evicted_s = 600,
		.echo_s = 600,
		.asked_s = 600 };
	static const struct planner_policy policy = { .allow = true, .class = WANTED_NORMAL };
	const struct log_config log = { .epoch = 1, .keep_ns = UINT64_MAX, .max_bytes = 1 << 20 };
	struct fixture *f = calloc(1, sizeof(*f));
	struct store_config cfg = { .keys = 1000,
		.max_bytes = 1 << 20,
		.ignore = sets_ignore,
		.describe = sets_describe };
	int fd;

	log_set_level(LOG_LEVEL_ERROR);
	strcpy(f->path, "/tmp/strait-sets-XXXXXX");
	fd = mkstemp(f->path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, layouts, sizeof(layouts) - 1), sizeof(layouts) - 1);
	close(fd);
	f->tenants[0].name = (char *)(uintptr_t) "default";
	f->tenants[1].name = (char *)(uintptr_t) "other";
	f->tenants[1].key.bytes[0] = 1;
	f->cfg.tenants = f->tenants;
	f->cfg.tenants_count = 2;
	f->cfg.layouts = f->path;
	f->sets = sets_create(&f->cfg);
	assert_non_null(f->sets);
	cfg.ctx = f->sets;
	cfg.log = f->log = log_create(&log);
	f->indexes[0] = index_create(0);
	f->indexes[1] = index_create(0);
	cfg.indexes = f->indexes;
	f->store = store_create(&cfg);
	f->planner = planner_create(&planner);
	assert_true(f->store != NULL && f->planner != NULL);
	assert_int_equal(planner_policy_set(f->planner, 0, 1, &policy), 0);
	f->taken = log_next(f->log);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	planner_destroy(f->planner);
	store_destroy(f->store);
	index_destroy(f->indexes[0]);
	index_destroy(f->indexes[1]);
	log_destroy(f->log);
	sets_destroy(f->sets);
	unlink(f->path);
	free(f);
	return 0;
}

static struct digest128 digest(struct fixture *f, unsigned int tenant, const char *key)
{
	return digest_of_key(&f->tenants[tenant].key, key, strlen(key));
}

struct find {
	struct digest128 d;
	struct log_record r;
	bool found;
};

static void find_one(void *ctx, const struct log_record *r)
{
	struct find *x = ctx;

	if (!digest_equal(r->digest, x->d))
		return;
	x->found = true;
	x->r = *r;
}

/* What a snapshot says of it. */
static struct log_record listed(struct fixture *f, unsigned int tenant, const char *key)
{
	struct find x = { .d = digest(f, tenant, key) };

	store_list(f->store, digest_bucket(x.d), find_one, &x);
	assert_true(x.found);
	return x.r;
}

static void put(struct fixture *f, unsigned int tenant, const char *key)
{
	struct store_key k = { &f->tenants[tenant].key, (uint16_t)tenant, key, strlen(key), 100 };
	struct log_record r;

	assert_int_equal(store_stored(f->store, 0, &k, 0, 1), 1);
	r = listed(f, tenant, key);
	assert_true(planner_event(f->planner, 0, &r, 1, 1) >= 0);
}

static struct wanted_stats wanted(struct fixture *f)
{
	struct wanted_stats s;

	wanted_stats_get(planner_wanted(f->planner, 1), &s);
	return s;
}

static void a_block_is_wanted_when_all_its_ranks_are_there(void **state)
{
	struct fixture *f = *state;
	struct wanted_object out[8];

	put(f, 0, KEY("1", "0a08"));
	assert_true(wanted(f).objects == 0 && wanted(f).waiting == 1);
	put(f, 0, KEY("0", "0a09"));
	assert_true(wanted(f).objects == 0 && wanted(f).waiting == 2);
	put(f, 0, KEY("0", "0a08"));
	assert_true(wanted(f).objects == 2 && wanted(f).waiting == 1);
	/* A tenant's objects are no other's. */
	put(f, 1, KEY("1", "0a09"));
	assert_true(wanted(f).objects == 2);
	assert_int_equal(wanted_take(planner_wanted(f->planner, 1), out, 8), 2);
	assert_true(out[0].set == out[1].set && out[0].set != 0);
}

static void opaque_keys_stand_alone(void **state)
{
	struct fixture *f = *state;

	put(f, 0, "anything");
	put(f, 0, "Llama@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" HASH("0a08"));
	assert_true(wanted(f).objects == 2 && wanted(f).waiting == 0);
	assert_int_equal(listed(f, 0, "anything").members, 0);
}

static void another_layout_is_known_and_not_shipped(void **state)
{
	struct fixture *f = *state;
	struct planner_stats s;

	put(f, 0, KEY("0", "0a08"));
	assert_true(store_is_readable(f->store, digest(f, 0, KEY("0", "0a08"))));
	put(f, 0, KEY("2", "0a08"));
	assert_true(store_has(f->store, digest(f, 0, KEY("2", "0a08"))));
	assert_false(store_is_readable(f->store, digest(f, 0, KEY("2", "0a08"))));
	/* Nor the rest of that model: its ranks are others' by name alone. */
	assert_false(store_is_readable(f->store, digest(f, 0, KEY("0", "0a08"))));
	put(f, 0, KEY("1", "0a08"));
	assert_true(wanted(f).objects == 0 && wanted(f).waiting == 1);
	planner_stats_get(f->planner, &s);
	assert_int_equal(s.fixed, 2);
}

static void blocks_are_placed_by_what_engines_tell(void **state)
{
	static const uint8_t bytes[] = { 0xd1, 0x5d, 0x6c, 0x15, 0xb0, 0xf0, 0x0a, 0x08 };
	const struct kv_hash first = { .number = UINT64_C(0xd15d6c15b0f00a01) };
	const struct kv_hash more[] = { { .number = UINT64_C(0xd15d6c15b0f00a07) },
		{ .data = bytes, .len = sizeof(bytes) } };
	struct kv_event e = { .op = KV_STORED, .hashes = &first, .hash_count = 1 };
	struct fixture *f = *state;

	sets_learn(f->sets, &e);
	e = (struct kv_event){ .op = KV_STORED, .hashes = more, .hash_count = 2, .parent = first };
	sets_learn(f->sets, &e);
	put(f, 0, KEY("1", "0a08"));
	put(f, 0, KEY("0", "0a01"));
	put(f, 0, KEY("0", "0aff"));
	assert_int_equal(listed(f, 0, KEY("1", "0a08")).position, 3);
	assert_int_equal(listed(f, 0, KEY("0", "0a01")).position, 1);
	assert_int_equal(listed(f, 0, KEY("0", "0aff")).position, 0);
}

static void warm_up_keys_need_no_layouts(void **state)
{
	static const char key[] = "sglang_mooncake_store_warmup_key1b4e28ba";
	struct fixture *f = *state;
	struct site_config cfg = { .keys = 1 };
	struct sets *s = sets_create(&cfg);

	assert_non_null(s);
	assert_true(sets_ignore(s, key, strlen(key)));
	assert_false(sets_ignore(s, key + 1, strlen(key) - 1));
	sets_destroy(s);
	assert_true(sets_ignore(f->sets, key, strlen(key)));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_block_is_wanted_when_all_its_ranks_are_there),
		TEST(opaque_keys_stand_alone),
		TEST(another_layout_is_known_and_not_shipped),
		TEST(blocks_are_placed_by_what_engines_tell),
		TEST(warm_up_keys_need_no_layouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
