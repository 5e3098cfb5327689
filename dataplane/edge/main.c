/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/args.h"
#include "control/base/config.h"
#include "control/base/log.h"
#include "control/base/notify.h"
#include "control/base/signals.h"
#include "dataplane/edge/aead_cryptodev.h"
#include "dataplane/edge/config.h"
#include "dataplane/edge/control.h"
#include "dataplane/edge/eal.h"
#include "dataplane/edge/numa.h"
#include "dataplane/edge/pool_fault.h"
#include "dataplane/edge/pool_prefault.h"
#include "dataplane/edge/port.h"
#include "dataplane/edge/worker.h"
#include "dataplane/pool/shm_pool.h"

#include <event2/event.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Exit status: 0 done, 1 failed at run time, 2 usage or configuration. */
enum { EXIT_USAGE = 2 };

struct options {
	const char *config;
	bool check, print, poll_mode;
};

static const char usage[] =
	"usage: strait-edge --config FILE [options]\n"
	"\n"
	"The edge of a site: ships objects of its pool to other sites' edges and takes theirs.\n"
	"\n"
	"  -c, --config FILE          configuration (YAML; doc/examples/edge.yaml explains it)\n"
	"      --check-config         check it, certificates included, and exit\n"
	"      --print-effective-config\n"
	"                             print it with defaults filled in, and exit\n"
	"      --poll-mode            never sleep: lowest latency, one CPU always busy\n"
	"  -h, --help                 this text\n"
	"  -V, --version              version\n"
	"\n"
	"SIGTERM drains: running transfers may finish, then the program exits.\n"
	"A second one ends it at once.\n";

/* 0: go on; else the exit status + 1. */
static int parse_options(int argc, char **argv, struct options *o)
{
	enum { OPT_CHECK = 256, OPT_PRINT, OPT_POLL };
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check-config", no_argument, NULL, OPT_CHECK },
		{ "print-effective-config", no_argument, NULL, OPT_PRINT },
		{ "poll-mode", no_argument, NULL, OPT_POLL },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "c:hV", longs, NULL)) != -1) {
		if (args_has_option_as_value(argv)) {
			fputs("strait-edge: --config FILE is needed\ntry strait-edge --help\n",
				stderr);
			return 1 + EXIT_USAGE;
		}
		switch (opt) {
		case 'c':
			o->config = optarg;
			break;
		case OPT_CHECK:
			o->check = true;
			break;
		case OPT_PRINT:
			o->print = true;
			break;
		case OPT_POLL:
			o->poll_mode = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1 + EXIT_SUCCESS;
		case 'V':
			printf("strait-edge %s (%s)\n", EDGE_VERSION, eal_version());
			return 1 + EXIT_SUCCESS;
		default:
			fputs("try strait-edge --help\n", stderr);
			return 1 + EXIT_USAGE;
		}
	}
	if (optind < argc || o->config == NULL) {
		fprintf(stderr, "strait-edge: %s\ntry strait-edge --help\n",
			o->config == NULL ? "--config FILE is needed" : "too many arguments");
		return 1 + EXIT_USAGE;
	}
	return 0;
}

static int print_config(const struct edge_config *cfg)
{
	char *text = edge_config_print(cfg);

	if (text == NULL) {
		log_error("main", "%s: %s", cfg->path, strerror(errno));
		return EXIT_FAILURE;
	}
	fputs(text, stdout);
	free(text);
	return EXIT_SUCCESS;
}

/* Keys and other sites' values do not belong into core files. */
static void forbid_core(void)
{
	const struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_CORE, &none) < 0)
		log_warn("main", "setrlimit core: %s", strerror(errno));
}

static void close_pools(struct pool **pools, uint32_t count)
{
	while (count-- > 0)
		pool_destroy(pools[count]);
}

/*
 * Returns 0 with all pools open and credit sized for the smallest, or -errno with the reason
 * logged.
 */
static int open_pools(struct edge_config *cfg, struct pool **pools)
{
	struct strait_pool_stats stats;
	uint64_t room = UINT64_MAX;
	char err[512];
	int ret;

	for (uint32_t i = 0; i < cfg->pool_count; i++) {
		const struct edge_pool_config *p = &cfg->pools[i];
		struct shm_pool_options options = { .create = p->create,
			.create_size_bytes = p->size_bytes };

		pools[i] = shm_pool_open(p->path, &options, err, sizeof(err));
		ret = pools[i] == NULL ? -errno : pool_stats(pools[i], &stats);
		if (ret < 0) {
			log_error("main", "pool %s: %s", p->path,
				pools[i] == NULL ? err : strerror(-ret));
			close_pools(pools, pools[i] == NULL ? i : i + 1);
			return ret;
		}
		if (p->site == NULL && stats.arena_bytes < room)
			room = stats.arena_bytes;
		log_info("main", "pool site=%s tenant=%s path=%s bytes=%llu objects=%llu",
			p->site != NULL ? p->site : cfg->site, p->tenant, p->path,
			(unsigned long long)stats.arena_bytes, (unsigned long long)stats.objects);
	}
	edge_config_credit(cfg, room);
	return 0;
}

static void on_stop(int signo, void *ctx)
{
	(void)signo;
	control_stop(ctx);
}

static int run_loop(struct event_base *base, struct control *control)
{
	const struct signals_handler handler = { .on_stop = on_stop };
	struct signals *signals = signals_create(base, &handler, control);

	if (signals == NULL) {
		log_error("main", "signals: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	log_info("main", "ready");
	puts("ready");
	notify_send("READY=1");
	event_base_dispatch(base);
	signals_destroy(signals);
	log_info("main", "stopped");
	return EXIT_SUCCESS;
}

/* The backend with this name, which works on this machine, or NULL. */
static const struct aead_ops *open_crypto(const char *name, char *err, size_t err_len)
{
	static const uint8_t key[STRAIT_KEY_BYTES];
	const struct aead_ops *ops = aead_by_name(name);
	struct aead a = { 0 };

	if (ops == NULL)
		return aead_cryptodev_start(name + strlen(EDGE_CRYPTODEV_PREFIX), err, err_len);
	if (aead_init(&a, ops, key) < 0) {
		snprintf(err, err_len, "%s does not work on this CPU: leave crypto out", name);
		return NULL;
	}
	aead_fini(&a);
	return ops;
}

static int create_workers(const struct edge_config *cfg, struct control_parts *parts)
{
	struct worker_config wc = { .port = parts->port,
		.pin = cfg->pin,
		.poll_mode = cfg->poll_mode,
		.max_sleep_us = cfg->max_sleep_us,
		.realtime = cfg->realtime };
	struct port_info info;
	int ret;

	for (unsigned int i = 0; i < cfg->workers; i++) {
		wc.queue = (uint16_t)i;
		wc.cpu = cfg->cpus[i];
		wc.numa = cfg->port.numa[i];
		numa_prefer(wc.numa - 1);
		parts->workers[i] = worker_create(&wc);
		numa_prefer(-1);
		if (parts->workers[i] == NULL) {
			ret = -errno;
			log_error("main", "worker: %s", strerror(errno));
			return ret;
		}
	}
	if (cfg->workers == 1)
		return 0;
	ret = worker_team(parts->workers, cfg->workers);
	if (ret < 0)
		log_error("main", "workers: %s", strerror(-ret));
	port_info(parts->port, &info);
	log_info("main", "workers count=%u port_queues=%u flow_rules=%u udp_ports=%u-%u",
		cfg->workers, info.queues, info.steered, cfg->port.udp_port,
		cfg->port.udp_port + cfg->workers - 1);
	return ret;
}

static int start_workers(const struct edge_config *cfg, const struct control_parts *parts)
{
	int ret = 0;

	for (unsigned int i = 0; i < cfg->workers && ret == 0; i++) {
		ret = worker_start(parts->workers[i]);
		if (ret < 0)
			log_error("main", "worker %u: cannot start%s%s: %s%s", i,
				cfg->pin ? " on its CPU" : "",
				cfg->realtime > 0 ? " with worker.realtime" : "", strerror(-ret),
				ret == -EPERM ? "; CAP_SYS_NICE or RLIMIT_RTPRIO allows it" : "");
	}
	return ret;
}

static void stop_workers(const struct control_parts *parts)
{
	for (unsigned int i = 0; i < WORKERS_MAX && parts->workers[i] != NULL; i++)
		worker_stop(parts->workers[i]);
}

static void destroy_workers(const struct control_parts *parts)
{
	for (unsigned int i = 0; i < WORKERS_MAX && parts->workers[i] != NULL; i++)
		worker_destroy(parts->workers[i]);
}

/* Everything from the EAL up, and down again in mirror order. */
static int run(struct edge_config *cfg, struct rpc_tls *tls)
{
	struct pool *pools[EDGE_POOLS_MAX];
	struct control_parts parts = { .tls = tls, .pools = pools };
	struct pool_prefault *prefault;
	struct control *control;
	int status = EXIT_FAILURE;
	char err[512];
	int ret;

	if (eal_start(&cfg->eal, err, sizeof(err)) < 0) {
		log_error("main", "eal: %s", err);
		return EXIT_FAILURE;
	}
	if (cfg->crypto != NULL) {
		parts.aead = open_crypto(cfg->crypto, err, sizeof(err));
		if (parts.aead == NULL) {
			log_error("main", "crypto: %s", err);
			goto stop_eal;
		}
	}
	parts.port = port_create(&cfg->port, err, sizeof(err));
	if (parts.port == NULL) {
		log_error("main", "port %s: %s", cfg->port.device, err);
		goto stop_eal;
	}
	if (create_workers(cfg, &parts) < 0)
		goto destroy_workers;
	if (open_pools(cfg, pools) < 0)
		goto destroy_workers;
	ret = pool_fault_init(cfg, pools);
	if (ret < 0)
		log_warn("main", "signal SIGBUS: %s", strerror(-ret));
	prefault = pool_prefault_start(pools, cfg->pool_count);
	if (prefault == NULL)
		log_warn("main", "pool pages are mapped as objects come: %s", strerror(errno));
	parts.base = event_base_new();
	if (parts.base == NULL) {
		log_error("main", "event loop: %s", strerror(errno));
		goto close_pools;
	}
	if (start_workers(cfg, &parts) < 0)
		goto stop_workers;
	control = control_create(cfg, &parts, err, sizeof(err));
	if (control == NULL) {
		log_error("main", "%s", err);
		goto stop_workers;
	}
	status = run_loop(parts.base, control);
	/* No packet may be written into a pool any more when control gives the memory back. */
	stop_workers(&parts);
	control_destroy(control);
stop_workers:
	stop_workers(&parts);
	rpc_tls_destroy(tls);
	event_base_free(parts.base);
	tls = NULL;
close_pools:
	pool_prefault_stop(prefault);
	pool_fault_fini();
	close_pools(pools, cfg->pool_count);
destroy_workers:
	destroy_workers(&parts);
	port_destroy(parts.port);
stop_eal:
	aead_cryptodev_stop();
	eal_stop();
	if (tls != NULL)
		rpc_tls_destroy(tls);
	return status;
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	static struct edge_config cfg;
	struct rpc_tls *tls;
	char err[1024];
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	status = parse_options(argc, argv, &options);
	if (status > 0)
		return status - 1;
	status = EXIT_USAGE;
	if (edge_config_load(&cfg, options.config, err, sizeof(err)) < 0) {
		log_error("config", "%s", err);
		goto out;
	}
	if (options.poll_mode && cfg.realtime > 0) {
		log_error("config",
			"--poll-mode and worker.realtime: one of them, or the kernel "
			"never gets the CPU");
		goto out;
	}
	cfg.poll_mode = cfg.poll_mode || options.poll_mode;
	tls = rpc_tls_create(&cfg.tls, err, sizeof(err));
	if (tls == NULL) {
		log_error("config", "%s:%u: tls: %s", cfg.path, config_line(cfg.path, "tls"), err);
		goto out;
	}
	if (strcmp(rpc_tls_self(tls)->site, cfg.site) != 0 ||
		strcmp(rpc_tls_self(tls)->name, cfg.edge) != 0 ||
		strcmp(rpc_tls_self(tls)->role, "edge") != 0) {
		log_error("config",
			"%s:%u: the certificate %s is for %s %s/%s, but this is edge %s/%s",
			cfg.path, config_line(cfg.path, "tls.cert"),
			cfg.tls.cert != NULL ? cfg.tls.cert : "", rpc_tls_self(tls)->role,
			rpc_tls_self(tls)->site, rpc_tls_self(tls)->name, cfg.site, cfg.edge);
		rpc_tls_destroy(tls);
		goto out;
	}
	if (options.print || options.check) {
		status = options.print ? print_config(&cfg) : EXIT_SUCCESS;
		if (!options.print)
			printf("%s: ok\n", cfg.path);
		rpc_tls_destroy(tls);
		goto out;
	}
	forbid_core();
	status = run(&cfg, tls);
out:
	edge_config_fini(&cfg);
	return status;
}
