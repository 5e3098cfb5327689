/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/replay/options.h"

#include "control/base/args.h"
#include "control/base/units.h"
#include "tools/replay/blockkey.h"
#include "tools/replay/prfaas_options.h"
#include "tools/replay/trace.h"

#include <strait/strait.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_TRACE = 256,
	OPT_SYNTHETIC,
	OPT_SEED,
	OPT_REQUESTS,
	OPT_MODEL,
	OPT_BLOCK_TOKENS,
	OPT_BYTES_PER_BLOCK,
	OPT_SCALE,
	OPT_TP,
	OPT_OBJECTS,
	OPT_BYTES,
	OPT_BLOCKS_PER_REQUEST,
	OPT_POOL,
	OPT_CREATE,
	OPT_MANIFEST,
	OPT_EVICT,
	OPT_MISSING,
	OPT_JSON,
	OPT_PRFAAS,
	OPT_PRFAAS_FIRST, /* the others are prfaas_options.c's */
};

static const char usage[] =
	"usage: strait-replay [put] --pool FILE [--manifest FILE] [options]\n"
	"       strait-replay verify --pool FILE --manifest FILE [--allow-missing] [--json]\n"
	"       strait-replay keys [--manifest FILE | options]\n"
	"       strait-replay trace [options]\n"
	"       strait-replay prfaas [options]        (also: strait-replay --prfaas)\n"
	"\n"
	"Turns a trace of requests into the KV objects a serving engine would store for them.\n"
	"\n"
	"  put      put the objects into a pool; what they hold goes to the manifest first\n"
	"  verify   read every object of a manifest back and compare lengths and SHA-256;\n"
	"           status 1 if any differs or is missing\n"
	"  keys     print the keys, one a line, for straitctl order submit --keys-file -\n"
	"  trace    print the requests as JSON lines\n"
	"  prfaas   replay them in virtual time against a prefill site behind a WAN: hit\n"
	"           rate, blocks there before needed, WAN use, deadlines missed\n"
	"\n"
	"Requests:\n"
	"  --trace FILE         Mooncake trace: JSON lines with timestamp, input_length,\n"
	"                       output_length and hash_ids (one per 512 tokens); - is stdin\n"
	"  --synthetic          generate one of the same form (default without --trace)\n"
	"  --seed S             of the generator (1)\n"
	"  --requests N         how many to read or generate at most (1000; prfaas: all of a\n"
	"                       trace, 12000 generated)\n"
	"\n"
	"Objects:\n"
	"  --model NAME         first part of the keys (meta-llama/Llama-3.1-8B-Instruct)\n"
	"  --block-tokens N     tokens a block; divides 512 (16; prfaas: 64)\n"
	"  --bytes-per-block N  of all ranks together (2M: 16 tokens of an 8B model; prfaas:\n"
	"                       39,875 bytes a token, as the paper's hybrid model)\n"
	"  --scale F            multiplies --bytes-per-block (1)\n"
	"  --tp N               tensor-parallel ranks, one object each (1)\n"
	"  --objects N          at most N objects\n"
	"  --bytes N            at most N bytes of objects\n"
	"  --blocks-per-request N  only the first N blocks of each request\n"
	"\n"
	"Pool:\n"
	"  --pool FILE          the site's pool\n"
	"  --create SIZE        create the file if it is not there\n"
	"  --manifest FILE      SHA-256, length and key of every object; - is stdout\n"
	"  --allow-evict        go on when the pool is full and old objects make room\n"
	"  --allow-missing      verify: objects that are not there are counted, not an error\n"
	"  --json               figures as one JSON object\n"
	"\n"
	"prfaas (paper: arXiv 2604.15039):\n" PRFAAS_OPTIONS_USAGE "\n"
	"Exit status: 0 done, 1 failed or something differs, 2 usage.\n";

static const struct option longs[] = {
	{ "trace", required_argument, NULL, OPT_TRACE },
	{ "synthetic", no_argument, NULL, OPT_SYNTHETIC },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "requests", required_argument, NULL, OPT_REQUESTS },
	{ "model", required_argument, NULL, OPT_MODEL },
	{ "block-tokens", required_argument, NULL, OPT_BLOCK_TOKENS },
	{ "bytes-per-block", required_argument, NULL, OPT_BYTES_PER_BLOCK },
	{ "scale", required_argument, NULL, OPT_SCALE },
	{ "tp", required_argument, NULL, OPT_TP },
	{ "objects", required_argument, NULL, OPT_OBJECTS },
	{ "bytes", required_argument, NULL, OPT_BYTES },
	{ "blocks-per-request", required_argument, NULL, OPT_BLOCKS_PER_REQUEST },
	{ "pool", required_argument, NULL, OPT_POOL },
	{ "create", required_argument, NULL, OPT_CREATE },
	{ "manifest", required_argument, NULL, OPT_MANIFEST },
	{ "allow-evict", no_argument, NULL, OPT_EVICT },
	{ "allow-missing", no_argument, NULL, OPT_MISSING },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "prfaas", no_argument, NULL, OPT_PRFAAS },
	PRFAAS_OPTIONS_LONG(OPT_PRFAAS_FIRST),
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

void replay_options_help(void)
{
	fputs(usage, stdout);
}

uint64_t replay_object_bytes(const struct replay_options *o)
{
	return (o->bytes_per_block + o->tp - 1) / o->tp;
}

static int count_parse(const char *name, const char *s, uint64_t max, uint64_t *out, char *err,
	size_t err_len)
{
	char *end;

	errno = 0;
	*out = strtoull(s, &end, 10);
	if (s[0] < '0' || s[0] > '9' || *end != '\0' || errno != 0 || *out > max) {
		snprintf(err, err_len, "--%s: \"%s\" is not a whole number up to %" PRIu64, name, s,
			max);
		return -EINVAL;
	}
	return 0;
}

static int bytes_parse(const char *name, const char *s, uint64_t *out, char *err, size_t err_len)
{
	char why[200];

	if (units_parse_bytes(s, out, why, sizeof(why)) < 0 || *out == 0) {
		snprintf(err, err_len, "--%s: %s", name, *out == 0 ? "at least 1" : why);
		return -EINVAL;
	}
	return 0;
}

static int one_parse(struct replay_options *o, int opt, const char *name, const char *arg,
	double *scale, char *err, size_t err_len)
{
	uint64_t v = 1;
	char *end;
	int ret = 0;

	switch (opt) {
	case OPT_TRACE:
		o->trace = arg;
		break;
	case OPT_SYNTHETIC:
		o->trace = NULL;
		break;
	case OPT_SEED:
		ret = count_parse(name, arg, UINT64_MAX, &o->seed, err, err_len);
		break;
	case OPT_REQUESTS:
		ret = count_parse(name, arg, UINT64_MAX, &o->requests, err, err_len);
		o->requests_told = true;
		break;
	case OPT_OBJECTS:
		ret = count_parse(name, arg, UINT64_MAX, &o->objects, err, err_len);
		break;
	case OPT_BLOCKS_PER_REQUEST:
		ret = count_parse(name, arg, UINT64_MAX, &o->blocks_per_request, err, err_len);
		break;
	case OPT_BLOCK_TOKENS:
		ret = count_parse(name, arg, REPLAY_TRACE_BLOCK_TOKENS, &v, err, err_len);
		o->block_tokens = (uint32_t)v;
		o->block_tokens_told = true;
		break;
	case OPT_TP:
		ret = count_parse(name, arg, REPLAY_RANKS_MAX, &v, err, err_len);
		o->tp = (uint32_t)v;
		break;
	case OPT_BYTES_PER_BLOCK:
		ret = bytes_parse(name, arg, &o->bytes_per_block, err, err_len);
		o->bytes_told = true;
		break;
	case OPT_BYTES:
		ret = bytes_parse(name, arg, &o->bytes, err, err_len);
		break;
	case OPT_CREATE:
		ret = bytes_parse(name, arg, &o->create_bytes, err, err_len);
		break;
	case OPT_SCALE:
		*scale = strtod(arg, &end);
		if (end == arg || *end != '\0' || !(*scale > 0) || *scale > 1e6) {
			snprintf(err, err_len, "--scale: \"%s\" is not a number above 0", arg);
			ret = -EINVAL;
		}
		break;
	case OPT_MODEL:
		o->model = arg;
		break;
	case OPT_POOL:
		o->pool = arg;
		break;
	case OPT_MANIFEST:
		o->manifest = arg;
		break;
	case OPT_EVICT:
		o->allow_evict = true;
		break;
	case OPT_MISSING:
		o->allow_missing = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	case OPT_PRFAAS:
		o->verb = REPLAY_PRFAAS;
		break;
	case 'h':
		o->help = true;
		break;
	default:
		ret = prfaas_option_parse(o, opt - OPT_PRFAAS_FIRST, name, arg, err, err_len);
	}
	return ret;
}

static int refuse(char *err, size_t err_len, const char *text)
{
	snprintf(err, err_len, "%s", text);
	return -EINVAL;
}

static int options_check(struct replay_options *o, double scale, char *err, size_t err_len)
{
	double bytes;

	if (o->verb == REPLAY_PRFAAS)
		prfaas_options_settle(o);
	bytes = (double)o->bytes_per_block * scale;
	if (o->block_tokens == 0 || REPLAY_TRACE_BLOCK_TOKENS % o->block_tokens != 0)
		return refuse(err, err_len, "--block-tokens: must divide 512, like 16 or 64");
	if (o->tp == 0)
		return refuse(err, err_len, "--tp: at least 1");
	if (o->model[0] == '\0' || strlen(o->model) > REPLAY_MODEL_MAX)
		return refuse(err, err_len, "--model: 1 to 256 characters");
	for (const char *c = o->model; *c != '\0'; c++)
		if (*c <= ' ' || *c == 0x7f)
			return refuse(err, err_len, "--model: no blanks or control characters");
	if (bytes < 1.0)
		return refuse(err, err_len, "--scale: leaves less than one byte a block");
	if (bytes / o->tp > STRAIT_OBJECT_MAX)
		return refuse(err, err_len,
			"an object is at most 64 MiB: lower --bytes-per-block or --scale, or raise "
			"--tp");
	o->bytes_per_block = (uint64_t)bytes;
	prfaas_options_take(o);
	if ((o->verb == REPLAY_PUT || o->verb == REPLAY_VERIFY) && o->pool == NULL)
		return refuse(err, err_len, "--pool FILE is needed");
	if (o->verb == REPLAY_PRFAAS && (o->pool == NULL) != (o->decode_pool == NULL))
		return refuse(err, err_len, "--pool and --to-pool go together");
	if (o->verb == REPLAY_VERIFY && o->manifest == NULL)
		return refuse(err, err_len, "--manifest FILE is needed");
	if (o->json && o->verb == REPLAY_PUT && o->manifest != NULL &&
		strcmp(o->manifest, "-") == 0)
		return refuse(err, err_len, "--json and --manifest - both write to stdout");
	return 0;
}

static bool verb_parse(const char *s, enum replay_verb *out)
{
	static const char *const names[] = { "put", "verify", "keys", "trace", "prfaas" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(s, names[i]) != 0)
			continue;
		*out = (enum replay_verb)i;
		return true;
	}
	return false;
}

int replay_options_parse(struct replay_options *o, int argc, char **argv, char *err, size_t err_len)
{
	double scale = 1.0;
	int opt, index = 0;

	*o = (struct replay_options){ .seed = 1,
		.requests = 1000,
		.mode = -1,
		.speed = 1.0,
		.model = "meta-llama/Llama-3.1-8B-Instruct",
		.block_tokens = 16,
		.tp = 1,
		.bytes_per_block = 2 << 20,
		.objects = UINT64_MAX,
		.bytes = UINT64_MAX,
		.blocks_per_request = UINT64_MAX };
	prfaas_config_default(&o->prfaas);
	if (argc > 1 && argv[1][0] != '-') {
		if (!verb_parse(argv[1], &o->verb)) {
			snprintf(err, err_len, "\"%s\" is not put, verify, keys, trace or prfaas",
				argv[1]);
			return -EINVAL;
		}
		argv++;
		argc--;
	}
	optind = 0; /* from the start again, also in a test that parses many lines */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", longs, &index)) != -1) {
		if (opt == '?' || opt == ':') {
			snprintf(err, err_len,
				opt == ':' ? "%s needs a value" : "unknown option %s",
				argv[optind - 1]);
			return -EINVAL;
		}
		if (args_has_option_as_value(argv)) {
			snprintf(err, err_len, "%s needs a value", argv[optind - 2]);
			return -EINVAL;
		}
		if (one_parse(o, opt, opt == 'h' ? "help" : longs[index].name, optarg, &scale, err,
			    err_len) < 0)
			return -EINVAL;
	}
	if (optind < argc) {
		snprintf(err, err_len, "unexpected argument \"%s\"", argv[optind]);
		return -EINVAL;
	}
	return o->help ? 0 : options_check(o, scale, err, err_len);
}
