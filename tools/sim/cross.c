/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/cross.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Full-sized segments with timestamps at MTU 1500, and their acknowledgments. */
enum { DATA_FRAME_BYTES = 1514, ACK_FRAME_BYTES = 66 };

/* Segments a flow's window may span when the line's rate is not known. */
enum { WINDOW_MIN = 4096, WINDOW_MAX = 1 << 22 };

/* ---- paths ---------------------------------------------------------------------------------- */

static int path_push(struct cross_path *p, const struct cross_item *item)
{
	if (p->len == p->cap) {
		size_t cap = p->cap ? 2 * p->cap : 1024;
		struct cross_item *ring = malloc(cap * sizeof(*ring));

		if (!ring)
			return -ENOMEM;
		for (size_t i = 0; i < p->len; i++)
			ring[i] = p->ring[(p->head + i) % p->cap];
		free(p->ring);
		p->ring = ring;
		p->head = 0;
		p->cap = cap;
	}
	p->ring[(p->head + p->len++) % p->cap] = *item;
	return 0;
}

static uint64_t path_next_ns(const struct cross_path *p)
{
	return p->len ? p->ring[p->head].due_ns : UINT64_MAX;
}

static bool path_pop(struct cross_path *p, uint64_t now_ns, struct cross_item *out)
{
	if (path_next_ns(p) > now_ns)
		return false;
	*out = p->ring[p->head];
	p->head = (p->head + 1) % p->cap;
	p->len--;
	return true;
}

/* ---- flows ---------------------------------------------------------------------------------- */

static bool is_on(const struct cross_flow *f, uint64_t now_ns)
{
	return now_ns >= f->start_ns && now_ns < f->end_ns;
}

/* One packet into the bottleneck of the flow's direction, or against it for its acknowledgments. */
static void enter(struct cross *x, struct cross_flow *f, uint64_t now_ns, bool ack,
	struct cross_item *item)
{
	struct link *l = &x->links[ack ? !f->cfg.direction : f->cfg.direction];
	uint32_t frame = ack ? ACK_FRAME_BYTES : DATA_FRAME_BYTES;
	uint64_t depart_ns;

	f->offered += !ack;
	if (!link_share(l, now_ns, frame, &depart_ns)) {
		f->lost += !ack;
		return;
	}
	item->due_ns = depart_ns + f->owd_ns;
	if (path_push(ack ? &f->acks : &f->data, item) < 0)
		x->failed = true;
}

/* The next packet that is at the receiver by now. */
static bool arrived(struct cross *x, struct cross_flow *f, uint64_t now_ns, struct cross_item *item)
{
	if (!path_pop(&f->data, now_ns, item))
		return false;
	f->bytes += DATA_FRAME_BYTES + LINK_OVERHEAD_BYTES;
	x->bytes[f->cfg.direction] += DATA_FRAME_BYTES + LINK_OVERHEAD_BYTES;
	return true;
}

static void cubic_step(struct cross *x, struct cross_flow *f, uint64_t now_ns)
{
	struct cross_item item = { 0 };

	while (arrived(x, f, now_ns, &item))
		if (tcp_receive(&f->tcp, now_ns, &item.segment, &item.ack))
			enter(x, f, now_ns, true, &item);
	if (tcp_delay_ns(&f->tcp) <= now_ns) {
		tcp_delayed(&f->tcp, &item.ack);
		enter(x, f, now_ns, true, &item);
	}
	while (path_pop(&f->acks, now_ns, &item))
		tcp_acked(&f->tcp, now_ns, &item.ack);
	if (!is_on(f, now_ns))
		return;
	if (tcp_timer_ns(&f->tcp) <= now_ns)
		tcp_timeout(&f->tcp, now_ns);
	while (tcp_send(&f->tcp, now_ns, &item.segment))
		enter(x, f, now_ns, false, &item);
}

static void cbr_step(struct cross *x, struct cross_flow *f, uint64_t now_ns)
{
	double gap_ns = (DATA_FRAME_BYTES + LINK_OVERHEAD_BYTES) * 8e9 / (double)f->cfg.rate_bps;
	struct cross_item item = { 0 };

	while (arrived(x, f, now_ns, &item))
		;
	while (f->send_ns <= now_ns && is_on(f, now_ns)) {
		double next = f->send_frac + gap_ns;

		enter(x, f, now_ns, false, &item);
		f->send_ns += (uint64_t)next;
		f->send_frac = next - (double)(uint64_t)next;
	}
}

static uint64_t flow_next_ns(const struct cross_flow *f, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	uint64_t of[] = { path_next_ns(&f->data), path_next_ns(&f->acks), tcp_delay_ns(&f->tcp),
		is_on(f, now_ns) ? tcp_timer_ns(&f->tcp) : UINT64_MAX };

	if (now_ns < f->start_ns)
		return f->start_ns;
	if (f->cfg.kind == CROSS_CBR) {
		next = path_next_ns(&f->data);
		return f->send_ns < f->end_ns && f->send_ns < next ? f->send_ns : next;
	}
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		next = of[i] < next ? of[i] : next;
	return next;
}

uint64_t cross_next_ns(const struct cross *x)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < x->n; i++)
		next = x->flows[i].next_ns < next ? x->flows[i].next_ns : next;
	return next;
}

void cross_step(struct cross *x, uint64_t now_ns)
{
	for (uint32_t i = 0; i < x->n; i++) {
		struct cross_flow *f = &x->flows[i];

		if (f->next_ns > now_ns)
			continue;
		if (f->cfg.kind == CROSS_CUBIC)
			cubic_step(x, f, now_ns);
		else
			cbr_step(x, f, now_ns);
		f->next_ns = flow_next_ns(f, now_ns);
	}
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Twice what line and queue hold: the window never limits. */
static uint64_t window_segments(const struct cross_flow *f, const struct link *l)
{
	double bytes = (double)l->cfg.rate_bps * (double)f->owd_ns / 4e9 +
		(double)link_config_queue_bytes(&l->cfg);
	double n = 2 * bytes / DATA_FRAME_BYTES;

	if (l->cfg.rate_bps == 0 || n > WINDOW_MAX)
		return WINDOW_MAX;
	return n < WINDOW_MIN ? WINDOW_MIN : (uint64_t)n;
}

int cross_init(struct cross *x, const struct cross_config *cfg, uint32_t n, struct link *links,
	uint64_t t0_ns)
{
	memset(x, 0, sizeof(*x));
	if (n > CROSS_FLOWS_MAX)
		return -ENOSPC;
	x->links = links;
	for (uint32_t i = 0; i < n; i++) {
		struct cross_flow *f = &x->flows[i];
		const struct link *l = &links[cfg[i].direction];

		f->cfg = cfg[i];
		f->start_ns = f->send_ns = f->next_ns = t0_ns + cfg[i].start_ns;
		f->end_ns = f->start_ns + cfg[i].len_ns;
		f->owd_ns = (cfg[i].rtt_ns ? cfg[i].rtt_ns : l->cfg.rtt_ns) / 2;
		x->n = i + 1;
		if (cfg[i].kind == CROSS_CUBIC && tcp_init(&f->tcp, window_segments(f, l)) < 0) {
			cross_fini(x);
			return -ENOMEM;
		}
	}
	return 0;
}

void cross_fini(struct cross *x)
{
	for (uint32_t i = 0; i < x->n; i++) {
		tcp_fini(&x->flows[i].tcp);
		free(x->flows[i].data.ring);
		free(x->flows[i].acks.ring);
	}
	memset(x, 0, sizeof(*x));
}

/* Up to three numbers with commas between them and nothing after them; how many, 0 if not so. */
static int numbers_parse(const char *s, double v[3])
{
	for (int n = 0; n < 3;) {
		char *end;

		v[n++] = strtod(s, &end);
		if (end == s)
			return 0;
		if (*end == 0)
			return n;
		if (*end != ',')
			return 0;
		s = end + 1;
	}
	return 0;
}

int cross_parse(struct cross_config *cfg, const char *value, char *errbuf, size_t errlen)
{
	double v[3] = { 0 };
	int n = 0;

	memset(cfg, 0, sizeof(*cfg));
	if (strncmp(value, "cubic:", 6) == 0) {
		cfg->kind = CROSS_CUBIC;
		n = numbers_parse(value + 6, v);
	} else if (strncmp(value, "cbr:", 4) == 0) {
		cfg->kind = CROSS_CBR;
		n = numbers_parse(value + 4, v);
		if (n == 2 || !(v[2] >= 1e-6))
			n = 0;
	}
	if (n < 2 || !(v[0] >= 0 && v[0] <= 1e8) || !(v[1] > 0 && v[1] <= 1e8) ||
		!(v[2] >= 0 && v[2] <= 10000)) {
		snprintf(errbuf, errlen,
			"--cross '%s': expected cubic:START_MS,LEN_MS[,RTT_MS] or "
			"cbr:START_MS,LEN_MS,GBPS",
			value);
		return -EINVAL;
	}
	cfg->start_ns = (uint64_t)(v[0] * 1e6);
	cfg->len_ns = (uint64_t)(v[1] * 1e6);
	if (cfg->kind == CROSS_CUBIC)
		cfg->rtt_ns = (uint64_t)(v[2] * 1e6);
	else
		cfg->rate_bps = (uint64_t)(v[2] * 1e9);
	return 0;
}
