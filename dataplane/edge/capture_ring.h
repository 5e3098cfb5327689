/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Copies of frames on their way from a worker to whoever writes them to a file: a ring of slots of
 * one size, one producer (the worker), one consumer (the control thread).
 *
 * The producer never waits: what finds no free slot is counted in `missed` and forgotten. A frame
 * longer than a slot is cut, its real length kept. Slots are used up before they are used again, so
 * the consumer reads in place and hands back.
 */

enum capture_way {
	CAPTURE_RX = 1, /* numbers of pcapng's epb_flags */
	CAPTURE_TX = 2,
};

struct capture_record {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t len;     /* of the frame */
	uint16_t kept;    /* of it in bytes[] */
	uint8_t way;      /* enum capture_way */
	uint8_t reserved;
	uint8_t bytes[];
};

struct capture_ring {
	uint32_t mask;       /* slots - 1 */
	uint32_t slot_bytes; /* a multiple of 8 */
	uint8_t *slots;
	_Alignas(64) _Atomic uint32_t head; /* producer: next to fill */
	_Atomic uint64_t missed;            /* producer */
	_Alignas(64) _Atomic uint32_t tail; /* consumer: next to read */
};

enum { CAPTURE_SNAP_MIN = 64 };

/**
 * Room for about `bytes`, at least 64 frames of at most `snap` bytes. NULL + errno. Control thread.
 */
struct capture_ring *capture_ring_create(uint32_t bytes, uint32_t snap);
void capture_ring_destroy(struct capture_ring *r);

/** A frame passed. Producer. */
void capture_ring_put(struct capture_ring *r, uint64_t now_ns, enum capture_way way,
	const uint8_t *frame, uint32_t len);

/** The oldest record, in place until capture_ring_pop(); NULL: none. Consumer. */
const struct capture_record *capture_ring_peek(struct capture_ring *r);
void capture_ring_pop(struct capture_ring *r);
