/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/numa.h"

#include <dirent.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES_MAX = 64 };

/* The first node that is asked for and is not 0 shows that there are several. */
static bool used;

int numa_node_of(unsigned int cpu)
{
	int node = -1, error = errno;
	char path[64];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u", cpu);
	d = opendir(path);
	if (d != NULL) {
		while (node < 0 && (e = readdir(d)) != NULL)
			if (sscanf(e->d_name, "node%d", &node) != 1)
				node = -1;
		closedir(d);
	}
	errno = error;
	if (node >= NODES_MAX)
		return -1;
	used = used || node > 0;
	return node;
}

void numa_prefer(int node)
{
	unsigned long mask = node >= 0 ? 1ul << node : 0;
	int error = errno;

	if (!used)
		return;
	/* Without the right to it memory is where it was. */
	syscall(SYS_set_mempolicy, node >= 0 ? MPOL_PREFERRED : MPOL_DEFAULT,
		node >= 0 ? &mask : NULL, node >= 0 ? NODES_MAX + 1 : 0);
	errno = error;
}
