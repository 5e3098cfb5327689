/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Request traces of the form published with Mooncake (FAST'25): one JSON object a line with
 * timestamp (ms), input_length and output_length (tokens) and hash_ids, one id for each block of
 * 512 input tokens. Equal ids are equal prefixes: a block's id stands for everything before it
 * too.
 *
 * A trace comes from a file or from a seeded generator of the same form. Requests are read one by
 * one, so that a trace of any length fits. One thread.
 */

enum {
	REPLAY_TRACE_BLOCK_TOKENS = 512,
	REPLAY_TRACE_BLOCKS_MAX = 65536, /* of a request: 32 Mi tokens */
	REPLAY_TRACE_LINE_MAX = 4 << 20,
};

struct replay_request {
	uint64_t timestamp_ms;
	uint64_t input_tokens, output_tokens;
	const uint64_t *ids; /* valid until the next request is read */
	size_t id_count;
};

struct replay_trace;

/** NULL + errno, with the reason in err. */
struct replay_trace *replay_trace_open(const char *path, char *err, size_t err_len);
/** requests: how many there will be. NULL + errno. */
struct replay_trace *replay_trace_generate(uint64_t seed, uint64_t requests);
void replay_trace_close(struct replay_trace *t);

/** 1: *req is filled in; 0: the end; -EINVAL or -EIO, with file and line in err. */
int replay_trace_next(struct replay_trace *t, struct replay_request *req, char *err,
	size_t err_len);

/** As a line of JSON, with the newline, for `strait-replay trace`. To stdout. */
void replay_request_print(const struct replay_request *req);
