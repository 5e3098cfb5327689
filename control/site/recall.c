/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/recall.h"

#include "control/base/file.h"
#include "control/base/log.h"
#include "control/planner/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "STRRCL01"

struct recall {
	char *path;
	struct memory *evicted, *brought;
	bool dirty;
	char trouble[160];
	uint64_t saved_ns;
};

static int load(struct recall *r)
{
	size_t len, each;
	char *data;
	int rc;

	(void)memory_image(r->evicted, &each);
	rc = file_read(r->path, 8 + 2 * each, &data, &len);
	if (rc < 0)
		return rc;
	rc = -EILSEQ;
	if (len == 8 + 2 * each && memcmp(data, MAGIC, 8) == 0)
		rc = memory_restore(r->evicted, data + 8, each);
	if (rc == 0)
		rc = memory_restore(r->brought, data + 8 + each, each);
	free(data);
	return rc;
}

struct recall *recall_create(const char *path, uint32_t evicted_s, uint32_t brought_s)
{
	struct recall *r = calloc(1, sizeof(*r));
	int rc = 0;

	if (r == NULL)
		return NULL;
	r->path = path != NULL ? strdup(path) : NULL;
	r->evicted = memory_create(RECALL_ENTRIES, evicted_s);
	r->brought = memory_create(RECALL_ENTRIES, brought_s);
	if ((path != NULL && r->path == NULL) || r->evicted == NULL || r->brought == NULL) {
		recall_destroy(r);
		errno = ENOMEM;
		return NULL;
	}
	if (path != NULL) {
		file_remove_leftovers(path);
		rc = load(r);
	}
	if (rc < 0 && rc != -ENOENT)
		log_warn("site", "what was evicted before is not known path=%s error=%s", path,
			rc == -EILSEQ || rc == -EFBIG ? "damaged, or no such file" : strerror(-rc));
	return r;
}

static void save(struct recall *r)
{
	size_t each;
	const void *evicted = memory_image(r->evicted, &each);
	char *all = malloc(8 + 2 * each);
	int rc = -ENOMEM;

	if (all != NULL) {
		memcpy(all, MAGIC, 8);
		memcpy(all + 8, evicted, each);
		memcpy(all + 8 + each, memory_image(r->brought, &each), each);
		rc = file_write_atomic(r->path, all, 8 + 2 * each, 0600);
	}
	free(all);
	r->trouble[0] = '\0';
	if (rc < 0)
		snprintf(r->trouble, sizeof(r->trouble), "what was evicted cannot be saved: %s",
			strerror(-rc));
	if (rc < 0)
		log_limited(LOG_LEVEL_ERROR, "site", 60000,
			"what was evicted cannot be saved path=%s error=%s", r->path,
			strerror(-rc));
	else
		r->dirty = false;
}

void recall_destroy(struct recall *r)
{
	if (r == NULL)
		return;
	if (r->dirty && r->path != NULL)
		save(r);
	memory_destroy(r->evicted);
	memory_destroy(r->brought);
	free(r->path);
	free(r);
}

void recall_evicted(struct recall *r, struct digest128 d, uint64_t now_s)
{
	(void)memory_mark(r->evicted, d, now_s);
	r->dirty = true;
}

bool recall_was_evicted(const struct recall *r, struct digest128 d, uint64_t now_s)
{
	return memory_get(r->evicted, d, now_s) > 0;
}

void recall_bringing(struct recall *r, struct digest128 d, uint64_t now_s)
{
	memory_forget(r->evicted, d);
	(void)memory_mark(r->brought, d, now_s);
	r->dirty = true;
}

bool recall_was_brought(const struct recall *r, struct digest128 d, uint64_t now_s)
{
	return memory_get(r->brought, d, now_s) > 0;
}

const char *recall_trouble(const struct recall *r)
{
	return r->trouble;
}

void recall_save(struct recall *r, uint64_t now_ns)
{
	if (!r->dirty || r->path == NULL || now_ns - r->saved_ns < RECALL_SAVE_NS)
		return;
	r->saved_ns = now_ns;
	save(r);
}
