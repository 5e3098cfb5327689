/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/term.h"

#include "control/base/file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TERM_FILE_MAX = 64 };

int term_init(struct term *t, const char *state_dir, char *err, size_t err_len)
{
	char *text, *end;
	size_t len;
	int ret;

	t->highest = 0;
	if ((size_t)snprintf(t->path, sizeof(t->path), "%s/term", state_dir) >= sizeof(t->path)) {
		snprintf(err, err_len, "state_dir: path too long");
		return -ENAMETOOLONG;
	}
	file_remove_leftovers(t->path);
	ret = file_read(t->path, TERM_FILE_MAX, &text, &len);
	if (ret == -ENOENT)
		return 0;
	if (ret < 0) {
		snprintf(err, err_len, "%s: %s", t->path, strerror(-ret));
		return ret;
	}
	errno = 0;
	t->highest = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || errno != 0 || (*end != '\n' && *end != '\0') ||
		strlen(text) != len || (*end == '\n' && end[1] != '\0')) {
		snprintf(err, err_len,
			"%s: not a term; write the master's term (straitctl status) into it, or "
			"remove it to accept any master",
			t->path);
		ret = -EINVAL;
	}
	free(text);
	return ret < 0 ? ret : 0;
}

int term_check(struct term *t, uint64_t term)
{
	char text[TERM_FILE_MAX];
	int len, ret;

	if (term < t->highest)
		return -ESTALE;
	if (term == t->highest)
		return 0;
	len = snprintf(text, sizeof(text), "%" PRIu64 "\n", term);
	ret = file_write_atomic(t->path, text, (size_t)len, 0600);
	if (ret < 0)
		return ret;
	t->highest = term;
	return 0;
}
