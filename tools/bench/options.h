/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Command line of strait-bench. Pure: parsing touches no file and prints nothing but the help.
 */

/* From BENCH_EXIST on they are the control plane's. */
enum bench_verb {
	BENCH_LIMIT,
	BENCH_TX,
	BENCH_RX,
	BENCH_EDGE,
	BENCH_EXIST,
	BENCH_INDEX,
	BENCH_DIFF,
	BENCH_CONTROL,
};

enum {
	BENCH_RUNS_MAX = 99,
	BENCH_ROWS_MAX = 16, /* rows made in one pass by the codec */
};

struct bench_options {
	enum bench_verb verb;
	double seconds; /* of each timed stretch of the path */
	double loss;    /* rx: packets dropped; 0..0.3 */
	uint32_t rows;  /* proactive rows a block */
	uint32_t mtu;
	uint32_t symbol_bytes; /* follows from mtu: IPv4 */
	uint32_t runs;
	uint32_t pool_mib; /* of each pool */
	uint32_t ring_mib; /* rx: packets sealed beforehand */
	uint64_t keys;     /* exist, index, diff, control */
	double rate;       /* control: events a second */
	int cpu;           /* -1: the last one allowed */
	bool json, help;
};

/** 0, or -EINVAL with a sentence in err. */
int bench_options_parse(struct bench_options *o, int argc, char **argv, char *err, size_t err_len);
void bench_options_help(void);
const char *bench_verb_name(enum bench_verb verb);
