/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/capture.h"

#include "dataplane/edge/capture_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

enum { FRAME = 1514 };

static char dir[64];
static struct capture_ring *ring;   /* what the worker would copy into; NULL: nothing */
static struct capture_ring *second; /* ... and the second one, of two */
static struct capture *capture;

static void attach(void *ctx, uint32_t worker, struct capture_ring *r)
{
	(void)ctx;
	*(worker == 0 ? &ring : &second) = r;
}

static int set_up(void **state)
{
	struct capture_config cfg = { .dir = dir,
		.edge = "a1",
		.interface = "net_null0",
		.application = "test",
		.frame_bytes = FRAME,
		.attach = attach };

	(void)state;
	strcpy(dir, "/tmp/capture_test.XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	ring = NULL;
	capture = capture_create(&cfg);
	return capture != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	capture_destroy(capture);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static int start(const char *name, uint64_t bytes, uint32_t seconds, uint32_t snap)
{
	struct capture_request r = { .name = name,
		.bytes = bytes,
		.seconds = seconds,
		.snap_bytes = snap };
	char err[256] = "";
	int ret = capture_start(capture, 5 * SECOND_NS, 1000 * SECOND_NS, &r, err, sizeof(err));

	assert_true((ret < 0) == (err[0] != '\0'));
	return ret;
}

static size_t read_file(const char *name, uint8_t *out, size_t max)
{
	char path[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	n = read(fd, out, max);
	close(fd);
	assert_true(n >= 0);
	return (size_t)n;
}

static uint32_t word(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void frames_are_in_the_file_with_time_direction_and_length(void **state)
{
	static uint8_t file[65536], frame[FRAME];
	size_t n, at = 0;
	uint32_t packets = 0;

	(void)state;
	memset(frame, 0xa5, sizeof(frame));
	assert_int_equal(start("x.pcapng", 0, 0, 0), 0);
	capture_ring_put(ring, 6 * SECOND_NS + 7, CAPTURE_RX, frame, 61);
	capture_ring_put(ring, 8 * SECOND_NS, CAPTURE_TX, frame, FRAME);
	assert_true(capture_tick(capture, 8 * SECOND_NS));
	assert_int_equal(capture_stop(capture, 9 * SECOND_NS), 0);
	assert_null(ring);
	n = read_file("x.pcapng", file, sizeof(file));
	assert_int_equal(word(file), 0x0a0d0d0a);
	assert_int_equal(word(file + 8), 0x1a2b3c4d);
	for (at = 0; at < n; at += word(file + at + 4)) {
		const uint8_t *b = file + at;
		uint32_t len = word(b + 4);
		uint64_t ns = (uint64_t)word(b + 12) << 32 | word(b + 16);

		assert_true(len >= 12 && len % 4 == 0 && at + len <= n);
		assert_int_equal(word(b + len - 4), len);
		if (word(b) != 6)
			continue;
		assert_int_equal(word(b + 20), packets == 0 ? 61 : FRAME);
		assert_int_equal(word(b + 24), packets == 0 ? 61 : FRAME);
		/* monotonic 5 s was Unix 1000 s */
		assert_true(ns == (packets == 0 ? 1001 * SECOND_NS + 7 : 1003 * SECOND_NS));
		assert_memory_equal(b + 28, frame, word(b + 20));
		assert_int_equal(word(b + len - 12), packets == 0 ? 1 : 2); /* epb_flags */
		packets++;
	}
	assert_int_equal(at, n);
	assert_int_equal(packets, 2);
}

static void a_tick_later_the_file_has_them_whatever_becomes_of_the_edge(void **state)
{
	static uint8_t file[4096], frame[60];
	size_t n, before;

	(void)state;
	assert_int_equal(start("crash", 0, 0, 0), 0);
	before = read_file("crash", file, sizeof(file));
	assert_int_equal(word(file), 0x0a0d0d0a);
	capture_ring_put(ring, 6 * SECOND_NS, CAPTURE_RX, frame, sizeof(frame));
	assert_true(capture_tick(capture, 6 * SECOND_NS));
	n = read_file("crash", file, sizeof(file));
	assert_int_equal(word(file + before), 6);
	assert_int_equal(n, before + word(file + before + 4));
}

static void a_full_ring_loses_frames_and_counts_them(void **state)
{
	uint8_t frame[FRAME] = { 0 };
	struct capture_status s;
	uint32_t slots;

	(void)state;
	assert_int_equal(start("x", 0, 0, 0), 0);
	slots = ring->mask + 1;
	for (uint32_t i = 0; i < slots + 5; i++)
		capture_ring_put(ring, i, CAPTURE_RX, frame, 60);
	capture_get_status(capture, 6 * SECOND_NS, &s);
	assert_int_equal(s.missed, 5);
	assert_int_equal(capture_stop(capture, 6 * SECOND_NS), 0);
	capture_get_status(capture, 7 * SECOND_NS, &s);
	assert_int_equal(s.packets, slots);
	assert_int_equal(s.missed, 5);
	assert_true(s.elapsed_ns == SECOND_NS);
	assert_string_equal(s.ended, "stopped");
	/* The next one begins from nothing. */
	assert_int_equal(start("y", 0, 0, 0), 0);
	capture_get_status(capture, 6 * SECOND_NS, &s);
	assert_int_equal(s.missed, 0);
	assert_int_equal(s.packets, 0);
}

static void long_frames_are_cut_to_the_snap_length(void **state)
{
	static uint8_t file[65536], frame[FRAME];

	(void)state;
	assert_int_equal(start("x", 0, 0, 70), 0);
	capture_ring_put(ring, 1, CAPTURE_RX, frame, FRAME);
	assert_int_equal(capture_stop(capture, 6 * SECOND_NS), 0);
	for (size_t at = 0, n = read_file("x", file, sizeof(file)); at < n;
		at += word(file + at + 4)) {
		if (word(file + at) != 6)
			continue;
		assert_int_equal(word(file + at + 20), 70);
		assert_int_equal(word(file + at + 24), FRAME);
	}
	assert_int_equal(start("y", 0, 0, CAPTURE_SNAP_MIN - 1), -EINVAL);
}

static void size_and_time_end_a_capture(void **state)
{
	uint8_t frame[FRAME] = { 0 };
	struct capture_status s;

	(void)state;
	assert_int_equal(start("size", 4000, 0, 0), 0);
	for (int i = 0; i < 10; i++)
		capture_ring_put(ring, 1, CAPTURE_RX, frame, FRAME);
	assert_false(capture_tick(capture, 6 * SECOND_NS));
	capture_get_status(capture, 6 * SECOND_NS, &s);
	assert_false(s.running);
	assert_in_range(s.bytes, 4000, 4000 + FRAME + 200);
	assert_non_null(strstr(s.ended, "size"));
	assert_null(ring);

	assert_int_equal(start("time", 0, 2, 0), 0);
	assert_true(capture_tick(capture, 7 * SECOND_NS - 1));
	assert_false(capture_tick(capture, 7 * SECOND_NS));
	capture_get_status(capture, 8 * SECOND_NS, &s);
	assert_non_null(strstr(s.ended, "time"));
	assert_int_equal(capture_stop(capture, 8 * SECOND_NS), -ENOENT);
}

static void files_are_private_new_and_in_the_directory(void **state)
{
	static const char *const bad[] = { "", ".hidden", "..", "a/b", "/etc/passwd", "a b",
		"a\nb" };
	char path[256];
	struct stat st;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(start(bad[i], 0, 0, 0), -EINVAL);
	assert_int_equal(start("once", 0, 0, 0), 0);
	snprintf(path, sizeof(path), "%s/once", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(start("twice", 0, 0, 0), -EALREADY);
	assert_int_equal(capture_stop(capture, 6 * SECOND_NS), 0);
	assert_int_equal(start("once", 0, 0, 0), -EEXIST);
	snprintf(path, sizeof(path), "%s/link", dir);
	assert_int_equal(symlink("/tmp/elsewhere", path), 0);
	assert_int_equal(start("link", 0, 0, 0), -EEXIST);
	assert_int_equal(start(NULL, 0, 0, 0), 0);
	snprintf(path, sizeof(path), "%s/strait-a1-19700101-001640.pcapng", dir);
	assert_int_equal(stat(path, &st), 0);
}

static void a_directory_must_be_configured(void **state)
{
	struct capture_config cfg = { .edge = "a1", .frame_bytes = FRAME, .attach = attach };
	struct capture_request r = { 0 };
	struct capture *c = capture_create(&cfg);
	char err[256];

	(void)state;
	assert_non_null(c);
	assert_int_equal(capture_start(c, 0, 0, &r, err, sizeof(err)), -EPERM);
	capture_destroy(c);
}

static void what_the_worker_wrote_late_is_not_in_the_next_file(void **state)
{
	uint8_t frame[FRAME] = { 0 };
	struct capture_ring *late;
	struct capture_status s;

	(void)state;
	assert_int_equal(start("one", 0, 0, 0), 0);
	late = ring;
	assert_int_equal(capture_stop(capture, 6 * SECOND_NS), 0);
	capture_ring_put(late, 1, CAPTURE_RX, frame, 60);
	assert_int_equal(start("two", 0, 0, 0), 0);
	assert_true(capture_tick(capture, 6 * SECOND_NS));
	capture_get_status(capture, 6 * SECOND_NS, &s);
	assert_int_equal(s.packets, 0);
}

static void frames_of_several_workers_are_in_the_order_of_their_times(void **state)
{
	struct capture_config cfg = { .dir = dir,
		.edge = "a1",
		.interface = "net_null0",
		.application = "test",
		.frame_bytes = FRAME,
		.workers = 2,
		.attach = attach };
	static uint8_t file[65536], frame[FRAME];
	uint32_t packets = 0, last = 0;
	size_t n;

	(void)state;
	capture_destroy(capture);
	capture = capture_create(&cfg);
	assert_int_equal(start("two.pcapng", 0, 0, 0), 0);
	assert_ptr_not_equal(ring, second);
	for (uint32_t i = 0; i < 20; i++)
		capture_ring_put(i % 3 == 0 ? second : ring, 6 * SECOND_NS + i, CAPTURE_RX, frame,
			100 + i);
	assert_int_equal(capture_stop(capture, 9 * SECOND_NS), 0);
	assert_null(ring);
	assert_null(second);
	n = read_file("two.pcapng", file, sizeof(file));
	for (size_t at = 0; at < n; at += word(file + at + 4)) {
		if (word(file + at) != 6) /* enhanced packet block */
			continue;
		assert_true(word(file + at + 24) > last);
		last = word(file + at + 24); /* length on the wire */
		packets++;
	}
	assert_int_equal(packets, 20);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(frames_are_in_the_file_with_time_direction_and_length),
		TEST(frames_of_several_workers_are_in_the_order_of_their_times),
		TEST(a_tick_later_the_file_has_them_whatever_becomes_of_the_edge),
		TEST(a_full_ring_loses_frames_and_counts_them),
		TEST(long_frames_are_cut_to_the_snap_length),
		TEST(size_and_time_end_a_capture),
		TEST(files_are_private_new_and_in_the_directory),
		TEST(a_directory_must_be_configured),
		TEST(what_the_worker_wrote_late_is_not_in_the_next_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
