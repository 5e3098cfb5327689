/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/tenant.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A number, if it is nothing else. The last one is no id but "none" to the kernel. */
static bool number_get(const char *text, uint32_t *out)
{
	unsigned long long v;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	v = strtoull(text, &end, 10);
	*out = (uint32_t)v;
	return errno == 0 && *end == '\0' && v < UINT32_MAX;
}

static bool user_get(const char *name, uint32_t *out)
{
	const struct passwd *p;

	if (number_get(name, out))
		return true;
	p = getpwnam(name);
	*out = p != NULL ? p->pw_uid : 0;
	return p != NULL;
}

static bool group_get(const char *name, uint32_t *out)
{
	const struct group *g;

	if (number_get(name, out))
		return true;
	g = getgrnam(name);
	*out = g != NULL ? g->gr_gid : 0;
	return g != NULL;
}

static int resolve(char **names, unsigned int n, bool (*get)(const char *name, uint32_t *out),
	uint32_t **out, const char **bad)
{
	*out = n > 0 ? calloc(n, sizeof(**out)) : NULL;
	if (n > 0 && *out == NULL)
		return -ENOMEM;
	for (unsigned int i = 0; i < n; i++) {
		*bad = names[i];
		if (!get(names[i], &(*out)[i]))
			return -EINVAL;
	}
	return 0;
}

int tenant_resolve(struct site_tenant_config *t, const char **bad)
{
	int ret = resolve(t->users, t->users_count, user_get, &t->uids, bad);

	return ret < 0 ? ret : resolve(t->groups, t->groups_count, group_get, &t->gids, bad);
}

void tenant_release(struct site_tenant_config *t)
{
	free(t->uids);
	free(t->gids);
	t->uids = t->gids = NULL;
}

static bool is_among(uint32_t id, const uint32_t *list, unsigned int n)
{
	for (unsigned int i = 0; list != NULL && i < n; i++)
		if (list[i] == id)
			return true;
	return false;
}

bool tenant_admits(const struct site_tenant_config *t, const struct exist_peer *who)
{
	if (who->uid == 0 || who->uid == geteuid() || is_among(who->uid, t->uids, t->users_count) ||
		is_among(who->gid, t->gids, t->groups_count))
		return true;
	for (uint32_t i = 0; i < who->ngroups; i++)
		if (is_among(who->groups[i], t->gids, t->groups_count))
			return true;
	return false;
}

mode_t tenant_socket_mode(const struct site_tenant_config *t)
{
	return t->users_count + t->groups_count > 0 ? 0666 : 0600;
}
