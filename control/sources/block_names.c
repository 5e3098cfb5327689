/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/block_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GROUP_DIGITS = 10 };

static const char HASH[] = "{hash}", GROUP[] = "{group}";

static bool begins(const char *p, const char *with)
{
	return strncmp(p, with, strlen(with)) == 0;
}

bool block_name_is_valid(const char *template)
{
	bool named = false;
	size_t most = 0;

	for (const char *p = template; *p != '\0';) {
		if (begins(p, HASH)) {
			named = true;
			most += (size_t)2 * KV_HASH_MAX;
			p += strlen(HASH);
		} else if (begins(p, GROUP)) {
			most += GROUP_DIGITS;
			p += strlen(GROUP);
		} else if (*p == '{' || *p == '}') {
			return false;
		} else {
			most++;
			p++;
		}
	}
	return named && most <= KV_KEY_MAX;
}

static size_t hash_text(const struct kv_hash *h, char out[static 2 * KV_HASH_MAX + 1])
{
	if (h->data == NULL)
		return (size_t)snprintf(out, 2 * KV_HASH_MAX + 1, "%016" PRIx64, h->number);
	for (uint32_t i = 0; i < h->len && i < KV_HASH_MAX; i++)
		snprintf(out + (size_t)2 * i, 3, "%02x", h->data[i]);
	return (size_t)2 * h->len;
}

size_t block_name(const char *template, const struct kv_hash *hash, uint32_t group,
	char out[static KV_KEY_MAX])
{
	char hex[2 * KV_HASH_MAX + 1], number[GROUP_DIGITS + 1];
	size_t hex_len = hash_text(hash, hex), at = 0;

	for (const char *p = template; *p != '\0';) {
		const char *part = p;
		size_t len = 1;

		if (begins(p, HASH)) {
			part = hex;
			len = hex_len;
			p += strlen(HASH);
		} else if (begins(p, GROUP)) {
			part = number;
			len = (size_t)snprintf(number, sizeof(number), "%" PRIu32, group);
			p += strlen(GROUP);
		} else {
			p++;
		}
		if (len > KV_KEY_MAX - at)
			return 0;
		memcpy(out + at, part, len);
		at += len;
	}
	return at;
}
