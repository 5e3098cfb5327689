/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "dataplane/edge/net.h"

#include <stdbool.h>

/*
 * Next hops and their MAC addresses: a small table with timers, no I/O and no clock of its own. ARP
 * (RFC 826) feeds it over IPv4, neighbor discovery (RFC 4861) over IPv6.
 *
 * Only next hops somebody asked for are in it (arp_cache_get), so nothing a stranger sends can
 * grow it; what they bring only updates entries that exist (RFC 826's merge). Entries never move
 * while they are held: a pointer from arp_cache_get() is good until arp_cache_put().
 *
 *   unknown --request: at once, then 0.2 s doubling to 2 s--> known
 *   known: 60 s. From the 45th second on it is asked again (unicast, then broadcast), in use all
 *   the while; without an answer it is unknown when the 60 s are over.
 *   fixed: a configured MAC. Never asked, never changed.
 *
 * Worker's thread. Times in ns of any one monotonic clock.
 */

enum { ARP_CACHE_ENTRIES = 64 };

struct arp_entry {
	struct net_ip ip;
	uint8_t mac[NET_MAC_BYTES];
	bool known; /* mac may be used */
	bool fixed;
	uint8_t tries;
	uint32_t holders; /* 0: free */
	uint32_t changes; /* grows when mac or known changes: copies of it are out of date */
	uint64_t learned_ns, expires_ns, request_ns;
};

struct arp_cache {
	struct arp_entry entries[ARP_CACHE_ENTRIES];
	uint64_t next_ns; /* nothing to do before */
};

void arp_cache_init(struct arp_cache *c);

/** Hold the entry of a next hop. mac: fixed, or NULL to ask for it. NULL: the table is full. */
struct arp_entry *arp_cache_get(struct arp_cache *c, struct net_ip ip, const uint8_t *mac,
	uint64_t now_ns);
void arp_cache_put(struct arp_cache *c, struct arp_entry *e);

/** The network said that ip is at mac. false: nobody here cares. */
bool arp_cache_learn(struct arp_cache *c, struct net_ip ip, const uint8_t *mac, uint64_t now_ns);

/**
 * The link was down: what was known may be wrong, ask again at once (known entries stay in
 * use).
 */
void arp_cache_recheck(struct arp_cache *c, uint64_t now_ns);

struct arp_request {
	struct net_ip ip;
	bool unicast; /* to mac, else to everybody */
	uint8_t mac[NET_MAC_BYTES];
};

/** Advance timers. true: send this request and call again; false: nothing before c->next_ns. */
bool arp_cache_poll(struct arp_cache *c, uint64_t now_ns, struct arp_request *out);
