/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/local_sites.h"

#include "control/base/log.h"
#include "control/master/master.h"
#include "control/site/node.h"
#include "control/site/uplink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct local_site {
	LIST_ENTRY(local_site) entry;
	struct local_sites *all;
	char *path;
	struct site_config *cfg;
	struct rpc_tls *tls; /* of the site's end */
	struct site_node *node;
	struct uplink *uplink;
};

struct local_sites {
	struct master *master;
	struct rpc_tls *tls; /* of our ends */
	LIST_HEAD(, local_site) list;
};

struct site_config *local_site_config(const char *path, const char *site, char *err, size_t err_len)
{
	struct site_config *cfg = site_config_load(path, err, err_len);

	if (cfg == NULL)
		return NULL;
	if (strcmp(cfg->site, site) != 0)
		snprintf(err, err_len, "%s is of site %s, not %s", path, cfg->site, site);
	else if (cfg->master != NULL || cfg->tls != NULL)
		snprintf(err, err_len,
			"%s: master and tls are for a site master of its own; leave them out here",
			path);
	else if (cfg->state_dir == NULL)
		snprintf(err, err_len,
			"%s: needs a state_dir: what was evicted must be known after a restart",
			path);
	else
		return cfg;
	site_config_free(cfg);
	errno = EINVAL;
	return NULL;
}

static struct rpc_tls *tls_of(const char *role, const char *site, const char *name, char *err,
	size_t err_len)
{
	struct rpc_tls_config cfg = { .insecure_loopback = true };

	snprintf(cfg.self.site, sizeof(cfg.self.site), "%s", site);
	snprintf(cfg.self.role, sizeof(cfg.self.role), "%s", role);
	snprintf(cfg.self.name, sizeof(cfg.self.name), "%s", name);
	return rpc_tls_create(&cfg, err, err_len);
}

static struct rpc_conn *pair_connect(void *ctx, const struct rpc_handler *h, void *h_ctx)
{
	struct local_site *s = ctx;
	struct master *m = s->all->master;

	return rpc_pair(m->base, s->tls, h, h_ctx, s->all->tls, &client_handler, m);
}

static void stop(struct local_site *s)
{
	LIST_REMOVE(s, entry);
	uplink_destroy(s->uplink);
	rpc_tls_destroy(s->tls); /* the other end learns that it is closed */
	site_node_destroy(s->node);
	site_config_free(s->cfg);
	free(s->path);
	free(s);
}

static int start(struct local_sites *all, const struct master_site_config *c)
{
	struct local_site *s = calloc(1, sizeof(*s));
	char err[512] = "out of memory";
	int rc = -EINVAL;

	if (s == NULL)
		return -ENOMEM;
	LIST_INSERT_HEAD(&all->list, s, entry);
	s->all = all;
	s->path = strdup(c->follow);
	s->cfg = s->path != NULL ? local_site_config(c->follow, c->name, err, sizeof(err)) : NULL;
	if (s->cfg != NULL)
		s->tls = tls_of("site-master", c->name, c->name, err, sizeof(err));
	if (s->tls != NULL)
		s->node = site_node_create(all->master->base, s->cfg, err, sizeof(err));
	if (s->node != NULL)
		s->uplink = uplink_create(all->master->base, s->node, pair_connect, s);
	if (s->uplink != NULL) {
		log_info("site", "followed here site=%s sources=%u tenants=%u", s->cfg->site,
			s->cfg->sources_count, s->cfg->tenants_count);
		return 0;
	}
	log_error("site", "cannot follow site=%s error=%s", c->name, err);
	stop(s);
	return rc;
}

static const struct master_site_config *configured(const struct master_config *cfg,
	const struct local_site *s)
{
	for (unsigned int i = 0; i < cfg->sites_count; i++)
		if (cfg->sites[i].follow != NULL && strcmp(cfg->sites[i].follow, s->path) == 0 &&
			strcmp(cfg->sites[i].name, s->cfg->site) == 0)
			return &cfg->sites[i];
	return NULL;
}

int local_sites_configure(struct master *m)
{
	struct local_sites *all = m->locals;
	struct local_site *s, *next;
	int rc = 0;

	for (s = LIST_FIRST(&all->list); s != NULL; s = next) {
		next = LIST_NEXT(s, entry);
		if (configured(m->cfg, s) != NULL)
			continue;
		log_info("site", "not followed here any more site=%s", s->cfg->site);
		stop(s);
	}
	for (unsigned int i = 0; i < m->cfg->sites_count; i++) {
		const struct master_site_config *c = &m->cfg->sites[i];
		int one = 0;

		if (c->follow == NULL)
			continue;
		LIST_FOREACH(s, &all->list, entry)
			if (configured(m->cfg, s) == c)
				break;
		if (s == NULL)
			one = start(all, c);
		rc = rc == 0 ? one : rc;
	}
	return rc;
}

int local_sites_create(struct master *m)
{
	struct local_sites *all = calloc(1, sizeof(*all));
	char err[200];

	if (all == NULL)
		return -ENOMEM;
	m->locals = all;
	all->master = m;
	LIST_INIT(&all->list);
	all->tls = tls_of("master", "-", "master", err, sizeof(err));
	if (all->tls != NULL)
		return local_sites_configure(m);
	log_error("site", "cannot follow sites: %s", err);
	return -ENOMEM;
}

void local_sites_destroy(struct master *m)
{
	struct local_site *s;

	if (m->locals == NULL)
		return;
	while ((s = LIST_FIRST(&m->locals->list)) != NULL)
		stop(s);
	rpc_tls_destroy(m->locals->tls);
	free(m->locals);
	m->locals = NULL;
}
