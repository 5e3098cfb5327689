/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/scenario.h"

#undef COUNT
#include "dataplane/transport/session_pvt.h"
#undef COUNT

static struct world *attacked(uint64_t seed)
{
	struct world_config cfg = small_config(seed);
	struct world *w;

	cfg.attack = 0.1;
	cfg.link[WORLD_SOURCE].loss = 0.02;
	w = world_open(&cfg, NULL);
	for (int i = 0; i < 3; i++)
		order(w, 10, 100 * KIB);
	return w;
}

static void nothing_that_is_tried_has_an_effect(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct world *w = attacked(seed);

		world_run(w, 10 * S);
		assert_true(attack_tries(w->attack) > 100);
		finish_open(w, 1 * S);
		world_destroy(w);
	}
}

static void a_receiver_that_forgets_what_it_took_is_found_out(void **state)
{
	struct world *w = attacked(1);

	(void)state;
	for (int i = 0; i < 100 && !w->error[0]; i++) {
		struct pnwindow *window = &w->session[WORLD_SINK]->rx.window;

		memset(window->bits, 0, 3 * (window->size / 8));
		world_run_for(w, 2 * MS);
	}
	assert_non_null(strstr(w->error, "a replayed packet"));
	world_destroy(w);
}

static void one_key_for_both_directions_is_found_out(void **state)
{
	struct world *w = attacked(1);

	(void)state;
	w->session[WORLD_SINK]->tx_keys = w->session[WORLD_SOURCE]->tx_keys;
	attack_sessions(w->attack, w);
	assert_non_null(strstr(w->error, "the same nonces"));
	world_destroy(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_that_is_tried_has_an_effect),
		cmocka_unit_test(a_receiver_that_forgets_what_it_took_is_found_out),
		cmocka_unit_test(one_key_for_both_directions_is_found_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
