/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/edge.h"
#include "tools/bench/host.h"
#include "tools/bench/keys.h"
#include "tools/bench/limit.h"
#include "tools/bench/options.h"
#include "tools/bench/path.h"
#include "tools/bench/result.h"
#include "tools/bench/stages.h"

#include "dataplane/crypto/aead.h"

#include <strait/wire.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2, SLICES_MAX = 64 };

/* Path and ceiling alternate in slices, so short that what disturbs one disturbs the other. */
#define SLICE_S       0.05
#define CEILING_SHARE 0.4 /* of a slice, before it and again after it */
#define RAW_SHARE     0.2
#define WARM_UP_S     0.1

struct run {
	const struct bench_options *o;
	struct result *r;
	struct limit *limit;
	uint8_t *pool;
	size_t pool_bytes;
};

static void run_limit(struct run *x)
{
	double s = x->o->seconds * CEILING_SHARE;

	for (uint32_t i = 0; i < x->o->runs; i++) {
		double tx = limit_tx(x->limit, 0, s), raw = limit_raw_seal(x->limit, s);

		result_add(x->r, "gbps", tx);
		result_add(x->r, "ceiling", tx);
		result_add(x->r, "ratio", 1);
		if (x->o->rows > 0)
			result_add(x->r, "ceiling_tx_rows", limit_tx(x->limit, x->o->rows, s));
		result_add(x->r, "ceiling_rx", limit_rx(x->limit, s));
		result_add(x->r, "raw", raw);
		result_add(x->r, "raw_ratio", tx / raw);
		result_add(x->r, "raw_open", limit_raw_open(x->limit, s));
	}
}

static void stretch_add(struct run *x, const struct stretch *s)
{
	double packets = (double)(s->packets > 0 ? s->packets : 1);
	double blocks = s->blocks > 0 ? s->blocks : 1;

	result_add(x->r, "mpps", packets / s->seconds * 1e-6);
	result_add(x->r, "path_cycles", s->seconds * host_cycles_a_second() / packets);
	result_add(x->r, "cpu_share", s->seconds / s->wall_seconds);
	result_add(x->r, "rows_per_block", (double)s->rows / blocks);
	result_add(x->r, "resent_share", (double)s->resent / (blocks * STRAIT_BLOCK_SYMBOLS_MAX));
	if (x->o->verb == BENCH_RX)
		result_add(x->r, "decoded_share", (double)s->blocks_decoded / blocks);
	else
		result_add(x->r, "path_standin_cycles", (double)s->standin_cycles / packets);
	result_add(x->r, "path_feedback_cycles", (double)s->feedback_cycles / packets);
}

static void stretch_sum(struct stretch *sum, const struct stretch *s)
{
	sum->seconds += s->seconds;
	sum->wall_seconds += s->wall_seconds;
	sum->payload_bytes += s->payload_bytes;
	sum->packets += s->packets;
	sum->rows += s->rows;
	sum->resent += s->resent;
	sum->blocks_decoded += s->blocks_decoded;
	sum->blocks += s->blocks;
	sum->feedback_cycles += s->feedback_cycles;
	sum->standin_cycles += s->standin_cycles;
}

/* One run: each figure is the median of its slices, ratios too. */
static int run_slices(struct run *x, struct tx_bench *tx, struct rx_bench *rx)
{
	const struct bench_options *o = x->o;
	double c = SLICE_S * CEILING_SHARE, before, gbps[SLICES_MAX], ceiling[SLICES_MAX],
	       ratio[SLICES_MAX], raw[SLICES_MAX], raw_ratio[SLICES_MAX];
	uint32_t n = (uint32_t)(o->seconds / SLICE_S);
	struct stretch sum = { 0 };

	n = n < 1 ? 1 : n > SLICES_MAX ? SLICES_MAX : n;
	before = tx ? limit_tx(x->limit, o->rows, c) : limit_rx(x->limit, c);
	for (uint32_t i = 0; i < n; i++) {
		struct stretch st = { 0 };
		int ret = tx ? tx_bench_run(tx, SLICE_S, &st) : rx_bench_run(rx, SLICE_S, &st);
		double after = tx ? limit_tx(x->limit, o->rows, c) : limit_rx(x->limit, c);

		if (ret < 0)
			return ret;
		stretch_sum(&sum, &st);
		raw[i] = tx ? limit_raw_seal(x->limit, SLICE_S * RAW_SHARE)
			    : limit_raw_open(x->limit, SLICE_S * RAW_SHARE);
		gbps[i] = (double)st.payload_bytes * 8e-9 / st.seconds;
		ceiling[i] = (before + after) / 2;
		ratio[i] = gbps[i] / ceiling[i];
		raw_ratio[i] = gbps[i] / raw[i];
		before = after;
	}
	result_add(x->r, "gbps", result_middle(gbps, n));
	result_add(x->r, "ceiling", result_middle(ceiling, n));
	result_add(x->r, "ratio", result_middle(ratio, n));
	result_add(x->r, "raw", result_middle(raw, n));
	result_add(x->r, "raw_ratio", result_middle(raw_ratio, n));
	/* How far apart slices are, as a share of the median: above 0.2 or so, measure again. */
	result_add(x->r, "ratio_spread", result_spread(ratio, n));
	stretch_add(x, &sum);
	return 0;
}

static int run_path(struct run *x)
{
	const struct bench_options *o = x->o;
	struct tx_bench *tx = o->verb == BENCH_TX ? tx_bench_create(o, x->pool) : NULL;
	struct rx_bench *rx = o->verb == BENCH_RX ? rx_bench_create(o, x->pool) : NULL;
	int ret = tx != NULL || rx != NULL ? 0 : -errno;
	struct stretch st = { 0 };

	if (ret == 0)
		ret = tx ? tx_bench_run(tx, WARM_UP_S, &st) : rx_bench_run(rx, WARM_UP_S, &st);
	for (uint32_t i = 0; i < o->runs && ret == 0; i++)
		ret = run_slices(x, tx, rx);
	tx_bench_destroy(tx);
	rx_bench_destroy(rx);
	return ret;
}

/* Apart from the path, and last: they write to the pool. */
static int run_stages(struct run *x)
{
	double cycles[STAGE_COUNT];
	uint32_t rows = x->o->rows > 0 ? x->o->rows : 4;
	char name[RESULT_NAME_BYTES];
	int ret = stages_measure(x->pool, x->pool_bytes, x->o->symbol_bytes, rows, cycles);

	for (int i = 0; i < STAGE_COUNT && ret == 0; i++) {
		snprintf(name, sizeof(name), "apart_%s_cycles", stage_name(i));
		result_add(x->r, name, cycles[i]);
	}
	return ret;
}

static int run(const struct bench_options *o, struct result *r)
{
	struct run x = { .o = o, .r = r, .pool_bytes = (size_t)o->pool_mib << 20 };
	uint8_t *own = NULL;
	int ret = -ENOMEM;

	x.pool = host_region_get(x.pool_bytes);
	if (x.pool == NULL)
		goto out;
	/* The receiver's ceiling overwrites its pool: not the one that a sender reads. */
	if (o->verb == BENCH_RX) {
		own = host_region_get(x.pool_bytes);
		if (own == NULL)
			goto out;
	}
	x.limit = limit_create(own != NULL ? own : x.pool, x.pool_bytes, o->symbol_bytes, o->rows,
		bench_ring_slots(o));
	if (x.limit == NULL)
		goto out;
	ret = 0;
	if (o->verb == BENCH_LIMIT)
		run_limit(&x);
	else
		ret = run_path(&x);
	if (ret == 0)
		ret = run_stages(&x);
out:
	limit_destroy(x.limit);
	host_region_put(own, x.pool_bytes);
	host_region_put(x.pool, x.pool_bytes);
	return ret;
}

/* The edges first, with all CPUs; then what one core could do at most, sending and receiving. */
static int edge_run(const struct bench_options *o, struct result *r)
{
	struct run x = { .o = o, .r = r, .pool_bytes = (size_t)o->pool_mib << 20 };
	int ret = edge_bench_run(o, r);
	double tx, rx, least;

	if (ret < 0)
		return ret;
	(void)host_pin(o->cpu);
	x.pool = host_region_get(x.pool_bytes);
	if (x.pool == NULL)
		return -ENOMEM;
	x.limit = limit_create(x.pool, x.pool_bytes, o->symbol_bytes, 0, HOST_RING_SLOTS);
	if (x.limit == NULL) {
		ret = -errno;
		goto out;
	}
	for (uint32_t i = 0; i < o->runs; i++) {
		tx = limit_tx(x.limit, 0, o->seconds * CEILING_SHARE);
		rx = limit_rx(x.limit, o->seconds * CEILING_SHARE);
		least = tx < rx ? tx : rx;
		result_add(r, "ceiling", least);
		result_add(r, "ratio", result_median(r, "core_gbps") / least);
		result_add(r, "raw_ratio",
			result_median(r, "core_gbps") /
				limit_raw_open(x.limit, o->seconds * CEILING_SHARE));
	}
out:
	limit_destroy(x.limit);
	host_region_put(x.pool, x.pool_bytes);
	return ret;
}

static int control_run(const struct bench_options *o, int cpu, struct result *r)
{
	switch (o->verb) {
	case BENCH_EXIST:
		return exist_run(o, cpu, r);
	case BENCH_INDEX:
		return index_run(o, cpu, r);
	case BENCH_CONTROL:
		return control_load_run(o, r);
	default:
		return diff_run(o, r);
	}
}

static const char *explain(int ret)
{
	switch (ret) {
	case -ERANGE:
		return "no loss makes the sender plan so many rows";
	case -ETIME:
		return "the sessions stalled";
	case -EBADMSG:
		return "something arrived damaged";
	default:
		return strerror(-ret);
	}
}

int main(int argc, char **argv)
{
	struct bench_options o;
	static struct result r;
	char err[256] = "";
	int ret, cpu;

	if (bench_options_parse(&o, argc, argv, err, sizeof(err)) < 0) {
		fprintf(stderr, "strait-bench: %s\ntry strait-bench --help\n", err);
		return EXIT_USAGE;
	}
	if (o.help) {
		bench_options_help();
		return EXIT_SUCCESS;
	}
	cpu = o.verb == BENCH_EDGE || o.verb == BENCH_CONTROL ? 0 : host_pin(o.cpu);
	(void)host_cycles_a_second();
	if (cpu < 0) {
		fprintf(stderr, "strait-bench: cannot run on CPU %d: %s\n", o.cpu, strerror(-cpu));
		return EXIT_FAILURE;
	}
	if (o.verb < BENCH_EXIST && aead_default() != &aead_ipsec_mb)
		fprintf(stderr, "strait-bench: this CPU has no ipsec-mb backend\n");
	if (o.verb == BENCH_EDGE)
		ret = edge_run(&o, &r);
	else
		ret = o.verb < BENCH_EXIST ? run(&o, &r) : control_run(&o, cpu, &r);
	if (ret < 0) {
		fprintf(stderr, "strait-bench: %s: %s\n", bench_verb_name(o.verb), explain(ret));
		return EXIT_FAILURE;
	}
	result_print(&r, &o, cpu, stdout);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "strait-bench: stdout: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
