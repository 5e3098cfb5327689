/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/result.h"

#include <stdlib.h>
#include <string.h>

static struct figure *find(struct result *r, const char *name)
{
	for (uint32_t i = 0; i < r->n; i++)
		if (strcmp(r->figures[i].name, name) == 0)
			return &r->figures[i];
	return NULL;
}

void result_add(struct result *r, const char *name, double value)
{
	struct figure *f = find(r, name);

	if (f == NULL) {
		if (r->n == RESULT_FIGURES)
			return;
		f = &r->figures[r->n++];
		memset(f, 0, sizeof(*f));
		snprintf(f->name, sizeof(f->name), "%s", name);
	}
	if (f->n < BENCH_RUNS_MAX)
		f->values[f->n++] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double result_middle(double *v, uint32_t n)
{
	qsort(v, n, sizeof(v[0]), compare);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double result_spread(double *v, uint32_t n)
{
	double middle = result_middle(v, n);

	return (v[n - 1 - n / 4] - v[n / 4]) / middle;
}

/* least, median, most */
static void spread(const struct figure *f, double out[3])
{
	double v[BENCH_RUNS_MAX];

	memcpy(v, f->values, sizeof(v[0]) * f->n);
	qsort(v, f->n, sizeof(v[0]), compare);
	out[0] = v[0];
	out[1] = f->n % 2 ? v[f->n / 2] : (v[f->n / 2 - 1] + v[f->n / 2]) / 2;
	out[2] = v[f->n - 1];
}

double result_median(const struct result *r, const char *name)
{
	const struct figure *f = find((struct result *)(uintptr_t)r, name);
	double s[3];

	if (f == NULL)
		return 0;
	spread(f, s);
	return s[1];
}

static void print_json(const struct result *r, const struct bench_options *o, int cpu, FILE *to)
{
	double s[3];

	if (o->verb >= BENCH_EXIST)
		fprintf(to,
			"{\"bench\": \"%s\", \"keys\": %llu, \"seconds\": %g, \"runs\": %u, "
			"\"cpu\": %d",
			bench_verb_name(o->verb), (unsigned long long)o->keys, o->seconds, o->runs,
			cpu);
	else
		fprintf(to,
			"{\"bench\": \"%s\", \"mtu\": %u, \"symbol\": %u, \"rows\": %u, "
			"\"loss\": %g, \"seconds\": %g, \"runs\": %u, \"cpu\": %d, "
			"\"pool_mib\": %u, \"ring_mib\": %u",
			bench_verb_name(o->verb), o->mtu, o->symbol_bytes, o->rows, o->loss,
			o->seconds, o->runs, cpu, o->pool_mib, o->ring_mib);
	for (uint32_t i = 0; i < r->n; i++) {
		spread(&r->figures[i], s);
		fprintf(to, ", \"%s\": %.6g", r->figures[i].name, s[1]);
		if (strcmp(r->figures[i].name, "gbps") == 0)
			fprintf(to, ", \"gbps_min\": %.6g, \"gbps_max\": %.6g", s[0], s[2]);
	}
	fputs("}\n", to);
}

void result_print(const struct result *r, const struct bench_options *o, int cpu, FILE *to)
{
	double s[3];

	if (o->json) {
		print_json(r, o, cpu, to);
		return;
	}
	if (o->verb >= BENCH_EXIST)
		fprintf(to, "%s: %llu keys, %u runs of %g s on CPU %d\n", bench_verb_name(o->verb),
			(unsigned long long)o->keys, o->runs, o->seconds, cpu);
	else
		fprintf(to, "%s: MTU %u, symbol %u bytes, %u runs of %g s on CPU %d\n",
			bench_verb_name(o->verb), o->mtu, o->symbol_bytes, o->runs, o->seconds,
			cpu);
	fprintf(to, "%-36s %10s %10s %10s\n", "", "min", "median", "max");
	for (uint32_t i = 0; i < r->n; i++) {
		spread(&r->figures[i], s);
		if (r->figures[i].n == 1)
			fprintf(to, "%-36s %10s %10.4g\n", r->figures[i].name, "", s[1]);
		else
			fprintf(to, "%-36s %10.4g %10.4g %10.4g\n", r->figures[i].name, s[0], s[1],
				s[2]);
	}
}
