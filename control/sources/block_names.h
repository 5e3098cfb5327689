/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/sources/kv_event.h"

#include <stdbool.h>

/*
 * Keys of the blocks an engine names by hash: templates such as
 *
 *   Qwen/Qwen3-32B@tp_rank:0@pcp0@dcp0@pp_rank:0@group:{group}@{hash}
 *
 * one for each object a block consists of (ranks, k and v). {hash} is a hash of bytes in lower-case
 * hex, a number as 16 digits of it; {group} the group of the event, decimal. Pure, any thread.
 */

/** Whether it names a block: has {hash}, no other braces, and a key is not too long. */
bool block_name_is_valid(const char *template);
/** Length of the key in out, 0: it would be longer than KV_KEY_MAX. */
size_t block_name(const char *template, const struct kv_hash *hash, uint32_t group,
	char out[static KV_KEY_MAX]);
