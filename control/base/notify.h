/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Readiness for systemd (sd_notify(3)) without linking libsystemd. All of it does nothing unless
 * NOTIFY_SOCKET is set. Any thread.
 */

/**
 * Send "READY=1", "STOPPING=1", "RELOADING=1" or any other assignments. 0 (also when nobody
 * listens) or -errno.
 */
int notify_send(const char *state);
/** "STATUS=..." for `systemctl status`. */
int notify_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
