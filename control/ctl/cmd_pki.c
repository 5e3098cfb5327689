/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/ctl.h"
#include "control/ctl/pki.h"
#include "control/ctl/print.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { DAYS_MAX = 36500, BACKDATE_S = 300 };

static int take_days(const struct ctl *ctl, uint64_t def, uint64_t *days)
{
	const char *text = ctl_option(ctl, "days");

	*days = def;
	if (text != NULL && (ctl_parse_u64(text, days) != 0 || *days < 1 || *days > DAYS_MAX))
		return ctl_fail(CTL_USAGE, "--days must be 1 to %d", DAYS_MAX);
	return CTL_OK;
}

static int report(const struct ctl *ctl, const char *name)
{
	char cert[4200], key[4200];

	snprintf(cert, sizeof(cert), "%s/%s.pem", ctl->argv[0], name);
	snprintf(key, sizeof(key), "%s/%s.key", ctl->argv[0], name);
	if (ctl->json)
		return print_json(json_pack("{s:s, s:s}", "cert", cert, "key", key), false);
	printf("%s\n%s\n", cert, key);
	return CTL_OK;
}

int cmd_pki_init(struct ctl *ctl)
{
	char err[512];
	uint64_t days;
	int rc = take_days(ctl, 3650, &days);

	if (rc != CTL_OK)
		return rc;
	if (pki_init(ctl->argv[0], (unsigned int)days, err, sizeof(err)) != 0)
		return ctl_fail(CTL_FAILED, "%s", err);
	return report(ctl, "ca");
}

static int set(char out[RPC_NAME_MAX], const char *option, const char *value)
{
	if (value == NULL)
		return ctl_fail(CTL_USAGE, "--%s is needed", option);
	if (strlen(value) >= RPC_NAME_MAX)
		return ctl_fail(CTL_USAGE, "--%s is too long", option);
	strcpy(out, value);
	return CTL_OK;
}

int cmd_pki_issue(struct ctl *ctl)
{
	const char *role = ctl_option(ctl, "role"), *site = ctl_option(ctl, "site");
	struct pki_request req = { .file = ctl_option(ctl, "file"), .starts_in_s = -BACKDATE_S };
	char err[512];
	uint64_t days;
	int rc = take_days(ctl, 365, &days);

	if (rc == CTL_OK)
		rc = set(req.id.role, "role", role);
	if (rc == CTL_OK)
		rc = set(req.id.name, "name", ctl_option(ctl, "name"));
	if (rc == CTL_OK && site == NULL && strcmp(role, "edge") != 0)
		site = "-";
	if (rc == CTL_OK)
		rc = set(req.id.site, "site", site);
	if (rc != CTL_OK)
		return rc;
	req.ends_in_s = (int64_t)days * 86400;
	rc = pki_issue(ctl->argv[0], &req, err, sizeof(err));
	if (rc != 0)
		return ctl_fail(rc == -EINVAL ? CTL_USAGE : CTL_FAILED, "%s", err);
	return report(ctl, req.file != NULL ? req.file : req.id.name);
}
