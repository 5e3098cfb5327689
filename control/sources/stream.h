/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A subscription to a publisher of KV events over ZeroMQ, in an event loop: messages of three
 * frames (topic, seq, payload), and whether the connection stands, of which ZeroMQ itself is
 * silent. At most STREAM_BATCHES messages and some STREAM_TURN_BYTES are taken in one go, so that a
 * flood does not starve others. All from the thread of the event base.
 *
 * ZeroMQ bounds a part of a message and how many messages wait, neither how many parts a message
 * has nor the bytes of all that wait. So what the kernel has received on a connection is held
 * against what was taken out of it (TCP alone): a peer whose bytes wait by more than
 * STREAM_UNREAD_MAX, or by more than the largest message while none gets whole, is cut off, and
 * connected with again after a second, two, four .. a minute. A part without bytes is two of them
 * on the line and 64 in ZeroMQ's memory, so such a message takes up to half a GiB before it is
 * noticed.
 *
 * A connection that ends is made again, also when the peer broke the protocol or sent a part larger
 * than KV_PAYLOAD_MAX.
 *
 * A hub is what all subscriptions of a process share: one context of ZeroMQ, one thread of it.
 */

enum {
	STREAM_BATCHES = 64,
	STREAM_TURN_BYTES = 4 << 20,
	STREAM_UNREAD_MAX = 64 << 20,
};

struct event_base;
struct stream;
struct stream_hub;
struct stream_dealer;

/* Of three frames; one of another number has frames set to it and nothing else. */
struct stream_message {
	int frames;
	const uint8_t *seq, *payload;
	size_t seq_len, payload_len;
};

struct stream_handler {
	void (*on_message)(const struct stream_message *m, void *ctx);
	void (*on_connected)(void *ctx);
	void (*on_disconnected)(void *ctx);
};

/** NULL + errno. */
struct stream_hub *stream_hub_create(struct event_base *base);
/** After its streams and sockets. NULL is ignored. */
void stream_hub_destroy(struct stream_hub *h);

/** name: for log lines; topic: what topics begin with. All live as long. NULL + errno. */
struct stream *stream_create(struct stream_hub *h, const char *name, const char *endpoint,
	const char *topic, const struct stream_handler *handler, void *ctx);
/** NULL is ignored. */
void stream_destroy(struct stream *s);
/** Leave messages where they are, in ZeroMQ's queue, which is bounded. */
void stream_pause(struct stream *s, bool paused);
/** From a timer of the owner, ten times a second or so: ZeroMQ's descriptors tell edges only. */
void stream_poll(struct stream *s);
/** So many messages, or events in them, made no sense to who reads it. */
void stream_reject(struct stream *s, uint64_t n);
uint64_t stream_rejected(const struct stream *s);
/**
 * What is wrong, in words: it was cut off for what it sent within the last minutes; what it sent
 * then made no sense; its connection was ever lost. false: it is not so, text stays as it is.
 */
bool stream_tells_cut(const struct stream *s, char *text, size_t len);
bool stream_tells_rejected(const struct stream *s, char *text, size_t len);
bool stream_tells_losses(const struct stream *s, char *text, size_t len);

/** A question and its answers: a DEALER socket. NULL + errno. */
struct stream_dealer *stream_dealer_create(struct stream_hub *h, const char *endpoint,
	void (*on_message)(const struct stream_message *m, void *ctx), void *ctx);
void stream_dealer_destroy(struct stream_dealer *d);
/** An empty frame and this one. 0 or -errno; -EAGAIN: not connected. */
int stream_dealer_ask(struct stream_dealer *d, const void *frame, size_t len);
/** As stream_poll(). false: its bytes wait by more than there may be, so destroy it. */
bool stream_dealer_poll(struct stream_dealer *d);
