/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/site/existence.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * Serves existence to processes of this machine over a socket (control/client/exist_wire.h), from
 * threads of its own that only read the index: the master's thread is not asked and does not wait.
 * A client that wants it is given the memory itself, read-only, if the index is shared; then only
 * what it missed there comes over the socket.
 */

struct exist_server;

/* A process that connects, by the kernel's word. */
struct exist_peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	const gid_t *groups; /* the others it is in */
	uint32_t ngroups;
};

struct exist_server_config {
	const char *path; /* of the socket; one that is left over is replaced, one in use is not */
	mode_t mode;      /* of it */
	unsigned int threads;
	unsigned int clients_max;
	/**
	 * The digest key of the tenant that a process with these credentials is. false: none, it is
	 * refused. Called from the serving threads.
	 */
	bool (*tenant)(const struct exist_peer *who, struct digest_key *out, void *ctx);
	void *ctx;
};

struct exist_server_stats {
	uint64_t clients, refused, requests, keys, broken;
	uint64_t mapped; /* descriptors given out */
};

/** e must live as long. NULL + errno and a sentence in err; EADDRINUSE: a process answers there. */
struct exist_server *exist_server_start(struct existence *e, const struct exist_server_config *cfg,
	char *err, size_t err_len);
/**
 * Keys that were asked for and not there, since the last time; of a flood only some. The thread of
 * the owner. Returns how many, at most max.
 */
size_t exist_server_missed(struct exist_server *s, struct digest128 *out, size_t max);
/** Ends the threads, closes all clients, removes the socket if it is its own. NULL is ignored. */
void exist_server_stop(struct exist_server *s);
void exist_server_stats_get(struct exist_server *s, struct exist_server_stats *out);
