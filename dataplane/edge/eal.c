/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/eal.h"

#include "dataplane/edge/compat.h"
#include "dataplane/edge/port.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ARGS_MAX = 64,
	LCORES_BYTES = 1024,
	MEMORY_MB_DEFAULT = 256,
};

/* The EAL keeps pointers into its arguments, so they live as long as the process. */
struct arguments {
	char *v[ARGS_MAX + 1];
	int count;
	bool failed; /* no memory or too many */
};

static struct arguments args;
static bool started;

__attribute__((format(printf, 1, 2))) static void arg_add(const char *fmt, ...)
{
	va_list ap;

	if (args.count >= ARGS_MAX) {
		args.failed = true;
		return;
	}
	va_start(ap, fmt);
	if (vasprintf(&args.v[args.count], fmt, ap) < 0)
		args.failed = true;
	else
		args.count++;
	va_end(ap);
	args.v[args.count] = NULL;
}

/*
 * One lcore over all CPUs this process may use, so that the EAL does not pin the control thread.
 * Returns false when the affinity is unknown: the EAL's default then.
 */
static bool lcores_string(char *out, size_t len)
{
	cpu_set_t set;
	size_t n = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return false;
	n = (size_t)snprintf(out, len, "0@(");
	for (int cpu = 0; cpu < CPU_SETSIZE && cpu < RTE_MAX_LCORE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		n += (size_t)snprintf(out + n, len - n, "%s%d", out[n - 1] == '(' ? "" : ",", cpu);
		if (n + 2 >= len)
			return false;
	}
	if (out[n - 1] == '(')
		return false;
	snprintf(out + n, len - n, ")");
	return true;
}

static void build_arguments(const struct eal_config *cfg)
{
	char lcores[LCORES_BYTES];
	bool pci = false;

	arg_add("%s", cfg->program != NULL ? cfg->program : "strait-edge");
	if (lcores_string(lcores, sizeof(lcores))) {
		arg_add("--lcores");
		arg_add("%s", lcores);
	}
	if (cfg->hugepages) {
		arg_add("--in-memory");
	} else {
		arg_add("--no-huge");
		arg_add("--no-shconf");
		arg_add("-m");
		arg_add("%u", cfg->memory_mb != 0 ? cfg->memory_mb : MEMORY_MB_DEFAULT);
	}
	if (cfg->file_prefix != NULL)
		arg_add("--file-prefix=%s", cfg->file_prefix);
	else
		arg_add("--file-prefix=strait-%d", (int)getpid());
	for (unsigned int i = 0; i < cfg->device_count; i++) {
		if (!port_device_is_pci(cfg->devices[i]))
			continue;
		pci = true;
		arg_add("-a");
		arg_add("%s", cfg->devices[i]);
	}
	if (!pci)
		arg_add("--no-pci");
	for (unsigned int i = 0; i < cfg->vdev_count; i++)
		arg_add("--vdev=%s", cfg->vdevs[i]);
	if (!cfg->telemetry)
		arg_add("--no-telemetry");
}

/* "debug" or "pmd.net.memif:info". -EINVAL: no such level. */
static int set_log_level(const char *text)
{
	static const char *const names[] = { [RTE_LOG_EMERG] = "emergency",
		[RTE_LOG_ALERT] = "alert",
		[RTE_LOG_CRIT] = "critical",
		[RTE_LOG_ERR] = "error",
		[RTE_LOG_WARNING] = "warning",
		[RTE_LOG_NOTICE] = "notice",
		[RTE_LOG_INFO] = "info",
		[RTE_LOG_DEBUG] = "debug" };
	const char *colon = strrchr(text, ':');
	const char *level = colon != NULL ? colon + 1 : text;
	char pattern[128] = "*";

	if (colon != NULL)
		snprintf(pattern, sizeof(pattern), "%.*s", (int)(colon - text), text);
	for (uint32_t i = RTE_LOG_EMERG; i <= RTE_LOG_DEBUG; i++) {
		if (strcmp(level, names[i]) == 0)
			return rte_log_set_level_pattern(pattern, i) == 0 ? 0 : -EINVAL;
	}
	return -EINVAL;
}

/*
 * After the start, because --log-level works backwards for drivers that are loaded by it: the
 * first match wins.
 *
 * memif warns at every start that it cannot share memory with secondary processes, of which we
 * have none; so only its errors are shown, unless more than notices is asked for. (A client port,
 * which fails to connect again and again, silences those too.)
 */
static int set_log_levels(const char *wanted)
{
	bool named = wanted != NULL && strchr(wanted, ':') != NULL;
	int general, ret = 0;

	rte_log_set_global_level(RTE_LOG_DEBUG);
	rte_log_set_level_pattern("*", RTE_LOG_NOTICE);
	if (wanted != NULL && !named)
		ret = set_log_level(wanted);
	general = rte_log_get_level(RTE_LOGTYPE_EAL);
	if (general == RTE_LOG_NOTICE || general == RTE_LOG_WARNING)
		rte_log_set_level_pattern("pmd.net.memif", RTE_LOG_ERR);
	if (named)
		ret = set_log_level(wanted);
	return ret;
}

/* The last lines of what the EAL said, most telling last: "cause: consequence". */
static void explain(char *log, int error, const struct eal_config *cfg, char *err, size_t err_len)
{
	char *last = NULL, *before = NULL, *save = NULL;

	for (char *line = strtok_r(log, "\n", &save); line != NULL;
		line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, "EAL: ", 5) == 0)
			line += 5;
		if (*line == '\0')
			continue;
		before = last;
		last = line;
	}
	snprintf(err, err_len, "DPDK did not start: %s%s%s%s", before != NULL ? before : "",
		before != NULL ? ": " : "", last != NULL ? last : rte_strerror(error),
		cfg->hugepages ? " (is memory reserved in /proc/sys/vm/nr_hugepages?)" : "");
}

int eal_start(const struct eal_config *cfg, char *err, size_t err_len)
{
	char *text = NULL;
	size_t text_len = 0;
	char *argv[ARGS_MAX + 1];
	FILE *log;
	int rc = 0;

	if (started) {
		snprintf(err, err_len, "DPDK is running already");
		return -EALREADY;
	}
	if (set_log_levels(cfg->log_level) != 0) {
		snprintf(err, err_len,
			"DPDK log level \"%s\": must be [type:]level, debug to emergency",
			cfg->log_level);
		return -EINVAL;
	}
	build_arguments(cfg);
	if (args.failed) {
		snprintf(err, err_len, "too many devices for DPDK's command line, or no memory");
		return -E2BIG;
	}
	/*
	 * What the EAL writes while starting is kept back: only a failure makes it worth
	 * reading.
	 */
	log = open_memstream(&text, &text_len);
	if (log == NULL) {
		snprintf(err, err_len, "no memory");
		return -ENOMEM;
	}
	rte_openlog_stream(log);
	rte_errno = 0;
	/* It moves the pointers about; the strings are what it keeps. */
	memcpy(argv, args.v, sizeof(argv));
	if (rte_eal_init(args.count, argv) < 0)
		rc = rte_errno > 0 ? -rte_errno : -EINVAL;
	rte_openlog_stream(stderr);
	fclose(log);
	if (rc != 0)
		explain(text, -rc, cfg, err, err_len);
	else
		started = true;
	set_log_levels(cfg->log_level);
	free(text);
	return rc;
}

void eal_stop(void)
{
	/*
	 * No rte_eal_cleanup(): it unmaps the memory in which the interrupt thread, which it does
	 * not stop, still looks for handles, and that thread dies of it now and then. Ports are
	 * closed and the memory is private, so the end of the process cleans up; only an empty
	 * directory would stay.
	 */
	if (started)
		rmdir(rte_eal_get_runtime_dir());
}

const char *eal_version(void)
{
	return rte_version();
}
