/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/name.h"

#include <errno.h>
#include <stdio.h>

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool name_is_valid(const char *name)
{
	size_t n;

	if (!is_alnum(name[0]))
		return false;
	for (n = 1; name[n] != '\0'; n++)
		if (n >= STRAIT_NAME_MAX ||
			(!is_alnum(name[n]) && name[n] != '.' && name[n] != '_' && name[n] != '-'))
			return false;
	return true;
}

int name_check(const char *what, const char *name, char *err, size_t err_len)
{
	if (name_is_valid(name))
		return 0;
	snprintf(err, err_len,
		"\"%.80s\" is not a %s name: use 1 to %d of a-z 0-9 . _ - and begin with a letter "
		"or digit",
		name, what, STRAIT_NAME_MAX);
	return -EINVAL;
}
