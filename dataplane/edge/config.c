/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/config.h"

#include "control/base/log.h"
#include "control/base/name.h"
#include "control/base/units.h"
#include "dataplane/edge/config_schema.h"
#include "dataplane/edge/numa.h"
#include "dataplane/pool/shm_pool.h"
#include "dataplane/transport/pacer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	UDP_PORT_DEFAULT = 4790,
	REALTIME_MAX = 99,        /* sched(7) */
	OBJECTS_DEFAULT = 262144, /* 1G of 4 KiB each */
	SLOTS_MAX = 65000,        /* 16-bit lists */
	PACKETS_MAX = 1 << 24,
	PACKETS_MIN = 1024, /* fewer than 12 ms of 1 Gbit/s */
	SLOTS_DEFAULT = 4096,
	PACKETS_DEFAULT = 131072,
	/* All classes together leave a quarter of the pool. */
	CREDIT_POOL_SHARE = 4,
};
#define CREDIT_MAX_BYTES (1ULL << 30)
#define CREDIT_MIN_BYTES (1ULL << 20)

/* Where an error goes, and whether there was one: the first stays. */
struct check {
	const char *path;
	char *err;
	size_t err_len;
	int ret;
};

static void fail(struct check *ck, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void fail(struct check *ck, const char *where, const char *fmt, ...)
{
	char text[512];
	va_list args;

	if (ck->ret < 0)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ck->ret = config_fail(ck->err, ck->err_len, ck->path, where, "%s", text);
}

static bool is_given(const char *s)
{
	return s != NULL && s[0] != '\0';
}

/* Fill in a text that was not given, so that the printed configuration shows it. */
static void text_default(struct check *ck, char **s, const char *value)
{
	if (is_given(*s))
		return;
	free(*s);
	*s = strdup(value);
	if (*s == NULL && ck->ret == 0) {
		snprintf(ck->err, ck->err_len, "out of memory");
		ck->ret = -ENOMEM;
	}
}

/*
 * The number given, or the default, which is filled in. 0 would mean the default without saying
 * so.
 */
static uint32_t count_default(struct check *ck, const char *where, uint32_t **n, uint32_t value)
{
	if (*n == NULL) {
		*n = malloc(sizeof(**n));
		if (*n != NULL)
			**n = value;
		else
			fail(ck, where, "out of memory");
	} else if (**n == 0) {
		fail(ck, where, "%s: 0 makes no sense; leave it out for the default, %u", where,
			value);
	}
	return *n != NULL && **n != 0 ? **n : value;
}

static uint64_t parse_bytes(struct check *ck, const char *where, const char *s)
{
	char why[256];
	uint64_t v = 0;

	if (s != NULL && units_parse_bytes(s, &v, why, sizeof(why)) < 0)
		fail(ck, where, "%s: %s", where, why);
	return v;
}

static uint64_t parse_rate(struct check *ck, const char *where, const char *s)
{
	char why[256];
	uint64_t v = 0;

	if (s != NULL && units_parse_rate(s, &v, why, sizeof(why)) < 0)
		fail(ck, where, "%s: %s", where, why);
	else if (s != NULL && v == 0)
		fail(ck, where, "%s: 0 would let nothing pass; leave it out for no cap", where);
	return v;
}

static void parse_mac(struct check *ck, const char *where, const char *s, bool *has, uint8_t *mac)
{
	unsigned int b[PORT_MAC_BYTES];
	char end;

	if (!is_given(s))
		return;
	if (strlen(s) != 17 ||
		sscanf(s, "%2x:%2x:%2x:%2x:%2x:%2x%c", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
			&end) != PORT_MAC_BYTES) {
		fail(ck, where, "%s: \"%s\" is not a MAC address like \"02:00:00:00:00:01\"", where,
			s);
		return;
	}
	for (int i = 0; i < PORT_MAC_BYTES; i++)
		mac[i] = (uint8_t)b[i];
	*has = true;
}

/* All zeros when there is none. */
static struct net_ip parse_ip(struct check *ck, const char *where, const char *s)
{
	struct net_ip ip = { .b = { 0 } };
	struct in_addr a;

	if (!is_given(s))
		return ip;
	if (inet_pton(AF_INET, s, &a) == 1)
		return net_ip4(ntohl(a.s_addr));
	if (inet_pton(AF_INET6, s, ip.b) == 1 && !net_ip_is4(ip))
		return ip;
	fail(ck, where, "%s: \"%s\" is not an address like \"10.0.0.1\" or \"fd00::1\"", where, s);
	return (struct net_ip){ .b = { 0 } };
}

static void parse_address(struct check *ck, const char *s, struct port_config *port)
{
	const char *slash = strchr(s, '/');
	char ip[64], *end;
	unsigned long len, most;

	if (slash == NULL || (size_t)(slash - s) >= sizeof(ip)) {
		fail(ck, "port.address",
			"port.address: \"%s\" needs a prefix length, like \"10.0.0.1/24\" or "
			"\"fd00::1/64\"",
			s);
		return;
	}
	memcpy(ip, s, (size_t)(slash - s));
	ip[slash - s] = '\0';
	port->ip = parse_ip(ck, "port.address", ip);
	most = net_ip_is4(port->ip) ? 32 : 128;
	len = strtoul(slash + 1, &end, 10);
	if (*end != '\0' || end == slash + 1 || len > most)
		fail(ck, "port.address", "port.address: the prefix length is 0 to %lu", most);
	port->prefix_len = (uint8_t)len;
}

/* "host:port". */
static void check_host_port(struct check *ck, const char *where, const char *s, bool zero_port)
{
	const char *colon = strrchr(s, ':');
	char *end = NULL;
	unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;

	if (colon == NULL || colon == s || end == colon + 1 || *end != '\0' || port > UINT16_MAX ||
		(port == 0 && !zero_port))
		fail(ck, where, "%s: \"%s\" is not host:port", where, s);
}

static void check_names(struct check *ck, struct edge_config *cfg, struct raw_config *r)
{
	char why[256];
	struct stat st;

	if (name_check("site", r->site, why, sizeof(why)) < 0)
		fail(ck, "site", "%s", why);
	if (name_check("edge", r->edge, why, sizeof(why)) < 0)
		fail(ck, "edge", "%s", why);
	if (stat(r->state_dir, &st) < 0)
		fail(ck, "state_dir", "state_dir: %s: %s; create it, owned by the user of the edge",
			r->state_dir, strerror(errno));
	else if (!S_ISDIR(st.st_mode) || access(r->state_dir, W_OK | X_OK) < 0)
		fail(ck, "state_dir", "state_dir: %s is not a directory this user can write",
			r->state_dir);
	cfg->site = r->site;
	cfg->edge = r->edge;
	cfg->state_dir = r->state_dir;
}

int edge_config_pool_fits(const struct edge_pool_config *pool, char *err, size_t err_len)
{
	char have[UNITS_TEXT_MAX], want[UNITS_TEXT_MAX];
	char dir[PATH_MAX];
	struct statvfs fs;
	uint64_t room;

	if (access(pool->path, F_OK) == 0)
		return 0;
	if (!pool->create) {
		snprintf(err, err_len, "%s does not exist; set create: true and a size",
			pool->path);
		return -ENOENT;
	}
	snprintf(dir, sizeof(dir), "%s", pool->path);
	if (statvfs(dirname(dir), &fs) < 0) {
		snprintf(err, err_len, "the directory of %s: %s", pool->path, strerror(errno));
		return -errno;
	}
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (pool->size_bytes <= room)
		return 0;
	snprintf(err, err_len,
		"a pool of %s does not fit: the file system of %s has %s free; make it "
		"smaller or the file system larger (mount -o remount,size=..)",
		units_format_bytes(pool->size_bytes, want), pool->path,
		units_format_bytes(room, have));
	return -ENOSPC;
}

static void check_gateway(struct check *ck, struct edge_pool_config *p, const struct raw_pool *raw,
	uint32_t i)
{
	char where[64];

	if (!is_given(raw->gateway))
		return;
	snprintf(where, sizeof(where), "pools[%u].gateway", i);
	if (raw->gateway[0] != '/' || strlen(raw->gateway) >= EDGE_SOCKET_MAX)
		fail(ck, where, "gateway: \"%s\" must begin with / and have fewer than %d bytes",
			raw->gateway, EDGE_SOCKET_MAX);
	p->gateway = raw->gateway;
}

static void check_pool_site(struct check *ck, struct edge_config *cfg, const struct raw_pool *raw,
	uint32_t i)
{
	char where[64], why[256];

	if (!is_given(raw->site) || strcmp(raw->site, cfg->site) == 0)
		return;
	snprintf(where, sizeof(where), "pools[%u].site", i);
	if (name_check("site", raw->site, why, sizeof(why)) < 0)
		fail(ck, where, "%s", why);
	cfg->pools[i].site = raw->site;
}

static bool is_of_one_site(const struct edge_pool_config *a, const struct edge_pool_config *b)
{
	return a->site == NULL || b->site == NULL ? a->site == b->site
						  : strcmp(a->site, b->site) == 0;
}

/* Beside those before it. */
static void check_pool_alone(struct check *ck, const struct edge_config *cfg, uint32_t i)
{
	const struct edge_pool_config *p = &cfg->pools[i];
	char where[64];

	for (uint32_t j = 0; j < i; j++) {
		const struct edge_pool_config *other = &cfg->pools[j];

		snprintf(where, sizeof(where), "pools[%u].tenant", i);
		if (strcmp(other->tenant, p->tenant) == 0 && is_of_one_site(other, p))
			fail(ck, where, "tenant %s has two pools", p->tenant);
		snprintf(where, sizeof(where), "pools[%u].path", i);
		if (strcmp(other->path, p->path) == 0)
			fail(ck, where, "path: %s is the pool of two", p->path);
		snprintf(where, sizeof(where), "pools[%u].%s", i,
			p->gateway != NULL ? "gateway" : "site");
		if (strcmp(other->tenant, p->tenant) == 0 && !is_of_one_site(other, p) &&
			(p->gateway != NULL || other->gateway != NULL))
			fail(ck, where,
				"the edge copies between pools of tenant %s, so none of them can "
				"have a gateway",
				p->tenant);
	}
	if (p->site != NULL && p->gateway != NULL) {
		snprintf(where, sizeof(where), "pools[%u].gateway", i);
		fail(ck, where, "gateway: only of pools of the edge's own site");
	}
}

static void check_pools(struct check *ck, struct edge_config *cfg, struct raw_config *r)
{
	char where[64], why[512];

	for (uint32_t i = 0; i < r->pools_count; i++) {
		struct raw_pool *raw = &r->pools[i];
		struct edge_pool_config *p = &cfg->pools[i];

		text_default(ck, &raw->tenant, "default");
		if (ck->ret < 0)
			return;
		p->tenant = raw->tenant;
		p->path = raw->path;
		snprintf(where, sizeof(where), "pools[%u].path", i);
		if (raw->path[0] != '/')
			fail(ck, where,
				"path: \"%s\" must begin with /, or other processes of the site "
				"look for it elsewhere",
				raw->path);
		p->create = raw->create;
		check_gateway(ck, p, raw, i);
		if (strlen(raw->tenant) > STRAIT_TENANT_BYTES_MAX) {
			snprintf(where, sizeof(where), "pools[%u].tenant", i);
			fail(ck, where, "tenant: at most %d bytes", STRAIT_TENANT_BYTES_MAX);
		}
		check_pool_site(ck, cfg, raw, i);
		check_pool_alone(ck, cfg, i);
		snprintf(where, sizeof(where), "pools[%u].size", i);
		if (raw->create && !is_given(raw->size))
			fail(ck, where, "size: needed with create: true, e.g. size: 1G");
		p->size_bytes = parse_bytes(ck, where, raw->size);
		if (raw->create && p->size_bytes < (1 << 20))
			fail(ck, where, "size: at least 1M");
		if (ck->ret == 0 && edge_config_pool_fits(p, why, sizeof(why)) < 0)
			fail(ck, where, "%s", why);
	}
	cfg->pool_count = r->pools_count;
	for (uint32_t i = 0; i < cfg->pool_count; i++)
		if (cfg->pools[i].site == NULL)
			return;
	fail(ck, "pools", "pools: none is of the edge's own site, %s", cfg->site);
}

uint32_t edge_config_pool_sites(const struct edge_config *cfg, const char **sites)
{
	uint32_t n = 0, k;

	for (uint32_t i = 0; i < cfg->pool_count; i++) {
		if (cfg->pools[i].site == NULL)
			continue;
		for (k = 0; k < n && strcmp(sites[k], cfg->pools[i].site) != 0;)
			k++;
		if (k == n)
			sites[n++] = cfg->pools[i].site;
	}
	return n;
}

static void check_port(struct check *ck, struct edge_config *cfg, struct raw_port *r)
{
	struct port_config *p = &cfg->port;
	uint32_t udp_port, mtu;
	char why[256];

	udp_port = count_default(ck, "port.udp_port", &r->udp_port, UDP_PORT_DEFAULT);
	mtu = count_default(ck, "port.mtu", &r->mtu, PORT_MTU_DEFAULT);
	if (udp_port > UINT16_MAX)
		fail(ck, "port.udp_port", "udp_port: at most 65535");
	if (mtu < PORT_MTU_MIN || mtu > PORT_MTU_MAX)
		fail(ck, "port.mtu", "mtu: %d to %d", PORT_MTU_MIN, PORT_MTU_MAX);
	if (r->dscp > 63)
		fail(ck, "port.dscp", "dscp: 0 to 63");
	p->device = r->device;
	p->udp_port = (uint16_t)udp_port;
	p->mtu = (uint16_t)mtu;
	p->dscp = (uint8_t)r->dscp;
	p->buffers = count_default(ck, "port.buffers", &r->buffers, PORT_BUFFERS_DEFAULT);
	if (r->queues != NULL && *r->queues != 1 && *r->queues != p->workers)
		fail(ck, "port.queues",
			"port.queues: 1, or as many as there are workers (worker.count), %u",
			p->workers);
	else if (r->queues != NULL)
		p->queues = (uint16_t)*r->queues;
	parse_mac(ck, "port.mac", r->mac, &p->has_mac, p->mac);
	parse_mac(ck, "port.next_hop_mac", r->next_hop_mac, &p->has_next_hop_mac, p->next_hop_mac);
	parse_address(ck, r->address, p);
	p->gateway = parse_ip(ck, "port.gateway", r->gateway);
	if (ck->ret == 0 && net_ip_is_set(p->gateway) &&
		net_ip_is4(p->gateway) != net_ip_is4(p->ip))
		fail(ck, "port.gateway",
			"port.gateway and port.address must both be IPv4 or both IPv6");
	/* Behind a /32, as clouds hand them out, every gateway is outside; so is fe80::. */
	if (ck->ret == 0 && net_ip_is_set(p->gateway) &&
		p->prefix_len < (net_ip_is4(p->ip) ? 32 : 128) &&
		!net_ip_is_link_local(p->gateway) &&
		!net_ip_same_prefix(p->gateway, p->ip, p->prefix_len))
		fail(ck, "port.gateway", "port.gateway: %s is not on the prefix of port.address %s",
			r->gateway, r->address);
	if (ck->ret == 0 && port_config_check(p, why, sizeof(why)) < 0)
		fail(ck, "port", "port: %s", why);
}

static void check_eal(struct check *ck, struct edge_config *cfg, struct raw_config *r)
{
	uint64_t memory;

	text_default(ck, &r->eal.memory, "256M");
	text_default(ck, &r->eal.log_level, "notice");
	if (ck->ret < 0)
		return;
	memory = parse_bytes(ck, "eal.memory", r->eal.memory) >> 20;
	if (memory < 64 || memory > (1 << 20))
		fail(ck, "eal.memory", "eal.memory: 64M to 1T");
	cfg->devices[0] = cfg->port.device;
	cfg->eal = (struct eal_config){ .program = "strait-edge",
		.hugepages = r->eal.hugepages,
		.memory_mb = (unsigned int)memory,
		.devices = cfg->devices,
		.device_count = cfg->devices[1] != NULL ? 2 : 1,
		.telemetry = r->eal.telemetry,
		.log_level = r->eal.log_level };
	cfg->poll_mode = r->worker.poll_mode;
	cfg->max_sleep_us = r->worker.max_sleep_us != NULL ? *r->worker.max_sleep_us : 0;
	if (r->worker.max_sleep_us != NULL && cfg->max_sleep_us == 0)
		fail(ck, "worker.max_sleep_us",
			"worker.max_sleep_us: 0 makes no sense; poll_mode never sleeps");
	cfg->burst = r->worker.burst != NULL ? *r->worker.burst : 0;
	if (r->worker.burst != NULL && (cfg->burst < 2 || cfg->burst > PACER_BURST_MAX))
		fail(ck, "worker.burst", "worker.burst: 2 to %d packets", PACER_BURST_MAX);
	cfg->realtime = r->worker.realtime;
	if (cfg->realtime > REALTIME_MAX)
		fail(ck, "worker.realtime", "worker.realtime: 1 to %d, a priority of SCHED_RR",
			REALTIME_MAX);
	if (cfg->realtime > 0 && cfg->poll_mode)
		fail(ck, "worker.realtime",
			"worker.realtime: is for workers that sleep; poll_mode would keep the "
			"kernel off the CPU");
}

static void check_cpu(struct check *ck, const char *where, int32_t cpu)
{
	if (cpu < 0 || cpu >= sysconf(_SC_NPROCESSORS_CONF))
		fail(ck, where, "%s: this machine has CPUs 0 to %ld", where,
			sysconf(_SC_NPROCESSORS_CONF) - 1);
}

/* How many workers, and on which CPUs. Before the port, which has queues and buffers for them. */
static void check_workers(struct check *ck, struct edge_config *cfg, struct raw_worker *r)
{
	uint32_t n = count_default(ck, "worker.count", &r->count, 1);

	if (n > PORT_WORKERS_MAX) {
		fail(ck, "worker.count", "worker.count: at most %d", PORT_WORKERS_MAX);
		return;
	}
	cfg->workers = n;
	cfg->pin = r->cpu != NULL || r->cpus_count > 0;
	if (r->cpu != NULL && (n > 1 || r->cpus_count > 0)) {
		fail(ck, "worker.cpu", "worker.cpu: is for one worker; give several worker.cpus");
	} else if (r->cpu != NULL) {
		check_cpu(ck, "worker.cpu", *r->cpu);
		cfg->cpus[0] = (unsigned int)*r->cpu;
	}
	if (r->cpus_count > 0 && r->cpus_count != n)
		fail(ck, "worker.cpus", "worker.cpus: %u of them for %u workers; give each one",
			r->cpus_count, n);
	for (uint32_t i = 0; i < r->cpus_count && ck->ret == 0; i++) {
		check_cpu(ck, "worker.cpus", r->cpus[i]);
		cfg->cpus[i] = (unsigned int)r->cpus[i];
		for (uint32_t j = 0; j < i; j++)
			if (r->cpus[j] == r->cpus[i])
				fail(ck, "worker.cpus", "worker.cpus: CPU %d has two workers",
					r->cpus[i]);
	}
	for (uint32_t i = 0; i < n && cfg->pin && ck->ret == 0; i++)
		cfg->port.numa[i] = (uint8_t)(numa_node_of(cfg->cpus[i]) + 1);
	cfg->port.workers = (uint16_t)n;
}

static void check_control(struct check *ck, struct edge_config *cfg, struct raw_config *r)
{
	const char *listen = r->control.listen;
	char why[256];
	bool any = strncmp(listen, "0.0.0.0:", 8) == 0 || strncmp(listen, "[::]:", 5) == 0 ||
		listen[0] == ':';

	text_default(ck, &r->control.drain_timeout, "10s");
	check_host_port(ck, "control.listen", listen, true);
	if (any && !is_given(r->control.advertise))
		fail(ck, "control.listen",
			"control.listen: %s is every address; add control.advertise: "
			"host:port, where other edges reach this one",
			listen);
	if (is_given(r->control.advertise))
		check_host_port(ck, "control.advertise", r->control.advertise, false);
	check_host_port(ck, "master.address", r->master.address, false);
	cfg->listen = listen;
	cfg->advertise = is_given(r->control.advertise) ? r->control.advertise : NULL;
	cfg->master = r->master.address;
	if (ck->ret == 0 &&
		units_parse_duration(r->control.drain_timeout, &cfg->drain_timeout_ns, why,
			sizeof(why)) < 0)
		fail(ck, "control.drain_timeout", "drain_timeout: %s", why);
}

static void check_tls(struct check *ck, struct edge_config *cfg, struct raw_config *raw)
{
	const struct raw_tls *r = &raw->tls;

	cfg->tls = (struct rpc_tls_config){ .ca = r->ca,
		.cert = r->cert,
		.key = r->key,
		.insecure_loopback = raw->insecure_loopback };
	snprintf(cfg->tls.self.site, sizeof(cfg->tls.self.site), "%s", cfg->site);
	snprintf(cfg->tls.self.role, sizeof(cfg->tls.self.role), "edge");
	snprintf(cfg->tls.self.name, sizeof(cfg->tls.self.name), "%s", cfg->edge);
	if (raw->insecure_loopback) {
		if (is_given(r->ca) || is_given(r->cert) || is_given(r->key))
			fail(ck, "insecure_loopback",
				"either tls with certificates or insecure_loopback, not both");
	} else if (!is_given(r->ca) || !is_given(r->cert) || !is_given(r->key)) {
		fail(ck, "tls",
			"tls: ca, cert and key are needed (straitctl pki init makes a "
			"development set); insecure_loopback: true is for 127.0.0.0/8 only");
	}
}

static void check_caps(struct check *ck, struct edge_config *cfg, struct raw_config *r)
{
	char where[64];

	cfg->cap_bps = parse_rate(ck, "cap", is_given(r->cap) ? r->cap : NULL);
	cfg->total_cap_bps =
		parse_rate(ck, "total_cap", is_given(r->total_cap) ? r->total_cap : NULL);
	cfg->lan_cap_bps = parse_rate(ck, "lan_cap", is_given(r->lan_cap) ? r->lan_cap : NULL);
	for (uint32_t i = 0; i < r->peers_count; i++) {
		snprintf(where, sizeof(where), "peers[%u].cap", i);
		cfg->caps[i].site = r->peers[i].site;
		cfg->caps[i].bps = parse_rate(ck, where, r->peers[i].cap);
		snprintf(where, sizeof(where), "peers[%u].site", i);
		if (!name_is_valid(r->peers[i].site))
			fail(ck, where, "\"%s\" is not a site's name", r->peers[i].site);
		if (strcmp(r->peers[i].site, r->site) == 0)
			fail(ck, where, "peers: %s is this edge's own site", r->site);
		for (uint32_t j = 0; j < i; j++) {
			if (strcmp(r->peers[i].site, r->peers[j].site) == 0)
				fail(ck, where, "peers: site %s is listed twice", r->peers[i].site);
		}
	}
	cfg->cap_count = r->peers_count;
}

static void check_packets(struct check *ck, const char *where, uint32_t n)
{
	if (n < PACKETS_MIN || n > PACKETS_MAX)
		fail(ck, where, "%s: %d to %d", where, PACKETS_MIN, PACKETS_MAX);
}

static void check_sizes(struct check *ck, struct edge_config *cfg, struct raw_config *r)
{
	struct raw_window *windows[STRAIT_CLASS_COUNT] = { &r->credit.urgent, &r->credit.normal,
		&r->credit.bulk };
	static const char *const where[STRAIT_CLASS_COUNT] = { "credit.urgent.bytes",
		"credit.normal.bytes", "credit.bulk.bytes" };
	static const char *const objects[STRAIT_CLASS_COUNT] = { "credit.urgent.objects",
		"credit.normal.objects", "credit.bulk.objects" };
	struct raw_session *s = &r->session;

	for (int i = 0; i < STRAIT_CLASS_COUNT; i++) {
		cfg->credit[i].bytes = parse_bytes(ck, where[i],
			is_given(windows[i]->bytes) ? windows[i]->bytes : NULL);
		if (is_given(windows[i]->bytes) && cfg->credit[i].bytes < CREDIT_MIN_BYTES)
			fail(ck, where[i], "%s: at least 1M", where[i]);
		cfg->credit[i].objects =
			count_default(ck, objects[i], &windows[i]->objects, OBJECTS_DEFAULT);
	}
	/* The defaults of session.h, spelled out for --print-effective-config. */
	cfg->scratch_slots =
		count_default(ck, "session.scratch_slots", &s->scratch_slots, SLOTS_DEFAULT);
	cfg->row_slots = count_default(ck, "session.row_slots", &s->row_slots, SLOTS_DEFAULT);
	cfg->log_packets =
		count_default(ck, "session.log_packets", &s->log_packets, PACKETS_DEFAULT);
	cfg->window_packets =
		count_default(ck, "session.window_packets", &s->window_packets, PACKETS_DEFAULT);
	if (cfg->scratch_slots > SLOTS_MAX || cfg->row_slots > SLOTS_MAX)
		fail(ck, "session", "session: scratch_slots and row_slots are at most %d",
			SLOTS_MAX);
	check_packets(ck, "session.log_packets", cfg->log_packets);
	check_packets(ck, "session.window_packets", cfg->window_packets);
}

/* Paths that must not depend on where the edge was started. NULL: not given. */
static const char *check_path(struct check *ck, const char *where, const char *s)
{
	if (!is_given(s))
		return NULL;
	if (s[0] != '/')
		fail(ck, where, "%s: \"%s\" must begin with /", where, s);
	return s;
}

static void check_debug(struct check *ck, struct edge_config *cfg, struct raw_debug *r)
{
	struct stat st;

	cfg->socket = check_path(ck, "debug.socket", r->socket);
	cfg->capture_dir = check_path(ck, "debug.capture_dir", r->capture_dir);
	cfg->key_log = check_path(ck, "debug.key_log", r->key_log);
	if (cfg->socket != NULL &&
		strlen(cfg->socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		fail(ck, "debug.socket", "debug.socket: at most %zu bytes",
			sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	if (cfg->capture_dir == NULL)
		return;
	if (stat(cfg->capture_dir, &st) < 0)
		fail(ck, "debug.capture_dir", "debug.capture_dir: %s: %s", cfg->capture_dir,
			strerror(errno));
	else if (!S_ISDIR(st.st_mode) || access(cfg->capture_dir, W_OK | X_OK) < 0)
		fail(ck, "debug.capture_dir",
			"debug.capture_dir: %s is not a directory this user can write",
			cfg->capture_dir);
	else if (cfg->socket == NULL)
		fail(ck, "debug.capture_dir",
			"debug.capture_dir: captures are started through debug.socket; add it");
}

static void check_crypto(struct check *ck, struct edge_config *cfg, const char *name)
{
	const size_t prefix = strlen(EDGE_CRYPTODEV_PREFIX);

	cfg->crypto = name;
	if (ck->ret < 0 || name == NULL || aead_by_name(name) != NULL)
		return;
	if (strncmp(name, EDGE_CRYPTODEV_PREFIX, prefix) != 0 || name[prefix] == '\0')
		fail(ck, "crypto", "crypto: \"%s\" is not ipsec-mb, openssl or cryptodev:DEVICE",
			name);
	else
		cfg->devices[1] = name + prefix; /* the EAL looks for its address, if it is one */
}

int edge_config_load(struct edge_config *cfg, const char *path, char *err, size_t err_len)
{
	struct check ck = { .path = path, .err = err, .err_len = err_len };
	enum log_level level;
	struct raw_config *r;
	int ret;

	memset(cfg, 0, sizeof(*cfg));
	cfg->path = path;
	ret = config_load(path, &config_schema, &cfg->raw, err, err_len);
	if (ret < 0)
		return ret;
	r = cfg->raw;
	text_default(&ck, &r->log_level, "info");
	if (ck.ret == 0 && log_level_parse(r->log_level, &level) < 0)
		fail(&ck, "log_level", "log_level: \"%s\" is not error, warn, info or debug",
			r->log_level);
	if (ck.ret == 0)
		log_set_level(level);
	check_names(&ck, cfg, r);
	check_crypto(&ck, cfg, r->crypto);
	check_workers(&ck, cfg, &r->worker);
	check_port(&ck, cfg, &r->port);
	check_eal(&ck, cfg, r);
	check_control(&ck, cfg, r);
	check_tls(&ck, cfg, r);
	check_caps(&ck, cfg, r);
	check_sizes(&ck, cfg, r);
	check_debug(&ck, cfg, &r->debug);
	check_pools(&ck, cfg, r);
	return ck.ret;
}

void edge_config_fini(struct edge_config *cfg)
{
	config_free(&config_schema, cfg->raw);
	cfg->raw = NULL;
}

void edge_config_credit(struct edge_config *cfg, uint64_t pool_bytes)
{
	for (int i = 0; i < STRAIT_CLASS_COUNT; i++) {
		uint64_t bytes = pool_bytes / CREDIT_POOL_SHARE;

		if (cfg->credit[i].bytes != 0)
			continue;
		if (bytes > CREDIT_MAX_BYTES)
			bytes = CREDIT_MAX_BYTES;
		cfg->credit[i].bytes = bytes < CREDIT_MIN_BYTES ? CREDIT_MIN_BYTES : bytes;
	}
}

/* Room in the smallest pool. False: one of them does not exist yet. */
static bool pools_room(const struct edge_config *cfg, uint64_t *room)
{
	struct stat st;

	*room = UINT64_MAX;
	for (uint32_t i = 0; i < cfg->pool_count; i++) {
		uint64_t arena = 0;

		if (cfg->pools[i].site != NULL)
			continue;
		if (stat(cfg->pools[i].path, &st) == 0)
			arena = shm_pool_arena_bytes((uint64_t)st.st_size);
		if (arena == 0)
			return false;
		if (arena < *room)
			*room = arena;
	}
	return true;
}

/* Windows that follow from the pools; where that cannot be said yet, a comment says how. */
static const char *print_credit(const struct edge_config *cfg)
{
	struct raw_config *r = cfg->raw;
	struct raw_window *windows[STRAIT_CLASS_COUNT] = { &r->credit.urgent, &r->credit.normal,
		&r->credit.bulk };
	struct edge_config full = *cfg;
	const char *comment = "";
	uint64_t room;
	bool known = pools_room(cfg, &room);

	if (known)
		edge_config_credit(&full, room);
	for (int i = 0; i < STRAIT_CLASS_COUNT; i++) {
		char *text;

		if (is_given(windows[i]->bytes))
			continue;
		if (!known) {
			comment = "# credit.*.bytes where not given: a quarter of the pool, 1M to "
				  "1G\n";
			continue;
		}
		if (asprintf(&text, "%llu", (unsigned long long)full.credit[i].bytes) < 0)
			return NULL;
		free(windows[i]->bytes);
		windows[i]->bytes = text;
	}
	return comment;
}

char *edge_config_print(const struct edge_config *cfg)
{
	const char *comment = print_credit(cfg);
	char *yaml, *all;

	if (comment == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	yaml = config_print(&config_schema, cfg->raw);
	if (yaml == NULL)
		return NULL;
	if (asprintf(&all, "%s%s", comment, yaml) < 0) {
		all = NULL;
		errno = ENOMEM;
	}
	free(yaml);
	return all;
}
