/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/master_client.h"

#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/rpc/strait.pb-c.h"

#include <strait/wire.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MS_NS 1000000ULL

enum {
	PROTOCOL_VERSION = 1,
	BACKOFF_MIN_MS = 200,
	BACKOFF_MAX_MS = 5000,
	REPORT_DEFAULT_MS = 500,
	REPORT_MIN_MS = 50,
	ACCEPT_TIMEOUT_MS = 5000,
	/* Another process of our name is connected: the master looks for it within 10 s. */
	BACKOFF_TAKEN_MIN_MS = 10000,
	BACKOFF_TAKEN_MAX_MS = 30000,
	COMPLAINTS = 8,
	COMPLAINT_MS = 5000,
	COMPLAINT_TAKEN_MS = 60000,
};

/* A reason not to be connected, so that one that repeats does not hide another. */
struct complaint {
	int err;
	uint32_t hash; /* of the text */
	struct log_limit limit;
};

struct master_client {
	struct master_client_config cfg;
	const struct master_client_ops *ops;
	void *ctx;
	struct event_base *base;
	struct rpc_tls *tls;
	struct term *term;
	struct orders *orders;
	struct rpc_conn *conn;
	bool accepted, stopped;
	uint64_t opened_ns, retry_ns, report_ns;
	uint32_t failures, report_ms;
	struct complaint complaints[COMPLAINTS];
};

struct master_client *master_client_create(const struct master_client_config *cfg,
	const struct master_client_ops *ops, void *ctx, struct event_base *base,
	struct rpc_tls *tls, struct term *term, struct orders *orders)
{
	struct master_client *mc = calloc(1, sizeof(*mc));

	if (mc == NULL)
		return NULL;
	mc->cfg = *cfg;
	mc->ops = ops;
	mc->ctx = ctx;
	mc->base = base;
	mc->tls = tls;
	mc->term = term;
	mc->orders = orders;
	mc->report_ms = REPORT_DEFAULT_MS;
	return mc;
}

void master_client_destroy(struct master_client *mc)
{
	free(mc);
}

static int on_open(struct rpc_conn *c, void *ctx)
{
	struct master_client *mc = ctx;
	Strait__EdgeRegister m = STRAIT__EDGE_REGISTER__INIT;

	m.version = PROTOCOL_VERSION;
	m.site = (char *)mc->cfg.site;
	m.edge = (char *)mc->cfg.edge;
	m.boot_id.data = (uint8_t *)mc->cfg.boot_id;
	m.boot_id.len = STRAIT_BOOT_ID_BYTES;
	m.mgmt_address = (char *)mc->cfg.mgmt_address;
	m.highest_term = mc->term->highest;
	m.program = (char *)mc->cfg.program;
	m.n_pool_sites = mc->cfg.pool_site_count;
	m.pool_sites = (char **)mc->cfg.pool_sites;
	m.has_takes_links = true;
	m.takes_links = mc->ops->links != NULL;
	if (mc->ops->registration != NULL)
		mc->ops->registration(mc->ctx, &m);
	mc->opened_ns = clock_now_ns();
	return rpc_send(c, STRAIT__MSG_TYPE__MSG_EDGE_REGISTER, &m.base);
}

/* 0: the master of this term may order. */
static int obey(struct master_client *mc, struct rpc_conn *c, uint64_t term)
{
	int ret = term_check(mc->term, term);

	if (ret == -ESTALE) {
		log_error("master",
			"refused address=%s: its term %" PRIu64 " is below %" PRIu64
			", this master was replaced or lost its ledger; to accept it "
			"anyway stop the edge and remove %s",
			mc->cfg.address, term, mc->term->highest, mc->term->path);
		return rpc_fail(c, ESTALE,
			"term %" PRIu64 " is below %" PRIu64 " seen by this edge", term,
			mc->term->highest);
	}
	if (ret < 0) {
		log_error("master", "cannot keep the term in %s: %s", mc->term->path,
			strerror(-ret));
		return rpc_fail(c, -ret, "the edge cannot write its term");
	}
	return 0;
}

static int on_accept(struct master_client *mc, struct rpc_conn *c, const uint8_t *body, size_t len)
{
	Strait__EdgeAccept *m = strait__edge_accept__unpack(NULL, len, body);
	int ret;

	if (m == NULL)
		return -EPROTO;
	ret = obey(mc, c, m->term);
	if (ret == 0) {
		mc->accepted = true;
		mc->failures = 0;
		mc->report_ns = 0;
		mc->report_ms =
			m->has_report_ms && m->report_ms != 0 ? m->report_ms : REPORT_DEFAULT_MS;
		if (mc->report_ms < REPORT_MIN_MS)
			mc->report_ms = REPORT_MIN_MS;
		log_info("master", "registered address=%s term=%" PRIu64, mc->cfg.address, m->term);
		orders_resend(mc->orders);
	}
	strait__edge_accept__free_unpacked(m, NULL);
	return ret;
}

static int on_order_start(struct master_client *mc, struct rpc_conn *c, const uint8_t *body,
	size_t len)
{
	Strait__OrderStart *m = strait__order_start__unpack(NULL, len, body);
	Strait__OrderAccept reply = STRAIT__ORDER_ACCEPT__INIT;
	const char *text = NULL;
	int ret;

	if (m == NULL)
		return -EPROTO;
	reply.order = m->order;
	if (m->term < mc->term->highest) {
		reply.status = STRAIT_STATUS_REFUSED;
		text = "the term is below one seen by this edge";
	} else {
		ret = obey(mc, c, m->term);
		if (ret < 0)
			goto out;
		reply.status = orders_start(mc->orders, clock_now_ns(), m, &text);
	}
	if (reply.status != STRAIT_STATUS_PENDING)
		log_warn("master", "order refused order=%" PRIu64 ": %s", m->order, text);
	reply.text = (char *)text;
	ret = rpc_send(c, STRAIT__MSG_TYPE__MSG_ORDER_ACCEPT, &reply.base);
out:
	strait__order_start__free_unpacked(m, NULL);
	return ret;
}

static int on_order_cancel(struct master_client *mc, const uint8_t *body, size_t len)
{
	Strait__OrderCancel *m = strait__order_cancel__unpack(NULL, len, body);

	if (m == NULL)
		return -EPROTO;
	if (m->term < mc->term->highest)
		log_warn("master", "cancel refused, stale term order=%" PRIu64, m->order);
	else if (!orders_cancel(mc->orders, m->order))
		log_info("master", "cancel of an order not known here order=%" PRIu64, m->order);
	strait__order_cancel__free_unpacked(m, NULL);
	return 0;
}

static int on_results_ack(struct master_client *mc, const uint8_t *body, size_t len)
{
	Strait__OrderResultsAck *m = strait__order_results_ack__unpack(NULL, len, body);

	if (m == NULL)
		return -EPROTO;
	orders_ack(mc->orders, m);
	strait__order_results_ack__free_unpacked(m, NULL);
	return 0;
}

static int on_links(struct master_client *mc, struct rpc_conn *c, const uint8_t *body, size_t len)
{
	Strait__EdgeLinks *m = strait__edge_links__unpack(NULL, len, body);
	Strait__EdgeLinksAck ack = STRAIT__EDGE_LINKS_ACK__INIT;
	int ret = 0;

	if (m == NULL)
		return -EPROTO;
	if (m->term < mc->term->highest) {
		log_warn("master", "shares refused, stale term");
	} else if (mc->ops->links != NULL && mc->ops->links(mc->ctx, m)) {
		ack.seq = m->seq;
		ret = rpc_send(c, STRAIT__MSG_TYPE__MSG_EDGE_LINKS_ACK, &ack.base);
	}
	strait__edge_links__free_unpacked(m, NULL);
	return ret;
}

static int on_message(struct rpc_conn *c, uint16_t type, const uint8_t *body, size_t len, void *ctx)
{
	struct master_client *mc = ctx;

	if (type == STRAIT__MSG_TYPE__MSG_EDGE_ACCEPT)
		return on_accept(mc, c, body, len);
	if (!mc->accepted)
		return rpc_fail(c, EPROTO, "EDGE_ACCEPT comes first");
	switch (type) {
	case STRAIT__MSG_TYPE__MSG_ORDER_START:
		return on_order_start(mc, c, body, len);
	case STRAIT__MSG_TYPE__MSG_ORDER_CANCEL:
		return on_order_cancel(mc, body, len);
	case STRAIT__MSG_TYPE__MSG_ORDER_RESULTS_ACK:
		return on_results_ack(mc, body, len);
	case STRAIT__MSG_TYPE__MSG_EDGE_LINKS:
		return on_links(mc, c, body, len);
	default:
		return 0; /* of a newer version */
	}
}

/* FNV-1a */
static uint32_t text_hash(const char *text)
{
	uint32_t hash = 2166136261;

	while (*text != '\0')
		hash = (hash ^ (uint8_t)*text++) * 16777619;
	return hash;
}

static void complain(struct master_client *mc, enum log_level level, uint32_t interval_ms, int err,
	const char *text)
{
	uint32_t hash = text_hash(text);
	struct complaint *c = &mc->complaints[hash % COMPLAINTS];
	uint64_t left_out;

	if (c->err != err || c->hash != hash)
		*c = (struct complaint){ .err = err, .hash = hash };
	if (log_limit_pass(&c->limit, interval_ms * MS_NS, &left_out))
		log_write(level, "master", "not connected address=%s: %s suppressed=%" PRIu64,
			mc->cfg.address, text, left_out);
}

static uint64_t jittered_ms(uint64_t min_ms, uint64_t max_ms)
{
	uint32_t jitter = 0;

	if (getrandom(&jitter, sizeof(jitter), GRND_NONBLOCK) != sizeof(jitter))
		jitter = 0;
	return min_ms + jitter % (max_ms - min_ms + 1);
}

static void on_close(struct rpc_conn *c, int err, const char *text, void *ctx)
{
	struct master_client *mc = ctx;
	uint64_t ms = BACKOFF_MIN_MS << (mc->failures < 5 ? mc->failures : 5);

	if (mc->conn != c)
		return;
	if (ms > BACKOFF_MAX_MS)
		ms = BACKOFF_MAX_MS;
	ms = jittered_ms(ms / 2, ms);
	if (err == -EEXIST) {
		/* Not soon, or two edges of one name would take over from each other for ever. */
		complain(mc, LOG_LEVEL_ERROR, COMPLAINT_TAKEN_MS, err, text);
		ms = jittered_ms(BACKOFF_TAKEN_MIN_MS, BACKOFF_TAKEN_MAX_MS);
	} else if (mc->accepted) {
		log_warn("master", "connection lost address=%s: %s", mc->cfg.address, text);
	} else {
		complain(mc, LOG_LEVEL_WARN, COMPLAINT_MS, err, text);
	}
	mc->conn = NULL;
	mc->accepted = false;
	mc->failures++;
	mc->retry_ns = clock_now_ns() + ms * MS_NS;
}

static const struct rpc_handler handler = {
	.on_open = on_open,
	.on_message = on_message,
	.on_close = on_close,
};

static int send_results(void *ctx, const Strait__OrderResults *m)
{
	struct master_client *mc = ctx;

	return rpc_send(mc->conn, STRAIT__MSG_TYPE__MSG_ORDER_RESULTS, &m->base);
}

static void report(struct master_client *mc)
{
	Strait__EdgeReport m = STRAIT__EDGE_REPORT__INIT;

	/* A master that does not read gets no pile of old reports. */
	if (rpc_queued_bytes(mc->conn) > 1 << 20)
		return;
	mc->ops->report(mc->ctx, &m);
	rpc_send(mc->conn, STRAIT__MSG_TYPE__MSG_EDGE_REPORT, &m.base);
}

void master_client_tick(struct master_client *mc, uint64_t now_ns)
{
	if (mc->conn == NULL) {
		if (!mc->stopped && now_ns >= mc->retry_ns) {
			mc->opened_ns = 0;
			mc->conn = rpc_connect(mc->base, mc->tls, mc->cfg.address, "master",
				&handler, mc);
			if (mc->conn == NULL)
				mc->retry_ns = now_ns + BACKOFF_MAX_MS * MS_NS;
		}
		return;
	}
	if (!mc->accepted) {
		if (mc->opened_ns != 0 && now_ns - mc->opened_ns > ACCEPT_TIMEOUT_MS * MS_NS)
			rpc_close(mc->conn);
		return;
	}
	orders_flush(mc->orders, now_ns, send_results, mc);
	if (now_ns - mc->report_ns >= mc->report_ms * MS_NS) {
		mc->report_ns = now_ns;
		report(mc);
	}
}

void master_client_report(struct master_client *mc)
{
	if (mc->accepted)
		report(mc);
}

bool master_client_is_up(const struct master_client *mc)
{
	return mc->accepted;
}

bool master_client_is_flushed(const struct master_client *mc)
{
	return mc->conn == NULL || !mc->accepted || rpc_queued_bytes(mc->conn) == 0;
}

void master_client_stop(struct master_client *mc)
{
	mc->stopped = true;
	if (mc->conn != NULL)
		rpc_close(mc->conn);
}
