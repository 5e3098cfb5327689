/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A strait-master in the inter-dc role as a process of its own, with certificates and a
 * configuration in a directory that is removed afterwards. It ends with this process.
 */

struct master_process {
	char dir[64];     /* of tempdir.h: certificates, ledger, log */
	char address[32]; /* 127.0.0.1 and a free port */
	pid_t pid;
	uint64_t began_ns;
};

/** Directory, certificates of master, operator and all sites of fleet.h. 0 or -errno + err. */
int master_prepare(struct master_process *m, uint64_t keys, char *err, size_t err_len);
/** Start the program, which lies beside ours. 0 or -errno; a start that fails shows later. */
int master_spawn(struct master_process *m);
/** SIGTERM, and wait for its end. */
void master_stop(struct master_process *m);

/** CPU time of all its threads. */
uint64_t master_cpu_ns(const struct master_process *m);
uint64_t master_resident(const struct master_process *m);
