/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"

#include "control/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static _Atomic int current_level = LOG_LEVEL_INFO;
static pthread_once_t journal_once = PTHREAD_ONCE_INIT;
static bool to_journal;

static const char *const level_names[] = { "error", "warn", "info", "debug" };
/* syslog(3) priorities of the levels */
static const char level_priorities[] = { '3', '4', '6', '7' };

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

enum log_level log_level(void)
{
	return (enum log_level)atomic_load_explicit(&current_level, memory_order_relaxed);
}

int log_level_parse(const char *name, enum log_level *out)
{
	for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*out = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* JOURNAL_STREAM is "device:inode" of the stream; it is inherited, so it may not be our stderr. */
static void detect_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	if (stream == NULL || sscanf(stream, "%llu:%llu", &dev, &ino) != 2)
		return;
	to_journal = fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

static size_t put_time(char *buf, size_t len)
{
	uint64_t ms = clock_unix_ms();
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;
	size_t n;

	if (gmtime_r(&seconds, &tm) == NULL)
		return 0;
	n = strftime(buf, len, "%Y-%m-%dT%H:%M:%S", &tm);
	n += (size_t)snprintf(buf + n, len - n, ".%03uZ ", (unsigned int)(ms % 1000));
	return n;
}

/* Copy text with control characters as \xNN; UTF-8 passes. */
static size_t put_escaped(char *dst, size_t room, const char *src)
{
	size_t n = 0;

	for (; *src != '\0'; src++) {
		unsigned char c = (unsigned char)*src;
		bool plain = c >= 0x20 && c != 0x7f;

		if (n + (plain ? 1 : 4) > room)
			break;
		if (plain)
			dst[n++] = (char)c;
		else
			n += (size_t)sprintf(dst + n, "\\x%02x", c);
	}
	return n;
}

void log_write(enum log_level level, const char *component, const char *fmt, ...)
{
	char message[LOG_LINE_MAX], line[LOG_LINE_MAX + 1];
	int saved = errno;
	size_t n = 0;
	va_list ap;

	if (level > log_level())
		return;
	pthread_once(&journal_once, detect_journal);
	if (to_journal)
		n = (size_t)sprintf(line, "<%c>", level_priorities[level]);
	else
		n = put_time(line, sizeof(line));
	n += (size_t)snprintf(line + n, 64, "%s: %.40s: ", level_names[level], component);
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	/* one byte stays for the newline; sprintf's NUL needs another */
	n += put_escaped(line + n, sizeof(line) - n - 2, message);
	line[n++] = '\n';
	while (write(STDERR_FILENO, line, n) < 0 && errno == EINTR)
		;
	errno = saved;
}

bool log_limit_pass(struct log_limit *limit, uint64_t interval_ns, uint64_t *suppressed)
{
	uint64_t now = clock_now_ns();
	uint64_t next = atomic_load_explicit(&limit->next_ns, memory_order_relaxed);

	if (now < next ||
		!atomic_compare_exchange_strong(&limit->next_ns, &next, now + interval_ns)) {
		atomic_fetch_add_explicit(&limit->suppressed, 1, memory_order_relaxed);
		return false;
	}
	*suppressed = atomic_exchange(&limit->suppressed, 0);
	return true;
}
