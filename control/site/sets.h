/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/log/record.h"
#include "control/site/site_config.h"
#include "control/sources/kv_event.h"

#include <stdbool.h>

/*
 * What the keys of a site's objects say of them (control/keys/keys.h), for the records of its log:
 * set, member of members, and the place in the chain where an engine of the site told it. With a
 * layouts file only; without one, warm-up keys are all that is known. An object of another layout
 * is LOG_FLAG_FIXED: known, not to be shipped; the log says why. Pure but for the log, one thread.
 */

struct sets;

/** cfg must live as long. NULL + errno. */
struct sets *sets_create(const struct site_config *cfg);
/** NULL is ignored. */
void sets_destroy(struct sets *s);
/** Callbacks of the store; ctx: a struct sets. */
bool sets_ignore(void *ctx, const void *key, size_t len);
void sets_describe(void *ctx, uint16_t tenant, const void *key, size_t len, struct log_record *r);
/** An engine stored blocks: which follows which. */
void sets_learn(struct sets *s, const struct kv_event *e);
