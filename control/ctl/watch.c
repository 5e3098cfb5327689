/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/watch.h"

#include "control/base/clock.h"
#include "control/base/units.h"
#include "control/ctl/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { GONE_MS = 30000, BAR_WIDTH = 30, BAR_LEAST = 10, LINE_MS = 950 };

struct watch {
	struct ctl *ctl;
	bool tty, heard, finished;
	uint64_t printed_ms;
	int exit;
};

static double fraction(const Strait__OrderInfo *o)
{
	/* what failed is not there: a failed order ends below 100 % */
	double by_objects = o->objects > 0 ? (double)(o->committed + o->existed) / o->objects : 0;
	double by_bytes = o->bytes_total > 0 ? (double)o->bytes_done / (double)o->bytes_total : 0;

	if (o->has_finished_ms || o->committed + o->existed + o->failed == o->objects)
		return by_objects;
	/* bytes move before objects end, but the total is not known before the edge looked */
	return by_bytes > by_objects && by_bytes <= 1 ? by_bytes : by_objects;
}

static const char *eta(const Strait__OrderInfo *o, char *buf, size_t len)
{
	if (o->goodput_bps == 0 || o->bytes_total <= o->bytes_done || o->has_finished_ms)
		return "-";
	snprintf(buf, len, "%.1f s",
		(double)(o->bytes_total - o->bytes_done) * 8 / (double)o->goodput_bps);
	return buf;
}

/* On a terminal a line must not wrap, or the next one does not cover it. */
static size_t terminal_columns(void)
{
	struct winsize ws;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0 ? ws.ws_col : 80;
}

static void print_progress(struct watch *w, const Strait__OrderInfo *o)
{
	char done[UNITS_TEXT_MAX], total[UNITS_TEXT_MAX], rate[UNITS_TEXT_MAX], left[32];
	char head[64], tail[512], line[700], bar[BAR_WIDTH + 1];
	size_t columns = w->tty ? terminal_columns() : sizeof(line), width = BAR_WIDTH, used;
	double f = fraction(o);

	snprintf(head, sizeof(head), "order %" PRIu64 " %s%s", o->order, o->state, print_open(o));
	snprintf(tail, sizeof(tail),
		"%3.0f%% %s of %s, %s, ETA %s, objects %u of %u ok, %u failed%s%s%s", f * 100,
		units_format_bytes(o->bytes_done, done), units_format_bytes(o->bytes_total, total),
		units_format_rate(o->goodput_bps, rate), eta(o, left, sizeof(left)),
		o->committed + o->existed, o->objects, o->failed,
		o->text != NULL && o->text[0] != '\0' ? " (" : "", o->text != NULL ? o->text : "",
		o->text != NULL && o->text[0] != '\0' ? ")" : "");
	used = strlen(head) + strlen(tail) + sizeof(" [] ");
	if (used + width > columns)
		width = used + BAR_LEAST < columns ? columns - used : BAR_LEAST;
	for (size_t i = 0; i < width; i++)
		bar[i] = (double)i + 1 <= f * (double)width ? '#' : '-';
	bar[width] = '\0';
	snprintf(line, sizeof(line), "%s [%s] %s", head, bar, tail);
	if (w->tty)
		printf("\r%.*s\033[K%s", (int)columns - 1, line, w->finished ? "\n" : "");
	else
		puts(line);
	fflush(stdout);
}

static bool on_reply(const Strait__Reply *r, void *ctx)
{
	struct watch *w = ctx;
	uint64_t now_ms = clock_now_ns() / 1000000;
	const Strait__OrderInfo *o;

	if (r->n_orders != 1)
		return !r->last;
	w->heard = true;
	o = r->orders[0];
	if (r->last) {
		w->finished = true;
		w->exit = strcmp(o->state, "done") == 0 ? CTL_OK : CTL_FAILED;
	}
	if (!r->last && !w->tty && now_ms - w->printed_ms < LINE_MS)
		return true;
	w->printed_ms = now_ms;
	if (w->ctl->json)
		print_json(json_order(o), true);
	else
		print_progress(w, o);
	return !r->last;
}

int watch_order(struct ctl *ctl, uint64_t id)
{
	Strait__Request req = STRAIT__REQUEST__INIT;
	struct watch w = { .ctl = ctl,
		.tty = !ctl->json && isatty(STDOUT_FILENO),
		.exit = CTL_FAILED };
	uint64_t started_ms = clock_now_ns() / 1000000, limit_ms, gone_ms = 0;
	char why[CTL_TEXT_MAX] = "";
	int rc = ctl_timeout_ms(ctl, 0, &limit_ms);

	if (rc != CTL_OK)
		return rc;
	req.verb = STRAIT__REQUEST__VERB__ORDER_WATCH;
	req.has_order = true;
	req.order = id;
	for (;;) {
		uint64_t now_ms = clock_now_ns() / 1000000, used_ms = now_ms - started_ms;

		if (limit_ms != 0 && used_ms >= limit_ms) {
			rc = CTL_TIMEOUT;
			snprintf(why, sizeof(why), "the order has not finished in time");
			break;
		}
		w.heard = false;
		rc = ctl_call_quiet(ctl, &req, on_reply, &w, limit_ms != 0 ? limit_ms - used_ms : 0,
			why);
		now_ms = clock_now_ns() / 1000000;
		if (w.heard || gone_ms == 0)
			gone_ms = now_ms;
		/* only a master that was there before is waited for */
		if (rc != CTL_UNREACHABLE || w.printed_ms == 0 || now_ms - gone_ms > GONE_MS)
			break;
		usleep(500000);
	}
	if (w.tty && w.printed_ms != 0 && !w.finished)
		putchar('\n');
	if (rc == CTL_OK)
		return w.exit;
	return ctl_fail((enum ctl_exit)rc, "%s", why);
}
