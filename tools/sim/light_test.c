/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/light.h"

#include "dataplane/fec/digest.h"
#include "tools/sim/plan.h"
#include "tools/sim/run.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Every figure and every counter of both edges: one decision more or less would show. */
static void check_same(struct plan *p)
{
	static struct sim_result whole, light;

	p->world.light = false;
	sim_run(p, &whole);
	p->world.light = true;
	sim_run(p, &light);
	assert_string_equal(whole.error, "");
	assert_true(whole.ok && light.ok);
	assert_memory_equal(whole.figures, light.figures, sizeof(whole.figures));
	assert_memory_equal(whole.counters, light.counters, sizeof(whole.counters));
}

static void the_protocol_does_not_notice(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct plan p;

		plan_random(&p, seed);
		p.world.attack = 0; /* what comes of tampering depends on the bytes */
		check_same(&p);
	}
}

static void a_flipped_bit_is_found(void **state)
{
	uint8_t iv[12] = { 3 }, aad[24] = { 1, 2 }, text[1000], sealed[1000], tag[16], out[1000];
	struct aead a;

	(void)state;
	memset(text, 7, sizeof(text));
	assert_int_equal(aead_init(&a, &light_aead, text), 0);
	aead_seal(&a, iv, aad, sizeof(aad), text, sizeof(text), sealed, tag);
	assert_int_equal(aead_open(&a, iv, aad, sizeof(aad), sealed, sizeof(sealed), tag, out), 0);
	assert_memory_equal(out, text, sizeof(text));
	for (size_t bit = 0; bit < 8 * sizeof(sealed); bit += 37) {
		sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(aead_open(&a, iv, aad, sizeof(aad), sealed, sizeof(sealed), tag,
					 out),
			-EBADMSG);
		sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t bit = 0; bit < 8 * sizeof(aad); bit++) {
		aad[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(aead_open(&a, iv, aad, sizeof(aad), sealed, sizeof(sealed), tag,
					 out),
			-EBADMSG);
		aad[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	aead_fini(&a);
}

/* Of one byte in two words, the top bit among them: eight flips of a packet may meet there. */
static void two_flips_do_not_cancel(void **state)
{
	uint8_t iv[12] = { 0 }, aad[24] = { 0 }, plain[256] = { 0 }, sealed[256], tag[16], out[256];
	struct aead a;

	(void)state;
	assert_int_equal(aead_init(&a, &light_aead, (const uint8_t[32]){ 0 }), 0);
	aead_seal(&a, iv, aad, sizeof(aad), plain, sizeof(plain), sealed, tag);
	for (size_t from = 0; from < 8; from++)
		for (size_t to = from + 8; to < sizeof(sealed); to += 8) {
			for (unsigned int i = 0; i < 2; i++)
				sealed[i ? to : from] ^= 0x80;
			assert_int_equal(aead_open(&a, iv, aad, sizeof(aad), sealed, sizeof(sealed),
						 tag, out),
				-EBADMSG);
			for (unsigned int i = 0; i < 2; i++)
				sealed[i ? to : from] ^= 0x80;
		}
	aead_fini(&a);
}

static void pieces_are_remembered_with_their_digest(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		size_t len = 1 + 999 * seed;
		const uint8_t *p = light_bytes(seed, len);

		assert_non_null(p);
		assert_true(light_digest(seed, len) == digest_bytes(p, len));
		assert_true(light_digest(seed, len) == digest_bytes(p, len));
	}
	assert_true(light_digest(1, 100) != light_digest(2, 100));
	assert_null(light_bytes(0, (size_t)LIGHT_BYTES_MAX + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_protocol_does_not_notice),
		cmocka_unit_test(a_flipped_bit_is_found),
		cmocka_unit_test(two_flips_do_not_cancel),
		cmocka_unit_test(pieces_are_remembered_with_their_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
