/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/capture_ring.h"

#include <stddef.h>

/*
 * Capture: what the edge's port receives and sends, as a pcapng file, on demand.
 *
 * Each worker copies frames into a bounded ring of its own while a capture runs and looks at one
 * pointer while
 * none does. The control thread moves them from there into the file, at most
 * CAPTURE_RECORDS_A_TURN a tick, and ends the capture when its size or its time is up or the disk
 * is full. What the ring has no room for is lost to the file, never to the transfer, and counted.
 *
 * Packets are as they are on the wire: sealed. There is no way to have them opened here; that takes
 * the key log (keylog.h).
 *
 * Files go into one configured directory, mode 0600, and none is ever overwritten.
 *
 * Control thread only.
 */

enum {
	CAPTURE_WORKERS_MAX = 16,
	CAPTURE_RING_BYTES = 8 << 20, /* each */
	CAPTURE_RECORDS_A_TURN = 2048,
	CAPTURE_TICK_MS = 10,
	CAPTURE_NAME_MAX = 128,
	CAPTURE_TEXT_MAX = 160,
};

#define CAPTURE_BYTES_DEFAULT   (64ull << 20)
#define CAPTURE_BYTES_MAX       (16ull << 30)
#define CAPTURE_SECONDS_DEFAULT 60u
#define CAPTURE_SECONDS_MAX     86400u

struct capture;

struct capture_config {
	const char *dir;       /* NULL: captures are refused */
	const char *edge;      /* for names of files */
	const char *interface; /* for the file */
	const char *application;
	uint32_t frame_bytes; /* the longest */
	uint32_t workers;     /* at most CAPTURE_WORKERS_MAX; 0: 1 */
	/* Turn a worker's copying on (a ring) or off (NULL). */
	void (*attach)(void *ctx, uint32_t worker, struct capture_ring *ring);
	void *ctx;
};

struct capture_request {
	const char *name;    /* NULL: one is made from edge and time */
	uint64_t bytes;      /* 0: CAPTURE_BYTES_DEFAULT */
	uint32_t seconds;    /* 0: CAPTURE_SECONDS_DEFAULT */
	uint32_t snap_bytes; /* of each frame; 0: all of it */
};

struct capture_status {
	bool running;
	char file[CAPTURE_NAME_MAX];  /* "" before the first */
	char ended[CAPTURE_TEXT_MAX]; /* why the last one did; "" while it runs */
	uint64_t packets, bytes, missed;
	uint64_t elapsed_ns;
};

/** NULL + errno. */
struct capture *capture_create(const struct capture_config *cfg);
/** Ends what runs. After the worker stopped: the ring goes with it. */
void capture_destroy(struct capture *c);

/**
 * 0, or -errno with the reason in err: -EALREADY (one runs), -EPERM (no directory configured),
 * -EINVAL, -EEXIST (the file is there), what open says.
 */
int capture_start(struct capture *c, uint64_t now_ns, uint64_t unix_ns,
	const struct capture_request *r, char *err, size_t err_len);
/** 0, -ENOENT (none runs), or -errno of a write that failed. */
int capture_stop(struct capture *c, uint64_t now_ns);
/** Moves records into the file. Every CAPTURE_TICK_MS while one runs. true: it still runs. */
bool capture_tick(struct capture *c, uint64_t now_ns);
void capture_get_status(const struct capture *c, uint64_t now_ns, struct capture_status *out);
