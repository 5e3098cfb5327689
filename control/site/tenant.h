/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/site/exist_server.h"
#include "control/site/site_config.h"

/*
 * Which processes of this machine are a tenant, by the kernel's word: those of its users and
 * groups. Root and the user that the site master runs as always are, since they can read the
 * deployment's secret; where a tenant names neither users nor groups, nobody else is.
 */

/**
 * Names to numbers, once when the configuration is read. 0 or -EINVAL and in *bad the name that
 * this machine does not know; -ENOMEM.
 */
int tenant_resolve(struct site_tenant_config *t, const char **bad);
void tenant_release(struct site_tenant_config *t);
/** Any thread. */
bool tenant_admits(const struct site_tenant_config *t, const struct exist_peer *who);
/** Of its socket: who connects is told by credentials, where there is anybody to tell. */
mode_t tenant_socket_mode(const struct site_tenant_config *t);
