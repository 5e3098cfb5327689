/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/rpc.h"

#include <openssl/x509.h>

/* Who a certificate says its holder is. Pure. */

/** The identity in the one URI name of the certificate. 0 or -EINVAL + err. */
int identity_of_certificate(X509 *cert, struct rpc_identity *out, char *err, size_t err_len);
