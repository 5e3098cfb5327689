/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/replay/blockkey.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * What the generator made, one object a line, written before the object is put:
 *
 *   <SHA-256 in hex> <length> <key>
 *
 * Lines reach the file at once, so a manifest also tells what a killed generator may have put.
 * Keys hold no blanks or control characters. One thread.
 */

struct replay_manifest_entry {
	uint8_t hash[REPLAY_HASH_BYTES];
	uint64_t len;
	const char *key; /* valid until the next one is read */
	size_t key_len;
};

/** "-" is stdout. NULL + errno. */
FILE *replay_manifest_create(const char *path);
/** 0 or -errno. */
int replay_manifest_add(FILE *f, const struct replay_manifest_entry *e);

struct replay_manifest_reader {
	const char *path;
	FILE *file;
	char *text;
	size_t text_size;
	uint64_t line;
};

/** 0 or -errno. */
int replay_manifest_open(struct replay_manifest_reader *r, const char *path);
void replay_manifest_close(struct replay_manifest_reader *r);
/** 1: an entry; 0: the end; -EINVAL or -EIO, with file and line in err. */
int replay_manifest_next(struct replay_manifest_reader *r, struct replay_manifest_entry *e,
	char *err, size_t err_len);
