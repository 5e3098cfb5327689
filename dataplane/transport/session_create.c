/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/transport/session_pvt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Making and unmaking a session. Control thread only: nothing else of a session allocates, and the
 * files that run per packet are checked for it.
 */

enum {
	DEFAULT_LOG_PACKETS = 131072,
	DEFAULT_WINDOW_PACKETS = 131072,
	DEFAULT_SCRATCH_SLOTS = 4096,
	DEFAULT_ROW_SLOTS = 4096,
};

static void config_defaults(struct session_config *c)
{
	if (c->rtt_hint_ns == 0)
		c->rtt_hint_ns = 100 * NS_PER_MS;
	if (c->loss_prior < 0)
		c->loss_prior = 0.01;
	if (c->log_packets == 0)
		c->log_packets = DEFAULT_LOG_PACKETS;
	if (c->window_packets == 0)
		c->window_packets = DEFAULT_WINDOW_PACKETS;
	if (c->scratch_slots == 0)
		c->scratch_slots = DEFAULT_SCRATCH_SLOTS;
	if (c->row_slots == 0)
		c->row_slots = DEFAULT_ROW_SLOTS;
	if (c->ip_bytes == 0)
		c->ip_bytes = 28;
	if (c->idle_timeout_ns == 0)
		c->idle_timeout_ns = 120 * NS_PER_S;
}

static int sender_init(struct session *s)
{
	struct sender *x = &s->tx;
	size_t symbol = s->cfg.symbol_bytes;
	int ret;

	x->next_id = 1;
	rtt_init(&x->rtt, s->cfg.rtt_hint_ns);
	x->loss = s->cfg.loss_prior;
	memcpy(x->limit, s->cfg.peer_credit, sizeof(x->limit));
	rs_init(&x->rs);
	ret = sentlog_init(&x->log, s->cfg.log_packets);
	if (ret < 0)
		return ret;
	x->redundancy = redundancy_levels();
	x->cache_bytes = aligned_alloc(64,
		(symbol * ROW_CACHE_SETS * ROW_CACHE_BLOCKS * RS_BATCH_ROWS + 63) / 64 * 64);
	x->gather_bytes = aligned_alloc(64, (symbol * STRAIT_BLOCK_SYMBOLS_MAX + 63) / 64 * 64);
	return x->cache_bytes != NULL && x->gather_bytes != NULL ? 0 : -ENOMEM;
}

static void sender_fini(struct session *s)
{
	sentlog_fini(&s->tx.log);
	free(s->tx.cache_bytes);
	free(s->tx.gather_bytes);
}

static int receiver_init(struct session *s)
{
	struct receiver *r = &s->rx;
	size_t symbol = s->cfg.symbol_bytes;
	uint32_t window = 64;
	int ret;

	while (window < s->cfg.window_packets && window < 1u << 31)
		window *= 2;
	r->stray = SCRATCH_NONE;
	for (uint32_t i = 0; i < SESSION_TRANSFERS_MAX; i++)
		r->slots[i].early = SCRATCH_NONE;
	memcpy(r->window_size, s->cfg.own_credit, sizeof(r->window_size));
	for (int c = 0; c < STRAIT_CLASS_COUNT; c++)
		r->credit_told[c] = r->window_size[c].bytes;
	r->interval_ns = s->cfg.rtt_hint_ns / REPORTS_A_ROUND;
	rs_init(&r->rs);
	ret = pnwindow_init(&r->window, window);
	if (ret == 0)
		ret = scratch_init(&r->early, s->cfg.scratch_slots, s->cfg.symbol_bytes);
	if (ret == 0)
		ret = scratch_init(&r->rows, s->cfg.row_slots, s->cfg.symbol_bytes);
	if (ret == 0)
		ret = rx_folds_init(&r->folds, s->cfg.symbol_bytes);
	if (ret < 0)
		return ret;
	r->bounce = aligned_alloc(64, (STRAIT_SYMBOL_BYTES_MAX + 63) / 64 * 64);
	r->gather_bytes = aligned_alloc(64, (symbol * STRAIT_BLOCK_SYMBOLS_MAX + 63) / 64 * 64);
	return r->bounce != NULL && r->gather_bytes != NULL ? 0 : -ENOMEM;
}

static void receiver_fini(struct session *s)
{
	pnwindow_fini(&s->rx.window);
	scratch_fini(&s->rx.early);
	scratch_fini(&s->rx.rows);
	rx_folds_fini(&s->rx.folds);
	free(s->rx.bounce);
	free(s->rx.gather_bytes);
}

struct session *session_create(const struct session_config *cfg)
{
	struct session *s;
	int ret;

	if (cfg->symbol_bytes < STRAIT_SYMBOL_BYTES_MIN ||
		cfg->symbol_bytes > STRAIT_SYMBOL_BYTES_MAX || cfg->queue >= STRAIT_QUEUES_MAX ||
		cfg->direction > STRAIT_DIR_RESPONDER || cfg->aead == NULL ||
		cfg->peer_session == 0 || cfg->own_session == 0) {
		errno = EINVAL;
		return NULL;
	}
	s = aligned_alloc(64, (sizeof(*s) + 63) / 64 * 64);
	if (s == NULL)
		return NULL;
	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	config_defaults(&s->cfg);
	s->tx_events_tail = &s->tx_events;
	s->rx_events_tail = &s->rx_events;
	s->token = cfg->seed * UINT64_C(0x9e3779b97f4a7c15) ^ UINT64_C(0xd1b54a32d192ed03);
	rate_init(&s->tx.rate, s->cfg.cap_bps);
	pacer_init(&s->pacer, s->tx.rate.rate_bps,
		s->cfg.symbol_bytes + STRAIT_OVERHEAD_BYTES + session_line_overhead(s),
		s->cfg.burst_packets);
	mtu_init(&s->mtu, s->cfg.symbol_bytes, s->cfg.ip_bytes);
	s->rx_path_bytes = s->path_before = s->cfg.symbol_bytes;
	ret = key_tx_init(&s->tx_keys, cfg->aead, cfg->secret, cfg->direction, cfg->queue);
	if (ret == 0)
		ret = key_rx_init(&s->rx_keys, cfg->aead, cfg->secret, !cfg->direction, cfg->queue);
	if (ret == 0)
		ret = sender_init(s);
	if (ret == 0)
		ret = receiver_init(s);
	explicit_bzero(s->cfg.secret, sizeof(s->cfg.secret));
	if (ret < 0) {
		session_destroy(s);
		errno = -ret;
		return NULL;
	}
	return s;
}

void session_destroy(struct session *s)
{
	if (s == NULL)
		return;
	sender_fini(s);
	receiver_fini(s);
	key_tx_fini(&s->tx_keys);
	key_rx_fini(&s->rx_keys);
	explicit_bzero(s, sizeof(*s));
	free(s);
}
