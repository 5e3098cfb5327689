/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Existence over a local socket: SOCK_SEQPACKET, one message a datagram, little-endian. Fixed
 * structures, so that 64 keys cost one microsecond of work beside the two system calls.
 *
 *   server   struct exist_hello, once
 *   client   struct exist_request, n digests of 16 bytes
 *   server   struct exist_reply, 2 bits an answer: STRAIT_EXIST_NO, _YES, _UNKNOWN, first in the
 *            low bits; with EXIST_PREFIX no answers but first_miss
 *
 *   client   the same request with EXIST_MAP and no digests
 *   server   struct exist_map, and with it (SCM_RIGHTS) a descriptor that is read-only: the memory
 *            that the answers come from, for index_view_open(). None: ask over the socket
 *   client   a request with EXIST_MISSED: these were asked for in that memory and are not there.
 *            No answer comes. Hints for the planner, of a flood only some
 *
 * A server of before EXIST_MAP closes the connection at it.
 *
 * Digests are keyed by the tenant's secret, which the server tells the tenant's own processes (it
 * knows them by their credentials): so nobody can ask about another tenant's keys, or about any
 * tenant's without being one. A request that breaks the form is answered by closing.
 */

enum {
	EXIST_VERSION = 1,
	EXIST_KEYS_MAX = 4096, /* of a request */
	EXIST_DIGEST_BYTES = 16,
	EXIST_PREFIX = 1, /* request flag: stop at the first that is not YES */
	EXIST_MAP = 2,    /* request flags for themselves */
	EXIST_MISSED = 4,
};

#define EXIST_MAGIC UINT32_C(0x78727473)

struct exist_hello {
	uint32_t magic;
	uint16_t version, keys_max;
	uint8_t digest_key[16];
};

struct exist_request {
	uint32_t id;
	uint16_t n;
	uint16_t flags;
};

struct exist_reply {
	uint32_t id;
	uint16_t n;
	uint16_t flags;
	uint64_t as_of;      /* seq of the site's log that was applied last */
	uint64_t age_ns;     /* since the view was known to be complete; UINT64_MAX: it never was */
	uint32_t first_miss; /* n if there is none; EXIST_PREFIX only */
	uint32_t zero;
};

struct exist_map {
	uint32_t id;
	uint16_t n;
	uint16_t flags;
	uint64_t bytes;      /* of addresses, most of them without memory; 0: no descriptor */
	uint64_t now_ns;     /* CLOCK_MONOTONIC there: a process in another time namespace must not
	                      * take its own for the same */
	uint32_t user_bytes; /* of struct exist_shared */
	uint32_t zero;
};

enum { EXIST_REQUEST_MAX = sizeof(struct exist_request) + EXIST_KEYS_MAX * EXIST_DIGEST_BYTES };
enum { EXIST_REPLY_MAX = sizeof(struct exist_reply) + EXIST_KEYS_MAX / 4 };

_Static_assert(sizeof(struct exist_hello) == 24, "no padding");
_Static_assert(sizeof(struct exist_request) == 8, "no padding");
_Static_assert(sizeof(struct exist_reply) == 32, "no padding");
_Static_assert(sizeof(struct exist_map) == 32, "no padding");
