/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

FILE *replay_manifest_create(const char *path)
{
	return strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
}

int replay_manifest_add(FILE *f, const struct replay_manifest_entry *e)
{
	char hex[2 * REPLAY_HASH_BYTES + 1];

	replay_hex(e->hash, sizeof(e->hash), hex);
	if (fprintf(f, "%s %" PRIu64 " %s\n", hex, e->len, e->key) < 0 || fflush(f) != 0)
		return errno != 0 ? -errno : -EIO;
	return 0;
}

int replay_manifest_open(struct replay_manifest_reader *r, const char *path)
{
	memset(r, 0, sizeof(*r));
	r->path = path;
	r->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
	return r->file == NULL ? -errno : 0;
}

void replay_manifest_close(struct replay_manifest_reader *r)
{
	if (r->file != NULL && r->file != stdin)
		fclose(r->file);
	free(r->text);
	memset(r, 0, sizeof(*r));
}

static int nibble(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int line_decode(char *text, size_t len, struct replay_manifest_entry *e)
{
	char *end;
	int hi, lo;

	if (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	if (len < 2 * REPLAY_HASH_BYTES + 4 || strlen(text) != len)
		return -EINVAL;
	for (int i = 0; i < REPLAY_HASH_BYTES; i++) {
		hi = nibble(text[2 * i]);
		lo = nibble(text[2 * i + 1]);
		if (hi < 0 || lo < 0)
			return -EINVAL;
		e->hash[i] = (uint8_t)(hi << 4 | lo);
	}
	text += 2 * REPLAY_HASH_BYTES;
	if (text[0] != ' ' || nibble(text[1]) < 0 || nibble(text[1]) > 9)
		return -EINVAL;
	errno = 0;
	e->len = strtoull(text + 1, &end, 10);
	if (errno != 0 || *end != ' ' || end[1] == '\0')
		return -EINVAL;
	e->key = end + 1;
	e->key_len = strlen(e->key);
	return 1;
}

int replay_manifest_next(struct replay_manifest_reader *r, struct replay_manifest_entry *e,
	char *err, size_t err_len)
{
	ssize_t len = getline(&r->text, &r->text_size, r->file);

	r->line++;
	if (len < 0 && ferror(r->file)) {
		snprintf(err, err_len, "%s:%" PRIu64 ": cannot read", r->path, r->line);
		return -EIO;
	}
	if (len < 0)
		return 0;
	if (line_decode(r->text, (size_t)len, e) < 0) {
		snprintf(err, err_len,
			"%s:%" PRIu64 ": not a manifest line: <SHA-256> <length> <key>", r->path,
			r->line);
		return -EINVAL;
	}
	return 1;
}
