/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/units.h"
#include "control/ctl/ctl.h"
#include "control/ctl/print.h"
#include "control/planner/sizing.h"

#include <stdlib.h>

/* plan: pool sizes and WAN shares of two sites, by arithmetic; no master is asked. */

static int number(const struct ctl *ctl, const char *name, double *out)
{
	const char *text = ctl_option(ctl, name);
	char *end;

	if (text == NULL)
		return CTL_OK;
	*out = strtod(text, &end);
	if (end == text || *end != '\0')
		return ctl_fail(CTL_USAGE, "--%s: \"%s\" is not a number", name, text);
	return CTL_OK;
}

static int duration(const struct ctl *ctl, const char *name, double *out)
{
	const char *text = ctl_option(ctl, name);
	char err[160];
	uint64_t ns;

	if (text == NULL)
		return CTL_OK;
	if (units_parse_duration(text, &ns, err, sizeof(err)) != 0)
		return ctl_fail(CTL_USAGE, "--%s: %s", name, err);
	*out = (double)ns * 1e-9;
	return CTL_OK;
}

static int sizes(const struct ctl *ctl, struct sizing *s)
{
	const char *bytes = ctl_option(ctl, "block-bytes"), *line = ctl_option(ctl, "line");
	char err[160];
	uint64_t n;

	if (bytes != NULL) {
		if (units_parse_bytes(bytes, &n, err, sizeof(err)) != 0)
			return ctl_fail(CTL_USAGE, "--block-bytes: %s", err);
		s->block_bytes = (double)n;
	}
	if (line != NULL) {
		if (units_parse_rate(line, &n, err, sizeof(err)) != 0)
			return ctl_fail(CTL_USAGE, "--line: %s", err);
		s->line_bps = (double)n;
	}
	return CTL_OK;
}

static int read_options(const struct ctl *ctl, struct sizing *s)
{
	static const char *const needed[] = { "throughput", "block-tokens", "block-bytes", "reuse",
		"eviction-period" };
	const struct {
		const char *name;
		double *at;
	} numbers[] = { { "throughput", &s->tokens_per_s }, { "block-tokens", &s->block_tokens },
		{ "reuse", &s->reuse }, { "remote", &s->remote }, { "back", &s->back },
		{ "efficiency", &s->efficiency }, { "peak", &s->peak } };
	int rc = sizes(ctl, s);

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (ctl_option(ctl, needed[i]) == NULL)
			return ctl_fail(CTL_USAGE, "--%s is needed", needed[i]);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && rc == CTL_OK; i++)
		rc = number(ctl, numbers[i].name, numbers[i].at);
	for (int i = 0; i < SIZING_SIDES && rc == CTL_OK; i++) {
		rc = duration(ctl, "eviction-period", &s->evict_s[i]);
		if (rc == CTL_OK)
			rc = duration(ctl, "reuse-span", &s->span_s[i]);
	}
	if (rc == CTL_OK)
		rc = duration(ctl, "prefill-eviction-period", &s->evict_s[SIZING_PREFILL]);
	if (rc == CTL_OK)
		rc = duration(ctl, "prefill-reuse-span", &s->span_s[SIZING_PREFILL]);
	return rc;
}

static const char *const side_names[] = { "decode", "prefill" };

static void print_plan(const struct sizing *s, const struct sizing_side_result *r)
{
	static const char *const columns[] = { "SIDE", ">NEW/s", ">POOL", ">WAN OUT", ">CAP",
		">OF LINE", NULL };
	struct table *t = table_create(columns);

	for (int i = 0; i < SIZING_SIDES; i++) {
		char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX], c[UNITS_TEXT_MAX], d[UNITS_TEXT_MAX];

		table_cell(t, "%s", side_names[i]);
		table_cell(t, "%s", units_format_bytes((uint64_t)r[i].in_bytes_per_s, a));
		table_cell(t, "%s", units_format_bytes((uint64_t)r[i].pool_bytes, b));
		table_cell(t, "%s", units_format_rate((uint64_t)r[i].wan_bps, c));
		table_cell(t, "%s", units_format_rate((uint64_t)r[i].cap_bps, d));
		if (s->line_bps > 0)
			table_cell(t, "%.1f %%", 100 * r[i].cap_share);
		else
			table_cell(t, "-");
	}
	table_print(t);
}

static json_t *plan_json(const struct sizing *s, const struct sizing_side_result *r)
{
	json_t *o = json_object();

	for (int i = 0; i < SIZING_SIDES; i++) {
		json_t *side = json_pack("{s:f, s:f, s:f, s:f}", "new_bytes_per_s",
			r[i].in_bytes_per_s, "pool_bytes", r[i].pool_bytes, "wan_bps", r[i].wan_bps,
			"cap_bps", r[i].cap_bps);

		json_object_set_new(side, "line_share",
			s->line_bps > 0 ? json_real(r[i].cap_share) : json_null());
		json_object_set_new(o, side_names[i], side);
	}
	return o;
}

int cmd_plan(struct ctl *ctl)
{
	struct sizing_side_result r[SIZING_SIDES];
	struct sizing s;
	char err[160];
	int rc;

	sizing_init(&s);
	rc = read_options(ctl, &s);
	if (rc != CTL_OK)
		return rc;
	if (sizing_plan(&s, r, err, sizeof(err)) < 0)
		return ctl_fail(CTL_USAGE, "%s", err);
	/* Beyond what a 64-bit count of bytes or bits can tell. */
	for (int i = 0; i < SIZING_SIDES; i++)
		if (r[i].pool_bytes > 9e18 || r[i].cap_bps > 9e18)
			return ctl_fail(CTL_USAGE, "more than can be told: check the units");
	if (ctl->json)
		return print_json(plan_json(&s, r), false);
	print_plan(&s, r);
	return CTL_OK;
}
