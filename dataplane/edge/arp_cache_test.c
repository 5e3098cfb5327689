/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/arp_cache.h"

#include "dataplane/edge/net_arp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS  1000000ull
#define SEC 1000000000ull

static const uint8_t mac_a[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 0xa };
static const uint8_t mac_b[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 0xb };
static const struct net_identity me = { .mac = { 2, 0, 0, 0, 0, 1 }, .ip = 0x0a000001 };

enum { HOP = 0x0a0000fe };

static void unknown_hop_is_asked_with_backoff(void **state)
{
	static const uint64_t at_ms[] = { 0, 200, 600, 1400, 3000, 5000, 7000 };
	struct arp_cache c;
	struct arp_request r;
	struct arp_entry *e;
	size_t n = 0;

	(void)state;
	arp_cache_init(&c);
	e = arp_cache_get(&c, net_ip4(HOP), NULL, 0);
	assert_false(e->known);
	for (uint64_t t = 0; t <= 7000; t++) {
		while (arp_cache_poll(&c, t * MS, &r)) {
			assert_int_equal(t, at_ms[n++]);
			assert_true(net_ip_equal(r.ip, net_ip4(HOP)));
			assert_false(r.unicast);
		}
	}
	assert_int_equal(n, 7);
}

static void answer_makes_it_known_and_stops_the_questions(void **state)
{
	struct arp_cache c;
	struct arp_request r;
	struct arp_entry *e;

	(void)state;
	arp_cache_init(&c);
	e = arp_cache_get(&c, net_ip4(HOP), NULL, 0);
	assert_true(arp_cache_poll(&c, 0, &r));
	assert_true(arp_cache_learn(&c, net_ip4(HOP), mac_a, 5 * MS));
	assert_true(e->known);
	assert_memory_equal(e->mac, mac_a, NET_MAC_BYTES);
	for (uint64_t t = 5; t < 45000; t += 5)
		assert_false(arp_cache_poll(&c, t * MS, &r));
	assert_true(c.next_ns > 44 * SEC && c.next_ns < 46 * SEC);
}

static void entry_is_refreshed_while_in_use_and_expires(void **state)
{
	struct arp_cache c;
	struct arp_request r;
	struct arp_entry *e;
	unsigned int unicast = 0, broadcast = 0;
	uint32_t changes;

	(void)state;
	arp_cache_init(&c);
	e = arp_cache_get(&c, net_ip4(HOP), NULL, 0);
	arp_cache_learn(&c, net_ip4(HOP), mac_a, 0);
	changes = e->changes;
	for (uint64_t t = 0; t < 60000; t += 10) {
		while (arp_cache_poll(&c, t * MS, &r)) {
			assert_true(t >= 45000);
			if (r.unicast)
				assert_memory_equal(r.mac, mac_a, NET_MAC_BYTES);
			*(r.unicast ? &unicast : &broadcast) += 1;
		}
		assert_true(e->known);
	}
	assert_int_equal(unicast, 3);
	assert_true(broadcast >= 5);
	assert_int_equal(e->changes, changes);

	assert_true(arp_cache_poll(&c, 60 * SEC, &r));
	assert_false(r.unicast);
	assert_false(e->known);
	assert_int_not_equal(e->changes, changes);
}

static void refresh_answered_in_time_changes_nothing(void **state)
{
	struct arp_cache c;
	struct arp_request r;
	struct arp_entry *e;
	uint32_t changes;

	(void)state;
	arp_cache_init(&c);
	e = arp_cache_get(&c, net_ip4(HOP), NULL, 0);
	arp_cache_learn(&c, net_ip4(HOP), mac_a, 0);
	changes = e->changes;
	for (uint64_t t = 0; t < 600; t++) {
		while (arp_cache_poll(&c, t * SEC, &r))
			assert_true(arp_cache_learn(&c, net_ip4(HOP), mac_a, t * SEC + MS));
		assert_true(e->known);
	}
	assert_int_equal(e->changes, changes);
	arp_cache_learn(&c, net_ip4(HOP), mac_b, 601 * SEC);
	assert_int_not_equal(e->changes, changes);
}

static void strangers_cannot_fill_the_table(void **state)
{
	struct arp_cache c;

	(void)state;
	arp_cache_init(&c);
	for (uint32_t ip = 1; ip < 1000; ip++)
		assert_false(arp_cache_learn(&c, net_ip4(ip), mac_a, 0));
	for (uint32_t i = 0; i < ARP_CACHE_ENTRIES; i++)
		assert_non_null(arp_cache_get(&c, net_ip4(HOP + i), NULL, 0));
	assert_null(arp_cache_get(&c, net_ip4(1), NULL, 0));
}

static void fixed_entry_is_neither_asked_nor_changed(void **state)
{
	struct arp_cache c;
	struct arp_request r;
	struct arp_entry *e;

	(void)state;
	arp_cache_init(&c);
	e = arp_cache_get(&c, net_ip4(HOP), mac_a, 0);
	assert_true(e->known);
	assert_false(arp_cache_learn(&c, net_ip4(HOP), mac_b, 0));
	assert_memory_equal(e->mac, mac_a, NET_MAC_BYTES);
	arp_cache_recheck(&c, SEC);
	for (uint64_t t = 0; t < 1000; t++)
		assert_false(arp_cache_poll(&c, t * SEC, &r));
}

static void holders_share_an_entry_and_the_last_frees_it(void **state)
{
	struct arp_cache c;
	struct arp_request r;
	struct arp_entry *a, *b;

	(void)state;
	arp_cache_init(&c);
	a = arp_cache_get(&c, net_ip4(HOP), NULL, 0);
	b = arp_cache_get(&c, net_ip4(HOP), NULL, 0);
	assert_ptr_equal(a, b);
	arp_cache_put(&c, a);
	assert_true(arp_cache_poll(&c, 0, &r));
	arp_cache_put(&c, b);
	assert_false(arp_cache_poll(&c, 10 * SEC, &r));
	assert_false(arp_cache_learn(&c, net_ip4(HOP), mac_a, 0));
}

static void link_return_asks_everybody_again(void **state)
{
	struct arp_cache c;
	struct arp_request r;
	struct arp_entry *e;

	(void)state;
	arp_cache_init(&c);
	e = arp_cache_get(&c, net_ip4(HOP), NULL, 0);
	arp_cache_learn(&c, net_ip4(HOP), mac_a, 0);
	assert_false(arp_cache_poll(&c, SEC, &r));
	arp_cache_recheck(&c, SEC);
	assert_true(e->known);
	assert_true(arp_cache_poll(&c, SEC, &r));
	assert_false(r.unicast);
}

static void packets_survive_encode_and_decode(void **state)
{
	uint8_t frame[NET_ARP_FRAME_BYTES];
	const struct net_identity other = { .mac = { 2, 0, 0, 0, 0, 0xa }, .ip = HOP };
	struct net_arp a;

	(void)state;
	net_arp_encode_request(frame, &me, HOP, NULL);
	assert_int_equal(frame[0], 0xff);
	assert_int_equal(net_arp_decode(frame, sizeof(frame), &a), 0);
	assert_int_equal(a.op, NET_ARP_REQUEST);
	assert_int_equal(a.sender_ip, me.ip);
	assert_int_equal(a.target_ip, HOP);
	assert_memory_equal(a.sender_mac, me.mac, NET_MAC_BYTES);

	net_arp_encode_reply(frame, &other, &a);
	assert_memory_equal(frame, me.mac, NET_MAC_BYTES);
	assert_int_equal(net_arp_decode(frame, sizeof(frame), &a), 0);
	assert_int_equal(a.op, NET_ARP_REPLY);
	assert_int_equal(a.sender_ip, HOP);
	assert_int_equal(a.target_ip, me.ip);

	net_arp_encode_announce(frame, &me);
	assert_int_equal(net_arp_decode(frame, sizeof(frame), &a), 0);
	assert_int_equal(a.sender_ip, a.target_ip);
}

static void lies_and_truncation_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		int error;
	} lies[] = {
		{ 15, 6, -EPROTONOSUPPORT },    /* hardware type */
		{ 16, 0x86, -EPROTONOSUPPORT }, /* protocol type */
		{ 18, 8, -EPROTONOSUPPORT },    /* hardware address length */
		{ 19, 16, -EPROTONOSUPPORT },   /* protocol address length */
		{ 21, 3, -EPROTONOSUPPORT },    /* RARP */
		{ 22, 3, -EPROTO },             /* group address as sender */
	};
	uint8_t frame[NET_ARP_FRAME_BYTES];
	struct net_arp a;

	(void)state;
	net_arp_encode_request(frame, &me, HOP, NULL);
	for (size_t n = NET_ETH_BYTES; n < NET_ETH_BYTES + NET_ARP_BYTES; n++) {
		uint8_t *cut = malloc(n);

		memcpy(cut, frame, n);
		assert_int_equal(net_arp_decode(cut, n, &a), -EPROTO);
		free(cut);
	}
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		uint8_t was = frame[lies[i].at];

		frame[lies[i].at] = lies[i].value;
		assert_int_equal(net_arp_decode(frame, sizeof(frame), &a), lies[i].error);
		frame[lies[i].at] = was;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown_hop_is_asked_with_backoff),
		cmocka_unit_test(answer_makes_it_known_and_stops_the_questions),
		cmocka_unit_test(entry_is_refreshed_while_in_use_and_expires),
		cmocka_unit_test(refresh_answered_in_time_changes_nothing),
		cmocka_unit_test(strangers_cannot_fill_the_table),
		cmocka_unit_test(fixed_entry_is_neither_asked_nor_changed),
		cmocka_unit_test(holders_share_an_entry_and_the_last_frees_it),
		cmocka_unit_test(link_return_asks_everybody_again),
		cmocka_unit_test(packets_survive_encode_and_decode),
		cmocka_unit_test(lies_and_truncation_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
