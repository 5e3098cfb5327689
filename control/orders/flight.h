/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/*
 * Single flight: among all unfinished objects with one (tenant, key, destination site) the first
 * is shipped, the others wait for its result. This is the table of such groups. It knows nothing
 * of orders: a member is embedded in whatever takes part. Pure; one thread.
 */

struct flight_member {
	TAILQ_ENTRY(flight_member) entry;
	struct flight *flight; /* NULL: takes part in none */
};

TAILQ_HEAD(flight_members, flight_member);

struct flight {
	struct flight *next; /* of its hash bucket */
	uint64_t hash;
	const char *to_site;
	const uint8_t *name; /* tenant, then key; of the leader */
	uint16_t key_len;
	uint8_t tenant_len;
	struct flight_members members; /* leader first, then in order of arrival */
};

/**
 * What an object is called. The bytes belong to the member's owner and must outlive the
 * membership.
 */
struct flight_name {
	const char *to_site;
	const uint8_t *name;
	uint16_t key_len;
	uint8_t tenant_len;
};

struct flights;

/** seed keeps bucket positions unpredictable. NULL + errno. */
struct flights *flights_create(uint64_t seed);
/** All members have left. */
void flights_destroy(struct flights *f);
size_t flights_count(const struct flights *f);

/** Join the group of this name, as its leader if it is new. 0 or -ENOMEM. */
int flights_join(struct flights *f, struct flight_member *m, const struct flight_name *name);
/**
 * Leave. If m led and others wait, the next is the leader: then it is returned and the group
 * names itself by new_name's bytes, which naming() gives for a member. Else NULL.
 */
struct flight_member *flights_leave(struct flights *f, struct flight_member *m,
	void (*naming)(const struct flight_member *m, struct flight_name *out));

static inline bool flight_is_leader(const struct flight_member *m)
{
	return m->flight != NULL && TAILQ_FIRST(&m->flight->members) == m;
}
