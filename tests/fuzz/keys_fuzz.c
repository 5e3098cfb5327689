/* SPDX-License-Identifier: Apache-2.0 */
#include "control/keys/keys.h"

#include <stdlib.h>
#include <string.h>

/*
 * Any key: what it is taken apart into lies within it, and a member is one of its set. And any
 * pattern: what is not refused can be matched. Input: a pattern, a line feed, a key.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		__builtin_trap();
}

static void require_within(const struct key_parts *p, const char *key, size_t len)
{
	for (int i = 0; i < KEY_FIELDS; i++)
		require(p->text[i].data == NULL ||
			(p->text[i].data >= key && p->text[i].data + p->text[i].len <= key + len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char layouts[] = "layouts:\n"
				      "- { model: \"m*\", form: vllm, tp: 4, groups: 2 }\n"
				      "- { model: \"*\", form: sglang, tp: 2 }\n";
	static const struct digest_key secret = { "0123456789abcdef" };
	const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
	size_t line = end != NULL ? (size_t)(end - data) : 0;
	const char *key = (const char *)data + (end != NULL ? line + 1 : 0);
	size_t len = size - (size_t)(key - (const char *)data);
	static struct keys *keys;
	struct key_pattern pattern;
	struct key_parts parts;
	struct key_view v;
	char err[300];

	if (keys == NULL)
		keys = keys_create_text(layouts, err, sizeof(err));
	require(keys != NULL);
	if (keys_judge(keys, 0, &secret, key, len, &v, NULL) == KEY_MEMBER)
		require(v.member < v.members && v.set != 0);
	if (v.form != NULL)
		require_within(&v.parts, key, len);
	if (end != NULL &&
		key_pattern_parse(&pattern, (const char *)data, line, err, sizeof(err)) == 0 &&
		key_pattern_match(&pattern, key, len, &parts))
		require_within(&parts, key, len);
	return 0;
}
