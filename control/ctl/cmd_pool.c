/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/file.h"
#include "control/base/units.h"
#include "control/ctl/ctl.h"
#include "control/ctl/keys.h"
#include "control/ctl/print.h"

#include <strait/strait.h>

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SITE_TIMEOUT_MS = 5000 };

/*
 * put, get, exist, remove, pool create|show: straight on a pool file of this machine, no master
 * needed.
 */

static struct strait_pool *open_pool(const struct ctl *ctl, unsigned int flags, uint64_t size,
	int *rc)
{
	const char *path = ctl_option(ctl, "pool");
	struct strait_pool *pool;

	if (path == NULL) {
		*rc = ctl_fail(CTL_USAGE, "--pool FILE is needed");
		return NULL;
	}
	pool = strait_pool_open(path, flags, size);
	if (pool == NULL) {
		const char *why = strait_pool_open_error();
		bool advise = errno == ENOENT && (flags & STRAIT_POOL_CREATE) == 0;
		bool named = strncmp(why, path, strlen(path)) == 0;

		*rc = ctl_fail(CTL_FAILED, "%s%s%s%s", named ? "" : path, named ? "" : ": ", why,
			advise ? " (make it with straitctl pool create)" : "");
	}
	return pool;
}

/* The keys among the arguments: the first n, or all of them (n < 0). */
static int take_keys(const struct ctl *ctl, int n, struct keys *keys)
{
	bool hex = ctl_option(ctl, "hex") != NULL;
	int rc = CTL_OK;

	for (int i = 0; rc == CTL_OK && i < ctl->argc && (n < 0 || i < n); i++)
		rc = keys_add(keys, ctl->argv[i], strlen(ctl->argv[i]), hex);
	return rc;
}

static int put(struct ctl *ctl, struct strait_pool *pool, const struct key *key)
{
	const char *path =
		ctl->argc > 1 && strcmp(ctl->argv[1], "-") != 0 ? ctl->argv[1] : "/dev/stdin";
	char *data;
	size_t len;
	int rc = file_read(path, STRAIT_OBJECT_MAX, &data, &len);

	if (rc == -EFBIG)
		return ctl_fail(CTL_FAILED, "%s: larger than 64 MiB, the most an object can have",
			path);
	if (rc != 0)
		return ctl_fail(CTL_FAILED, "%s: %s", path, strerror(-rc));
	if (len == 0) {
		free(data);
		return ctl_fail(CTL_FAILED, "%s: empty: an object has 1 byte at least", path);
	}
	rc = strait_put(pool, key->data, key->len, data, len);
	if (rc == 0 && ctl->json) {
		json_t *o = json_object();

		json_put_bytes(o, "key", key->data, key->len);
		json_object_set_new(o, "length", json_integer((json_int_t)len));
		print_json(o, false);
	}
	free(data);
	return rc == 0 ? CTL_OK : ctl_fail(CTL_FAILED, "put: %s", strait_strerror(rc));
}

/* Run fn with the pool and keys of the command line. */
static int with_pool(struct ctl *ctl, int nkeys,
	int (*fn)(struct ctl *ctl, struct strait_pool *pool, struct keys *keys))
{
	struct keys keys = { 0 };
	struct strait_pool *pool;
	int rc = take_keys(ctl, nkeys, &keys);

	if (rc == CTL_OK) {
		pool = open_pool(ctl, 0, 0, &rc);
		if (pool != NULL) {
			rc = fn(ctl, pool, &keys);
			strait_pool_close(pool);
		}
	}
	keys_free(&keys);
	return rc;
}

static int run_put(struct ctl *ctl, struct strait_pool *pool, struct keys *keys)
{
	return put(ctl, pool, &keys->list[0]);
}

int cmd_put(struct ctl *ctl)
{
	return with_pool(ctl, 1, run_put);
}

static int run_get(struct ctl *ctl, struct strait_pool *pool, struct keys *keys)
{
	const char *to = ctl_option(ctl, "to");
	struct strait_object object;
	/* opened a second time a file would be written from its beginning */
	bool to_file = to != NULL && strcmp(to, "-") != 0 && strcmp(to, "/dev/stdout") != 0;
	int rc;

	if (ctl->json && !to_file)
		return ctl_fail(CTL_USAGE,
			"-o json describes the object: give --to FILE for its bytes");
	rc = strait_get(pool, keys->list[0].data, keys->list[0].len, STRAIT_GET_VERIFY, &object);
	if (rc == -ENOENT)
		return ctl_fail(CTL_FAILED, "no such object: %s", ctl->argv[0]);
	if (rc != 0)
		return ctl_fail(CTL_FAILED, "get: %s", strait_strerror(rc));
	if (to_file) {
		rc = file_put(to, object.data, object.len);
		if (rc != 0)
			ctl_fail(CTL_FAILED, "%s: %s", to, strerror(-rc));
	} else if (fwrite(object.data, 1, object.len, stdout) != object.len ||
		fflush(stdout) != 0) {
		rc = ctl_fail(CTL_FAILED, "cannot write the object to standard output");
	}
	if (ctl->json && rc == 0) {
		json_t *o = json_object();

		json_put_bytes(o, "key", keys->list[0].data, keys->list[0].len);
		json_object_set_new(o, "bytes", json_integer((json_int_t)object.len));
		json_object_set_new(o, "digest", json_sprintf("%016" PRIx64, object.digest));
		json_object_set_new(o, "to", json_string(to));
		print_json(o, false);
	}
	strait_release(pool, &object);
	return rc == 0 ? CTL_OK : CTL_FAILED;
}

int cmd_get(struct ctl *ctl)
{
	return with_pool(ctl, 1, run_get);
}

static int run_exist(struct ctl *ctl, struct strait_pool *pool, struct keys *keys)
{
	json_t *list = ctl->json ? json_array() : NULL;
	int rc = CTL_OK;

	for (size_t i = 0; i < keys->count; i++) {
		const struct key *k = &keys->list[i];
		int found = strait_exist(pool, k->data, k->len);

		if (found != 0 && found != -ENOENT) {
			json_decref(list);
			return ctl_fail(CTL_FAILED, "%s: %s", ctl->argv[i], strait_strerror(found));
		}
		if (found != 0)
			rc = CTL_FAILED;
		if (ctl->json) {
			json_t *o = json_object();

			json_put_bytes(o, "key", k->data, k->len);
			json_object_set_new(o, "exists", json_boolean(found == 0));
			json_array_append_new(list, o);
		} else {
			printf("%s %s\n", found == 0 ? "yes" : "no ", ctl->argv[i]);
		}
	}
	if (ctl->json)
		print_json(list, false);
	return rc;
}

static int ask_site(struct ctl *ctl, const char *path, const struct keys *keys)
{
	static const char *const words[] = { "no", "yes", "unknown" };
	struct strait_exist *x = strait_exist_open(path, SITE_TIMEOUT_MS);
	struct strait_key *list = calloc(keys->count + 1, sizeof(*list));
	uint8_t *answers = calloc(keys->count + 1, 1);
	json_t *array = ctl->json ? json_array() : NULL;
	struct strait_exist_age age;
	int rc = CTL_OK, e = x == NULL ? -errno : -ENOMEM;

	for (size_t i = 0; list != NULL && i < keys->count; i++)
		list[i] = (struct strait_key){ keys->list[i].data, keys->list[i].len };
	if (x != NULL && list != NULL && answers != NULL)
		e = strait_exist_batch(x, list, keys->count, answers, &age);
	if (e == -ENOENT || e == -ECONNREFUSED)
		rc = ctl_fail(CTL_FAILED, "%s: nobody answers there (is the site master running?)",
			path);
	else if (e == -EACCES)
		rc = ctl_fail(CTL_FAILED,
			"%s: user %u is not of this socket's tenant: name it, or a group that it "
			"is in, under the tenant in the site master's configuration",
			path, (unsigned int)geteuid());
	else if (e < 0)
		rc = ctl_fail(CTL_FAILED, "%s: %s", path, strait_strerror(e));
	for (size_t i = 0; e >= 0 && i < keys->count; i++) {
		const char *word = words[answers[i] & STRAIT_EXIST_MASK];

		if (answers[i] != STRAIT_EXIST_YES)
			rc = CTL_FAILED;
		if (ctl->json) {
			json_t *o = json_object();

			json_put_bytes(o, "key", list[i].data, list[i].len);
			json_object_set_new(o, "exists", json_string(word));
			json_object_set_new(o, "age_ms",
				age.age_ns == UINT64_MAX
					? json_null()
					: json_integer((json_int_t)(age.age_ns / 1000000)));
			json_array_append_new(array, o);
		} else {
			printf("%-7s %s\n", word, ctl->argv[i]);
		}
	}
	if (ctl->json && e >= 0)
		print_json(array, false);
	else
		json_decref(array);
	strait_exist_close(x);
	free(list);
	free(answers);
	return rc;
}

int cmd_exist(struct ctl *ctl)
{
	const char *socket = ctl_option(ctl, "socket");
	struct keys keys = { 0 };
	int rc;

	if (socket != NULL && ctl_option(ctl, "pool") != NULL)
		return ctl_fail(CTL_USAGE,
			"--socket asks a site and --pool a file: give one of them");
	if (socket != NULL) {
		rc = take_keys(ctl, -1, &keys);
		if (rc == CTL_OK)
			rc = ask_site(ctl, socket, &keys);
		keys_free(&keys);
		return rc;
	}
	return with_pool(ctl, -1, run_exist);
}

static int run_remove(struct ctl *ctl, struct strait_pool *pool, struct keys *keys)
{
	size_t removed = 0;
	int rc = CTL_OK;

	for (size_t i = 0; i < keys->count; i++) {
		int e = strait_remove(pool, keys->list[i].data, keys->list[i].len);

		if (e == 0)
			removed++;
		else
			rc = ctl_fail(CTL_FAILED, "%s: %s", ctl->argv[i],
				e == -ENOENT ? "no such object" : strait_strerror(e));
	}
	if (ctl->json)
		print_json(json_pack("{s:I}", "removed", (json_int_t)removed), false);
	return rc;
}

int cmd_remove(struct ctl *ctl)
{
	return with_pool(ctl, -1, run_remove);
}

/*
 * ---- pools
 * ------------------------------------------------------------------------------------------
 */

#define FIGURE(name)                                                                               \
	{                                                                                          \
#name, offsetof(struct strait_pool_stats, name)                                    \
	}

static const struct {
	const char *name;
	size_t offset;
} figures[] = {
	FIGURE(file_bytes),
	FIGURE(arena_bytes),
	FIGURE(used_bytes),
	FIGURE(largest_free_bytes),
	FIGURE(max_objects),
	FIGURE(objects),
	FIGURE(writing),
	FIGURE(partials),
	FIGURE(doomed),
	FIGURE(leased),
	FIGURE(clients),
	FIGURE(boots),
	FIGURE(puts),
	FIGURE(gets),
	FIGURE(hits),
	FIGURE(misses),
	FIGURE(evictions),
	FIGURE(evicted_bytes),
	FIGURE(evicted_partials),
	FIGURE(removes),
	FIGURE(partials_kept),
	FIGURE(partials_adopted),
	FIGURE(reclaimed_clients),
	FIGURE(reclaimed_leases),
	FIGURE(reclaimed_writes),
	FIGURE(recoveries),
};

static int print_pool(struct ctl *ctl, struct strait_pool *pool)
{
	json_t *o = ctl->json ? json_object() : NULL;
	struct strait_pool_stats s;
	int rc = strait_pool_stats(pool, &s);

	if (rc != 0) {
		json_decref(o);
		return ctl_fail(CTL_FAILED, "pool: %s", strait_strerror(rc));
	}
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		uint64_t value;

		memcpy(&value, (const char *)&s + figures[i].offset, sizeof(value));
		if (ctl->json)
			json_object_set_new(o, figures[i].name, json_integer((json_int_t)value));
		else
			printf("%-20s %" PRIu64 "\n", figures[i].name, value);
	}
	return ctl->json ? print_json(o, false) : CTL_OK;
}

int cmd_pool_create(struct ctl *ctl)
{
	const char *text = ctl_option(ctl, "size"), *path = ctl_option(ctl, "pool");
	unsigned int flags = STRAIT_POOL_CREATE;
	struct strait_pool *pool;
	uint64_t size;
	char err[160];
	int rc;

	if (text == NULL)
		return ctl_fail(CTL_USAGE, "--size SIZE is needed, like 1G");
	if (units_parse_bytes(text, &size, err, sizeof(err)) != 0)
		return ctl_fail(CTL_USAGE, "--size: %s", err);
	if (ctl_option(ctl, "group") != NULL)
		flags |= STRAIT_POOL_GROUP;
	if (ctl_option(ctl, "sparse") != NULL)
		flags |= STRAIT_POOL_SPARSE;
	/* open would quietly give the one that is there, of whatever size */
	pool = path != NULL ? strait_pool_open(path, 0, 0) : NULL;
	if (pool != NULL) {
		strait_pool_close(pool);
		return ctl_fail(CTL_FAILED, "%s is a pool already", path);
	}
	pool = open_pool(ctl, flags, size, &rc);
	if (pool == NULL)
		return rc;
	rc = ctl->json ? print_pool(ctl, pool) : CTL_OK;
	strait_pool_close(pool);
	return rc;
}

int cmd_pool_show(struct ctl *ctl)
{
	struct strait_pool *pool;
	int rc;

	pool = open_pool(ctl, 0, 0, &rc);
	if (pool == NULL)
		return rc;
	rc = print_pool(ctl, pool);
	strait_pool_close(pool);
	return rc;
}
