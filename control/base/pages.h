/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Zeroed memory for tables that are read at random: by mmap, in huge pages if there is enough for
 * half of one. A table of 4 KiB pages beyond what the TLB holds costs a page walk at each look,
 * which is as much as the cache miss itself, and more under a hypervisor. Nothing is resident until
 * touched.
 */

/** NULL + errno. */
void *pages_get(size_t bytes);
/** What pages_get() of as many bytes returned; NULL is ignored. */
void pages_put(void *p, size_t bytes);
