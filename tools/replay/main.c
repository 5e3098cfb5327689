/* SPDX-License-Identifier: Apache-2.0 */
/* strait-replay: a trace of requests as KV objects of a pool, and proof of what arrived. */
#include "control/base/units.h"
#include "tools/replay/manifest.h"
#include "tools/replay/options.h"
#include "tools/replay/run.h"
#include "tools/replay/trace.h"
#include "tools/replay/walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static int run_put(const struct replay_options *o, char *err, size_t err_len)
{
	/* With the manifest on stdout, figures go where they do not disturb. */
	FILE *out = o->manifest != NULL && strcmp(o->manifest, "-") == 0 ? stderr : stdout;
	struct replay_put_result r;
	char bytes[UNITS_TEXT_MAX], rate[UNITS_TEXT_MAX];

	if (replay_put(o, &r, err, err_len) < 0)
		return EXIT_FAILURE;
	if (o->json)
		printf("{\"verb\": \"put\", \"requests\": %" PRIu64 ", \"blocks\": %" PRIu64
		       ", \"reused_blocks\": %" PRIu64 ", \"objects\": %" PRIu64
		       ", \"bytes\": %" PRIu64 ", \"existed\": %" PRIu64 ", \"evictions\": %" PRIu64
		       ", \"seconds\": %.3f}\n",
			r.requests, r.blocks, r.reused_blocks, r.objects, r.bytes, r.existed,
			r.evictions, r.seconds);
	else
		fprintf(out,
			"put %" PRIu64 " object%s, %s, of %" PRIu64 " request%s (%" PRIu64
			" of %" PRIu64 " blocks reused) in %.1f s, %s/s\n",
			r.objects, plural(r.objects), units_format_bytes(r.bytes, bytes),
			r.requests, plural(r.requests), r.reused_blocks, r.blocks, r.seconds,
			units_format_bytes((uint64_t)((double)r.bytes / r.seconds), rate));
	return EXIT_SUCCESS;
}

static int run_verify(const struct replay_options *o, char *err, size_t err_len)
{
	struct replay_verify_result r;
	char bytes[UNITS_TEXT_MAX];
	bool good;

	if (replay_verify(o, &r, err, err_len) < 0)
		return EXIT_FAILURE;
	good = replay_verify_is_good(o, &r);
	if (o->json)
		printf("{\"verb\": \"verify\", \"ok\": %s, \"objects\": %" PRIu64
		       ", \"bytes\": %" PRIu64 ", \"verified\": %" PRIu64 ", \"missing\": %" PRIu64
		       ", \"differs\": %" PRIu64 ", \"seconds\": %.3f}\n",
			good ? "true" : "false", r.objects, r.bytes, r.verified, r.missing,
			r.differs, r.seconds);
	else
		printf("%" PRIu64 " of %" PRIu64 " objects verified by SHA-256 (%s), %" PRIu64
		       " missing, %" PRIu64 " differ, in %.1f s\n",
			r.verified, r.objects, units_format_bytes(r.bytes, bytes), r.missing,
			r.differs, r.seconds);
	if (!good)
		snprintf(err, err_len, "%s", r.first);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int key_print(void *ctx, const struct replay_object *object)
{
	(void)ctx;
	return puts(object->key) < 0 ? -EIO : 0;
}

static int run_keys(const struct replay_options *o, char *err, size_t err_len)
{
	struct replay_manifest_reader reader;
	struct replay_manifest_entry e;
	struct replay_walk_totals totals;
	int ret;

	if (o->manifest == NULL)
		return replay_walk(o, key_print, NULL, &totals, err, err_len) < 0 ? EXIT_FAILURE
										  : EXIT_SUCCESS;
	ret = replay_manifest_open(&reader, o->manifest);
	if (ret < 0) {
		snprintf(err, err_len, "manifest %s: %s", o->manifest, strerror(-ret));
		return EXIT_FAILURE;
	}
	while ((ret = replay_manifest_next(&reader, &e, err, err_len)) == 1)
		puts(e.key);
	replay_manifest_close(&reader);
	return ret < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_trace(const struct replay_options *o, char *err, size_t err_len)
{
	struct replay_request req;
	struct replay_trace *t;
	int ret = 0;

	snprintf(err, err_len, "out of memory");
	if (o->trace != NULL)
		t = replay_trace_open(o->trace, err, err_len);
	else
		t = replay_trace_generate(o->seed, o->requests);
	if (t == NULL)
		return EXIT_FAILURE;
	for (uint64_t n = 0; n < o->requests; n++) {
		ret = replay_trace_next(t, &req, err, err_len);
		if (ret <= 0)
			break;
		replay_request_print(&req);
	}
	replay_trace_close(t);
	return ret < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct replay_options o;
	char err[1024] = "";
	int status;

	if (replay_options_parse(&o, argc, argv, err, sizeof(err)) < 0) {
		fprintf(stderr, "strait-replay: %s\ntry strait-replay --help\n", err);
		return EXIT_USAGE;
	}
	if (o.help) {
		replay_options_help();
		return EXIT_SUCCESS;
	}
	switch (o.verb) {
	case REPLAY_PUT:
		status = run_put(&o, err, sizeof(err));
		break;
	case REPLAY_VERIFY:
		status = run_verify(&o, err, sizeof(err));
		break;
	case REPLAY_PRFAAS:
		status = replay_prfaas(&o, err, sizeof(err)) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
		break;
	case REPLAY_KEYS:
		status = run_keys(&o, err, sizeof(err));
		break;
	default:
		status = run_trace(&o, err, sizeof(err));
	}
	if (status == EXIT_SUCCESS && (fflush(stdout) != 0 || ferror(stdout))) {
		snprintf(err, sizeof(err), "stdout: %s", strerror(errno));
		status = EXIT_FAILURE;
	}
	if (status != EXIT_SUCCESS)
		fprintf(stderr, "strait-replay: %s\n", err);
	return status;
}
