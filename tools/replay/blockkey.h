/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Keys of KV blocks, in the form of vLLM's Mooncake connector (PoolKey of its store/data.py):
 *
 *   <model>@tp_rank:<n>@pcp0@dcp0@pp_rank:0@group:0@<64 hex digits>
 *
 * The digits are the hash of a block of tokens and of everything before it. vLLM chains SHA-256
 * over tokens; a trace has no tokens, so here the chain runs over (id of the trace's block,
 * position in it), which keeps what matters: equal prefixes have equal keys. Pure, any thread.
 */

enum {
	REPLAY_HASH_BYTES = 32,
	REPLAY_MODEL_MAX = 256,
	REPLAY_RANKS_MAX = 1024,
	REPLAY_KEY_SIZE = 512, /* room for any key, with the NUL */
};

struct replay_chain {
	uint8_t hash[REPLAY_HASH_BYTES];
};

/** The empty prefix. */
void replay_chain_init(struct replay_chain *c);
/** Go on by one block. 0, or -EIO if OpenSSL fails. */
int replay_chain_next(struct replay_chain *c, uint64_t trace_block_id, uint32_t position);

/** Returns the length. model: at most REPLAY_MODEL_MAX bytes. */
size_t replay_key_format(char key[static REPLAY_KEY_SIZE], const char *model, uint32_t rank,
	const uint8_t hash[static REPLAY_HASH_BYTES]);

void replay_hex(const uint8_t *bytes, size_t n, char *out);
