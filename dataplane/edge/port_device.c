/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_device.h"

#include "dataplane/edge/net.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	BUFFER_BYTES_MIN = 2048,
	BUFFER_BYTES_MAX = 16384,
	FCS_VLAN_BYTES = 8,
	LINE_BYTES = 64,
	AF_PACKET_HEADER_BYTES = 96, /* tpacket2_hdr, sockaddr_ll and alignment are below */
	AF_PACKET_FRAME_STEP = 1024, /* four of them are a page */
	AF_PACKET_FRAMES = 2048,
	AF_XDP_MTU_MAX = 3290, /* a page less the buffer's and the kernel's headroom */
	MEMIF_RING_LOG2 =
		11, /* 2048 frames: 25 ms at 1 Gbit/s while the other side is not scheduled */
};

#define MEMIF_SOCKET_DEFAULT "/run/memif.sock"

static uint32_t round_up(uint32_t v, uint32_t step)
{
	return (v + step - 1) / step * step;
}

/* Four hexadecimal fields: [dddd:]bb:dd.f; short forms get domain 0000. */
static bool pci_normalize(const char *device, char *out, size_t len)
{
	unsigned int domain = 0, bus, dev, fn;
	int end = -1;

	if (sscanf(device, "%4x:%2x:%2x.%1x%n", &domain, &bus, &dev, &fn, &end) != 4 ||
		device[end] != '\0') {
		domain = 0;
		end = -1;
		if (sscanf(device, "%2x:%2x.%1x%n", &bus, &dev, &fn, &end) != 3 ||
			device[end] != '\0')
			return false;
	}
	if (!isxdigit((unsigned char)device[0]) || dev > 31 || fn > 7)
		return false;
	snprintf(out, len, "%04x:%02x:%02x.%1x", domain, bus, dev, fn);
	return true;
}

bool port_device_is_pci(const char *device)
{
	char name[PORT_NAME_MAX];

	return pci_normalize(device, name, sizeof(name));
}

/* Value of a devarg, or NULL. *len: its length. */
static const char *arg_find(const char *devargs, const char *key, size_t *len)
{
	size_t key_len = strlen(key);

	for (const char *p = strchr(devargs, ','); p != NULL; p = strchr(p, ',')) {
		p++;
		if (strncmp(p, key, key_len) == 0 && p[key_len] == '=') {
			p += key_len + 1;
			*len = strcspn(p, ",");
			return p;
		}
	}
	return NULL;
}

static bool arg_is(const char *devargs, const char *key, const char *value)
{
	size_t len;
	const char *v = arg_find(devargs, key, &len);

	return v != NULL && len == strlen(value) && strncmp(v, value, len) == 0;
}

/*
 * The number given for key; add it as fallback when it is not there. -EINVAL: no number, or no
 * room.
 */
static long arg_number(struct port_device *d, const char *key, long fallback)
{
	size_t len, used = strlen(d->devargs);
	const char *v = arg_find(d->devargs, key, &len);
	char *end;
	long n;

	if (v == NULL) {
		n = snprintf(d->devargs + used, sizeof(d->devargs) - used, ",%s=%ld", key,
			fallback);
		return n < (long)(sizeof(d->devargs) - used) ? fallback : -EINVAL;
	}
	n = strtol(v, &end, 10);
	return end == v + len && n >= 0 ? n : -EINVAL;
}

/* Where a server listens. The driver listens in the abstract namespace unless told otherwise. */
static int memif_socket(struct port_device *d, char *err, size_t err_len)
{
	size_t len = strlen(MEMIF_SOCKET_DEFAULT);
	const char *path = arg_find(d->devargs, "socket", &len);

	if (!arg_is(d->devargs, "socket-abstract", "no"))
		return 0;
	if (path == NULL)
		path = MEMIF_SOCKET_DEFAULT;
	if (len >= sizeof(d->memif_socket)) {
		snprintf(err, err_len, "device %s: the socket's path is over %zu bytes", d->name,
			sizeof(d->memif_socket) - 1);
		return -EINVAL;
	}
	memcpy(d->memif_socket, path, len);
	return 0;
}

/*
 * An odd number of lines: buffers of 2048 bytes begin in the same few sets of a cache, and a ring
 * of them takes a third more of it. Room for an Ethernet's usual frame in any case.
 */
static long memif_buffer_bytes(uint32_t need)
{
	const uint32_t usual = PORT_MTU_DEFAULT + NET_ETH_BYTES + FCS_VLAN_BYTES;
	uint32_t lines = round_up(need > usual ? need : usual, LINE_BYTES) / LINE_BYTES;

	return (long)(lines | 1) * LINE_BYTES;
}

static int parse_memif(const struct port_config *cfg, struct port_device *d, char *err,
	size_t err_len)
{
	uint32_t need = cfg->mtu + NET_ETH_BYTES + FCS_VLAN_BYTES;
	long bsize, rsize;
	size_t len, used;

	if (arg_is(d->devargs, "zero-copy", "yes")) {
		snprintf(err, err_len, "device %s: zero-copy is not supported", d->name);
		return -EINVAL;
	}
	bsize = arg_number(d, "bsize", memif_buffer_bytes(need));
	if (bsize < (long)need || bsize > BUFFER_BYTES_MAX) {
		snprintf(err, err_len, "device %s: bsize must hold a whole frame: %u to %d bytes",
			d->name, need, BUFFER_BYTES_MAX);
		return -EINVAL;
	}
	rsize = arg_number(d, "rsize", MEMIF_RING_LOG2);
	if (rsize < 1 || rsize > 14) {
		snprintf(err, err_len, "device %s: rsize must be 1 to 14", d->name);
		return -EINVAL;
	}
	if (cfg->has_mac && arg_find(d->devargs, "mac", &len) == NULL) {
		/* The driver cannot change it later. */
		used = strlen(d->devargs);
		len = (size_t)snprintf(d->devargs + used, sizeof(d->devargs) - used,
			",mac=%02x:%02x:%02x:%02x:%02x:%02x", cfg->mac[0], cfg->mac[1], cfg->mac[2],
			cfg->mac[3], cfg->mac[4], cfg->mac[5]);
		if (len >= sizeof(d->devargs) - used) {
			snprintf(err, err_len, "device %s: arguments too long", d->name);
			return -EINVAL;
		}
	}
	if (bsize > d->buffer_bytes)
		d->buffer_bytes = (uint16_t)bsize;
	d->memif_client =
		!arg_is(d->devargs, "role", "server") && !arg_is(d->devargs, "role", "master");
	return d->memif_client ? 0 : memif_socket(d, err, err_len);
}

/*
 * The kernel drops what is longer than the interface's MTU and says so to nobody. An interface that
 * is not there yet is the driver's matter.
 */
static int check_interface_mtu(const struct port_config *cfg, const struct port_device *d,
	const char *iface, size_t len, char *err, size_t err_len)
{
	char path[128];
	unsigned int mtu;
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "/sys/class/net/%.*s/mtu", (int)len, iface);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	n = fscanf(f, "%u", &mtu);
	fclose(f);
	if (n != 1 || mtu >= cfg->mtu)
		return 0;
	snprintf(err, err_len,
		"device %s: mtu %u, but interface %.*s has %u: raise it (ip link set %.*s mtu %u) "
		"or lower mtu",
		d->name, cfg->mtu, (int)len, iface, mtu, (int)len, iface, cfg->mtu);
	return -EINVAL;
}

static int parse_af_packet(const struct port_config *cfg, struct port_device *d, char *err,
	size_t err_len)
{
	uint32_t need = cfg->mtu + NET_ETH_BYTES + FCS_VLAN_BYTES + AF_PACKET_HEADER_BYTES;
	long framesz, blocksz, bypass;
	const char *iface;
	size_t len;

	iface = arg_find(d->devargs, "iface", &len);
	if (iface == NULL || len == 0) {
		snprintf(err, err_len, "device %s: iface= is missing", d->name);
		return -EINVAL;
	}
	if (check_interface_mtu(cfg, d, iface, len, err, err_len) < 0)
		return -EINVAL;
	framesz = round_up(need, AF_PACKET_FRAME_STEP);
	if (framesz < BUFFER_BYTES_MIN)
		framesz = BUFFER_BYTES_MIN;
	framesz = arg_number(d, "framesz", framesz);
	if (framesz < (long)need || framesz > BUFFER_BYTES_MAX) {
		snprintf(err, err_len, "device %s: framesz must be %u to %d: longer frames are cut",
			d->name, need, BUFFER_BYTES_MAX);
		return -EINVAL;
	}
	blocksz = arg_number(d, "blocksz", framesz * 4);
	if (blocksz < framesz || blocksz % framesz != 0) {
		snprintf(err, err_len, "device %s: blocksz must be a multiple of framesz", d->name);
		return -EINVAL;
	}
	if (d->queues > 1 && arg_number(d, "qpairs", d->queues) != d->queues) {
		snprintf(err, err_len, "device %s: qpairs must be %u, one a worker", d->name,
			d->queues);
		return -EINVAL;
	}
	bypass = arg_number(d, "qdisc_bypass", 1);
	if (arg_number(d, "framecnt", AF_PACKET_FRAMES) < blocksz / framesz || bypass < 0) {
		snprintf(err, err_len, "device %s: bad number, or arguments too long", d->name);
		return -EINVAL;
	}
	if (framesz > d->buffer_bytes)
		d->buffer_bytes = (uint16_t)framesz;
	return 0;
}

static int parse_af_xdp(const struct port_config *cfg, struct port_device *d, char *err,
	size_t err_len)
{
	const char *iface;
	size_t len;

	iface = arg_find(d->devargs, "iface", &len);
	if (iface == NULL || len == 0) {
		snprintf(err, err_len, "device %s: iface= is missing", d->name);
		return -EINVAL;
	}
	if (cfg->mtu > AF_XDP_MTU_MAX) {
		snprintf(err, err_len, "device %s: mtu %u: a frame must fit a page, so at most %d",
			d->name, cfg->mtu, AF_XDP_MTU_MAX);
		return -EINVAL;
	}
	if (check_interface_mtu(cfg, d, iface, len, err, err_len) < 0)
		return -EINVAL;
	/* Frames that workers hand each other stall this driver after some MB (22.11). */
	if (cfg->workers > 1 && d->queues != cfg->workers) {
		snprintf(err, err_len, "device %s: needs a queue for each of the %u workers",
			d->name, cfg->workers);
		return -EINVAL;
	}
	if (d->queues > 1 && arg_number(d, "queue_count", d->queues) != d->queues) {
		snprintf(err, err_len, "device %s: queue_count must be %u, one a worker", d->name,
			d->queues);
		return -EINVAL;
	}
	return 0;
}

/* Where several queues work without the other side's doing they are the default. */
static uint16_t queues_of(const struct port_config *cfg, enum port_kind kind)
{
	bool alone = kind == PORT_KIND_PCI || kind == PORT_KIND_AF_PACKET ||
		kind == PORT_KIND_AF_XDP || kind == PORT_KIND_TAP;

	if (cfg->queues != 0)
		return cfg->queues;
	return alone && cfg->workers > 1 ? cfg->workers : 1;
}

int port_device_parse(const struct port_config *cfg, struct port_device *d, char *err,
	size_t err_len)
{
	size_t name_len;

	memset(d, 0, sizeof(*d));
	d->buffer_bytes = (uint16_t)round_up(cfg->mtu + NET_ETH_BYTES + FCS_VLAN_BYTES, 64);
	if (d->buffer_bytes < BUFFER_BYTES_MIN)
		d->buffer_bytes = BUFFER_BYTES_MIN;

	if (cfg->device == NULL || cfg->device[0] == '\0') {
		snprintf(err, err_len, "device is missing");
		return -EINVAL;
	}
	if (pci_normalize(cfg->device, d->name, sizeof(d->name))) {
		d->kind = PORT_KIND_PCI;
		d->queues = queues_of(cfg, d->kind);
		snprintf(d->devargs, sizeof(d->devargs), "%s", d->name);
		return 0;
	}
	name_len = strcspn(cfg->device, ",");
	if (strncmp(cfg->device, "net_", 4) != 0 || name_len >= sizeof(d->name) ||
		strlen(cfg->device) >= sizeof(d->devargs) ||
		strpbrk(cfg->device, " \t\n") != NULL) {
		snprintf(err, err_len,
			"device \"%.80s\": neither a PCI address nor net_<driver>[,key=value..]",
			cfg->device);
		return -EINVAL;
	}
	memcpy(d->name, cfg->device, name_len);
	snprintf(d->devargs, sizeof(d->devargs), "%s", cfg->device);
	if (strncmp(d->name, "net_memif", strlen("net_memif")) == 0) {
		d->kind = PORT_KIND_MEMIF;
		d->queues = queues_of(cfg, d->kind);
		return parse_memif(cfg, d, err, err_len);
	}
	if (strncmp(d->name, "net_af_packet", strlen("net_af_packet")) == 0) {
		d->kind = PORT_KIND_AF_PACKET;
		d->queues = queues_of(cfg, d->kind);
		return parse_af_packet(cfg, d, err, err_len);
	}
	if (strncmp(d->name, "net_af_xdp", strlen("net_af_xdp")) == 0) {
		d->kind = PORT_KIND_AF_XDP;
		d->queues = queues_of(cfg, d->kind);
		return parse_af_xdp(cfg, d, err, err_len);
	}
	d->kind = strncmp(d->name, "net_tap", strlen("net_tap")) == 0 ? PORT_KIND_TAP
								      : PORT_KIND_OTHER_VDEV;
	d->queues = queues_of(cfg, d->kind);
	return 0;
}
