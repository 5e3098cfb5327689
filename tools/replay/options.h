/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/replay/prfaas.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Command line of strait-replay. Pure, one thread. */

enum replay_verb { REPLAY_PUT, REPLAY_VERIFY, REPLAY_KEYS, REPLAY_TRACE, REPLAY_PRFAAS };

struct replay_options {
	enum replay_verb verb;
	bool help;
	/* where requests come from */
	const char *trace; /* NULL: generated */
	uint64_t seed, requests;
	bool requests_told, block_tokens_told, bytes_told;
	/* what becomes of them */
	const char *model;
	uint32_t block_tokens, tp;
	uint64_t bytes_per_block;                    /* of all ranks together, scale applied */
	uint64_t objects, bytes, blocks_per_request; /* limits; UINT64_MAX: none */
	/* where it goes */
	const char *pool, *manifest;
	const char *decode_pool; /* of prfaas, live */
	uint64_t create_bytes;   /* 0: the pool exists */
	bool allow_evict, allow_missing, json;
	/* in virtual time */
	struct prfaas_config prfaas;
	int mode;     /* of enum prfaas_mode, -1: one after the other */
	double speed; /* requests come so many times as fast */
};

/** 0 or -EINVAL with one sentence in err. */
int replay_options_parse(struct replay_options *o, int argc, char **argv, char *err,
	size_t err_len);
void replay_options_help(void);

/** Length of one object: bytes_per_block shared by the ranks, rounded up. */
uint64_t replay_object_bytes(const struct replay_options *o);
