/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What a site remembers of objects across restarts, so that nothing bounces between sites for ever:
 * which ones were brought here (they are not shipped on as if they were the site's own) and which
 * ones went from here lately (they are not brought again unless somebody asks). Two memories
 * (control/planner/memory.h) of RECALL_ENTRIES each in one file of a megabyte, replaced whole, at
 * most every RECALL_SAVE_NS; a crash forgets what is younger than that. The file ends with its own
 * SHA-256; files of before, without one, are read.
 *
 * One thread; recall_save() blocks on the disk.
 */

enum { RECALL_ENTRIES = 1 << 16 };
#define RECALL_SAVE_NS UINT64_C(3000000000)

struct recall;

/**
 * path NULL: nothing is kept over a restart. A file that is damaged, or no such file, is put aside
 * as path.damaged, which recall_trouble() tells for evicted_s, and begun anew. One that cannot be
 * read is an error and logged: it would be replaced. NULL + errno.
 */
struct recall *recall_create(const char *path, uint32_t evicted_s, uint32_t brought_s);
/** Saves what is new. NULL is ignored. */
void recall_destroy(struct recall *r);

void recall_evicted(struct recall *r, struct digest128 d, uint64_t now_s);
bool recall_was_evicted(const struct recall *r, struct digest128 d, uint64_t now_s);
/** It is about to be brought: what was evicted of it is forgotten. */
void recall_bringing(struct recall *r, struct digest128 d, uint64_t now_s);
bool recall_was_brought(const struct recall *r, struct digest128 d, uint64_t now_s);

/** Why the last time to save failed, or what was lost at the start; "": neither. */
const char *recall_trouble(const struct recall *r);
/** When something is new and the last time was long enough ago. */
void recall_save(struct recall *r, uint64_t now_ns);
