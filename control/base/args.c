/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/args.h"

#include <getopt.h>
#include <stddef.h>

bool args_is_option(const char *word)
{
	return word[0] == '-' &&
		(word[1] == '-' || (word[1] >= 'a' && word[1] <= 'z') ||
			(word[1] >= 'A' && word[1] <= 'Z'));
}

bool args_has_option_as_value(char *const *argv)
{
	return optarg != NULL && optarg == argv[optind - 1] && args_is_option(optarg);
}
