/* SPDX-License-Identifier: Apache-2.0 */
#include "control/rpc/identity.h"

#include "control/base/name.h"

#include <openssl/x509v3.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char prefix[] = "spiffe://strait/site/";

static bool role_is_valid(const char *role)
{
	return strcmp(role, "edge") == 0 || strcmp(role, "site-master") == 0 ||
		strcmp(role, "master") == 0 || strcmp(role, "operator") == 0 ||
		strcmp(role, "tenant") == 0;
}

static bool identity_is_valid(const struct rpc_identity *id)
{
	return (strcmp(id->site, "-") == 0 || name_is_valid(id->site)) && role_is_valid(id->role) &&
		name_is_valid(id->name);
}

/* Copy up to end (NULL: the string's end); the part must fit. */
static int take(const char **s, const char *end, char out[RPC_NAME_MAX])
{
	const char *stop = end != NULL ? strstr(*s, end) : *s + strlen(*s);

	if (stop == NULL || (size_t)(stop - *s) >= RPC_NAME_MAX)
		return -EINVAL;
	memcpy(out, *s, (size_t)(stop - *s));
	out[stop - *s] = '\0';
	*s = stop + (end != NULL ? strlen(end) : 0);
	return 0;
}

int rpc_identity_parse(const char *uri, struct rpc_identity *out)
{
	struct rpc_identity id = { 0 };

	if (strncmp(uri, prefix, strlen(prefix)) != 0)
		return -EINVAL;
	uri += strlen(prefix);
	/* No part may hold a slash (names are checked), so the first separator is the right one. */
	if (take(&uri, "/role/", id.site) != 0 || take(&uri, "/name/", id.role) != 0 ||
		take(&uri, NULL, id.name) != 0 || !identity_is_valid(&id))
		return -EINVAL;
	*out = id;
	return 0;
}

int rpc_identity_format(const struct rpc_identity *id, char *buf, size_t len)
{
	int n;

	if (!identity_is_valid(id))
		return -EINVAL;
	n = snprintf(buf, len, "%s%s/role/%s/name/%s", prefix, id->site, id->role, id->name);
	return n < 0 || (size_t)n >= len ? -EINVAL : 0;
}

int identity_of_certificate(X509 *cert, struct rpc_identity *out, char *err, size_t err_len)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	unsigned int found = 0;
	int rc = -EINVAL;

	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		const char *uri;
		size_t len;

		if (name->type != GEN_URI)
			continue;
		uri = (const char *)ASN1_STRING_get0_data(name->d.uniformResourceIdentifier);
		len = (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier);
		/* An embedded NUL must not hide what follows it. */
		if (memchr(uri, '\0', len) != NULL || rpc_identity_parse(uri, out) != 0) {
			snprintf(err, err_len,
				"URI \"%.*s\" in the certificate is not "
				"spiffe://strait/site/SITE/role/ROLE/name/NAME",
				(int)(len < 120 ? len : 120), uri);
			goto out;
		}
		found++;
	}
	if (found == 1)
		rc = 0;
	else
		snprintf(err, err_len,
			"the certificate has %u URI names, must have one: "
			"spiffe://strait/site/SITE/role/ROLE/name/NAME (see: straitctl pki issue)",
			found);
out:
	GENERAL_NAMES_free(names);
	return rc;
}
