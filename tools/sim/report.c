/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	int decimals;
} figures[SIM_FIGURE_COUNT] = {
#define FIGURE(name, decimals, help) { #name, decimals },
	SIM_FIGURES(FIGURE)
#undef FIGURE
};

static void number(FILE *out, double v, int decimals)
{
	if (!isfinite(v))
		fputs("null", out);
	else
		fprintf(out, "%.*f", decimals, fabs(v) < 0.5 * pow(10, -decimals) ? 0 : v);
}

static void text(FILE *out, const char *s)
{
	fputc('"', out);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', out);
		if ((unsigned char)*s >= ' ')
			fputc(*s, out);
	}
	fputc('"', out);
}

static void counters_json(FILE *out, const struct sim_result *s)
{
	static const char *const side[WORLD_SIDES] = { "source", "sink" };

	for (int i = 0; i < WORLD_SIDES; i++) {
		fprintf(out, ", \"%s\": {", side[i]);
		for (int c = 0; c < STRAIT_COUNTER_COUNT; c++)
			fprintf(out, "%s\"%s\": %" PRIu64, c ? ", " : "",
				strait_counter_descs[c].name, s->counters[i][c]);
		fputc('}', out);
	}
}

static void result_json(const struct sim_report *r, const struct sim_result *s)
{
	fprintf(r->out, "{\"seed\": %" PRIu64 ", \"ok\": %s", s->seed, s->ok ? "true" : "false");
	for (int i = 0; i < SIM_FIGURE_COUNT; i++) {
		fprintf(r->out, ", \"%s\": ", figures[i].name);
		number(r->out, s->figures[i], figures[i].decimals);
	}
	fprintf(r->out, ", \"bytes\": %" PRIu64, s->bytes);
	if (s->error[0]) {
		fputs(", \"error\": ", r->out);
		text(r->out, s->error);
	}
	if (r->counters)
		counters_json(r->out, s);
	fputs("}\n", r->out);
}

/* Columns of the table: the figures people look at first. */
static const enum sim_figure columns[] = { SIM_seconds, SIM_ideal_seconds, SIM_efficiency,
	SIM_overhead, SIM_extra_rtt, SIM_repair_rounds, SIM_feedback_ratio, SIM_loss };
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static void cell(FILE *out, enum sim_figure f, double v)
{
	int width = (int)strlen(figures[f].name);

	if (width < 9)
		width = 9;
	if (isfinite(v))
		fprintf(out, "  %*.*f", width, figures[f].decimals, v);
	else
		fprintf(out, "  %*s", width, "-");
}

static void header(FILE *out)
{
	fprintf(out, "%10s  %-4s", "seed", "ok");
	for (int i = 0; i < COLUMNS; i++)
		fprintf(out, "  %9s", figures[columns[i]].name);
	fputc('\n', out);
}

static void result_table(struct sim_report *r, const struct sim_result *s)
{
	static const char *const side[WORLD_SIDES] = { "source", "sink" };

	if (r->n == 0)
		header(r->out);
	fprintf(r->out, "%10" PRIu64 "  %-4s", s->seed, s->ok ? "yes" : "NO");
	for (int i = 0; i < COLUMNS; i++)
		cell(r->out, columns[i], s->figures[columns[i]]);
	fprintf(r->out, "%s%s\n", s->error[0] ? "  " : "", s->error);
	for (int i = 0; i < WORLD_SIDES && r->counters; i++)
		for (int c = 0; c < STRAIT_COUNTER_COUNT; c++)
			if (s->counters[i][c])
				fprintf(r->out, "%16s %-20s %12" PRIu64 "  %s\n", side[i],
					strait_counter_descs[c].name, s->counters[i][c],
					strait_counter_descs[c].help);
}

void sim_report_result(struct sim_report *r, const struct sim_result *s)
{
	if (r->json)
		result_json(r, s);
	else
		result_table(r, s);
	fflush(r->out);
	r->n++;
	r->ok += s->ok;
}

enum { STAT_MIN, STAT_MEAN, STAT_P50, STAT_P99, STAT_P999, STAT_MAX, STAT_COUNT };

static const char *const stat_names[STAT_COUNT] = { "min", "mean", "p50", "p99", "p999", "max" };

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double rank(const double *sorted, uint64_t n, double q)
{
	uint64_t i = (uint64_t)ceil(q * (double)n);

	return sorted[i ? i - 1 : 0];
}

/* All NAN when no seed has the figure. */
static void stats(const struct sim_report *r, int figure, double *tmp, double out[STAT_COUNT])
{
	uint64_t n = 0;
	double sum = 0;

	for (int i = 0; i < STAT_COUNT; i++)
		out[i] = NAN;
	for (uint64_t i = 0; i < r->n; i++) {
		double v = r->results[i].figures[figure];

		if (isfinite(v)) {
			tmp[n++] = v;
			sum += v;
		}
	}
	if (n == 0)
		return;
	qsort(tmp, n, sizeof(*tmp), compare);
	out[STAT_MIN] = tmp[0];
	out[STAT_MEAN] = sum / (double)n;
	out[STAT_P50] = rank(tmp, n, 0.5);
	out[STAT_P99] = rank(tmp, n, 0.99);
	out[STAT_P999] = rank(tmp, n, 0.999);
	out[STAT_MAX] = tmp[n - 1];
}

void sim_report_summary(struct sim_report *r)
{
	double *tmp = malloc((r->n + 1) * sizeof(*tmp));
	double s[SIM_FIGURE_COUNT][STAT_COUNT];

	if (!tmp)
		return;
	for (int i = 0; i < SIM_FIGURE_COUNT; i++)
		stats(r, i, tmp, s[i]);
	free(tmp);
	if (!r->json) {
		for (int j = 0; j < STAT_COUNT && r->n > 1; j++) {
			fprintf(r->out, "%10s  %-4s", stat_names[j], "");
			for (int i = 0; i < COLUMNS; i++)
				cell(r->out, columns[i], s[columns[i]][j]);
			fputc('\n', r->out);
		}
		fprintf(r->out, "%" PRIu64 " of %" PRIu64 " ok\n", r->ok, r->n);
		return;
	}
	fprintf(r->out, "{\"summary\": {\"seeds\": %" PRIu64 ", \"ok\": %" PRIu64, r->n, r->ok);
	for (int i = 0; i < SIM_FIGURE_COUNT; i++) {
		fprintf(r->out, ", \"%s\": {", figures[i].name);
		for (int j = 0; j < STAT_COUNT; j++) {
			int decimals = figures[i].decimals;

			/* The mean of whole numbers has decimals. */
			if (j == STAT_MEAN && decimals == 0)
				decimals = 4;
			fprintf(r->out, "%s\"%s\": ", j ? ", " : "", stat_names[j]);
			number(r->out, s[i][j], decimals);
		}
		fputc('}', r->out);
	}
	fputs("}}\n", r->out);
}
