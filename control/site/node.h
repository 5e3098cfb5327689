/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/site/site_config.h"
#include "control/site/store.h"
#include "control/sources/source.h"

/*
 * strait-master in the site role, put together: adapters follow the sources, the store turns their
 * word into index and log, an existence socket for each tenant answers from the index. The thread
 * of the event base writes; the sockets have threads of their own that only read.
 *
 * Answers are UNKNOWN until every source has been listed once, and again whenever one is not
 * complete, when the oldest news is older than max_age, or when memory did not suffice for a key
 * and no listing since found room for all. A Mooncake master lists its default tenant alone: what
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
void site_node_store_stats(const struct site_node *n, struct store_stats *out);
const struct source *site_node_source(const struct site_node *n, unsigned int i);

/**
 * Run until SIGTERM or SIGINT. 0 or -errno; what went wrong was logged.
 */
int site_run(const struct site_config *cfg);
