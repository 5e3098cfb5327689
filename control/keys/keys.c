/* SPDX-License-Identifier: Apache-2.0 */
#include "control/keys/keys.h"

#include "control/keys/keys_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A form's name, and parts of a key with their lengths. */
enum { SET_TEXT_MAX = KEY_LEN_MAX + 32 + KEY_FIELDS * (int)sizeof(uint32_t) };

static const char builtin[] =
#include "control/keys/forms.def"
	;

const char *key_verdict_name(enum key_verdict v)
{
	static const char *const names[] = { "opaque", "alone", "member", "refused", "junk" };

	return names[v];
}

/* A name, blanks, a pattern. */
static int form_add(struct keys *k, const char *line, size_t len, char *err, size_t err_len)
{
	size_t name = 0, at;
	struct key_form *f;

	while (name < len && line[name] != ' ')
		name++;
	for (at = name; at < len && line[at] == ' ';)
		at++;
	if (name == 0 || name >= sizeof(f->name) || at == len) {
		snprintf(err, err_len, "form \"%.*s\": not a name and a pattern",
			(int)(len < 200 ? len : 200), line);
		return -EINVAL;
	}
	if (k->forms_count == KEYS_FORMS_MAX) {
		snprintf(err, err_len, "more than %d forms", KEYS_FORMS_MAX);
		return -EINVAL;
	}
	f = &k->forms[k->forms_count++];
	memcpy(f->name, line, name);
	return key_pattern_parse(&f->pattern, line + at, len - at, err, err_len);
}

static bool form_is_known(const struct keys *k, const char *name)
{
	for (size_t i = 0; i < k->forms_count; i++)
		if (strcmp(k->forms[i].name, name) == 0)
			return true;
	return false;
}

static int forms_take(struct keys *k, char *err, size_t err_len)
{
	int ret = 0;

	for (unsigned int i = 0; k->file != NULL && i < k->file->forms_count && ret == 0; i++)
		ret = form_add(k, k->file->forms[i], strlen(k->file->forms[i]), err, err_len);
	for (const char *line = builtin; *line != '\0' && ret == 0;) {
		size_t len = strcspn(line, "\n");

		ret = form_add(k, line, len, err, err_len);
		line += len + 1;
	}
	for (unsigned int i = 0; k->file != NULL && i < k->file->layouts_count && ret == 0; i++) {
		if (form_is_known(k, k->file->layouts[i].form))
			continue;
		snprintf(err, err_len, "layouts[%u].form: there is no form %s", i,
			k->file->layouts[i].form);
		ret = -EINVAL;
	}
	return ret;
}

static struct keys *create(const char *path, const char *text, char *err, size_t err_len)
{
	struct keys *k = calloc(1, sizeof(*k));
	int ret = 0;

	if (k == NULL) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	if (path != NULL || text != NULL)
		ret = key_layouts_load(&k->file, path, text, err, err_len);
	if (ret == 0)
		ret = forms_take(k, err, err_len);
	if (ret == 0)
		return k;
	keys_destroy(k);
	errno = -ret;
	return NULL;
}

struct keys *keys_create(const char *path, char *err, size_t err_len)
{
	return create(path, NULL, err, err_len);
}

struct keys *keys_create_text(const char *text, char *err, size_t err_len)
{
	return create(NULL, text, err, err_len);
}

void keys_destroy(struct keys *k)
{
	if (k == NULL)
		return;
	key_layouts_free(k->file);
	free(k);
}

static bool is_junk_form(const struct key_form *f)
{
	return strcmp(f->name, "ignore") == 0;
}

bool keys_is_junk(const struct keys *k, const void *key, size_t len)
{
	struct key_parts parts;

	for (size_t i = 0; i < k->forms_count; i++)
		if (is_junk_form(&k->forms[i]) &&
			key_pattern_match(&k->forms[i].pattern, key, len, &parts))
			return true;
	return false;
}

unsigned int keys_refused(const struct keys *k, const char **why)
{
	*why = k->why;
	return k->refused_count;
}

static bool is_model(const char *pattern, const struct key_text *model)
{
	size_t len = strlen(pattern);

	if (len > 0 && pattern[len - 1] == '*')
		return model->len >= len - 1 &&
			(len == 1 || memcmp(pattern, model->data, len - 1) == 0);
	return model->len == len && memcmp(pattern, model->data, len) == 0;
}

static int layout_find(const struct keys *k, const struct key_form *form,
	const struct key_parts *parts)
{
	for (unsigned int i = 0; k->file != NULL && i < k->file->layouts_count; i++)
		if (strcmp(k->file->layouts[i].form, form->name) == 0 &&
			is_model(k->file->layouts[i].model, &parts->text[KEY_MODEL]))
			return (int)i;
	return -1;
}

/* The first form that has a layout, or else the first one at all. */
static const struct key_form *form_find(const struct keys *k, const void *key, size_t len,
	struct key_parts *parts, int *layout)
{
	const struct key_form *first = NULL;
	struct key_parts p;

	*layout = -1;
	for (size_t i = 0; i < k->forms_count; i++) {
		if (!key_pattern_match(&k->forms[i].pattern, key, len, &p))
			continue;
		*layout = layout_find(k, &k->forms[i], &p);
		if (first == NULL || *layout >= 0) {
			first = &k->forms[i];
			*parts = p;
		}
		if (*layout >= 0 || is_junk_form(first))
			break;
	}
	return first;
}

static void say(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(char *why, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, KEYS_WHY_MAX, fmt, args);
	va_end(args);
}

/* Place of the key's part among the layout's; -1: not of them. */
static int part_find(const struct key_layout *l, const struct key_text *part, uint32_t *count)
{
	static char k[] = "k", v[] = "v";
	char *kv[] = { k, v }, **list = l->parts;

	*count = l->parts_count;
	if (*count == 0) {
		list = kv;
		*count = strcmp(l->form, "sglang-mla") == 0 ? 1 : 2;
	}
	for (uint32_t i = 0; i < *count; i++)
		if (strlen(list[i]) == part->len && memcmp(list[i], part->data, part->len) == 0)
			return (int)i;
	return -1;
}

static int length(const struct key_text *t)
{
	return (int)(t->len < 80 ? t->len : 80);
}

/* Whether the key contradicts the layout. */
static bool is_of_layout(const struct key_layout *l, const struct key_parts *p, char *why)
{
	const struct key_text *dtype = &p->text[KEY_DTYPE];
	uint32_t workers = key_layout_ranks(l, KEY_TP) * key_layout_ranks(l, KEY_PP);

	for (int r = 0; r < KEY_WORKER; r++) {
		if (p->text[r].data == NULL ||
			p->number[r] < key_layout_ranks(l, (enum key_field)r))
			continue;
		say(why, "%s %u, where the layout of %s has %u", key_field_name((enum key_field)r),
			p->number[r], l->model, key_layout_ranks(l, (enum key_field)r));
		return false;
	}
	if (p->text[KEY_WORLD].data != NULL && p->number[KEY_WORLD] != workers) {
		say(why, "world size %u, where the layout of %s has %u (tp times pp)",
			p->number[KEY_WORLD], l->model, workers);
		return false;
	}
	if (dtype->data != NULL && l->dtype != NULL &&
		(strlen(l->dtype) != dtype->len ||
			memcmp(l->dtype, dtype->data, dtype->len) != 0)) {
		say(why, "dtype %.*s, where the layout of %s has %s", length(dtype), dtype->data,
			l->model, l->dtype);
		return false;
	}
	return true;
}

/* 0: how many there are is not known. */
static uint32_t count_of(const struct key_layout *l, const struct key_parts *p, int rank)
{
	if (rank == KEY_WORKER)
		return p->text[KEY_WORLD].data != NULL ? p->number[KEY_WORLD] : 0;
	return l != NULL ? key_layout_ranks(l, (enum key_field)rank) : 0;
}

/* Mixed radix over all the members differ in. */
static enum key_verdict place(const struct key_layout *l, struct key_view *v, char *why)
{
	const struct key_parts *p = &v->parts;
	uint64_t member = 0, members = 1;
	uint32_t count;
	int part;

	for (int r = 0; r < KEY_RANKS; r++) {
		if (p->text[r].data == NULL)
			continue;
		count = count_of(l, p, r);
		if (count == 0) {
			say(why, "no layout tells how many %s ranks there are",
				key_field_name((enum key_field)r));
			return KEY_ALONE;
		}
		if (p->number[r] >= count) {
			say(why, "%s %u of %u", key_field_name((enum key_field)r), p->number[r],
				count);
			return KEY_REFUSED;
		}
		member = member * count + p->number[r];
		members *= count;
		if (members > KEY_NUMBER_MAX) {
			say(why, "a set of more than %d", KEY_NUMBER_MAX);
			return KEY_REFUSED;
		}
	}
	if (p->text[KEY_PART].data != NULL) {
		if (l == NULL) {
			say(why, "no layout tells what parts there are");
			return KEY_ALONE;
		}
		part = part_find(l, &p->text[KEY_PART], &count);
		if (part < 0) {
			say(why, "part %.*s, which the layout of %s has not",
				length(&p->text[KEY_PART]), p->text[KEY_PART].data, l->model);
			return KEY_REFUSED;
		}
		member = member * count + (uint32_t)part;
		members *= count;
	}
	if (members > KEY_NUMBER_MAX)
		return KEY_REFUSED;
	v->member = (uint16_t)member;
	v->members = (uint16_t)members;
	return KEY_MEMBER;
}

/* What the members have in common, so that nobody without the tenant's key can aim at a set. */
static void set_name(const struct digest_key *secret, struct key_view *v)
{
	static const uint8_t common[] = { KEY_HASH, KEY_MODEL, KEY_PREFIX, KEY_FORMAT, KEY_DTYPE,
		KEY_WORLD, KEY_TAGS };
	char text[SET_TEXT_MAX];
	size_t len = strlen(v->form) + 1;
	struct digest128 d;

	memcpy(text, v->form, len);
	for (size_t i = 0; i < sizeof(common); i++) {
		const struct key_text *t = &v->parts.text[common[i]];

		/* Lengths, as keys may hold any byte. */
		memcpy(text + len, &(uint32_t){ (uint32_t)t->len }, sizeof(uint32_t));
		len += sizeof(uint32_t);
		if (t->len > 0)
			memcpy(text + len, t->data, t->len);
		len += t->len;
	}
	d = digest_of_key(secret, text, len);
	v->set = d.lo != 0 ? d.lo : 1;
}

static int nibble(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

static uint64_t chain_of(const struct key_text *hash)
{
	uint64_t v = 0;

	for (size_t i = hash->len > 16 ? hash->len - 16 : 0; i < hash->len; i++)
		v = v << 4 | (uint64_t)nibble(hash->data[i]);
	return v;
}

static void refuse_all(struct keys *k, int layout, uint64_t tenant, const char *why)
{
	if ((k->refused[layout] & tenant) != 0)
		return;
	k->refused[layout] |= tenant;
	if (k->refused_count++ == 0)
		memcpy(k->why, why, KEYS_WHY_MAX);
}

enum key_verdict keys_judge(struct keys *k, unsigned int tenant, const struct digest_key *secret,
	const void *key, size_t len, struct key_view *out, char *why)
{
	const struct key_layout *l = NULL;
	const struct key_form *form;
	char own[KEYS_WHY_MAX];
	uint64_t bit = UINT64_C(1) << tenant % KEYS_TENANTS;
	enum key_verdict v;
	int layout;

	memset(out, 0, sizeof(*out));
	why = why != NULL ? why : own;
	why[0] = '\0';
	form = form_find(k, key, len, &out->parts, &layout);
	if (form == NULL)
		return KEY_OPAQUE;
	out->form = form->name;
	if (is_junk_form(form))
		return KEY_JUNK;
	out->chain = chain_of(&out->parts.text[KEY_HASH]);
	if (layout >= 0)
		l = &k->file->layouts[layout];
	if (l == NULL && k->file != NULL && k->file->refuse_others) {
		const struct key_text *model = &out->parts.text[KEY_MODEL];

		say(why, "no layout for model %.*s in form %s", length(model),
			model->data != NULL ? model->data : "", form->name);
		return KEY_REFUSED;
	}
	if (l != NULL && (k->refused[layout] & bit) != 0) {
		say(why, "another key of %s is of another layout", l->model);
		return KEY_REFUSED;
	}
	v = l != NULL && !is_of_layout(l, &out->parts, why) ? KEY_REFUSED : place(l, out, why);
	if (v == KEY_REFUSED && l != NULL)
		refuse_all(k, layout, bit, why);
	if (v == KEY_MEMBER)
		set_name(secret, out);
	return v;
}
