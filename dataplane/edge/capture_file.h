/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/capture_ring.h"

#include <stddef.h>

/*
 * A pcapng file (draft-ietf-opsawg-pcapng) with one Ethernet interface and times in ns. DPDK has a
 * library for this, but in 22.11 it is experimental, wants an mbuf a packet and makes up the times.
 *
 * Control thread; writes block on the disk, so the directory should be on a fast one.
 */

struct capture_file;

struct capture_file_config {
	const char *dir, *name;  /* name: see capture_file_name_check() */
	const char *interface;   /* what to call it in the file */
	const char *application; /* "strait-edge 0.1.0" */
	uint32_t snap;
	uint64_t unix_ns; /* Unix time when CLOCK_MONOTONIC was 0 */
};

/** 0, or -EINVAL with the reason: 1 to 100 of [A-Za-z0-9._-], no dot in front. */
int capture_file_name_check(const char *name, char *err, size_t err_len);

/** A new file, mode 0600; never one that is there (EEXIST). NULL + errno, and no file is left. */
struct capture_file *capture_file_create(const struct capture_file_config *cfg);
/** 0 or -errno of the write that failed; buffered, so it may be an earlier one. */
int capture_file_write(struct capture_file *f, const struct capture_record *r);
/** Hand what is buffered to the kernel: what a killed edge leaves ends here. 0 or -errno. */
int capture_file_flush(struct capture_file *f);
/** Bytes so far; after a write that failed, those the file keeps. */
uint64_t capture_file_bytes(const struct capture_file *f);
/**
 * Ends the file with its statistics, frees. 0 or -errno of a write that failed: then it ends with
 * the last whole block of the last flush.
 */
int capture_file_close(struct capture_file *f, uint64_t now_ns, uint64_t received, uint64_t missed);
