/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/port.h"

/*
 * Device strings: what a port is made of, and the arguments the MTU asks for. No device is touched;
 * of an interface that exists the MTU is read.
 *
 * memif        one buffer holds a whole frame: a frame over two buffers is corrupted when the
 * ring is nearly
 *              full. zero-copy is refused: it maps one region only and cannot carry our buffers.
 * af_packet    a frame longer than framesz is cut on receive without an error, and freed on
 * transmit.
 *              qdisc_bypass=1 unless given: without it a shaper behind the ring makes tx_burst
 *              block in poll(). Several queues are a fanout group: the kernel spreads by flow.
 * tap          an interface of the kernel that comes and goes with the port; its MTU is the port's.
 * af_xdp       a frame and its headroom have to fit a page of the umem, so jumbo ones do not. Each
 *              worker needs a queue.
 */

enum port_kind {
	PORT_KIND_PCI,
	PORT_KIND_MEMIF,
	PORT_KIND_AF_PACKET,
	PORT_KIND_AF_XDP,
	PORT_KIND_TAP,
	PORT_KIND_OTHER_VDEV,
};

enum { PORT_SOCKET_MAX = 108 }; /* as sun_path of unix(7) */

struct port_device {
	enum port_kind kind;
	char name[PORT_NAME_MAX];      /* as ethdev knows it: "net_memif0", "0000:3b:00.0" */
	char devargs[PORT_DEVICE_MAX]; /* with what was added */
	bool memif_client;
	char memif_socket[PORT_SOCKET_MAX]; /* of a server, if it is a file; else empty */
	uint16_t queues;                    /* pairs to ask the device for */
	uint16_t buffer_bytes; /* a packet buffer must hold this much behind its headroom */
};

/** 0, -EINVAL with one sentence in err. */
int port_device_parse(const struct port_config *cfg, struct port_device *out, char *err,
	size_t err_len);
