/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the pool's tests share: a seeded generator, a private directory on tmpfs, objects whose
 * bytes follow from a number.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct testing_dir {
	char path[64];
	char file[96];
};

static inline bool testing_dir_create(struct testing_dir *dir)
{
	snprintf(dir->path, sizeof(dir->path), "/dev/shm/strait-test-XXXXXX");
	if (mkdtemp(dir->path) == NULL) {
		snprintf(dir->path, sizeof(dir->path), "/tmp/strait-test-XXXXXX");
		if (mkdtemp(dir->path) == NULL)
			return false;
	}
	snprintf(dir->file, sizeof(dir->file), "%s/pool", dir->path);
	return true;
}

static inline void testing_dir_remove(const struct testing_dir *dir)
{
	unlink(dir->file);
	rmdir(dir->path);
}

/* splitmix64 */
static inline uint64_t testing_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Uniform in [0, below). */
static inline uint64_t testing_below(uint64_t *state, uint64_t below)
{
	return testing_random(state) % below;
}

/* Bytes [from, to) of object number id. */
static inline void testing_fill(void *data, uint64_t id, size_t from, size_t to)
{
	uint8_t *p = data;

	for (size_t at = from; at < to;) {
		uint64_t state = id << 32 ^ at / 8;
		uint64_t word = testing_random(&state);
		size_t in = at % 8, n = 8 - in < to - at ? 8 - in : to - at;

		memcpy(p + at, (uint8_t *)&word + in, n);
		at += n;
	}
}

static inline bool testing_is_object(const void *data, uint64_t id, size_t from, size_t to)
{
	const uint8_t *p = data;

	for (size_t at = from; at < to;) {
		uint64_t state = id << 32 ^ at / 8;
		uint64_t word = testing_random(&state);
		size_t in = at % 8, n = 8 - in < to - at ? 8 - in : to - at;

		if (memcmp(p + at, (uint8_t *)&word + in, n) != 0)
			return false;
		at += n;
	}
	return true;
}
