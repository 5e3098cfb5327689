/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The highest master term this edge has obeyed, kept across restarts in <state_dir>/term.
 *
 * A master of a lower term was replaced and must not order any more. The new term is on disk
 * before anything of it is obeyed. Control thread only.
 */

struct term {
	char path[4096];
	uint64_t highest;
};

/** Load, or start at 0 when there is no file. -EINVAL and others, with what to do in err. */
int term_init(struct term *t, const char *state_dir, char *err, size_t err_len);

/** 0: obey. -ESTALE: lower than one seen before. Others: the disk; do not obey. */
int term_check(struct term *t, uint64_t term);
