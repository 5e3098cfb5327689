/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/tempdir.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };

static char path[TEMPDIR_BYTES];
static volatile sig_atomic_t owner; /* pid */

/* Only calls that a signal handler may make (signal-safety(7)), so rm does the walking. */
static void remove_now(void)
{
	pid_t pid;

	if (owner != getpid())
		return;
	owner = 0;
	pid = fork();
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", path, (char *)NULL);
		_exit(1);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void on_signal(int number)
{
	remove_now();
	signal(number, SIG_DFL);
	raise(number);
}

int tempdir_create(char *dir)
{
	struct sigaction sa = { .sa_handler = on_signal };

	snprintf(path, sizeof(path), "/tmp/strait-bench-XXXXXX");
	if (mkdtemp(path) == NULL)
		return -errno;
	memcpy(dir, path, sizeof(path));
	if (getenv("STRAIT_BENCH_KEEP") != NULL) {
		fprintf(stderr, "strait-bench: keeps %s\n", path);
		return 0;
	}
	owner = getpid();
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		sigaction(ending[i], &sa, NULL);
	return 0;
}

void tempdir_remove(void)
{
	remove_now();
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		signal(ending[i], SIG_DFL);
}
