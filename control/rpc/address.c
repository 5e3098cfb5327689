/* SPDX-License-Identifier: Apache-2.0 */
#include "control/rpc/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int not_an_address(const char *text, char *err, size_t err_len)
{
	snprintf(err, err_len, "\"%.80s\" is not HOST:PORT", text);
	return -EINVAL;
}

/* *host of *n bytes, without brackets, and where the colon before the port is. */
static int split(const char *text, const char **host, size_t *n, const char **colon, char *err,
	size_t err_len)
{
	*host = text;
	*colon = strrchr(text, ':');
	if (*colon == NULL)
		return not_an_address(text, err, err_len);
	*n = (size_t)(*colon - text);
	if (*n >= 2 && text[0] == '[' && text[*n - 1] == ']') {
		(*host)++;
		*n -= 2;
	} else if (memchr(text, ':', *n) != NULL) {
		/* a bare IPv6 address: where the port begins is anybody's guess */
		return not_an_address(text, err, err_len);
	}
	if (strspn(*colon + 1, "0123456789") != strlen(*colon + 1) || strlen(*colon + 1) < 1 ||
		strlen(*colon + 1) > 5)
		return not_an_address(text, err, err_len);
	if (strtoul(*colon + 1, NULL, 10) > UINT16_MAX) { /* the resolver would take it modulo */
		snprintf(err, err_len, "\"%.80s\": a port is at most 65535", text);
		return -EINVAL;
	}
	return 0;
}

int address_check(const char *text, char *err, size_t err_len)
{
	const char *host, *colon;
	size_t n;

	return split(text, &host, &n, &colon, err, err_len);
}

int address_parse(const char *text, struct sockaddr_storage *out, socklen_t *out_len, char *err,
	size_t err_len)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC };
	const char *colon, *host;
	struct addrinfo *found;
	char name[256];
	size_t n;
	int rc;

	rc = split(text, &host, &n, &colon, err, err_len);
	if (rc != 0)
		return rc;
	if (n >= sizeof(name))
		return not_an_address(text, err, err_len);
	memcpy(name, host, n);
	name[n] = '\0';
	hints.ai_flags = AI_NUMERICSERV | (n == 0 ? AI_PASSIVE : 0);
	if (n == 0)
		hints.ai_family = AF_INET;
	rc = getaddrinfo(n > 0 ? name : NULL, colon + 1, &hints, &found);
	if (rc != 0) {
		snprintf(err, err_len, "cannot resolve \"%.80s\": %s", text,
			rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
		return -EINVAL;
	}
	memset(out, 0, sizeof(*out));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	*out_len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

char *address_format(const struct sockaddr *sa, char buf[static ADDRESS_TEXT_MAX])
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
	char host[INET6_ADDRSTRLEN] = "?";

	if (sa->sa_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(buf, ADDRESS_TEXT_MAX, "%s:%u", host, ntohs(in->sin_port));
	} else if (sa->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(buf, ADDRESS_TEXT_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		snprintf(buf, ADDRESS_TEXT_MAX, "unknown");
	}
	return buf;
}

bool address_is_loopback(const struct sockaddr *sa)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

	return sa->sa_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == 127;
}
