/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for Mooncake masters in end-to-end tests: what their publisher and their admin port
 * say, without a store behind it.
 *
 *   mooncake_stand_in COUNT              so many masters, ports of the kernel's choice
 *   mooncake_stand_in EVENTS ADMIN       one, on these ports
 *
 * Prints "EVENTS ADMIN" of each master, then "ready". Events are those of a recorded master
 * (tests/vectors/kv_events), with the key and the numbers in place of the recorded ones, or the
 * recorded messages themselves. The admin port answers /kv_events/status, /get_all_keys,
 * /batch_query_keys?keys=, /get_segments_detail and what tests do to it:
 *
 *   /do/put?k=KEY[&n=N]   stored and published; N keys KEY-0 ..
 *   /do/remove?k=KEY      removed and published
 *   /do/lose?k=KEY        stored, the message is lost: the seq goes on
 *   /do/drop?k=KEY&n=N    N keys stored while the queue was full: dropped, each one a seq
 *   /do/forget?k=PREFIX   removed without a word, as by an expression or all at once
 *   /do/die?k=PREFIX      the same by the death of the client that held them: its segment goes, too
 *   /do/off, /do/on       the publisher
 *   /do/fail, /do/heal    the admin port answers 503 but here
 *   /do/play?k=FILE&from=N&to=N   publish these lines, from 1, as they were recorded
 */
#include "control/sources/kv_event.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <jansson.h>
#include <msgpack.h>
#include <netinet/in.h>
#include <zmq.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define RECORDED "tests/vectors/kv_events/mooncake_events.jsonl"

enum { MASTERS_MAX = 1024, BATCH = 64, OBJECT_BYTES = 1000 };

struct master {
	void *pub;
	struct evhttp *admin;
	char events[64];
	json_t *keys; /* an object: those there are */
	uint64_t seq, event_id, published, batches, dropped;
	unsigned int segment;
	bool off, fails;
};

struct recorded {
	uint8_t *payload;
	size_t len;
};

static struct recorded stored, removed; /* one event each */
static void *zmq;

static void die(const char *what)
{
	fprintf(stderr, "mooncake_stand_in: %s\n", what);
	exit(EXIT_FAILURE);
}

/* ---- recorded messages ---- */

static struct recorded unhex(const char *s)
{
	struct recorded r = { malloc(strlen(s) / 2 + 1), strlen(s) / 2 };

	for (size_t i = 0; i < r.len; i++) {
		unsigned int v = 0;

		(void)sscanf(s + 2 * i, "%2x", &v);
		r.payload[i] = (uint8_t)v;
	}
	return r;
}

static void each_line(const char *path, void (*fn)(unsigned int n, json_t *frames, void *ctx),
	void *ctx)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;
	unsigned int n = 0;

	if (f == NULL)
		die(path);
	while (getline(&text, &room, f) > 0) {
		json_t *line = json_loads(text, 0, NULL);

		fn(++n, json_object_get(line, "frames"), ctx);
		json_decref(line);
	}
	free(text);
	fclose(f);
}

static int op_of(const struct kv_event *e, void *ctx)
{
	*(enum kv_op *)ctx = e->op;
	return 0;
}

static void template_take(unsigned int n, json_t *frames, void *ctx)
{
	struct recorded r = unhex(json_string_value(json_array_get(frames, 2)));
	struct kv_batch b;
	enum kv_op op = KV_CLEARED;

	(void)n;
	(void)ctx;
	if (kv_batch_decode(r.payload, r.len, op_of, &op, &b) != 0 || b.events != 1)
		free(r.payload);
	else if (op == KV_STORED)
		stored = r;
	else
		removed = r;
}

/* ---- what is published ---- */

static void batch_send(struct master *m, const void *payload, size_t len)
{
	uint8_t seq[8];

	m->seq++;
	m->batches++;
	for (int i = 0; i < 8; i++)
		seq[i] = (uint8_t)(m->seq >> (56 - 8 * i));
	zmq_send(m->pub, "", 0, ZMQ_SNDMORE);
	zmq_send(m->pub, seq, sizeof(seq), ZMQ_SNDMORE);
	zmq_send(m->pub, payload, len, 0);
}

/* The recorded event with another key and number. */
static void event_pack(msgpack_packer *p, struct master *m, const msgpack_object *e,
	const char *key)
{
	msgpack_pack_map(p, e->via.map.size);
	for (uint32_t i = 0; i < e->via.map.size; i++) {
		const msgpack_object_kv *kv = &e->via.map.ptr[i];
		const char *name = kv->key.via.str.ptr;
		uint32_t len = kv->key.via.str.size;

		msgpack_pack_object(p, kv->key);
		if (len == 10 && memcmp(name, "object_key", 10) == 0) {
			msgpack_pack_str_with_body(p, key, strlen(key));
		} else if (len == 8 && memcmp(name, "event_id", 8) == 0) {
			msgpack_pack_uint64(p, ++m->event_id);
		} else {
			msgpack_pack_object(p, kv->val);
		}
	}
}

static void publish(struct master *m, const struct recorded *r, char (*keys)[600], size_t n)
{
	msgpack_sbuffer out;
	msgpack_packer p;
	msgpack_unpacked u;
	size_t at = 0;

	if (m->off)
		return;
	msgpack_unpacked_init(&u);
	if (msgpack_unpack_next(&u, (const char *)r->payload, r->len, &at) !=
		MSGPACK_UNPACK_SUCCESS)
		die("a recorded message cannot be read");
	msgpack_sbuffer_init(&out);
	msgpack_packer_init(&p, &out, msgpack_sbuffer_write);
	msgpack_pack_array(&p, 3);
	msgpack_pack_object(&p, u.data.via.array.ptr[0]);
	msgpack_pack_array(&p, n);
	for (size_t i = 0; i < n; i++)
		event_pack(&p, m, &u.data.via.array.ptr[1].via.array.ptr[0], keys[i]);
	msgpack_pack_object(&p, u.data.via.array.ptr[2]);
	m->published += n;
	batch_send(m, out.data, out.size);
	msgpack_sbuffer_destroy(&out);
	msgpack_unpacked_destroy(&u);
}

static void put(struct master *m, const char *key, int n)
{
	char keys[BATCH][600];
	size_t have = 0;

	for (int i = 0; i < (n > 0 ? n : 1); i++) {
		if (n > 0)
			snprintf(keys[have], sizeof(keys[0]), "%.500s-%d", key, i);
		else
			snprintf(keys[have], sizeof(keys[0]), "%.500s", key);
		json_object_set_new(m->keys, keys[have++], json_true());
		if (have < BATCH)
			continue;
		publish(m, &stored, keys, have);
		have = 0;
	}
	if (have > 0)
		publish(m, &stored, keys, have);
}

static void forget(struct master *m, const char *prefix)
{
	const char *key;
	json_t *one;
	void *next;

	json_object_foreach_safe(m->keys, next, key,
		one) if (strncmp(key, prefix, strlen(prefix)) == 0) json_object_del(m->keys, key);
}

struct play {
	struct master *m;
	unsigned int from, to;
};

static int replay_event(const struct kv_event *e, void *ctx)
{
	struct master *m = ctx;
	char key[600];

	snprintf(key, sizeof(key), "%.*s", (int)e->key.len, e->key.data);
	if (e->op == KV_STORED)
		json_object_set_new(m->keys, key, json_true());
	else
		json_object_del(m->keys, key);
	m->published++;
	return 0;
}

static void play_line(unsigned int n, json_t *frames, void *ctx)
{
	struct play *p = ctx;
	struct recorded seq, r;
	struct kv_batch b;

	if (n < p->from || n > p->to)
		return;
	seq = unhex(json_string_value(json_array_get(frames, 1)));
	r = unhex(json_string_value(json_array_get(frames, 2)));
	(void)kv_seq_decode(seq.payload, seq.len, &p->m->seq);
	p->m->seq--;
	(void)kv_batch_decode(r.payload, r.len, replay_event, p->m, &b);
	batch_send(p->m, r.payload, r.len);
	free(seq.payload);
	free(r.payload);
}

/* ---- the admin port ---- */

static int number(const struct evkeyvalq *q, const char *name)
{
	const char *text = evhttp_find_header(q, name);

	return text != NULL ? atoi(text) : 0;
}

static int change(struct master *m, const char *what, const struct evkeyvalq *q)
{
	const char *k = evhttp_find_header(q, "k");
	struct play play = { m, (unsigned int)number(q, "from"), (unsigned int)number(q, "to") };
	char one[1][600];
	int n = number(q, "n");

	snprintf(one[0], sizeof(one[0]), "%s", k != NULL ? k : "");
	if (strcmp(what, "put") == 0) {
		put(m, one[0], n);
	} else if (strcmp(what, "remove") == 0) {
		json_object_del(m->keys, one[0]);
		publish(m, &removed, one, 1);
	} else if (strcmp(what, "lose") == 0) {
		json_object_set_new(m->keys, one[0], json_true());
		m->seq++;
		m->batches++;
	} else if (strcmp(what, "drop") == 0) {
		for (int i = 0; i < n; i++) {
			char key[600];

			snprintf(key, sizeof(key), "%.500s-%d", one[0], i);
			json_object_set_new(m->keys, key, json_true());
		}
		m->seq += (uint64_t)n;
		m->dropped += (uint64_t)n;
	} else if (strcmp(what, "forget") == 0 || strcmp(what, "die") == 0) {
		forget(m, one[0]);
		m->segment += what[0] == 'd';
	} else if (strcmp(what, "off") == 0 || strcmp(what, "on") == 0) {
		m->off = what[1] == 'f';
	} else if (strcmp(what, "fail") == 0 || strcmp(what, "heal") == 0) {
		m->fails = what[0] == 'f';
	} else if (strcmp(what, "play") == 0) {
		each_line(one[0], play_line, &play);
	} else {
		return 404;
	}
	return 200;
}

static void list(struct master *m, struct evbuffer *out)
{
	const char *key;
	json_t *one;

	json_object_foreach(m->keys, key, one)
		evbuffer_add_printf(out, "%s\n", key);
}

/* As recorded in body_batch_query_keys.json. */
static void query(struct master *m, const char *keys, struct evbuffer *out)
{
	char *copy = strdup(keys != NULL ? keys : ""), *save = NULL;
	json_t *data = json_object(), *all;
	char *text;

	for (char *k = strtok_r(copy, ",", &save); k != NULL; k = strtok_r(NULL, ",", &save)) {
		if (json_object_get(m->keys, k) != NULL)
			json_object_set_new(data, k,
				json_pack("{s:b,s:n,s:[{s:i,s:i,s:s,s:s}],s:n,s:n,s:n}", "ok", 1,
					"error", "values", "size_", OBJECT_BYTES, "buffer_address_",
					4096, "protocol_", "tcp", "transport_endpoint_",
					"127.0.0.1:16586", "disk_values", "local_disk_values",
					"nof_values"));
		else
			json_object_set_new(data, k,
				json_pack("{s:b,s:s,s:n,s:n,s:n,s:n}", "ok", 0, "error",
					"OBJECT_NOT_FOUND", "values", "disk_values",
					"local_disk_values", "nof_values"));
	}
	all = json_pack("{s:b,s:o}", "success", 1, "data", data);
	text = json_dumps(all, JSON_COMPACT);
	evbuffer_add_printf(out, "%s", text);
	free(text);
	json_decref(all);
	free(copy);
}

static void admin_cb(struct evhttp_request *req, void *arg)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *path = evhttp_uri_get_path(uri), *text = evhttp_uri_get_query(uri);
	struct evbuffer *out = evbuffer_new();
	struct evkeyvalq q = TAILQ_HEAD_INITIALIZER(q);
	struct master *m = arg;
	int status = 200;

	(void)evhttp_parse_query_str(text != NULL ? text : "", &q);
	if (strncmp(path, "/do/", 4) == 0)
		status = change(m, path + 4, &q);
	else if (m->fails)
		status = 503;
	else if (strcmp(path, "/kv_events/status") == 0)
		evbuffer_add_printf(out,
			"{\"enabled\":%s,\"published_batches\":%" PRIu64
			",\"published_events\":%" PRIu64 ",\"dropped_events\":%" PRIu64
			",\"skipped_unparsed_keys\":0}",
			m->off ? "false" : "true", m->batches, m->published, m->dropped);
	else if (strcmp(path, "/get_segments_detail") == 0)
		evbuffer_add_printf(out,
			"{\"total_segments\":1,\"segments\":[{\"segment_name\":\"s\","
			"\"segment_id\":\"%u-1\",\"status\":\"OK\"}]}",
			m->segment);
	else if (strcmp(path, "/get_all_keys") == 0)
		list(m, out);
	else if (strcmp(path, "/batch_query_keys") == 0)
		query(m, evhttp_find_header(&q, "keys"), out);
	else
		status = 404;
	evhttp_send_reply(req, status, NULL, out);
	evhttp_clear_headers(&q);
	evbuffer_free(out);
}

static void master_start(struct event_base *base, struct master *m, const char *events, int admin)
{
	struct evhttp_bound_socket *bound;
	size_t len = sizeof(m->events);
	struct sockaddr_in at;
	socklen_t at_len = sizeof(at);
	int zero = 0;

	m->keys = json_object();
	m->pub = zmq_socket(zmq, ZMQ_PUB);
	m->admin = evhttp_new(base);
	if (m->pub == NULL || m->admin == NULL)
		die("no memory");
	zmq_setsockopt(m->pub, ZMQ_LINGER, &zero, sizeof(zero));
	evhttp_set_gencb(m->admin, admin_cb, m);
	bound = evhttp_bind_socket_with_handle(m->admin, "127.0.0.1", (uint16_t)admin);
	if (zmq_bind(m->pub, events) != 0 || bound == NULL)
		die("a port is taken");
	zmq_getsockopt(m->pub, ZMQ_LAST_ENDPOINT, m->events, &len);
	getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&at, &at_len);
	printf("%s %u\n", strrchr(m->events, ':') + 1, ntohs(at.sin_port));
}

int main(int argc, char **argv)
{
	static struct master masters[MASTERS_MAX];
	struct event_base *base = event_base_new();
	char events[64];
	int n = argc == 2 ? atoi(argv[1]) : 1;

	if (argc < 2 || argc > 3 || n < 1 || n > MASTERS_MAX)
		die("COUNT, or EVENTS ADMIN");
	each_line(RECORDED, template_take, NULL);
	if (stored.payload == NULL || removed.payload == NULL)
		die("no recorded events");
	zmq = zmq_ctx_new();
	zmq_ctx_set(zmq, ZMQ_MAX_SOCKETS, 2 * MASTERS_MAX);
	snprintf(events, sizeof(events), "tcp://127.0.0.1:%s", argc == 3 ? argv[1] : "*");
	for (int i = 0; i < n; i++)
		master_start(base, &masters[i], events, argc == 3 ? atoi(argv[2]) : 0);
	puts("ready");
	fflush(stdout);
	return event_base_dispatch(base);
}
