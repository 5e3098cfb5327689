/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/strait.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * straitctl: one table of commands (commands.c), each `noun verb`, some only a verb. Options are
 * collected by name before a command runs; results are tables for people or, with -o json, one
 * JSON value.
 */

enum ctl_exit {
	CTL_OK = 0,
	CTL_FAILED = 1,      /* order failed, key not there, local error */
	CTL_USAGE = 2,       /* command line */
	CTL_UNREACHABLE = 3, /* no connection with the master */
	CTL_REFUSED = 4,     /* not authorized, or the master refused the request */
	CTL_TIMEOUT = 5,     /* no answer, or not finished, in time */
};

enum { CTL_TEXT_MAX = 320 };

struct ctl_option {
	const char *name, *arg; /* arg NULL: a flag */
	char letter;            /* 0: none */
	const char *help;
};

struct ctl;

struct ctl_command {
	const char *noun, *verb; /* noun NULL: a verb alone */
	const char *args;        /* "" or "ID [FILE]" */
	int min_args, max_args;
	const char *help; /* one line */
	const struct ctl_option *options;
	int (*run)(struct ctl *ctl);
};

struct ctl_value {
	const struct ctl_option *option;
	const char *value;
};

struct ctl {
	const struct ctl_command *command;
	int argc; /* what is left after options */
	char **argv;
	struct ctl_value *values;
	size_t nvalues;
	bool json;
};

extern const struct ctl_command ctl_commands[];
extern const struct ctl_option ctl_global_options[];

/** Value of an option ("" for a flag); NULL: not given. The last one counts. */
const char *ctl_option(const struct ctl *ctl, const char *name);
/** The i-th value of an option that may be repeated; NULL: no more. */
const char *ctl_option_nth(const struct ctl *ctl, const char *name, size_t i);

/** Print "straitctl: ..." to stderr and return code. */
int ctl_fail(enum ctl_exit code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** Number in full, 0 or -EINVAL. */
int ctl_parse_u64(const char *text, uint64_t *out);

/* ---- master (call.c) ---- */

/** One reply with code 0. Return true to wait for another. */
typedef bool (*ctl_reply_fn)(const Strait__Reply *reply, void *ctx);

/**
 * Send the request, hand replies to on_reply until it returns false. A reply with an error code,
 * and any other failure, is printed; the exit code is returned.
 */
int ctl_call(struct ctl *ctl, const Strait__Request *req, ctl_reply_fn on_reply, void *ctx);

/* What on_reply of ctl_ask() gets as ctx. */
struct ctl_sink {
	struct ctl *ctl;
	int exit; /* enum ctl_exit, where the reply says more than that the request went well */
};
/** ctl_call() with a sink. Its exit, unless the call failed. */
int ctl_ask(struct ctl *ctl, const Strait__Request *req, ctl_reply_fn on_reply);

/**
 * As ctl_call(), but the text of a failure goes to why (CTL_TEXT_MAX bytes). timeout_ms is for all
 * of it; 0: 10 s for the first reply and none afterwards.
 */
int ctl_call_quiet(struct ctl *ctl, const Strait__Request *req, ctl_reply_fn on_reply, void *ctx,
	uint64_t timeout_ms, char *why);
/** --timeout in ms, or def. CTL_OK, or CTL_USAGE after it said what is wrong. */
int ctl_timeout_ms(const struct ctl *ctl, uint64_t def, uint64_t *out);
/** --class into the request, if it is given. CTL_OK, or CTL_USAGE after it said what is wrong. */
int ctl_take_class(const struct ctl *ctl, Strait__Request *req);

/* ---- commands ---- */

int cmd_status(struct ctl *ctl);
int cmd_site_list(struct ctl *ctl);
int cmd_site_show(struct ctl *ctl);
int cmd_site_add(struct ctl *ctl);
int cmd_site_del(struct ctl *ctl);
int cmd_edge_list(struct ctl *ctl);
int cmd_edge_show(struct ctl *ctl);
int cmd_edge_drain(struct ctl *ctl);
int cmd_edge_undrain(struct ctl *ctl);
int cmd_order_submit(struct ctl *ctl);
int cmd_order_append(struct ctl *ctl);
int cmd_order_seal(struct ctl *ctl);
int cmd_order_list(struct ctl *ctl);
int cmd_order_show(struct ctl *ctl);
int cmd_order_cancel(struct ctl *ctl);
int cmd_order_watch(struct ctl *ctl);
int cmd_commits(struct ctl *ctl);
int cmd_replication_status(struct ctl *ctl);
int cmd_source_list(struct ctl *ctl);
int cmd_policy_list(struct ctl *ctl);
int cmd_locate(struct ctl *ctl);
int cmd_fetch(struct ctl *ctl);
int cmd_backfill(struct ctl *ctl);
int cmd_put(struct ctl *ctl);
int cmd_get(struct ctl *ctl);
int cmd_exist(struct ctl *ctl);
int cmd_remove(struct ctl *ctl);
int cmd_pool_create(struct ctl *ctl);
int cmd_pool_show(struct ctl *ctl);
int cmd_key_explain(struct ctl *ctl);
int cmd_plan(struct ctl *ctl);
int cmd_capture_start(struct ctl *ctl);
int cmd_capture_stop(struct ctl *ctl);
int cmd_capture_status(struct ctl *ctl);
int cmd_pki_init(struct ctl *ctl);
int cmd_pki_issue(struct ctl *ctl);
