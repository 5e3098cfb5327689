/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/ctl/ctl.h"

#include <stdio.h>

/* Help at each level, made from the command table. */

void help_all(FILE *f);
/** noun NULL: as help_all(). */
void help_noun(FILE *f, const char *noun);
void help_command(FILE *f, const struct ctl_command *c);
