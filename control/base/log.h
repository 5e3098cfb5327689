/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Log lines on stderr, one event a line:  `2026-08-20T10:11:12.345Z info: rpc: listening
 * address=0.0.0.0:7400`.
 *
 * Under systemd (stderr is the journal, told by JOURNAL_STREAM) the time is left out and a `<6>`
 * priority comes first. Write a message as a few words followed by key=value pairs. Control
 * characters in values are shown as \xNN, so nothing a peer sends can forge a line. Lines are cut
 * at LOG_LINE_MAX bytes.
 *
 * Threads: any. A line is one write(2). Workers do not log.
 */

enum { LOG_LINE_MAX = 2048 };

enum log_level {
	LOG_LEVEL_ERROR, /* something was lost or somebody has to act */
	LOG_LEVEL_WARN,  /* unexpected, and handled */
	LOG_LEVEL_INFO,  /* changes of state */
	LOG_LEVEL_DEBUG,
};

/** Levels above are dropped. Default LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);
enum log_level log_level(void);
/** "error", "warn", "info", "debug". 0 or -EINVAL. */
int log_level_parse(const char *name, enum log_level *out);

void log_write(enum log_level level, const char *component, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(component, ...) log_write(LOG_LEVEL_ERROR, component, __VA_ARGS__)
#define log_warn(component, ...)  log_write(LOG_LEVEL_WARN, component, __VA_ARGS__)
#define log_info(component, ...)  log_write(LOG_LEVEL_INFO, component, __VA_ARGS__)
#define log_debug(component, ...) log_write(LOG_LEVEL_DEBUG, component, __VA_ARGS__)

/** State of one call site of log_limited(). */
struct log_limit {
	_Atomic uint64_t next_ns;
	_Atomic uint64_t suppressed;
};

/** true if the site may log now; *suppressed is how many were dropped since the last one. */
bool log_limit_pass(struct log_limit *limit, uint64_t interval_ns, uint64_t *suppressed);

/** At most one line per interval_ms from this place in the source; says how many were left out. */
#define log_limited(level, component, interval_ms, fmt, ...)                                       \
	do {                                                                                       \
		static struct log_limit log_limit_;                                                \
		uint64_t left_out_;                                                                \
		if (log_limit_pass(&log_limit_, (uint64_t)(interval_ms)*1000000, &left_out_))      \
			log_write(level, component, fmt " suppressed=%llu", ##__VA_ARGS__,         \
				(unsigned long long)left_out_);                                    \
	} while (0)
