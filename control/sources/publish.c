/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sources/publish.h"

#include <msgpack.h>
#include <zmq.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HWM = 10000, STORED_FIELDS = 20, REMOVED_FIELDS = 17, BACKEND_MAX = 128 };

struct publisher {
	void *zmq, *pub;
	char backend[BACKEND_MAX], endpoint[256];
	msgpack_sbuffer events, batch;
	uint32_t count;
	bool broken; /* memory did not suffice for the batch */
	uint64_t seq, event_id;
};

static int append(void *data, const char *bytes, size_t len)
{
	struct publisher *p = data;

	if (msgpack_sbuffer_write(&p->events, bytes, len) != 0)
		p->broken = true;
	return 0;
}

static void put_text(msgpack_packer *pk, const void *text, size_t len)
{
	msgpack_pack_str(pk, len);
	msgpack_pack_str_body(pk, text, len);
}

static void put_key(msgpack_packer *pk, const char *name)
{
	put_text(pk, name, strlen(name));
}

static void put_nil(msgpack_packer *pk, const char *name)
{
	put_key(pk, name);
	msgpack_pack_nil(pk);
}

static void put_string(msgpack_packer *pk, const char *name, const char *value)
{
	put_key(pk, name);
	put_key(pk, value);
}

/* A key that is a number as a whole, decimal or 0x.., is its own hash. */
static bool key_number(const char *key, size_t len, uint64_t *out)
{
	bool hex = len > 2 && key[0] == '0' && (key[1] == 'x' || key[1] == 'X');
	char text[24], *end;

	if (len == 0 || len >= sizeof(text))
		return false;
	for (size_t i = hex ? 2 : 0; i < len; i++) {
		bool digit = key[i] >= '0' && key[i] <= '9';
		char lower = (char)(key[i] | 0x20);

		if (!digit && !(hex && lower >= 'a' && lower <= 'f'))
			return false;
	}
	memcpy(text, key, len);
	text[len] = '\0';
	errno = 0;
	*out = strtoull(text, &end, hex ? 16 : 10);
	return errno == 0;
}

static void put_hashes(msgpack_packer *pk, const void *key, size_t len)
{
	uint64_t number;
	bool is = key_number(key, len, &number);

	put_key(pk, "seq_hashes");
	msgpack_pack_array(pk, is);
	if (is)
		msgpack_pack_uint64(pk, number);
	put_key(pk, "block_hashes");
	msgpack_pack_array(pk, is);
	if (is)
		msgpack_pack_int64(pk, (int64_t)number);
}

static void put_event(msgpack_packer *pk, const struct publisher *p, bool stored,
	const char *tenant, const void *key, size_t len, uint64_t now_ms)
{
	msgpack_pack_map(pk, stored ? STORED_FIELDS : REMOVED_FIELDS);
	put_key(pk, "event_id");
	msgpack_pack_uint64(pk, p->event_id);
	put_key(pk, "timestamp");
	msgpack_pack_uint64(pk, now_ms);
	put_string(pk, "event_type", stored ? "stored" : "removed");
	put_string(pk, "type", stored ? "BlockStored" : "BlockRemoved");
	put_nil(pk, "model_name");
	put_nil(pk, "block_size");
	put_nil(pk, "additional_salt");
	put_nil(pk, "lora_name");
	put_string(pk, "tenant_id", tenant);
	put_string(pk, "backend_id", p->backend);
	put_nil(pk, "group_id");
	put_string(pk, "medium", "cpu");
	put_nil(pk, "dp_rank");
	put_key(pk, "object_key");
	put_text(pk, key, len);
	put_hashes(pk, key, len);
	put_key(pk, "base_block_idx");
	if (!stored) {
		msgpack_pack_nil(pk);
		return;
	}
	msgpack_pack_uint64(pk, 0);
	put_nil(pk, "parent_hash");
	put_nil(pk, "token_ids");
	put_nil(pk, "parent_block_hash");
}

struct publisher *publisher_create(const char *endpoint, const char *backend, char *err,
	size_t err_len)
{
	struct publisher *p = calloc(1, sizeof(*p));
	int hwm = HWM, linger = 0;
	size_t len = sizeof(p->endpoint);

	if (p == NULL) {
		snprintf(err, err_len, "out of memory");
		return NULL;
	}
	snprintf(p->backend, sizeof(p->backend), "%s", backend);
	msgpack_sbuffer_init(&p->events);
	msgpack_sbuffer_init(&p->batch);
	p->zmq = zmq_ctx_new();
	p->pub = p->zmq != NULL ? zmq_socket(p->zmq, ZMQ_PUB) : NULL;
	if (p->pub == NULL || zmq_setsockopt(p->pub, ZMQ_SNDHWM, &hwm, sizeof(hwm)) != 0 ||
		zmq_setsockopt(p->pub, ZMQ_LINGER, &linger, sizeof(linger)) != 0 ||
		zmq_bind(p->pub, endpoint) != 0 ||
		zmq_getsockopt(p->pub, ZMQ_LAST_ENDPOINT, p->endpoint, &len) != 0) {
		int rc = errno;

		snprintf(err, err_len, "cannot publish at %s: %s", endpoint, zmq_strerror(rc));
		publisher_destroy(p);
		errno = rc;
		return NULL;
	}
	return p;
}

void publisher_destroy(struct publisher *p)
{
	if (p == NULL)
		return;
	if (p->pub != NULL)
		zmq_close(p->pub);
	if (p->zmq != NULL)
		zmq_ctx_term(p->zmq);
	msgpack_sbuffer_destroy(&p->events);
	msgpack_sbuffer_destroy(&p->batch);
	free(p);
}

void publisher_event(struct publisher *p, bool stored, const char *tenant, const void *key,
	size_t key_len, uint64_t now_ms)
{
	msgpack_packer pk;

	msgpack_packer_init(&pk, p, append);
	p->event_id++;
	put_event(&pk, p, stored, tenant, key, key_len, now_ms);
	if (++p->count >= PUBLISH_BATCH)
		publisher_flush(p, now_ms);
}

const uint8_t *publisher_payload(struct publisher *p, uint64_t now_ms, size_t *len)
{
	msgpack_packer pk;

	msgpack_sbuffer_clear(&p->batch);
	msgpack_packer_init(&pk, &p->batch, msgpack_sbuffer_write);
	msgpack_pack_array(&pk, 3);
	msgpack_pack_uint64(&pk, now_ms);
	msgpack_pack_array(&pk, p->count);
	msgpack_sbuffer_write(&p->batch, p->events.data, p->events.size);
	msgpack_pack_uint64(&pk, 0);
	*len = p->batch.size;
	return (const uint8_t *)p->batch.data;
}

void publisher_flush(struct publisher *p, uint64_t now_ms)
{
	const uint8_t *payload;
	uint8_t seq[8];
	size_t len;

	if (p->count == 0)
		return;
	payload = publisher_payload(p, now_ms, &len);
	p->seq++;
	for (int i = 0; i < 8; i++)
		seq[i] = (uint8_t)(p->seq >> (56 - 8 * i));
	/* PUB never blocks: who cannot take it sees a gap */
	if (!p->broken && zmq_send(p->pub, "", 0, ZMQ_SNDMORE) >= 0 &&
		zmq_send(p->pub, seq, sizeof(seq), ZMQ_SNDMORE) >= 0)
		(void)zmq_send(p->pub, payload, len, 0);
	msgpack_sbuffer_clear(&p->events);
	p->count = 0;
	p->broken = false;
}

const char *publisher_endpoint(const struct publisher *p)
{
	return p->endpoint;
}
