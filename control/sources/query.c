/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/query.h"

#include "control/sources/http.h"

#include <jansson.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	URL_MAX = 4000, /* before one more key: more than that a server need not take */
	BODY_MAX = 4 << 20,
	ESCAPED_MAX = 3 * KV_KEY_MAX,
};

struct query {
	size_t n, pending; /* requests under way */
	void (*done)(const struct query_answer *a, size_t n, void *ctx);
	void *ctx;
	char **keys;
	struct query_answer *answers;
};

struct part {
	struct query *q;
	size_t first, n;
	char *body;
	size_t len;
};

static void query_free(struct query *q)
{
	for (size_t i = 0; q->keys != NULL && i < q->n; i++)
		free(q->keys[i]);
	free(q->keys);
	free(q->answers);
	free(q);
}

static void take(struct query *q, size_t i, const json_t *one)
{
	const char *error = json_string_value(json_object_get(one, "error"));
	json_t *size = json_object_get(json_array_get(json_object_get(one, "values"), 0), "size_");

	if (json_is_true(json_object_get(one, "ok")))
		q->answers[i] = (struct query_answer){ true, true,
			json_integer_value(size) > 0 ? (uint64_t)json_integer_value(size) : 0 };
	else if (error != NULL && strcmp(error, "OBJECT_NOT_FOUND") == 0)
		q->answers[i] = (struct query_answer){ true, false, 0 };
}

static int on_data(const char *data, size_t len, void *ctx)
{
	struct part *p = ctx;
	char *more = len <= BODY_MAX - p->len ? realloc(p->body, p->len + len) : NULL;

	if (more == NULL)
		return -ENOMEM;
	memcpy(more + p->len, data, len);
	p->body = more;
	p->len += len;
	return 0;
}

static void on_done(int status, const char *text, void *ctx)
{
	struct part *p = ctx;
	struct query *q = p->q;
	json_t *j =
		status == 200 ? json_loadb(p->body != NULL ? p->body : "", p->len, 0, NULL) : NULL;
	const json_t *data = json_object_get(j, "data");

	(void)text;
	for (size_t i = p->first; data != NULL && i < p->first + p->n; i++)
		if (q->keys[i] != NULL)
			take(q, i, json_object_get(data, q->keys[i]));
	json_decref(j);
	free(p->body);
	free(p);
	if (--q->pending > 0)
		return;
	q->done(q->answers, q->n, q->ctx);
	query_free(q);
}

static const struct http_handler handler = { on_data, on_done };

static bool is_plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		c == '-' || c == '_' || c == '.' || c == '~';
}

static size_t escape(const char *key, char out[static ESCAPED_MAX + 1])
{
	size_t at = 0;

	for (; *key != '\0'; key++) {
		if (is_plain((unsigned char)*key))
			out[at++] = *key;
		else
			at += (size_t)sprintf(out + at, "%%%02X", (unsigned char)*key);
	}
	out[at] = '\0';
	return at;
}

/* Keys first .. in one request. How many; what cannot be asked for is passed over. */
static size_t part_start(struct query *q, struct http *http, const char *admin, long timeout_ms,
	size_t first)
{
	char url[URL_MAX + ESCAPED_MAX + 2], escaped[ESCAPED_MAX + 1];
	size_t at = (size_t)snprintf(url, URL_MAX, "%s/batch_query_keys?keys=", admin), i;
	struct part *p = calloc(1, sizeof(*p));
	bool any = false;

	for (i = first; i < q->n && at < URL_MAX; i++) {
		size_t len = q->keys[i] != NULL ? escape(q->keys[i], escaped) : 0;

		if (len == 0)
			continue;
		if (any)
			url[at++] = ',';
		memcpy(url + at, escaped, len + 1);
		at += len;
		any = true;
	}
	if (p != NULL) {
		*p = (struct part){ .q = q, .first = first, .n = i - first };
		/* Without a key, too: an answer comes from the loop. */
		if (http_get(http, url, timeout_ms, timeout_ms, &handler, p) != NULL)
			q->pending++;
		else
			free(p);
	}
	return i - first;
}

static char *key_copy(const struct kv_text *k)
{
	if (k->len == 0 || k->len > KV_KEY_MAX || memchr(k->data, ',', k->len) != NULL ||
		memchr(k->data, '\0', k->len) != NULL)
		return NULL;
	return strndup(k->data, k->len);
}

int query_start(struct http *http, const char *admin, long timeout_ms, const struct kv_text *keys,
	size_t n, void (*done)(const struct query_answer *a, size_t n, void *ctx), void *ctx)
{
	struct query *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return -ENOMEM;
	*q = (struct query){ .n = n, .done = done, .ctx = ctx };
	q->keys = calloc(n, sizeof(*q->keys));
	q->answers = calloc(n, sizeof(*q->answers));
	for (size_t i = 0; q->keys != NULL && i < n; i++)
		q->keys[i] = key_copy(&keys[i]);
	for (size_t i = 0; q->keys != NULL && q->answers != NULL && i < n;)
		i += part_start(q, http, admin, timeout_ms, i);
	if (q->pending > 0)
		return 0;
	query_free(q);
	return -ENOMEM;
}
