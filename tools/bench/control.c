/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/rpc/rpc.h"
#include "control/rpc/strait.pb-c.h"
#include "tools/bench/fleet.h"
#include "tools/bench/host.h"
#include "tools/bench/keys.h"
#include "tools/bench/master.h"
#include "tools/bench/tempdir.h"

#include <event2/event.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The inter-dc master under the load of a whole deployment: a real strait-master over mutual TLS,
 * and the site masters of fleet.h. Each run starts the master anew, waits until its view of all
 * sites is live, then has events go on and asks it, as straitctl does, which event of each site it
 * has applied. So what is called staleness is the age of the oldest event that the answer does not
 * know, as it arrives: no clock and no word of the master is in it.
 */

enum {
	POLL_US = 20000,
	SAMPLES_MAX = 1 << 20,
	READY_MAX_S = 600,
	WARM_UP_S = 2,
};

struct watch {
	struct event_base *base;
	struct fleet *fleet;
	struct rpc_tls *tls;
	struct rpc_conn *conn;
	struct event *poll;
	char address[64];
	bool open, asked;
	bool live;     /* all views are */
	bool sampling; /* staleness is */
	uint32_t *us, n;
	uint64_t until_ns;
};

static void ask(struct watch *w)
{
	Strait__Request req = STRAIT__REQUEST__INIT;

	req.verb = STRAIT__REQUEST__VERB__REPLICATION;
	w->asked = rpc_send(w->conn, STRAIT__MSG_TYPE__MSG_REQUEST, &req.base) == 0;
}

static void look(struct watch *w, const Strait__Reply *r)
{
	uint64_t now_ns = clock_now_ns();
	unsigned int live = 0;

	for (size_t i = 0; i < r->n_views; i++) {
		const Strait__SiteView *v = r->views[i];
		uint64_t us;

		live += strcmp(v->state, "live") == 0 && v->connected;
		if (!w->sampling || w->n == SAMPLES_MAX)
			continue;
		for (uint32_t k = 0; k < FLEET_SITES; k++) {
			if (strcmp(fleet_site(k), v->site) != 0)
				continue;
			us = fleet_behind_ns(w->fleet, k, v->seq, now_ns) / 1000;
			w->us[w->n++] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
		}
	}
	w->live = live == FLEET_SITES;
}

static int on_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len, void *ctx)
{
	Strait__Reply *r;

	(void)c;
	if (type != STRAIT__MSG_TYPE__MSG_REPLY)
		return -EPROTO;
	r = strait__reply__unpack(NULL, len, body);
	if (r == NULL)
		return -EBADMSG;
	look(ctx, r);
	strait__reply__free_unpacked(r, NULL);
	((struct watch *)ctx)->asked = false;
	return 0;
}

static int on_open(struct rpc_conn *c, void *ctx)
{
	(void)c;
	((struct watch *)ctx)->open = true;
	return 0;
}

static void on_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct watch *w = ctx;

	(void)c;
	(void)err;
	(void)text;
	w->conn = NULL;
	w->open = w->asked = w->live = false;
}

static const struct rpc_handler handler = { on_open, on_message, on_close };

static void poll_cb(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;

	(void)fd;
	(void)what;
	if (w->conn == NULL)
		w->conn = rpc_connect(w->base, w->tls, w->address, "master", &handler, w);
	else if (w->open && !w->asked)
		ask(w);
	if (clock_now_ns() >= w->until_ns || (!w->sampling && w->live && w->until_ns > 0))
		event_base_loopbreak(w->base);
}

/* Until all views are live, or for a time. */
static void run_until_live(struct watch *w, double seconds)
{
	w->sampling = w->live = false;
	w->until_ns = clock_now_ns() + (uint64_t)(seconds * 1e9);
	event_base_dispatch(w->base);
}

static void run_for(struct watch *w, double seconds)
{
	w->sampling = true;
	w->until_ns = clock_now_ns() + (uint64_t)(seconds * 1e9);
	event_base_dispatch(w->base);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double quantile_ms(struct watch *w, double q)
{
	qsort(w->us, w->n, sizeof(*w->us), compare);
	return w->n == 0 ? 0 : w->us[(uint32_t)((w->n - 1) * q)] * 1e-3;
}

static int measure(const struct bench_options *o, struct watch *w, struct master_process *m,
	struct result *r)
{
	uint64_t bytes = fleet_bytes(w->fleet), ours_ns = host_cpu_ns(), began_ns, cpu_ns, events;
	double s, idle_bytes = (double)master_resident(m);

	run_until_live(w, READY_MAX_S);
	if (!w->live)
		return -ETIMEDOUT;
	s = (double)(host_now_ns() - m->began_ns) * 1e-9;
	result_add(r, "ready_s", s);
	result_add(r, "ready_cpu_s", (double)master_cpu_ns(m) * 1e-9);
	result_add(r, "ready_bench_cpu_s", (double)(host_cpu_ns() - ours_ns) * 1e-9);
	result_add(r, "snapshot_mbytes", (double)(fleet_bytes(w->fleet) - bytes) * 1e-6);
	result_add(r, "resident_gib", (double)master_resident(m) / (1 << 30));
	result_add(r, "bytes_per_key", (double)master_resident(m) / (double)o->keys);
	result_add(r, "idle_mib", idle_bytes / (1 << 20));
	fleet_rate(w->fleet, o->rate);
	run_for(w, WARM_UP_S);
	w->n = 0;
	cpu_ns = master_cpu_ns(m);
	events = fleet_events(w->fleet);
	began_ns = host_now_ns();
	run_for(w, o->seconds);
	s = (double)(host_now_ns() - began_ns) * 1e-9;
	result_add(r, "events_per_s", (double)(fleet_events(w->fleet) - events) / s);
	result_add(r, "master_cpu", (double)(master_cpu_ns(m) - cpu_ns) * 1e-9 / s);
	result_add(r, "staleness_p50_ms", quantile_ms(w, 0.5));
	result_add(r, "staleness_p99_ms", quantile_ms(w, 0.99));
	result_add(r, "staleness_max_ms", quantile_ms(w, 1));
	result_add(r, "samples", w->n);
	fleet_rate(w->fleet, 0);
	return 0;
}

static int watch_start(struct watch *w, const struct master_process *m, char *err, size_t err_len)
{
	struct timeval every = { 0, POLL_US };
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
	struct rpc_tls_config tls = { .ca = ca, .cert = cert, .key = key };

	snprintf(ca, sizeof(ca), "%s/ca.pem", m->dir);
	snprintf(cert, sizeof(cert), "%s/operator.pem", m->dir);
	snprintf(key, sizeof(key), "%s/operator.key", m->dir);
	snprintf(w->address, sizeof(w->address), "%s", m->address);
	w->us = malloc(SAMPLES_MAX * sizeof(*w->us));
	w->tls = rpc_tls_create(&tls, err, err_len);
	w->poll = event_new(w->base, -1, EV_PERSIST, poll_cb, w);
	if (w->us == NULL || w->tls == NULL || w->poll == NULL || event_add(w->poll, &every) < 0)
		return -ENOMEM;
	return 0;
}

int control_load_run(const struct bench_options *o, struct result *r)
{
	struct master_process m = { 0 };
	struct watch w = { .base = event_base_new() };
	char err[512] = "";
	int ret = w.base == NULL ? -ENOMEM : master_prepare(&m, o->keys, err, sizeof(err));
	struct fleet_config cfg = { .dir = m.dir, .address = m.address, .keys = o->keys };

	if (ret == 0) {
		w.fleet = fleet_create(w.base, &cfg, err, sizeof(err));
		ret = w.fleet == NULL ? -errno : watch_start(&w, &m, err, sizeof(err));
	}
	for (uint32_t i = 0; i < o->runs && ret == 0; i++) {
		ret = master_spawn(&m);
		if (ret == 0)
			ret = measure(o, &w, &m, r);
		master_stop(&m);
	}
	if (err[0] != '\0')
		fprintf(stderr, "strait-bench: %s\n", err);
	if (w.poll != NULL)
		event_free(w.poll);
	if (w.tls != NULL)
		rpc_tls_destroy(w.tls);
	fleet_destroy(w.fleet);
	if (w.base != NULL)
		event_base_free(w.base);
	free(w.us);
	tempdir_remove();
	return ret;
}
