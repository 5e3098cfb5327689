/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/pool_fault.h"

#include "dataplane/pool/shm_pool.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Written beforehand: a handler may not format. */
struct last_words {
	struct pool *pool;
	size_t len;
	char text[PATH_MAX + 256];
};

static struct last_words words[EDGE_POOLS_MAX];
static uint32_t count;

static void on_fault(int signo, siginfo_t *info, void *ctx)
{
	ssize_t ignored;

	(void)ctx;
	for (uint32_t i = 0; i < count; i++) {
		if (info->si_code <= 0 || !shm_pool_has_address(words[i].pool, info->si_addr))
			continue;
		ignored = write(STDERR_FILENO, words[i].text, words[i].len);
		(void)ignored;
	}
	/* The default action, as SA_RESETHAND restored it, once we return. */
	raise(signo);
}

int pool_fault_init(const struct edge_config *cfg, struct pool **pools)
{
	struct sigaction sa = { .sa_sigaction = on_fault,
		.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_ONSTACK };

	for (uint32_t i = 0; i < cfg->pool_count; i++) {
		int n = snprintf(words[i].text, sizeof(words[i].text),
			"error: pool: %s faulted (SIGBUS): it was cut while in use, or its file "
			"system is out of memory; remove it, make room, start the edge again\n",
			cfg->pools[i].path);

		words[i].len =
			(size_t)n < sizeof(words[i].text) ? (size_t)n : sizeof(words[i].text) - 1;
		words[i].pool = pools[i];
	}
	count = cfg->pool_count;
	return sigaction(SIGBUS, &sa, NULL) == 0 ? 0 : -errno;
}

void pool_fault_fini(void)
{
	signal(SIGBUS, SIG_DFL);
	count = 0;
}
