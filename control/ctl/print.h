/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/strait.pb-c.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tables for people, JSON for programs. */

struct table;

/**
 * Columns by name; a name that begins with '>' is aligned to the right. The list ends with NULL.
 */
struct table *table_create(const char *const *columns);
/** One cell after the other fills rows; text is copied. */
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Print and free. */
void table_print(struct table *t);

/** Print a JSON value and a newline, give it up. CTL_OK or CTL_FAILED. */
int print_json(json_t *value, bool compact);
/** {"key": text} or, if it is not UTF-8, {"key_hex": ...}: put into object under name. */
void json_put_bytes(json_t *object, const char *name, const void *data, size_t len);
/** Bytes for a table: as they are if printable, else hexadecimal. malloc'd. */
char *print_bytes(const void *data, size_t len);

json_t *json_names(char *const *list, size_t n);
json_t *json_site(const Strait__SiteInfo *s);
json_t *json_edge(const Strait__EdgeInfo *e);
/** Why a connected edge refuses orders. NULL: it does not, or does not say. */
const char *print_trouble(const Strait__EdgeInfo *e);
json_t *json_link(const Strait__LinkReport *l);
json_t *json_order(const Strait__OrderInfo *o);
/** Of the policy that counts between two sites (cmd_policy.c). */
json_t *json_policy(const Strait__LinkView *l);

/** "2026-08-20 10:11:12", "-" for 0. */
enum { TIME_TEXT_MAX = 32 };
const char *print_time(uint64_t unix_ms, char buf[static TIME_TEXT_MAX]);
/** ", open" if it takes more objects, else "". */
const char *print_open(const Strait__OrderInfo *o);
const char *print_class(unsigned int class);
