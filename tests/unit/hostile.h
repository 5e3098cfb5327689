/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A peer that has the session's keys and says what it likes, beside the honest traffic of a world:
 * its packets are sealed by the session they pretend to come from and handed to the other one. What
 * is counted here: memory the program asked for, which a session may never do by itself.
 * The first include of a test program.
 */

#include "tests/unit/scenario.h"

/* Both have a COUNT; neither is needed here. */
#undef COUNT
#include "dataplane/transport/session_pvt.h"
#undef COUNT

#include <malloc.h>

/* Allocations of the whole program. The sanitizer's allocator is its own. */
static uint64_t allocations, allocated_bytes __attribute__((unused));
#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n)
{
	allocations++;
	allocated_bytes += n;
	return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
	allocations++;
	allocated_bytes += n * size;
	return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
	allocations++;
	allocated_bytes += n;
	return __libc_realloc(p, n);
}
#endif

/* One packet of `from` with this payload, now, past the link. What the other side says of it. */
static inline int hostile_packet(struct world *w, enum world_side from, struct packet_header h,
	const uint8_t *body, size_t len)
{
	static uint8_t packet[STRAIT_SYMBOL_BYTES_MAX + STRAIT_OVERHEAD_BYTES];
	struct session *s = w->session[from];
	struct sent_packet *sent;
	uint64_t before;
	size_t n;
	int rc;

	sentlog_make_room(&s->tx.log, feedback_lost, s);
	sent = sentlog_add(&s->tx.log, s->next_pn, false);
	memset(sent, 0, sizeof(*sent));
	sent->time_ns = w->now_ns;
	sent->kind = SENT_CONTROL;
	n = session_seal(s, &h, packet, body, len);
	before = allocations;
	rc = session_recv(w->session[!from], w->now_ns, packet, n);
	assert_int_equal(allocations, before);
	w->wake_ns[!from] = w->now_ns;
	return rc;
}

/* A control packet under construction. */
struct lie {
	struct frame_writer f;
	uint8_t body[STRAIT_SYMBOL_BYTES_MAX];
};

static inline struct frame_writer *lie_begin(struct lie *l)
{
	frame_writer_init(&l->f, l->body, SYMBOL);
	return &l->f;
}

static inline int lie_tell(struct world *w, enum world_side from, struct lie *l)
{
	static const struct packet_header h = { .type = STRAIT_PACKET_CONTROL };

	return hostile_packet(w, from, h, l->body, l->f.len);
}

/* The tests say one thing many times while the world runs on. */
static inline void lie_often(struct world *w, unsigned int times, uint64_t every_ns,
	void (*say)(struct world *w, unsigned int i))
{
	for (unsigned int i = 0; i < times && !w->error[0]; i++) {
		say(w, i);
		world_run_for(w, every_ns);
	}
	assert_string_equal(w->error, "");
}

static inline uint64_t highest_sent(const struct world *w, enum world_side side)
{
	return w->session[side]->next_pn - 1;
}

/* Transfer of the world's first order, NULL when the source is done with it. */
static inline const struct tx_transfer *first_transfer(const struct world *w)
{
	return w->transfers[0].tx && !w->transfers[0].closed ? w->transfers[0].tx : NULL;
}

/* REPORT that all of [low, high] came, the newest at newest_us. */
static inline int report_all(struct frame_writer *f, uint64_t low, uint64_t high,
	uint64_t newest_us)
{
	struct frame_report r = { .newest = high, .newest_us = newest_us, .base = high };
	int rc = frame_report_begin(f, &r);

	if (rc == 0)
		rc = frame_report_range(f, high - low + 1, 0);
	if (rc == 0)
		frame_list_end(f);
	return rc;
}

/* Afterwards the session does what it is for: another order, to the end, bytes compared. */
static inline void is_usable(struct world *w)
{
	order(w, 4, 300 * KIB);
	finish_open(w, 20 * S);
	world_destroy(w);
}
