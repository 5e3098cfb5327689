/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sim/plot.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Pixels. */
enum {
	WIDTH = 960,
	LEFT = 78,
	RIGHT = 26,
	TOP = 84,
	PLOT_WIDTH = WIDTH - LEFT - RIGHT,
	PANEL_GAP = 34,
	BOTTOM = 48,
};

/* Okabe and Ito's colors, which the color blind can tell apart. */
#define BLUE   "#0072b2"
#define ORANGE "#d55e00"
#define GREEN  "#009e73"
#define PURPLE "#a3508a"
#define GRAY   "#9a9a9a"

enum series { OFFERED, GOODPUT, CROSS, QUEUE, OUTSTANDING, LOSS, SERIES };

static const struct {
	const char *label, *color;
	bool filled;
} looks[SERIES] = {
	[OFFERED] = { "sent by the source", GRAY, false },
	[GOODPUT] = { "goodput", BLUE, false },
	[CROSS] = { "other traffic", ORANGE, false },
	[QUEUE] = { "bottleneck queue", GREEN, true },
	[OUTSTANDING] = { "outstanding data", PURPLE, true },
	[LOSS] = { "packets lost", ORANGE, true },
};

struct panel {
	const char *label;
	int height;
	enum series first, last;
	/* Found from the data. */
	double top, step, unit;
	const char *unit_name;
	int y;
};

struct reference {
	double value;
	const char *label;
};

static double value_of(const struct trace *t, size_t i, enum series s)
{
	const struct trace_bin *b = &t->bins[i];
	double gbps = 8 / (double)t->bin_ns;

	switch (s) {
	case OFFERED:
		return (double)b->offered_bytes * gbps;
	case GOODPUT:
		return (double)b->good_bytes * gbps;
	case CROSS:
		return (double)b->cross_bytes * gbps;
	case QUEUE:
		return (double)b->queue_bytes;
	case OUTSTANDING:
		return (double)b->outstanding_bytes;
	case LOSS:
	case SERIES:
		break;
	}
	return b->packets ? 100.0 * (double)b->lost / (double)b->packets : 0;
}

/* 1, 2 or 5 times a power of ten, so that there are about `ticks` of them up to max. */
static double nice_step(double max, double ticks)
{
	double raw = max / ticks;
	double power = pow(10, floor(log10(raw)));
	double x = raw / power;

	return power * (x <= 1 ? 1 : x <= 2 ? 2 : x <= 5 ? 5 : 10);
}

static double largest(const struct trace *t, enum series s)
{
	double max = 0;

	for (size_t i = 0; i < t->n; i++)
		max = fmax(max, value_of(t, i, s));
	return max;
}

static void text(FILE *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '<')
			fputs("&lt;", out);
		else if (*s == '&')
			fputs("&amp;", out);
		else
			fputc(*s, out);
	}
}

/* Rates in a unit in which they have few digits, bytes in binary ones. */
static void scale_panel(struct panel *p, double max, bool bytes)
{
	if (bytes) {
		p->unit = max >= 1 << 20 ? 1 << 20 : 1 << 10;
		p->unit_name = max >= 1 << 20 ? "MiB" : "KiB";
	} else if (p->first == LOSS) {
		p->unit = 1;
		p->unit_name = "%";
	} else {
		p->unit = max >= 0.5 ? 1 : 1e-3;
		p->unit_name = max >= 0.5 ? "Gbit/s" : "Mbit/s";
	}
	max /= p->unit;
	if (!(max > 1e-9))
		max = 1;
	p->step = nice_step(max, p->height > 120 ? 6 : 3);
	p->top = p->step * ceil(max * 1.02 / p->step);
	if (p->first == LOSS && p->top > 100)
		p->top = 100;
}

static double y_of(const struct panel *p, double value)
{
	double share = value / p->unit / p->top;

	return p->y + p->height * (1 - (share > 1 ? 1 : share));
}

static double x_of(double at_s, double span_s)
{
	return LEFT + PLOT_WIDTH * at_s / span_s;
}

static void draw_spans(const struct plot *plot, const struct panel *p, double span_s, FILE *out)
{
	for (uint32_t i = 0; i < plot->nspans; i++) {
		const struct plot_span *s = &plot->spans[i];
		double from = x_of(fmin(s->from_s, span_s), span_s);
		double to = x_of(fmin(s->to_s, span_s), span_s);

		if (s->from_s >= span_s)
			continue;
		fprintf(out,
			"<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
			from, p->y, fmax(to - from, 1), p->height,
			strcmp(s->label, "cut") == 0 ? "#e8e8e8" : "#fdf0e2");
		if (p->first == OFFERED && to - from > 30)
			fprintf(out,
				"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#777\">%s"
				"</text>\n",
				(from + to) / 2, p->y + p->height - 7, s->label);
	}
}

static void draw_axis(const struct panel *p, FILE *out)
{
	for (double v = 0; v <= p->top * 1.001; v += p->step) {
		double y = y_of(p, v * p->unit);

		fprintf(out,
			"<path d=\"M%d %.1fh%d\" stroke=\"#e3e3e3\"/>"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			LEFT, y, PLOT_WIDTH, LEFT - 7, y + 4, v);
	}
	fprintf(out,
		"<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">%s, %s"
		"</text>\n",
		p->y + p->height / 2, p->label, p->unit_name);
}

static void draw_series(const struct trace *t, const struct panel *p, enum series s, double span_s,
	FILE *out)
{
	if (looks[s].filled)
		fprintf(out, "<path fill=\"%s\" fill-opacity=\".22\" stroke=\"%s\" d=\"M%d %.1f",
			looks[s].color, looks[s].color, LEFT, y_of(p, 0));
	else
		fprintf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.4\" d=\"M%d %.1f",
			looks[s].color, LEFT, y_of(p, value_of(t, 0, s)));
	for (size_t i = 0; i < t->n; i++)
		fprintf(out, "L%.1f %.1f",
			x_of(((double)i + 0.5) * (double)t->bin_ns / 1e9, span_s),
			y_of(p, value_of(t, i, s)));
	if (looks[s].filled)
		fprintf(out, "L%.1f %.1f", x_of((double)(t->n * t->bin_ns) / 1e9, span_s),
			y_of(p, 0));
	fputs("\"/>\n", out);
}

/* Right-aligned above the panel: a mark and a name each. */
static void draw_legend(const struct panel *p, bool cross, FILE *out)
{
	double x = WIDTH - RIGHT;

	for (int s = (int)p->last; s >= (int)p->first; s--) {
		if (s == CROSS && !cross)
			continue;
		x -= 7.0 * (double)strlen(looks[s].label) + 30;
		fprintf(out,
			"<rect x=\"%.0f\" y=\"%d\" width=\"14\" height=\"4\" fill=\"%s\"/>"
			"<text x=\"%.0f\" y=\"%d\">%s</text>\n",
			x, p->y - 12, looks[s].color, x + 19, p->y - 6, looks[s].label);
	}
}

static void draw_reference(const struct panel *p, const struct reference *r, FILE *out)
{
	if (!(r->value > 0) || r->value / p->unit > p->top)
		return;
	fprintf(out,
		"<path d=\"M%d %.1fh%d\" stroke=\"#444\" stroke-dasharray=\"5 4\"/>"
		"<text x=\"%d\" y=\"%d\" fill=\"#444\">- - %s %.4g %s</text>\n",
		LEFT, y_of(p, r->value), PLOT_WIDTH, LEFT, p->y - 6, r->label, r->value / p->unit,
		p->unit_name);
}

static void draw_time(const struct panel *last, double span_s, FILE *out)
{
	double unit = span_s < 1 ? 1e-3 : 1;
	double step = nice_step(span_s / unit, 10);
	int y = last->y + last->height;

	for (double v = 0; v <= span_s / unit * 1.001; v += step)
		fprintf(out,
			"<path d=\"M%.1f %dv5\" stroke=\"#444\"/>"
			"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
			x_of(v * unit, span_s), y, x_of(v * unit, span_s), y + 19, v);
	fprintf(out,
		"<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">time since the order, %s</text>\n",
		LEFT + PLOT_WIDTH / 2, y + 38, unit < 1 ? "ms" : "s");
}

void plot_svg(const struct plot *plot, FILE *out)
{
	struct panel panels[] = {
		{ "rate", 190, OFFERED, CROSS, 0, 0, 0, NULL, 0 },
		{ "queue", 100, QUEUE, QUEUE, 0, 0, 0, NULL, 0 },
		{ "outstanding", 100, OUTSTANDING, OUTSTANDING, 0, 0, 0, NULL, 0 },
		{ "lost", 80, LOSS, LOSS, 0, 0, 0, NULL, 0 },
	};
	enum { PANELS = sizeof(panels) / sizeof(panels[0]) };
	const struct reference refs[PANELS] = {
		{ plot->rate_gbps, "link" },
		{ plot->queue_limit_bytes, "limit" },
		{ plot->bdp_bytes, "bandwidth-delay product" },
		{ 0, "" },
	};
	const struct trace *t = plot->trace;
	double span_s = (double)(t->n * t->bin_ns) / 1e9;
	bool cross = largest(t, CROSS) > 0;
	int y = TOP;

	for (int i = 0; i < PANELS; i++) {
		struct panel *p = &panels[i];
		double max = 0;

		for (int s = (int)p->first; s <= (int)p->last; s++)
			max = fmax(max, largest(t, (enum series)s));
		/* A reference far beyond the data would only flatten it. */
		if (refs[i].value < 3 * max)
			max = fmax(max, refs[i].value);
		p->y = y;
		scale_panel(p, max, i == 1 || i == 2);
		y += p->height + PANEL_GAP;
	}
	y += BOTTOM - PANEL_GAP;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\" "
		"fill=\"#222\">\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
		"<text x=\"%d\" y=\"26\" font-size=\"16\" font-weight=\"bold\">",
		WIDTH, y, WIDTH, y, WIDTH, y, LEFT);
	text(out, plot->title);
	fprintf(out, "</text>\n<text x=\"%d\" y=\"46\" fill=\"#555\">", LEFT);
	text(out, plot->subtitle);
	fputs("</text>\n", out);
	for (int i = 0; i < PANELS && t->n > 0; i++) {
		struct panel *p = &panels[i];

		draw_spans(plot, p, span_s, out);
		draw_axis(p, out);
		for (int s = (int)p->first; s <= (int)p->last; s++)
			if (s != CROSS || cross)
				draw_series(t, p, (enum series)s, span_s, out);
		draw_reference(p, &refs[i], out);
		draw_legend(p, cross, out);
		fprintf(out, "<path d=\"M%d %dv%dh%d\" fill=\"none\" stroke=\"#444\"/>\n", LEFT,
			p->y, p->height, PLOT_WIDTH);
	}
	if (t->n > 0)
		draw_time(&panels[PANELS - 1], span_s, out);
	fputs("</svg>\n", out);
}
