/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/trace.h"

#include "tools/replay/synth.h"

#include <jansson.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct replay_trace {
	FILE *file; /* NULL: generated */
	char *path;
	uint64_t line;
	char *text;
	size_t text_size;
	struct replay_synth *synth;
	uint64_t left;
	uint64_t *ids;
};

static struct replay_trace *trace_alloc(void)
{
	struct replay_trace *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->ids = calloc(REPLAY_TRACE_BLOCKS_MAX, sizeof(*t->ids));
	if (t->ids == NULL) {
		free(t);
		errno = ENOMEM;
		return NULL;
	}
	return t;
}

struct replay_trace *replay_trace_open(const char *path, char *err, size_t err_len)
{
	struct replay_trace *t = trace_alloc();
	int saved;

	if (t == NULL) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	t->path = strdup(path);
	t->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	if (t->path == NULL || t->file == NULL) {
		saved = errno;
		snprintf(err, err_len, "trace %s: %s; --synthetic needs no file", path,
			strerror(saved));
		replay_trace_close(t);
		errno = saved;
		return NULL;
	}
	return t;
}

struct replay_trace *replay_trace_generate(uint64_t seed, uint64_t requests)
{
	struct replay_trace *t = trace_alloc();

	if (t == NULL)
		return NULL;
	t->left = requests;
	t->synth = replay_synth_create(seed);
	if (t->synth == NULL) {
		replay_trace_close(t);
		errno = ENOMEM;
		return NULL;
	}
	return t;
}

void replay_trace_close(struct replay_trace *t)
{
	if (t == NULL)
		return;
	if (t->file != NULL && t->file != stdin)
		fclose(t->file);
	replay_synth_destroy(t->synth);
	free(t->path);
	free(t->text);
	free(t->ids);
	free(t);
}

static int fail(const struct replay_trace *t, char *err, size_t err_len, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static int fail(const struct replay_trace *t, char *err, size_t err_len, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	snprintf(err, err_len, "%s:%" PRIu64 ": %s", t->path, t->line, text);
	return -EINVAL;
}

/* A whole number 0 or more. */
static int member_get(const struct replay_trace *t, const json_t *obj, const char *name,
	uint64_t *out, char *err, size_t err_len)
{
	const json_t *v = json_object_get(obj, name);

	if (v == NULL)
		return fail(t, err, err_len, "\"%s\" is missing", name);
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return fail(t, err, err_len, "\"%s\" is not a whole number", name);
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

static int line_decode(struct replay_trace *t, const json_t *obj, struct replay_request *req,
	char *err, size_t err_len)
{
	const json_t *ids, *id;
	uint64_t want;
	size_t i;

	if (!json_is_object(obj))
		return fail(t, err, err_len, "not a JSON object");
	if (member_get(t, obj, "timestamp", &req->timestamp_ms, err, err_len) < 0 ||
		member_get(t, obj, "input_length", &req->input_tokens, err, err_len) < 0 ||
		member_get(t, obj, "output_length", &req->output_tokens, err, err_len) < 0)
		return -EINVAL;
	ids = json_object_get(obj, "hash_ids");
	if (!json_is_array(ids))
		return fail(t, err, err_len, "\"hash_ids\" is not an array");
	req->id_count = json_array_size(ids);
	want = req->input_tokens / REPLAY_TRACE_BLOCK_TOKENS +
		(req->input_tokens % REPLAY_TRACE_BLOCK_TOKENS != 0);
	if (req->id_count > REPLAY_TRACE_BLOCKS_MAX)
		return fail(t, err, err_len, "more than %d blocks", REPLAY_TRACE_BLOCKS_MAX);
	if (req->id_count != want)
		return fail(t, err, err_len,
			"input_length %" PRIu64 " is %" PRIu64
			" blocks of %d tokens, but there are "
			"%zu hash_ids",
			req->input_tokens, want, REPLAY_TRACE_BLOCK_TOKENS, req->id_count);
	for (i = 0; i < req->id_count; i++) {
		id = json_array_get(ids, i);
		if (!json_is_integer(id) || json_integer_value(id) < 0)
			return fail(t, err, err_len, "hash_ids[%zu] is not a whole number", i);
		t->ids[i] = (uint64_t)json_integer_value(id);
	}
	req->ids = t->ids;
	return 1;
}

static int file_next(struct replay_trace *t, struct replay_request *req, char *err, size_t err_len)
{
	json_error_t why;
	ssize_t len;
	json_t *obj;
	int ret;

	/* Blank lines are allowed: traces are cut and joined by hand. */
	do {
		errno = 0;
		len = getline(&t->text, &t->text_size, t->file);
		t->line++;
		if (len < 0 && (ferror(t->file) || errno != 0)) {
			snprintf(err, err_len, "%s:%" PRIu64 ": %s", t->path, t->line,
				strerror(errno));
			return -EIO;
		}
		if (len < 0)
			return 0;
		if (len > REPLAY_TRACE_LINE_MAX)
			return fail(t, err, err_len, "line longer than %d bytes",
				REPLAY_TRACE_LINE_MAX);
	} while (strspn(t->text, " \t\r\n") == (size_t)len);
	obj = json_loadb(t->text, (size_t)len, 0, &why);
	if (obj == NULL)
		return fail(t, err, err_len, "column %d: %s", why.column, why.text);
	ret = line_decode(t, obj, req, err, err_len);
	json_decref(obj);
	return ret;
}

int replay_trace_next(struct replay_trace *t, struct replay_request *req, char *err, size_t err_len)
{
	if (t->file != NULL)
		return file_next(t, req, err, err_len);
	if (t->left == 0)
		return 0;
	t->left--;
	replay_synth_next(t->synth, t->ids, req);
	return 1;
}

void replay_request_print(const struct replay_request *req)
{
	printf("{\"timestamp\": %" PRIu64 ", \"input_length\": %" PRIu64
	       ", \"output_length\": %" PRIu64 ", \"hash_ids\": [",
		req->timestamp_ms, req->input_tokens, req->output_tokens);
	for (size_t i = 0; i < req->id_count; i++)
		printf("%s%" PRIu64, i == 0 ? "" : ", ", req->ids[i]);
	printf("]}\n");
}
