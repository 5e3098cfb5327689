/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/keylog.h"

#include "control/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 256 };

struct keylog {
	int fd;
};

/* What is there already must be as private as what we would create. */
static const char *refuse(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "is no regular file";
	if ((st.st_mode & 077) != 0)
		return "others may read it; chmod 600 it";
	if (st.st_uid != geteuid())
		return "belongs to another user";
	return NULL;
}

struct keylog *keylog_open(const char *path, char *err, size_t err_len)
{
	struct keylog *k = malloc(sizeof(*k));
	const char *why;

	if (k == NULL) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	/* Non-blocking: a pipe that nobody reads is refused instead of waited for. */
	k->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
		0600);
	why = k->fd < 0 ? strerror(errno) : refuse(k->fd);
	if (why != NULL) {
		snprintf(err, err_len, "debug.key_log %s: %s", path, why);
		keylog_close(k);
		return NULL;
	}
	return k;
}

void keylog_close(struct keylog *k)
{
	if (k == NULL)
		return;
	if (k->fd >= 0)
		close(k->fd);
	free(k);
}

void keylog_session(struct keylog *k, uint32_t initiator_id, uint32_t responder_id,
	const uint8_t secret[STRAIT_SECRET_BYTES])
{
	char line[LINE_MAX_BYTES];
	int n;

	if (k == NULL)
		return;
	n = snprintf(line, sizeof(line), "STRAIT_SESSION_SECRET %08x%08x ", initiator_id,
		responder_id);
	for (int i = 0; i < STRAIT_SECRET_BYTES; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "%02x", secret[i]);
	line[n++] = '\n';
	if (write(k->fd, line, (size_t)n) != n)
		log_limited(LOG_LEVEL_ERROR, "keylog", 10000, "cannot write the key log: %s",
			strerror(errno));
	explicit_bzero(line, sizeof(line));
}
