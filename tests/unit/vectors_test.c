/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/crypto/keys.h"
#include "dataplane/fec/digest.h"
#include "dataplane/fec/rs.h"
#include "dataplane/transport/frame.h"
#include "dataplane/transport/manifest.h"
#include "dataplane/transport/packet.h"
#include "dataplane/transport/partition.h"

#include <jansson.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/*
 * Holds the C code to tests/vectors/wire.json, which tests/vectors/check.py makes and checks
 * without it. Run from the root of the tree.
 */

enum { BYTES_MAX = 8192 };

static json_t *vectors;

struct bytes {
	size_t len;
	uint8_t p[BYTES_MAX];
};

static int load(void **state)
{
	json_error_t error;

	(void)state;
	vectors = json_load_file("tests/vectors/wire.json", 0, &error);
	if (vectors == NULL)
		fprintf(stderr, "wire.json:%d: %s\n", error.line, error.text);
	return vectors == NULL ? -1 : 0;
}

static int unload(void **state)
{
	(void)state;
	json_decref(vectors);
	return 0;
}

static json_t *section(const char *name)
{
	json_t *s = json_object_get(vectors, name);

	assert_true(json_is_array(s) && json_array_size(s) > 0);
	return s;
}

static uint64_t number(const json_t *v, const char *name)
{
	json_t *n = json_object_get(v, name);

	assert_true(json_is_integer(n));
	return (uint64_t)json_integer_value(n);
}

static const char *string(const json_t *v, const char *name)
{
	const char *s = json_string_value(json_object_get(v, name));

	assert_non_null(s);
	return s;
}

static uint64_t hex64(const json_t *v, const char *name)
{
	return strtoull(string(v, name), NULL, 16);
}

static void get_bytes(const json_t *v, const char *name, struct bytes *b)
{
	const char *s = string(v, name);

	b->len = strlen(s) / 2;
	assert_true(b->len <= BYTES_MAX);
	for (size_t i = 0; i < b->len; i++) {
		unsigned byte;

		assert_int_equal(sscanf(s + 2 * i, "%2x", &byte), 1);
		b->p[i] = (uint8_t)byte;
	}
}

static void assert_bytes(const json_t *v, const char *name, const void *got, size_t len)
{
	static struct bytes want;

	get_bytes(v, name, &want);
	assert_int_equal(len, want.len);
	assert_memory_equal(got, want.p, len);
}

static void labels_expand(void **state)
{
	static struct bytes secret, context;
	uint8_t out[256];
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("expand_label"), i, v) {
		size_t len = number(v, "bytes");

		get_bytes(v, "secret", &secret);
		get_bytes(v, "context", &context);
		assert_int_equal(key_expand_label(secret.p, string(v, "label"), context.p,
					 context.len, out, len),
			0);
		assert_bytes(v, "out", out, len);
	}
}

/* Keys are seen only through what they seal, so the key itself is loaded into a second aead. */
static void keys_follow_the_schedule(void **state)
{
	static struct bytes secret, key;
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("keys"), i, v) {
		uint8_t direction = (uint8_t)number(v, "direction"), queue = number(v, "queue");
		uint8_t tag[2][STRAIT_TAG_BYTES], iv[STRAIT_IV_BYTES] = { 0 };
		struct key_tx tx;
		struct aead a;

		get_bytes(v, "secret", &secret);
		get_bytes(v, "key", &key);
		assert_int_equal(key_tx_init(&tx, aead_default(), secret.p, direction, queue), 0);
		while (tx.slot.generation < number(v, "generation"))
			assert_int_equal(key_tx_advance(&tx), 0);
		assert_bytes(v, "chain", tx.chain.secret, sizeof(tx.chain.secret));
		assert_bytes(v, "iv", tx.slot.iv, sizeof(tx.slot.iv));
		assert_int_equal(aead_init(&a, aead_default(), key.p), 0);
		aead_seal(&a, iv, NULL, 0, NULL, 0, NULL, tag[0]);
		aead_seal(&tx.slot.aead, iv, NULL, 0, NULL, 0, NULL, tag[1]);
		assert_memory_equal(tag[0], tag[1], STRAIT_TAG_BYTES);
		aead_fini(&a);
		key_tx_fini(&tx);
	}
}

static void nonces(void **state)
{
	static struct bytes iv;
	uint8_t nonce[STRAIT_IV_BYTES];
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("nonce"), i, v) {
		get_bytes(v, "iv", &iv);
		key_nonce(iv.p, hex64(v, "packet_number"), nonce);
		assert_bytes(v, "nonce", nonce, sizeof(nonce));
	}
}

static struct packet_header header_of(const json_t *v)
{
	return (struct packet_header){
		.type = (uint8_t)number(v, "type"),
		.queue = (uint8_t)number(v, "queue"),
		.flags = (uint8_t)number(v, "flags"),
		.esi = (uint8_t)number(v, "esi"),
		.session = (uint32_t)number(v, "session"),
		.packet_number = number(v, "packet_number"),
		.transfer = (uint32_t)number(v, "transfer"),
		.block = (uint32_t)number(v, "block"),
	};
}

static void headers(void **state)
{
	uint8_t packet[STRAIT_OVERHEAD_BYTES] = { 0 };
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("header"), i, v) {
		struct packet_header h = header_of(v), got;

		packet_header_encode(&h, packet);
		assert_bytes(v, "bytes", packet, STRAIT_HEADER_BYTES);
		assert_int_equal(packet_header_decode(packet, sizeof(packet), &got), 0);
		assert_memory_equal(&h, &got, sizeof(h));
	}
}

static void packets_seal_and_open(void **state)
{
	static const struct aead_ops *const backends[] = { &aead_ipsec_mb, &aead_openssl };
	static struct bytes secret, plain, packet;
	static uint8_t out[BYTES_MAX];
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("packet"), i, v) {
		for (int b = 0; b < 2; b++) {
			struct packet_header h = header_of(v);
			uint64_t generation = h.packet_number >> STRAIT_GENERATION_SHIFT;
			uint8_t direction = (uint8_t)number(v, "direction"), nonce[STRAIT_IV_BYTES];
			struct key_slot *slot;
			struct key_tx tx;
			struct key_rx rx;

			get_bytes(v, "secret", &secret);
			get_bytes(v, "plaintext", &plain);
			get_bytes(v, "packet", &packet);
			assert_int_equal(key_tx_init(&tx, backends[b], secret.p, direction,
						 h.queue),
				0);
			assert_int_equal(key_rx_init(&rx, backends[1 - b], secret.p, direction,
						 h.queue),
				0);
			for (uint64_t g = 0; g < generation; g++) {
				assert_int_equal(key_tx_advance(&tx), 0);
				assert_int_equal(key_rx_used(&rx, g + 1), 0);
			}
			key_nonce(tx.slot.iv, h.packet_number, nonce);
			packet_header_encode(&h, out);
			aead_seal(&tx.slot.aead, nonce, out, STRAIT_HEADER_BYTES, plain.p,
				plain.len, out + STRAIT_HEADER_BYTES,
				out + STRAIT_HEADER_BYTES + plain.len);
			assert_int_equal(packet.len, plain.len + STRAIT_OVERHEAD_BYTES);
			assert_memory_equal(out, packet.p, packet.len);

			slot = key_rx_find(&rx, generation);
			assert_non_null(slot);
			key_nonce(slot->iv, h.packet_number, nonce);
			assert_int_equal(aead_open(&slot->aead, nonce, packet.p,
						 STRAIT_HEADER_BYTES,
						 packet.p + STRAIT_HEADER_BYTES, plain.len,
						 packet.p + packet.len - STRAIT_TAG_BYTES, out),
				0);
			assert_memory_equal(out, plain.p, plain.len);
			key_tx_fini(&tx);
			key_rx_fini(&rx);
		}
	}
}

static void coefficients(void **state)
{
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("coefficient"), i, v)
		assert_int_equal(rs_coefficient((uint32_t)number(v, "esi"),
					 (uint32_t)number(v, "j")),
			number(v, "value"));
}

static void repair_symbols(void **state)
{
	static uint8_t symbols[STRAIT_BLOCK_SYMBOLS_MAX][512], out[512];
	const uint8_t *src[STRAIT_BLOCK_SYMBOLS_MAX];
	uint8_t *const dst[1] = { out };
	static struct rs rs;
	json_t *v;
	size_t i;

	(void)state;
	rs_init(&rs);
	json_array_foreach(section("repair"), i, v) {
		uint32_t k = (uint32_t)number(v, "k"), row = (uint32_t)number(v, "row");
		size_t len = number(v, "symbol_bytes");

		assert_true(k <= STRAIT_BLOCK_SYMBOLS_MAX && len <= sizeof(out));
		for (uint32_t j = 0; j < k; j++) {
			src[j] = symbols[j];
			for (uint32_t b = 0; b < len; b++)
				symbols[j][b] = (uint8_t)(17 * j + 5 * b + (j * b >> 3));
		}
		assert_int_equal(rs_encode(&rs, k, row, 1, len, src, dst), 0);
		assert_bytes(v, "symbol", out, len);
	}
}

static void partitions(void **state)
{
	json_t *v, *at;
	size_t i, n;

	(void)state;
	json_array_foreach(section("partition"), i, v) {
		struct partition p;

		assert_int_equal(partition_init(&p, number(v, "bytes"),
					 (uint32_t)number(v, "symbol_bytes")),
			0);
		assert_int_equal(p.symbols, number(v, "symbols"));
		assert_int_equal(p.blocks, number(v, "blocks"));
		assert_int_equal(p.large, number(v, "large"));
		assert_int_equal(p.small, number(v, "small"));
		assert_int_equal(p.n_large, number(v, "n_large"));
		json_array_foreach(json_object_get(v, "layout"), n, at) {
			uint32_t block = (uint32_t)number(at, "block"), k = partition_k(&p, block);
			uint64_t offset = partition_offset(&p, block, k - 1);

			assert_int_equal(k, number(at, "k"));
			assert_int_equal(partition_first(&p, block), number(at, "first"));
			assert_int_equal(offset, number(at, "last_offset"));
			assert_int_equal(partition_symbol_len(&p, offset),
				number(at, "last_bytes"));
			assert_int_equal(partition_block_of(&p, offset), block);
		}
	}
}

static void digests(void **state)
{
	static struct bytes data;
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("digest"), i, v) {
		get_bytes(v, "data", &data);
		assert_true(digest_bytes(data.p, data.len) == hex64(v, "digest"));
	}
	json_array_foreach(section("digest_shift"), i, v)
		assert_true(
			digest_shift(hex64(v, "digest"), number(v, "zeros")) == hex64(v, "result"));
}

static void varints(void **state)
{
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("varint"), i, v) {
		uint8_t out[8];
		size_t len = varint_put(out, number(v, "value"));
		const uint8_t *p = out;
		uint64_t got;

		assert_bytes(v, "bytes", out, len);
		assert_int_equal(varint_get(&p, out + len, &got), 0);
		assert_int_equal(got, number(v, "value"));
	}
}

static void manifests(void **state)
{
	static struct bytes tenant, key, whole;
	static uint8_t out[BYTES_MAX];
	json_t *v, *record;
	size_t i, n;

	(void)state;
	json_array_foreach(section("manifest"), i, v) {
		size_t len = 0;

		json_array_foreach(json_object_get(v, "records"), n, record) {
			struct manifest_entry e = {
				.flags = (uint8_t)number(record, "flags"),
				.length = number(record, "length"),
				.digest = hex64(record, "digest"),
			};
			long written;

			get_bytes(record, "tenant", &tenant);
			get_bytes(record, "key", &key);
			e.tenant = tenant.p;
			e.tenant_len = (uint8_t)tenant.len;
			e.key = key.p;
			e.key_len = (uint16_t)key.len;
			written = manifest_entry_encode(&e, out + len, sizeof(out) - len);
			assert_true(written > 0);
			len += (size_t)written;
		}
		assert_bytes(v, "bytes", out, len);
		get_bytes(v, "bytes", &whole);
		assert_int_equal(manifest_check(whole.p, whole.len, (uint32_t)number(v, "objects"),
					 number(v, "stream_bytes")),
			0);
	}
}

static uint64_t at(const json_t *pair, size_t i)
{
	return (uint64_t)json_integer_value(json_array_get(pair, i));
}

static void write_report(struct frame_writer *w, const json_t *v)
{
	const struct frame_report report = {
		.queue = (uint8_t)number(v, "queue"),
		.newest = number(v, "newest"),
		.newest_us = number(v, "newest_us"),
		.delay_us = (uint32_t)number(v, "delay_us"),
		.base = number(v, "base"),
	};
	json_t *ranges = json_object_get(v, "ranges"), *range;
	size_t i;

	assert_int_equal(frame_report_begin(w, &report), 0);
	json_array_foreach(ranges, i, range) {
		json_t *below = json_array_get(ranges, i + 1);
		uint64_t missing = below == NULL ? number(v, "missing_at_end")
						 : at(range, 0) - at(below, 1) - 1;

		assert_int_equal(frame_report_range(w, at(range, 1) - at(range, 0) + 1, missing),
			0);
	}
	frame_list_end(w);
}

static void write_have(struct frame_writer *w, const json_t *v)
{
	uint64_t cursor = number(v, "floor");
	json_t *run;
	size_t i;

	assert_int_equal(frame_have_begin(w, (uint32_t)number(v, "transfer"),
				 (uint8_t)number(v, "stream"), (uint32_t)cursor),
		0);
	json_array_foreach(json_object_get(v, "runs"), i, run) {
		assert_int_equal(frame_have_run(w, (uint32_t)(at(run, 0) - cursor),
					 (uint32_t)at(run, 1)),
			0);
		cursor = at(run, 0) + at(run, 1);
	}
	frame_list_end(w);
}

static void write_need(struct frame_writer *w, const json_t *v)
{
	uint32_t previous = 0;
	json_t *block;
	size_t i;

	assert_int_equal(frame_need_begin(w, (uint32_t)number(v, "transfer"),
				 (uint8_t)number(v, "stream"), number(v, "newest")),
		0);
	json_array_foreach(json_object_get(v, "blocks"), i, block)
		assert_int_equal(frame_need_block(w, &previous, (uint32_t)at(block, 0),
					 (uint32_t)at(block, 1)),
			0);
	frame_list_end(w);
}

static void write_objects(struct frame_writer *w, const json_t *v, bool is_log)
{
	uint32_t transfer = (uint32_t)number(v, "transfer");
	json_t *item;
	size_t i;

	if (is_log)
		assert_int_equal(frame_object_begin(w, transfer, (uint32_t)number(v, "first")), 0);
	else
		assert_int_equal(frame_withdraw_begin(w, transfer), 0);
	json_array_foreach(json_object_get(v, "list"), i, item)
		assert_int_equal(frame_objects_item(w, (uint32_t)at(item, 0), (uint8_t)at(item, 1)),
			0);
	frame_list_end(w);
}

static void write_small(struct frame_writer *w, const json_t *v, const char *name)
{
	const struct frame_credit credit = {
		.class_ = (uint8_t)json_integer_value(json_object_get(v, "class")),
		.bytes = (uint64_t)json_integer_value(json_object_get(v, "bytes_limit")),
		.objects = (uint64_t)json_integer_value(json_object_get(v, "objects_limit")),
	};
	uint32_t transfer = (uint32_t)json_integer_value(json_object_get(v, "transfer"));
	uint8_t status = (uint8_t)json_integer_value(json_object_get(v, "status"));

	if (strcmp(name, "OPEN_ACK") == 0)
		assert_int_equal(frame_put_open_ack(w, transfer, status), 0);
	else if (strcmp(name, "CREDIT") == 0)
		assert_int_equal(frame_put_credit(w, &credit), 0);
	else if (strcmp(name, "OBJECT_ACK") == 0)
		assert_int_equal(frame_put_object_ack(w, transfer, (uint32_t)number(v, "next")), 0);
	else if (strcmp(name, "CLOSE") == 0)
		assert_int_equal(frame_put_close(w, transfer, status), 0);
	else if (strcmp(name, "CLOSE_ACK") == 0)
		assert_int_equal(frame_put_close_ack(w, transfer), 0);
	else if (strcmp(name, "CHALLENGE") == 0)
		assert_int_equal(frame_put_token(w, STRAIT_FRAME_CHALLENGE, hex64(v, "token")), 0);
	else if (strcmp(name, "RESPONSE") == 0)
		assert_int_equal(frame_put_token(w, STRAIT_FRAME_RESPONSE, hex64(v, "token")), 0);
	else if (strcmp(name, "PING") == 0)
		assert_int_equal(frame_put_ping(w, (uint32_t)number(v, "report_interval_us")), 0);
	else if (strcmp(name, "PADDING") == 0)
		assert_int_equal(frame_put_padding(w,
					 w->len + STRAIT_FRAME_HEADER_BYTES +
						 (size_t)number(v, "padding_bytes")),
			0);
	else if (strcmp(name, "RECALL") == 0)
		assert_int_equal(frame_put_recall(w, number(v, "number")), 0);
	else
		fail_msg("no writer for %s", name);
}

static void write_frame(struct frame_writer *w, const json_t *v)
{
	const char *name = string(v, "frame");

	if (strcmp(name, "OPEN") == 0) {
		const struct frame_open open = {
			.transfer = (uint32_t)number(v, "transfer"),
			.order = number(v, "order"),
			.stream_bytes = number(v, "stream_bytes"),
			.manifest_bytes = (uint32_t)number(v, "manifest_bytes"),
			.objects = (uint32_t)number(v, "objects"),
			.symbol_bytes = (uint16_t)number(v, "symbol_bytes"),
			.class_ = (uint8_t)number(v, "class"),
			.report_interval_us = (uint32_t)number(v, "report_interval_us"),
			.deadline_ms = number(v, "deadline_ms"),
		};

		assert_int_equal(frame_put_open(w, &open), 0);
	} else if (strcmp(name, "REPORT") == 0) {
		write_report(w, v);
	} else if (strcmp(name, "HAVE") == 0) {
		write_have(w, v);
	} else if (strcmp(name, "NEED") == 0) {
		write_need(w, v);
	} else if (strcmp(name, "OBJECT") == 0 || strcmp(name, "WITHDRAW") == 0) {
		write_objects(w, v, name[0] == 'O');
	} else {
		write_small(w, v, name);
	}
}

/* Reads with the getter of the type; lists need no iteration, their getters check them whole. */
static int read_frame(const struct frame *f)
{
	union {
		struct frame_open open;
		struct frame_status status;
		struct frame_report report;
		struct frame_have have;
		struct frame_need need;
		struct frame_credit credit;
		struct frame_objects objects;
		struct frame_object_ack ack;
		uint64_t token;
		uint32_t n;
	} u;

	switch (f->type) {
	case STRAIT_FRAME_OPEN:
		return frame_get_open(f, &u.open);
	case STRAIT_FRAME_OPEN_ACK:
	case STRAIT_FRAME_CLOSE:
		return frame_get_status(f, &u.status);
	case STRAIT_FRAME_REPORT:
		return frame_get_report(f, &u.report);
	case STRAIT_FRAME_HAVE:
		return frame_get_have(f, &u.have);
	case STRAIT_FRAME_NEED:
		return frame_get_need(f, &u.need);
	case STRAIT_FRAME_CREDIT:
		return frame_get_credit(f, &u.credit);
	case STRAIT_FRAME_OBJECT:
	case STRAIT_FRAME_WITHDRAW:
		return frame_get_objects(f, &u.objects);
	case STRAIT_FRAME_OBJECT_ACK:
		return frame_get_object_ack(f, &u.ack);
	case STRAIT_FRAME_CLOSE_ACK:
		return frame_get_close_ack(f, &u.n);
	case STRAIT_FRAME_CHALLENGE:
	case STRAIT_FRAME_RESPONSE:
		return frame_get_token(f, &u.token);
	case STRAIT_FRAME_PING:
		return frame_get_ping(f, &u.n);
	case STRAIT_FRAME_RECALL:
		return frame_get_recall(f, &u.token);
	case STRAIT_FRAME_PADDING:
		return 0;
	}
	return -ENOENT;
}

static void frames(void **state)
{
	static uint8_t out[BYTES_MAX];
	uint32_t seen = 0;
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("frame"), i, v) {
		struct frame_writer w;
		struct frame_reader r;
		struct frame f;

		frame_writer_init(&w, out, sizeof(out));
		write_frame(&w, v);
		assert_bytes(v, "bytes", out, w.len);
		frame_reader_init(&r, out, w.len);
		assert_int_equal(frame_next(&r, &f), 1);
		assert_int_equal(read_frame(&f), 0);
		seen |= 1U << f.type;
	}
	/* Every type there is. */
	assert_int_equal(seen, (1U << (STRAIT_FRAME_RECALL + 1)) - 2);
}

static void frames_that_must_be_refused(void **state)
{
	static struct bytes b;
	json_t *v;
	size_t i;

	(void)state;
	json_array_foreach(section("refused_frame"), i, v) {
		struct frame_reader r;
		struct frame f;

		get_bytes(v, "bytes", &b);
		frame_reader_init(&r, b.p, b.len);
		assert_int_equal(frame_next(&r, &f), 1);
		assert_int_equal(frame_next(&r, &(struct frame){ 0 }), 0);
		if (read_frame(&f) != -EPROTO)
			fail_msg("accepted: %s", string(v, "why"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_expand),
		cmocka_unit_test(keys_follow_the_schedule),
		cmocka_unit_test(nonces),
		cmocka_unit_test(headers),
		cmocka_unit_test(packets_seal_and_open),
		cmocka_unit_test(coefficients),
		cmocka_unit_test(repair_symbols),
		cmocka_unit_test(partitions),
		cmocka_unit_test(digests),
		cmocka_unit_test(varints),
		cmocka_unit_test(manifests),
		cmocka_unit_test(frames),
		cmocka_unit_test(frames_that_must_be_refused),
	};
	return cmocka_run_group_tests(tests, load, unload);
}
