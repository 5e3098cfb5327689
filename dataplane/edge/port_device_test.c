/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_device.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char err[256];

static int parse(const char *device, uint16_t mtu, struct port_device *d)
{
	const struct port_config cfg = { .device = device, .mtu = mtu };

	err[0] = '\0';
	return port_device_parse(&cfg, d, err, sizeof(err));
}

static int parse_team(const char *device, uint16_t workers, uint16_t queues, struct port_device *d)
{
	const struct port_config cfg = { .device = device,
		.mtu = 1500,
		.workers = workers,
		.queues = queues };

	err[0] = '\0';
	return port_device_parse(&cfg, d, err, sizeof(err));
}

static void several_workers_get_queues_where_that_takes_nobody_else(void **state)
{
	struct port_device d;

	(void)state;
	assert_int_equal(parse_team("3b:00.0", 4, 0, &d), 0);
	assert_int_equal(d.queues, 4);
	assert_int_equal(parse_team("net_af_packet0,iface=nosuch0", 2, 0, &d), 0);
	assert_int_equal(d.queues, 2);
	assert_non_null(strstr(d.devargs, ",qpairs=2"));
	assert_int_equal(parse_team("net_af_packet0,iface=nosuch0", 2, 1, &d), 0);
	assert_null(strstr(d.devargs, "qpairs"));
	assert_true(parse_team("net_af_packet0,iface=nosuch0,qpairs=4", 2, 0, &d) < 0);
	assert_non_null(strstr(err, "qpairs must be 2"));
	assert_int_equal(parse_team("net_tap0", 3, 0, &d), 0);
	assert_int_equal(d.kind, PORT_KIND_TAP);
	assert_int_equal(d.queues, 3);
	/* The other side of a memif has to have as many. */
	assert_int_equal(parse_team("net_memif0", 2, 0, &d), 0);
	assert_int_equal(d.queues, 1);
	assert_int_equal(parse_team("net_memif0", 2, 2, &d), 0);
	assert_int_equal(d.queues, 2);
}

static void af_xdp_needs_an_interface_and_frames_that_fit_a_page(void **state)
{
	struct port_device d;

	(void)state;
	assert_int_equal(parse("net_af_xdp0,iface=nosuch0", 1500, &d), 0);
	assert_int_equal(d.kind, PORT_KIND_AF_XDP);
	assert_true(parse("net_af_xdp0", 1500, &d) < 0);
	assert_non_null(strstr(err, "iface="));
	assert_true(parse("net_af_xdp0,iface=nosuch0", 9000, &d) < 0);
	assert_non_null(strstr(err, "at most"));
	assert_true(parse_team("net_af_xdp0,iface=nosuch0", 2, 1, &d) < 0);
	assert_non_null(strstr(err, "a queue for each"));
	assert_int_equal(parse_team("net_af_xdp0,iface=nosuch0", 2, 0, &d), 0);
	assert_non_null(strstr(d.devargs, ",queue_count=2"));
}

static void pci_addresses_are_recognized_in_both_forms(void **state)
{
	struct port_device d;

	(void)state;
	assert_int_equal(parse("0000:3b:00.1", 1500, &d), 0);
	assert_int_equal(d.kind, PORT_KIND_PCI);
	assert_string_equal(d.name, "0000:3b:00.1");
	assert_int_equal(parse("3b:00.0", 1500, &d), 0);
	assert_string_equal(d.name, "0000:3b:00.0");
	assert_true(port_device_is_pci("0000:3b:00.0"));
	assert_false(port_device_is_pci("net_memif0"));
	assert_false(port_device_is_pci("0000:3b:00.0x"));
	assert_false(port_device_is_pci("3b:20.0"));
	assert_false(port_device_is_pci("3b:00.8"));
	assert_false(port_device_is_pci(""));
}

static void memif_buffers_hold_a_whole_frame(void **state)
{
	struct port_device d;

	(void)state;
	assert_int_equal(parse("net_memif0,role=client", 1500, &d), 0);
	assert_string_equal(d.devargs, "net_memif0,role=client,bsize=1600,rsize=11");
	assert_int_equal(d.buffer_bytes, 2048);
	assert_true(d.memif_client);
	assert_int_equal(parse("net_memif1,role=server,rsize=10", 9000, &d), 0);
	assert_string_equal(d.devargs, "net_memif1,role=server,rsize=10,bsize=9024");
	assert_int_equal(d.buffer_bytes, 9024);
	assert_false(d.memif_client);
	/* 24 lines would do. */
	assert_int_equal(parse("net_memif0", 580, &d), 0);
	assert_string_equal(d.devargs, "net_memif0,bsize=1600,rsize=11");
	assert_int_equal(parse("net_memif0,bsize=4096", 1500, &d), 0);
	assert_int_equal(d.buffer_bytes, 4096);
	assert_true(d.memif_client);
}

static void the_socket_file_of_a_memif_server_is_known(void **state)
{
	struct port_device d;
	char longer[200];

	(void)state;
	assert_int_equal(parse("net_memif0,role=server,socket=/a/b,socket-abstract=no", 1500, &d),
		0);
	assert_string_equal(d.memif_socket, "/a/b");
	assert_int_equal(parse("net_memif0,role=server,socket-abstract=no", 1500, &d), 0);
	assert_string_equal(d.memif_socket, "/run/memif.sock");
	assert_int_equal(parse("net_memif0,role=server,socket=/a/b", 1500, &d), 0);
	assert_string_equal(d.memif_socket, "");
	assert_int_equal(parse("net_memif0,role=client,socket=/a/b,socket-abstract=no", 1500, &d),
		0);
	assert_string_equal(d.memif_socket, "");
	snprintf(longer, sizeof(longer), "net_memif0,role=server,socket-abstract=no,socket=/%0120d",
		0);
	assert_int_equal(parse(longer, 1500, &d), -EINVAL);
	assert_non_null(strstr(err, "socket"));
}

static void memif_that_would_corrupt_is_refused(void **state)
{
	struct port_device d;

	(void)state;
	assert_int_equal(parse("net_memif0,bsize=1514", 1500, &d), -EINVAL);
	assert_non_null(strstr(err, "bsize"));
	assert_int_equal(parse("net_memif0,zero-copy=yes", 1500, &d), -EINVAL);
	assert_int_equal(parse("net_memif0,rsize=15", 1500, &d), -EINVAL);
	assert_int_equal(parse("net_memif0,rsize=x", 1500, &d), -EINVAL);
	assert_int_equal(parse("net_memif0,bsize=", 1500, &d), -EINVAL);
}

static void memif_gets_the_configured_mac(void **state)
{
	const struct port_config cfg = { .device = "net_memif0",
		.mtu = 1500,
		.has_mac = true,
		.mac = { 2, 0, 0, 1, 2, 0xab } };
	struct port_device d;

	(void)state;
	assert_int_equal(port_device_parse(&cfg, &d, err, sizeof(err)), 0);
	assert_non_null(strstr(d.devargs, ",mac=02:00:00:01:02:ab"));
}

static void af_packet_frames_hold_the_mtu(void **state)
{
	struct port_device d;

	(void)state;
	assert_int_equal(parse("net_af_packet0,iface=none0", 1500, &d), 0);
	assert_string_equal(d.devargs,
		"net_af_packet0,iface=none0,framesz=2048,blocksz=8192,"
		"qdisc_bypass=1,framecnt=2048");
	assert_int_equal(parse("net_af_packet0,iface=none0", 9000, &d), 0);
	assert_non_null(strstr(d.devargs, "framesz=9216,blocksz=36864"));
	assert_int_equal(d.buffer_bytes, 9216);
	assert_int_equal(parse("net_af_packet0,iface=none0,qdisc_bypass=0", 1500, &d), 0);
	assert_null(strstr(d.devargs, "qdisc_bypass=1"));
}

static void af_packet_that_would_cut_frames_is_refused(void **state)
{
	struct port_device d;

	(void)state;
	assert_int_equal(parse("net_af_packet0", 1500, &d), -EINVAL);
	assert_non_null(strstr(err, "iface"));
	assert_int_equal(parse("net_af_packet0,iface=e,framesz=1536", 1500, &d), -EINVAL);
	assert_int_equal(parse("net_af_packet0,iface=e,framesz=2048,blocksz=3000", 1500, &d),
		-EINVAL);
	assert_int_equal(parse("net_af_packet0,iface=e,framecnt=1", 1500, &d), -EINVAL);
}

static void nonsense_is_refused(void **state)
{
	struct port_device d;
	char longer[PORT_DEVICE_MAX + 10];

	(void)state;
	assert_int_equal(parse(NULL, 1500, &d), -EINVAL);
	assert_int_equal(parse("", 1500, &d), -EINVAL);
	assert_int_equal(parse("eth0", 1500, &d), -EINVAL);
	assert_int_equal(parse("net_memif0 role=client", 1500, &d), -EINVAL);
	memset(longer, 'a', sizeof(longer));
	memcpy(longer, "net_memif0,", 11);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(parse(longer, 1500, &d), -EINVAL);
	/* Fits, but has no room for what must be added. */
	longer[PORT_DEVICE_MAX - 3] = '\0';
	assert_int_equal(parse(longer, 1500, &d), -EINVAL);
}

static void configuration_mistakes_are_found_early(void **state)
{
	const struct port_config good = { .device = "net_memif0",
		.ip = net_ip4(0x0a000001),
		.prefix_len = 24,
		.udp_port = 4700 };
	struct port_config c;

	(void)state;
	assert_int_equal(port_config_check(&good, err, sizeof(err)), 0);
#define ASSERT_BAD(change)                                                                         \
	do {                                                                                       \
		c = good;                                                                          \
		change;                                                                            \
		assert_int_equal(port_config_check(&c, err, sizeof(err)), -EINVAL);                \
	} while (0)
	ASSERT_BAD(c.ip = net_ip4(0));
	ASSERT_BAD(c.ip = net_ip4(0x7f000001));
	ASSERT_BAD(c.ip = net_ip4(0x0a000000));
	ASSERT_BAD(c.ip = net_ip4(0x0a0000ff));
	ASSERT_BAD(c.prefix_len = 33);
	ASSERT_BAD(c.gateway = good.ip);
	ASSERT_BAD(c.udp_port = 0);
	ASSERT_BAD(c.mtu = 100);
	ASSERT_BAD(c.mtu = 9001);
	ASSERT_BAD(c.dscp = 64);
	ASSERT_BAD(c.buffers = 10);
	ASSERT_BAD(c.has_mac = true);
	ASSERT_BAD(c.has_next_hop_mac = true; c.next_hop_mac[0] = 1);
#undef ASSERT_BAD
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pci_addresses_are_recognized_in_both_forms),
		cmocka_unit_test(several_workers_get_queues_where_that_takes_nobody_else),
		cmocka_unit_test(af_xdp_needs_an_interface_and_frames_that_fit_a_page),
		cmocka_unit_test(memif_buffers_hold_a_whole_frame),
		cmocka_unit_test(the_socket_file_of_a_memif_server_is_known),
		cmocka_unit_test(memif_that_would_corrupt_is_refused),
		cmocka_unit_test(memif_gets_the_configured_mac),
		cmocka_unit_test(af_packet_frames_hold_the_mtu),
		cmocka_unit_test(af_packet_that_would_cut_frames_is_refused),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(configuration_mistakes_are_found_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
