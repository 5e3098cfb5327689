/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_guard.h"

#include <rte_interrupts.h>

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

enum {
	GUARDS_MAX = 64,
	WAIT_STEP_US = 20,
	WAIT_STEPS = 250000, /* 5 s: a worker that is stopped that long will not run soon */
};

static _Atomic(struct port_guard *) guards[GUARDS_MAX];

int port_guard_add(struct port_guard *g)
{
	for (int i = 0; i < GUARDS_MAX; i++) {
		struct port_guard *none = NULL;

		if (atomic_compare_exchange_strong(&guards[i], &none, g))
			return 0;
	}
	return -ENOSPC;
}

void port_guard_del(struct port_guard *g)
{
	for (int i = 0; i < GUARDS_MAX; i++) {
		struct port_guard *own = g;

		atomic_compare_exchange_strong(&guards[i], &own, NULL);
	}
}

static bool wait_outside(struct port_guard *g)
{
	const struct timespec step = { .tv_nsec = WAIT_STEP_US * 1000 };

	atomic_thread_fence(memory_order_seq_cst);
	for (int i = 0; i < WAIT_STEPS; i++) {
		if (!atomic_load_explicit(&g->inside, memory_order_seq_cst))
			return true;
		nanosleep(&step, NULL);
	}
	return false;
}

bool port_guard_close(struct port_guard *g)
{
	atomic_store_explicit(&g->closed, true, memory_order_seq_cst);
	if (wait_outside(g))
		return true;
	port_guard_open(g);
	return false;
}

void port_guard_open(struct port_guard *g)
{
	atomic_store_explicit(&g->closed, false, memory_order_seq_cst);
}

/* In front of the EAL's function of this name; see port_guard.h. */
int rte_intr_callback_unregister(const struct rte_intr_handle *handle, rte_intr_callback_fn cb,
	void *cb_arg)
{
	static int (*_Atomic eal_function)(const struct rte_intr_handle *, rte_intr_callback_fn,
		void *);
	int (*next)(const struct rte_intr_handle *, rte_intr_callback_fn, void *) = eal_function;

	if (next == NULL) {
		next = (int (*)(const struct rte_intr_handle *, rte_intr_callback_fn,
			void *))dlsym(RTLD_NEXT, "rte_intr_callback_unregister");
		if (next == NULL)
			return -ENOSYS;
		eal_function = next;
	}
	for (int i = 0; i < GUARDS_MAX; i++) {
		struct port_guard *g = atomic_load(&guards[i]);

		if (g != NULL)
			wait_outside(g);
	}
	return next(handle, cb, cb_arg);
}

/*
 * In front of libc's function of this name; see port_guard.h. Only memif uses this type of
 * socket.
 */
ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	static ssize_t (*_Atomic libc_function)(int, const struct msghdr *, int);
	ssize_t (*next)(int, const struct msghdr *, int) = libc_function;
	ssize_t n, all = 0;
	int type = 0, error;
	socklen_t len = sizeof(type);

	if (next == NULL) {
		next = (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
		if (next == NULL) {
			errno = ENOSYS;
			return -1;
		}
		libc_function = next;
	}
	n = next(fd, m, flags | MSG_NOSIGNAL);
	error = errno;
	if (n >= 0 || (error != EPIPE && error != ECONNRESET))
		return n;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_SEQPACKET) {
		errno = error;
		return -1;
	}
	for (size_t i = 0; i < m->msg_iovlen; i++)
		all += (ssize_t)m->msg_iov[i].iov_len;
	return all;
}
