/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <strait/wire.h>

#include <stddef.h>

/*
 * The key log (debug.key_log): one line for each session, from which its packets can be opened, in
 * the manner of NSS's SSLKEYLOGFILE:
 *
 *   STRAIT_SESSION_SECRET <initiator's id><responder's id> <secret>
 *
 * all hexadecimal: two ids of 8 digits, that is, the session field of packets to the initiator and
 * of packets to the responder, and the 96 digits of the session secret. Everything else follows
 * from it (doc/wire.md section 4); tools/wireshark/strait.lua reads it.
 *
 * Whoever has this file reads the values of every tenant, past and future ones of these sessions.
 * It is written only when configured, which the log of the edge says loudly, and only into a file
 * that nobody but its owner can read.
 *
 * Control thread only.
 */

struct keylog;

/** Appends to path, created with mode 0600. NULL, with the reason in err. */
struct keylog *keylog_open(const char *path, char *err, size_t err_len);
/** Ignores NULL. */
void keylog_close(struct keylog *k);

/** Nothing when k is NULL. A line that cannot be written is logged and otherwise ignored. */
void keylog_session(struct keylog *k, uint32_t initiator_id, uint32_t responder_id,
	const uint8_t secret[STRAIT_SECRET_BYTES]);
