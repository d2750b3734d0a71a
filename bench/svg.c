/* SPDX-License-Identifier: MIT */
#include "svg.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const char *const colours[] = {
	"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
	"#000000", "#999999", "#7f3c8d", "#8c564b", "#117733", "#882255",
};
enum { NR_COLOURS = sizeof(colours) / sizeof(colours[0]) };

#define FONT "font-family=\"Helvetica, Arial, sans-serif\""
#define GRID "#dddddd"
#define TEXT "#222222"

/* Geometry in pixels. The height of a bar chart follows from the number of bars. */
enum { WIDTH = 880, LINES_HEIGHT = 480, TOP = 64, BOTTOM = 56, LEFT = 76 };

static void put_text(FILE *out, const char *s)
{
	for (; *s; s++) {
		switch (*s) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		default:
			fputc(*s, out);
		}
	}
}

static void text(FILE *out, double x, double y, const char *attributes, const char *s)
{
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
	put_text(out, s);
	fputs("</text>\n", out);
}

/* A number as people write it: 1.2, 35, 800, 1.5k, 20M, 1G. */
static void format_value(char *buf, size_t size, double value)
{
	static const char suffixes[] = {0, 'k', 'M', 'G', 'T'};
	unsigned s = 0;

	while (value >= 999.5 && s < sizeof(suffixes) - 1) {
		value /= 1000;
		s++;
	}
	snprintf(buf, size, value >= 99.5 ? "%.0f%c" : "%.3g%c", value, suffixes[s]);
}

static void begin(FILE *out, const struct svg_chart *c, int height)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		"height=\"%d\" " FONT " font-size=\"13\" fill=\"" TEXT "\">\n",
		WIDTH, height, WIDTH, height);
	fprintf(out, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", WIDTH, height);
	text(out, 16, 26, "font-size=\"18\" font-weight=\"bold\"", c->title);
	if (c->subtitle)
		text(out, 16, 46, "font-size=\"12\" fill=\"#555555\"", c->subtitle);
}

static int end(FILE *out)
{
	fputs("</svg>\n", out);
	return ferror(out) ? -EIO : 0;
}

/* The value axis: low and high ends, and whether it is logarithmic. */
struct axis {
	double low, high;
	int logarithmic;
};

/* 1, 2 or 5 times a power of ten, so that about five steps make up `range`. */
static double step_for(double range)
{
	double power = pow(10, floor(log10(range / 5)));
	double n = range / 5 / power;

	return (n < 1.5 ? 1 : n < 3.5 ? 2 : n < 7.5 ? 5 : 10) * power;
}

static struct axis fit_axis(const struct svg_chart *c, int logarithmic)
{
	struct axis a = {HUGE_VAL, 0, logarithmic};

	for (unsigned s = 0; s < c->nr_series; s++) {
		for (unsigned i = 0; i < c->nr_places; i++) {
			double v = c->series[s].values[i];

			if (!(v > 0))
				continue;
			a.low = v < a.low ? v : a.low;
			a.high = v > a.high ? v : a.high;
		}
	}
	if (!(a.high > 0))
		a.low = a.high = 1;
	if (logarithmic) { /* outwards to the next 1, 2 or 5 */
		double power = pow(10, floor(log10(a.low) + 1e-9)), lead = a.low / power;

		a.low = power * (lead < 2 ? 1 : lead < 5 ? 2 : 5);
		power = pow(10, floor(log10(a.high) + 1e-9));
		lead = a.high / power;
		a.high = power * (lead < 1 + 1e-9 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
		if (a.high <= a.low)
			a.high = a.low * 10;
	} else {
		double step = step_for(a.high);

		a.low = 0;
		a.high = ceil(a.high / step - 1e-9) * step;
	}
	return a;
}

/* 0 at the low end, 1 at the high one. */
static double along(const struct axis *a, double v)
{
	return a->logarithmic ? log10(v / a->low) / log10(a->high / a->low)
			      : (v - a->low) / (a->high - a->low);
}

/* The tick after v. Logarithmic axes have one at 1, 2 and 5 in every decade. */
static double next_tick(const struct axis *a, double v)
{
	if (!a->logarithmic)
		return v + step_for(a->high);

	double lead = v / pow(10, floor(log10(v) + 1e-9));

	return lead < 1.5 ? v * 2 : lead < 3.5 ? v * 2.5 : v * 2;
}

static void marker(FILE *out, unsigned s, double x, double y)
{
	const char *colour = colours[s % NR_COLOURS];

	switch (s % 4) {
	case 0:
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, colour);
		break;
	case 1:
		fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\" fill=\"%s\"/>\n", x - 3.5,
			y - 3.5, colour);
		break;
	case 2:
		fprintf(out, "<path d=\"M%.1f %.1fl4.5 8h-9z\" fill=\"%s\"/>\n", x, y - 5, colour);
		break;
	default:
		fprintf(out, "<path d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\" fill=\"%s\"/>\n", x, y - 5, colour);
	}
}

static double last_value(const struct svg_chart *c, unsigned s)
{
	for (unsigned i = c->nr_places; i-- > 0;)
		if (c->series[s].values[i] > 0)
			return c->series[s].values[i];
	return 0;
}

int svg_lines(FILE *out, const struct svg_chart *c)
{
	const int legend_width = 290;
	const double right = WIDTH - legend_width, bottom = LINES_HEIGHT - BOTTOM;
	const double step = c->nr_places > 1 ? (right - LEFT - 32) / (c->nr_places - 1) : 0;
	struct axis axis = fit_axis(c, c->logarithmic);
	char label[32], attributes[96];

	begin(out, c, LINES_HEIGHT);
	for (double v = axis.low; v <= axis.high * (1 + 1e-9); v = next_tick(&axis, v)) {
		double y = bottom - along(&axis, v) * (bottom - TOP);

		fprintf(out,
			"<line x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"" GRID
			"\" stroke-width=\"1\"/>\n",
			LEFT, y, right, y);
		format_value(label, sizeof(label), v);
		text(out, LEFT - 8, y + 4, "text-anchor=\"end\"", label);
	}
	for (unsigned i = 0; i < c->nr_places; i++)
		text(out, LEFT + 16 + i * step, bottom + 20, "text-anchor=\"middle\"", c->places[i]);
	fprintf(out, "<path d=\"M%d %d V%.1f H%.1f\" fill=\"none\" stroke=\"" TEXT "\"/>\n", LEFT, TOP,
		bottom, right);
	if (c->x_label)
		text(out, (LEFT + right) / 2, bottom + 42, "text-anchor=\"middle\"", c->x_label);
	if (c->y_label) {
		snprintf(attributes, sizeof(attributes),
			 "text-anchor=\"middle\" transform=\"rotate(-90 20 %.1f)\"", (TOP + bottom) / 2);
		text(out, 20, (TOP + bottom) / 2, attributes, c->y_label);
	}

	for (unsigned s = 0; s < c->nr_series; s++) {
		const double *values = c->series[s].values;
		char command = 'M';

		fputs("<path fill=\"none\" stroke-width=\"2\" d=\"", out);
		for (unsigned i = 0; i < c->nr_places; i++) {
			if (!(values[i] > 0)) {
				command = 'M'; /* a gap */
				continue;
			}
			fprintf(out, "%c%.1f %.1f", command, LEFT + 16 + i * step,
				bottom - along(&axis, values[i]) * (bottom - TOP));
			command = 'L';
		}
		fprintf(out, "\" stroke=\"%s\"/>\n", colours[s % NR_COLOURS]);
		for (unsigned i = 0; i < c->nr_places; i++)
			if (values[i] > 0)
				marker(out, s, LEFT + 16 + i * step,
				       bottom - along(&axis, values[i]) * (bottom - TOP));
	}

	/* The legend, in the order in which the lines end; its rows are found by counting those above. */
	for (unsigned s = 0; s < c->nr_series; s++) {
		double y = TOP + 8, mine = last_value(c, s);

		for (unsigned other = 0; other < c->nr_series; other++) {
			double its = last_value(c, other);

			if (its > mine || (its == mine && other < s))
				y += 24;
		}
		fprintf(out,
			"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
			"stroke-width=\"2\"/>\n",
			right + 14, y, right + 36, y, colours[s % NR_COLOURS]);
		marker(out, s, right + 25, y);
		text(out, right + 44, y + 4, "", c->series[s].name);
	}
	return end(out);
}

int svg_bars(FILE *out, const struct svg_chart *c)
{
	const int left = 270, bar = c->nr_series > 1 ? 15 : 18, gap = 10, legend = c->nr_series > 1 ? 22 : 0;
	const int group = bar * (int)c->nr_series + gap;
	const int top = TOP + legend, bottom = top + group * (int)c->nr_places, right = WIDTH - 70;
	struct axis axis = fit_axis(c, 0);
	char label[32];

	begin(out, c, bottom + BOTTOM);
	if (c->nr_series > 1) {
		double x = left;

		for (unsigned s = 0; s < c->nr_series; s++) {
			fprintf(out, "<rect x=\"%.1f\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>\n",
				x, TOP - 6, colours[s % NR_COLOURS]);
			text(out, x + 18, TOP + 5, "", c->series[s].name);
			x += 130;
		}
	}
	for (double v = axis.low; v <= axis.high * (1 + 1e-9); v = next_tick(&axis, v)) {
		double x = left + along(&axis, v) * (right - left);

		fprintf(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"" GRID "\"/>\n", x,
			top, x, bottom);
		format_value(label, sizeof(label), v);
		text(out, x, bottom + 18, "text-anchor=\"middle\"", label);
	}
	for (unsigned i = 0; i < c->nr_places; i++) {
		double y = top + i * group + gap / 2.0;

		text(out, left - 10, y + (group - gap) / 2.0 + 4, "text-anchor=\"end\"", c->places[i]);
		for (unsigned s = 0; s < c->nr_series; s++, y += bar) {
			double v = c->series[s].values[i], length;

			if (!(v > 0))
				continue;
			length = along(&axis, v) * (right - left);
			fprintf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
				left, y, length, bar - 2, colours[s % NR_COLOURS]);
			if (v < 9.995)
				snprintf(label, sizeof(label), "%.2f", v); /* digits that can be compared */
			else
				format_value(label, sizeof(label), v);
			text(out, left + length + 6, y + bar - 5, "font-size=\"12\"", label);
		}
	}
	fprintf(out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"" TEXT "\"/>\n", left, top, left,
		bottom);
	if (c->y_label)
		text(out, (left + right) / 2.0, bottom + 40, "text-anchor=\"middle\"", c->y_label);
	return end(out);
}
