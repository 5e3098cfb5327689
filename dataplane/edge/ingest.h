/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/control_queue.h"
#include "dataplane/pool/pool.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/*
 * The destination side of transfers: accept OPEN, read the manifest, give objects their memory
 * in stream order, publish what arrived whole.
 *
 * Objects are placed within the window the session granted for the class. Beyond it only what
 * progress needs: each transfer always has its oldest unfinished object and the blocks that
 * object shares placed, and the transfer its sender serves first (earliest deadline, then
 * first opened) has a window of its own, since manifests may arrive in another order than
 * data.
 *
 * Nothing is visible before it is published. What a reset interrupts stays as partial objects,
 * which a later transfer of the same objects adopts; what was canceled or did not match its
 * digest is freed.
 *
 * Control thread only. Times are CLOCK_MONOTONIC ns.
 */

enum {
	INGEST_PLACE_SLICE = 512, /* objects placed per ingest_run() */
	INGEST_BUSY_MAX = 64,     /* objects of a transfer that wait for another writer */
};
#define INGEST_MEMORY_MAX (512ULL << 20) /* tables of all live transfers */
#define INGEST_BUSY_NS    (2000000000ULL)

struct ingest;

struct ingest_ops {
	/** Pool of a tenant, NULL: there is none. */
	struct pool *(*pool)(void *ctx, const uint8_t *tenant, size_t len);
	/** ingest_run() should be called soon. */
	void (*kick)(void *ctx);
};

/* One table, as in <strait/counters.h>; reported as ingest_<name>. */
#define INGEST_TOTALS(X)                                                                           \
	X(transfers, "transfers accepted")                                                         \
	X(refused, "transfers refused")                                                            \
	X(committed, "objects published")                                                          \
	X(committed_bytes, "their bytes")                                                          \
	X(adopted, "objects that went on from a partial one")                                      \
	X(adopted_bytes, "bytes that were there already")                                          \
	X(existed, "objects that were there already")                                              \
	X(full, "objects without space")                                                           \
	X(busy, "objects whose key another writer held")                                           \
	X(digest, "objects whose digest did not match")                                            \
	X(withdrawn, "objects taken back by the source")                                           \
	X(failed, "objects that failed otherwise")

struct ingest_totals {
#define INGEST_TOTALS_FIELD(name, help) uint64_t name;
	INGEST_TOTALS(INGEST_TOTALS_FIELD)
#undef INGEST_TOTALS_FIELD
};

TAILQ_HEAD(ingest_transfer_list, ingest_transfer);

/** What ingest keeps of a session; embedded in the session's owner. */
struct ingest_session {
	LIST_ENTRY(ingest_session) entry;
	struct ingest *ingest;
	struct session *session;
	uint8_t worker; /* that has it */
	struct session_credit window[STRAIT_CLASS_COUNT];
	struct session_credit placed[STRAIT_CLASS_COUNT]; /* and not finished */
	struct ingest_transfer_list transfers;            /* by deadline, then as opened */
	bool closing;
};

struct ingest *ingest_create(const struct ingest_ops *ops, void *ctx, struct control_queue *queue);
/** All sessions are gone. */
void ingest_destroy(struct ingest *in);

void ingest_session_add(struct ingest *in, struct ingest_session *is, struct session *session,
	uint8_t worker, const struct session_credit window[STRAIT_CLASS_COUNT]);
/**
 * WORKER_SESSION_DEL was sent: name the session in no command any more; RX_CLOSED events
 * follow.
 */
void ingest_session_close(struct ingest_session *is);
/** The session is gone, and with it its transfers. */
void ingest_session_del(struct ingest_session *is);

/** RX events of the session; RX_REJECTED as RX_CLOSED with RESET. */
void ingest_event(struct ingest_session *is, uint64_t now_ns, const struct session_event *ev);
/** Place what fits, try again what was busy, free what closed. true: call again at once. */
bool ingest_run(struct ingest *in, uint64_t now_ns);

/** Refuse new transfers. */
void ingest_drain(struct ingest *in);
uint32_t ingest_live(const struct ingest *in);
/**
 * Objects wait for another writer of their key: ingest_run() wants to be called within 50
 * ms.
 */
bool ingest_is_waiting(const struct ingest *in);
const struct ingest_totals *ingest_totals(const struct ingest *in);
