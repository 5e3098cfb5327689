/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Keeps a device's memory in place while a worker is inside its rx or tx burst. One a worker and
 * port.
 *
 * net_memif takes connections and loses them on the EAL's interrupt thread: when the peer dies it
 * clears its "connected" flag and unmaps the rings at once, under the feet of a burst that passed
 * the flag before. A worker that was preempted inside a burst then reads unmapped memory (22.11
 * to 26.07). Between clearing the flag and unmapping the driver calls
 * rte_intr_callback_unregister(). The guard defines that symbol in front of the EAL's, waits
 * there until every burst in flight is over, and passes the call on. The dynamic linker finds the
 * program's own definition first, so this needs the shared DPDK libraries that distributions
 * ship.
 *
 *   worker: enter, burst, leave         costs one locked instruction
 *   interrupt thread: flag off; wait until not inside; unmap
 *
 * enter's exchange and wait's fence are both sequentially consistent: either the worker sees the
 * flag off, or the waiter sees the worker inside.
 *
 * A second trap of the same kind: when a client is gone before the server greeted it, the driver
 * closes the connection but leaves it registered, and the interrupt thread panics over the closed
 * descriptor (22.11 to 26.07). So a message to a memif peer that is gone counts as sent
 * (sendmsg() on a SOCK_SEQPACKET socket is defined in front of libc's); the driver finds out by
 * reading, and that path is sound.
 *
 * The same guard keeps the worker out altogether while the port is stopped and started again
 * (close, open).
 */

struct port_guard {
	_Atomic bool inside; /* worker: wo; interrupt and control thread: ro */
	_Atomic bool closed; /* worker: ro; interrupt and control thread: wo */
};

/** From here on lost connections wait for g's worker. 0, -ENOSPC. Control thread. */
int port_guard_add(struct port_guard *g);
void port_guard_del(struct port_guard *g);

/** Worker. false: keep out, as if the port had nothing to receive and no room to send. */
static inline bool port_guard_enter(struct port_guard *g)
{
	atomic_exchange_explicit(&g->inside, true, memory_order_seq_cst);
	if (atomic_load_explicit(&g->closed, memory_order_seq_cst)) {
		atomic_store_explicit(&g->inside, false, memory_order_release);
		return false;
	}
	return true;
}

static inline void port_guard_leave(struct port_guard *g)
{
	atomic_store_explicit(&g->inside, false, memory_order_release);
}

/**
 * Keep the worker out from now on. false: it did not come out in time, and the guard is open
 * again.
 */
bool port_guard_close(struct port_guard *g);
void port_guard_open(struct port_guard *g);
