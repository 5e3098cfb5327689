/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/fleet.h"

#include "control/base/clock.h"
#include "control/log/feed.h"
#include "control/rpc/rpc.h"
#include "control/rpc/strait.pb-c.h"
#include "control/site/uplink.h"
#include "tools/bench/keys.h"

#include <event2/event.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TICK_MS = 10, /* as control/site/uplink.c */
	EVENTS_US = 1000,
	TIMES = 1 << 16, /* of the last events of a site, 10 s at 100,000 events/s */
	SOURCES = (FLEET_SUBCLUSTERS + FLEET_SITES - 1) / FLEET_SITES,
	LOG_BYTES = 256 << 20,
	REQUESTS_MAX = 64, /* made up for at once after a pause */
};
#define SECOND UINT64_C(1000000000)

/* A site holds the objects first .. next - 1 of each bucket. */
struct fleet_site {
	struct fleet *f;
	uint32_t number;
	char name[8];
	struct rpc_tls *tls;
	struct rpc_conn *conn;
	struct log *log;
	struct sums *sums;
	uint32_t *first, *next;
	struct feed_source source;
	struct feed feed;
	struct gate gate;
	struct backoff backoff;
	bool accepted, feeding;
	uint64_t retry_ns, report_ns, boot;
	uint64_t source_events[SOURCES];
	uint64_t *appended_ns; /* by seq */
};

struct fleet {
	struct event_base *base;
	struct fleet_config cfg;
	struct event *tick, *events;
	struct fleet_site site[FLEET_SITES];
	double rate;
	uint64_t seed, began_ns, made, total, bytes;
};

static struct digest128 digest_make(uint32_t site, uint32_t bucket, uint32_t n)
{
	uint64_t x = keys_mix((uint64_t)bucket << 48 | (uint64_t)site << 32 | n);

	return (struct digest128){ .hi = (uint64_t)bucket << 48 | x >> 16, .lo = keys_mix(x) };
}

static struct log_record record_make(const struct fleet_site *s, uint32_t bucket, uint32_t n,
	uint8_t op)
{
	return (struct log_record){ .digest = digest_make(s->number, bucket, n),
		.size = 1 << 20,
		.op = op,
		.flags = op == LOG_REMOVED ? LOG_FLAG_EVICTED : 0 };
}

static void list(void *ctx, uint32_t bucket, void (*fn)(void *fn_ctx, const struct log_record *r),
	void *fn_ctx)
{
	const struct fleet_site *s = ctx;

	for (uint32_t n = s->first[bucket]; n != s->next[bucket]; n++) {
		struct log_record r = record_make(s, bucket, n, LOG_STORED);

		fn(fn_ctx, &r);
	}
}

/* ---- events ---- */

static void append(struct fleet_site *s, uint32_t bucket, uint32_t n, uint8_t op, uint64_t now_ns)
{
	struct log_record r = record_make(s, bucket, n, op);
	uint64_t seq = log_append(s->log, &r, now_ns);

	if (seq == 0)
		abort(); /* of memory: nothing that is measured from here on would mean anything */
	if (op == LOG_STORED)
		sums_add(s->sums, r.digest);
	else
		sums_del(s->sums, r.digest);
	s->appended_ns[seq % TIMES] = now_ns;
}

/* One client's request: its blocks come, its oldest go. */
static void request(struct fleet *f, uint64_t now_ns)
{
	uint32_t client = (uint32_t)((f->seed = keys_mix(f->seed)) % FLEET_CLIENTS);
	uint32_t sub = client % FLEET_SUBCLUSTERS;
	struct fleet_site *s = &f->site[sub % FLEET_SITES];
	uint16_t bucket[FLEET_REQUEST];

	for (int i = 0; i < FLEET_REQUEST; i++) {
		bucket[i] = (uint16_t)(f->seed = keys_mix(f->seed));
		append(s, bucket[i], s->next[bucket[i]]++, LOG_STORED, now_ns);
	}
	for (int i = 0; i < FLEET_REQUEST; i++)
		append(s, bucket[i], s->first[bucket[i]]++, LOG_REMOVED, now_ns);
	s->source_events[sub / FLEET_SITES] += 2 * FLEET_REQUEST;
	f->made += 2 * FLEET_REQUEST;
	f->total += 2 * FLEET_REQUEST;
}

static void events_cb(evutil_socket_t fd, short what, void *arg)
{
	struct fleet *f = arg;
	uint64_t now_ns = clock_now_ns();
	double due = (double)(now_ns - f->began_ns) * 1e-9 * f->rate;

	(void)fd;
	(void)what;
	for (int i = 0; i < REQUESTS_MAX && (double)f->made < due; i++)
		request(f, now_ns);
}

void fleet_rate(struct fleet *f, double events_per_s)
{
	struct timeval every = { 0, EVENTS_US };

	f->rate = events_per_s;
	f->began_ns = clock_now_ns();
	f->made = 0;
	if (events_per_s > 0)
		event_add(f->events, &every);
	else
		event_del(f->events);
}

/* ---- the connection ---- */

static void pump(struct fleet_site *s)
{
	const uint8_t *frame;
	size_t len;
	int rc = 1;

	while (s->feeding && rc > 0 && rpc_queued_bytes(s->conn) < UPLINK_QUEUE) {
		rc = feed_pull(&s->feed, clock_now_ns(), &frame, &len);
		if (rc <= 0)
			break;
		rc = rpc_send_bytes(s->conn, STRAIT__MSG_TYPE__MSG_LOG, frame, len) == 0;
		s->f->bytes += len;
	}
	if (rc == -ESTALE) {
		s->feeding = false;
		rpc_fail(s->conn, ESTALE, "the reader of the log fell behind, it must resume");
	}
}

static void drain(struct rpc_conn *c, void *ctx)
{
	(void)c;
	pump(ctx);
}

static int on_open(struct rpc_conn *c, void *ctx)
{
	struct fleet_site *s = ctx;
	Strait__SiteRegister msg = STRAIT__SITE_REGISTER__INIT;
	Strait__SiteTenant tenant = STRAIT__SITE_TENANT__INIT, *tenants = &tenant;
	uint8_t id[16] = { 1 }, boot[16] = { 0 };

	memcpy(boot, &s->boot, sizeof(s->boot));
	tenant.name = (char *)"default";
	tenant.id.data = id;
	tenant.id.len = sizeof(id);
	msg.version = LOG_FRAME_VERSION;
	msg.site = s->name;
	msg.boot_id.data = boot;
	msg.boot_id.len = sizeof(boot);
	msg.n_tenants = 1;
	msg.tenants = &tenants;
	msg.program = (char *)"strait-bench";
	return rpc_send(c, STRAIT__MSG_TYPE__MSG_SITE_REGISTER, &msg.base);
}

static void report(struct fleet_site *s, uint64_t now_ns)
{
	Strait__SourceInfo info[SOURCES], *sources[SOURCES];
	Strait__SiteReport msg = STRAIT__SITE_REPORT__INIT;
	char names[SOURCES][24];

	for (uint32_t i = 0; i < SOURCES && i * FLEET_SITES + s->number < FLEET_SUBCLUSTERS; i++) {
		strait__source_info__init(&info[i]);
		snprintf(names[i], sizeof(names[i]), "sub%u", i * FLEET_SITES + s->number);
		info[i].name = names[i];
		info[i].kind = (char *)"mooncake";
		info[i].state = (char *)"live";
		info[i].has_events = info[i].has_age_ms = true;
		info[i].events = s->source_events[i];
		sources[msg.n_sources++] = &info[i];
	}
	msg.ready = msg.has_objects = msg.has_seq = true;
	msg.objects = s->sums->total.count;
	msg.seq = log_next(s->log) - 1;
	msg.sources = sources;
	(void)rpc_send(s->conn, STRAIT__MSG_TYPE__MSG_SITE_REPORT, &msg.base);
	s->report_ns = now_ns;
}

static int on_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len, void *ctx)
{
	struct fleet_site *s = ctx;
	int rc;

	if (type == STRAIT__MSG_TYPE__MSG_SITE_ACCEPT && !s->accepted) {
		s->accepted = s->feeding = true;
		backoff_reset(&s->backoff);
		feed_init(&s->feed, &s->source, &s->gate);
		rpc_set_drain(c, UPLINK_QUEUE / 2, drain);
		report(s, clock_now_ns());
		return 0;
	}
	if (type != STRAIT__MSG_TYPE__MSG_LOG || !s->feeding)
		return -EPROTO;
	rc = feed_input(&s->feed, body, len);
	pump(s);
	return rc == -ENOBUFS ? 0 : rc;
}

static void on_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct fleet_site *s = ctx;

	(void)c;
	if (err != 0 && err != -ECONNREFUSED && err != -ECONNRESET)
		fprintf(stderr, "strait-bench: %s: %s\n", s->name, text);
	if (s->accepted)
		feed_fini(&s->feed);
	s->conn = NULL;
	s->accepted = s->feeding = false;
	s->retry_ns = clock_now_ns() + backoff_next(&s->backoff);
}

static const struct rpc_handler handler = { on_open, on_message, on_close };

static void tick_cb(evutil_socket_t fd, short what, void *arg)
{
	struct fleet *f = arg;
	uint64_t now_ns = clock_now_ns();

	(void)fd;
	(void)what;
	for (int i = 0; i < FLEET_SITES; i++) {
		struct fleet_site *s = &f->site[i];

		log_trim(s->log, now_ns);
		if (s->conn == NULL && now_ns >= s->retry_ns)
			s->conn =
				rpc_connect(f->base, s->tls, f->cfg.address, "master", &handler, s);
		if (s->conn == NULL || !s->accepted)
			continue;
		if (now_ns - s->report_ns >= SECOND)
			report(s, now_ns);
		pump(s);
	}
}

/* ---- start and end ---- */

static int site_start(struct fleet *f, uint32_t number, char *err, size_t err_len)
{
	struct log_config log = { .epoch = keys_mix(number) | 1,
		.keep_ns = 60 * SECOND,
		.max_bytes = LOG_BYTES };
	struct fleet_site *s = &f->site[number];
	uint64_t keys = f->cfg.keys / FLEET_SITES;
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
	struct rpc_tls_config tls = { .ca = ca, .cert = cert, .key = key };

	s->f = f;
	s->number = number;
	s->boot = keys_mix(clock_now_ns());
	snprintf(s->name, sizeof(s->name), "%s", fleet_site(number));
	snprintf(ca, sizeof(ca), "%s/ca.pem", f->cfg.dir);
	snprintf(cert, sizeof(cert), "%s/%s.pem", f->cfg.dir, s->name);
	snprintf(key, sizeof(key), "%s/%s.key", f->cfg.dir, s->name);
	s->tls = rpc_tls_create(&tls, err, err_len);
	s->log = log_create(&log);
	s->sums = sums_create();
	s->first = calloc(DIGEST_BUCKETS, sizeof(*s->first));
	s->next = calloc(DIGEST_BUCKETS, sizeof(*s->next));
	s->appended_ns = calloc(TIMES, sizeof(*s->appended_ns));
	if (s->tls == NULL || s->log == NULL || s->sums == NULL || s->first == NULL ||
		s->next == NULL || s->appended_ns == NULL)
		return -ENOMEM;
	for (uint32_t b = 0; b < DIGEST_BUCKETS; b++) {
		s->next[b] = (uint32_t)(keys / DIGEST_BUCKETS + (b < keys % DIGEST_BUCKETS));
		for (uint32_t n = 0; n < s->next[b]; n++)
			sums_add(s->sums, digest_make(number, b, n));
	}
	gate_init(&s->gate, 1, SECOND, number);
	backoff_init(&s->backoff, SECOND / 10, 2 * SECOND, number + 1);
	s->source = (struct feed_source){ s->log, s->sums, list, s };
	return 0;
}

struct fleet *fleet_create(struct event_base *base, const struct fleet_config *cfg, char *err,
	size_t err_len)
{
	struct timeval every = { 0, TICK_MS * 1000 };
	struct fleet *f = calloc(1, sizeof(*f));
	int rc = 0;

	if (f == NULL)
		return NULL;
	f->base = base;
	f->cfg = *cfg;
	f->seed = 1;
	f->tick = event_new(base, -1, EV_PERSIST, tick_cb, f);
	f->events = event_new(base, -1, EV_PERSIST, events_cb, f);
	if (f->tick == NULL || f->events == NULL)
		rc = -ENOMEM;
	for (uint32_t i = 0; i < FLEET_SITES && rc == 0; i++)
		rc = site_start(f, i, err, err_len);
	if (rc == 0 && event_add(f->tick, &every) == 0)
		return f;
	fleet_destroy(f);
	errno = ENOMEM;
	return NULL;
}

void fleet_destroy(struct fleet *f)
{
	if (f == NULL)
		return;
	for (int i = 0; i < FLEET_SITES; i++) {
		struct fleet_site *s = &f->site[i];

		if (s->accepted)
			feed_fini(&s->feed);
		if (s->tls != NULL)
			rpc_tls_destroy(s->tls);
		log_destroy(s->log);
		sums_destroy(s->sums);
		free(s->first);
		free(s->next);
		free(s->appended_ns);
	}
	if (f->tick != NULL)
		event_free(f->tick);
	if (f->events != NULL)
		event_free(f->events);
	free(f);
}

uint64_t fleet_events(const struct fleet *f)
{
	return f->total;
}

uint64_t fleet_bytes(const struct fleet *f)
{
	return f->bytes;
}

const char *fleet_site(uint32_t site)
{
	static const char names[FLEET_SITES][4] = { "s00", "s01", "s02", "s03", "s04", "s05", "s06",
		"s07", "s08", "s09", "s10", "s11", "s12", "s13", "s14", "s15" };

	return names[site];
}

uint64_t fleet_behind_ns(const struct fleet *f, uint32_t site, uint64_t seq, uint64_t now_ns)
{
	const struct fleet_site *s = &f->site[site];
	uint64_t next = log_next(s->log);

	if (seq + 1 >= next)
		return 0;
	if (next - seq > TIMES)
		seq = next - TIMES;
	return now_ns - s->appended_ns[(seq + 1) % TIMES];
}
