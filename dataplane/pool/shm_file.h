/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Create, check and map pool files. A new file is laid out before it gets its name, so a file that
 * can be opened is a whole pool, and of several creators at once one wins and the others use its
 * file.
 *
 * What is refused, with a reason in words: another owner's file unless it is group-shared, a file
 * the world may write, symbolic links, wrong magic, version or size.
 */

#include "dataplane/pool/shm.h"
#include "dataplane/pool/shm_pool.h"

/*
 * Fills shm with the mapped file; no slot is taken. On error nothing is left, err says why, and
 * the errors are those of strait_pool_open().
 */
int shm_file_open(struct shm *shm, const char *path, const struct shm_pool_options *options,
	char *err, size_t err_len);
/*
 * Is path still the mapped file, whole? 0, or -ENXIO and why. A file that was cut is not touched
 * any more: the lock is refused from now on, for what lies behind its end is SIGBUS.
 */
int shm_file_check(struct shm *shm, const char *path, char *err, size_t err_len);
/* Is the file memory, and has it all of it already? */
bool shm_file_is_reserved(const struct shm *shm);
void shm_file_close(struct shm *shm);
