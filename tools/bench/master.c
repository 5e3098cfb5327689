/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/master.h"

#include "control/ctl/pki.h"
#include "tools/bench/fleet.h"
#include "tools/bench/host.h"
#include "tools/bench/tempdir.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DAYS = 60, DAY_S = 86400 };

static int issue(const struct master_process *m, const char *site, const char *role,
	const char *name, char *err, size_t err_len)
{
	struct pki_request req = { .starts_in_s = -60, .ends_in_s = DAYS * DAY_S };

	snprintf(req.id.site, sizeof(req.id.site), "%s", site);
	snprintf(req.id.role, sizeof(req.id.role), "%s", role);
	snprintf(req.id.name, sizeof(req.id.name), "%s", name);
	return pki_issue(m->dir, &req, err, err_len);
}

/* A port nobody listens at now. */
static int port_find(struct master_process *m)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int ret = fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 ||
			getsockname(fd, (struct sockaddr *)&a, &len) < 0
		? -errno
		: 0;

	if (fd >= 0)
		close(fd);
	snprintf(m->address, sizeof(m->address), "127.0.0.1:%u", ntohs(a.sin_port));
	return ret;
}

/* Half of the sites are one label, half another, and all of one goes to the other. */
static int config_write(const struct master_process *m, uint64_t keys)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/master.yaml", m->dir);
	f = fopen(path, "we");
	if (f == NULL)
		return -errno;
	fprintf(f,
		"listen: %s\ntls: { ca: %s/ca.pem, cert: %s/master.pem, key: %s/master.key }\n"
		"ledger: %s/master.db\nkeys: %llu\nlog_level: info\npolicies:\n"
		"  - { from: eu, to: us, class: bulk }\nsites:\n",
		m->address, m->dir, m->dir, m->dir, m->dir, (unsigned long long)keys);
	for (uint32_t i = 0; i < FLEET_SITES; i++)
		fprintf(f, "  - { name: %s, label: %s }\n", fleet_site(i),
			i < FLEET_SITES / 2 ? "eu" : "us");
	return fclose(f) == 0 ? 0 : -errno;
}

int master_prepare(struct master_process *m, uint64_t keys, char *err, size_t err_len)
{
	int ret;

	ret = tempdir_create(m->dir);
	if (ret < 0)
		return ret;
	ret = pki_init(m->dir, DAYS, err, err_len);
	if (ret == 0)
		ret = issue(m, "-", "master", "master", err, err_len);
	if (ret == 0)
		ret = issue(m, "-", "operator", "operator", err, err_len);
	for (uint32_t i = 0; i < FLEET_SITES && ret == 0; i++)
		ret = issue(m, fleet_site(i), "site-master", fleet_site(i), err, err_len);
	if (ret == 0)
		ret = port_find(m);
	return ret == 0 ? config_write(m, keys) : ret;
}

/* The directory of our own program. */
static int program(char *out, size_t len)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n < 0)
		return -errno;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (slash == NULL || (size_t)(slash - self) + sizeof("/strait-master") > len)
		return -ENAMETOOLONG;
	*slash = '\0';
	snprintf(out, len, "%.*s/strait-master", (int)(slash - self), self);
	return access(out, X_OK) == 0 ? 0 : -errno;
}

int master_spawn(struct master_process *m)
{
	char path[PATH_MAX], config[PATH_MAX], log[PATH_MAX];
	int ret = program(path, sizeof(path)), out;
	pid_t parent = getpid();

	if (ret < 0)
		return ret;
	snprintf(config, sizeof(config), "%s/master.yaml", m->dir);
	snprintf(log, sizeof(log), "%s/master.log", m->dir);
	m->began_ns = host_now_ns();
	m->pid = fork();
	if (m->pid != 0)
		return m->pid < 0 ? -errno : 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (getppid() != parent || out < 0)
		_exit(1);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execl(path, path, "--config", config, (char *)NULL);
	_exit(127);
}

void master_stop(struct master_process *m)
{
	if (m->pid <= 0)
		return;
	kill(m->pid, SIGTERM);
	(void)waitpid(m->pid, NULL, 0);
	m->pid = 0;
}

uint64_t master_cpu_ns(const struct master_process *m)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(m->pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t master_resident(const struct master_process *m)
{
	unsigned long long pages = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)m->pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	if (fscanf(f, "%*u %llu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
