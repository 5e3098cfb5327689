/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/signals.h"

#include <event2/event.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

struct signals {
	struct event *term, *intr, *hup;
	struct signals_handler handler;
	void *ctx;
	bool stopping;
};

static void stop_cb(evutil_socket_t signo, short what, void *arg)
{
	struct signals *s = arg;

	(void)what;
	if (s->stopping)
		_exit(1);
	s->stopping = true;
	s->handler.on_stop((int)signo, s->ctx);
}

static void reload_cb(evutil_socket_t signo, short what, void *arg)
{
	struct signals *s = arg;

	(void)signo;
	(void)what;
	if (s->handler.on_reload != NULL && !s->stopping)
		s->handler.on_reload(s->ctx);
}

struct signals *signals_create(struct event_base *base, const struct signals_handler *handler,
	void *ctx)
{
	struct signals *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->handler = *handler;
	s->ctx = ctx;
	signal(SIGPIPE, SIG_IGN);
	s->term = evsignal_new(base, SIGTERM, stop_cb, s);
	s->intr = evsignal_new(base, SIGINT, stop_cb, s);
	s->hup = evsignal_new(base, SIGHUP, reload_cb, s);
	if (s->term == NULL || s->intr == NULL || s->hup == NULL || event_add(s->term, NULL) < 0 ||
		event_add(s->intr, NULL) < 0 || event_add(s->hup, NULL) < 0) {
		signals_destroy(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

void signals_destroy(struct signals *s)
{
	if (s == NULL)
		return;
	if (s->term != NULL)
		event_free(s->term);
	if (s->intr != NULL)
		event_free(s->intr);
	if (s->hup != NULL)
		event_free(s->hup);
	free(s);
}
