/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Names of sites and edges: [a-z0-9][a-z0-9._-]{0,62}, so that they can stand in file names, URIs,
 * DNS labels and tables without quoting. And text that people choose, such as labels: any UTF-8
 * without control characters, so that it can stand in JSON and on terminals. Pure, any thread.
 */

enum { STRAIT_NAME_MAX = 63 };

bool name_is_valid(const char *name);
/** 0, or -EINVAL with a sentence that quotes the name. what is "site" or "edge". */
int name_check(const char *what, const char *name, char *err, size_t err_len);
/** The same of a text of 1 to max bytes. what is "label" or "tenant". */
int text_check(const char *what, const char *text, size_t max, char *err, size_t err_len);
