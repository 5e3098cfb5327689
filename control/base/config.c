/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/config.h"

#include "control/base/config_where.h"
#include "control/base/file.h"
#include "control/base/units.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_FILE_MAX = 1 << 20, BACKTRACE_MAX = 16 };

/* The first name of a value is the one that is printed. */
const cyaml_strval_t config_bools[CONFIG_BOOLS] = {
	{ "true", 1 },
	{ "false", 0 },
	{ "yes", 1 },
	{ "no", 0 },
	{ "on", 1 },
	{ "off", 0 },
	{ "True", 1 },
	{ "False", 0 },
	{ "Yes", 1 },
	{ "No", 0 },
	{ "On", 1 },
	{ "Off", 0 },
	{ "TRUE", 1 },
	{ "FALSE", 0 },
	{ "YES", 1 },
	{ "NO", 0 },
	{ "ON", 1 },
	{ "OFF", 0 },
};

/*
 * What libcyaml logged about a failed load. Its own line numbers are those of the event before,
 * so only the place (the chain of keys and entries, innermost first) is taken and looked up
 * again.
 */
struct failure {
	char text[256];
	char steps[BACKTRACE_MAX + 1][80];
	unsigned int nsteps;
};

static void chomp(char *s)
{
	size_t n = strlen(s);

	while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == ' ' || s[n - 1] == ':'))
		s[--n] = '\0';
}

static void on_log(cyaml_log_t level, void *ctx, const char *fmt, va_list args)
{
	struct failure *f = ctx;
	char line[512], name[64];
	unsigned int entry;

	if (level < CYAML_LOG_ERROR || f == NULL)
		return;
	vsnprintf(line, sizeof(line), fmt, args);
	chomp(line);
	if (sscanf(line, " in mapping field '%63[^']'", name) == 1) {
		if (f->nsteps < BACKTRACE_MAX)
			snprintf(f->steps[f->nsteps++], sizeof(f->steps[0]), "%s", name);
	} else if (sscanf(line, " in sequence entry '%u'", &entry) == 1) {
		/* counted from 1, as the entry was begun */
		if (f->nsteps < BACKTRACE_MAX)
			snprintf(f->steps[f->nsteps++], sizeof(f->steps[0]), "[%u]",
				entry > 0 ? entry - 1 : 0);
	} else if (f->text[0] == '\0' && strcmp(line, "Load: Backtrace") != 0) {
		const char *text = strncmp(line, "Load: ", 6) == 0 ? line + 6 : line;

		snprintf(f->text, sizeof(f->text), "%.255s", text);
	}
}

static const char *join_steps(const struct failure *f, char *buf, size_t len)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = f->nsteps; i-- > 0 && n < len;) {
		bool dot = n > 0 && f->steps[i][0] != '[';

		n += (size_t)snprintf(buf + n, len - n, "%s%s", dot ? "." : "", f->steps[i]);
	}
	return buf;
}

/* libcyaml's sentence and place, as ours. */
static void explain(struct failure *f, cyaml_err_t rc, const char *name, const char *text,
	size_t len, char *err, size_t err_len)
{
	const char *value = strchr(f->text, ':');
	char where[256];
	unsigned int line;
	size_t n;

	/* the innermost step is then merely the key that happened to be last */
	if (rc == CYAML_ERR_MAPPING_FIELD_MISSING && f->nsteps > 0 && f->steps[0][0] != '[')
		memmove(f->steps[0], f->steps[1], sizeof(f->steps[0]) * --f->nsteps);
	join_steps(f, where, sizeof(where));
	n = strlen(where);
	if (rc == CYAML_ERR_INVALID_KEY && value != NULL) {
		snprintf(where + n, sizeof(where) - n, "%s%s", n > 0 ? "." : "", value + 2);
		line = config_where_line(text, len, where);
		where[n] = '\0';
		snprintf(err, err_len, "%s:%u: unexpected key \"%s\"%s%s", name, line, value + 2,
			n > 0 ? " in " : "", where);
		return;
	}
	if (rc == CYAML_ERR_UNEXPECTED_EVENT && strstr(f->text, "already seen") != NULL) {
		line = config_where_last_line(text, len, where);
		snprintf(err, err_len, "%s:%u: %s: given a second time", name, line, where);
		return;
	}
	line = config_where_line(text, len, where);
	if (strncmp(f->text, "Invalid ENUM value", 18) == 0) { /* all of ours are booleans */
		snprintf(err, err_len, "%s:%u: %s: not true or false: \"%s\"", name, line, where,
			value != NULL ? value + 2 : "");
		return;
	}
	if (rc == CYAML_ERR_MAPPING_FIELD_MISSING && value != NULL) {
		snprintf(err, err_len, "%s:%u: %s%skey \"%s\" is missing", name, line, where,
			n > 0 ? ": " : "", value + 2);
		return;
	}
	snprintf(err, err_len, "%s:%u: %s%s%s", name, line, where, n > 0 ? ": " : "",
		f->text[0] != '\0' ? f->text : cyaml_strerror(rc));
}

int config_load_text(const char *name, const char *text, size_t len,
	const struct cyaml_schema_value *schema, void **out, char *err, size_t err_len)
{
	struct failure failure = { 0 };
	cyaml_config_t cfg = {
		.log_fn = on_log,
		.log_ctx = &failure,
		.mem_fn = cyaml_mem,
		.log_level = CYAML_LOG_ERROR,
		.flags = CYAML_CFG_NO_ALIAS,
	};
	cyaml_data_t *data = NULL;
	char problem[160];
	unsigned int line;
	cyaml_err_t rc;

	line = config_where_check(text, len, problem, sizeof(problem));
	if (line != 0) {
		snprintf(err, err_len, "%s:%u: %s", name, line, problem);
		return -EINVAL;
	}
	rc = cyaml_load_data((const uint8_t *)text, len, &cfg, schema, &data, NULL);
	if (rc == CYAML_ERR_OOM)
		return -ENOMEM;
	if (rc != CYAML_OK) {
		explain(&failure, rc, name, text, len, err, err_len);
		return -EINVAL;
	}
	*out = data;
	return 0;
}

int config_load(const char *path, const struct cyaml_schema_value *schema, void **out, char *err,
	size_t err_len)
{
	char *text;
	size_t len;
	int rc;

	rc = file_read(path, CONFIG_FILE_MAX, &text, &len);
	if (rc != 0) {
		snprintf(err, err_len, "%s: %s", path, strerror(-rc));
		return rc;
	}
	rc = config_load_text(path, text, len, schema, out, err, err_len);
	free(text);
	return rc;
}

void config_free(const struct cyaml_schema_value *schema, void *data)
{
	cyaml_config_t cfg = { .mem_fn = cyaml_mem, .flags = CYAML_CFG_DEFAULT };

	if (data != NULL)
		cyaml_free(&cfg, schema, data, 0);
}

unsigned int config_line(const char *path, const char *where)
{
	unsigned int line;
	char *text;
	size_t len;

	if (file_read(path, CONFIG_FILE_MAX, &text, &len) != 0)
		return 0;
	line = config_where_line(text, len, where);
	free(text);
	return line;
}

/* What a message may begin with and the line says already: "links[0].cap: ", "cap: ". */
static const char *without_place(const char *message, const char *where)
{
	const char *dot = strrchr(where, '.'),
		   *const names[] = { where, dot != NULL ? dot + 1 : where };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);

		if (n > 0 && strncmp(message, names[i], n) == 0 &&
			strncmp(message + n, ": ", 2) == 0)
			return message + n + 2;
	}
	return message;
}

int config_fail(char *err, size_t err_len, const char *path, const char *where, const char *fmt,
	...)
{
	char message[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	snprintf(err, err_len, "%s:%u: %s%s%s", path, config_line(path, where), where,
		where[0] != '\0' ? ": " : "", without_place(message, where));
	return -EINVAL;
}

int config_duration(const char *path, const char *where, const char *text, uint64_t least_ns,
	uint64_t most_ns, uint64_t *out, char *err, size_t err_len)
{
	char why[200], least[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];
	uint64_t ns;

	if (text == NULL)
		return 0;
	if (units_parse_duration(text, &ns, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, where, "%s", why);
	if (ns < least_ns || ns > most_ns)
		return config_fail(err, err_len, path, where, "must be %s to %s",
			units_format_duration(least_ns, least),
			units_format_duration(most_ns, most));
	*out = ns;
	return 0;
}

char *config_print(const struct cyaml_schema_value *schema, const void *data)
{
	cyaml_config_t cfg = {
		.mem_fn = cyaml_mem,
		.flags = CYAML_CFG_STYLE_BLOCK | CYAML_CFG_DOCUMENT_DELIM,
	};
	char *text = NULL, *copy = NULL;
	size_t len = 0;

	if (cyaml_save_data(&text, &len, &cfg, schema, data, 0) != CYAML_OK) {
		errno = EINVAL;
		return NULL;
	}
	copy = strndup(text, len);
	cyaml_mem(NULL, text, 0);
	return copy;
}
