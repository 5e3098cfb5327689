/* SPDX-License-Identifier: Apache-2.0 */
#include "control/rpc/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

int address_parse(const char *text, struct sockaddr_storage *out, socklen_t *out_len, char *err,
	size_t err_len)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC };
	const char *colon = strrchr(text, ':'), *host = text;
	struct addrinfo *found;
	char name[256];
	size_t n;
	int rc;

	n = colon != NULL ? (size_t)(colon - text) : 0;
	if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
		host++;
		n -= 2;
	} else if (memchr(text, ':', n) != NULL) {
		colon = NULL; /* a bare IPv6 address: where the port begins is anybody's guess */
	}
	if (colon == NULL || n >= sizeof(name) ||
		strspn(colon + 1, "0123456789") != strlen(colon + 1) || strlen(colon + 1) < 1 ||
		strlen(colon + 1) > 5) {
		snprintf(err, err_len, "\"%.80s\" is not HOST:PORT", text);
		return -EINVAL;
	}
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
