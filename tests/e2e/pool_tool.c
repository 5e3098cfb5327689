/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the end-to-end tests do to a pool besides putting and reading: be a client that is killed
 * in the middle of something, remove objects, show figures.
 *
 *   pool_tool hold-put POOL KEY LEN   begin a put, fill half, print "holding", wait for a signal
 *   pool_tool hold-get POOL KEY       lease the object, print "holding", wait for a signal
 *   pool_tool put POOL KEY LEN        one object of LEN bytes; prints the result
 *   pool_tool remove POOL             every key of stdin; prints how many there were
 *   pool_tool stats POOL              figures as JSON
 */
#include <strait/strait.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int report(const char *what, int ret)
{
	fprintf(stderr, "pool_tool: %s: %s\n", what, strait_strerror(ret));
	return EXIT_FAILURE;
}

static int hold(void)
{
	puts("holding");
	fflush(stdout);
	pause();
	return EXIT_SUCCESS;
}

static int hold_put(struct strait_pool *pool, const char *key, size_t len)
{
	struct strait_writer writer;
	int ret = strait_put_begin(pool, key, strlen(key), len, &writer);

	if (ret < 0)
		return report("put", ret);
	memset(writer.data, 0x5a, len / 2);
	return hold();
}

static int hold_get(struct strait_pool *pool, const char *key)
{
	struct strait_object object;
	int ret = strait_get(pool, key, strlen(key), 0, &object);

	return ret < 0 ? report("get", ret) : hold();
}

static int put(struct strait_pool *pool, const char *key, size_t len)
{
	uint8_t *data = malloc(len ? len : 1);
	int ret;

	if (data == NULL)
		return report("put", -ENOMEM);
	memset(data, 0x5a, len);
	ret = strait_put(pool, key, strlen(key), data, len);
	free(data);
	return ret < 0 ? report("put", ret) : EXIT_SUCCESS;
}

static int remove_keys(struct strait_pool *pool)
{
	char *line = NULL;
	size_t size = 0, removed = 0;
	ssize_t len;
	int ret;

	while ((len = getline(&line, &size, stdin)) > 0) {
		if (line[len - 1] == '\n')
			len--;
		ret = strait_remove(pool, line, (size_t)len);
		if (ret < 0 && ret != -ENOENT && ret != -EBUSY) {
			free(line);
			return report("remove", ret);
		}
		removed += ret == 0;
	}
	free(line);
	printf("%zu\n", removed);
	return EXIT_SUCCESS;
}

static int stats(struct strait_pool *pool)
{
	struct strait_pool_stats s;
	int ret = strait_pool_stats(pool, &s);

	if (ret < 0)
		return report("stats", ret);
	printf("{\"objects\": %" PRIu64 ", \"writing\": %" PRIu64 ", \"partials\": %" PRIu64
	       ", \"leased\": %" PRIu64 ", \"used_bytes\": %" PRIu64 ", \"evictions\": %" PRIu64
	       ", \"reclaimed_writes\": %" PRIu64 ", \"reclaimed_leases\": %" PRIu64 "}\n",
		s.objects, s.writing, s.partials, s.leased, s.used_bytes, s.evictions,
		s.reclaimed_writes, s.reclaimed_leases);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";
	struct strait_pool *pool;
	int status = 2;

	if (argc < 3) {
		fputs("usage: pool_tool VERB POOL [KEY [LEN]]\n", stderr);
		return status;
	}
	pool = strait_pool_open(argv[2], 0, 0);
	if (pool == NULL) {
		fprintf(stderr, "pool_tool: %s: %s\n", argv[2], strait_pool_open_error());
		return EXIT_FAILURE;
	}
	if (strcmp(verb, "hold-put") == 0 && argc == 5)
		status = hold_put(pool, argv[3], strtoull(argv[4], NULL, 10));
	else if (strcmp(verb, "hold-get") == 0 && argc == 4)
		status = hold_get(pool, argv[3]);
	else if (strcmp(verb, "put") == 0 && argc == 5)
		status = put(pool, argv[3], strtoull(argv[4], NULL, 10));
	else if (strcmp(verb, "remove") == 0)
		status = remove_keys(pool);
	else if (strcmp(verb, "stats") == 0)
		status = stats(pool);
	else
		fprintf(stderr, "pool_tool: %s: unknown, or arguments missing\n", verb);
	strait_pool_close(pool);
	return status;
}
