/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Patterns of keys, and keys taken apart by them. A pattern is literal text with
 *
 *   {tp} {pcp} {dcp} {pp} {group} {layer} {worker} {world}   a number, without leading zeros
 *   {hash}                     8 or more hexadecimal digits
 *   {model} {prefix} {format}  one or more bytes without "@", as many as can be
 *   {dtype}                    a letter, then letters, digits, "_" and "."
 *   {part}                     a lower-case letter, then these, digits and "_"
 *   {tags}                     "@" and anything
 *   {any}                      anything, also nothing
 *   [...]                      all of it or nothing, preferably all
 *
 * Keys come from strangers. A match takes at most KEY_STEPS_MAX steps and no memory; a key that
 * would take more, or is longer than KEY_LEN_MAX, is of no form. Pure, any thread.
 */

enum key_field {
	/* ranks and such: members of a set differ in these */
	KEY_TP,
	KEY_PCP,
	KEY_DCP,
	KEY_PP,
	KEY_GROUP,
	KEY_LAYER,
	KEY_WORKER,
	KEY_RANKS,
	KEY_WORLD = KEY_RANKS, /* how many workers there are */
	KEY_NUMBERS,
	KEY_PART = KEY_NUMBERS, /* k, v, indexer: members differ in it, too */
	KEY_HASH,
	KEY_MODEL,
	KEY_PREFIX,
	KEY_FORMAT,
	KEY_DTYPE,
	KEY_TAGS,
	KEY_ANY,
	KEY_FIELDS,
};

enum {
	KEY_TOKENS_MAX = 48,
	KEY_STEPS_MAX = 4096,
	KEY_LEN_MAX = 1024, /* longer ones are of no form */
	KEY_PATTERN_MAX = 256,
	KEY_NUMBER_MAX = 65535,
};

struct key_text {
	const char *data; /* into the key; NULL: the pattern or the key has none */
	size_t len;
};

struct key_parts {
	struct key_text text[KEY_FIELDS];
	uint32_t number[KEY_NUMBERS]; /* of those that are there */
};

struct key_token {
	uint8_t kind, field;   /* of enum key_field */
	uint16_t at, len, end; /* literal text; of a group the token after it */
};

struct key_pattern {
	char text[KEY_PATTERN_MAX];
	struct key_token tokens[KEY_TOKENS_MAX];
	size_t count;
};

const char *key_field_name(enum key_field f);
/** 0 or -EINVAL with one sentence in err. */
int key_pattern_parse(struct key_pattern *p, const char *text, size_t len, char *err,
	size_t err_len);
/** Whether the key has this form; *out is then filled in, otherwise undefined. */
bool key_pattern_match(const struct key_pattern *p, const void *key, size_t len,
	struct key_parts *out);
