/* SPDX-License-Identifier: Apache-2.0 */
#include "control/keys/keys.h"

#include "control/keys/chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#define H64  "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define H64B "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
#define QWEN "Qwen/Qwen3-32B"

static const char layouts[] = "layouts:\n"
			      "  - { model: Qwen/Qwen3-32B, form: vllm, tp: 2, groups: 2 }\n"
			      "  - { model: Qwen/Qwen3-32B, form: vllm-ascend, tp: 4, layers: 3 }\n"
			      "  - { model: \"tag_Qwen-*\", form: sglang, tp: 2, pp: 2 }\n"
			      "  - { model: tag_deepseek-ai-DeepSeek-V3, form: sglang-mla, pp: 2, "
			      "parts: [k, indexer] }\n"
			      "  - { model: meta/Llama, form: lmcache, tp: 4, pp: 2, "
			      "dtype: bfloat16 }\n";

static const struct digest_key secret = { "0123456789abcdef" }, other_secret = { "x" };
static struct keys *keys;
static struct key_view view;
static char why[KEYS_WHY_MAX];

static void setup_text(const char *text)
{
	char err[300] = "";

	keys_destroy(keys);
	keys = text != NULL ? keys_create_text(text, err, sizeof(err))
			    : keys_create(NULL, err, sizeof(err));
	if (keys == NULL)
		fail_msg("%s", err);
}

static int setup(void **state)
{
	(void)state;
	setup_text(layouts);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	keys_destroy(keys);
	keys = NULL;
	return 0;
}

static enum key_verdict judge(const char *key)
{
	return keys_judge(keys, 0, &secret, key, strlen(key), &view, why);
}

static bool has(enum key_field f, const char *text)
{
	return view.parts.text[f].len == strlen(text) &&
		memcmp(view.parts.text[f].data, text, strlen(text)) == 0;
}

static uint64_t member(const char *key, const char *form, unsigned int i, unsigned int n)
{
	enum key_verdict v = judge(key);

	if (v != KEY_MEMBER)
		fail_msg("%s is %s: %s", key, key_verdict_name(v), why);
	assert_string_equal(view.form, form);
	if (view.member != i || view.members != n)
		fail_msg("%s is %u of %u", key, view.member, view.members);
	assert_true(view.set != 0);
	return view.set;
}

static void vllm_ranks_and_groups_of_a_block_are_one_set(void **state)
{
	uint64_t set;

	(void)state;
	set = member(QWEN "@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" H64, "vllm", 0, 4);
	assert_true(has(KEY_MODEL, QWEN) && has(KEY_HASH, H64));
	assert_true(view.chain == UINT64_C(0xd15d6c15b0f00a08));
	assert_null(view.parts.text[KEY_PREFIX].data);
	assert_true(
		member(QWEN "@tp_rank:0@pcp0@dcp0@pp_rank:0@group:1@" H64, "vllm", 1, 4) == set);
	assert_true(
		member(QWEN "@tp_rank:1@pcp0@dcp0@pp_rank:0@group:1@" H64, "vllm", 3, 4) == set);
	assert_true(
		member(QWEN "@tp_rank:1@pcp0@dcp0@pp_rank:0@group:1@" H64B, "vllm", 3, 4) != set);
	/* Another prefix is another cache. */
	assert_true(member("team-a@" QWEN "@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" H64, "vllm", 0,
			    4) != set);
	assert_true(has(KEY_PREFIX, "team-a"));
}

static void ascend_keys_may_be_of_a_layer(void **state)
{
	uint64_t set;

	(void)state;
	member(QWEN "@pcp0@dcp0@head_or_tp_rank:3@pp_rank:0@" H64, "vllm-ascend", 3, 4);
	set = member(QWEN "@pcp0@dcp0@head_or_tp_rank:1@" H64 "@0", "vllm-ascend", 3, 12);
	assert_true(member(QWEN "@pcp0@dcp0@head_or_tp_rank:3@" H64 "@2", "vllm-ascend", 11, 12) ==
		set);
	assert_true(has(KEY_LAYER, "2"));
}

static void sglang_k_and_v_are_a_pair_for_each_rank(void **state)
{
	uint64_t set;

	(void)state;
	set = member("tag_Qwen-Qwen3-32B_" H64 "_0_0_k", "sglang", 0, 8);
	assert_true(has(KEY_MODEL, "tag_Qwen-Qwen3-32B"));
	assert_true(member("tag_Qwen-Qwen3-32B_" H64 "_0_0_v", "sglang", 1, 8) == set);
	assert_true(member("tag_Qwen-Qwen3-32B_" H64 "_1_1_v", "sglang", 7, 8) == set);
	assert_int_equal(judge(H64 "_0_k"), KEY_ALONE);
	assert_string_equal(view.form, "sglang");
	assert_non_null(strstr(why, "tp"));
}

static void an_mla_layout_takes_keys_of_pipeline_ranks(void **state)
{
	uint64_t set;

	(void)state;
	set = member("tag_deepseek-ai-DeepSeek-V3_" H64 "_0_k", "sglang-mla", 0, 4);
	assert_true(
		member("tag_deepseek-ai-DeepSeek-V3_" H64 "_1_indexer", "sglang-mla", 3, 4) == set);
	/* Without pipeline ranks: the place is empty. */
	member("tag_deepseek-ai-DeepSeek-V3_" H64 "__k", "sglang-mla", 0, 2);
	assert_int_equal(judge(H64 "__k"), KEY_ALONE);
	assert_string_equal(view.form, "sglang-mla");
}

static void lmcache_keys_tell_how_many_workers_there_are(void **state)
{
	uint64_t set;

	(void)state;
	set = member("vllm@mistralai/Mistral-7B@2@0@1a2b3c4d5e6f7081", "lmcache", 0, 2);
	assert_true(
		member("vllm@mistralai/Mistral-7B@2@1@1a2b3c4d5e6f7081", "lmcache", 1, 2) == set);
	member("vllm@mistralai/Mistral-7B@1@0@1a2b3c4d5e6f7081@bfloat16", "lmcache", 0, 1);
	assert_true(has(KEY_DTYPE, "bfloat16"));
	member("vllm@meta/Llama@8@7@1a2b3c4d5e6f7081@bfloat16@lora%7@x%y", "lmcache", 7, 8);
	assert_true(has(KEY_TAGS, "@lora%7@x%y"));
	assert_int_equal(judge("vllm@mistralai/Mistral-7B@2@1@1a2b3c4d5e6f7081@bfloat16@17"),
		KEY_ALONE);
	assert_true(has(KEY_LAYER, "17"));
	assert_int_equal(judge("vllm@mistralai/Mistral-7B@2@2@1a2b3c4d5e6f7081"), KEY_REFUSED);
	assert_string_equal(why, "worker 2 of 2");
}

static void another_layout_is_refused_with_its_reason(void **state)
{
	static const struct {
		const char *key, *why;
	} bad[] = {
		{ QWEN "@tp_rank:2@pcp0@dcp0@pp_rank:0@group:0@" H64,
			"tp 2, where the layout of Qwen/Qwen3-32B has 2" },
		{ QWEN "@tp_rank:0@pcp0@dcp1@pp_rank:0@group:0@" H64,
			"dcp 1, where the layout of Qwen/Qwen3-32B has 1" },
		{ QWEN "@pcp0@dcp0@head_or_tp_rank:0@" H64 "@3",
			"layer 3, where the layout of Qwen/Qwen3-32B has 3" },
		{ "vllm@meta/Llama@4@0@1a2b3c4d5e6f7081@bfloat16",
			"world size 4, where the layout of meta/Llama has 8 (tp times pp)" },
		{ "vllm@meta/Llama@8@0@1a2b3c4d5e6f7081@float16",
			"dtype float16, where the layout of meta/Llama has bfloat16" },
		{ "tag_Qwen-Qwen3-32B_" H64 "_0_0_temporal",
			"part temporal, which the layout of tag_Qwen-* has not" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *first;

		setup(state);
		assert_int_equal(judge(bad[i].key), KEY_REFUSED);
		assert_string_equal(why, bad[i].why);
		assert_int_equal(keys_refused(keys, &first), 1);
		assert_string_equal(first, bad[i].why);
	}
}

/* Rank 2 of a layout with two: what ranks 0 and 1 have is not what others have by that name. */
static void one_contradiction_refuses_the_model_of_that_tenant(void **state)
{
	static const char good[] = QWEN "@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" H64;

	(void)state;
	assert_int_equal(judge(QWEN "@tp_rank:2@pcp0@dcp0@pp_rank:0@group:0@" H64), KEY_REFUSED);
	assert_int_equal(judge(good), KEY_REFUSED);
	assert_non_null(strstr(why, "another key"));
	assert_int_equal(keys_judge(keys, 1, &secret, good, strlen(good), &view, why), KEY_MEMBER);
	member("tag_Qwen-Qwen3-32B_" H64 "_0_0_k", "sglang", 0, 8);
}

static void models_that_are_not_listed_are_shipped_or_not_as_told(void **state)
{
	(void)state;
	assert_int_equal(judge("other@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" H64), KEY_ALONE);
	setup_text("refuse_others: true\n");
	assert_int_equal(judge("other@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" H64), KEY_REFUSED);
	assert_string_equal(why, "no layout for model other in form vllm");
	assert_int_equal(judge("anything else"), KEY_OPAQUE);
}

static void warm_up_keys_are_junk(void **state)
{
	(void)state;
	assert_int_equal(judge("sglang_mooncake_store_warmup_key"
			       "0b5c2c9e-52c5-4a53-8d0c-2f8a3f6b6b1e"),
		KEY_JUNK);
	assert_int_equal(judge("sglang_mooncake_store_warmup_key"), KEY_JUNK);
	assert_int_equal(judge("sglang_mooncake_store_warmup"), KEY_OPAQUE);
}

static void what_is_almost_a_form_is_opaque(void **state)
{
	static const char *const keys_of_none[] = { "", "@", "_k", H64, QWEN,
		QWEN "@tp_rank:00@pcp0@dcp0@pp_rank:0@group:0@" H64,
		QWEN "@tp_rank:-1@pcp0@dcp0@pp_rank:0@group:0@" H64,
		QWEN "@tp_rank:99999@pcp0@dcp0@pp_rank:0@group:0@" H64,
		QWEN "@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" H64 "x",
		QWEN "@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@xyz",
		"a@b@" QWEN "@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" H64,
		"vllm@model@0x1@0@1a2b3c4d5e6f7081", "tag_" H64 "_0_K" };

	(void)state;
	for (size_t i = 0; i < sizeof(keys_of_none) / sizeof(keys_of_none[0]); i++)
		if (judge(keys_of_none[i]) != KEY_OPAQUE)
			fail_msg("%s is %s of form %s", keys_of_none[i], why, view.form);
}

static void hostile_keys_take_bounded_work(void **state)
{
	enum { LEN = 65535 };
	static const char alphabet[] = "@_0af[{\0kpt:";
	char *key = malloc(LEN);
	uint64_t rnd = 1;

	(void)state;
	assert_non_null(key);
	/* Every byte may be the end of a model, a hash, a rank. */
	for (size_t i = 0; i < LEN; i++)
		key[i] = "_0aaaaaaaa"[i % 10];
	assert_int_equal(keys_judge(keys, 0, &secret, key, LEN, &view, why), KEY_OPAQUE);
	memset(key, '@', LEN);
	assert_int_equal(keys_judge(keys, 0, &secret, key, LEN, &view, NULL), KEY_OPAQUE);
	memset(key, 'a', LEN);
	assert_int_equal(keys_judge(keys, 0, &secret, key, LEN, &view, NULL), KEY_OPAQUE);
	memset(key, 'm', KEY_LEN_MAX);
	memcpy(key, "vllm@", 5);
	strcpy(key + KEY_LEN_MAX - 21, "@2@1@1a2b3c4d5e6f7081");
	assert_int_equal(judge(key), KEY_MEMBER);
	memset(key, 'm', KEY_LEN_MAX);
	memcpy(key, "vllm@", 5);
	strcpy(key + KEY_LEN_MAX - 20, "@2@1@1a2b3c4d5e6f7081");
	assert_int_equal(judge(key), KEY_OPAQUE);
	for (int n = 0; n < 20000; n++) {
		size_t len = (rnd >> 33) % 200;

		for (size_t i = 0; i < len; i++) {
			rnd = rnd * UINT64_C(6364136223846793005) + 1442695040888963407u;
			key[i] = alphabet[(rnd >> 40) % (sizeof(alphabet) - 1)];
		}
		rnd++;
		if (keys_judge(keys, 0, &secret, key, len, &view, why) == KEY_MEMBER)
			assert_true(view.member < view.members);
	}
	free(key);
}

/* It fits, but to find that takes half a million steps. */
static void a_match_ends_after_so_many_steps(void **state)
{
	static const char pattern[] = "{prefix}-{model}Z{format}";
	struct key_pattern p;
	struct key_parts parts;
	char key[1000] = "a-bZ", err[100];

	(void)state;
	assert_int_equal(key_pattern_parse(&p, pattern, strlen(pattern), err, sizeof(err)), 0);
	memset(key + 4, '-', sizeof(key) - 4);
	assert_true(key_pattern_match(&p, key, 10, &parts));
	assert_int_equal(parts.text[KEY_PREFIX].len, 1);
	assert_false(key_pattern_match(&p, key, sizeof(key), &parts));
}

static void a_set_cannot_be_aimed_at_without_the_secret(void **state)
{
	static const char key[] = QWEN "@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@" H64;
	uint64_t set = member(key, "vllm", 0, 4);

	(void)state;
	assert_int_equal(keys_judge(keys, 0, &other_secret, key, strlen(key), &view, why),
		KEY_MEMBER);
	assert_true(view.set != set);
}

static void forms_of_the_file_come_first(void **state)
{
	(void)state;
	setup_text("forms: [\"mine {model}/{hash}[/{tp}]\"]\n"
		   "layouts: [{ model: m, form: mine, tp: 3 }]\n");
	member("m/" H64 "/2", "mine", 2, 3);
	member("m/" H64, "mine", 0, 1);
}

static void a_wrong_file_is_refused_with_the_place(void **state)
{
	static const struct {
		const char *text, *word;
	} bad[] = { { "layouts: [{ model: m, form: none }]\n", "no form none" },
		{ "layouts: [{ model: m, form: vllm, tp: 60000, pp: 60000 }]\n", "layouts" },
		{ "layouts: [{ model: m, form: vllm, tq: 1 }]\n", "tq" },
		{ "forms: [\"x\"]\n", "not a name" }, { "forms: [\"x {nope}\"]\n", "unknown" },
		{ "forms: [\"x {tp}{tp}\"]\n", "twice" }, { "forms: [\"x [a\"]\n", "without ]" },
		{ "forms: [\"x a]\"]\n", "without [" }, { "forms: [\"x [[a]]\"]\n", "in a group" },
		{ "forms: [\"x a}b\"]\n", "without {" } };
	char err[300];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(keys_create_text(bad[i].text, err, sizeof(err)));
		if (strstr(err, bad[i].word) == NULL)
			fail_msg("%s", err);
	}
	assert_null(keys_create("/nonexistent/layouts.yaml", err, sizeof(err)));
}

static void places_in_a_chain_are_learned_from_parents(void **state)
{
	struct key_chain *c = key_chain_create(64);

	(void)state;
	assert_non_null(c);
	assert_int_equal(key_chain_place(c, 7), 0);
	assert_int_equal(key_chain_add(c, 7, 0, 0), 1);
	assert_int_equal(key_chain_add(c, 8, 1, 7), 2);
	assert_int_equal(key_chain_add(c, 9, 1, 8), 3);
	assert_int_equal(key_chain_add(c, 99, 1, 98), 0);
	assert_int_equal(key_chain_place(c, 9), 3);
	assert_int_equal(key_chain_place(c, 99), 0);
	for (uint64_t i = 0; i < 100000; i++)
		(void)key_chain_add(c, i << 8, 1, 9);
	/* Beginnings outlive what is far from them. */
	assert_int_equal(key_chain_place(c, 7), 1);
	key_chain_destroy(c);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(vllm_ranks_and_groups_of_a_block_are_one_set),
		TEST(ascend_keys_may_be_of_a_layer),
		TEST(sglang_k_and_v_are_a_pair_for_each_rank),
		TEST(an_mla_layout_takes_keys_of_pipeline_ranks),
		TEST(lmcache_keys_tell_how_many_workers_there_are),
		TEST(another_layout_is_refused_with_its_reason),
		TEST(one_contradiction_refuses_the_model_of_that_tenant),
		TEST(models_that_are_not_listed_are_shipped_or_not_as_told),
		TEST(warm_up_keys_are_junk),
		TEST(what_is_almost_a_form_is_opaque),
		TEST(hostile_keys_take_bounded_work),
		TEST(a_match_ends_after_so_many_steps),
		TEST(a_set_cannot_be_aimed_at_without_the_secret),
		TEST(forms_of_the_file_come_first),
		TEST(a_wrong_file_is_refused_with_the_place),
		TEST(places_in_a_chain_are_learned_from_parents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
