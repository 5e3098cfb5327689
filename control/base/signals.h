/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SIGTERM and SIGINT stop, SIGHUP reloads, SIGPIPE is ignored. Handlers run in the event loop, on
 * its thread, so they may do anything. A second SIGTERM or SIGINT while stopping ends the process
 * at once (exit 1).
 */

struct event_base;
struct signals;

struct signals_handler {
	void (*on_stop)(int signo, void *ctx);
	void (*on_reload)(void *ctx); /* NULL: SIGHUP is ignored */
};

/** NULL + errno. One per process. */
struct signals *signals_create(struct event_base *base, const struct signals_handler *handler,
	void *ctx);
/** Ignores NULL. */
void signals_destroy(struct signals *s);
