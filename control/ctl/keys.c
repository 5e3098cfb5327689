/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/keys.h"

#include "control/base/file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place: the bytes need less room than their digits. */
static int unhex(struct key *k)
{
	if (k->len % 2 != 0)
		return -1;
	for (size_t i = 0; i < k->len; i += 2) {
		int high = digit((char)k->data[i]), low = digit((char)k->data[i + 1]);

		if (high < 0 || low < 0)
			return -1;
		k->data[i / 2] = (uint8_t)(high << 4 | low);
	}
	k->len /= 2;
	return 0;
}

int keys_add(struct keys *k, const char *text, size_t len, bool hex)
{
	struct key key = { .data = malloc(len + 1), .len = len };

	if (k->count == KEYS_MAX) {
		free(key.data);
		return ctl_fail(CTL_USAGE, "more than %d keys", KEYS_MAX);
	}
	if (k->count == k->room) {
		size_t room = k->room * 2 + 64;
		struct key *list = realloc(k->list, room * sizeof(*list));

		if (list == NULL) {
			free(key.data);
			return ctl_fail(CTL_FAILED, "out of memory");
		}
		k->list = list;
		k->room = room;
	}
	if (key.data == NULL)
		return ctl_fail(CTL_FAILED, "out of memory");
	memcpy(key.data, text, len);
	if (hex && unhex(&key) != 0) {
		free(key.data);
		return ctl_fail(CTL_USAGE, "\"%.*s\" is not hexadecimal (--hex)",
			(int)(len < 80 ? len : 80), text);
	}
	k->list[k->count++] = key;
	return CTL_OK;
}

int keys_add_file(struct keys *k, const char *path, char separator, bool hex)
{
	char *text, *at, *end;
	size_t len;
	int rc;

	rc = file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, KEYS_FILE_MAX, &text, &len);
	if (rc != 0)
		return ctl_fail(CTL_FAILED, "%s: %s", path, strerror(-rc));
	for (at = text; rc == CTL_OK && at < text + len; at = end + 1) {
		size_t n;

		end = memchr(at, separator, (size_t)(text + len - at));
		if (end == NULL)
			end = text + len;
		n = (size_t)(end - at);
		if (separator == '\n' && n > 0 && at[n - 1] == '\r')
			n--;
		if (n > 0)
			rc = keys_add(k, at, n, hex);
	}
	free(text);
	return rc;
}

void keys_free(struct keys *k)
{
	for (size_t i = 0; i < k->count; i++)
		free(k->list[i].data);
	free(k->list);
}
