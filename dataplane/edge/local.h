/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/capture.h"

/*
 * The edge's local socket (debug.socket): what an operator on this machine may ask of one edge,
 * without the master. Mode 0600, so only the edge's user and root can.
 *
 * A client sends one JSON object on one line and gets one back:
 *
 *   {"op": "capture-start", "file": NAME, "bytes": N, "seconds": N, "snap": N}  all but op optional
 *   {"op": "capture-stop"}
 *   {"op": "capture-status"}
 *   -> {"running": true, "file": .., "packets": N, "bytes": N, "missed": N, "seconds": S,
 *       "ended": TEXT}
 *   -> {"error": TEXT, "errno": N}
 *
 * Control thread only.
 */

struct event_base;
struct local;

enum { LOCAL_CLIENTS_MAX = 8, LOCAL_REQUEST_MAX = 4096 };

/**
 * Listens at path; a socket there that nobody listens at is replaced, anything else is not. The
 * capture must outlive it. NULL, with the reason in err.
 */
struct local *local_create(struct event_base *base, const char *path, struct capture *capture,
	char *err, size_t err_len);
/** Ignores NULL. Removes the socket. */
void local_destroy(struct local *l);
