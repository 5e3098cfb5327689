/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * NUMA nodes: where a CPU is, and where memory that is made next goes.
 *
 * numa_prefer() is of the calling thread and of pages it touches first, so large blocks follow it
 * and small ones that the allocator has already do not; what a worker touches per packet is large.
 * Where there is one node nothing is done. Any thread; errno is kept.
 */

/** -1: not known. */
int numa_node_of(unsigned int cpu);
/** Memory from this node from now on, as long as it has any; -1: as the system has it. */
void numa_prefer(int node);
