/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/rpc/rpc.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A development certificate authority in a directory: ca.pem, ca.key and NAME.pem, NAME.key for
 * each certificate issued. EC P-256, SHA-256; keys have mode 0600; nothing is ever overwritten. A
 * real deployment brings certificates of its own with the same URI name (control/rpc/rpc.h). Any
 * thread.
 */

/** Create dir if need be, and the CA in it. 0, -EEXIST or -errno + err. */
int pki_init(const char *dir, unsigned int days, char *err, size_t err_len);

struct pki_request {
	struct rpc_identity id;
	const char *file;    /* base name of the files; NULL: id.name */
	int64_t starts_in_s; /* negative: valid since then */
	int64_t ends_in_s;
};

/** Issue a certificate for both TLS sides. 0, -EEXIST, -ENOENT (no CA) or -errno + err. */
int pki_issue(const char *dir, const struct pki_request *req, char *err, size_t err_len);
