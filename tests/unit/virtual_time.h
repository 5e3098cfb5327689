/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For worlds in virtual time (control_world.h, edges_world.h): their clock and what must hold in
 * them. A world has its seed and now_ns, which begins at BEGIN_NS.
 */

#include <stdint.h>

#define MS       UINT64_C(1000000)
#define BEGIN_NS UINT64_C(1000000000000)

/* Fails the test, and says in which world and when. */
#define CHECK(w, cond, ...)                                                                        \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			print_error("seed %llu at %llu ms: ", (unsigned long long)(w)->seed,       \
				(unsigned long long)(((w)->now_ns - BEGIN_NS) / MS));              \
			print_error(__VA_ARGS__);                                                  \
			print_error("\n");                                                         \
			fail();                                                                    \
		}                                                                                  \
	} while (0)
