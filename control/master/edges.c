/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/base/log.h"
#include "control/master/links.h"
#include "control/master/master.h"
#include "control/master/replication.h"

#include <strait/status.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A client that cannot take more has stopped reading; it gets everything again when it comes
 * back.
 */
static void send_or_close(struct client *c, uint16_t type, const ProtobufCMessage *msg)
{
	int rc = rpc_send(c->conn, type, msg);

	if (rc == -ENOBUFS || rc == -ENOMEM || rc == -EMSGSIZE)
		rpc_fail(c->conn, -rc, "cannot send: %s", strerror(-rc));
}

/*
 * ---- to edges
 * --------------------------------------------------------------------------------------
 */

static void fill_object(const struct shipment *s, uint32_t i, Strait__OrderObject *out)
{
	const struct order_object *obj = &s->order->objects[s->members[i]];

	strait__order_object__init(out);
	out->key.data = (uint8_t *)obj->name + obj->tenant_len;
	out->key.len = obj->key_len;
	out->has_tenant = obj->tenant_len > 0;
	out->tenant.data = (uint8_t *)obj->name;
	out->tenant.len = obj->tenant_len;
	out->has_length = obj->length != 0;
	out->length = obj->length;
	out->has_status = true;
	if (obj->shipment == s)
		out->status = STRAIT_STATUS_PENDING;
	else
		out->status =
			obj->status != STRAIT_STATUS_PENDING ? obj->status : STRAIT_STATUS_SKIPPED;
}

/* Of a shipment as it is; an edge that may send over the LAN may do so since or until now. */
static enum order_way way_of(struct master *m, const struct shipment *s)
{
	const char *edge;

	if (shipment_is_local(s))
		return ORDER_LOCAL;
	return sites_way(m, s->order->from_site, s->order->to_site, &edge) == ORDER_WAN ? ORDER_WAN
											: ORDER_LAN;
}

static void send_start(struct master *m, struct client *c, struct shipment *s)
{
	const struct order *o = s->order;
	const struct edge *to = edge_of(m, o->to_site, s->to_edge);
	Strait__OrderObject *objects = calloc(s->count, sizeof(*objects));
	Strait__OrderObject **pointers = calloc(s->count, sizeof(*pointers));
	Strait__OrderStart msg = STRAIT__ORDER_START__INIT;
	uint64_t share;

	if (objects == NULL || pointers == NULL || to == NULL) {
		rpc_fail(c->conn, ENOMEM, "cannot send order %" PRIu64, s->wire);
		goto out;
	}
	share = shipment_is_local(s) ? sites_cap(m, o->from_site, o->to_site) : links_share(m, s);
	if (share == 0 && !shipment_is_local(s))
		goto out; /* others have all of the cap: as soon as they gave something up */
	for (uint32_t i = 0; i < s->count; i++) {
		fill_object(s, i, &objects[i]);
		pointers[i] = &objects[i];
	}
	msg.term = m->term;
	msg.order = s->wire;
	msg.to_site = (char *)o->to_site;
	msg.to_edge = (char *)to->name;
	msg.has_way = true;
	msg.way = way_of(m, s);
	msg.from_site = (char *)o->from_site;
	msg.to_mgmt_address = (char *)to->mgmt_address;
	msg.class_ = o->class;
	msg.has_deadline_ms = o->deadline_ms != 0;
	msg.deadline_ms = o->deadline_ms;
	msg.has_cap_bps = true;
	msg.cap_bps = share != CAP_NONE ? share : 0;
	msg.has_most_bps = true;
	msg.most_bps = sites_cap(m, o->from_site, o->to_site);
	msg.n_objects = s->count;
	msg.objects = pointers;
	log_info("master", "order sent order=%" PRIu64 " wire=%" PRIu64 " objects=%u from=%s to=%s",
		o->id, s->wire, s->open, s->from_edge, s->to_edge);
	send_or_close(c, STRAIT__MSG_TYPE__MSG_ORDER_START, &msg.base);
out:
	free(objects);
	free(pointers);
}

static void send_cancel(struct master *m, struct client *c, uint64_t wire)
{
	Strait__OrderCancel msg = STRAIT__ORDER_CANCEL__INIT;

	msg.term = m->term;
	msg.order = wire;
	send_or_close(c, STRAIT__MSG_TYPE__MSG_ORDER_CANCEL, &msg.base);
}

static void send_ack(struct client *c, uint64_t wire, uint32_t next, bool forget)
{
	Strait__OrderResultsAck msg = STRAIT__ORDER_RESULTS_ACK__INIT;

	msg.order = wire;
	msg.next = next;
	msg.has_forget = forget;
	msg.forget = forget;
	send_or_close(c, STRAIT__MSG_TYPE__MSG_ORDER_RESULTS_ACK, &msg.base);
}

static struct client *shipper(struct master *m, const struct shipment *s)
{
	const struct edge *e = edge_of(m, s->order->from_site, s->from_edge);

	return e != NULL ? e->client : NULL;
}

bool edge_ships(const struct edge *e, const struct shipment *s)
{
	if (shipment_is_local(s))
		return strcmp(s->from_edge, e->full) == 0;
	return strcmp(s->from_edge, e->name) == 0 && strcmp(s->order->from_site, e->site) == 0;
}

void edges_tell(struct master *m, const struct order *o)
{
	struct shipment *s;

	TAILQ_FOREACH(s, &o->shipments, of_order) {
		struct client *c = s->dirty ? shipper(m, s) : NULL;

		if (c == NULL)
			continue;
		if (s->is_new && s->open > 0)
			send_start(m, c, s);
		else if (s->cancel && !s->is_new)
			send_cancel(m, c, s->wire);
	}
}

void edges_acknowledge(struct master *m)
{
	struct client *c;

	LIST_FOREACH(c, &m->clients, entry) {
		for (size_t i = 0; i < c->nacks; i++) {
			const struct shipment *s =
				orderbook_find_shipment(m->book, c->acks[i].wire);

			send_ack(c, c->acks[i].wire, c->acks[i].next, s == NULL || s->open == 0);
		}
		c->nacks = 0;
	}
}

/* Everything this edge has to do and may have forgotten or never heard of. */
static void resend_all(struct client *c)
{
	struct master *m = c->master;
	const struct edge *e = c->edge;

	for (struct order *o = orderbook_first(m->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order)
			if (s->open > 0 && !s->is_new && edge_ships(e, s))
				send_start(m, c, s);
	}
}

void edges_start(struct master *m, struct shipment *s)
{
	struct client *c = shipper(m, s);

	if (c != NULL)
		send_start(m, c, s);
}

/*
 * ---- from edges
 * ------------------------------------------------------------------------------------
 */

static int refuse(char *why, size_t len, int err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static int refuse(char *why, size_t len, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, len, fmt, ap);
	va_end(ap);
	return -err;
}

/* 0, or -errno and why for the edge and for the log. */
static int check_register(const struct client *c, const Strait__EdgeRegister *msg, char *why,
	size_t len)
{
	const struct rpc_identity *id = rpc_peer(c->conn);
	struct master *m = c->master;
	const struct edge *e;

	if (c->edge != NULL)
		return refuse(why, len, EPROTO, "registered already");
	if (msg->version != MASTER_VERSION)
		return refuse(why, len, EPROTONOSUPPORT,
			"control protocol version %u, this master speaks %d", msg->version,
			MASTER_VERSION);
	if (strcmp(msg->site, id->site) != 0 || strcmp(msg->edge, id->name) != 0)
		return refuse(why, len, EACCES,
			"the edge says it is %.63s of site %.63s, its certificate %s of site %s",
			msg->edge, msg->site, id->name, id->site);
	if (site_find(m, msg->site) == NULL)
		return refuse(why, len, ENOENT,
			"site %s is not known to this master: add it with straitctl site add %s",
			msg->site, msg->site);
	if (msg->boot_id.len != sizeof(c->edge->boot_id) ||
		strchr(msg->mgmt_address, ':') == NULL ||
		strlen(msg->mgmt_address) >= sizeof(c->edge->mgmt_address))
		return refuse(why, len, EINVAL, "malformed registration");
	if (msg->highest_term > m->term)
		return refuse(why, len, ESTALE,
			"this edge has obeyed a master of term %" PRIu64 ", ours is %" PRIu64
			": our ledger is an old copy or another master is in charge; if this one "
			"shall be, start it once with --min-term %" PRIu64,
			msg->highest_term, m->term, msg->highest_term + 1);
	/*
	 * The other connection is alive: silent for 10 s, rpc would have closed it. A restarted
	 * edge therefore waits for that at most, and normally not at all: the old process's
	 * sockets were closed.
	 */
	e = edge_find(m, msg->site, msg->edge);
	if (e != NULL && e->client != NULL &&
		memcmp(e->boot_id, msg->boot_id.data, sizeof(e->boot_id)) != 0)
		return refuse(why, len, EEXIST,
			"another process at %s is edge %.63s of site %.63s and answers; two "
			"must not share a name: stop one or rename it",
			rpc_peer_address(e->client->conn), e->name, e->site);
	return 0;
}

/*
 * For `straitctl status`. Of edges never heard of only those that this master is too old for are
 * kept: they are why a site has no edge after a ledger was lost.
 */
static void remember_refusal(const struct client *c, int err, const char *why)
{
	const struct rpc_identity *id = rpc_peer(c->conn);
	struct edge *e = err == -ESTALE ? edge_put(c->master, id->site, id->name)
					: edge_find(c->master, id->site, id->name);

	if (e == NULL)
		return;
	snprintf(e->refused, sizeof(e->refused), "%s", why);
	e->refused_ms = clock_unix_ms();
}

static unsigned int flags_of(const struct edge *e)
{
	return (e->draining ? LEDGER_EDGE_DRAINING : 0) |
		(e->shares.fenced ? LEDGER_EDGE_LOST : 0) | (e->left ? LEDGER_EDGE_LEFT : 0);
}

int edge_remember(struct master *m, const struct edge *e)
{
	struct ledger_edge row = { e->site, e->name, e->mgmt_address, e->program, e->last_seen_ms,
		flags_of(e) };
	int rc = ledger_edge_put(m->ledger, &row);

	if (rc != 0)
		log_error("master", "ledger: %s", ledger_error(m->ledger));
	return rc;
}

static void take_pool_sites(struct master *m, struct edge *e, const Strait__EdgeRegister *msg)
{
	e->pool_site_count = 0;
	for (size_t i = 0; i < msg->n_pool_sites && i < MASTER_POOL_SITES_MAX; i++) {
		snprintf(e->pool_sites[e->pool_site_count++], ORDERBOOK_SITE_MAX, "%s",
			msg->pool_sites[i]);
		if (!sites_allow_pools(m, e, msg->pool_sites[i]))
			log_warn("master",
				"edge=%s has pools of site=%.63s, which does not name it in its "
				"pools_at: it does not copy for it",
				e->full, msg->pool_sites[i]);
	}
}

static int on_register(struct client *c, const Strait__EdgeRegister *msg)
{
	Strait__EdgeAccept accept = STRAIT__EDGE_ACCEPT__INIT;
	struct master *m = c->master;
	struct edge *e;
	bool is_new;
	char why[256];
	int rc = check_register(c, msg, why, sizeof(why));

	if (rc != 0) {
		log_warn("master", "edge refused peer=%s site=%.63s edge=%.63s reason=%s",
			rpc_peer_address(c->conn), msg->site, msg->edge, why);
		remember_refusal(c, rc, why);
		return rpc_fail(c->conn, -rc, "%s", why);
	}
	is_new = edge_find(m, msg->site, msg->edge) == NULL;
	e = edge_put(m, msg->site, msg->edge);
	if (e == NULL)
		return -ENOMEM;
	if (is_new)
		replication_configure(m); /* its site may have been without */
	if (e->client != NULL) {
		log_warn("master",
			"edge connected again, the older connection goes site=%s edge=%s", e->site,
			e->name);
		rpc_fail(e->client->conn, EEXIST, "a newer connection of edge %s took over",
			e->name);
		edge_disconnected(e->client);
	}
	e->client = c;
	c->edge = e;
	e->refused[0] = '\0';
	e->leaving = e->left = false;
	if (e->report != NULL) { /* it may have been started again */
		free(e->report->trouble);
		e->report->trouble = NULL;
	}
	take_pool_sites(m, e, msg);
	memcpy(e->boot_id, msg->boot_id.data, sizeof(e->boot_id));
	e->since_ms = e->last_seen_ms = clock_unix_ms();
	snprintf(e->mgmt_address, sizeof(e->mgmt_address), "%s", msg->mgmt_address);
	snprintf(e->program, sizeof(e->program), "%s", msg->program != NULL ? msg->program : "");
	links_registered(m, e, msg);
	(void)edge_remember(m, e);
	log_info("master", "edge registered site=%s edge=%s peer=%s mgmt=%s program=%s", e->site,
		e->name, rpc_peer_address(c->conn), e->mgmt_address, e->program);
	accept.term = m->term;
	accept.has_report_ms = true;
	accept.report_ms = (uint32_t)m->cfg->report_ms;
	send_or_close(c, STRAIT__MSG_TYPE__MSG_EDGE_ACCEPT, &accept.base);
	links_update(m);
	resend_all(c);
	master_changed(m); /* orders may have waited for it */
	return 0;
}

/* The shipment, if this edge is the one that ships it. */
static struct shipment *own_shipment(const struct client *c, uint64_t wire)
{
	struct shipment *s = orderbook_find_shipment(c->master->book, wire);

	return s != NULL && edge_ships(c->edge, s) ? s : NULL;
}

static int on_accept(struct client *c, const Strait__OrderAccept *msg)
{
	struct shipment *s = own_shipment(c, msg->order);

	if (s == NULL || msg->status == STRAIT_STATUS_PENDING)
		return 0;
	log_warn("master", "order refused wire=%" PRIu64 " edge=%s status=%s text=%.200s",
		msg->order, c->edge->name, strait_status_name(msg->status),
		msg->text != NULL ? msg->text : "");
	if (msg->status == STRAIT_STATUS_RESET) /* it drains: another edge of the site, if any */
		c->edge->leaving = true;
	orderbook_shipment_end(c->master->book, msg->order,
		msg->status < STRAIT_STATUS_COUNT ? msg->status : STRAIT_STATUS_INTERNAL, msg->text,
		clock_unix_ms());
	master_changed(c->master);
	return 0;
}

static int on_results(struct client *c, const Strait__OrderResults *msg)
{
	struct master *m = c->master;
	struct shipment *s = own_shipment(c, msg->order);
	uint64_t now_ms = clock_unix_ms();
	const Strait__ObjectResult *last = NULL; /* that tells whether they reach each other */

	if (s != NULL && msg->n_results > s->count)
		return rpc_fail(c->conn, EINVAL, "order %" PRIu64 " has %u objects, not %zu",
			msg->order, s->count, msg->n_results);
	for (size_t i = 0; s != NULL && i < msg->n_results; i++) {
		const Strait__ObjectResult *r = msg->results[i];
		int rc = orderbook_result(m->book, msg->order, r->index, r->status, r->length,
			now_ms);

		if (rc == -EINVAL)
			return rpc_fail(c->conn, EINVAL, "order %" PRIu64 " has no object %u",
				msg->order, r->index);
		if (r->status == STRAIT_STATUS_UNREACHABLE || r->status == STRAIT_STATUS_COMMITTED)
			last = r;
	}
	if (last != NULL)
		links_reached(m, s, last->status == STRAIT_STATUS_COMMITTED);
	if (s != NULL && msg->text != NULL && msg->n_results > 0) {
		orderbook_explain(m->book, msg->order, msg->text);
		log_info("master", "deadline cannot be met order=%" PRIu64 ": %.250s", s->order->id,
			msg->text);
	}
	if (c->nacks == c->acks_room) {
		size_t room = c->acks_room * 2 + 16;
		struct pending_ack *acks = realloc(c->acks, room * sizeof(*acks));

		if (acks == NULL)
			return -ENOMEM;
		c->acks = acks;
		c->acks_room = room;
	}
	c->acks[c->nacks++] = (struct pending_ack){ .wire = msg->order,
		.next = msg->first + (uint32_t)msg->n_results };
	master_changed(m);
	return 0;
}

static void measure_rate(struct order *o, uint64_t now_ms)
{
	uint64_t done, total;

	order_progress(o, &done, &total);
	done -= o->existed_bytes; /* nobody carried those */
	progress_rate_add(&o->rate, now_ms, done);
}

static int on_report(struct client *c, Strait__EdgeReport *msg)
{
	struct edge *e = c->edge;
	uint64_t now_ms = clock_unix_ms();

	if (e->report != NULL)
		strait__edge_report__free_unpacked(e->report, NULL);
	e->report = msg;
	e->last_seen_ms = now_ms;
	e->leaving = e->leaving || (msg->has_leaving && msg->leaving > 0);
	for (size_t i = 0; i < msg->n_orders; i++) {
		const Strait__OrderProgress *p = msg->orders[i];
		struct shipment *s = own_shipment(c, p->order);

		if (s == NULL) { /* finished, canceled or handed to another edge meanwhile */
			send_cancel(c->master, c, p->order);
			send_ack(c, p->order, UINT32_MAX, true);
			continue;
		}
		s->progress_done_bytes = p->bytes_done;
		s->progress_total_bytes = p->bytes_total;
		measure_rate(s->order, now_ms);
	}
	return 0;
}

static int on_links_ack(struct client *c, const Strait__EdgeLinksAck *msg)
{
	bool fenced = c->edge->shares.fenced;

	shares_acked(&c->master->shares, &c->edge->shares, msg->seq);
	if (fenced && !c->edge->shares.fenced)
		(void)edge_remember(c->master, c->edge); /* it is heard again */
	/* what was given up goes to others now */
	links_update(c->master);
	return 0;
}

int edge_message(struct client *c, uint16_t type, const uint8_t *body, size_t len)
{
	Strait__EdgeRegister *reg;
	Strait__OrderAccept *accept;
	Strait__OrderResults *results;
	Strait__EdgeLinksAck *links;
	Strait__EdgeReport *report;
	int rc = -EBADMSG;

	if (type == STRAIT__MSG_TYPE__MSG_REQUEST)
		return rpc_fail(c->conn, EACCES,
			"a certificate of role edge cannot operate: use one of role operator");
	if (type != STRAIT__MSG_TYPE__MSG_EDGE_REGISTER && c->edge == NULL)
		return rpc_fail(c->conn, EPROTO, "register first");
	switch (type) {
	case STRAIT__MSG_TYPE__MSG_EDGE_REGISTER:
		reg = strait__edge_register__unpack(NULL, len, body);
		if (reg != NULL) {
			rc = on_register(c, reg);
			strait__edge_register__free_unpacked(reg, NULL);
		}
		return rc;
	case STRAIT__MSG_TYPE__MSG_ORDER_ACCEPT:
		accept = strait__order_accept__unpack(NULL, len, body);
		if (accept != NULL) {
			rc = on_accept(c, accept);
			strait__order_accept__free_unpacked(accept, NULL);
		}
		return rc;
	case STRAIT__MSG_TYPE__MSG_ORDER_RESULTS:
		results = strait__order_results__unpack(NULL, len, body);
		if (results != NULL) {
			rc = on_results(c, results);
			strait__order_results__free_unpacked(results, NULL);
		}
		return rc;
	case STRAIT__MSG_TYPE__MSG_EDGE_REPORT:
		report = strait__edge_report__unpack(NULL, len, body);
		return report != NULL ? on_report(c, report) : rc;
	case STRAIT__MSG_TYPE__MSG_EDGE_LINKS_ACK:
		links = strait__edge_links_ack__unpack(NULL, len, body);
		if (links != NULL) {
			rc = on_links_ack(c, links);
			strait__edge_links_ack__free_unpacked(links, NULL);
		}
		return rc;
	default:
		return -EOPNOTSUPP;
	}
}

void edge_disconnected(struct client *c)
{
	struct edge *e = c->edge;

	if (e == NULL)
		return;
	c->edge = NULL;
	c->nacks = 0;
	if (e->client != c)
		return;
	e->client = NULL;
	shares_disconnected(&e->shares, clock_now_ns());
	e->last_seen_ms = clock_unix_ms();
	if (e->report != NULL && e->report->has_leaving && e->report->leaving > 1) {
		e->left = true;
		shares_ended(&c->master->shares, &e->shares);
		(void)edge_remember(c->master, e);
	}
	for (size_t i = 0; e->report != NULL && i < e->report->n_links; i++) {
		e->report->links[i]->has_up = true;
		e->report->links[i]->up = false;
		e->report->links[i]->goodput_bps = 0;
	}
}
