/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/site/site_config.h"

#include <stddef.h>

/*
 * Two levels: sites whose sources the inter-dc master follows itself, in place of a site master.
 * Each is all that is in a site master (control/site/node.h), connected with the rest of this
 * process by the same protocol over a pair of sockets, so that nothing else can tell the
 * difference. A deployment may have sites of both kinds. The master's thread.
 */

struct master;
struct local_sites;

/** The configuration of a site to be followed here. NULL + errno, a sentence in err. */
struct site_config *local_site_config(const char *path, const char *site, char *err,
	size_t err_len);

/** Start those of the configuration. 0 or -errno; what went wrong was logged. */
int local_sites_create(struct master *m);
/**
 * Start those that are new in the configuration, stop those that are not there any more. The first
 * error; the others are started. What has changed in a site's own file needs a restart.
 */
int local_sites_configure(struct master *m);
/** With the far ends of their connections, whose clients are told nothing. */
void local_sites_destroy(struct master *m);
