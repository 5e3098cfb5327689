/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/wan/guard.h"

#include <rte_ethdev.h>

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

static sigjmp_buf escape;
static volatile sig_atomic_t armed;
static pthread_t owner;
static uint64_t faults;

static void fault_handler(int sig)
{
	if (armed && pthread_equal(pthread_self(), owner)) {
		armed = 0;
		siglongjmp(escape, 1);
	}
	/* Not ours: the instruction runs again and the default action ends the process. */
	signal(sig, SIG_DFL);
}

int wan_guard_install(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = fault_handler;
	/* The jump out of the handler does not restore the mask, which would cost a system call. */
	sa.sa_flags = SA_NODEFER;
	sigemptyset(&sa.sa_mask);
	owner = pthread_self();
	if (sigaction(SIGSEGV, &sa, NULL) < 0 || sigaction(SIGBUS, &sa, NULL) < 0)
		return -errno;
	return 0;
}

uint16_t wan_guard_rx(uint16_t port, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t got;

	if (sigsetjmp(escape, 0)) {
		faults++;
		return 0;
	}
	armed = 1;
	got = rte_eth_rx_burst(port, 0, pkts, n);
	armed = 0;
	return got;
}

uint16_t wan_guard_tx(uint16_t port, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t sent;

	if (sigsetjmp(escape, 0)) {
		faults++;
		return n;
	}
	armed = 1;
	sent = rte_eth_tx_burst(port, 0, pkts, n);
	armed = 0;
	return sent;
}

uint64_t wan_guard_faults(void)
{
	return faults;
}
