/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/engine_source.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/index/digest.h"
#include "control/sources/stream.h"

#include <event2/event.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TICK_MS = 100,
	REPLAY_TIMEOUTS = 12, /* a replay takes no longer than so many timeouts */
};

struct engine_source {
	struct engine m;
	struct engine_source_config cfg;
	const struct engine_source_handler *handler;
	void *ctx;
	struct stream_hub *hub;
	struct stream *stream;
	struct stream_dealer *dealer;
	struct event *tick;
	bool renew; /* what the dealer still gets is of a replay that was given up */
	uint64_t heard_ns, replay_ns; /* of the replay going on: last heard of, begun */
};

static int event_cb(const struct kv_event *e, void *ctx)
{
	struct engine_source *s = ctx;

	if (e->op != KV_CLEARED) {
		s->handler->on_event(e, s->ctx);
		return 0;
	}
	s->handler->on_clear(s->ctx);
	engine_cleared(&s->m);
	return 0;
}

static uint64_t mark_of(const struct stream_message *m)
{
	static const struct digest_key none;

	return digest_of_key(&none, m->payload, m->payload_len).lo;
}

static void act(struct engine_source *s, unsigned int what, const struct stream_message *m)
{
	struct kv_batch b;
	int ret;

	if ((what & ENGINE_ABORT) != 0)
		s->renew = true;
	if ((what & ENGINE_CLEAR) != 0)
		s->handler->on_clear(s->ctx);
	if ((what & ENGINE_APPLY) == 0)
		return;
	ret = kv_batch_decode(m->payload, m->payload_len, event_cb, s, &b);
	stream_reject(s->stream, ret < 0 ? 1 : b.rejected);
	if (ret < 0 && (engine_lost(&s->m) & ENGINE_CLEAR) != 0)
		s->handler->on_clear(s->ctx);
	if (ret < 0)
		log_limited(LOG_LEVEL_WARN, "source", 10000, "not a batch source=%s error=%s",
			s->cfg.name, strerror(-ret));
}

static void pause(struct engine_source *s)
{
	stream_pause(s->stream, engine_is_waiting(&s->m));
}

static void replay_begin(struct engine_source *s, uint64_t now)
{
	uint64_t from = engine_replay_from(&s->m);
	uint8_t frame[KV_SEQ_BYTES];
	int rc;

	for (int i = 0; i < KV_SEQ_BYTES; i++)
		frame[i] = (uint8_t)(from >> (56 - 8 * i));
	rc = stream_dealer_ask(s->dealer, frame, sizeof(frame));
	if (rc == -EAGAIN && now - s->heard_ns <= s->cfg.timeout_ns)
		return; /* it is still connecting */
	s->heard_ns = s->replay_ns = now;
	s->renew = rc < 0; /* ZeroMQ does not connect with everybody again */
	act(s, rc == 0 ? engine_replay_begin(&s->m, now) : engine_replay_failed(&s->m, now), NULL);
}

static void on_message(const struct stream_message *m, void *ctx)
{
	struct engine_source *s = ctx;
	uint64_t seq, now = clock_now_ns();

	if (m->frames != 3 || kv_seq_decode(m->seq, m->seq_len, &seq) < 0) {
		stream_reject(s->stream, 1);
		return;
	}
	act(s, engine_batch(&s->m, seq, mark_of(m), now), m);
	pause(s);
}

static void on_replayed(const struct stream_message *m, void *ctx)
{
	struct engine_source *s = ctx;
	uint64_t seq, now = clock_now_ns();

	if (s->renew || !s->m.replaying)
		return;
	s->heard_ns = now;
	if (m->frames != 3 || kv_seq_decode(m->seq, m->seq_len, &seq) < 0)
		stream_reject(s->stream, 1);
	else if (seq != UINT64_MAX)
		act(s, engine_replay_batch(&s->m, seq, mark_of(m), now), m);
	else
		act(s, engine_replay_end(&s->m, now), NULL);
	pause(s);
}

static void on_connected(void *ctx)
{
	struct engine_source *s = ctx;

	s->heard_ns = clock_now_ns();
	act(s, engine_connected(&s->m, s->heard_ns), NULL);
	pause(s);
}

static void on_disconnected(void *ctx)
{
	struct engine_source *s = ctx;

	s->renew = s->renew || s->m.replaying;
	engine_disconnected(&s->m);
	pause(s);
}

static const struct stream_handler on_stream = { on_message, on_connected, on_disconnected };

static int dealer_renew(struct engine_source *s)
{
	stream_dealer_destroy(s->dealer);
	s->dealer = stream_dealer_create(s->hub, s->cfg.replay, on_replayed, s);
	s->renew = s->dealer == NULL;
	return s->dealer != NULL ? 0 : -errno;
}

static void replay_failed(struct engine_source *s, const char *why, uint64_t now)
{
	log_limited(LOG_LEVEL_WARN, "source", 60000, "no replay source=%s from=%s reason=%s",
		s->cfg.name, s->cfg.replay, why);
	if (s->m.replaying)
		act(s, engine_replay_failed(&s->m, now), NULL);
	s->renew = true;
}

static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	struct engine_source *s = arg;
	uint64_t now = clock_now_ns();

	(void)fd;
	(void)what;
	stream_poll(s->stream);
	engine_tick(&s->m, now);
	if (s->cfg.replay == NULL)
		return;
	if (s->m.replaying &&
		(now - s->heard_ns > s->cfg.timeout_ns ||
			now - s->replay_ns > REPLAY_TIMEOUTS * s->cfg.timeout_ns))
		replay_failed(s, "no end of it comes", now);
	if (s->renew && dealer_renew(s) < 0)
		return;
	if (!stream_dealer_poll(s->dealer)) {
		replay_failed(s, "it sends more than can be read", now);
		return;
	}
	if (engine_replay_is_due(&s->m, now))
		replay_begin(s, now);
	pause(s);
}

struct engine_source *engine_source_create(struct event_base *base, struct stream_hub *hub,
	const struct engine_source_config *cfg, const struct engine_source_handler *handler,
	void *ctx, char *err, size_t err_len)
{
	struct timeval every = { 0, TICK_MS * 1000 };
	struct engine_source *s = calloc(1, sizeof(*s));
	int ret = -ENOMEM;

	if (s == NULL)
		goto err;
	s->cfg = *cfg;
	s->cfg.machine.replay = cfg->replay != NULL;
	s->handler = handler;
	s->ctx = ctx;
	s->hub = hub;
	engine_init(&s->m, &s->cfg.machine);
	s->stream = stream_create(hub, cfg->name, cfg->events, cfg->topic, &on_stream, s);
	ret = s->stream == NULL ? -errno : 0;
	if (ret == 0 && cfg->replay != NULL)
		ret = dealer_renew(s);
	if (ret < 0)
		goto err;
	s->tick = event_new(base, -1, EV_PERSIST, tick_cb, s);
	if (s->tick != NULL && event_add(s->tick, &every) == 0)
		return s;
	ret = -ENOMEM;
err:
	snprintf(err, err_len, "source %s at %s: %s", cfg->name, cfg->events, strerror(-ret));
	engine_source_destroy(s);
	errno = -ret;
	return NULL;
}

void engine_source_destroy(struct engine_source *s)
{
	if (s == NULL)
		return;
	if (s->tick != NULL)
		event_free(s->tick);
	stream_destroy(s->stream);
	stream_dealer_destroy(s->dealer);
	free(s);
}

const struct engine *engine_source_state(const struct engine_source *s)
{
	return &s->m;
}

uint64_t engine_source_rejected(const struct engine_source *s)
{
	return stream_rejected(s->stream);
}

void engine_source_trouble(const struct engine_source *s, char *text, size_t len)
{
	text[0] = '\0';
	if (stream_tells_cut(s->stream, text, len))
		return;
	if (s->m.replaying && clock_now_ns() - s->replay_ns > s->cfg.timeout_ns)
		snprintf(text, len, "its replay does not end");
	else if (!stream_tells_rejected(s->stream, text, len) && s->m.state == ENGINE_DOWN)
		(void)stream_tells_losses(s->stream, text, len);
}
