/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Where things stand in a YAML text, for error messages. A place is written like "links[1].cap".
 * The text is parsed anew for each question: these run once, on the way out. Pure, any thread.
 */

/**
 * 0 if text is one well-formed YAML document without aliases, else the line of the problem, told
 * in problem.
 */
unsigned int config_where_check(const char *text, size_t len, char *problem, size_t problem_len);

/**
 * Line of a place (of its key, if it is a mapping's), or of the innermost thing around it that
 * exists. At least 1.
 */
unsigned int config_where_line(const char *text, size_t len, const char *where);
/** The same, but of keys that are there more than once the last one counts. */
unsigned int config_where_last_line(const char *text, size_t len, const char *where);
