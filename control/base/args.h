/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What all programs ask of the words of a command line: the value of an option is never the next
 * option. Whoever forgets a file name in `--csv --json` did not mean a file called --json. A value
 * that does begin so is given as --csv=--json, where the program takes that form, or ./--json.
 * Pure.
 */

#include <stdbool.h>

/* "--", "--word" and "-w": what only an option begins with. "-" and "-5" are not. */
bool args_is_option(const char *word);

/*
 * After getopt_long() returned an option: its value is the next word and looks like an option.
 * Reads optarg and optind.
 */
bool args_has_option_as_value(char *const *argv);
