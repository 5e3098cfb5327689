/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEMPORARIES_MAX = 100 };

/* Nobody would call a copy of his so: what has such a name is removed. */
#define TEMPORARY_PREFIX ".new-"
#define TEMPORARY_RANDOM "XXXXXX"

int file_read(const char *path, size_t max, char **out, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *buf = NULL;
	size_t have = 0, room = 0;
	struct stat st;
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		rc = -errno;
	else if (S_ISDIR(st.st_mode))
		rc = -EISDIR;
	/* The size of a pipe or a /proc file is not known beforehand. */
	while (rc == 0) {
		ssize_t n;

		if (have == room) {
			char *bigger = realloc(buf, (room = room * 2 + 4096) + 1);

			if (bigger == NULL) {
				rc = -ENOMEM;
				break;
			}
			buf = bigger;
		}
		n = read(fd, buf + have, room - have);
		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			rc = -errno;
		else if (n > 0 && (have += (size_t)n) > max)
			rc = -EFBIG;
	}
	close(fd);
	if (rc != 0) {
		free(buf);
		return rc;
	}
	buf[have] = '\0';
	*out = buf;
	*len = have;
	return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

static int sync_directory_of(const char *path)
{
	char copy[PATH_MAX];
	int fd, rc;

	if ((size_t)snprintf(copy, sizeof(copy), "%s", path) >= sizeof(copy))
		return -ENAMETOOLONG;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
	close(fd);
	return rc;
}

int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode)
{
	char tmp[PATH_MAX];
	int fd, rc;

	if ((size_t)snprintf(tmp, sizeof(tmp), "%s" TEMPORARY_PREFIX TEMPORARY_RANDOM, path) >=
		sizeof(tmp))
		return -ENAMETOOLONG;
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = fchmod(fd, mode) < 0 ? -errno : write_all(fd, data, len);
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(tmp, path) < 0)
		rc = -errno;
	if (rc != 0) {
		unlink(tmp);
		return rc;
	}
	return sync_directory_of(path);
}

void file_remove_leftovers(const char *path)
{
	const size_t prefix = strlen(TEMPORARY_PREFIX), random = strlen(TEMPORARY_RANDOM);
	char dir_of[PATH_MAX], base_of[PATH_MAX];
	const struct dirent *e;
	const char *base;
	size_t len;
	DIR *d;

	if (strlen(path) >= sizeof(dir_of))
		return;
	strcpy(dir_of, path);
	strcpy(base_of, path);
	base = basename(base_of);
	len = strlen(base);
	d = opendir(dirname(dir_of));
	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL)
		if (strlen(e->d_name) == len + prefix + random &&
			memcmp(e->d_name, base, len) == 0 &&
			memcmp(e->d_name + len, TEMPORARY_PREFIX, prefix) == 0)
			(void)unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
}

/* Into what is there, whatever it is: a device or a pipe cannot be replaced, and must not be. */
static int write_in_place(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0666);
	int rc;

	if (fd < 0)
		return -errno;
	rc = write_all(fd, data, len);
	if (rc == -EINVAL || rc == -EROFS) /* nothing to sync here, as with pipes */
		rc = 0;
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

/* A new file, mode 0666 less the umask as the kernel takes it, in the place of path. */
static int replace_regular(const char *path, const mode_t *mode, const void *data, size_t len)
{
	static unsigned int counter;
	char tmp[PATH_MAX];
	int fd = -1, rc;

	/* one of a killed process may be there, whose number was ours: in containers they repeat */
	for (int i = 0; i < TEMPORARIES_MAX; i++) {
		unsigned int n = __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);

		if ((size_t)snprintf(tmp, sizeof(tmp), "%s.%d-%u.tmp", path, (int)getpid(), n) >=
			sizeof(tmp))
			return -ENAMETOOLONG;
		fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	if (fd < 0)
		return -errno;
	rc = mode != NULL && fchmod(fd, *mode) < 0 ? -errno : write_all(fd, data, len);
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(tmp, path) < 0)
		rc = -errno;
	if (rc != 0) {
		unlink(tmp);
		return rc;
	}
	return sync_directory_of(path);
}

int file_put(const char *path, const void *data, size_t len)
{
	char *target = realpath(path, NULL);
	struct stat st;
	mode_t mode;
	int rc;

	if (target == NULL) {
		if (errno != ENOENT)
			return -errno;
		/* a link to nothing yet, or /dev/stdout that is a pipe: "pipe:[123]" is no path */
		if (lstat(path, &st) == 0)
			return write_in_place(path, data, len);
		return replace_regular(path, NULL, data, len);
	}
	if (stat(path, &st) < 0) {
		rc = -errno;
	} else if (!S_ISREG(st.st_mode)) {
		rc = write_in_place(path, data, len);
	} else if (access(path, W_OK) < 0) { /* a rename would not ask */
		rc = -errno;
	} else {
		mode = st.st_mode & 0777;
		rc = replace_regular(target, &mode, data, len);
	}
	free(target);
	return rc;
}

int file_create(const char *path, const void *data, size_t len, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	int rc;

	if (fd < 0)
		return -errno;
	rc = write_all(fd, data, len);
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc != 0) {
		unlink(path);
		return rc;
	}
	return sync_directory_of(path);
}

int file_lock_directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
	close(fd);
	return rc;
}

int file_check_private(const char *path, char *err, size_t err_len)
{
	struct stat st;
	int rc;

	if (stat(path, &st) < 0) {
		rc = -errno;
		snprintf(err, err_len, "%s: %s", path, strerror(-rc));
		return rc;
	}
	if (!S_ISREG(st.st_mode)) {
		snprintf(err, err_len, "%s: not a regular file", path);
		return -EINVAL;
	}
	if ((st.st_mode & 0077) == 0)
		return 0;
	snprintf(err, err_len, "%s: group or others may use it (mode %04o); run: chmod 0600 %s",
		path, (unsigned int)(st.st_mode & 07777), path);
	return -EPERM;
}
