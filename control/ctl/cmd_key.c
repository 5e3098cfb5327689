/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/ctl.h"
#include "control/ctl/print.h"
#include "control/keys/keys.h"

#include <stdlib.h>
#include <string.h>

/* key explain: what a site master would make of a key; no master is asked. */

static void put_text(json_t *o, const char *name, const struct key_text *t)
{
	json_t *v = t->data != NULL ? json_stringn(t->data, t->len) : NULL;

	json_object_set_new(o, name, v != NULL ? v : json_null());
}

static json_t *key_json(const char *key, enum key_verdict verdict, const struct key_view *v,
	const char *why)
{
	json_t *o = json_object(), *ranks = json_object();

	json_put_bytes(o, "key", key, strlen(key));
	json_object_set_new(o, "verdict", json_string(key_verdict_name(verdict)));
	json_object_set_new(o, "form", v->form != NULL ? json_string(v->form) : json_null());
	put_text(o, "model", &v->parts.text[KEY_MODEL]);
	put_text(o, "hash", &v->parts.text[KEY_HASH]);
	put_text(o, "part", &v->parts.text[KEY_PART]);
	put_text(o, "dtype", &v->parts.text[KEY_DTYPE]);
	for (int r = 0; r < KEY_RANKS; r++)
		if (v->parts.text[r].data != NULL)
			json_object_set_new(ranks, key_field_name((enum key_field)r),
				json_integer(v->parts.number[r]));
	json_object_set_new(o, "ranks", ranks);
	json_object_set_new(o, "member", json_integer(v->member));
	json_object_set_new(o, "members", json_integer(v->members));
	json_object_set_new(o, "reason", json_string(why));
	return o;
}

static void key_row(struct table *t, const char *key, enum key_verdict verdict,
	const struct key_view *v, const char *why)
{
	const struct key_text *model = &v->parts.text[KEY_MODEL];
	char *text = print_bytes(key, strlen(key));
	char *name = print_bytes(model->data != NULL ? model->data : "-",
		model->data != NULL ? model->len : 1);

	table_cell(t, "%s", key_verdict_name(verdict));
	table_cell(t, "%s", v->form != NULL ? v->form : "-");
	table_cell(t, "%s", name != NULL ? name : "-");
	if (verdict == KEY_MEMBER)
		table_cell(t, "%u of %u", v->member, v->members);
	else
		table_cell(t, "-");
	table_cell(t, "%s", why[0] != '\0' ? why : "-");
	table_cell(t, "%s", text != NULL ? text : "-");
	free(text);
	free(name);
}

int cmd_key_explain(struct ctl *ctl)
{
	static const char *const columns[] = { "VERDICT", "FORM", "MODEL", "MEMBER", "REASON",
		"KEY", NULL };
	static const struct digest_key none;
	json_t *list = ctl->json ? json_array() : NULL;
	struct table *t = NULL;
	char err[300], why[KEYS_WHY_MAX];
	int rc = CTL_OK;

	for (int i = 0; i < ctl->argc; i++) {
		/* Each key by itself: one that is refused would have others refused. */
		struct keys *keys = keys_create(ctl_option(ctl, "layouts"), err, sizeof(err));
		enum key_verdict verdict;
		struct key_view v;

		if (keys == NULL) {
			json_decref(list);
			return ctl_fail(CTL_USAGE, "--layouts: %s", err);
		}
		if (t == NULL && !ctl->json)
			t = table_create(columns);
		verdict = keys_judge(keys, 0, &none, ctl->argv[i], strlen(ctl->argv[i]), &v, why);
		if (verdict == KEY_REFUSED)
			rc = CTL_FAILED;
		if (ctl->json)
			json_array_append_new(list, key_json(ctl->argv[i], verdict, &v, why));
		else
			key_row(t, ctl->argv[i], verdict, &v, why);
		keys_destroy(keys);
	}
	if (!ctl->json)
		table_print(t);
	else if (print_json(list, false) != CTL_OK)
		return CTL_FAILED;
	return rc;
}
