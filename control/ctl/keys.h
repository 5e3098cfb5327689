/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/ctl/ctl.h"

#include <stddef.h>
#include <stdint.h>

/* Keys from the command line and from files: any bytes, as text or as hexadecimal. */

struct keys {
	struct key {
		uint8_t *data;
		size_t len;
	} * list;
	size_t count, room;
};

enum { KEYS_MAX = 1 << 20, KEYS_FILE_MAX = 256 << 20 };

/** Add a copy; hex: text is hexadecimal. CTL_OK, or CTL_USAGE or CTL_FAILED after a message. */
int keys_add(struct keys *k, const char *text, size_t len, bool hex);
/** Keys of a file ("-" is standard input), each ended by separator; empty ones are left out. */
int keys_add_file(struct keys *k, const char *path, char separator, bool hex);
void keys_free(struct keys *k);
