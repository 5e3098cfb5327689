/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/world.h"

#include "dataplane/transport/scratch.h"
#include "tools/sim/content.h"
#include "tools/sim/endpoint.h"
#include "tools/sim/light.h"
#include "tools/sim/phases.h"
#include "tools/sim/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S  1000000000ULL
#define NS_PER_MS 1000000ULL

/*
 * Ethernet, IPv4 and UDP headers: what the link model calls the frame is the datagram and these.
 */
static uint32_t frame_header_bytes(const struct world *w)
{
	return w->cfg.ipv6 ? 62 : 42;
}

/* A core that asks to be called at once and then sends nothing is looked at again after this. */
enum { SPIN_NS = 1000, SPINS_MAX = 1000000 };

void world_fail(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->error[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w->error, sizeof(w->error), fmt, ap);
	va_end(ap);
}

/* ---- control threads ------------------------------------------------------------------------ */

static int control_push(struct world_control *c, uint64_t due_ns, const struct session_event *ev)
{
	if (c->len == c->cap) {
		size_t cap = c->cap ? 2 * c->cap : 256;
		struct world_control_event *ring = malloc(cap * sizeof(*ring));

		if (!ring)
			return -ENOMEM;
		for (size_t i = 0; i < c->len; i++)
			ring[i] = c->ring[(c->head + i) % c->cap];
		free(c->ring);
		c->ring = ring;
		c->head = 0;
		c->cap = cap;
	}
	c->ring[(c->head + c->len++) % c->cap] =
		(struct world_control_event){ .due_ns = due_ns, .ev = *ev };
	return 0;
}

static void control_poll(struct world *w, enum world_side side)
{
	struct session_event ev;

	while (session_poll(w->session[side], &ev)) {
		if (ev.type == SESSION_EVENT_UP)
			w->up[side] = true;
		if (ev.type == SESSION_EVENT_DEAD)
			w->dead[side] = true;
		if (control_push(&w->control[side], w->now_ns + w->cfg.control_delay_ns, &ev) < 0)
			world_fail(w, "no memory for events");
	}
}

static void control_answer(struct world *w, enum world_side side)
{
	struct world_control *c = &w->control[side];
	struct session_event ev = c->ring[c->head].ev;

	c->head = (c->head + 1) % c->cap;
	c->len--;
	if (side == WORLD_SOURCE)
		source_event(w, &ev);
	else
		sink_event(w, &ev);
}

/* ---- the wire ------------------------------------------------------------------------------- */

static bool is_symbol(const uint8_t *packet)
{
	unsigned int type = packet[STRAIT_OFF_VERSION_TYPE] & 15;

	return type == STRAIT_PACKET_DATA || type == STRAIT_PACKET_MANIFEST;
}

static void arrive(struct world *w, enum world_side from, uint32_t packet)
{
	const struct world_packet *p = &w->wire.packets[packet];
	const uint8_t *bytes = wire_bytes(&w->wire, packet);
	struct trace_bin *bin = trace_at(&w->trace, w->now_ns);
	int rc;

	if (p->planted) {
		attack_deliver(w->attack, w, from, bytes, p->len, p->right);
		wire_put(&w->wire, packet);
		return;
	}
	if (from == WORLD_SOURCE && !p->corrupt && is_symbol(bytes))
		spurious_arrived(&w->spurious, w->session[from], bytes);
	if (!p->copy && !p->corrupt && is_symbol(bytes)) {
		w->f[from].symbols_in++;
		w->f[from].symbols_in_bytes += p->len - STRAIT_OVERHEAD_BYTES;
		if ((bytes[STRAIT_OFF_VERSION_TYPE] & 15) == STRAIT_PACKET_DATA) {
			w->f[from].data_in_bytes += p->len - STRAIT_OVERHEAD_BYTES;
			if (from == WORLD_SOURCE && bin)
				bin->good_bytes += p->len - STRAIT_OVERHEAD_BYTES;
		}
	}
	if (w->hooks.on_arrive)
		w->hooks.on_arrive(w, from, bytes, p->len, w->hooks.user);
	rc = session_recv(w->session[!from], w->now_ns, bytes, p->len);
	if (from == WORLD_SINK)
		spurious_look(&w->spurious, w->session[WORLD_SOURCE]);
	if (w->attack)
		attack_arrived(w->attack, w, from, bytes, p->len, rc);
	wire_put(&w->wire, packet);
}

/* What became of a packet of the source that met the link. */
static void trace_sent(struct world *w, size_t len, uint64_t backlog_bytes,
	const struct link_verdict *v)
{
	struct trace_bin *bin = trace_at(&w->trace, w->now_ns);

	if (v->depart_ns) {
		uint64_t line = len + world_line_overhead(&w->cfg);
		uint64_t rate = w->cfg.link[WORLD_SOURCE].rate_bps;
		uint64_t own_ns = rate ? line * 8 * NS_PER_S / rate : 0;
		uint64_t spent_ns = v->depart_ns - w->now_ns;

		histogram_add(&w->queueing, spent_ns > own_ns ? spent_ns - own_ns : 0);
	}
	if (!bin)
		return;
	bin->offered_bytes += len + world_line_overhead(&w->cfg);
	bin->packets++;
	bin->lost += v->n == 0;
	if (backlog_bytes > bin->queue_bytes)
		bin->queue_bytes = backlog_bytes;
}

/* Takes the buffer over. */
static void transmit(struct world *w, enum world_side side, uint32_t packet, size_t len)
{
	struct world_figures *f = &w->f[side];
	uint8_t *bytes = wire_bytes(&w->wire, packet);
	bool symbol = is_symbol(bytes);
	struct link_verdict v;
	uint64_t backlog;

	f->packets++;
	f->line_bytes += len + world_line_overhead(&w->cfg);
	f->symbols += symbol;
	if (audit_packet(&w->audit[side], w->now_ns, bytes, len) < 0)
		world_fail(w, "a packet of %zu bytes could not be audited", len);
	if (side == WORLD_SOURCE && symbol)
		spurious_sent(&w->spurious, w->session[side], bytes);
	if (w->hooks.on_send &&
		w->hooks.on_send(w, side, bytes, len, w->hooks.user) == WORLD_LOSE) {
		f->symbols_line += symbol;
		f->symbols_lost += symbol;
		wire_put(&w->wire, packet);
		return;
	}
	backlog = w->trace.bin_ns ? link_backlog_bytes(&w->link[side], w->now_ns) : 0;
	link_send(&w->link[side], w->now_ns, (uint32_t)len + frame_header_bytes(w), &v);
	if (w->attack)
		attack_sent(w->attack, w, side, bytes, len, v.n ? v.a[0].at_ns : 0);
	if (side == WORLD_SOURCE)
		trace_sent(w, len, backlog, &v);
	f->symbols_queue += symbol && v.depart_ns == 0;
	f->symbols_line += symbol && v.depart_ns != 0;
	f->symbols_lost += symbol && v.depart_ns != 0 && (v.n == 0 || v.a[0].corrupt_seed != 0);
	if (side == WORLD_SOURCE && symbol)
		phases_mark(w);
	for (unsigned int i = v.n; i-- > 0;) {
		/* The original, last in this loop, keeps the buffer. */
		uint32_t slot = i ? wire_get(&w->wire) : packet;
		struct world_packet *p;

		if (slot == UINT32_MAX) {
			world_fail(w, "no memory for packets");
			continue;
		}
		if (slot != packet)
			memcpy(wire_bytes(&w->wire, slot), wire_bytes(&w->wire, packet), len);
		p = &w->wire.packets[slot];
		*p = (struct world_packet){ .len = (uint32_t)len, .copy = v.a[i].copy };
		if (v.a[i].corrupt_seed) {
			p->corrupt = true;
			link_corrupt(v.a[i].corrupt_seed, w->cfg.link[side].corrupt_bits,
				wire_bytes(&w->wire, slot), len, 0);
		}
		if (delayq_push(&w->queue[side], v.a[i].at_ns, slot) < 0) {
			world_fail(w, "no memory for packets under way");
			wire_put(&w->wire, slot);
		}
	}
	if (v.n == 0)
		wire_put(&w->wire, packet);
}

/* Let a session send what it wants to send now, and note when it wants to be called again. */
static void pump(struct world *w, enum world_side side)
{
	struct session *s = w->session[side];
	uint64_t next = session_next(s, w->now_ns);

	while (next <= w->now_ns && !w->error[0]) {
		uint32_t packet = wire_get(&w->wire);
		size_t len;

		if (packet == UINT32_MAX) {
			world_fail(w, "no memory for packets");
			break;
		}
		len = session_send(s, w->now_ns, wire_bytes(&w->wire, packet), w->wire.stride);
		if (len == 0) {
			wire_put(&w->wire, packet);
			next = session_next(s, w->now_ns);
			if (next <= w->now_ns) {
				next = w->now_ns + SPIN_NS;
				if (++w->spins > SPINS_MAX)
					world_fail(w, "%s asks to send at once but has nothing",
						side == WORLD_SOURCE ? "the source" : "the sink");
			}
			break;
		}
		transmit(w, side, packet, len);
		next = session_next(s, w->now_ns);
	}
	w->wake_ns[side] = next;
	spurious_look(&w->spurious, w->session[WORLD_SOURCE]);
	control_poll(w, side);
}

/* ---- the loop ------------------------------------------------------------------------------- */

static uint64_t control_next_ns(const struct world_control *c)
{
	return c->len ? c->ring[c->head].due_ns : UINT64_MAX;
}

uint64_t world_next_ns(const struct world *w)
{
	uint64_t t = UINT64_MAX;

	for (int side = 0; side < WORLD_SIDES; side++) {
		uint64_t of[] = { w->wake_ns[side], delayq_next_ns(&w->queue[side]),
			control_next_ns(&w->control[side]) };

		for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
			if (of[i] < t)
				t = of[i];
	}
	if (cross_next_ns(&w->cross) < t)
		t = cross_next_ns(&w->cross);
	return t > w->now_ns ? t : w->now_ns;
}

/* Other traffic, and the view of the source at the end of a bin that is over. */
static void step_cross(struct world *w, uint64_t t)
{
	uint64_t before = w->cross.bytes[WORLD_SOURCE];
	struct trace_bin *bin;

	if (w->trace.bin_ns && t >= w->trace.next_ns) {
		struct session_stats stats;

		session_stats(w->session[WORLD_SOURCE], &stats);
		if (w->trace.n) {
			bin = &w->trace.bins[w->trace.n - 1];
			bin->outstanding_bytes = stats.outstanding_bytes;
			bin->rtt_ns = stats.srtt_ns;
		}
		if (!trace_at(&w->trace, t))
			world_fail(w, "no memory for the trace");
	}
	if (cross_next_ns(&w->cross) > t)
		return;
	cross_step(&w->cross, t);
	if (w->cross.failed)
		world_fail(w, "no memory for other traffic");
	bin = trace_at(&w->trace, t);
	if (bin)
		bin->cross_bytes += w->cross.bytes[WORLD_SOURCE] - before;
}

bool world_step(struct world *w)
{
	uint64_t t = world_next_ns(w);
	uint64_t due_ns;
	uint64_t packet;

	if (t == UINT64_MAX || w->error[0])
		return false;
	w->now_ns = t;
	w->steps++;
	step_cross(w, t);
	for (int i = 0; i < WORLD_SIDES; i++) {
		enum world_side side = (enum world_side)i;
		bool busy = w->wake_ns[side] <= t;

		while (delayq_pop_due(&w->queue[!side], t, &due_ns, &packet)) {
			arrive(w, (enum world_side) !side, (uint32_t)packet);
			busy = true;
		}
		while (control_next_ns(&w->control[side]) <= t && !w->error[0]) {
			control_answer(w, side);
			busy = true;
		}
		if (busy)
			pump(w, side);
	}
	return !w->error[0];
}

void world_run_for(struct world *w, uint64_t ns)
{
	uint64_t until = w->now_ns + ns;

	while (world_next_ns(w) <= until)
		if (!world_step(w))
			break;
	if (w->now_ns < until)
		w->now_ns = until;
}

bool world_is_done(const struct world *w)
{
	for (uint32_t i = 0; i < w->ntransfers; i++)
		if (!w->transfers[i].closed)
			return false;
	for (size_t i = 0; i < sizeof(w->rx) / sizeof(w->rx[0]); i++)
		if (w->rx[i].rx)
			return false;
	return true;
}

bool world_run(struct world *w, uint64_t limit_ns)
{
	uint64_t until = w->now_ns + limit_ns;

	/* The test for the end is not free, and transfers end seldom. */
	for (uint64_t closed = UINT64_MAX;;) {
		if (closed != w->closings || w->ntransfers == 0) {
			closed = w->closings;
			if (world_is_done(w))
				return true;
		}
		if (world_next_ns(w) > until || !world_step(w))
			return false;
	}
}

int world_inject(struct world *w, enum world_side from, const uint8_t *packet, size_t len)
{
	int rc = session_recv(w->session[!from], w->now_ns, packet, len);

	pump(w, (enum world_side) !from);
	return rc;
}

/* ---- orders --------------------------------------------------------------------------------- */

uint32_t world_add_objects(struct world *w, uint32_t count, uint64_t length)
{
	uint32_t first = w->nobjects;

	if (w->nobjects + count > w->objects_cap) {
		uint32_t cap = 2 * (w->nobjects + count);
		struct world_object *p = realloc(w->objects, cap * sizeof(*p));

		if (!p)
			return UINT32_MAX;
		w->objects = p;
		w->objects_cap = cap;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct world_object *o = &w->objects[w->nobjects++];

		memset(o, 0, sizeof(*o));
		o->length = length;
		o->content = prng_next(&w->rnd);
		o->key_len = 40;
		o->with_digest = true;
	}
	return first;
}

int world_order(struct world *w, uint32_t first, uint32_t count, uint8_t class_)
{
	const struct world_rank rank = { .class_ = class_ };

	return world_order_as(w, first, count, &rank);
}

int world_order_as(struct world *w, uint32_t first, uint32_t count, const struct world_rank *rank)
{
	struct world_transfer *t = &w->transfers[w->ntransfers];
	int rc;

	if (w->ntransfers == WORLD_TRANSFERS_MAX)
		return -ENOSPC;
	if (count == 0 || first + count > w->nobjects)
		return -EINVAL;
	for (uint32_t i = first; i < first + count; i++)
		w->objects[i].digest = w->cfg.light
			? light_digest(w->objects[i].content, w->objects[i].length)
			: content_digest(w->objects[i].content, w->objects[i].length);
	*t = (struct world_transfer){ .first = first,
		.count = count,
		.class_ = rank->class_,
		.flow = rank->flow,
		.ordered_ns = w->now_ns,
		.deadline_ms = rank->deadline_ms };
	rc = source_start(w, t);
	if (rc < 0 && rc != -ENOSPC)
		return rc;
	w->ntransfers++;
	pump(w, WORLD_SOURCE);
	return (int)w->ntransfers - 1;
}

uint64_t world_counter(const struct world *w, enum world_side side, enum strait_counter c)
{
	struct session_stats stats = { 0 };

	if (w->session[side])
		session_stats(w->session[side], &stats);
	return w->past[side][c] + stats.counters[c];
}

uint64_t world_nonce_repeats(const struct world *w)
{
	return w->nonce_repeats + w->audit[WORLD_SOURCE].repeats + w->audit[WORLD_SINK].repeats;
}

/* ---- sessions ------------------------------------------------------------------------------- */

static uint32_t session_id(struct world *w)
{
	return (uint32_t)prng_next(&w->rnd) | 1;
}

static int sessions_create(struct world *w)
{
	struct session_config c = { 0 };
	uint32_t id[WORLD_SIDES] = { session_id(w), session_id(w) };

	for (size_t i = 0; i < sizeof(c.secret); i++)
		c.secret[i] = (uint8_t)prng_next(&w->rnd);
	c.aead = w->cfg.light ? &light_aead : aead_default();
	c.cap_bps = w->cfg.cap_bps;
	c.rtt_hint_ns = w->cfg.link[WORLD_SOURCE].rtt_ns;
	c.loss_prior = w->cfg.loss_prior;
	c.symbol_bytes = w->path_bytes = w->cfg.symbol_bytes;
	c.ip_bytes = w->cfg.ipv6 ? 48 : 28;
	c.log_packets = w->cfg.log_packets;
	c.window_packets = w->cfg.window_packets;
	c.scratch_slots = w->cfg.scratch_slots;
	c.row_slots = w->cfg.row_slots;
	c.idle_timeout_ns = w->cfg.idle_timeout_ns;
	for (int i = 0; i < STRAIT_CLASS_COUNT; i++) {
		c.peer_credit[i].bytes = c.own_credit[i].bytes = w->cfg.credit_bytes;
		c.peer_credit[i].objects = c.own_credit[i].objects = w->cfg.credit_objects;
	}
	for (int side = 0; side < WORLD_SIDES; side++) {
		c.own_session = id[side];
		c.peer_session = id[!side];
		c.direction = side == WORLD_SOURCE ? STRAIT_DIR_INITIATOR : STRAIT_DIR_RESPONDER;
		c.seed = prng_next(&w->rnd);
		w->session[side] = session_create(&c);
		if (!w->session[side])
			return -errno;
		w->up[side] = w->dead[side] = false;
		w->wake_ns[side] = w->now_ns;
		audit_init(&w->audit[side], w->cfg.cap_bps);
		w->audit[side].at_ns = w->now_ns;
		w->audit[side].line_overhead = world_line_overhead(&w->cfg);
	}
	if (w->attack)
		attack_sessions(w->attack, w);
	return spurious_start(&w->spurious, w->session[WORLD_SOURCE]);
}

/* Take the figures of a session that goes. */
static void session_drop(struct world *w, enum world_side side)
{
	struct session_stats stats;

	if (!w->session[side])
		return;
	session_stats(w->session[side], &stats);
	for (int i = 0; i < STRAIT_COUNTER_COUNT; i++)
		w->past[side][i] += stats.counters[i];
	w->nonce_repeats += w->audit[side].repeats;
	if (w->audit[side].excess_bytes > w->cap_excess_bytes)
		w->cap_excess_bytes = w->audit[side].excess_bytes;
	session_destroy(w->session[side]);
	w->session[side] = NULL;
	audit_fini(&w->audit[side]);
	w->control[side].len = 0;
}

static void discard_events(struct world *w, enum world_side side)
{
	struct session_event ev;

	w->control[side].len = 0;
	session_reset(w->session[side], STRAIT_STATUS_RESET);
	while (session_poll(w->session[side], &ev))
		;
}

int world_restart(struct world *w, enum world_side crashed)
{
	enum world_side other = (enum world_side) !crashed;
	bool again[WORLD_TRANSFERS_MAX];
	int rc;

	w->restarts++;
	w->resetting = true;
	for (uint32_t i = 0; i < w->ntransfers; i++) {
		again[i] = !w->transfers[i].closed;
		w->transfers[i].waiting = false;
	}
	discard_events(w, crashed);
	/* The survivor hears of the reset through events, after those already on their way. */
	while (w->control[other].len)
		control_answer(w, other);
	session_reset(w->session[other], STRAIT_STATUS_RESET);
	control_poll(w, other);
	while (w->control[other].len)
		control_answer(w, other);
	for (uint32_t i = 0; i < w->ntransfers; i++)
		if (other == WORLD_SOURCE && w->transfers[i].tx)
			world_fail(w, "transfer %u survived a reset", i);
	w->resetting = false;
	session_drop(w, WORLD_SOURCE);
	session_drop(w, WORLD_SINK);
	source_drop(w);
	sink_drop(w);
	rc = sessions_create(w);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < w->ntransfers; i++) {
		struct world_transfer *t = &w->transfers[i];
		bool over = true;

		for (uint32_t j = t->first; j < t->first + t->count; j++)
			over = over && w->objects[j].tx_status != STRAIT_STATUS_PENDING &&
				w->objects[j].tx_status != STRAIT_STATUS_RESET;
		if (!again[i] || over) {
			t->closed = true;
			continue;
		}
		for (uint32_t j = t->first; j < t->first + t->count; j++)
			if (w->objects[j].tx_status == STRAIT_STATUS_RESET)
				w->objects[j].tx_status = STRAIT_STATUS_PENDING;
		t->closed = false;
		rc = source_start(w, t);
		if (rc < 0 && rc != -ENOSPC)
			return rc;
	}
	pump(w, WORLD_SOURCE);
	pump(w, WORLD_SINK);
	return w->error[0] ? -EPROTO : 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

void world_config_defaults(struct world_config *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	for (int side = 0; side < WORLD_SIDES; side++) {
		link_config_defaults(&cfg->link[side]);
		cfg->link[side].rate_bps = NS_PER_S;
		cfg->link[side].rtt_ns = 60 * NS_PER_MS;
	}
	cfg->seed = 1;
	cfg->cap_bps = NS_PER_S;
	cfg->symbol_bytes = STRAIT_SYMBOL_BYTES_IPV4;
	cfg->control_delay_ns = 20000;
	cfg->loss_prior = -1;
}

static uint32_t clamp_packets(double n, double low, double high)
{
	return (uint32_t)(n < low ? low : n > high ? high : n);
}

void world_config_size(struct world_config *cfg, uint64_t largest_object)
{
	const struct link_config *l = &cfg->link[WORLD_SOURCE];
	uint64_t rate_bps = l->rate_bps ? l->rate_bps : cfg->cap_bps;
	uint64_t rtt_ns = 2 * link_config_max_delay_ns(l);
	double bdp_bytes = (double)rate_bps * (double)rtt_ns / 8e9;
	double bdp = bdp_bytes / (cfg->symbol_bytes + STRAIT_OVERHEAD_BYTES);

	/* The floors let a few ms of control delay or reordering pass on fast short links. */
	if (!cfg->log_packets)
		cfg->log_packets = clamp_packets(4 * bdp, 16384, 1 << 23);
	if (!cfg->window_packets)
		cfg->window_packets = clamp_packets(4 * bdp, 16384, 1 << 22);
	if (!cfg->scratch_slots)
		cfg->scratch_slots = clamp_packets(2 * bdp, 4096, SCRATCH_SLOTS_MAX);
	if (!cfg->row_slots)
		cfg->row_slots = clamp_packets(bdp / 2, 4096, SCRATCH_SLOTS_MAX);
	if (!cfg->credit_bytes) {
		cfg->credit_bytes = (uint64_t)(4 * bdp_bytes);
		if (cfg->credit_bytes < 64 << 20)
			cfg->credit_bytes = 64 << 20;
	}
	if (cfg->credit_bytes < 2 * largest_object)
		cfg->credit_bytes = 2 * largest_object;
	if (!cfg->credit_objects)
		cfg->credit_objects = 1 << 20;
}

/* Rate and delay without the impairments: sessions come up on this. */
static void link_clean(struct link_config *out, const struct link_config *in)
{
	link_config_defaults(out);
	out->rate_bps = in->rate_bps;
	out->rtt_ns = in->rtt_ns;
}

static int links_init(struct world *w, bool clean)
{
	for (int side = 0; side < WORLD_SIDES; side++) {
		struct link_config c = w->cfg.link[side];
		int rc;

		if (clean)
			link_clean(&c, &w->cfg.link[side]);
		rc = link_init(&w->own_link[side], &c, w->cfg.seed, (uint64_t)side, w->now_ns);
		if (rc < 0)
			return rc;
	}
	w->t0_ns = w->now_ns;
	return 0;
}

static int come_up(struct world *w)
{
	uint64_t rtt_ns = w->cfg.link[WORLD_SOURCE].rtt_ns + NS_PER_MS;

	for (int i = 0; i < 100 && !(w->up[WORLD_SOURCE] && w->up[WORLD_SINK]); i++)
		world_run_for(w, rtt_ns);
	world_run_for(w, 2 * rtt_ns);
	if (!w->up[WORLD_SOURCE] || !w->up[WORLD_SINK] || w->error[0])
		return -EPROTO;
	memset(w->f, 0, sizeof(w->f));
	memset(w->past, 0, sizeof(w->past));
	if (w->cfg.beside == NULL)
		return links_init(w, false);
	if (w->now_ns > w->cfg.beside->t0_ns)
		return -EPROTO;
	world_run_for(w, w->cfg.beside->t0_ns - w->now_ns);
	w->t0_ns = w->now_ns;
	w->link = w->cfg.beside->link;
	return 0;
}

struct world *world_create(const struct world_config *cfg, const struct world_hooks *hooks)
{
	struct world *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return NULL;
	w->cfg = *cfg;
	world_config_size(&w->cfg, 0);
	if (hooks && cfg->cold)
		w->hooks = *hooks;
	/* Not 0: virtual time starts like a monotonic clock, somewhere. */
	prng_init(&w->rnd, cfg->seed, 1000);
	w->now_ns = NS_PER_S + prng_below(&w->rnd, 1000000 * NS_PER_S);
	if (cfg->beside)
		w->now_ns = cfg->beside->born_ns;
	w->born_ns = w->now_ns;
	w->link = w->own_link;
	wire_init(&w->wire, cfg->symbol_bytes + STRAIT_OVERHEAD_BYTES);
	for (int side = 0; side < WORLD_SIDES; side++) {
		rc = delayq_init(&w->queue[side], 4096, SIZE_MAX / 64);
		if (rc < 0)
			goto fail;
	}
	rc = links_init(w, !cfg->cold);
	if (rc < 0)
		goto fail;
	rc = sessions_create(w);
	if (rc < 0)
		goto fail;
	if (!cfg->cold) {
		rc = come_up(w);
		if (rc < 0)
			goto fail;
		if (hooks)
			w->hooks = *hooks;
	}
	memset(&w->queueing, 0, sizeof(w->queueing));
	if (cfg->attack > 0) {
		w->attack = attack_create(cfg->attack, cfg->seed);
		rc = -ENOMEM;
		if (!w->attack)
			goto fail;
		attack_sessions(w->attack, w);
	}
	trace_init(&w->trace, w->t0_ns, cfg->trace_bin_ns);
	rc = cross_init(&w->cross, cfg->cross, cfg->ncross, w->link, w->t0_ns);
	if (rc < 0)
		goto fail;
	return w;
fail:
	if (w->error[0])
		fprintf(stderr, "%s\n", w->error);
	world_destroy(w);
	errno = -rc;
	return NULL;
}

void world_destroy(struct world *w)
{
	if (!w)
		return;
	for (int side = 0; side < WORLD_SIDES; side++) {
		if (w->session[side])
			discard_events(w, (enum world_side)side);
		session_drop(w, (enum world_side)side);
		delayq_fini(&w->queue[side]);
		free(w->control[side].ring);
	}
	source_drop(w);
	sink_drop(w);
	for (uint32_t i = 0; i < w->nobjects; i++) {
		free(w->objects[i].dst);
		free(w->objects[i].resume);
	}
	free(w->objects);
	attack_destroy(w->attack);
	spurious_fini(&w->spurious);
	trace_fini(&w->trace);
	cross_fini(&w->cross);
	wire_fini(&w->wire);
	free(w);
}
