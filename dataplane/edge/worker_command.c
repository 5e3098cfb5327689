/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/worker_priv.h"

static unsigned int index_start(uint32_t id)
{
	return (id * 0x9e3779b1u) >> 24; /* 256 places */
}

static_assert(WORKER_INDEX_SIZE == 256, "index_start() takes 8 bits");

struct worker_slot *worker_find(struct worker *w, uint32_t session_id)
{
	/* A quarter full at most, so an empty place always ends the search. */
	for (unsigned int i = index_start(session_id);; i++) {
		uint8_t at = w->index[i % WORKER_INDEX_SIZE];

		if (at == 0)
			return NULL;
		if (w->slots[at - 1].session_id == session_id)
			return &w->slots[at - 1];
	}
}

void worker_index_rebuild(struct worker *w)
{
	memset(w->index, 0, sizeof(w->index));
	for (unsigned int n = 0; n < WORKER_SESSIONS_MAX; n++) {
		unsigned int i = index_start(w->slots[n].session_id);

		if (w->slots[n].state != WORKER_SLOT_LIVE)
			continue;
		while (w->index[i % WORKER_INDEX_SIZE] != 0)
			i++;
		w->index[i % WORKER_INDEX_SIZE] = (uint8_t)(n + 1);
	}
}

static struct worker_slot *slot_of(struct worker *w, const struct session *session)
{
	for (unsigned int i = 0; i < WORKER_SESSIONS_MAX; i++) {
		struct worker_slot *s = &w->slots[i];

		if (s->state == WORKER_SLOT_LIVE &&
			atomic_load_explicit(&s->session, memory_order_relaxed) == session)
			return s;
	}
	return NULL;
}

static void session_add(struct worker *w, const struct worker_command *c)
{
	const struct worker_event gone = { .type = WORKER_EVENT_SESSION_GONE,
		.session = c->session };
	struct worker_slot *s = NULL;
	struct net_flow flow;
	struct net_ip hop;

	for (unsigned int i = 0; i < WORKER_SESSIONS_MAX && s == NULL; i++) {
		if (w->slots[i].state == WORKER_SLOT_FREE)
			s = &w->slots[i];
	}
	if (s == NULL || worker_find(w, c->session_id) != NULL) {
		worker_event_push(w, &gone);
		return;
	}
	if (s >= &w->slots[w->slots_used])
		w->slots_used = (unsigned int)(s - w->slots) + 1;
	s->endpoint = c->endpoint;
	if (!net_ip_is_set(s->endpoint.local_ip))
		s->endpoint.local_ip = w->port->cfg.ip;
	if (s->endpoint.local_port == 0)
		s->endpoint.local_port = w->port->self.udp_port;
	flow = (struct net_flow){ .src = s->endpoint.local_ip,
		.dst = s->endpoint.remote_ip,
		.src_port = s->endpoint.local_port,
		.dst_port = s->endpoint.remote_port,
		.dscp = s->endpoint.dscp & 63 };
	net_header_init(&s->header, &flow, w->port->self.mac);

	hop = port_next_hop(w->port, s->endpoint.remote_ip);
	s->hop = NULL;
	if (net_ip_is_set(hop))
		s->hop = arp_cache_get(&w->arp, hop,
			w->port->cfg.has_next_hop_mac ? w->port->cfg.next_hop_mac : NULL,
			w->now_ns);
	s->hop_changes = s->hop != NULL ? s->hop->changes - 1 : 0;
	s->unresolved_ns = 0;
	s->session_id = c->session_id;
	memset(s->tx, 0, sizeof(s->tx));
	memset(s->rx, 0, sizeof(s->rx));
	s->state = WORKER_SLOT_LIVE;
	s->active = true;
	atomic_store_explicit(&s->session, c->session, memory_order_release);
	worker_publish_session(s);
	worker_index_rebuild(w);
}

static void session_del(struct worker *w, struct worker_slot *s, uint8_t status)
{
	session_reset(atomic_load_explicit(&s->session, memory_order_relaxed), status);
	if (s->hop != NULL)
		arp_cache_put(&w->arp, s->hop);
	s->hop = NULL;
	s->state = WORKER_SLOT_DRAINING;
	s->active = true;
	worker_index_rebuild(w);
}

/* Pointers are compared before anything looks at what they point to: it may be gone already. */
static bool holds_tx(struct worker_slot *s, const struct tx_transfer *t, struct tx_transfer *new)
{
	for (unsigned int i = 0; i < SESSION_TRANSFERS_MAX; i++) {
		if (s->tx[i] == t) {
			if (new != NULL)
				s->tx[i] = new;
			return true;
		}
	}
	return false;
}

static bool holds_rx(struct worker_slot *s, const struct rx_transfer *t, struct rx_transfer *new)
{
	for (unsigned int i = 0; i < SESSION_TRANSFERS_MAX; i++) {
		if (s->rx[i] == t) {
			if (new != NULL)
				s->rx[i] = new;
			return true;
		}
	}
	return false;
}

static void tx_start(struct worker *w, struct worker_slot *s, const struct worker_command *c)
{
	const struct worker_event rejected = { .type = WORKER_EVENT_TX_REJECTED,
		.session = c->session,
		.ev = { .tx = c->tx } };

	if (s == NULL || !holds_tx(s, NULL, NULL) ||
		session_tx_start(c->session, w->now_ns, c->tx) != 0) {
		worker_event_push(w, &rejected);
		return;
	}
	holds_tx(s, NULL, c->tx);
}

static void rx_attach(struct worker *w, struct worker_slot *s, const struct worker_command *c)
{
	const struct worker_event rejected = { .type = WORKER_EVENT_RX_REJECTED,
		.session = c->session,
		.ev = { .rx = c->rx } };

	if (s == NULL || !holds_rx(s, NULL, NULL) ||
		session_rx_attach(c->session, w->now_ns, c->rx) != 0) {
		worker_event_push(w, &rejected);
		return;
	}
	holds_rx(s, NULL, c->rx);
}

static void on_tx(struct worker_slot *s, const struct worker_command *c)
{
	if (c->tx == NULL || !holds_tx(s, c->tx, NULL))
		return;
	if (c->type == WORKER_TX_READY)
		session_tx_object_ready(c->session, c->tx, c->object, c->data);
	else if (c->type == WORKER_TX_GONE)
		session_tx_object_gone(c->session, c->tx, c->object, c->status);
	else
		session_tx_cancel(c->session, c->tx, c->status);
}

static void on_rx(struct worker *w, struct worker_slot *s, const struct worker_command *c)
{
	if (c->rx == NULL || !holds_rx(s, c->rx, NULL))
		return;
	if (c->type == WORKER_RX_BEGIN)
		session_rx_begin(c->session, w->now_ns, c->rx);
	else if (c->type == WORKER_RX_PLACE)
		session_rx_object_place(c->session, w->now_ns, c->rx, c->object);
	else
		session_rx_object_finish(c->session, c->rx, c->object, c->status);
}

static void command(struct worker *w, const struct worker_command *c)
{
	struct worker_slot *s = slot_of(w, c->session);

	if (s != NULL)
		s->active = true;
	switch (c->type) {
	case WORKER_SESSION_ADD:
		session_add(w, c);
		return;
	case WORKER_TX_START:
		tx_start(w, s, c);
		return;
	case WORKER_RX_ATTACH:
		rx_attach(w, s, c);
		return;
	default:
		break;
	}
	if (s == NULL)
		return;
	switch (c->type) {
	case WORKER_SESSION_DEL:
		session_del(w, s, c->status);
		break;
	case WORKER_SESSION_CAP:
		session_set_cap(c->session, w->now_ns, c->value);
		break;
	case WORKER_TX_READY:
	case WORKER_TX_GONE:
	case WORKER_TX_CANCEL:
		on_tx(s, c);
		break;
	case WORKER_RX_REFUSE:
		session_rx_refuse(c->session, (uint32_t)c->value, c->status);
		break;
	case WORKER_RX_BEGIN:
	case WORKER_RX_PLACE:
	case WORKER_RX_FINISH:
		on_rx(w, s, c);
		break;
	default:
		break;
	}
}

unsigned int worker_commands(struct worker *w)
{
	struct worker_command c;
	unsigned int n = 0;

	while (n < WORKER_COMMANDS_PER_TURN && rte_ring_free_count(w->events) > 0 &&
		rte_ring_sc_dequeue_elem(w->commands, &c, sizeof(c)) == 0) {
		command(w, &c);
		n++;
	}
	return n;
}
