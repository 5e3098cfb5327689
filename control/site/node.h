/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/site/follower.h"

/*
 * strait-master in the site role, put together: adapters follow the sources, the store turns their
 * word into log and an index for each tenant, whose existence socket answers from it. The thread of
 * the event base writes; the sockets have threads of their own that only read.
 *
 * Answers are UNKNOWN until every source has been listed once, and again whenever one is not
 * complete, when the oldest news is older than max_age, or when memory did not suffice for a key
 * and no listing since found room for all. While an engine is known in part only, YES is said and
 * UNKNOWN takes the place of NO. A Mooncake master lists its default tenant alone: what
 * other tenants lost unannounced is noticed only when their objects are asked for.
 */

struct event_base;
struct site_node;

/** NULL + errno, a sentence in err. cfg must live as long. */
struct site_node *site_node_create(struct event_base *base, const struct site_config *cfg,
	char *err, size_t err_len);
/** NULL is ignored. */
void site_node_destroy(struct site_node *n);

/** Whether answers are known now. */
bool site_node_is_ready(const struct site_node *n);
/** Whether what no source named may be there all the same: of an engine only a part is known. */
bool site_node_is_partial(const struct site_node *n);
/** What the operator has to see to: the disk, the memory. "": nothing. */
const char *site_node_trouble(const struct site_node *n);
void site_node_store_stats(const struct site_node *n, struct store_stats *out);
void site_node_source_view(const struct site_node *n, unsigned int i, struct site_source_view *out);

/* For its connection with the inter-dc master (uplink.h, expand.h). */
const struct site_config *site_node_config(const struct site_node *n);
/** Whose number in the store this is. */
struct follower *site_node_owner(struct site_node *n, uint32_t owner);
struct store *site_node_store(struct site_node *n);
struct log *site_node_log(struct site_node *n);
struct recall *site_node_recall(struct site_node *n);
/** Keys of a tenant that were asked for and not there, since the last time. */
size_t site_node_missed(struct site_node *n, unsigned int tenant, struct digest128 *out,
	size_t max);
/**
 * Fetching it failed: for negative_for it is said not to be here, unless it comes. tenant_len 0:
 * the default tenant; one that the site has not is ignored.
 */
void site_node_failed(struct site_node *n, const void *tenant, size_t tenant_len, const void *key,
	size_t len);

/** The same of an object of any tenant that nobody has; nothing if it came here meanwhile. */
void site_node_nowhere(struct site_node *n, struct digest128 d);

/**
 * Run until SIGTERM or SIGINT. 0 or -errno; what went wrong was logged.
 */
int site_run(const struct site_config *cfg);
