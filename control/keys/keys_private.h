/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/keys/keys.h"

/* What keys.c and layouts.c share: the layouts file as it is loaded, and forms parsed. */

struct key_layout {
	char *model, *form, *dtype;
	uint32_t tp, pcp, dcp, pp, groups, layers;
	char **parts;
	unsigned int parts_count;
};

struct key_layouts {
	struct key_layout *layouts;
	unsigned int layouts_count;
	char **forms;
	unsigned int forms_count;
	bool refuse_others;
};

struct key_form {
	char name[32];
	struct key_pattern pattern;
};

struct keys {
	struct key_layouts *file; /* NULL: none */
	struct key_form forms[KEYS_FORMS_MAX];
	size_t forms_count;
	uint64_t refused[KEYS_LAYOUTS_MAX]; /* a bit a tenant */
	unsigned int refused_count;
	char why[KEYS_WHY_MAX]; /* the first one */
};

/** From a file or, if path is NULL, text. 0 or -errno with the reason in err. */
int key_layouts_load(struct key_layouts **out, const char *path, const char *text, char *err,
	size_t err_len);
void key_layouts_free(struct key_layouts *l);
/** Of a layout, how many there are of this rank; at least 1. */
uint32_t key_layout_ranks(const struct key_layout *l, enum key_field rank);
