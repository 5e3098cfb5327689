/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/recall.h"

#include "control/base/clock.h"
#include "control/base/file.h"
#include "control/base/log.h"
#include "control/planner/memory.h"

#include <openssl/evp.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC     "STRRCL02"
#define MAGIC_OLD "STRRCL01" /* the same without a digest */
enum { MAGIC_BYTES = 8, DIGEST_BYTES = 32 };

struct recall {
	char *path;
	struct memory *evicted, *brought;
	bool dirty;
	char trouble[160];
	const char *lost; /* at the start; NULL: nothing */
	uint64_t saved_ns, lost_ns, evicted_ns;
};

static int digest(const void *data, size_t len, uint8_t out[static DIGEST_BYTES])
{
	return EVP_Digest(data, len, out, NULL, EVP_sha256(), NULL) == 1 ? 0 : -EIO;
}

/* What of a file are the two memories; NULL: it is damaged, or none of ours. */
static const char *verify(const char *data, size_t len, size_t both)
{
	uint8_t sum[DIGEST_BYTES];

	if (len == MAGIC_BYTES + both && memcmp(data, MAGIC_OLD, MAGIC_BYTES) == 0)
		return data + MAGIC_BYTES;
	if (len != MAGIC_BYTES + both + DIGEST_BYTES || memcmp(data, MAGIC, MAGIC_BYTES) != 0 ||
		digest(data, len - DIGEST_BYTES, sum) < 0 ||
		memcmp(data + len - DIGEST_BYTES, sum, DIGEST_BYTES) != 0)
		return NULL;
	return data + MAGIC_BYTES;
}

static int load(struct recall *r)
{
	const char *images;
	size_t len, each;
	char *data;
	int rc;

	(void)memory_image(r->evicted, &each);
	rc = file_read(r->path, MAGIC_BYTES + 2 * each + DIGEST_BYTES, &data, &len);
	if (rc < 0)
		return rc;
	images = verify(data, len, 2 * each);
	rc = images != NULL ? memory_restore(r->evicted, images, each) : -EILSEQ;
	if (rc == 0)
		rc = memory_restore(r->brought, images + each, each);
	free(data);
	return rc;
}

/* It would be replaced: whoever can read more of it than we can is to have it. */
static int put_aside(struct recall *r)
{
	char aside[PATH_MAX];

	if ((size_t)snprintf(aside, sizeof(aside), "%s.damaged", r->path) >= sizeof(aside))
		return -ENAMETOOLONG;
	if (rename(r->path, aside) < 0)
		return -errno;
	r->lost = "what was evicted or brought before is not known: the file was damaged, "
		  "and has .damaged at its end now";
	log_error("site", "%s path=%s", r->lost, r->path);
	r->lost_ns = clock_now_ns();
	return 0;
}

struct recall *recall_create(const char *path, uint32_t evicted_s, uint32_t brought_s)
{
	struct recall *r = calloc(1, sizeof(*r));
	int rc = 0;

	if (r == NULL)
		return NULL;
	r->path = path != NULL ? strdup(path) : NULL;
	r->evicted_ns = evicted_s * UINT64_C(1000000000);
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
	if (rc == -EILSEQ || rc == -EFBIG)
		rc = put_aside(r);
	if (rc == 0 || rc == -ENOENT)
		return r;
	log_error("site", "what was evicted before cannot be read path=%s error=%s", path,
		strerror(-rc));
	recall_destroy(r);
	errno = -rc;
	return NULL;
}

/* last: nobody tries again, so it is told whenever the line before was. */
static void save(struct recall *r, bool last)
{
	size_t each;
	const void *evicted = memory_image(r->evicted, &each);
	size_t len = MAGIC_BYTES + 2 * each;
	char *all = malloc(len + DIGEST_BYTES);
	int rc = -ENOMEM;

	if (all != NULL) {
		memcpy(all, MAGIC, MAGIC_BYTES);
		memcpy(all + MAGIC_BYTES, evicted, each);
		memcpy(all + MAGIC_BYTES + each, memory_image(r->brought, &each), each);
		rc = digest(all, len, (uint8_t *)all + len);
	}
	if (rc == 0)
		rc = file_write_atomic(r->path, all, len + DIGEST_BYTES, 0600);
	free(all);
	r->trouble[0] = '\0';
	if (rc < 0)
		snprintf(r->trouble, sizeof(r->trouble), "what was evicted cannot be saved: %s",
			strerror(-rc));
	if (rc < 0 && last)
		log_error("site",
			"what was evicted since the last save is lost, as it cannot be saved "
			"path=%s error=%s",
			r->path, strerror(-rc));
	else if (rc < 0)
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
		save(r, true);
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
	/* what was evicted before the start would not be remembered for longer than that */
	if (r->trouble[0] == '\0' && r->lost != NULL && clock_now_ns() - r->lost_ns < r->evicted_ns)
		return r->lost;
	return r->trouble;
}

void recall_save(struct recall *r, uint64_t now_ns)
{
	if (!r->dirty || r->path == NULL || now_ns - r->saved_ns < RECALL_SAVE_NS)
		return;
	r->saved_ns = now_ns;
	save(r, false);
}
