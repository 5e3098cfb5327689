/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Command line form of struct link_config, shared by strait-sim and strait-wan so that one option
 * means the same in both:
 *   --rate-gbps R  --rtt-ms MS  --loss P  --ge P,BURST  --reorder P,MS  --dup P  --corrupt P[,BITS]
 *   --cut AT_MS,LEN_MS (repeatable)  --rtt-step AT_MS,NEW_MS (repeatable)
 *   --queue-bdp X  --queue-bytes N
 * Numbers are decimal and may have a fraction; P is a probability in 0..1. The parser keeps no
 * state; any thread may call it.
 */

#include "tools/link/link.h"

#include <stdbool.h>
#include <stddef.h>

/* True when name (without the leading "--") is an option of the link model. Each takes a value. */
bool link_config_is_option(const char *name);

/*
 * Apply one option. Returns 0; -ENOENT when name is no link option; -EINVAL on a bad value; -ENOSPC
 * when a repeatable option is given too often. On error cfg is unchanged and errbuf holds one line
 * for the user, without newline.
 */
int link_config_parse_option(const char *name, const char *value, struct link_config *cfg,
	char *errbuf, size_t errlen);

/* Text for --help: one option a line, each line indented by two spaces. */
extern const char link_options_help[];
