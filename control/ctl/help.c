/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/help.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char exits[] =
	"\n"
	"Exit status:\n"
	"  0  done\n"
	"  1  the operation failed: order failed or canceled, key not there, local error\n"
	"  2  wrong command line\n"
	"  3  the master cannot be reached\n"
	"  4  refused: not authorized, unknown site or order, or a request that cannot be\n"
	"  5  no answer, or not finished, within --timeout\n";

static void print_options(FILE *f, const struct ctl_option *o)
{
	for (; o != NULL && o->name != NULL; o++) {
		char left[64];

		snprintf(left, sizeof(left), "%c%c%s --%s%s%s", o->letter != 0 ? '-' : ' ',
			o->letter != 0 ? o->letter : ' ', o->letter != 0 ? "," : " ", o->name,
			o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
		fprintf(f, "  %-30s %s\n", left, o->help);
	}
}

static void print_name(FILE *f, const struct ctl_command *c)
{
	fprintf(f, "%s%s%s%s%s", c->noun != NULL ? c->noun : "", c->noun != NULL ? " " : "",
		c->verb, c->args[0] != '\0' ? " " : "", c->args);
}

static void print_line(FILE *f, const struct ctl_command *c)
{
	char left[80];

	snprintf(left, sizeof(left), "%s%s%s%s%s", c->noun != NULL ? c->noun : "",
		c->noun != NULL ? " " : "", c->verb, c->args[0] != '\0' ? " " : "", c->args);
	fprintf(f, "  %-30s %s\n", left, c->help);
}

void help_all(FILE *f)
{
	fputs("Usage: straitctl [options] COMMAND\n\nCommands:\n", f);
	for (const struct ctl_command *c = ctl_commands; c->verb != NULL; c++)
		print_line(f, c);
	fputs("\nstraitctl COMMAND --help tells a command's own options.\n\nOptions:\n", f);
	print_options(f, ctl_global_options);
	fputs(exits, f);
}

void help_noun(FILE *f, const char *noun)
{
	if (noun == NULL) {
		help_all(f);
		return;
	}
	fprintf(f, "Usage: straitctl %s VERB\n\n", noun);
	for (const struct ctl_command *c = ctl_commands; c->verb != NULL; c++)
		if (c->noun != NULL && strcmp(c->noun, noun) == 0)
			print_line(f, c);
}

void help_command(FILE *f, const struct ctl_command *c)
{
	fputs("Usage: straitctl ", f);
	print_name(f, c);
	fprintf(f, "\n\n%s\n", c->help);
	if (c->options != NULL) {
		fputs("\nOptions:\n", f);
		print_options(f, c->options);
	}
	fputs("\nGlobal options:\n", f);
	print_options(f, ctl_global_options);
	fputs(exits, f);
}

int ctl_fail(enum ctl_exit code, const char *fmt, ...)
{
	va_list ap;

	fputs("straitctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return (int)code;
}

int ctl_parse_u64(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || text[0] < '0' || text[0] > '9')
		return -EINVAL;
	return 0;
}
