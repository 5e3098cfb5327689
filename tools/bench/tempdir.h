/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The one directory of files a run needs. It goes when the run ends, by itself or by SIGINT,
 * SIGTERM or SIGHUP; the signal then ends the program as it would have. Processes forked meanwhile
 * leave it alone. One at a time, one thread. STRAIT_BENCH_KEEP in the environment keeps it.
 */

enum { TEMPDIR_BYTES = 64 };

/** Its path into dir[TEMPDIR_BYTES]. 0 or -errno. */
int tempdir_create(char *dir);
/** With the files in it; nothing when there is none. */
void tempdir_remove(void);
