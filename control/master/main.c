/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/args.h"
#include "control/base/log.h"
#include "control/master/master.h"
#include "control/site/node.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char usage[] =
	"Usage: strait-master --config FILE [options]\n"
	"\n"
	"The inter-dc master: edges register with it, operators give it orders (straitctl).\n"
	"\n"
	"      --role ROLE            inter-dc (default), or site: follow one site's caches and\n"
	"                             answer existence there; its configuration differs\n"
	"  -c, --config FILE          configuration, YAML (see below)\n"
	"      --check-config         check configuration, certificates and paths, exit\n"
	"      --print-effective-config  print it with defaults filled in, exit\n"
	"      --min-term N           begin with term N or a higher one: after a lost ledger,\n"
	"                             when edges say they have obeyed a higher term\n"
	"      --log-level LEVEL      error, warn, info or debug; instead of the configuration's\n"
	"      --version\n"
	"  -h, --help\n"
	"\n"
	"Configuration:\n"
	"  listen: 0.0.0.0:7400\n"
	"  tls: { ca: ca.pem, cert: master.pem, key: master.key }   # see straitctl pki\n"
	"  insecure_loopback: false   # true instead of tls: no protection, 127.0.0.0/8 only\n"
	"  ledger: /var/lib/strait/master.db\n"
	"  sites:                     # more with straitctl site add\n"
	"    - { name: a, label: eu, cap: 10G }\n"
	"    - { name: b, label: us, follow: b.yaml }   # without a site master of its own\n"
	"  links:                     # caps of single directions; the lowest of the caps of\n"
	"                             # both sites and of the link counts\n"
	"    - { from: a, to: b, cap: 1G }\n"
	"  policies:                  # what is replicated by itself, by site, label or \"*\"\n"
	"    - { from: eu, to: us, class: bulk, cap: 1G, least: 64K, ttl: 1h }\n"
	"  evicted_for: 1h            # not sent again so long to a site that lost it\n"
	"  forget_after: 1h           # what a site held whose master is gone so long\n"
	"  report_interval: 1s\n"
	"  keep_finished: 7d\n"
	"  edge_lost: 15s             # then another edge of the site has its orders\n"
	"  open_order_idle: 10m\n"
	"  log_level: info\n"
	"\n"
	"Configuration of a site:\n"
	"  site: a\n"
	"  secret: deployment.secret  # the same at all sites\n"
	"  sources:\n"
	"    - { name: pool, pool: /dev/shm/a.pool, tenant: default }\n"
	"    - { name: m, events: \"tcp://10.0.0.5:5557\", admin: \"http://10.0.0.5:9003\" }\n"
	"    - { name: v, engine: vllm, events: \"tcp://10.0.0.6:5557\",   # or sglang\n"
	"        replay: \"tcp://10.0.0.6:5558\", keys: [\"model@{hash}\"] }\n"
	"  tenants:\n"
	"    - { name: default, socket: /run/strait/exist.sock, users: [vllm] }\n"
	"  negative_for: 5s           # so long what could not be fetched is said not to be there\n"
	"  state_dir: /var/lib/strait-site\n"
	"  master: 10.0.0.1:7400      # the inter-dc master, with tls of role site-master\n"
	"\n"
	"SIGTERM stops, SIGHUP reloads sites, links, policies and certificates. Orders survive\n"
	"any stop.\n"
	"Exit status: 0 stopped as asked, 1 failed, 2 wrong use or configuration.\n";

enum { OPT_CHECK = 256, OPT_PRINT, OPT_MIN_TERM, OPT_LOG_LEVEL, OPT_ROLE, OPT_VERSION };

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "check-config", no_argument, NULL, OPT_CHECK },
	{ "print-effective-config", no_argument, NULL, OPT_PRINT },
	{ "min-term", required_argument, NULL, OPT_MIN_TERM },
	{ "log-level", required_argument, NULL, OPT_LOG_LEVEL },
	{ "role", required_argument, NULL, OPT_ROLE },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int wrong_use(const char *text)
{
	fprintf(stderr, "strait-master: %s\nTry strait-master --help.\n", text);
	return 2;
}

static int parse_term(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0' || *text < '0' || *text > '9' || *out > INT64_MAX)
		return -EINVAL;
	return 0;
}

static int print_config(struct master_config *cfg)
{
	char *text = master_config_print(cfg);

	if (text == NULL)
		return 1;
	fputs(text, stdout);
	free(text);
	return 0;
}

/* Each source takes a few descriptors, each connection one; nothing here uses select(). */
static void files_raise(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

/* The role of a site has a configuration of its own. */
static int site_main(const char *path, const char *level_name, bool check, bool print)
{
	struct site_config *cfg;
	enum log_level level;
	char err[512], *text;
	int rc = 0;

	cfg = site_config_load(path, err, sizeof(err));
	if (cfg == NULL) {
		fprintf(stderr, "strait-master: %s\n", err);
		return 2;
	}
	if (log_level_parse(level_name != NULL ? level_name : cfg->log_level, &level) != 0) {
		site_config_free(cfg);
		return wrong_use("--log-level must be error, warn, info or debug");
	}
	log_set_level(level);
	if (print) {
		text = site_config_print(cfg);
		rc = text == NULL;
		fputs(text != NULL ? text : "", stdout);
		free(text);
	}
	if (check && site_config_check(cfg, path, err, sizeof(err)) != 0) {
		fprintf(stderr, "strait-master: %s\n", err);
		site_config_free(cfg);
		return 2;
	}
	if (check)
		fprintf(stderr, "%s: ok\n", path);
	if (!check && !print)
		rc = site_run(cfg) == 0 ? 0 : 1;
	site_config_free(cfg);
	return rc;
}

int main(int argc, char **argv)
{
	struct master_options opt = { 0 };
	bool check = false, print = false, site = false;
	const char *level_name = NULL;
	struct master_config *cfg;
	enum log_level level;
	char err[512];
	int o, rc = 0;

	while ((o = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
		if (args_has_option_as_value(argv))
			return wrong_use("the value of an option is missing");
		switch (o) {
		case 'c':
			opt.config = optarg;
			break;
		case OPT_CHECK:
			check = true;
			break;
		case OPT_PRINT:
			print = true;
			break;
		case OPT_MIN_TERM:
			if (parse_term(optarg, &opt.min_term) != 0)
				return wrong_use("--min-term needs a number");
			break;
		case OPT_LOG_LEVEL:
			level_name = optarg;
			break;
		case OPT_ROLE:
			site = strcmp(optarg, "site") == 0;
			if (!site && strcmp(optarg, "inter-dc") != 0)
				return wrong_use("--role must be inter-dc or site");
			break;
		case OPT_VERSION:
			puts(MASTER_PROGRAM);
			return 0;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			return wrong_use("unknown option");
		}
	}
	if (optind < argc)
		return wrong_use("unexpected argument");
	if (opt.config == NULL)
		return wrong_use("--config FILE is needed");
	files_raise();
	if (site)
		return site_main(opt.config, level_name, check, print);
	cfg = master_config_load(opt.config, err, sizeof(err));
	if (cfg == NULL) {
		fprintf(stderr, "strait-master: %s\n", err);
		return 2;
	}
	if (log_level_parse(level_name != NULL ? level_name : cfg->log_level, &level) != 0) {
		master_config_free(cfg);
		return wrong_use("--log-level must be error, warn, info or debug");
	}
	log_set_level(level);
	if (check && master_config_check(cfg, opt.config, err, sizeof(err)) != 0) {
		fprintf(stderr, "strait-master: %s\n", err);
		master_config_free(cfg);
		return 2;
	}
	if (check || print) {
		rc = print ? print_config(cfg) : 0;
		if (check)
			fprintf(stderr, "%s: ok\n", opt.config);
		master_config_free(cfg);
		return rc;
	}
	return master_run(&opt, cfg) == 0 ? 0 : 1;
}
