/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/port_fanout.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void defragmentation_is_not_asked_for(void **state)
{
	const uint32_t ids[] = { 0, 1, 0x8000, 0xffff };

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		uint32_t plain = ids[i] | PACKET_FANOUT_HASH << 16;
		uint32_t defrag = plain | (uint32_t)PACKET_FANOUT_FLAG_DEFRAG << 16;

		assert_int_equal((uint32_t)port_fanout_without_defrag((int)defrag), plain);
	}
}

static void everything_else_stays(void **state)
{
	const uint32_t all = ~((uint32_t)PACKET_FANOUT_FLAG_DEFRAG << 16);

	(void)state;
	assert_int_equal((uint32_t)port_fanout_without_defrag((int)all), all);
	assert_int_equal(port_fanout_without_defrag(0), 0);
}

/* Two sockets: one that a single queue has, one of several. */
static void a_single_queue_joins_no_group(void **state)
{
	const int wanted = 77 | PACKET_FANOUT_HASH << 16;

	(void)state;
	for (int alone = 0; alone < 2; alone++) {
		struct sockaddr_ll lo = { .sll_family = AF_PACKET,
			.sll_protocol = htons(ETH_P_ALL),
			.sll_ifindex = (int)if_nametoindex("lo") };
		int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), got = 0;
		socklen_t len = sizeof(got);

		if (fd < 0)
			skip(); /* needs CAP_NET_RAW */
		assert_int_equal(bind(fd, (struct sockaddr *)&lo, sizeof(lo)), 0);
		port_fanout_alone(alone);
		assert_int_equal(setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &wanted, sizeof(wanted)),
			0);
		assert_int_equal(getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &got, &len), 0);
		assert_int_equal(got, alone ? 0 : wanted);
		close(fd);
	}
	port_fanout_alone(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defragmentation_is_not_asked_for),
		cmocka_unit_test(everything_else_stays),
		cmocka_unit_test(a_single_queue_joins_no_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
