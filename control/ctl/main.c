/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/args.h"
#include "control/base/log.h"
#include "control/ctl/ctl.h"
#include "control/ctl/help.h"

#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 48 };

/* Options of a command and the global ones, for getopt_long(). val is the index in known[]. */
struct option_set {
	struct option longs[OPTIONS_MAX + 1];
	const struct ctl_option *known[OPTIONS_MAX];
	char shorts[2 * OPTIONS_MAX + 4];
	int count;
};

static void add_options(struct option_set *set, const struct ctl_option *options)
{
	size_t n = strlen(set->shorts);

	for (; options != NULL && options->name != NULL && set->count < OPTIONS_MAX; options++) {
		set->longs[set->count] = (struct option){ options->name,
			options->arg != NULL ? required_argument : no_argument, NULL,
			256 + set->count };
		/* a command's letter hides the global one */
		if (options->letter != '\0' && strchr(set->shorts, options->letter) == NULL) {
			set->shorts[n++] = options->letter;
			if (options->arg != NULL)
				set->shorts[n++] = ':';
			set->shorts[n] = '\0';
		}
		set->known[set->count++] = options;
	}
}

static const struct ctl_option *option_of(const struct option_set *set, int val)
{
	if (val >= 256)
		return set->known[val - 256];
	for (int i = 0; i < set->count; i++)
		if (set->known[i]->letter == val)
			return set->known[i];
	return NULL;
}

/* Collect options; stops at the first word if the set begins with '+'. */
static int collect(struct ctl *ctl, const struct option_set *set, int argc, char **argv)
{
	const struct ctl_option *option;
	int val;

	optind = 0; /* start over, GNU style */
	opterr = 0;
	while ((val = getopt_long(argc, argv, set->shorts, set->longs, NULL)) != -1) {
		option = option_of(set, val);
		if (option == NULL)
			return ctl_fail(CTL_USAGE,
				"unknown option or missing value: \"%s\"; try --help",
				argv[optind - 1]);
		if (args_has_option_as_value(argv))
			return ctl_fail(CTL_USAGE,
				"--%s needs a value; --%s=%s if \"%s\" is meant to be one",
				option->name, option->name, optarg, optarg);
		ctl->values[ctl->nvalues++] = (struct ctl_value){ option, optarg };
	}
	return CTL_OK;
}

const char *ctl_option_nth(const struct ctl *ctl, const char *name, size_t i)
{
	for (size_t v = 0; v < ctl->nvalues; v++)
		if (strcmp(ctl->values[v].option->name, name) == 0 && i-- == 0)
			return ctl->values[v].value != NULL ? ctl->values[v].value : "";
	return NULL;
}

const char *ctl_option(const struct ctl *ctl, const char *name)
{
	const char *found = NULL, *next;

	for (size_t i = 0; (next = ctl_option_nth(ctl, name, i)) != NULL; i++)
		found = next;
	return found;
}

static bool is_noun(const char *word)
{
	for (const struct ctl_command *c = ctl_commands; c->verb != NULL; c++)
		if (c->noun != NULL && strcmp(c->noun, word) == 0)
			return true;
	return false;
}

static const struct ctl_command *find_command(const char *noun, const char *verb)
{
	for (const struct ctl_command *c = ctl_commands; c->verb != NULL; c++)
		if ((c->noun == NULL) == (noun == NULL) && strcmp(c->verb, verb) == 0 &&
			(noun == NULL || strcmp(c->noun, noun) == 0))
			return c;
	return NULL;
}

/* Noun and verb at the front of argv. NULL: help was printed or is due, *rc says which. */
static const struct ctl_command *take_command(struct ctl *ctl, int *argc, char ***argv, int *rc)
{
	const struct ctl_command *c;
	const char *noun = NULL;

	*rc = CTL_USAGE;
	if (ctl_option(ctl, "version") != NULL) {
		puts("straitctl 0.1.0");
		*rc = CTL_OK;
		return NULL;
	}
	if (*argc == 0 || strcmp((*argv)[0], "help") == 0) {
		*rc = *argc > 0 || ctl_option(ctl, "help") != NULL ? CTL_OK : CTL_USAGE;
		help_all(*rc == CTL_OK ? stdout : stderr);
		return NULL;
	}
	if (is_noun((*argv)[0])) {
		noun = (*argv)[0];
		(*argv)++;
		(*argc)--;
	}
	if (*argc == 0 || (noun != NULL && (*argv)[0][0] == '-')) {
		bool asked = ctl_option(ctl, "help") != NULL ||
			(*argc > 0 &&
				(strcmp((*argv)[0], "--help") == 0 ||
					strcmp((*argv)[0], "-h") == 0));

		*rc = asked ? CTL_OK : CTL_USAGE;
		help_noun(asked ? stdout : stderr, noun);
		return NULL;
	}
	c = find_command(noun, (*argv)[0]);
	if (c == NULL) {
		ctl_fail(CTL_USAGE, "unknown command \"%s%s%s\"; straitctl --help lists them",
			noun != NULL ? noun : "", noun != NULL ? " " : "", (*argv)[0]);
		return NULL;
	}
	return c;
}

static int check_output(struct ctl *ctl)
{
	const char *form = ctl_option(ctl, "output");

	if (form != NULL && strcmp(form, "json") != 0 && strcmp(form, "table") != 0)
		return ctl_fail(CTL_USAGE, "-o must be json or table, not \"%s\"", form);
	ctl->json = form != NULL && strcmp(form, "json") == 0;
	return CTL_OK;
}

static int check_arguments(const struct ctl *ctl)
{
	const struct ctl_command *c = ctl->command;

	if (ctl->argc < c->min_args)
		return ctl_fail(CTL_USAGE, "an argument is missing: %s", c->args);
	if (c->max_args >= 0 && ctl->argc > c->max_args)
		return ctl_fail(CTL_USAGE, "one argument too many: \"%s\"", ctl->argv[c->max_args]);
	return CTL_OK;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	struct option_set global = { .shorts = "+" }, local = { .shorts = "" };
	int rc;

	add_options(&global, ctl_global_options);
	rc = collect(ctl, &global, argc, argv);
	if (rc != CTL_OK)
		return rc;
	argc -= optind;
	argv += optind;
	ctl->command = take_command(ctl, &argc, &argv, &rc);
	if (ctl->command == NULL)
		return rc;
	add_options(&local, ctl->command->options);
	add_options(&local, ctl_global_options);
	rc = collect(ctl, &local, argc, argv);
	if (rc != CTL_OK)
		return rc;
	ctl->argc = argc - optind;
	ctl->argv = argv + optind;
	if (ctl_option(ctl, "help") != NULL) {
		help_command(stdout, ctl->command);
		return CTL_OK;
	}
	rc = check_arguments(ctl);
	if (rc != CTL_OK) {
		help_command(stderr, ctl->command);
		return rc;
	}
	rc = check_output(ctl);
	return rc == CTL_OK ? ctl->command->run(ctl) : rc;
}

int main(int argc, char **argv)
{
	struct ctl ctl = { .values = calloc((size_t)argc + 1, sizeof(*ctl.values)) };
	int rc;

	if (ctl.values == NULL)
		return ctl_fail(CTL_FAILED, "out of memory");
	(void)setlocale(LC_CTYPE, ""); /* else tables show no letter beyond ASCII */
	signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_LEVEL_ERROR);
	rc = run(&ctl, argc, argv);
	free(ctl.values);
	if (fflush(stdout) != 0 && rc == CTL_OK)
		rc = ctl_fail(CTL_FAILED, "cannot write the output");
	return rc;
}
