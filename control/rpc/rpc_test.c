/* SPDX-License-Identifier: Apache-2.0 */
#include "control/rpc/rpc.h"

#include "control/base/file.h"
#include "control/base/log.h"
#include "control/ctl/pki.h"
#include "control/rpc/conn.h"
#include "control/rpc/strait.pb-c.h"

#include <event2/event.h>

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Real TLS on loopback inside one process; certificates come from the pki module. */

struct side {
	struct rpc_conn *conn;
	unsigned int opened, closed, messages;
	int err;
	char text[256];
	uint16_t type;
	uint64_t token;
	size_t bytes;
	int answer; /* what on_message returns */
};

struct world {
	char dir[64];
	struct event_base *base;
	struct rpc_tls *server_tls, *client_tls;
	struct rpc_listener *listener;
	struct side server, client;
	char address[64];
};

static int on_open(struct rpc_conn *c, void *ctx)
{
	struct side *s = ctx;

	s->conn = c;
	s->opened++;
	return 0;
}

static int on_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len, void *ctx)
{
	struct side *s = ctx;

	(void)c;
	(void)body;
	s->messages++;
	s->type = type;
	s->bytes = len;
	return s->answer;
}

static void on_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct side *s = ctx;

	(void)c;
	s->conn = NULL;
	s->closed++;
	s->err = err;
	snprintf(s->text, sizeof(s->text), "%s", text);
}

static const struct rpc_handler handler = { on_open, on_message, on_close };

static char *path(const struct world *w, const char *dir, const char *file)
{
	static char buf[4][160];
	static unsigned int i;
	char *out = buf[i++ % 4];

	snprintf(out, sizeof(buf[0]), "%s/%s/%s", w->dir, dir, file);
	return out;
}

static void issue(const struct world *w, const char *ca, const char *role, const char *site,
	const char *name, int64_t starts, int64_t ends)
{
	struct pki_request req = { .starts_in_s = starts, .ends_in_s = ends };
	char err[256];

	snprintf(req.id.site, sizeof(req.id.site), "%s", site);
	snprintf(req.id.role, sizeof(req.id.role), "%s", role);
	snprintf(req.id.name, sizeof(req.id.name), "%s", name);
	if (pki_issue(path(w, ca, "."), &req, err, sizeof(err)) != 0)
		fail_msg("%s", err);
}

static struct rpc_tls *tls_of(const struct world *w, const char *ca, const char *dir,
	const char *name)
{
	char cert[64], key[64], err[512];
	struct rpc_tls_config cfg = { 0 };
	struct rpc_tls *tls;

	snprintf(cert, sizeof(cert), "%s.pem", name);
	snprintf(key, sizeof(key), "%s.key", name);
	cfg.ca = path(w, ca, "ca.pem");
	cfg.cert = path(w, dir, cert);
	cfg.key = path(w, dir, key);
	tls = rpc_tls_create(&cfg, err, sizeof(err));
	if (tls == NULL)
		fail_msg("%s", err);
	return tls;
}

static void start(struct world *w, struct rpc_tls *server, struct rpc_tls *client)
{
	char err[256];

	w->server_tls = server;
	w->client_tls = client;
	w->base = event_base_new();
	w->listener =
		rpc_listen(w->base, server, "127.0.0.1:0", &handler, &w->server, err, sizeof(err));
	if (w->listener == NULL)
		fail_msg("%s", err);
	snprintf(w->address, sizeof(w->address), "127.0.0.1:%u", rpc_listener_port(w->listener));
}

static void stop(struct world *w)
{
	rpc_listener_destroy(w->listener);
	rpc_tls_destroy(w->server_tls);
	rpc_tls_destroy(w->client_tls);
	event_base_free(w->base);
	memset(&w->server, 0, sizeof(w->server));
	memset(&w->client, 0, sizeof(w->client));
}

/* Run the loop until *flag reaches want; fails after 20 s. */
static void run_until(struct world *w, const unsigned int *flag, unsigned int want)
{
	struct timeval limit = { .tv_sec = 20 };
	struct event *guard = event_new(w->base, -1, 0, NULL, NULL);

	event_base_loopexit(w->base, &limit);
	while (*flag < want)
		if (event_base_loop(w->base, EVLOOP_ONCE) != 0 || event_base_got_exit(w->base))
			fail_msg("waited for nothing: server \"%s\" client \"%s\"", w->server.text,
				w->client.text);
	if (guard != NULL)
		event_free(guard);
}

static void connect_both(struct world *w)
{
	rpc_connect(w->base, w->client_tls, w->address, "master", &handler, &w->client);
	run_until(w, &w->client.opened, 1);
	run_until(w, &w->server.opened, 1);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char err[256];

	log_set_level(LOG_LEVEL_ERROR);
	/* a twentieth of the real patience */
	conn_timing.tick = 25;
	conn_timing.handshake_max = conn_timing.silence_max = 1000;
	conn_timing.ping_after = 100;
	strcpy(w->dir, "/tmp/strait-rpc-test-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(pki_init(path(w, "good", "."), 30, err, sizeof(err)), -ENOENT);
	assert_int_equal(mkdir(path(w, "good", ""), 0700), 0);
	assert_int_equal(mkdir(path(w, "evil", ""), 0700), 0);
	assert_int_equal(pki_init(path(w, "good", "."), 30, err, sizeof(err)), 0);
	assert_int_equal(pki_init(path(w, "evil", "."), 30, err, sizeof(err)), 0);
	issue(w, "good", "master", "-", "master", -60, 3600);
	issue(w, "good", "edge", "a", "edge-a", -60, 3600);
	issue(w, "good", "site-master", "a", "site-a", -60, 3600);
	issue(w, "good", "edge", "a", "old", -7200, -3600);
	issue(w, "evil", "edge", "a", "edge-a", -60, 3600);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", w->dir);
	assert_int_equal(system(cmd), 0);
	free(w);
	return 0;
}

static void both_sides_know_each_other(void **state)
{
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
	connect_both(w);
	assert_string_equal(rpc_peer(w->server.conn)->role, "edge");
	assert_string_equal(rpc_peer(w->server.conn)->site, "a");
	assert_string_equal(rpc_peer(w->server.conn)->name, "edge-a");
	assert_string_equal(rpc_peer(w->client.conn)->role, "master");
	assert_string_equal(rpc_peer_address(w->client.conn), w->address);
	assert_true(rpc_is_initiator(w->client.conn));
	assert_false(rpc_is_initiator(w->server.conn));
	stop(w);
}

static void exporter_is_equal_on_both_sides(void **state)
{
	uint8_t a[48], b[48], c[48];
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
	connect_both(w);
	assert_int_equal(rpc_export(w->server.conn, "EXPORTER-t", (uint8_t *)"ctx", 3, a, 48), 0);
	assert_int_equal(rpc_export(w->client.conn, "EXPORTER-t", (uint8_t *)"ctx", 3, b, 48), 0);
	assert_int_equal(rpc_export(w->client.conn, "EXPORTER-t", (uint8_t *)"cty", 3, c, 48), 0);
	assert_memory_equal(a, b, 48);
	assert_memory_not_equal(a, c, 48);
	stop(w);
}

static void send_sized(struct rpc_conn *c, size_t n, int want)
{
	Strait__EdgeRegister m = STRAIT__EDGE_REGISTER__INIT;
	uint8_t *bytes = calloc(1, n + 1);

	m.site = "a";
	m.edge = "edge-a";
	m.mgmt_address = "127.0.0.1:1";
	m.boot_id.data = bytes;
	m.boot_id.len = n;
	assert_int_equal(rpc_send(c, 16, &m.base), want);
	free(bytes);
}

static void messages_of_all_sizes_arrive(void **state)
{
	static const size_t sizes[] = { 0, 1, 100, 16383, 16384, 70000, 5 << 20, (64 << 20) - 64 };
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
	connect_both(w);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		send_sized(w->client.conn, sizes[i], 0);
		run_until(w, &w->server.messages, i + 1);
		assert_true(w->server.bytes >= sizes[i]);
		assert_int_equal(w->server.type, 16);
	}
	send_sized(w->client.conn, RPC_MESSAGE_MAX, -EMSGSIZE);
	for (int i = 0; i < 4; i++)
		send_sized(w->client.conn, 30 << 20, 0);
	send_sized(w->client.conn, 30 << 20, -ENOBUFS);
	stop(w);
}

enum { DRAIN_LOW = 64 << 10, DRAIN_FRAME = 20 << 10, DRAIN_FRAMES = 200 };

static size_t drain_most;
static int drain_left;

static void drain(struct rpc_conn *c, void *ctx)
{
	static const uint8_t body[DRAIN_FRAME];

	(void)ctx;
	while (drain_left > 0 && rpc_queued_bytes(c) < 2 * DRAIN_LOW) {
		assert_int_equal(rpc_send_bytes(c, 71, body, sizeof(body)), 0);
		drain_left--;
	}
	if (rpc_queued_bytes(c) > drain_most)
		drain_most = rpc_queued_bytes(c);
}

static void bulk_is_sent_frame_by_frame_and_little_waits(void **state)
{
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "site-a"));
	connect_both(w);
	assert_string_equal(rpc_peer(w->server.conn)->role, "site-master");
	drain_left = DRAIN_FRAMES;
	drain_most = 0;
	rpc_set_drain(w->client.conn, DRAIN_LOW, drain);
	drain(w->client.conn, NULL);
	run_until(w, &w->server.messages, DRAIN_FRAMES);
	assert_int_equal(w->server.type, 71);
	assert_int_equal(w->server.bytes, DRAIN_FRAME);
	assert_int_equal(drain_left, 0);
	assert_true(drain_most < 2 * DRAIN_LOW + DRAIN_FRAME + 100);
	/* a body of no bytes is a message, too; one that is too long is none */
	assert_int_equal(rpc_send_bytes(w->client.conn, 72, NULL, 0), 0);
	run_until(w, &w->server.messages, DRAIN_FRAMES + 1);
	assert_int_equal(w->server.bytes, 0);
	assert_int_equal(rpc_send_bytes(w->client.conn, 72, w, (64u << 20) + 1), -EMSGSIZE);
	stop(w);
}

static void close_delivers_what_was_queued(void **state)
{
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
	connect_both(w);
	for (int i = 0; i < 20; i++)
		send_sized(w->client.conn, 1 << 20, 0);
	rpc_close(w->client.conn);
	assert_int_equal(rpc_send(w->client.conn, 16, NULL), -ENOTCONN);
	run_until(w, &w->server.closed, 1);
	assert_int_equal(w->server.messages, 20);
	assert_int_equal(w->server.err, 0);
	assert_int_equal(w->client.closed, 1);
	assert_int_equal(w->client.err, 0);
	stop(w);
}

static void refused_message_tells_the_sender_why(void **state)
{
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
	connect_both(w);
	w->server.answer = -EBADMSG;
	send_sized(w->client.conn, 10, 0);
	/* more than the server will ever read: the reason must survive that */
	send_sized(w->client.conn, 8 << 20, 0);
	run_until(w, &w->client.closed, 1);
	assert_int_equal(w->client.err, -EBADMSG);
	assert_non_null(strstr(w->client.text, "refused"));
	run_until(w, &w->server.closed, 1);
	assert_int_equal(w->server.messages, 1);
	stop(w);
}

/* A client whose certificate is refused learns that, and the server's owner never hears of it. */
static void expect_refusal(struct world *w, const char *word)
{
	rpc_connect(w->base, w->client_tls, w->address, "master", &handler, &w->client);
	run_until(w, &w->client.closed, 1);
	assert_int_equal(w->client.err, -EACCES);
	if (strstr(w->client.text, word) == NULL)
		fail_msg("no \"%s\" in \"%s\"", word, w->client.text);
	assert_int_equal(w->server.opened, 0);
	stop(w);
}

static void certificate_of_another_ca_is_refused(void **state)
{
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "evil", "edge-a"));
	expect_refusal(w, "unknown ca");
}

static void server_of_another_ca_is_refused(void **state)
{
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "evil", "evil", "edge-a"));
	expect_refusal(w, "not acceptable");
}

static void expired_certificate_is_refused(void **state)
{
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "old"));
	expect_refusal(w, "expired");
}

static void wrong_role_is_refused(void **state)
{
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "edge-a"), tls_of(w, "good", "good", "edge-a"));
	rpc_connect(w->base, w->client_tls, w->address, "master", &handler, &w->client);
	run_until(w, &w->client.closed, 1);
	assert_int_equal(w->client.opened, 0);
	assert_int_equal(w->client.err, -EACCES);
	assert_non_null(strstr(w->client.text, "has role edge"));
	stop(w);
}

static void readable_key_is_refused(void **state)
{
	struct world *w = *state;
	struct rpc_tls_config cfg = { 0 };
	char err[512];

	cfg.ca = path(w, "good", "ca.pem");
	cfg.cert = path(w, "good", "edge-a.pem");
	cfg.key = path(w, "good", "edge-a.key");
	assert_int_equal(chmod(cfg.key, 0644), 0);
	assert_null(rpc_tls_create(&cfg, err, sizeof(err)));
	assert_int_equal(errno, EPERM);
	assert_non_null(strstr(err, "chmod 0600"));
	assert_int_equal(chmod(cfg.key, 0600), 0);
	cfg.key = path(w, "good", "master.key");
	assert_null(rpc_tls_create(&cfg, err, sizeof(err)));
	assert_non_null(strstr(err, "master.key"));
	cfg.ca = path(w, "good", "nowhere.pem");
	assert_null(rpc_tls_create(&cfg, err, sizeof(err)));
	assert_non_null(strstr(err, "nowhere.pem"));
	assert_non_null(strstr(err, "No such file"));
}

static void reload_keeps_the_old_certificate_on_error(void **state)
{
	struct world *w = *state;
	char err[512];
	char *cert;
	size_t len;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
	assert_int_equal(rpc_tls_reload(w->server_tls, err, sizeof(err)), 0);
	assert_true(rpc_tls_expiry_s(w->server_tls) > 0);
	assert_int_equal(file_read(path(w, "good", "master.pem"), 1 << 16, &cert, &len), 0);
	assert_int_equal(file_write_atomic(path(w, "good", "master.pem"), "junk", 4, 0644), 0);
	assert_int_not_equal(rpc_tls_reload(w->server_tls, err, sizeof(err)), 0);
	assert_non_null(strstr(err, "master.pem"));
	assert_int_equal(file_write_atomic(path(w, "good", "master.pem"), cert, len, 0644), 0);
	free(cert);
	connect_both(w);
	stop(w);
}

/* Raw bytes at the listener, as a blocking client would send them; then wait for the end. */
static int raw_client(const struct world *w)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sa.sin_port = htons(rpc_listener_port(w->listener));
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static size_t read_to_end(struct world *w, int fd, uint8_t *buf, size_t room)
{
	size_t have = 0;

	for (int i = 0; i < 20000; i++) {
		ssize_t n = recv(fd, buf + have, room - have, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
			return have;
		if (n > 0)
			have += (size_t)n;
		event_base_loop(w->base, EVLOOP_NONBLOCK);
		usleep(1000);
	}
	fail_msg("the server did not close");
	return 0;
}

static void plaintext_client_gets_nowhere(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	struct world *w = *state;
	uint8_t buf[256];
	int fd;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
	fd = raw_client(w);
	assert_true(write(fd, http, sizeof(http)) > 0);
	assert_true(read_to_end(w, fd, buf, sizeof(buf)) < 64); /* an alert at most */
	close(fd);
	assert_int_equal(w->server.opened, 0);
	connect_both(w);
	stop(w);
}

static struct rpc_tls *insecure(const char *role, const char *site, const char *name)
{
	struct rpc_tls_config cfg = { .insecure_loopback = true };
	struct rpc_tls *tls;
	char err[256];

	snprintf(cfg.self.role, sizeof(cfg.self.role), "%s", role);
	snprintf(cfg.self.site, sizeof(cfg.self.site), "%s", site);
	snprintf(cfg.self.name, sizeof(cfg.self.name), "%s", name);
	tls = rpc_tls_create(&cfg, err, sizeof(err));
	if (tls == NULL)
		fail_msg("%s", err);
	return tls;
}

static void insecure_loopback_has_the_same_interface(void **state)
{
	struct world *w = *state;
	uint8_t a[32], b[32];
	char err[256];

	start(w, insecure("master", "-", "m"), insecure("edge", "a", "edge-a"));
	connect_both(w);
	assert_string_equal(rpc_peer(w->server.conn)->name, "edge-a");
	assert_int_equal(rpc_export(w->server.conn, "L", NULL, 0, a, 32), 0);
	assert_int_equal(rpc_export(w->client.conn, "L", NULL, 0, b, 32), 0);
	assert_memory_equal(a, b, 32);
	send_sized(w->client.conn, 1 << 20, 0);
	run_until(w, &w->server.messages, 1);
	assert_null(
		rpc_listen(w->base, w->server_tls, "0.0.0.0:0", &handler, NULL, err, sizeof(err)));
	rpc_close(w->client.conn);
	run_until(w, &w->client.closed, 1);
	rpc_connect(w->base, w->client_tls, "10.1.2.3:7400", NULL, &handler, &w->client);
	run_until(w, &w->client.closed, 2);
	assert_int_equal(w->client.err, -EPERM);
	rpc_connect(w->base, w->client_tls, "nonsense", NULL, &handler, &w->client);
	run_until(w, &w->client.closed, 3);
	assert_int_equal(w->client.err, -EINVAL);
	stop(w);
}

static void pair_within_a_process_is_a_connection_as_any(void **state)
{
	struct world *w = *state;
	struct rpc_tls *tls;

	w->base = event_base_new();
	w->server_tls = insecure("master", "-", "m");
	w->client_tls = insecure("site-master", "a", "a");
	tls = tls_of(w, "good", "good", "master");
	assert_null(
		rpc_pair(w->base, tls, &handler, &w->client, w->server_tls, &handler, &w->server));
	rpc_tls_destroy(tls);
	for (unsigned int n = 1; n <= 2; n++) {
		assert_non_null(rpc_pair(w->base, w->client_tls, &handler, &w->client,
			w->server_tls, &handler, &w->server));
		run_until(w, &w->client.opened, n);
		run_until(w, &w->server.opened, n);
		assert_string_equal(rpc_peer(w->server.conn)->role, "site-master");
		assert_string_equal(rpc_peer(w->server.conn)->site, "a");
		assert_string_equal(rpc_peer(w->client.conn)->role, "master");
		send_sized(w->client.conn, 1 << 20, 0);
		run_until(w, &w->server.messages, 2 * n - 1);
		send_sized(w->server.conn, 100, 0);
		run_until(w, &w->client.messages, n);
		send_sized(w->client.conn, 100, 0);
		run_until(w, &w->server.messages, 2 * n);
		if (n == 1)
			rpc_close(w->client.conn);
		else
			rpc_tls_destroy(w->client_tls); /* the other end learns of it */
		run_until(w, &w->server.closed, n);
	}
	assert_int_equal(w->client.closed, 1);
	rpc_tls_destroy(w->server_tls);
	event_base_free(w->base);
	memset(&w->server, 0, sizeof(w->server));
	memset(&w->client, 0, sizeof(w->client));
}

/* A greeted raw connection in insecure mode, to send hand-made frames. */
static int greeted_raw_client(struct world *w)
{
	static const char uri[] = "spiffe://strait/site/a/role/edge/name/raw";
	uint8_t hello[8 + 32 + sizeof(uri) - 1] = { 0, 0, 0, 32 + sizeof(uri) - 1, 0xff, 0xf0 };
	int fd = raw_client(w);

	memcpy(hello + 40, uri, sizeof(uri) - 1);
	assert_int_equal(write(fd, hello, sizeof(hello)), sizeof(hello));
	run_until(w, &w->server.opened, 1);
	return fd;
}

static void oversized_frame_is_refused_before_it_is_read(void **state)
{
	static const uint8_t head[8] = { 0x04, 0, 0, 1, 0, 16 };
	struct world *w = *state;
	uint8_t buf[1024];
	size_t n;
	int fd;

	start(w, insecure("master", "-", "m"), insecure("edge", "a", "edge-a"));
	fd = greeted_raw_client(w);
	assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
	run_until(w, &w->server.closed, 1);
	assert_int_equal(w->server.err, -EMSGSIZE);
	n = read_to_end(w, fd, buf, sizeof(buf));
	assert_non_null(memmem(buf, n, "over the limit", 14));
	close(fd);
	stop(w);
}

static void half_frame_is_told_from_a_clean_end(void **state)
{
	static const uint8_t half[12] = { 0, 0, 0, 100, 0, 16, 0, 0, 1, 2, 3, 4 };
	struct world *w = *state;
	int fd;

	start(w, insecure("master", "-", "m"), insecure("edge", "a", "edge-a"));
	fd = greeted_raw_client(w);
	assert_int_equal(write(fd, half, sizeof(half)), sizeof(half));
	shutdown(fd, SHUT_WR); /* close() would reset: the server's hello is unread */
	run_until(w, &w->server.closed, 1);
	close(fd);
	assert_int_equal(w->server.err, -EPROTO);
	assert_int_equal(w->server.messages, 0);
	stop(w);
}

static void random_bytes_never_harm(void **state)
{
	struct world *w = *state;
	uint8_t buf[600];

	srand(7);
	start(w, insecure("master", "-", "m"), insecure("edge", "a", "edge-a"));
	for (unsigned int round = 0; round < 200; round++) {
		size_t n = 1 + (size_t)rand() % sizeof(buf);
		int fd;

		w->server.opened = 0;
		fd = round % 2 ? greeted_raw_client(w) : raw_client(w);
		for (size_t i = 0; i < n; i++)
			buf[i] = (uint8_t)rand();
		/* often a plausible header: short length, small type */
		if (round % 4 != 0)
			buf[0] = buf[1] = buf[4] = 0;
		assert_true(write(fd, buf, n) > 0);
		shutdown(fd, SHUT_WR);
		read_to_end(w, fd, buf, sizeof(buf));
		close(fd);
	}
	connect_both(w);
	stop(w);
}

static void identities_round_trip_and_nonsense_is_refused(void **state)
{
	static const char *const bad[] = { "", "spiffe://strait/site/a/role/edge/name/",
		"spiffe://strait/site/a/role/edge", "spiffe://strait/site/A/role/edge/name/x",
		"spiffe://strait/site/a/role/root/name/x", "spiffe://other/site/a/role/edge/name/x",
		"spiffe://strait/site/a/role/edge/name/x/y",
		"spiffe://strait/site/a/b/role/edge/name/x",
		"spiffe://strait/site//role/edge/name/x",
		"spiffe://strait/site/"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"/role/edge/name/x" };
	struct rpc_identity id;
	char buf[256];

	(void)state;
	assert_int_equal(rpc_identity_parse("spiffe://strait/site/-/role/master/name/m-1", &id), 0);
	assert_string_equal(id.site, "-");
	assert_string_equal(id.role, "master");
	assert_int_equal(rpc_identity_format(&id, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "spiffe://strait/site/-/role/master/name/m-1");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(rpc_identity_parse(bad[i], &id), -EINVAL);
}

static void silent_handshake_is_cut_off(void **state)
{
	struct world *w = *state;
	uint8_t buf[256];
	int fd;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
	fd = raw_client(w);
	read_to_end(w, fd, buf, sizeof(buf));
	close(fd);
	assert_int_equal(w->server.opened, 0);
	stop(w);
}

/* A silent connection that comes from 127.0.0.host. */
static int stranger(struct world *w, unsigned int host)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f000000 | host) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	sa.sin_port = htons(rpc_listener_port(w->listener));
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	event_base_loop(w->base, EVLOOP_NONBLOCK);
	return fd;
}

static void strangers_lock_nobody_out(void **state)
{
	unsigned int limit = conn_timing.handshake_max;
	struct world *w = *state;
	int fds[300];

	conn_timing.handshake_max = 60000;
	/* all of one address, ours; then of so many that each has less than its share */
	for (unsigned int hosts = 1; hosts <= 30; hosts += 29) {
		start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
		for (unsigned int i = 0; i < 300; i++)
			fds[i] = stranger(w, 1 + i % hosts);
		connect_both(w);
		for (unsigned int i = 0; i < 300; i++)
			close(fds[i]);
		stop(w);
	}
	conn_timing.handshake_max = limit;
}

static void idle_connection_stays_up(void **state)
{
	struct timeval quiet = { .tv_sec = 1, .tv_usec = 300000 };
	struct world *w = *state;

	start(w, tls_of(w, "good", "good", "master"), tls_of(w, "good", "good", "edge-a"));
	connect_both(w);
	event_base_loopexit(w->base, &quiet);
	event_base_dispatch(w->base);
	assert_int_equal(w->client.closed + w->server.closed, 0);
	assert_int_equal(w->client.messages + w->server.messages, 0);
	stop(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_know_each_other),
		cmocka_unit_test(exporter_is_equal_on_both_sides),
		cmocka_unit_test(messages_of_all_sizes_arrive),
		cmocka_unit_test(bulk_is_sent_frame_by_frame_and_little_waits),
		cmocka_unit_test(close_delivers_what_was_queued),
		cmocka_unit_test(refused_message_tells_the_sender_why),
		cmocka_unit_test(certificate_of_another_ca_is_refused),
		cmocka_unit_test(server_of_another_ca_is_refused),
		cmocka_unit_test(expired_certificate_is_refused),
		cmocka_unit_test(wrong_role_is_refused),
		cmocka_unit_test(readable_key_is_refused),
		cmocka_unit_test(reload_keeps_the_old_certificate_on_error),
		cmocka_unit_test(plaintext_client_gets_nowhere),
		cmocka_unit_test(insecure_loopback_has_the_same_interface),
		cmocka_unit_test(pair_within_a_process_is_a_connection_as_any),
		cmocka_unit_test(oversized_frame_is_refused_before_it_is_read),
		cmocka_unit_test(half_frame_is_told_from_a_clean_end),
		cmocka_unit_test(random_bytes_never_harm),
		cmocka_unit_test(identities_round_trip_and_nonsense_is_refused),
		cmocka_unit_test(silent_handshake_is_cut_off),
		cmocka_unit_test(strangers_lock_nobody_out),
		cmocka_unit_test(idle_connection_stays_up),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
