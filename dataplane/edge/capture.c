/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/capture.h"

#include "dataplane/edge/capture_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS 1000000000ull

enum { RING_FRAMES_MIN = 64, CACHE_LINE = 64 };

struct capture {
	struct capture_config cfg;
	/* One a worker; they stay from the first capture on: the worker may be in it. */
	struct capture_ring *rings[CAPTURE_WORKERS_MAX];
	struct capture_file *file; /* NULL: none runs */
	char name[CAPTURE_NAME_MAX];
	char ended[CAPTURE_TEXT_MAX];
	uint64_t start_ns, end_ns; /* end: when it must; then when it did */
	uint64_t limit_bytes, bytes, packets, missed_before, missed;
};

struct capture_ring *capture_ring_create(uint32_t bytes, uint32_t snap)
{
	uint32_t slots = RING_FRAMES_MIN;
	struct capture_ring *r;

	if (posix_memalign((void **)&r, CACHE_LINE, sizeof(*r)) != 0) {
		errno = ENOMEM;
		return NULL;
	}
	memset(r, 0, sizeof(*r));
	r->slot_bytes = ((uint32_t)offsetof(struct capture_record, bytes) + snap + 7) & ~7u;
	while (slots * 2 * (uint64_t)r->slot_bytes <= bytes)
		slots *= 2;
	r->mask = slots - 1;
	r->slots = calloc(slots, r->slot_bytes);
	if (r->slots == NULL) {
		free(r);
		errno = ENOMEM;
		return NULL;
	}
	return r;
}

void capture_ring_destroy(struct capture_ring *r)
{
	if (r == NULL)
		return;
	free(r->slots);
	free(r);
}

struct capture *capture_create(const struct capture_config *cfg)
{
	struct capture *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->cfg = *cfg;
	if (c->cfg.workers == 0)
		c->cfg.workers = 1;
	return c;
}

void capture_destroy(struct capture *c)
{
	if (c == NULL)
		return;
	capture_stop(c, c->start_ns);
	for (int i = 0; i < CAPTURE_WORKERS_MAX; i++)
		capture_ring_destroy(c->rings[i]);
	free(c);
}

static uint64_t all_missed(const struct capture *c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < c->cfg.workers; i++)
		sum += atomic_load_explicit(&c->rings[i]->missed, memory_order_relaxed);
	return sum;
}

static uint64_t missed(const struct capture *c)
{
	return all_missed(c) - c->missed_before;
}

/* The ring with the oldest record; NULL: all are empty. */
static struct capture_ring *oldest(const struct capture *c)
{
	const struct capture_record *best = NULL, *r;
	struct capture_ring *of = NULL;

	for (uint32_t i = 0; i < c->cfg.workers; i++) {
		r = capture_ring_peek(c->rings[i]);
		if (r == NULL || (best != NULL && best->time_ns <= r->time_ns))
			continue;
		best = r;
		of = c->rings[i];
	}
	return of;
}

static void attach(struct capture *c, bool on)
{
	for (uint32_t i = 0; i < c->cfg.workers; i++)
		c->cfg.attach(c->cfg.ctx, i, on ? c->rings[i] : NULL);
}

static int create_rings(struct capture *c)
{
	for (uint32_t i = 0; i < c->cfg.workers; i++) {
		if (c->rings[i] == NULL)
			c->rings[i] = capture_ring_create(CAPTURE_RING_BYTES, c->cfg.frame_bytes);
		if (c->rings[i] == NULL)
			return -ENOMEM;
	}
	return 0;
}

/* "strait-a1-20260820-101112.pcapng" */
static void make_name(struct capture *c, uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / SECOND_NS);
	char when[32];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
	snprintf(c->name, sizeof(c->name), "strait-%.64s-%s.pcapng", c->cfg.edge, when);
}

/* 0 or -EINVAL with the reason. */
static int check(const struct capture_request *r, char *err, size_t err_len)
{
	if (r->bytes > CAPTURE_BYTES_MAX)
		snprintf(err, err_len, "a capture is at most %llu GiB", CAPTURE_BYTES_MAX >> 30);
	else if (r->seconds > CAPTURE_SECONDS_MAX)
		snprintf(err, err_len, "a capture takes at most a day");
	else if (r->snap_bytes != 0 && r->snap_bytes < CAPTURE_SNAP_MIN)
		snprintf(err, err_len, "keep at least %d bytes of a frame", CAPTURE_SNAP_MIN);
	else
		return r->name != NULL ? capture_file_name_check(r->name, err, err_len) : 0;
	return -EINVAL;
}

int capture_start(struct capture *c, uint64_t now_ns, uint64_t unix_ns,
	const struct capture_request *r, char *err, size_t err_len)
{
	struct capture_file_config fc = { .dir = c->cfg.dir,
		.name = c->name,
		.interface = c->cfg.interface,
		.application = c->cfg.application,
		.snap = c->cfg.frame_bytes,
		.unix_ns = unix_ns - now_ns };
	int ret;

	if (c->file != NULL) {
		snprintf(err, err_len, "a capture runs already, into %s", c->name);
		return -EALREADY;
	}
	if (c->cfg.dir == NULL) {
		snprintf(err, err_len, "this edge has no debug.capture_dir to write into");
		return -EPERM;
	}
	ret = check(r, err, err_len);
	if (ret < 0)
		return ret;
	if (create_rings(c) < 0) {
		snprintf(err, err_len, "out of memory");
		return -ENOMEM;
	}
	if (r->name != NULL)
		snprintf(c->name, sizeof(c->name), "%s", r->name);
	else
		make_name(c, unix_ns);
	if (r->snap_bytes != 0 && r->snap_bytes < fc.snap)
		fc.snap = r->snap_bytes;
	c->file = capture_file_create(&fc);
	if (c->file == NULL) {
		ret = -errno;
		snprintf(err, err_len, "%.100s in the capture directory: %s", c->name,
			strerror(errno));
		c->name[0] = '\0';
		return ret;
	}
	/* What the worker was still writing when the last capture ended. */
	for (uint32_t i = 0; i < c->cfg.workers; i++)
		while (capture_ring_peek(c->rings[i]) != NULL)
			capture_ring_pop(c->rings[i]);
	c->missed_before = all_missed(c);
	c->missed = c->packets = 0;
	c->limit_bytes = r->bytes != 0 ? r->bytes : CAPTURE_BYTES_DEFAULT;
	c->start_ns = now_ns;
	c->end_ns = now_ns + (r->seconds != 0 ? r->seconds : CAPTURE_SECONDS_DEFAULT) * SECOND_NS;
	c->ended[0] = '\0';
	attach(c, true);
	return 0;
}

/* At most n records into the file. 0 or -errno; -EFBIG: the limit is reached. */
static int drain(struct capture *c, unsigned int n)
{
	struct capture_ring *r;
	int ret = 0;

	while (n-- > 0 && ret == 0 && (r = oldest(c)) != NULL) {
		ret = capture_file_write(c->file, capture_ring_peek(r));
		c->packets++;
		capture_ring_pop(r);
		if (ret == 0 && capture_file_bytes(c->file) >= c->limit_bytes)
			ret = -EFBIG;
	}
	return ret;
}

static int end(struct capture *c, uint64_t now_ns, const char *why)
{
	int ret;

	attach(c, false);
	c->missed = missed(c);
	c->bytes = capture_file_bytes(c->file);
	ret = capture_file_close(c->file, now_ns, c->packets + c->missed, c->missed);
	c->file = NULL;
	c->end_ns = now_ns;
	snprintf(c->ended, sizeof(c->ended), "%s%s%s", why, ret < 0 ? "; " : "",
		ret < 0 ? strerror(-ret) : "");
	return ret;
}

int capture_stop(struct capture *c, uint64_t now_ns)
{
	int ret, closed;

	if (c->file == NULL)
		return -ENOENT;
	/* First: or a fast sender would fill the ring while we read it. */
	attach(c, false);
	ret = drain(c, UINT32_MAX);
	closed = end(c, now_ns, "stopped");
	return ret < 0 && ret != -EFBIG ? ret : closed;
}

bool capture_tick(struct capture *c, uint64_t now_ns)
{
	int ret;

	if (c->file == NULL)
		return false;
	ret = drain(c, CAPTURE_RECORDS_A_TURN);
	/* A crash is what captures are made for: the file has all but the last tick of it. */
	if (ret == 0)
		ret = capture_file_flush(c->file);
	if (ret == -EFBIG)
		end(c, now_ns, "its size limit was reached");
	else if (ret < 0)
		end(c, now_ns, "the file cannot be written");
	else if (now_ns >= c->end_ns)
		end(c, now_ns, "its time was up");
	return c->file != NULL;
}

void capture_get_status(const struct capture *c, uint64_t now_ns, struct capture_status *out)
{
	memset(out, 0, sizeof(*out));
	out->running = c->file != NULL;
	snprintf(out->file, sizeof(out->file), "%s", c->name);
	snprintf(out->ended, sizeof(out->ended), "%s", c->ended);
	out->packets = c->packets;
	out->bytes = c->file != NULL ? capture_file_bytes(c->file) : c->bytes;
	out->missed = c->file != NULL ? missed(c) : c->missed;
	out->elapsed_ns = (c->file != NULL ? now_ns : c->end_ns) - c->start_ns;
}
