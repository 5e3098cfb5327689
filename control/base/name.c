/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/name.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool name_is_valid(const char *name)
{
	size_t n;

	if (!is_alnum(name[0]))
		return false;
	for (n = 1; name[n] != '\0'; n++)
		if (n >= STRAIT_NAME_MAX ||
			(!is_alnum(name[n]) && name[n] != '.' && name[n] != '_' && name[n] != '-'))
			return false;
	return true;
}

int name_check(const char *what, const char *name, char *err, size_t err_len)
{
	if (name_is_valid(name))
		return 0;
	snprintf(err, err_len,
		"\"%.80s\" is not a %s name: use 1 to %d of a-z 0-9 . _ - and begin with a letter "
		"or digit",
		name, what, STRAIT_NAME_MAX);
	return -EINVAL;
}

/* Bytes of the character (RFC 3629), 0: none, or a control character. */
static size_t character(const unsigned char *p)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = p[0] < 0x80    ? 1
		: p[0] >> 5 == 6  ? 2
		: p[0] >> 4 == 14 ? 3
		: p[0] >> 3 == 30 ? 4
				  : 0;
	uint32_t c = n == 1 ? p[0] : p[0] & 0x7fu >> n;

	for (size_t i = 1; i < n; i++) { /* the NUL at the end is no continuation */
		if (p[i] >> 6 != 2)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (n == 0 || c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	return c < 0x20 || (c >= 0x7f && c < 0xa0) ? 0 : n;
}

int text_check(const char *what, const char *text, size_t max, char *err, size_t err_len)
{
	size_t len = strlen(text), at = 0, n;

	if (len == 0 || len > max) {
		snprintf(err, err_len, "a %s has 1 to %zu bytes", what, max);
		return -EINVAL;
	}
	for (; at < len; at += n) {
		n = character((const unsigned char *)text + at);
		if (n == 0) {
			snprintf(err, err_len,
				"a %s is UTF-8 without control characters, byte %zu is neither",
				what, at + 1);
			return -EINVAL;
		}
	}
	return 0;
}
