/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/replay/options.h"

#include <stdint.h>

/* What the verbs do. One thread. They print nothing unless it is said. */

struct replay_put_result {
	uint64_t requests, blocks, reused_blocks;
	uint64_t objects, bytes; /* of this run, those that were there already included */
	uint64_t existed;
	uint64_t evictions; /* by anybody, meanwhile */
	double seconds;
};

/** 0, or -errno with what to do about it in err. */
int replay_put(const struct replay_options *o, struct replay_put_result *r, char *err,
	size_t err_len);

struct replay_verify_result {
	uint64_t objects, bytes; /* of the manifest */
	uint64_t verified, missing, differs;
	char first[512]; /* what is wrong with the first bad one; "": none is */
	double seconds;
};

/** 0: all was read (see the figures), or -errno with the reason in err. */
int replay_verify(const struct replay_options *o, struct replay_verify_result *r, char *err,
	size_t err_len);
/** Is everything as it should be, with --allow-missing or without? */
bool replay_verify_is_good(const struct replay_options *o, const struct replay_verify_result *r);

struct prfaas_live_result {
	uint64_t requests, remote, misses;
	uint64_t blocks, hits;   /* asked for at arrival, found by prefix */
	uint64_t shipped, there; /* of remote prefills: needed, and there in time */
	uint64_t put_bytes[2];   /* into the prefill site's pool, the decode site's */
	uint64_t behind_ns;      /* at most, behind the clock */
	double seconds;
};

/** By the clock, on two pools; without a print. As below. */
int replay_prfaas_live(const struct replay_options *o, struct prfaas_live_result *r, char *err,
	size_t err_len);
/** Replays in virtual time, or live, and prints. 0, or -errno with the reason in err. */
int replay_prfaas(const struct replay_options *o, char *err, size_t err_len);
/** One mode, without a print. */
int replay_prfaas_run(const struct replay_options *o, enum prfaas_mode mode,
	struct prfaas_result *r, char *err, size_t err_len);
