/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/stream.h"

#include "control/base/log.h"

#include <dlfcn.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/*
 * Peers that go away at the worst of times. They speak ZeroMQ's protocol (ZMTP 3.0, NULL) by
 * themselves, so that it is known what ZeroMQ has received, and when it has seen the end.
 */

enum {
	MESSAGES = 8,
	PARTS = 150, /* ZeroMQ hears of what happened once in 100: so in the middle of one */
	WAIT_S = 20,
};

struct fixture {
	struct event_base *base;
	struct stream_hub *hub;
	struct stream *stream;
	struct stream_dealer *dealer;
	int listener, peer;
	char endpoint[64];
	unsigned int messages, wrong;
};

static int leaves = -1; /* the peer that does when a socket is closed */

/* In place of ZeroMQ's, for stream.c and ZeroMQ itself. */
int zmq_close(void *socket)
{
	int (*theirs)(void *) = NULL, rc;

	*(void **)&theirs = dlsym(RTLD_NEXT, "zmq_close");
	rc = theirs(socket);
	if (leaves < 0)
		return rc;
	usleep(50000); /* its own thread closes it */
	shutdown(leaves, SHUT_WR);
	usleep(50000);
	return rc;
}

static int setup(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct timeval wait = { WAIT_S, 0 };
	struct fixture *f = calloc(1, sizeof(*f));
	socklen_t len = sizeof(at);

	log_set_level(LOG_LEVEL_ERROR);
	f->base = event_base_new();
	f->hub = stream_hub_create(f->base);
	f->peer = -1;
	f->listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(f->listener, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	assert_int_equal(bind(f->listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(f->listener, 8), 0);
	getsockname(f->listener, (struct sockaddr *)&at, &len);
	snprintf(f->endpoint, sizeof(f->endpoint), "tcp://127.0.0.1:%u", ntohs(at.sin_port));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	leaves = -1;
	stream_destroy(f->stream);
	stream_dealer_destroy(f->dealer);
	stream_hub_destroy(f->hub);
	event_base_free(f->base);
	close(f->listener);
	if (f->peer >= 0)
		close(f->peer);
	free(f);
	return 0;
}

/* ---- the peer ---- */

static void take(struct fixture *f, void *out, size_t len)
{
	assert_int_equal(recv(f->peer, out, len, MSG_WAITALL), len);
}

/* The next frame, a short one; its flags. */
static int frame_take(struct fixture *f, char body[static 256], size_t *len)
{
	uint8_t head[2];

	take(f, head, sizeof(head));
	*len = head[1];
	if (*len > 0)
		take(f, body, *len);
	return head[0];
}

static void peer_accept(struct fixture *f, const char *kind)
{
	static const char greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL";
	struct timeval wait = { WAIT_S, 0 };
	char body[256] = "\5READY\x0bSocket-Type\0\0\0";
	uint8_t head[2] = { 4, 0 };
	size_t len = 21;

	if (f->peer >= 0)
		close(f->peer);
	f->peer = accept(f->listener, NULL, NULL);
	assert_true(f->peer >= 0);
	setsockopt(f->peer, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	body[len++] = (char)strlen(kind);
	memcpy(body + len, kind, strlen(kind));
	len += strlen(kind);
	head[1] = (uint8_t)len;
	send(f->peer, greeting, sizeof(greeting), 0);
	send(f->peer, head, sizeof(head), 0);
	send(f->peer, body, len, 0);
	take(f, body, sizeof(greeting));
	assert_int_equal(frame_take(f, body, &len), 4);
}

/* All at once, and few enough bytes for ZeroMQ to take them at once. */
static void peer_send(struct fixture *f)
{
	char all[MESSAGES * PARTS * 3], *at = all;

	for (int i = 1; i <= MESSAGES * PARTS; i++, at += 3)
		memcpy(at, i % PARTS != 0 ? "\1\1x" : "\0\1x", 3);
	assert_int_equal(send(f->peer, all, sizeof(all), 0), sizeof(all));
}

/* And ZeroMQ has seen it: it closed its end. */
static void peer_leave(struct fixture *f)
{
	char some[256];

	shutdown(f->peer, SHUT_WR);
	while (recv(f->peer, some, sizeof(some), 0) > 0)
		;
}

/* ---- us ---- */

static void on_message(const struct stream_message *m, void *ctx)
{
	struct fixture *f = ctx;

	if (f->messages++ == 0)
		peer_leave(f);
	f->wrong += m->frames != PARTS;
}

static void on_nothing(void *ctx)
{
	(void)ctx;
}

static const struct stream_handler handler = { on_message, on_nothing, on_nothing };

static void turn(struct fixture *f)
{
	struct timeval soon = { 0, 10000 };

	event_base_loopexit(f->base, &soon);
	event_base_dispatch(f->base);
	if (f->stream != NULL)
		stream_poll(f->stream);
	if (f->dealer != NULL)
		assert_true(stream_dealer_poll(f->dealer));
}

static void all_are_read(struct fixture *f)
{
	time_t end = time(NULL) + WAIT_S;

	while (f->messages < MESSAGES && time(NULL) < end)
		turn(f);
	assert_int_equal(f->messages, MESSAGES);
	assert_int_equal(f->wrong, 0);
}

static int ask(struct fixture *f, const char *question, int until)
{
	time_t end = time(NULL) + WAIT_S;
	int rc;

	do {
		turn(f);
		rc = stream_dealer_ask(f->dealer, question, strlen(question));
	} while (rc != until && time(NULL) < end);
	return rc;
}

static void dealer_open(struct fixture *f)
{
	f->dealer = stream_dealer_create(f->hub, f->endpoint, on_message, f);
	assert_non_null(f->dealer);
}

static void stream_open(struct fixture *f)
{
	f->stream = stream_create(f->hub, "peer", f->endpoint, "", &handler, f);
	assert_non_null(f->stream);
}

/* ---- tests ---- */

static void answers_outlive_their_connection(void **state)
{
	struct fixture *f = *state;

	dealer_open(f);
	peer_accept(f, "ROUTER");
	peer_send(f);
	all_are_read(f);
}

static void messages_outlive_their_connection(void **state)
{
	struct fixture *f = *state;

	stream_open(f);
	peer_accept(f, "PUB");
	peer_send(f);
	all_are_read(f);
}

static void asked_only_while_connected(void **state)
{
	struct fixture *f = *state;
	char body[256];
	size_t len;

	dealer_open(f);
	assert_int_equal(stream_dealer_ask(f->dealer, "early", 5), -EAGAIN);
	for (int i = 0; i < 2; i++) {
		peer_accept(f, "ROUTER");
		assert_int_equal(ask(f, i == 0 ? "first" : "second", 0), 0);
		assert_int_equal(frame_take(f, body, &len), 1);
		assert_int_equal(len, 0);
		assert_int_equal(frame_take(f, body, &len), 0);
		assert_memory_equal(body, i == 0 ? "first" : "second", len);
		peer_leave(f);
		assert_int_equal(stream_dealer_ask(f->dealer, "late", 4), -EAGAIN);
	}
}

/* A part that is too large breaks the protocol. */
static void connected_again_after_a_broken_protocol(void **state)
{
	static const char large[] = "\2\0\0\0\0\x7f\0\0\0";
	struct fixture *f = *state;
	time_t end = time(NULL) + WAIT_S;
	struct pollfd p;

	stream_open(f);
	peer_accept(f, "PUB");
	turn(f);
	send(f->peer, large, sizeof(large) - 1, 0);
	p = (struct pollfd){ .fd = f->listener, .events = POLLIN };
	while (poll(&p, 1, 0) == 0 && time(NULL) < end)
		turn(f);
	peer_accept(f, "PUB");
	peer_send(f);
	all_are_read(f);
}

/* A connection that ends while its socket is being closed leaves the others as they are. */
static void closing_does_not_stop_the_others(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 2; i++) {
		i == 0 ? stream_open(f) : dealer_open(f);
		peer_accept(f, i == 0 ? "PUB" : "ROUTER");
		turn(f);
		leaves = f->peer;
		stream_destroy(f->stream);
		stream_dealer_destroy(f->dealer);
		f->stream = NULL;
		f->dealer = NULL;
		leaves = -1;
	}
	dealer_open(f);
	peer_accept(f, "ROUTER");
	assert_int_equal(ask(f, "others", 0), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(answers_outlive_their_connection),
		TEST(messages_outlive_their_connection),
		TEST(asked_only_while_connected),
		TEST(connected_again_after_a_broken_protocol),
		TEST(closing_does_not_stop_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
