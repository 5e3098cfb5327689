/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/config.h"
#include "control/keys/keys_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEXT(field, type, flags)                                                                   \
	CYAML_FIELD_STRING_PTR(#field, CYAML_FLAG_POINTER | (flags), type, field, 1, 256)
#define COUNT(field) CYAML_FIELD_UINT(#field, CYAML_FLAG_OPTIONAL, struct key_layout, field)

static const cyaml_schema_value_t text_value = {
	CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, KEY_PATTERN_MAX),
};

static const cyaml_schema_field_t layout_fields[] = {
	TEXT(model, struct key_layout, CYAML_FLAG_DEFAULT),
	TEXT(form, struct key_layout, CYAML_FLAG_DEFAULT),
	TEXT(dtype, struct key_layout, CYAML_FLAG_OPTIONAL),
	COUNT(tp),
	COUNT(pcp),
	COUNT(dcp),
	COUNT(pp),
	COUNT(groups),
	COUNT(layers),
	CYAML_FIELD_SEQUENCE("parts", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct key_layout,
		parts, &text_value, 1, KEYS_PARTS_MAX),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t layout_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct key_layout, layout_fields),
};

static const cyaml_schema_field_t fields[] = {
	CYAML_FIELD_SEQUENCE("layouts", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
		struct key_layouts, layouts, &layout_value, 0, KEYS_LAYOUTS_MAX),
	CYAML_FIELD_SEQUENCE("forms", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct key_layouts,
		forms, &text_value, 0, KEYS_FORMS_MAX / 2),
	CONFIG_FIELD_BOOL("refuse_others", CYAML_FLAG_OPTIONAL, struct key_layouts, refuse_others),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct key_layouts, fields),
};

uint32_t key_layout_ranks(const struct key_layout *l, enum key_field rank)
{
	const uint32_t n[KEY_RANKS] = {
		[KEY_TP] = l->tp,
		[KEY_PCP] = l->pcp,
		[KEY_DCP] = l->dcp,
		[KEY_PP] = l->pp,
		[KEY_GROUP] = l->groups,
		[KEY_LAYER] = l->layers,
		[KEY_WORKER] = 0,
	};

	return n[rank] > 0 ? n[rank] : 1;
}

static int check(const struct key_layouts *l, const char *path, char *err, size_t err_len)
{
	char where[48];

	for (unsigned int i = 0; i < l->layouts_count; i++) {
		uint64_t members = l->layouts[i].parts_count > 0 ? l->layouts[i].parts_count : 2;

		for (int r = 0; r < KEY_RANKS && members <= KEY_NUMBER_MAX; r++)
			members *= key_layout_ranks(&l->layouts[i], (enum key_field)r);
		snprintf(where, sizeof(where), "layouts[%u].model", i);
		if (members > KEY_NUMBER_MAX)
			return config_fail(err, err_len, path, where,
				"more than %d objects a block", KEY_NUMBER_MAX);
	}
	return 0;
}

int key_layouts_load(struct key_layouts **out, const char *path, const char *text, char *err,
	size_t err_len)
{
	int ret;

	*out = NULL;
	if (path != NULL)
		ret = config_load(path, &schema, (void **)out, err, err_len);
	else
		ret = config_load_text("layouts", text, strlen(text), &schema, (void **)out, err,
			err_len);
	if (ret < 0)
		return ret;
	ret = check(*out, path != NULL ? path : "layouts", err, err_len);
	if (ret == 0)
		return 0;
	key_layouts_free(*out);
	*out = NULL;
	return ret;
}

void key_layouts_free(struct key_layouts *l)
{
	if (l != NULL)
		config_free(&schema, l);
}
