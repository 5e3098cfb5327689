/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* "10.0.0.1:7400", "[::1]:7400", "host:7400" to socket addresses and back. */

enum { ADDRESS_TEXT_MAX = 64 };

/**
 * An empty host (":7400") is every address, for listening. May block in the resolver. 0 or
 * -EINVAL + err.
 */
int address_parse(const char *text, struct sockaddr_storage *out, socklen_t *out_len, char *err,
	size_t err_len);
/** Whether it is written so: the host is not looked up. 0 or -EINVAL + err. */
int address_check(const char *text, char *err, size_t err_len);
char *address_format(const struct sockaddr *sa, char buf[static ADDRESS_TEXT_MAX]);
/** In 127.0.0.0/8. */
bool address_is_loopback(const struct sockaddr *sa);
