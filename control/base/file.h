/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Small files, read and written whole. Calls block on the disk. Any thread. */

/**
 * Read a file of at most max bytes. *out is malloc'd, with a NUL after its *len bytes. 0, -EFBIG,
 * -EISDIR or what open and read say.
 */
int file_read(const char *path, size_t max, char **out, size_t *len);

/**
 * Replace path with these bytes: a temporary file beside it, fsync, rename, fsync of the
 * directory. After a crash the old or the new content is there, whole. -errno; the temporary is
 * removed.
 */
int file_write_atomic(const char *path, const void *data, size_t len, mode_t mode);
/**
 * Remove temporaries that file_write_atomic() left beside path because it was killed. For who
 * writes path alone, when it starts. What cannot be removed stays, it is only in the way.
 */
void file_remove_leftovers(const char *path);

/**
 * Write to a path that a user named, as he means it: symbolic links are followed, a device, pipe
 * or socket is written into and never replaced, a regular file is replaced whole and keeps its
 * mode, a new one has 0666 less the umask. -errno: -EACCES for a file that may not be written.
 */
int file_put(const char *path, const void *data, size_t len);

/**
 * Hold a directory for this process alone, as long as the descriptor that is returned stays open.
 * Nothing is written. -EBUSY: another one holds it.
 */
int file_lock_directory(const char *path);

/** Create path with these bytes; -EEXIST if something is there. */
int file_create(const char *path, const void *data, size_t len, mode_t mode);

/**
 * 0 if path is a regular file that only its owner may use (mode & 0077 == 0). -EPERM, -EINVAL or
 * what stat says, with what to do in err.
 */
int file_check_private(const char *path, char *err, size_t err_len);
