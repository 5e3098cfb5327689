/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The world of edges_sim_test.c: edges, what they have to do, and their connections to a master,
 * whose part is in the test. Everything follows from a seed and a time that is counted, not
 * measured.
 */

#include "control/orders/orderbook.h"
#include "control/orders/shares.h"
#include "tests/unit/virtual_time.h"
#include "tools/link/prng.h"

#include <strait/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
	SITES = 3,
	EDGES = 2, /* of a site */
	ALL = SITES * EDGES,
	STEP_MS = 20,
	BUSY_MS = 60000,
	QUIET_MS = 240000,
	SEEDS = 16,
	LOST_MS = 3000,
	REPORT_MS = 500,
	UNREACHABLE_MS = 10000,
	OBJECTS = 4096,
	OF_ORDER = 6,
	PIPE = 1024,
	WORK = 256,
	SLACK = ALL, /* bit/s: of one that was lost and is back each link has 1 until it is heard */
};
#define M UINT64_C(1000000)

enum kind { REGISTER, START, CANCEL, LINKS, ACK, RESULT, REPORT };

struct message {
	uint64_t due_ns, wire, seq, term;
	enum kind kind;
	uint64_t caps[ALL]; /* 0: nothing is said of it */
	bool fenced[ALL];
	int to, index, status, objects[OF_ORDER], n;
	bool pending[OF_ORDER];
};

struct pipe {
	struct message q[PIPE];
	uint32_t head, count;
	uint64_t last_ns;
};

/* What an edge has to do. */
struct work {
	bool used, canceled;
	uint64_t wire;
	int to, objects[OF_ORDER], n, next;
	bool pending[OF_ORDER];
	uint64_t bits_left; /* of the next object */
	uint64_t stuck_ns;  /* since when there is no session; 0: there is */
};

struct node {
	char site[2], name[2];
	/* the process */
	bool alive, drain_at_master;
	uint64_t restart_ns, term;
	uint64_t cap[ALL], used_bits[ALL], used_bps[ALL], path_bps[ALL];
	bool fenced[ALL], heard; /* heard: of the master, since it started */
	struct work work[WORK];
	uint64_t report_ns, connect_ns;
	/* its connection */
	bool open;
	uint64_t parted_until_ns, delay_ns;
	struct pipe up, down;
	/* at the master */
	struct shares_edge shares;
	uint64_t reported_bps[ALL];
};

struct world {
	uint64_t seed, random, now_ns, term, master_restart_ns;
	bool master_up, busy;
	bool ended[ALL][ALL];  /* no session from one to the other, as it was fenced */
	bool starts[ALL][ALL]; /* what waited for a share of these may start */
	struct node node[ALL];
	struct shares shares;
	struct orderbook *book;
	bool lost_on_disk[ALL];
	uint8_t applied[SITES][OBJECTS];
	int next_object;
	bool excused[SITES + 1][SITES + 1];
	uint64_t excuses, looks;
	uint64_t orders, kills, partings, lost, handed, used_bits, offered_bits, both;
};

static uint64_t rnd(struct world *w)
{
	return prng_splitmix(&w->random);
}

static bool chance(struct world *w, uint32_t one_in)
{
	return rnd(w) % one_in == 0;
}

static int site_of(int node)
{
	return node / EDGES;
}

static uint64_t now_ms(const struct world *w)
{
	return w->now_ns / MS;
}

/* a to b: 100, all others 300; out of a 250, into c 200 Mbit/s */
static void on_caps(void *ctx, const char *from, const char *to, struct shares_caps *out)
{
	(void)ctx;
	out->link_bps = from[0] == 'a' && to[0] == 'b' ? 100 * M : 300 * M;
	out->out_bps = from[0] == 'a' ? 250 * M : 0;
	out->in_bps = to[0] == 'c' ? 200 * M : 0;
}

static int node_of(const struct world *w, const struct shares_edge *e)
{
	for (int i = 0; i < ALL; i++)
		if (&w->node[i].shares == e)
			return i;
	return -1;
}

static int node_named(const char *site, const char *name)
{
	return (site[0] - 'a') * EDGES + name[0] - '1';
}

static bool on_used(void *ctx, const struct shares_flow *f, uint64_t *bps)
{
	struct world *w = ctx;

	*bps = w->node[node_of(w, f->from)].reported_bps[node_of(w, f->to)];
	return true;
}

static struct message *put(struct world *w, int i, struct pipe *p, enum kind kind)
{
	struct node *n = &w->node[i];
	uint64_t due = w->now_ns + n->delay_ns + rnd(w) % (n->delay_ns / 2 + 1);
	struct message *m;

	CHECK(w, p->count < PIPE, "a pipe is full");
	m = &p->q[(p->head + p->count++) % PIPE];
	*m = (struct message){ .kind = kind,
		.due_ns = due > p->last_ns ? due : p->last_ns,
		.term = w->term };
	p->last_ns = m->due_ns;
	return m;
}

static void on_send(void *ctx, struct shares_edge *e)
{
	struct world *w = ctx;
	int i = node_of(w, e);
	struct message *m = put(w, i, &w->node[i].down, LINKS);
	const struct shares_flow *f;

	m->seq = e->seq;
	TAILQ_FOREACH(f, &w->shares.flows, entry)
		if (f->from == e)
			m->caps[node_of(w, f->to)] = f->grant.told_bps;
	for (int k = 0; k < ALL; k++)
		m->fenced[k] = w->node[k].shares.fenced && site_of(k) != site_of(i);
}

static bool on_hears(void *ctx, const struct shares_flow *f)
{
	(void)ctx;
	(void)f;
	return true;
}

static const struct shares_ops ops = { on_caps, on_used, on_hears, on_send };

static void disconnect(struct world *w, int i)
{
	struct node *n = &w->node[i];

	if (!n->open)
		return;
	n->open = false;
	n->up.count = n->down.count = 0;
	n->up.last_ns = n->down.last_ns = 0;
	n->connect_ns = w->now_ns + (100 + rnd(w) % 1000) * MS;
	if (w->master_up && n->shares.connected)
		shares_disconnected(&n->shares, w->now_ns);
}

/* ---- edges ------------------------------------------------------------------------------- */

static struct work *work_find(struct node *n, uint64_t wire)
{
	for (int k = 0; k < WORK; k++)
		if (n->work[k].used && n->work[k].wire == wire)
			return &n->work[k];
	return NULL;
}

static void work_start(struct world *w, struct node *n, const struct message *m)
{
	struct work *x = work_find(n, m->wire);

	n->cap[m->to] = m->caps[m->to];
	if (x == NULL)
		for (x = n->work; x->used; x++)
			CHECK(w, x < n->work + WORK - 1, "too much work");
	/* what it knows it did it tells again: here, does again what the master misses */
	*x = (struct work){ .used = true, .wire = m->wire, .to = m->to, .n = m->n };
	memcpy(x->objects, m->objects, sizeof(x->objects));
	memcpy(x->pending, m->pending, sizeof(x->pending));
}

static void at_edge(struct world *w, int i, const struct message *m)
{
	struct node *n = &w->node[i];
	struct work *x;

	CHECK(w, m->term >= n->term, "a master of an older term orders");
	n->term = m->term;
	if (m->kind == START) {
		work_start(w, n, m);
	} else if (m->kind == CANCEL) {
		x = work_find(n, m->wire);
		if (x != NULL)
			x->used = false;
	} else {
		for (int k = 0; k < ALL; k++)
			if (m->caps[k] != 0 && n->cap[k] != 0)
				n->cap[k] = m->caps[k];
		memcpy(n->fenced, m->fenced, sizeof(n->fenced));
		n->heard = true;
		put(w, i, &n->up, ACK)->seq = m->seq;
	}
}

static bool is_heard(const struct world *w, int from, int to)
{
	return w->node[to].alive && w->node[to].heard && !w->node[to].fenced[from];
}

static void tell(struct world *w, int i, const struct work *x, int index, int status)
{
	struct message *m;

	if (!w->node[i].open)
		return; /* the master asks again */
	m = put(w, i, &w->node[i].up, RESULT);
	m->wire = x->wire;
	m->index = index;
	m->status = status;
}

static void arrive(struct world *w, int i, struct work *x)
{
	int number = x->objects[x->next], site = site_of(x->to), status = STRAIT_STATUS_COMMITTED;

	if (w->applied[site][number] > 0)
		status = STRAIT_STATUS_EXISTS;
	else
		w->applied[site][number]++;
	tell(w, i, x, x->next, status);
}

/* Send for a step; what is left of budget after one object is the next one's. */
static void work_run(struct world *w, int i, struct work *x, uint64_t *budget)
{
	while (x->used && x->next < x->n) {
		uint64_t bits;

		if (!x->pending[x->next]) {
			x->next++;
			continue;
		}
		if (!is_heard(w, i, x->to)) {
			x->stuck_ns = x->stuck_ns != 0 ? x->stuck_ns : w->now_ns;
			if (w->now_ns - x->stuck_ns < UNREACHABLE_MS * MS)
				return;
			for (; x->next < x->n; x->next++)
				if (x->pending[x->next])
					tell(w, i, x, x->next, STRAIT_STATUS_UNREACHABLE);
			return;
		}
		x->stuck_ns = 0;
		if (x->bits_left == 0)
			x->bits_left = 4 * M + rnd(w) % (12 * M);
		bits = x->bits_left < *budget ? x->bits_left : *budget;
		x->bits_left -= bits;
		*budget -= bits;
		w->node[i].used_bits[x->to] += bits;
		w->used_bits += bits;
		if (x->bits_left > 0)
			return;
		arrive(w, i, x);
		x->next++;
	}
}

static void edge_report(struct world *w, int i)
{
	struct node *n = &w->node[i];

	n->report_ns = w->now_ns + REPORT_MS * MS;
	for (int k = 0; k < ALL; k++) {
		n->used_bps[k] = n->used_bits[k] * 1000 / REPORT_MS;
		n->used_bits[k] = 0;
	}
	if (n->open)
		memcpy(put(w, i, &n->up, REPORT)->caps, n->used_bps, sizeof(n->used_bps));
}

static void edge_run(struct world *w, int i)
{
	struct node *n = &w->node[i];

	for (int to = 0; to < ALL; to++) {
		uint64_t bps = n->cap[to] < n->path_bps[to] ? n->cap[to] : n->path_bps[to];
		uint64_t budget = bps / 1000 * STEP_MS;

		for (int k = 0; k < WORK; k++)
			if (n->work[k].used && n->work[k].to == to)
				work_run(w, i, &n->work[k], &budget);
	}
	if (w->now_ns >= n->report_ns)
		edge_report(w, i);
}

static void edge_kill(struct world *w, int i)
{
	struct node *n = &w->node[i];

	disconnect(w, i);
	n->alive = n->heard = false;
	n->restart_ns = w->now_ns + rnd(w) % (chance(w, 2) ? 2000 * MS : 12000 * MS);
	memset(n->work, 0, sizeof(n->work));
	memset(n->cap, 0, sizeof(n->cap));
	memset(n->used_bits, 0, sizeof(n->used_bits));
	memset(n->fenced, 0, sizeof(n->fenced));
	w->kills++;
}

static void edge_connect(struct world *w, int i)
{
	struct node *n = &w->node[i];

	if (n->open || !n->alive || !w->master_up || w->now_ns < n->parted_until_ns ||
		w->now_ns < n->connect_ns)
		return;
	n->open = true;
	memcpy(put(w, i, &n->up, REGISTER)->caps, n->cap, sizeof(n->cap));
}

static bool pop(struct world *w, struct pipe *p, struct message *out)
{
	if (p->count == 0 || p->q[p->head].due_ns > w->now_ns)
		return false;
	*out = p->q[p->head];
	p->head = (p->head + 1) % PIPE;
	p->count--;
	return true;
}
