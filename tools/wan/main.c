/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strait-wan: a seeded WAN link between two DPDK ports. Exit status: 0 after a signal or --seconds,
 * 1 when a port cannot be started, 2 on bad options.
 */
#include "tools/wan/forward.h"
#include "tools/wan/guard.h"
#include "tools/wan/options.h"
#include "tools/wan/ports.h"
#include "tools/wan/stats.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static volatile sig_atomic_t stop;

static void stop_handler(int sig)
{
	(void)sig;
	stop = 1;
}

static void signals_install(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = stop_handler;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	/* A reader of our counters that goes away must not cut the link. */
	signal(SIGPIPE, SIG_IGN);
}

/*
 * A line does not wait for the computers at its ends: on a busy machine only real-time priority
 * keeps packets on time. Best effort, for it takes privilege, and only for the forward loop, which
 * naps: DPDK's own threads exist already and stay as they are.
 */
static void priority_raise(void)
{
	struct sched_param param = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_RR, &param) < 0)
		setpriority(PRIO_PROCESS, 0, -10);
}

int main(int argc, char **argv)
{
	/* Static: a link configuration and a link are each some KiB. */
	static struct wan_options opt;
	static struct wan wan;
	struct wan_plan plan;
	struct wan_ports ports;
	char err[256] = "";
	int rc;

	if (wan_options_parse(&opt, argc, argv, err, sizeof(err)) < 0 ||
		(!opt.help && wan_plan_make(&plan, &opt, err, sizeof(err)) < 0)) {
		fprintf(stderr, "strait-wan: %s\n", err);
		return 2;
	}
	if (opt.help) {
		wan_options_help();
		return 0;
	}
	signals_install();
	/* Naps of 50 us are useless with the default slack of another 50 us. */
	prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
	if (wan_ports_start(&ports, &opt, &plan, err, sizeof(err)) < 0) {
		fprintf(stderr, "strait-wan: %s\n", err);
		return 1;
	}
	rc = wan_guard_install();
	if (rc == 0)
		rc = wan_init(&wan, &opt, &plan, &ports);
	if (rc < 0) {
		fprintf(stderr, "strait-wan: %s\n", strerror(-rc));
		wan_ports_stop(&ports);
		return 1;
	}
	if (!opt.poll_mode)
		priority_raise();
	printf("ready\n");
	fflush(stdout);
	wan_run(&wan, &stop);
	wan_stats_print(&wan, wan_now_ns(), true);
	wan_fini(&wan);
	wan_ports_stop(&ports);
	return 0;
}
