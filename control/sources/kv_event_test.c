/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/bounds.h"
#include "control/sources/kv_event.h"

#include <jansson.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#define VECTORS "tests/vectors/kv_events/"

static size_t unhex(const char *s, uint8_t **out)
{
	size_t n = strlen(s) / 2;

	*out = malloc(n + 1);
	for (size_t i = 0; i < n; i++) {
		unsigned int v;

		assert_int_equal(sscanf(s + 2 * i, "%2x", &v), 1);
		(*out)[i] = (uint8_t)v;
	}
	return n;
}

static void each_line(const char *path, void (*fn)(const json_t *line, void *ctx), void *ctx)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;

	assert_non_null(f);
	while (getline(&text, &room, f) > 0) {
		json_t *line = json_loads(text, 0, NULL);

		assert_non_null(line);
		fn(line, ctx);
		json_decref(line);
	}
	free(text);
	fclose(f);
}

static const char *frame(const json_t *line, size_t i)
{
	return json_string_value(json_array_get(json_object_get(line, "frames"), i));
}

struct tally {
	uint32_t stored, removed, lines;
	uint64_t seq, seq_back;
	char keys[16][KV_KEY_MAX + 1];
	uint64_t hash;
};

static int mooncake_event(const struct kv_event *e, void *ctx)
{
	struct tally *t = ctx;

	assert_true(e->key.len > 0);
	assert_int_equal(e->tenant.len, 7);
	assert_memory_equal(e->tenant.data, "default", 7);
	assert_memory_equal(e->backend.data, "dc1", 3);
	assert_memory_equal(e->medium.data, "cpu", 3);
	assert_null(e->group.data);
	assert_null(e->model.data);
	assert_true(e->event_id > 0 && e->timestamp_ms > UINT64_C(1700000000000));
	if (e->hash_count > 0)
		t->hash = e->hashes[0].number;
	if (e->op == KV_STORED) {
		if (t->stored < 16)
			snprintf(t->keys[t->stored], KV_KEY_MAX + 1, "%.*s", (int)e->key.len,
				e->key.data);
		t->stored++;
	} else {
		assert_int_equal(e->op, KV_REMOVED);
		t->removed++;
	}
	return 0;
}

static void mooncake_line(const json_t *line, void *ctx)
{
	struct tally *t = ctx;
	struct kv_batch b;
	uint64_t seq;
	uint8_t *p;
	size_t n = unhex(frame(line, 1), &p);

	assert_int_equal(kv_seq_decode(p, n, &seq), 0);
	t->seq_back += seq <= t->seq;
	t->seq = seq;
	free(p);
	n = unhex(frame(line, 2), &p);
	assert_int_equal(kv_batch_decode(p, n, mooncake_event, t, &b), 0);
	assert_int_equal(b.rejected, 0);
	assert_int_equal(b.rank, 0);
	assert_true(b.timestamp_ms > UINT64_C(1700000000000));
	t->lines++;
	/* Cut anywhere it is refused whole. */
	for (size_t cut = 0; cut < n; cut += n / 50 + 1)
		assert_int_equal(kv_batch_decode(p, cut, mooncake_event, t, &b), -EBADMSG);
	free(p);
}

static void recorded_batches_of_a_mooncake_master_decode(void **state)
{
	struct tally t = { 0 };

	(void)state;
	each_line(VECTORS "mooncake_events.jsonl", mooncake_line, &t);
	assert_int_equal(t.seq_back, 0);
	assert_int_equal(t.removed, 1);
	assert_true(t.stored > 5);
	assert_string_equal(t.keys[0],
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@00112233445566778899aabbccddeeff");
	assert_string_equal(t.keys[1], "0xdeadbeef");
	assert_int_equal(t.hash, 0xdeadbeef);
}

static void recorded_restart_shows_as_a_sequence_that_goes_back(void **state)
{
	struct tally t = { 0 };

	(void)state;
	each_line(VECTORS "mooncake_events_restart.jsonl", mooncake_line, &t);
	assert_int_equal(t.seq_back, 1);
	assert_int_equal(t.seq, 1);
	assert_int_equal(t.lines, 5);
}

struct expected {
	const json_t *events;
	size_t at;
};

static void check_hash(const struct kv_hash *h, const json_t *want)
{
	uint8_t *p;
	size_t n;

	if (json_is_integer(want)) {
		assert_null(h->data);
		assert_int_equal(h->number, json_integer_value(want));
		return;
	}
	if (json_is_real(want)) { /* above 63 bits */
		assert_null(h->data);
		assert_true((double)h->number == json_real_value(want));
		return;
	}
	n = unhex(json_string_value(want), &p);
	assert_int_equal(h->len, n);
	assert_memory_equal(h->data, p, n);
	free(p);
}

static void check_text(const struct kv_text *t, const json_t *want)
{
	if (want == NULL) {
		assert_null(t->data);
		return;
	}
	assert_int_equal(t->len, json_string_length(want));
	assert_memory_equal(t->data, json_string_value(want), t->len);
}

static int engine_event(const struct kv_event *e, void *ctx)
{
	static const char *const ops[] = { "stored", "removed", "cleared" };
	struct expected *x = ctx;
	const json_t *want = json_array_get(x->events, x->at++);
	const json_t *hashes = json_object_get(want, "hashes");

	assert_non_null(want);
	assert_string_equal(ops[e->op], json_string_value(json_object_get(want, "op")));
	assert_int_equal(e->hash_count, json_array_size(hashes));
	for (uint32_t i = 0; i < e->hash_count; i++)
		check_hash(&e->hashes[i], json_array_get(hashes, i));
	if (json_object_get(want, "parent_block_hash") != NULL)
		check_hash(&e->parent, json_object_get(want, "parent_block_hash"));
	assert_int_equal(e->block_size, json_integer_value(json_object_get(want, "block_size")));
	check_text(&e->medium, json_object_get(want, "medium"));
	check_text(&e->lora, json_object_get(want, "lora_name"));
	return 0;
}

static void engine_line(const json_t *line, void *ctx)
{
	struct expected x = { json_object_get(line, "expect"), 0 };
	struct kv_batch b;
	uint8_t *p;
	size_t n = unhex(frame(line, 2), &p);

	assert_int_equal(kv_batch_decode(p, n, engine_event, &x, &b), 0);
	assert_int_equal(b.rejected, 0);
	assert_int_equal(b.events, json_array_size(x.events));
	assert_int_equal(b.timestamp_ms, json_integer_value(json_object_get(line, "timestamp_ms")));
	assert_int_equal(b.rank, json_integer_value(json_object_get(line, "rank")));
	free(p);
	++*(uint32_t *)ctx;
}

static void batches_of_engines_decode_in_every_form(void **state)
{
	uint32_t lines = 0;

	(void)state;
	each_line(VECTORS "engine_events.jsonl", engine_line, &lines);
	assert_int_equal(lines, 8);
}

static int count(const struct kv_event *e, void *ctx)
{
	(void)e;
	++*(int *)ctx;
	return 0;
}

#define DECODE(text, batch, n)                                                                     \
	kv_batch_decode((const uint8_t *)(text), sizeof(text) - 1, count, n, batch)

static void one_bad_event_does_not_take_its_batch_along(void **state)
{
	/* [1, [{"type": "Other"}, 7, ["BlockRemoved", [1]], ["BlockRemoved", 5],
	 * ["BlockRemoved", []], {"type": "BlockRemoved", "object_key": ""},
	 * ["AllBlocksCleared"]]] */
	static const char text[] = "\x92\x01\x97\x81\xa4type\xa5Other\x07\x92\xacx"
				   "BlockRemove\x91\x01";
	static const char good[] = "\x92\x01\x97\x81\xa4type\xa5Other\x07"
				   "\x92\xac"
				   "BlockRemoved\x91\x01"
				   "\x92\xac"
				   "BlockRemoved\x05"
				   "\x92\xac"
				   "BlockRemoved\x90"
				   "\x82\xa4type\xac"
				   "BlockRemoved\xaaobject_key\xa0"
				   "\x91\xb0"
				   "AllBlocksCleared";
	struct kv_batch b;
	int n = 0;

	(void)state;
	assert_int_equal(DECODE(good, &b, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(b.events, 2);
	assert_int_equal(b.rejected, 5);
	assert_int_equal(DECODE(text, &b, &n), -EBADMSG);
	assert_int_equal(n, 2);
}

static void claims_without_bytes_cost_no_memory(void **state)
{
	static const char *const texts[] = { "\xdd\xff\xff\xff\xff", "\xdf\x7f\xff\xff\xff",
		"\xc6\xff\xff\xff\xff", "\xdb\xff\xff\xff\xff", "\xc9\xff\xff\xff\xff",
		"\x92\xcf" };
	struct rlimit old, tight;
	struct kv_batch b;
	uint8_t *deep = malloc(100000), *wide = calloc(1, 5 + BOUNDS_VALUES_MAX + 8);
	uint32_t values = BOUNDS_VALUES_MAX + 8;
	int n = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	tight = old;
	tight.rlim_cur = UINT64_C(1) << 31;
#ifdef __SANITIZE_ADDRESS__
	tight.rlim_cur = old.rlim_cur; /* its shadow alone takes terabytes */
#endif
	assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(kv_batch_decode((const uint8_t *)texts[i], i < 5 ? 5 : 2, count,
					 &n, &b),
			-EBADMSG);
	memset(deep, 0x91, 100000);
	assert_int_equal(kv_batch_decode(deep, 100000, count, &n, &b), -E2BIG);
	memset(deep, 0x81, 100000);
	assert_int_equal(kv_batch_decode(deep, 100000, count, &n, &b), -E2BIG);
	wide[0] = 0xdd;
	for (int i = 0; i < 4; i++)
		wide[1 + i] = (uint8_t)(values >> (24 - 8 * i));
	assert_int_equal(kv_batch_decode(wide, 5 + values, count, &n, &b), -E2BIG);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	assert_int_equal(n, 0);
	free(deep);
	free(wide);
}

static void bounds_accept_every_format_and_nothing_cut_or_trailing(void **state)
{
	/* nil, bools, ints, floats, strs, bins, exts, arrays and maps of every width */
	static const char text[] =
		"\xdc\x00\x1e\xc0\xc2\xc3\x05\xe0\xcc\x01\xcd\x01\x02\xce\x01\x02\x03\x04"
		"\xcf\x01\x02\x03\x04\x05\x06\x07\x08\xd0\x01\xd1\x01\x02\xd2\x01\x02\x03\x04"
		"\xd3\x01\x02\x03\x04\x05\x06\x07\x08\xca\x01\x02\x03\x04"
		"\xcb\x01\x02\x03\x04\x05\x06\x07\x08\xa1x\xd9\x01x\xda\x00\x01x"
		"\xdb\x00\x00\x00\x01x"
		"\xc4\x01x\xc5\x00\x01x\xc6\x00\x00\x00\x01x\xd4\x01x\xd5\x01xx\xd6\x01xxxx"
		"\xd7\x01xxxxxxxx\xd8\x01xxxxxxxxxxxxxxxx\xc7\x01\x01x\x91\x01\x81\x01\x02";
	const uint8_t *p = (const uint8_t *)text;
	uint32_t values;

	(void)state;
	assert_int_equal(msgpack_bounds_check(p, sizeof(text) - 1, &values), 0);
	assert_int_equal(values, 1 + 30 + 1 + 2);
	for (size_t cut = 0; cut < sizeof(text) - 1; cut++)
		assert_int_equal(msgpack_bounds_check(p, cut, NULL), -EBADMSG);
	assert_int_equal(msgpack_bounds_check(p, sizeof(text), NULL), -EBADMSG);
	assert_int_equal(msgpack_bounds_check((const uint8_t *)"\xc1", 1, NULL), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded_batches_of_a_mooncake_master_decode),
		cmocka_unit_test(recorded_restart_shows_as_a_sequence_that_goes_back),
		cmocka_unit_test(batches_of_engines_decode_in_every_form),
		cmocka_unit_test(one_bad_event_does_not_take_its_batch_along),
		cmocka_unit_test(claims_without_bytes_cost_no_memory),
		cmocka_unit_test(bounds_accept_every_format_and_nothing_cut_or_trailing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
