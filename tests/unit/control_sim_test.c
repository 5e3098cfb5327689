/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/control_world.h"

/*
 * The control plane in virtual time, by seed: three sites with a cache, a source that loses events
 * and lists now and then, a site master and its log; links with delay that are cut or carry nothing
 * for a while; an inter-dc master with the real federation and the real order book. Anything
 * crashes, links part, the wall clock jumps, the master's disk is full. Then everything is left
 * alone, and
 *
 *   - the inter-dc master's view is the truth, for every object and site;
 *   - while it ran, no view that said it was complete as of t had an object that its site master
 *     knew to be gone before t (no YES after a confirmed eviction);
 *   - no object was on its way to a site by two shipments at once, and no shipment was delivered
 *     twice;
 *   - nothing was taken by a site that had lost it lately, unless somebody asked;
 *   - a view without a connection was not called live, and what was brought was known as that;
 *   - an object that never arrives was not tried for ever;
 *   - no more than FEDERATION_LOADS snapshots were on their way at once;
 *   - while the master's disk is full no edge is told anything;
 *   - a connection that carries nothing was given up in time.
 *
 *   CONTROL_SIM_SEEDS=1000 CONTROL_SIM_FIRST=1 build/test/tests/unit/control_sim_test
 */

/* ---- the inter-dc master ---- */

static bool ask(struct world *w, uint16_t slot, struct frame f, const struct digest128 *d, size_t n)
{
	struct site *s = &w->site[slot];

	f.n = (uint32_t)n;
	return s->open && pipe_push(w, s, &s->down_pipe, f, d, n * sizeof(*d));
}

static bool on_expand(void *ctx, uint16_t from, uint64_t batch, const struct digest128 *d, size_t n)
{
	return ask(ctx, from, (struct frame){ .kind = EXPAND, .batch = batch }, d, n);
}

static bool on_offer(void *ctx, uint16_t to, uint64_t batch, const struct digest128 *d, size_t n,
	bool asked)
{
	return ask(ctx, to, (struct frame){ .kind = OFFER, .batch = batch, .asked = asked }, d, n);
}

static const char *const names[SITES] = { "a", "b", "c" };

static int number_of(const uint8_t *key, size_t len)
{
	char text[16] = "";

	memcpy(text, key, len < 15 ? len : 15);
	return atoi(text + 1);
}

static int key_number(const struct order_object *o)
{
	return number_of(o->name + o->tenant_len, o->key_len);
}

/* Some order is to bring it, be it on its way or not yet. */
static bool is_ordered(struct world *w, uint16_t to, int n)
{
	const struct order *o;

	for (o = orderbook_first(w->book); o != NULL; o = TAILQ_NEXT(o, live))
		for (uint32_t i = 0; i < o->count && strcmp(o->to_site, names[to]) == 0; i++)
			if (o->objects[i].state != OBJECT_FINAL && key_number(&o->objects[i]) == n)
				return true;
	return false;
}

static void check_ordered(struct world *w, uint16_t to, int n)
{
	/* stored anew while it is ordered, it gets an order that waits for how that ends */
	if (n != POISON || to != SITES - 1 || is_ordered(w, to, n))
		return;
	w->poisoned++;
	CHECK(w, w->poisoned <= FEDERATION_POISON, "what never arrives was ordered %llu times",
		(unsigned long long)w->poisoned);
}

static uint64_t on_submit(void *ctx, const struct federation_order *what)
{
	struct orderbook_key list[FEDERATION_BATCH];
	struct world *w = ctx;
	struct orderbook_spec spec = { .from_site = names[what->from],
		.to_site = names[what->to],
		.class = what->class,
		.keys = list,
		.count = what->count };
	struct order *o;
	char err[200];

	for (size_t i = 0; i < what->count; i++) {
		list[i] = (struct orderbook_key){ what->keys[i].key, what->keys[i].tenant,
			what->keys[i].key_len, what->keys[i].tenant_len };
		check_ordered(w, what->to, number_of(what->keys[i].key, what->keys[i].key_len));
	}
	o = orderbook_submit(w->book, &spec, w->now_ns / MS, err, sizeof(err));
	CHECK(w, o != NULL, "order refused: %s", err);
	w->orders++;
	return o->id;
}

static size_t site_edges(void *ctx, const char *name, const char **list, size_t max)
{
	struct world *w = ctx;

	list[0] = "edge";
	for (int i = 0; i < SITES && max > 0; i++)
		if (strcmp(names[i], name) == 0)
			return w->now_ns / MS >= w->site[i].edge_down_until_ms + BEGIN_NS / MS;
	return 0;
}

static bool on_can_ship(void *ctx, uint16_t from, uint16_t to)
{
	const char *list[1];

	return !is_full(ctx) && site_edges(ctx, names[from], list, 1) > 0 &&
		site_edges(ctx, names[to], list, 1) > 0;
}

static void on_nowhere(void *ctx, uint16_t to, const struct digest128 *d, size_t n)
{
	(void)ctx;
	(void)to;
	(void)d;
	(void)n;
}

static const struct federation_ops ops = { on_expand, on_offer, on_submit, on_can_ship,
	on_nowhere };

static void master_start(struct world *w)
{
	struct federation_config cfg = { .planner = { .keys = 1000,
						 .wanted_max = 4096,
						 .memory_entries = 4096,
						 .evicted_s = EVICTED_S,
						 .echo_s = 7 * 86400,
						 .asked_s = 600 },
		.compare_every_ns = 20000 * MS,
		.seed = rnd(w) };
	struct planner_policy p = { .allow = true, .class = WANTED_BULK };

	w->f = federation_create(&cfg, &ops, w);
	assert_non_null(w->f);
	for (uint16_t i = 0; i < SITES; i++)
		assert_int_equal(federation_site_add(w->f, i), 0);
	for (uint16_t i = 0; i < SITES; i++)
		for (uint16_t k = 0; k < SITES; k++)
			if (i != k)
				assert_int_equal(federation_policy_set(w->f, i, k, &p, 0), 0);
	w->master_up = true;
	w->poisoned = 0; /* what failed before is not known any more */
}

static void master_stop(struct world *w)
{
	if (!w->master_up)
		return;
	for (int i = 0; i < SITES; i++)
		disconnect(w, i);
	w->master_up = false;
	federation_destroy(w->f);
	w->f = NULL;
}

/* ---- orders: the book is durable and goes on through crashes of the master ---- */

static uint16_t site_number(const char *name)
{
	return (uint16_t)(name[0] - 'a');
}

static void ship(struct world *w, const struct shipment *s)
{
	uint16_t to = site_number(s->order->to_site);

	for (uint32_t i = 0; i < s->count; i++) {
		const struct order_object *o = &s->order->objects[s->members[i]];

		if (o->shipment != s)
			continue;
		CHECK(w, w->on_its_way[to][key_number(o)] == 0, "object %d is on two ways to %s",
			key_number(o), names[to]);
		w->on_its_way[to][key_number(o)]++;
	}
	for (int i = 0; i < SHIPMENTS_MAX; i++) {
		if (w->flying[i].used)
			continue;
		w->flying[i] = (struct shipment_event){ true, w->now_ns + (50 + rnd(w) % 1500) * MS,
			s->wire, s->order->id, to };
		return;
	}
	CHECK(w, false, "too many shipments");
}

static void deliver(struct world *w, struct shipment_event *e)
{
	struct shipment *s = orderbook_find_shipment(w->book, e->wire);
	uint16_t from;

	e->used = false;
	CHECK(w, s != NULL, "a shipment was forgotten while it flew");
	from = site_number(s->order->from_site);
	for (uint32_t i = 0; i < s->count; i++) {
		const struct order_object *o = &s->order->objects[s->members[i]];
		unsigned int status = STRAIT_STATUS_COMMITTED;
		int n = key_number(o);

		if (o->shipment != s)
			continue;
		CHECK(w, w->on_its_way[e->to][n] == 1, "object %d is delivered twice", n);
		w->on_its_way[e->to][n] = 0;
		if (n == POISON && e->to == SITES - 1)
			status = STRAIT_STATUS_DIGEST;
		else if (!w->site[from].has[n])
			status = STRAIT_STATUS_NOT_FOUND;
		else if (w->site[e->to].has[n])
			status = STRAIT_STATUS_EXISTS;
		else if (w->busy && chance(w, 30))
			status = STRAIT_STATUS_RESET;
		else
			cache_put(w, e->to, n);
		w->delivered += status == STRAIT_STATUS_COMMITTED;
		w->elsewhere += status == STRAIT_STATUS_COMMITTED && w->absent[e->to][n] != 0 &&
			w->absent[e->to][n] != from + 1;
		w->absent[e->to][n] = status == STRAIT_STATUS_NOT_FOUND ? (uint8_t)(from + 1) : 0;
		assert_int_equal(orderbook_result(w->book, e->wire, i, status, 1000,
					 w->now_ns / MS),
			0);
	}
}

static uint8_t end_of(unsigned int status)
{
	if (status == STRAIT_STATUS_COMMITTED || status == STRAIT_STATUS_EXISTS)
		return FEDERATION_DONE;
	return status == STRAIT_STATUS_NOT_FOUND ? FEDERATION_ABSENT : FEDERATION_FAILED;
}

static void orders_run(struct world *w)
{
	struct orderbook_sites sites = { site_edges, w, NULL, NULL, NULL };
	struct order *o;

	for (int i = 0; i < SHIPMENTS_MAX; i++)
		if (w->flying[i].used && w->flying[i].due_ns <= w->now_ns)
			deliver(w, &w->flying[i]);
	if (!w->master_up)
		return;
	orderbook_tick(w->book, w->now_ns / MS);
	for (o = orderbook_dirty(w->book); o != NULL; o = TAILQ_NEXT(o, dirty_entry))
		for (const struct order_object *x = o->dirty_objects; x != NULL; x = x->next_dirty)
			if (x->state == OBJECT_FINAL && end_of(x->status) == FEDERATION_FAILED)
				federation_failed(w->f, o->id, (uint32_t)(x - o->objects),
					unix_s(w));
	/* what cannot be written is told to nobody, and nothing more is planned */
	if (is_full(w))
		return;
	orderbook_plan(w->book, &sites, w->now_ns / MS);
	for (o = orderbook_dirty(w->book); o != NULL; o = TAILQ_NEXT(o, dirty_entry)) {
		uint64_t lengths[FEDERATION_BATCH];
		uint8_t ends[FEDERATION_BATCH];
		struct shipment *s;

		TAILQ_FOREACH(s, &o->shipments, of_order)
			if (s->is_new && s->open > 0)
				ship(w, s);
		if (!order_is_final(o))
			continue;
		for (uint32_t i = 0; i < o->count; i++) {
			ends[i] = end_of(o->objects[i].status);
			lengths[i] = 1000;
		}
		federation_ended(w->f, o->id, ends, lengths, o->count, w->now_ns, unix_s(w));
	}
	orderbook_flushed(w->book);
}

/* ---- what runs ---- */

static void answer_expand(struct world *w, struct site *s, const struct frame *f)
{
	struct digest128 d[FEDERATION_BATCH];
	uint8_t there[FEDERATION_BATCH];

	memcpy(d, f->data, f->n * sizeof(*d));
	for (uint32_t i = 0; i < f->n; i++)
		there[i] = store_has(s->store, d[i]) ? (uint8_t)object_of(d[i]) : 255;
	(void)pipe_push(w, s, &s->up_pipe,
		(struct frame){ .kind = EXPANDED, .batch = f->batch, .n = f->n }, there, f->n);
}

static void answer_offer(struct world *w, struct site *s, const struct frame *f)
{
	struct digest128 d[FEDERATION_BATCH];
	uint8_t verdicts[FEDERATION_BATCH];
	uint64_t now_s = unix_s(w);

	memcpy(d, f->data, f->n * sizeof(*d));
	w->declined += offer_judge(s->store, s->recall, d, f->n, f->asked, now_s, verdicts);
	for (uint32_t i = 0; i < f->n; i++) {
		uint64_t at = s->evicted_at_s[object_of(d[i])];

		CHECK(w,
			f->asked || at == 0 || at > now_s || now_s - at >= EVICTED_S / 2 ||
				verdicts[i] != OFFER_BRING,
			"what was evicted is taken again");
	}
	for (uint32_t i = 0; i < f->n; i++)
		if (verdicts[i] == OFFER_BRING) {
			s->evicted_at_s[object_of(d[i])] = 0;
			CHECK(w, recall_was_brought(s->recall, d[i], now_s),
				"what comes will not be known as brought");
		}
	(void)pipe_push(w, s, &s->up_pipe,
		(struct frame){ .kind = OFFERED, .batch = f->batch, .n = f->n }, verdicts, f->n);
}

static int take_expanded(struct world *w, int i, const struct frame *f)
{
	struct federation_key list[FEDERATION_BATCH];

	for (uint32_t k = 0; k < f->n; k++) {
		uint8_t n = f->data[k];

		list[k] = n == 255 ? (struct federation_key){ NULL, NULL, 0, 0, 0 }
				   : (struct federation_key){ (const uint8_t *)keys[n], NULL,
					     strlen(keys[n]), 0, 0 };
	}
	return federation_expanded(w->f, (uint16_t)i, f->batch, list, f->n, w->now_ns, unix_s(w));
}

static bool pop(struct world *w, struct pipe *p, struct frame *out)
{
	if (p->count == 0 || p->q[p->head].due_ns > w->now_ns)
		return false;
	*out = p->q[p->head];
	p->head = (p->head + 1) % FRAMES_MAX;
	p->count--;
	return true;
}

static void receive_at_site(struct world *w, int i)
{
	struct site *s = &w->site[i];
	struct frame f;

	while (s->open && !is_stalled(w, s) && pop(w, &s->down_pipe, &f)) {
		int rc = 0;

		if (f.kind == LOG)
			rc = feed_input(&s->feed, f.data, f.len);
		else if (f.kind == EXPAND)
			answer_expand(w, s, &f);
		else
			answer_offer(w, s, &f);
		free(f.data);
		CHECK(w, rc == 0 || rc == -ENOBUFS, "the feed refuses a frame: %d", rc);
	}
}

static void receive_at_master(struct world *w, int i)
{
	struct site *s = &w->site[i];
	struct frame f;

	while (s->open && !is_stalled(w, s) && pop(w, &s->up_pipe, &f)) {
		int rc;

		if (f.kind == LOG)
			rc = federation_input(w->f, (uint16_t)i, f.data, f.len, w->now_ns,
				unix_s(w));
		else if (f.kind == EXPANDED)
			rc = take_expanded(w, i, &f);
		else
			rc = federation_offered(w->f, (uint16_t)i, f.batch, f.data, f.n, w->now_ns,
				unix_s(w));
		free(f.data);
		CHECK(w, rc != -EPROTO, "a frame breaks the protocol");
		if (rc < 0)
			disconnect(w, i);
	}
}

static void send_both(struct world *w, int i)
{
	struct site *s = &w->site[i];
	uint8_t head[LOG_FRAME_HEADER_BYTES];
	const uint8_t *frame;
	size_t len;
	int rc = 1;

	while (s->open && federation_pull(w->f, (uint16_t)i, w->now_ns, head))
		(void)pipe_push(w, s, &s->down_pipe, (struct frame){ .kind = LOG }, head,
			sizeof(head));
	/* as much as its connection takes */
	while (s->open && rc > 0 && s->up_pipe.count < 64) {
		rc = feed_pull(&s->feed, w->now_ns, &frame, &len);
		if (rc > 0)
			(void)pipe_push(w, s, &s->up_pipe, (struct frame){ .kind = LOG }, frame,
				len);
	}
	if (rc == -ESTALE || (s->open && reader_is_silent(&w->f->site[i].reader, w->now_ns)))
		disconnect(w, i);
	CHECK(w, !s->open || !is_stalled(w, s) || w->now_ns - s->stalled_ns < SILENT_MS * MS,
		"the connection of %s has carried nothing for long", names[i]);
}

static void check_loads(struct world *w)
{
	int n = 0;

	for (int i = 0; i < SITES && w->master_up; i++)
		n += w->f->site[i].loading;
	CHECK(w, n <= FEDERATION_LOADS, "%d snapshots are loaded at once", n);
}

/* Complete as of t, and still there what was known to be gone before t. */
static void check_view(struct world *w, int i)
{
	const struct reader *r = &w->f->site[i].reader;
	struct site *s = &w->site[i];

	if (r->replica.state != REPLICA_LIVE || !s->open)
		return;
	for (int n = 0; n < OBJECTS; n++) {
		uint64_t v = index_value(planner_index(w->f->planner), digest[n]);

		CHECK(w,
			(v & INDEX_PRESENT(i)) == 0 || s->gone_ns[n] == 0 ||
				s->gone_ns[n] >= r->current_ns,
			"site %s: object %d is gone for %llu ms and still YES", names[i], n,
			(unsigned long long)((w->now_ns - s->gone_ns[n]) / MS));
	}
}

static void ask_for(struct world *w, int i, int n)
{
	(void)federation_asked(w->f, (uint16_t)i, digest[n], 0, true, w->now_ns, unix_s(w));
	if (n == POISON && i == SITES - 1)
		w->poisoned = 0;
}

static void trouble(struct world *w)
{
	int i = (int)(rnd(w) % SITES);
	struct site *s = &w->site[i];
	/* is left alone: else it is cut or stopped before it was silent for long */
	bool stalled = is_stalled(w, s);

	if (chance(w, 400) && s->up && !stalled) {
		sitemaster_stop(w, i);
		s->restart_ns = w->now_ns + rnd(w) % (3000 * MS);
		w->crashes++;
	}
	if (chance(w, 800) && w->master_up) {
		master_stop(w);
		w->master_restart_ns = w->now_ns + rnd(w) % (2000 * MS);
		w->crashes++;
	}
	if (chance(w, 100) && !stalled) {
		disconnect(w, i);
		w->cuts++;
	}
	if (chance(w, 300) && !stalled) {
		disconnect(w, i);
		s->parted = true;
		s->parted_until_ns = w->now_ns + rnd(w) % (12000 * MS);
		w->cuts++;
	}
	if (chance(w, 600) && s->open && !is_stalled(w, s)) {
		s->stalled_ns = w->now_ns;
		s->stalled_until_ns = w->now_ns + rnd(w) % (20000 * MS);
		w->stalls++;
	}
	if (chance(w, 700)) {
		w->full_until_ns = w->now_ns + rnd(w) % (4000 * MS);
		w->full++;
	}
	if (chance(w, 300))
		s->edge_down_until_ms = (unsigned int)((w->now_ns - BEGIN_NS) / MS + rnd(w) % 4000);
	if (chance(w, 500))
		w->clock_jump_s = (int64_t)(rnd(w) % 600) - 300;
	if (chance(w, 200)) /* a source restarts empty, without a word */
		for (int n = 0; n < OBJECTS; n += 3)
			s->has[n] = false;
	for (int k = 0; k < 3; k++) {
		int n = (int)(rnd(w) % OBJECTS);

		i = (int)(rnd(w) % SITES);
		if (chance(w, 3))
			cache_remove(w, i, n);
		else
			cache_put(w, i, n);
	}
	if (chance(w, 100)) {
		cache_remove(w, 0, POISON);
		cache_put(w, 0, POISON);
	}
	if (chance(w, 20) && w->master_up)
		ask_for(w, i, (int)(rnd(w) % OBJECTS));
	if (chance(w, 500) && w->master_up)
		(void)federation_backfill(w->f, (uint16_t)i);
}

static void step(struct world *w)
{
	w->now_ns += STEP_MS * MS;
	if (w->busy)
		trouble(w);
	if (!w->master_up && w->now_ns >= w->master_restart_ns)
		master_start(w);
	for (int i = 0; i < SITES; i++) {
		struct site *s = &w->site[i];

		if (!s->up && w->now_ns >= s->restart_ns) {
			sitemaster_start(w, i);
			listing(w, i);
		}
		if (s->parted && w->now_ns >= s->parted_until_ns)
			s->parted = false;
		if (s->up && w->now_ns >= s->list_ns)
			listing(w, i);
		if (s->up)
			log_trim(s->log, w->now_ns);
		connect_site(w, i);
		if (s->open)
			receive_at_site(w, i);
		if (s->open)
			receive_at_master(w, i);
		if (s->open)
			send_both(w, i);
		if (s->open)
			check_view(w, i);
		CHECK(w,
			s->open || !w->master_up ||
				w->f->site[i].reader.replica.state != REPLICA_LIVE,
			"the view of %s is live without a connection", names[i]);
	}
	check_loads(w);
	if (w->master_up)
		federation_tick(w->f, w->now_ns, unix_s(w));
	orders_run(w);
}

static void check_truth(struct world *w)
{
	for (int i = 0; i < SITES; i++) {
		const struct replica *r = &w->f->site[i].reader.replica;

		CHECK(w, r->state == REPLICA_LIVE, "the view of %s is not live but %d", names[i],
			(int)r->state);
		for (int n = 0; n < OBJECTS; n++) {
			uint64_t v = index_value(planner_index(w->f->planner), digest[n]);
			bool yes = (v & INDEX_PRESENT(i)) != 0;

			CHECK(w, yes == w->site[i].has[n], "%s: object %d is %s, the view says %s",
				names[i], n, w->site[i].has[n] ? "there" : "not there",
				yes ? "yes" : "no");
			CHECK(w, (v & INDEX_LOADING_MASK) == 0, "object %d is left loading", n);
		}
		CHECK(w, w->f->site[i].flow.flying == 0 && w->f->site[i].batches == 0,
			"%s: %llu objects fly for ever", names[i],
			(unsigned long long)w->f->site[i].flow.flying);
	}
	CHECK(w, orderbook_count(w->book) == 0, "%zu orders never end", orderbook_count(w->book));
}

static void run_seed(uint64_t seed, uint64_t totals[7])
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->seed = seed;
	w->random = seed * 0x2545f4914f6cdd1du;
	w->now_ns = BEGIN_NS;
	w->busy = true;
	w->book = orderbook_create(1, seed);
	assert_non_null(w->book);
	for (int i = 0; i < SITES; i++) {
		w->site[i].delay_ns = (5 + rnd(w) % 150) * MS;
		w->site[i].recall = recall_create(NULL, EVICTED_S, 7 * 86400);
		assert_non_null(w->site[i].recall);
		sitemaster_start(w, i);
	}
	master_start(w);
	for (int k = 0; k < BUSY_MS / STEP_MS; k++)
		step(w);
	w->busy = false;
	for (int k = 0; k < QUIET_MS / STEP_MS; k++) {
		/* when all is up again: three orders at most, in time for a fourth */
		if (k == QUIET_MS / STEP_MS / 4) {
			cache_put(w, 0, POISON);
			ask_for(w, SITES - 1, POISON);
		}
		step(w);
	}
	check_truth(w);
	totals[0] += w->orders;
	totals[1] += w->delivered;
	totals[2] += w->crashes + w->cuts;
	totals[3] += w->declined;
	totals[4] += w->stalls;
	totals[5] += w->full;
	totals[6] += w->elsewhere;
	master_stop(w);
	for (int i = 0; i < SITES; i++) {
		sitemaster_stop(w, i);
		recall_destroy(w->site[i].recall);
	}
	orderbook_destroy(w->book);
	free(w);
}

static uint64_t number(const char *name, uint64_t def)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : def;
}

static void the_view_converges_and_nothing_is_done_twice(void **state)
{
	uint64_t first = number("CONTROL_SIM_FIRST", 1), n = number("CONTROL_SIM_SEEDS", SEEDS);
	uint64_t totals[7] = { 0 };

	(void)state;
	for (uint64_t seed = first; seed < first + n; seed++)
		run_seed(seed, totals);
	print_message("%llu seeds: %llu orders, %llu objects brought, %llu crashes and cuts, "
		      "%llu declined, %llu from another site than the first\n",
		(unsigned long long)n, (unsigned long long)totals[0], (unsigned long long)totals[1],
		(unsigned long long)totals[2], (unsigned long long)totals[3],
		(unsigned long long)totals[6]);
	/* a world in which nothing happens proves nothing */
	assert_true(totals[1] >= 40 * n && totals[2] >= 20 * n && totals[3] > 0 && totals[4] >= n &&
		totals[5] >= n && totals[6] >= 2 * n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_view_converges_and_nothing_is_done_twice),
	};

	for (int i = 0; i < OBJECTS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%d", i);
		digest[i] = digest_of_key(&secret, keys[i], strlen(keys[i]));
	}
	return cmocka_run_group_tests_name("control_sim", tests, NULL, NULL);
}
