/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * DPDK's environment layer, started once by main before any port or worker exists.
 *
 * The calling thread becomes the control thread. It keeps its CPU affinity: the EAL is given one
 * lcore that floats over every CPU the process may use, and workers register themselves later.
 * Ports are not named here: port_create() plugs virtual devices in, because it knows the MTU
 * their buffers must hold. Only PCI addresses are needed at start, so that the EAL touches no
 * other device.
 *
 * Two ways to get memory:
 *   hugepages      --in-memory: nothing is left behind in hugetlbfs, no mount is needed
 *   no hugepages   --no-huge -m memory_mb: works without root (memif); slower TLB
 * Both keep no shared configuration, so several edges on one host need nothing from each other.
 */

struct eal_config {
	const char *program; /* argv[0] for the EAL's messages; default strait-edge */
	bool hugepages;
	unsigned int memory_mb;  /* without hugepages: all memory the EAL gets; default 256 */
	const char *file_prefix; /* default strait-<pid> */
	/*
	 * Devices of the ports, as in port_config. PCI addresses are allowed, the others
	 * ignored.
	 */
	const char *const *devices;
	unsigned int device_count;
	/* Further vdevs that are not ports, as for --vdev. */
	const char *const *vdevs;
	unsigned int vdev_count;
	bool telemetry; /* DPDK's own telemetry socket */
	/* "[type:]level": "debug", "pmd.net.memif:info"; default "notice" */
	const char *log_level;
};

/**
 * Start the EAL. Before any other thread exists. 0, or -errno with one sentence in err: what
 * failed and, where known, what to do about it (-ENOMEM no hugepages or memory, -EINVAL bad
 * option, -EALREADY ..).
 */
int eal_start(const struct eal_config *cfg, char *err, size_t err_len);

/**
 * Before the process ends, after the last port and worker are gone. The EAL cannot be started
 * again.
 */
void eal_stop(void);

/** "DPDK 22.11.11". */
const char *eal_version(void);
