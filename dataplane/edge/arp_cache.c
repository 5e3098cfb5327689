/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/edge/arp_cache.h"

#include <stddef.h>

#define MS_NS 1000000ull

static const uint64_t lifetime_ns = 60000 * MS_NS;
static const uint64_t refresh_ns = 45000 * MS_NS;
static const uint64_t backoff_first_ns = 200 * MS_NS;
static const uint64_t backoff_most_ns = 2000 * MS_NS;
/* Refreshes asked of the known MAC alone before everybody is asked (RFC 1122 section 2.3.2.1). */
enum { UNICAST_TRIES = 3 };

void arp_cache_init(struct arp_cache *c)
{
	memset(c, 0, sizeof(*c));
	c->next_ns = UINT64_MAX;
}

static struct arp_entry *find(struct arp_cache *c, struct net_ip ip)
{
	for (size_t i = 0; i < ARP_CACHE_ENTRIES; i++) {
		if (c->entries[i].holders > 0 && net_ip_equal(c->entries[i].ip, ip))
			return &c->entries[i];
	}
	return NULL;
}

struct arp_entry *arp_cache_get(struct arp_cache *c, struct net_ip ip, const uint8_t *mac,
	uint64_t now_ns)
{
	struct arp_entry *e = find(c, ip);

	if (e != NULL) {
		e->holders++;
		return e;
	}
	for (size_t i = 0; i < ARP_CACHE_ENTRIES && e == NULL; i++) {
		if (c->entries[i].holders == 0)
			e = &c->entries[i];
	}
	if (e == NULL)
		return NULL;
	*e = (struct arp_entry){ .ip = ip,
		.holders = 1,
		.changes = e->changes + 1,
		.request_ns = now_ns };
	if (mac != NULL) {
		memcpy(e->mac, mac, NET_MAC_BYTES);
		e->known = e->fixed = true;
		e->request_ns = UINT64_MAX;
	} else if (now_ns < c->next_ns) {
		c->next_ns = now_ns;
	}
	return e;
}

void arp_cache_put(struct arp_cache *c, struct arp_entry *e)
{
	(void)c;
	if (e->holders > 0)
		e->holders--;
}

bool arp_cache_learn(struct arp_cache *c, struct net_ip ip, const uint8_t *mac, uint64_t now_ns)
{
	struct arp_entry *e = find(c, ip);

	if (e == NULL || e->fixed)
		return false;
	if (!e->known || memcmp(e->mac, mac, NET_MAC_BYTES) != 0)
		e->changes++;
	memcpy(e->mac, mac, NET_MAC_BYTES);
	e->known = true;
	e->tries = 0;
	e->learned_ns = now_ns;
	e->expires_ns = now_ns + lifetime_ns;
	e->request_ns = now_ns + refresh_ns;
	if (e->request_ns < c->next_ns)
		c->next_ns = e->request_ns;
	return true;
}

void arp_cache_recheck(struct arp_cache *c, uint64_t now_ns)
{
	for (size_t i = 0; i < ARP_CACHE_ENTRIES; i++) {
		struct arp_entry *e = &c->entries[i];

		if (e->holders == 0 || e->fixed)
			continue;
		/* Straight to the broadcast: the neighbour may be another one now. */
		e->tries = e->known ? UNICAST_TRIES : 0;
		e->request_ns = now_ns;
		c->next_ns = now_ns;
	}
}

static uint64_t backoff(uint8_t tries)
{
	uint64_t ns = backoff_first_ns << (tries < 8 ? tries : 8);

	return ns < backoff_most_ns ? ns : backoff_most_ns;
}

bool arp_cache_poll(struct arp_cache *c, uint64_t now_ns, struct arp_request *out)
{
	uint64_t next = UINT64_MAX;

	if (now_ns < c->next_ns)
		return false;
	for (size_t i = 0; i < ARP_CACHE_ENTRIES; i++) {
		struct arp_entry *e = &c->entries[i];

		if (e->holders == 0 || e->fixed)
			continue;
		if (e->known && now_ns >= e->expires_ns) {
			e->known = false;
			e->changes++;
			e->tries = 0;
			e->request_ns = now_ns;
		}
		if (now_ns >= e->request_ns) {
			out->ip = e->ip;
			out->unicast = e->known && e->tries < UNICAST_TRIES;
			memcpy(out->mac, e->mac, NET_MAC_BYTES);
			e->request_ns = now_ns + backoff(e->tries);
			if (e->tries < UINT8_MAX)
				e->tries++;
			return true;
		}
		if (e->request_ns < next)
			next = e->request_ns;
		if (e->known && e->expires_ns < next)
			next = e->expires_ns;
	}
	c->next_ns = next;
	return false;
}
