/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_fanout.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

static _Atomic bool is_alone;

void port_fanout_alone(bool alone)
{
	is_alone = alone;
}

int port_fanout_without_defrag(int arg)
{
	return (int)((unsigned int)arg & ~((unsigned int)PACKET_FANOUT_FLAG_DEFRAG << 16));
}

/* In front of libc's function of this name; see port_fanout.h. */
int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	static int (*_Atomic libc_function)(int, int, int, const void *, socklen_t);
	int (*next)(int, int, int, const void *, socklen_t) = libc_function;
	int arg;

	if (next == NULL) {
		next = (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT,
			"setsockopt");
		if (next == NULL) {
			errno = ENOSYS;
			return -1;
		}
		libc_function = next;
	}
	if (level == SOL_PACKET && name == PACKET_FANOUT && len == sizeof(arg)) {
		if (is_alone)
			return 0;
		memcpy(&arg, value, sizeof(arg));
		arg = port_fanout_without_defrag(arg);
		return next(fd, level, name, &arg, sizeof(arg));
	}
	return next(fd, level, name, value, len);
}
