/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/edges_world.h"

/*
 * Several edges a site in virtual time, by seed: three sites with two edges each, a master with the
 * real order book and the real shares of caps; connections with delay that break and lose what is
 * on them. Edges are killed and come back as other processes, are away from the master while they
 * go on sending, drain; the master is killed and knows only what was durable. All the time
 *
 *   - what edges may send is never more than the cap of a link, nor that of a site's line;
 *   - no object is applied twice, and none by an edge that its receiver is told not to hear;
 *   - edges obey no master of an older term, and drained ones get no new order;
 * and when everything is left alone all orders end, all that is shipped is there, and caps are
 * used.
 *
 * A process that starts is taken to hear from its master before another edge opens a session to it.
 *
 *   EDGES_SIM_SEEDS=1000 EDGES_SIM_FIRST=1 build/test/tests/unit/edges_sim_test
 */

/* ---- the master -------------------------------------------------------------------------- */

static size_t on_edges(void *ctx, const char *site, const char **names, size_t max)
{
	struct world *w = ctx;
	size_t n = 0;

	for (int i = 0; i < ALL; i++)
		if (n < max && w->node[i].site[0] == site[0] && w->node[i].shares.connected &&
			!w->node[i].drain_at_master)
			names[n++] = w->node[i].name;
	return n;
}

static bool on_avoid(void *ctx, const char *from_site, const char *from, const char *to_site,
	const char *to)
{
	struct world *w = ctx;
	const struct shares_flow *f =
		shares_find(&w->shares, &w->node[node_named(from_site, from)].shares,
			&w->node[node_named(to_site, to)].shares);

	return f != NULL && w->now_ns < f->avoid_until_ns;
}

static struct shares_flow *flow_of(struct world *w, const struct shipment *s)
{
	return shares_get(&w->shares,
		&w->node[node_named(s->order->from_site, s->from_edge)].shares,
		&w->node[node_named(s->order->to_site, s->to_edge)].shares);
}

static int number_of(const struct order_object *o)
{
	char text[8] = "";

	memcpy(text, o->name + o->tenant_len, o->key_len);
	return atoi(text);
}

static void start(struct world *w, const struct shipment *s)
{
	int i = node_named(s->order->from_site, s->from_edge);
	struct shares_flow *f = flow_of(w, s);
	struct message *m;

	if (!w->node[i].shares.connected)
		return;
	f->waiting = f->grant.told_bps == 0;
	if (f->waiting)
		return;
	m = put(w, i, &w->node[i].down, START);
	m->wire = s->wire;
	m->to = node_named(s->order->to_site, s->to_edge);
	m->caps[m->to] = f->grant.told_bps;
	m->n = (int)s->count;
	for (int k = 0; k < m->n; k++) {
		const struct order_object *o = &s->order->objects[s->members[k]];

		m->objects[k] = number_of(o);
		m->pending[k] = o->shipment == s;
	}
}

static void each_shipment(struct world *w, void (*fn)(struct world *w, struct shipment *s, int arg),
	int arg)
{
	for (struct order *o = orderbook_first(w->book); o != NULL; o = TAILQ_NEXT(o, live)) {
		struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order)
			if (s->open > 0)
				fn(w, s, arg);
	}
}

static void count_one(struct world *w, struct shipment *s, int arg)
{
	(void)arg;
	flow_of(w, s)->shipments++;
}

static void start_waiting(struct world *w, struct shipment *s, int arg)
{
	(void)arg;
	if (w->starts[node_of(w, flow_of(w, s)->from)][node_of(w, flow_of(w, s)->to)] && !s->is_new)
		start(w, s);
}

static void shares_run(struct world *w)
{
	struct shares_flow *f;

	TAILQ_FOREACH(f, &w->shares.flows, entry)
		f->shipments = 0;
	each_shipment(w, count_one, 0);
	shares_update(&w->shares, w->now_ns);
	memset(w->starts, 0, sizeof(w->starts));
	TAILQ_FOREACH(f, &w->shares.flows, entry)
		w->starts[node_of(w, f->from)][node_of(w, f->to)] =
			f->waiting && f->grant.told_bps != 0;
	each_shipment(w, start_waiting, 0);
}

static bool has(const struct shipment *s, int i)
{
	return node_named(s->order->from_site, s->from_edge) == i ||
		node_named(s->order->to_site, s->to_edge) == i;
}

static void start_again(struct world *w, struct shipment *s, int i)
{
	if (node_named(s->order->from_site, s->from_edge) == i && !s->is_new)
		start(w, s);
}

static void hand_over(struct world *w, struct shipment *s, int i)
{
	if (!has(s, i))
		return;
	orderbook_hand_over(w->book, s->wire, "lost", now_ms(w));
	w->handed++;
}

static void failover(struct world *w)
{
	for (int i = 0; i < ALL; i++) {
		struct node *n = &w->node[i], *other = &w->node[i ^ 1];

		if (n->shares.connected || w->now_ns - n->shares.down_ns < LOST_MS * MS ||
			!other->shares.connected || other->drain_at_master)
			continue;
		if (!n->shares.lost) {
			shares_lost(&w->shares, &n->shares);
			w->lost++;
		}
		each_shipment(w, hand_over, i);
	}
}

static void orders_run(struct world *w)
{
	struct orderbook_sites sites = { on_edges, w, NULL, on_avoid, NULL };
	struct order *o;

	orderbook_tick(w->book, now_ms(w));
	orderbook_plan(w->book, &sites, now_ms(w));
	shares_run(w);
	for (o = orderbook_dirty(w->book); o != NULL; o = TAILQ_NEXT(o, dirty_entry)) {
		struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order) {
			int i = node_named(o->from_site, s->from_edge);

			if (s->is_new && s->open > 0) {
				CHECK(w,
					!w->node[i].drain_at_master &&
						!w->node[node_named(o->to_site, s->to_edge)]
							 .drain_at_master,
					"a draining edge gets an order");
				start(w, s);
			} else if (s->cancel && w->node[i].shares.connected) {
				put(w, i, &w->node[i].down, CANCEL)->wire = s->wire;
			}
		}
	}
	orderbook_flushed(w->book);
}

static void submit(struct world *w)
{
	static char text[OF_ORDER][8];
	struct orderbook_key keys[OF_ORDER] = { 0 };
	int from = (int)(rnd(w) % SITES), to = (from + 1 + (int)(rnd(w) % (SITES - 1))) % SITES;
	struct orderbook_spec spec = { .from_site = w->node[from * EDGES].site,
		.to_site = w->node[to * EDGES].site,
		.class = 1,
		.keys = keys,
		.count = 1 + rnd(w) % OF_ORDER };
	char err[200];

	if (w->next_object + OF_ORDER > OBJECTS)
		return;
	for (size_t i = 0; i < spec.count; i++) {
		snprintf(text[i], sizeof(text[i]), "%d", w->next_object++);
		keys[i].key = (const uint8_t *)text[i];
		keys[i].key_len = strlen(text[i]);
	}
	CHECK(w, orderbook_submit(w->book, &spec, now_ms(w), err, sizeof(err)) != NULL, "%s", err);
	w->orders++;
}

static void master_stop(struct world *w)
{
	for (int i = 0; i < ALL; i++)
		disconnect(w, i);
	shares_fini(&w->shares);
	w->master_up = false;
	w->master_restart_ns = w->now_ns + rnd(w) % (4000 * MS);
}

/* With the book, which edges drain and which are lost. */
static void master_start(struct world *w, bool first)
{
	w->master_up = true;
	w->term++;
	shares_init(&w->shares, &ops, w, w->now_ns);
	w->shares.unknown_ns = LOST_MS * MS;
	w->shares.report_ns = REPORT_MS * MS;
	for (int i = 0; i < ALL; i++) {
		struct shares_edge *e = &w->node[i].shares;

		*e = (struct shares_edge){ .site = w->node[i].site, .name = w->node[i].name };
		shares_add(&w->shares, e, w->now_ns);
		e->lost = e->fenced = w->lost_on_disk[i];
		e->known = first;
	}
}

static void on_result(struct world *w, const struct message *m)
{
	const struct shipment *s = orderbook_find_shipment(w->book, m->wire);
	struct shares_flow *f;

	if (s == NULL)
		return;
	f = flow_of(w, s);
	if (m->status == STRAIT_STATUS_UNREACHABLE)
		f->avoid_until_ns = w->now_ns + 30000 * MS;
	(void)orderbook_result(w->book, m->wire, (uint32_t)m->index, (unsigned int)m->status, 1000,
		now_ms(w));
}

static void at_master(struct world *w, int i, const struct message *m)
{
	struct node *n = &w->node[i];

	if (m->kind == REGISTER) {
		shares_connected(&w->shares, &n->shares, true);
		memset(n->reported_bps, 0, sizeof(n->reported_bps));
		for (int k = 0; k < ALL; k++)
			if (m->caps[k] != 0)
				shares_had(&w->shares, &n->shares, &w->node[k].shares, m->caps[k]);
		shares_run(w);
		each_shipment(w, start_again, i);
	} else if (m->kind == ACK) {
		shares_acked(&w->shares, &n->shares, m->seq);
	} else if (m->kind == RESULT) {
		on_result(w, m);
	} else if (m->kind == REPORT) {
		memcpy(n->reported_bps, m->caps, sizeof(n->reported_bps));
	}
}

/* ---- what must hold ---------------------------------------------------------------------- */

/*
 * What shares.h does not promise: after a restart of the master an edge that was away then, and is
 * away still, sends into a line that other sites have in common with it, or to an edge that is
 * away, too.
 */
static bool is_excused(const struct world *w, int from, int to, bool line)
{
	const struct shares_edge *e = &w->node[from].shares;

	if (!w->master_up || e->known)
		return false;
	return !w->node[to].shares.connected ||
		(line && w->now_ns - w->shares.started_ns >= w->shares.unknown_ns);
}

/*
 * What edges of a site may send to those of another, together no more than the cap (0: none).
 * -1: all.
 */
static void check_cap(struct world *w, int from, int to, uint64_t cap)
{
	uint64_t sum = 0, bounds = 0;
	bool unknown = false;
	int users = 0;
	bool *excused = &w->excused[from + 1][to + 1];

	if (cap == 0)
		return;
	for (int i = 0; i < ALL; i++)
		for (int k = 0; k < ALL; k++) {
			const struct shares_flow *f = !w->master_up
				? NULL
				: shares_find(&w->shares, &w->node[i].shares, &w->node[k].shares);

			if ((from >= 0 && site_of(i) != from) || (to >= 0 && site_of(k) != to))
				continue;
			bounds += f != NULL ? f->grant.bound_bps : 0;
			if (!w->node[i].alive || w->node[i].cap[k] == 0 || w->ended[i][k])
				continue;
			*excused = *excused || is_excused(w, i, k, from < 0);
			unknown = unknown || !w->node[i].shares.known;
			sum += w->node[i].cap[k];
			users += w->node[i].used_bits[k] > 0;
		}
	w->both += users > 1 && from >= 0 && to >= 0;
	w->looks++;
	w->excuses += *excused;
	CHECK(w, *excused || sum <= cap + SLACK, "from %d to %d: %llu of %llu bit/s", from, to,
		(unsigned long long)sum, (unsigned long long)cap);
	/* until the master knows of all again, and all have what they should */
	if (w->master_up && !unknown && bounds <= cap + SLACK && sum <= cap + SLACK)
		*excused = false;
}

/* Who is told not to hear an edge makes it stop, until it opens a session to another process. */
static void end_sessions(struct world *w)
{
	for (int i = 0; i < ALL; i++)
		for (int k = 0; k < ALL; k++)
			if (w->node[k].fenced[i])
				w->ended[i][k] = true;
			else if (is_heard(w, i, k))
				w->ended[i][k] = false;
}

static void check_caps(struct world *w)
{
	end_sessions(w);
	for (int i = 0; i < SITES; i++) {
		struct shares_caps c = { 0 };

		for (int k = 0; k < SITES; k++) {
			if (i == k)
				continue;
			on_caps(NULL, w->node[i * EDGES].site, w->node[k * EDGES].site, &c);
			check_cap(w, i, k, c.link_bps);
		}
		check_cap(w, i, -1, c.out_bps);
		on_caps(NULL, "b", w->node[i * EDGES].site, &c);
		check_cap(w, -1, i, c.in_bps);
	}
}

static void trouble(struct world *w)
{
	int i = (int)(rnd(w) % ALL);
	struct node *n = &w->node[i];

	if (chance(w, 12))
		submit(w);
	if (chance(w, 300) && n->alive)
		edge_kill(w, i);
	if (chance(w, 150))
		disconnect(w, i);
	if (chance(w, 250) && n->alive) { /* away from the master, not from other edges */
		disconnect(w, i);
		n->parted_until_ns = w->now_ns + rnd(w) % (15000 * MS);
		w->partings++;
	}
	if (chance(w, 900) && w->master_up)
		master_stop(w);
	if (chance(w, 300) && w->master_up)
		n->drain_at_master = !n->drain_at_master && !w->node[i ^ 1].drain_at_master;
	if (chance(w, 100))
		n->path_bps[rnd(w) % ALL] = chance(w, 2) ? 1000 * M : rnd(w) % (60 * M) + M;
}

static void step(struct world *w)
{
	struct message m;

	w->now_ns += STEP_MS * MS;
	if (w->busy)
		trouble(w);
	if (!w->master_up && w->now_ns >= w->master_restart_ns)
		master_start(w, false);
	for (int i = 0; i < ALL; i++) {
		struct node *n = &w->node[i];

		if (!n->alive && w->now_ns >= n->restart_ns)
			n->alive = true;
		edge_connect(w, i);
		while (n->open && pop(w, &n->up, &m))
			at_master(w, i, &m);
		while (n->open && pop(w, &n->down, &m))
			at_edge(w, i, &m);
		if (n->alive)
			edge_run(w, i);
		check_caps(w);
	}
	if (!w->master_up)
		return;
	if (now_ms(w) % 1000 == 0)
		failover(w);
	for (int i = 0; i < ALL; i++)
		w->lost_on_disk[i] = w->node[i].shares.fenced;
	orders_run(w);
}

static void check_end(struct world *w)
{
	const struct shares_flow *f;
	uint64_t sum = 0;
	int flows = 0;

	CHECK(w, orderbook_count(w->book) == 0, "%zu orders never end", orderbook_count(w->book));
	/* an edge that has had no order since it started does not use what it was told */
	TAILQ_FOREACH(f, &w->shares.flows, entry)
		if (site_of(node_of(w, f->from)) == 0 && site_of(node_of(w, f->to)) == 1) {
			sum += f->grant.told_bps;
			flows++;
		}
	CHECK(w, flows == 0 || sum >= 95 * M, "at rest a to b has %llu", (unsigned long long)sum);
	for (int i = 0; i < ALL; i++)
		CHECK(w, w->node[i].shares.connected && !w->node[i].shares.lost,
			"edge %d does not come back", i);
}

static void run_seed(uint64_t seed, uint64_t totals[9])
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->seed = seed;
	w->random = seed * 0x2545f4914f6cdd1du;
	w->now_ns = BEGIN_NS;
	w->busy = true;
	w->book = orderbook_create(1, seed);
	assert_non_null(w->book);
	for (int i = 0; i < ALL; i++) {
		struct node *n = &w->node[i];

		n->site[0] = (char)('a' + site_of(i));
		n->name[0] = (char)('1' + i % EDGES);
		n->alive = true;
		n->delay_ns = (1 + rnd(w) % 150) * MS;
		for (int k = 0; k < ALL; k++)
			n->path_bps[k] = 1000 * M;
	}
	master_start(w, true);
	for (int k = 0; k < BUSY_MS / STEP_MS; k++)
		step(w);
	w->busy = false;
	for (int i = 0; i < ALL; i++) {
		w->node[i].drain_at_master = false;
		w->node[i].parted_until_ns = 0;
		for (int k = 0; k < ALL; k++)
			w->node[i].path_bps[k] = 1000 * M;
	}
	for (int k = 0; k < QUIET_MS / STEP_MS && (k < 1000 || orderbook_count(w->book) > 0); k++)
		step(w);
	check_end(w);
	totals[0] += w->orders;
	totals[1] += w->kills;
	totals[2] += w->partings;
	totals[3] += w->lost;
	totals[4] += w->handed;
	totals[5] += w->used_bits / 1000000;
	totals[6] += w->both;
	totals[7] += w->excuses;
	totals[8] += w->looks;
	shares_fini(&w->shares);
	orderbook_destroy(w->book);
	free(w);
}

static uint64_t number(const char *name, uint64_t def)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : def;
}

static void edges_come_and_go_and_the_cap_holds(void **state)
{
	uint64_t first = number("EDGES_SIM_FIRST", 1), n = number("EDGES_SIM_SEEDS", SEEDS);
	uint64_t totals[9] = { 0 };

	(void)state;
	for (uint64_t seed = first; seed < first + n; seed++)
		run_seed(seed, totals);
	print_message(
		"%llu seeds: %llu orders, %llu kills, %llu partings, %llu lost, %llu handed "
		"over, %llu Mbit, two edges of a link at once %llu of %llu times, %llu excused\n",
		(unsigned long long)n, (unsigned long long)totals[0], (unsigned long long)totals[1],
		(unsigned long long)totals[2], (unsigned long long)totals[3],
		(unsigned long long)totals[4], (unsigned long long)totals[5],
		(unsigned long long)totals[6], (unsigned long long)totals[8],
		(unsigned long long)totals[7]);
	/* a world in which nothing happens proves nothing */
	assert_true(totals[0] >= 100 * n && totals[1] >= 4 * n && totals[3] >= 2 * n &&
		totals[4] >= n && totals[6] >= 100 * n && totals[7] * 20 < totals[8]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edges_come_and_go_and_the_cap_holds),
	};

	return cmocka_run_group_tests_name("edges_sim", tests, NULL, NULL);
}
