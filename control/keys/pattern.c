/* SPDX-License-Identifier: Apache-2.0 */
#include "control/keys/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LITERAL, FIELD, OPEN, CLOSE };
enum { HASH_MIN = 8 };

static const char *const names[KEY_FIELDS] = {
	[KEY_TP] = "tp",
	[KEY_PCP] = "pcp",
	[KEY_DCP] = "dcp",
	[KEY_PP] = "pp",
	[KEY_GROUP] = "group",
	[KEY_LAYER] = "layer",
	[KEY_WORKER] = "worker",
	[KEY_WORLD] = "world",
	[KEY_PART] = "part",
	[KEY_HASH] = "hash",
	[KEY_MODEL] = "model",
	[KEY_PREFIX] = "prefix",
	[KEY_FORMAT] = "format",
	[KEY_DTYPE] = "dtype",
	[KEY_TAGS] = "tags",
	[KEY_ANY] = "any",
};

const char *key_field_name(enum key_field f)
{
	return names[f];
}

/* ---- patterns ---- */

struct parser {
	struct key_pattern *p;
	const char *why;
	size_t at, len;
	int open; /* token of the group we are in, -1 */
	uint32_t seen;
};

static struct key_token *token_add(struct parser *s, int kind)
{
	struct key_token *t;

	if (s->p->count == KEY_TOKENS_MAX) {
		s->why = "too long";
		return NULL;
	}
	t = &s->p->tokens[s->p->count++];
	*t = (struct key_token){ .kind = (uint8_t)kind };
	return t;
}

static void field_parse(struct parser *s)
{
	const char *name = s->p->text + s->at + 1;
	const char *end = memchr(name, '}', s->len - s->at - 1);
	struct key_token *t;

	for (int i = 0; end != NULL && i < KEY_FIELDS; i++) {
		if (strlen(names[i]) != (size_t)(end - name) ||
			memcmp(names[i], name, (size_t)(end - name)) != 0)
			continue;
		if ((s->seen >> i & 1) != 0) {
			s->why = "a field is there twice";
			return;
		}
		s->seen |= 1u << i;
		t = token_add(s, FIELD);
		if (t != NULL)
			t->field = (uint8_t)i;
		s->at += (size_t)(end - name) + 2;
		return;
	}
	s->why = "an unknown field in braces";
}

static void group_parse(struct parser *s, bool open)
{
	if (open == (s->open >= 0)) {
		s->why = open ? "a group in a group" : "] without [";
		return;
	}
	if (token_add(s, open ? OPEN : CLOSE) == NULL)
		return;
	if (!open)
		s->p->tokens[s->open].end = (uint16_t)s->p->count;
	s->open = open ? (int)s->p->count - 1 : -1;
	s->at++;
}

static void literal_parse(struct parser *s)
{
	size_t len = 0;
	struct key_token *t = token_add(s, LITERAL);

	if (t == NULL)
		return;
	while (s->at + len < s->len && strchr("{}[]", s->p->text[s->at + len]) == NULL)
		len++;
	t->at = (uint16_t)s->at;
	t->len = (uint16_t)len;
	s->at += len;
	if (len == 0)
		s->why = "} without {";
}

int key_pattern_parse(struct key_pattern *p, const char *text, size_t len, char *err,
	size_t err_len)
{
	struct parser s = { .p = p, .len = len, .open = -1 };

	memset(p, 0, sizeof(*p));
	if (len == 0 || len >= KEY_PATTERN_MAX || memchr(text, '\0', len) != NULL)
		s.why = "empty, or too long";
	else
		memcpy(p->text, text, len);
	while (s.why == NULL && s.at < s.len) {
		char c = p->text[s.at];

		if (c == '{')
			field_parse(&s);
		else if (c == '[' || c == ']')
			group_parse(&s, c == '[');
		else
			literal_parse(&s);
	}
	if (s.why == NULL && s.open >= 0)
		s.why = "[ without ]";
	if (s.why == NULL)
		return 0;
	snprintf(err, err_len, "pattern \"%.*s\": %s", (int)(len < 200 ? len : 200), text, s.why);
	return -EINVAL;
}

/* ---- keys ---- */

struct match {
	const struct key_pattern *p;
	const char *key;
	size_t len;
	struct key_parts *out;
	unsigned int steps;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_letter(char c)
{
	return is_lower(c) || (c >= 'A' && c <= 'Z');
}

static bool is_of(uint8_t field, char c, bool first)
{
	if (field < KEY_NUMBERS)
		return is_digit(c);
	switch (field) {
	case KEY_HASH:
		return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
	case KEY_PART:
		return is_lower(c) || (!first && (is_digit(c) || c == '_'));
	case KEY_DTYPE:
		return is_letter(c) || (!first && (is_digit(c) || c == '_' || c == '.'));
	case KEY_TAGS:
		return !first || c == '@';
	case KEY_ANY:
		return true;
	default:
		return c != '@';
	}
}

static bool number_get(const char *s, size_t len, uint32_t *out)
{
	if (len > 5 || (len > 1 && s[0] == '0'))
		return false;
	*out = 0;
	for (size_t i = 0; i < len; i++)
		*out = *out * 10 + (uint32_t)(s[i] - '0');
	return *out <= KEY_NUMBER_MAX;
}

static bool match_from(struct match *m, size_t token, size_t at);

/* What must come after a field; -1: one of several. */
static int next_byte(const struct key_pattern *p, size_t token)
{
	while (token < p->count && p->tokens[token].kind == CLOSE)
		token++;
	if (token == p->count || p->tokens[token].kind != LITERAL)
		return -1;
	return (unsigned char)p->text[p->tokens[token].at];
}

static bool match_field(struct match *m, size_t token, size_t at)
{
	uint8_t field = m->p->tokens[token].field;
	size_t len = 0, least = field == KEY_HASH ? HASH_MIN : field == KEY_ANY ? 0 : 1;
	int next = next_byte(m->p, token + 1);

	while (at + len < m->len && is_of(field, m->key[at + len], len == 0))
		len++;
	/* Numbers and digests end where their digits do, others where what follows cannot be of
	 * them. */
	if (field < KEY_NUMBERS || field == KEY_HASH ||
		(next >= 0 && !is_of(field, (char)next, false)))
		least = least > len ? least : len;
	for (; len + 1 > least; len--) {
		if (m->steps == 0 || --m->steps == 0)
			return false;
		if (next >= 0 && (at + len == m->len || m->key[at + len] != (char)next))
			goto shorter;
		if (field < KEY_NUMBERS && !number_get(m->key + at, len, &m->out->number[field]))
			return false;
		m->out->text[field] = (struct key_text){ m->key + at, len };
		if (match_from(m, token + 1, at + len))
			return true;
shorter:
		if (len == 0)
			break;
	}
	m->out->text[field] = (struct key_text){ NULL, 0 };
	return false;
}

/* As deep as a pattern has tokens. */
static bool match_from(struct match *m, size_t token, size_t at)
{
	const struct key_token *t = &m->p->tokens[token];

	if (m->steps == 0 || --m->steps == 0)
		return false;
	if (token == m->p->count)
		return at == m->len;
	switch (t->kind) {
	case LITERAL:
		return m->len - at >= t->len &&
			memcmp(m->key + at, m->p->text + t->at, t->len) == 0 &&
			match_from(m, token + 1, at + t->len);
	case FIELD:
		return match_field(m, token, at);
	case OPEN:
		return match_from(m, token + 1, at) || match_from(m, t->end, at);
	default:
		return match_from(m, token + 1, at);
	}
}

bool key_pattern_match(const struct key_pattern *p, const void *key, size_t len,
	struct key_parts *out)
{
	struct match m = { p, key, len, out, KEY_STEPS_MAX };

	memset(out, 0, sizeof(*out));
	return len <= KEY_LEN_MAX && match_from(&m, 0, 0);
}
