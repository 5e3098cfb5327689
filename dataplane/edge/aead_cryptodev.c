/* SPDX-License-Identifier: Apache-2.0 */

/* In 22.11 rte_cryptodev_sym_session_pool_create() is experimental; it is the only way there is. */
#define ALLOW_EXPERIMENTAL_API

#include "dataplane/edge/aead_cryptodev.h"

#include <strait/wire.h>

#include <rte_bus_vdev.h>
#include <rte_cryptodev.h>
#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
	BATCH = 16,
	SESSIONS = 2048, /* two a key, four keys a session */
	DESCRIPTORS = 64,
	ROOM = STRAIT_SYMBOL_BYTES_MAX + STRAIT_TAG_BYTES, /* of a buffer */
	AAD_ROOM = 64,
	IV_AT = sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op),
	AAD_AT = IV_AT + 16,
	PRIVATE = 16 + AAD_ROOM,
};

/* What a thread works with: it never asks a pool for anything afterwards. */
struct lane {
	struct rte_crypto_op *ops[BATCH];
	struct rte_mbuf *bufs[BATCH];
	uint16_t queue;
	bool dead; /* the device kept an operation */
};

static struct {
	uint8_t id;
	bool configured;
	struct rte_mempool *sessions, *ops, *bufs;
	struct lane lanes[AEAD_CRYPTODEV_LANES];
	unsigned int lane_count;
	_Atomic unsigned int lanes_used;
} device;

static _Thread_local struct lane *own_lane;

struct state {
	void *session[2]; /* seal, open */
	size_t aad_len;   /* the sessions' */
	uint8_t key[STRAIT_KEY_BYTES];
};
static_assert(sizeof(struct state) <= AEAD_STATE_BYTES, "AEAD_STATE_BYTES is too small");

static struct lane *lane(void)
{
	if (own_lane == NULL) {
		unsigned int i = atomic_fetch_add(&device.lanes_used, 1);

		if (i < device.lane_count)
			own_lane = &device.lanes[i];
	}
	return own_lane != NULL && !own_lane->dead ? own_lane : NULL;
}

static void sessions_free(struct state *s)
{
	for (int i = 0; i < 2; i++)
		if (s->session[i] != NULL)
			rte_cryptodev_sym_session_free(device.id, s->session[i]);
	s->session[0] = s->session[1] = NULL;
}

static int sessions_make(struct state *s, size_t aad_len)
{
	struct rte_crypto_sym_xform x = {
		.type = RTE_CRYPTO_SYM_XFORM_AEAD,
		.aead = {
			.algo = RTE_CRYPTO_AEAD_AES_GCM,
			.key = { .data = s->key, .length = STRAIT_KEY_BYTES },
			.iv = { .offset = IV_AT, .length = STRAIT_IV_BYTES },
			.digest_length = STRAIT_TAG_BYTES,
			.aad_length = (uint16_t)aad_len,
		},
	};

	for (int i = 0; i < 2; i++) {
		x.aead.op = i == 0 ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT;
		s->session[i] = rte_cryptodev_sym_session_create(device.id, &x, device.sessions);
		if (s->session[i] == NULL) {
			sessions_free(s);
			return rte_errno == ENOMEM ? -ENOMEM : -ENOTSUP;
		}
	}
	s->aad_len = aad_len;
	return 0;
}

static int cryptodev_init(struct aead *a, const uint8_t *key)
{
	struct state *s = (struct state *)a->state;

	memset(s, 0, sizeof(*s));
	if (!device.configured)
		return -ENOTSUP;
	memcpy(s->key, key, sizeof(s->key));
	return sessions_make(s, STRAIT_HEADER_BYTES);
}

static void cryptodev_fini(struct aead *a)
{
	if (device.configured)
		sessions_free((struct state *)a->state);
}

/* Sessions are for one length of AAD, which is the header's except in tests. */
static bool is_fit(struct state *s, size_t aad_len, size_t len)
{
	if (len > STRAIT_SYMBOL_BYTES_MAX || aad_len > AAD_ROOM)
		return false;
	if (aad_len == s->aad_len && s->session[0] != NULL)
		return true;
	sessions_free(s);
	return sessions_make(s, aad_len) == 0;
}

static void op_fill(struct lane *l, unsigned int i, void *session, const uint8_t *iv,
	const uint8_t *aad, size_t aad_len, const uint8_t *src, size_t len)
{
	struct rte_crypto_op *op = l->ops[i];
	struct rte_mbuf *m = l->bufs[i];
	uint8_t *text = rte_pktmbuf_mtod(m, uint8_t *);
	uint8_t *aad_copy = rte_crypto_op_ctod_offset(op, uint8_t *, AAD_AT);

	__rte_crypto_op_reset(op, RTE_CRYPTO_OP_TYPE_SYMMETRIC);
	memcpy(rte_crypto_op_ctod_offset(op, uint8_t *, IV_AT), iv, STRAIT_IV_BYTES);
	if (aad_len > 0)
		memcpy(aad_copy, aad, aad_len);
	if (len > 0)
		memcpy(text, src, len);
	m->data_len = (uint16_t)(len + STRAIT_TAG_BYTES);
	m->pkt_len = m->data_len;
	op->sym->m_src = m;
	op->sym->m_dst = NULL;
	op->sym->aead.data.offset = 0;
	op->sym->aead.data.length = (uint32_t)len;
	op->sym->aead.digest.data = text + len;
	op->sym->aead.digest.phys_addr = rte_pktmbuf_iova_offset(m, len);
	op->sym->aead.aad.data = aad_copy;
	op->sym->aead.aad.phys_addr = rte_crypto_op_ctophys_offset(op, AAD_AT);
	rte_crypto_op_attach_sym_session(op, session);
}

/* All n operations through the device, in order. false: it did not give them back. */
static bool run(struct lane *l, uint16_t n)
{
	const uint64_t end = rte_get_timer_cycles() + rte_get_timer_hz();
	struct rte_crypto_op *back[BATCH];
	uint16_t in = 0, out = 0;

	while (out < n) {
		if (in < n)
			in += rte_cryptodev_enqueue_burst(device.id, l->queue, l->ops + in,
				(uint16_t)(n - in));
		out += rte_cryptodev_dequeue_burst(device.id, l->queue, back, (uint16_t)(n - out));
		if (out < n && rte_get_timer_cycles() > end) {
			l->dead = true;
			return false;
		}
	}
	return true;
}

/* Never plaintext, never a keystream used for something else: the peer refuses it. */
static void seal_nothing(uint8_t *dst, size_t len, uint8_t *tag)
{
	memset(dst, 0, len);
	memset(tag, 0, STRAIT_TAG_BYTES);
}

static void seal_result(struct lane *l, unsigned int i, uint8_t *dst, size_t len, uint8_t *tag)
{
	const uint8_t *text = rte_pktmbuf_mtod(l->bufs[i], const uint8_t *);

	if (l->ops[i]->status != RTE_CRYPTO_OP_STATUS_SUCCESS) {
		seal_nothing(dst, len, tag);
		return;
	}
	if (len > 0)
		memcpy(dst, text, len);
	memcpy(tag, text + len, STRAIT_TAG_BYTES);
}

static void cryptodev_seal(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
	const uint8_t *src, size_t len, uint8_t *dst, uint8_t *tag)
{
	struct state *s = (struct state *)a->state;
	struct lane *l = lane();

	if (l == NULL || !is_fit(s, aad_len, len)) {
		seal_nothing(dst, len, tag);
		return;
	}
	op_fill(l, 0, s->session[0], iv, aad, aad_len, src, len);
	if (run(l, 1))
		seal_result(l, 0, dst, len, tag);
	else
		seal_nothing(dst, len, tag);
}

static void cryptodev_seal_many(struct aead *a, const struct aead_job *jobs, uint32_t n,
	size_t aad_len)
{
	struct state *s = (struct state *)a->state;

	for (uint32_t at = 0, some; at < n; at += some) {
		const struct aead_job *j = jobs + at;
		struct lane *l = lane();
		bool ok = l != NULL;

		some = n - at < BATCH ? n - at : BATCH;
		for (uint32_t i = 0; i < some && ok; i++) {
			ok = is_fit(s, aad_len, j[i].len);
			if (ok)
				op_fill(l, i, s->session[0], j[i].iv, j[i].aad, aad_len, j[i].src,
					j[i].len);
		}
		ok = ok && run(l, (uint16_t)some);
		for (uint32_t i = 0; i < some; i++)
			if (ok)
				seal_result(l, i, j[i].dst, j[i].len, j[i].tag);
			else
				seal_nothing(j[i].dst, j[i].len, j[i].tag);
	}
}

static int cryptodev_open(struct aead *a, const uint8_t *iv, const uint8_t *aad, size_t aad_len,
	const uint8_t *src, size_t len, const uint8_t *tag, uint8_t *dst)
{
	struct state *s = (struct state *)a->state;
	struct lane *l = lane();
	const uint8_t *text;

	if (l == NULL || !is_fit(s, aad_len, len))
		return -EBADMSG;
	op_fill(l, 0, s->session[1], iv, aad, aad_len, src, len);
	text = rte_pktmbuf_mtod(l->bufs[0], const uint8_t *);
	memcpy(rte_pktmbuf_mtod_offset(l->bufs[0], uint8_t *, len), tag, STRAIT_TAG_BYTES);
	if (!run(l, 1) || l->ops[0]->status != RTE_CRYPTO_OP_STATUS_SUCCESS)
		return -EBADMSG;
	if (len > 0)
		memcpy(dst, text, len);
	return 0;
}

static const struct aead_ops cryptodev_ops = {
	.name = "cryptodev",
	.init = cryptodev_init,
	.fini = cryptodev_fini,
	.seal = cryptodev_seal,
	.open = cryptodev_open,
	.seal_many = cryptodev_seal_many,
};

static bool has_gcm(uint8_t id)
{
	const struct rte_cryptodev_sym_capability_idx want = {
		.type = RTE_CRYPTO_SYM_XFORM_AEAD,
		.algo.aead = RTE_CRYPTO_AEAD_AES_GCM,
	};
	const struct rte_cryptodev_symmetric_capability *c =
		rte_cryptodev_sym_capability_get(id, &want);

	return c != NULL &&
		rte_cryptodev_sym_capability_check_aead(c, STRAIT_KEY_BYTES, STRAIT_TAG_BYTES,
			STRAIT_HEADER_BYTES, STRAIT_IV_BYTES) == 0;
}

static int queues_start(int socket)
{
	const struct rte_cryptodev_qp_conf qp = { .nb_descriptors = DESCRIPTORS,
		.mp_session = device.sessions };
	struct rte_cryptodev_config conf = { .nb_queue_pairs = (uint16_t)device.lane_count,
		.socket_id = socket };
	int ret = rte_cryptodev_configure(device.id, &conf);

	for (uint16_t i = 0; i < device.lane_count && ret == 0; i++)
		ret = rte_cryptodev_queue_pair_setup(device.id, i, &qp, socket);
	return ret == 0 ? rte_cryptodev_start(device.id) : ret;
}

static int lanes_fill(void)
{
	for (unsigned int i = 0; i < device.lane_count; i++) {
		struct lane *l = &device.lanes[i];

		l->queue = (uint16_t)i;
		if (rte_crypto_op_bulk_alloc(device.ops, RTE_CRYPTO_OP_TYPE_SYMMETRIC, l->ops,
			    BATCH) != BATCH ||
			rte_pktmbuf_alloc_bulk(device.bufs, l->bufs, BATCH) != 0)
			return -ENOMEM;
	}
	return 0;
}

const struct aead_ops *aead_cryptodev_start(const char *name, char *err, size_t err_len)
{
	const unsigned int n = AEAD_CRYPTODEV_LANES * BATCH;
	struct rte_cryptodev_info info;
	int id = rte_cryptodev_get_dev_id(name), socket, ret;

	if (id < 0 && strncmp(name, "crypto_", 7) == 0 && rte_vdev_init(name, NULL) == 0)
		id = rte_cryptodev_get_dev_id(name);
	if (id < 0) {
		snprintf(err, err_len,
			"there is no crypto device %s: bind it to DPDK, or name a virtual one "
			"such as crypto_aesni_gcm",
			name);
		return NULL;
	}
	memset(&device, 0, sizeof(device));
	device.id = (uint8_t)id;
	rte_cryptodev_info_get(device.id, &info);
	socket = rte_cryptodev_socket_id(device.id);
	if (!has_gcm(device.id)) {
		snprintf(err, err_len, "%s does no AES-256-GCM with 24 bytes of AAD", name);
		return NULL;
	}
	device.lane_count = info.max_nb_queue_pairs < AEAD_CRYPTODEV_LANES ? info.max_nb_queue_pairs
									   : AEAD_CRYPTODEV_LANES;
	device.sessions = rte_cryptodev_sym_session_pool_create("aead_sessions", SESSIONS,
		rte_cryptodev_sym_get_private_session_size(device.id), 0, 0, socket);
	device.ops = rte_crypto_op_pool_create("aead_ops", RTE_CRYPTO_OP_TYPE_SYMMETRIC, n, 0,
		PRIVATE, socket);
	device.bufs =
		rte_pktmbuf_pool_create("aead_bufs", n, 0, 0, RTE_PKTMBUF_HEADROOM + ROOM, socket);
	if (device.sessions == NULL || device.ops == NULL || device.bufs == NULL) {
		snprintf(err, err_len, "%s: no memory: raise eal.memory", name);
		goto fail;
	}
	ret = queues_start(socket);
	if (ret == 0)
		ret = lanes_fill();
	if (ret < 0) {
		snprintf(err, err_len, "%s cannot be started: %s", name, strerror(-ret));
		goto fail;
	}
	device.configured = true;
	return &cryptodev_ops;
fail:
	aead_cryptodev_stop();
	return NULL;
}

void aead_cryptodev_stop(void)
{
	if (device.configured) {
		rte_cryptodev_stop(device.id);
		rte_cryptodev_close(device.id);
	}
	device.configured = false;
	for (unsigned int i = 0; i < AEAD_CRYPTODEV_LANES; i++) {
		struct lane *l = &device.lanes[i];

		for (int j = 0; j < BATCH && !l->dead; j++) {
			if (l->ops[j] != NULL)
				rte_crypto_op_free(l->ops[j]);
			rte_pktmbuf_free(l->bufs[j]);
		}
	}
	rte_mempool_free(device.bufs);
	rte_mempool_free(device.ops);
	rte_mempool_free(device.sessions);
	memset(&device, 0, sizeof(device));
	own_lane = NULL;
}
