/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *suffix;
	uint64_t factor;
};

static const struct unit byte_units[] = {
	{ "", 1 },
	{ "b", 1 },
	{ "k", 1ull << 10 },
	{ "kib", 1ull << 10 },
	{ "m", 1ull << 20 },
	{ "mib", 1ull << 20 },
	{ "g", 1ull << 30 },
	{ "gib", 1ull << 30 },
	{ "t", 1ull << 40 },
	{ "tib", 1ull << 40 },
	{ NULL, 0 },
};

/* "bit", "bit/s" and "bps" are taken off before. */
static const struct unit rate_units[] = {
	{ "", 1 },
	{ "k", 1000 },
	{ "m", 1000000 },
	{ "g", 1000000000 },
	{ "t", 1000000000000 },
	{ NULL, 0 },
};

static const struct unit duration_units[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "m", 60000000000 },
	{ "min", 60000000000 },
	{ "h", 3600000000000 },
	{ "d", 86400000000000 },
	{ NULL, 0 },
};

/* digits [. digits]: value * factor without floating point. Up to 9 fraction digits count. */
static int parse_number(const char **s, uint64_t *whole, uint64_t *nano)
{
	const char *p = *s;
	uint64_t scale = 100000000;

	*whole = 0;
	*nano = 0;
	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(*whole, 10, whole) ||
			__builtin_add_overflow(*whole, (uint64_t)(*p - '0'), whole))
			return -ERANGE;
	if (*p == '.') {
		if (p[1] < '0' || p[1] > '9')
			return -EINVAL;
		for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
			*nano += (uint64_t)(*p - '0') * scale;
	}
	*s = p;
	return 0;
}

static const struct unit *unit_find(const struct unit *units, const char *suffix, size_t len)
{
	for (; units->suffix != NULL; units++)
		if (strlen(units->suffix) == len && strncasecmp(units->suffix, suffix, len) == 0)
			return units;
	return NULL;
}

static int parse(const char *s, const struct unit *units, size_t strip, uint64_t *out)
{
	uint64_t whole, nano, value;
	const struct unit *unit;
	const char *p = s;
	size_t len;
	int rc;

	rc = parse_number(&p, &whole, &nano);
	if (rc != 0)
		return rc;
	while (*p == ' ')
		p++;
	len = strlen(p);
	if (strip > len)
		return -EINVAL;
	unit = unit_find(units, p, len - strip);
	/* zero needs no unit */
	if (unit == NULL && !(len == 0 && whole == 0 && nano == 0))
		return -EINVAL;
	if (unit == NULL) {
		*out = 0;
		return 0;
	}
	if (__builtin_mul_overflow(whole, unit->factor, &value))
		return -ERANGE;
	value += (uint64_t)((unsigned __int128)nano * unit->factor / 1000000000u);
	if (value < whole)
		return -ERANGE;
	*out = value;
	return 0;
}

static int explain(int rc, const char *s, const char *what, const char *forms, char *err, size_t n)
{
	if (rc == -ERANGE)
		snprintf(err, n, "%s \"%.40s\" is too large", what, s);
	else if (rc != 0)
		snprintf(err, n, "\"%.40s\" is not a %s: write it like %s", s, what, forms);
	return rc;
}

int units_parse_bytes(const char *s, uint64_t *out_bytes, char *err, size_t err_len)
{
	int rc = parse(s, byte_units, 0, out_bytes);

	return explain(rc, s, "size", "4096, 64K, 512M or 1.5G (powers of 1024)", err, err_len);
}

int units_parse_rate(const char *s, uint64_t *out_bps, char *err, size_t err_len)
{
	static const char *const tails[] = { "bit/s", "bits/s", "bit", "bps", "b/s" };
	size_t len = strlen(s), strip = 0;
	int rc;

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]) && strip == 0; i++) {
		size_t n = strlen(tails[i]);

		if (len > n && strcasecmp(s + len - n, tails[i]) == 0)
			strip = n;
	}
	rc = parse(s, rate_units, strip, out_bps);
	return explain(rc, s, "rate", "500M, 1.5G or 10Gbit (bits per second)", err, err_len);
}

int units_parse_duration(const char *s, uint64_t *out_ns, char *err, size_t err_len)
{
	int rc = parse(s, duration_units, 0, out_ns);

	return explain(rc, s, "duration", "250us, 10ms, 60s, 5m or 2h", err, err_len);
}

/* Three significant digits of value / factor. */
static char *format3(uint64_t value, uint64_t factor, const char *unit, char *buf)
{
	double x = (double)value / (double)factor;
	int digits = factor == 1 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2;

	snprintf(buf, UNITS_TEXT_MAX, "%.*f %s", digits, x, unit);
	return buf;
}

static char *format_steps(uint64_t value, const struct unit *steps, char *buf)
{
	while (steps[1].suffix != NULL && value >= steps[1].factor)
		steps++;
	return format3(value, steps->factor, steps->suffix, buf);
}

char *units_format_bytes(uint64_t bytes, char buf[static UNITS_TEXT_MAX])
{
	static const struct unit steps[] = { { "B", 1 }, { "KiB", 1ull << 10 },
		{ "MiB", 1ull << 20 }, { "GiB", 1ull << 30 }, { "TiB", 1ull << 40 }, { NULL, 0 } };

	return format_steps(bytes, steps, buf);
}

char *units_format_rate(uint64_t bps, char buf[static UNITS_TEXT_MAX])
{
	static const struct unit steps[] = { { "bit/s", 1 }, { "kbit/s", 1000 },
		{ "Mbit/s", 1000000 }, { "Gbit/s", 1000000000 }, { "Tbit/s", 1000000000000 },
		{ NULL, 0 } };

	return format_steps(bps, steps, buf);
}

char *units_format_duration(uint64_t ns, char buf[static UNITS_TEXT_MAX])
{
	static const struct unit steps[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 },
		{ "s", 1000000000 }, { "min", 60000000000 }, { "h", 3600000000000 },
		{ "d", 86400000000000 }, { NULL, 0 } };

	return format_steps(ns, steps, buf);
}
