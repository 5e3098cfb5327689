/* SPDX-License-Identifier: Apache-2.0 */
#include "control/master/master_config.h"

#include "control/base/config.h"
#include "control/base/file.h"
#include "control/base/log.h"
#include "control/base/name.h"
#include "control/base/units.h"
#include "control/master/ledger.h"
#include "control/master/local_sites.h"
#include "control/rpc/address.h"

#include <strait/wire.h>

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEYS_DEFAULT = 1000000 };
#define KEYS_MAX       UINT64_C(10000000000)
#define DURATION_MAX   (365 * CONFIG_DAY)
#define EVICTED_MAX_NS (90 * CONFIG_DAY) /* what 24 bits of the memory can tell */

#define STRING(field, type, flags)                                                                 \
	CYAML_FIELD_STRING_PTR(#field, CYAML_FLAG_POINTER | (flags), type, field, 1, 4096)
#define NEEDED   CYAML_FLAG_DEFAULT
#define OPTIONAL CYAML_FLAG_OPTIONAL

static const cyaml_schema_field_t tls_fields[] = {
	STRING(ca, struct master_tls_files, NEEDED),
	STRING(cert, struct master_tls_files, NEEDED),
	STRING(key, struct master_tls_files, NEEDED),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t text_value = {
	CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, 255),
};

static const cyaml_schema_field_t site_fields[] = {
	STRING(name, struct master_site_config, NEEDED),
	STRING(label, struct master_site_config, OPTIONAL),
	STRING(cap, struct master_site_config, OPTIONAL),
	STRING(follow, struct master_site_config, OPTIONAL),
	CYAML_FIELD_SEQUENCE("pools_at", CYAML_FLAG_POINTER | OPTIONAL, struct master_site_config,
		pools_at, &text_value, 1, 64),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t link_fields[] = {
	STRING(from, struct master_link_config, NEEDED),
	STRING(to, struct master_link_config, NEEDED),
	STRING(cap, struct master_link_config, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t policy_fields[] = {
	STRING(from, struct master_policy_config, NEEDED),
	STRING(to, struct master_policy_config, NEEDED),
	STRING(allow, struct master_policy_config, OPTIONAL),
	STRING(class, struct master_policy_config, OPTIONAL),
	STRING(profile, struct master_policy_config, OPTIONAL),
	STRING(cap, struct master_policy_config, OPTIONAL),
	CYAML_FIELD_UINT("after", OPTIONAL, struct master_policy_config, after),
	STRING(least, struct master_policy_config, OPTIONAL),
	STRING(most, struct master_policy_config, OPTIONAL),
	STRING(ttl, struct master_policy_config, OPTIONAL),
	STRING(pause_below, struct master_policy_config, OPTIONAL),
	CYAML_FIELD_SEQUENCE("tenants", CYAML_FLAG_POINTER | OPTIONAL, struct master_policy_config,
		tenants, &text_value, 1, 64),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t policy_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct master_policy_config, policy_fields),
};

static const cyaml_schema_value_t site_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct master_site_config, site_fields),
};

static const cyaml_schema_value_t link_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct master_link_config, link_fields),
};

static const cyaml_schema_field_t fields[] = {
	STRING(listen, struct master_config, OPTIONAL),
	STRING(ledger, struct master_config, NEEDED),
	CYAML_FIELD_MAPPING_PTR("tls", CYAML_FLAG_POINTER | OPTIONAL, struct master_config, tls,
		tls_fields),
	CONFIG_FIELD_BOOL("insecure_loopback", OPTIONAL, struct master_config, insecure_loopback),
	CYAML_FIELD_SEQUENCE("sites", CYAML_FLAG_POINTER | OPTIONAL, struct master_config, sites,
		&site_value, 0, 65536),
	CYAML_FIELD_SEQUENCE("links", CYAML_FLAG_POINTER | OPTIONAL, struct master_config, links,
		&link_value, 0, 65536),
	CYAML_FIELD_SEQUENCE("policies", CYAML_FLAG_POINTER | OPTIONAL, struct master_config,
		policies, &policy_value, 0, 1024),
	CYAML_FIELD_UINT_PTR("keys", CYAML_FLAG_POINTER | OPTIONAL, struct master_config,
		keys_told),
	STRING(evicted_for, struct master_config, OPTIONAL),
	STRING(forget_after, struct master_config, OPTIONAL),
	STRING(secret, struct master_config, OPTIONAL),
	STRING(report_interval, struct master_config, OPTIONAL),
	STRING(keep_finished, struct master_config, OPTIONAL),
	STRING(edge_lost, struct master_config, OPTIONAL),
	STRING(open_order_idle, struct master_config, OPTIONAL),
	STRING(log_level, struct master_config, OPTIONAL),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct master_config, fields),
};

static int default_to(char **field, const char *value)
{
	if (*field == NULL)
		*field = cyaml_mem(NULL, NULL, strlen(value) + 1);
	else
		return 0;
	if (*field == NULL)
		return -ENOMEM;
	strcpy(*field, value);
	return 0;
}

static int keys_default_to(uint64_t **told, uint64_t n, uint64_t *keys)
{
	if (*told == NULL) {
		*told = cyaml_mem(NULL, NULL, sizeof(**told));
		if (*told == NULL)
			return -ENOMEM;
		**told = n;
	}
	*keys = **told;
	return 0;
}

static const struct master_site_config *find_site(const struct master_config *cfg, const char *name)
{
	for (unsigned int i = 0; i < cfg->sites_count; i++)
		if (strcmp(cfg->sites[i].name, name) == 0)
			return &cfg->sites[i];
	return NULL;
}

static int check_cap(const char *cap, uint64_t *cap_bps, const char *path, const char *where,
	char *err, size_t err_len)
{
	char why[200];

	if (cap == NULL)
		return 0;
	if (units_parse_rate(cap, cap_bps, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, where, "%s", why);
	if (*cap_bps == 0)
		return config_fail(err, err_len, path, where, "0 would mean no cap; leave it out");
	return 0;
}

/* Of an entry "site/edge". */
static int check_pools_at(const struct master_site_config *s, unsigned int i, const char *path,
	char *err, size_t err_len)
{
	char where[64], site[256], why[200];

	for (unsigned int k = 0; k < s->pools_at_count; k++) {
		const char *name = s->pools_at[k], *slash = strchr(name, '/');

		snprintf(where, sizeof(where), "sites[%u].pools_at[%u]", i, k);
		snprintf(site, sizeof(site), "%.*s", slash != NULL ? (int)(slash - name) : 0, name);
		if (slash == NULL || name_check("site", site, why, sizeof(why)) != 0 ||
			name_check("edge", slash + 1, why, sizeof(why)) != 0)
			return config_fail(err, err_len, path, where,
				"\"%s\" is not an edge of another site like a/a1", name);
		if (strcmp(site, s->name) == 0)
			return config_fail(err, err_len, path, where,
				"%s is an edge of site %s itself, which has its pools anyway; list "
				"those of other sites",
				name, site);
		for (unsigned int n = 0; n < k; n++)
			if (strcmp(s->pools_at[n], name) == 0)
				return config_fail(err, err_len, path, where, "%s is listed twice",
					name);
	}
	return 0;
}

static int check_sites(struct master_config *cfg, const char *path, char *err, size_t err_len)
{
	char where[64], why[200];

	for (unsigned int i = 0; i < cfg->sites_count; i++) {
		struct master_site_config *s = &cfg->sites[i];

		snprintf(where, sizeof(where), "sites[%u].name", i);
		if (name_check("site", s->name, why, sizeof(why)) != 0)
			return config_fail(err, err_len, path, where, "%s", why);
		if (find_site(cfg, s->name) != s)
			return config_fail(err, err_len, path, where, "site %s is listed twice",
				s->name);
		snprintf(where, sizeof(where), "sites[%u].label", i);
		if (s->label != NULL &&
			text_check("label", s->label, MASTER_LABEL_MAX, why, sizeof(why)) != 0)
			return config_fail(err, err_len, path, where, "%s", why);
		snprintf(where, sizeof(where), "sites[%u].cap", i);
		if (check_cap(s->cap, &s->cap_bps, path, where, err, err_len) != 0 ||
			check_pools_at(s, i, path, err, err_len) != 0)
			return -EINVAL;
	}
	return 0;
}

static int check_links(struct master_config *cfg, const char *path, char *err, size_t err_len)
{
	char where[64], why[200];

	for (unsigned int i = 0; i < cfg->links_count; i++) {
		struct master_link_config *l = &cfg->links[i];
		const char *const ends[] = { l->from, l->to };

		for (int e = 0; e < 2; e++) {
			snprintf(where, sizeof(where), "links[%u].%s", i, e == 0 ? "from" : "to");
			if (name_check("site", ends[e], why, sizeof(why)) != 0)
				return config_fail(err, err_len, path, where, "%s", why);
		}
		if (strcmp(l->from, l->to) == 0)
			return config_fail(err, err_len, path, where,
				"a link joins two different sites");
		for (unsigned int k = 0; k < i; k++)
			if (strcmp(cfg->links[k].from, l->from) == 0 &&
				strcmp(cfg->links[k].to, l->to) == 0)
				return config_fail(err, err_len, path, where,
					"the link from %s to %s is listed twice", l->from, l->to);
		snprintf(where, sizeof(where), "links[%u].cap", i);
		if (check_cap(l->cap, &l->cap_bps, path, where, err, err_len) != 0)
			return -EINVAL;
	}
	return 0;
}

bool master_policy_means(const char *pattern, const char *site, const char *label)
{
	return strcmp(pattern, "*") == 0 || strcmp(pattern, site) == 0 ||
		(label[0] != '\0' && strcmp(pattern, label) == 0);
}

static int check_size(const char *text, uint64_t *out, const char *path, const char *where,
	char *err, size_t err_len)
{
	char why[200];

	if (text == NULL || units_parse_bytes(text, out, why, sizeof(why)) == 0)
		return 0;
	return config_fail(err, err_len, path, where, "%s", why);
}

static int check_policy(struct master_policy_config *p, unsigned int i, const char *path, char *err,
	size_t err_len)
{
	const char *const ends[] = { p->from, p->to };
	char where[64], why[200];

	for (int e = 0; e < 2; e++) {
		snprintf(where, sizeof(where), "policies[%u].%s", i, e == 0 ? "from" : "to");
		if (text_check("site or label", ends[e], MASTER_LABEL_MAX, why, sizeof(why)) != 0)
			return config_fail(err, err_len, path, where, "%s", why);
	}
	p->shipping_class = STRAIT_CLASS_BULK;
	snprintf(where, sizeof(where), "policies[%u].allow", i);
	p->allowed = p->allow == NULL || strcmp(p->allow, "true") == 0;
	if (!p->allowed && strcmp(p->allow, "false") != 0)
		return config_fail(err, err_len, path, where, "use true or false");
	snprintf(where, sizeof(where), "policies[%u].class", i);
	if (p->class != NULL && strcmp(p->class, "normal") == 0)
		p->shipping_class = STRAIT_CLASS_NORMAL;
	else if (p->class != NULL && strcmp(p->class, "bulk") != 0)
		return config_fail(err, err_len, path, where,
			"use normal or bulk; urgent is what somebody waits for");
	snprintf(where, sizeof(where), "policies[%u].after", i);
	if (p->after > 255)
		return config_fail(err, err_len, path, where, "at most 255");
	snprintf(where, sizeof(where), "policies[%u].profile", i);
	p->lan = p->profile != NULL && strcmp(p->profile, "lan") == 0;
	if (p->profile != NULL && !p->lan && strcmp(p->profile, "wan") != 0)
		return config_fail(err, err_len, path, where,
			"use lan or wan; left out, it is lan where both sites have one label");
	snprintf(where, sizeof(where), "policies[%u].cap", i);
	if (check_cap(p->cap, &p->cap_bps, path, where, err, err_len) != 0)
		return -EINVAL;
	snprintf(where, sizeof(where), "policies[%u].least", i);
	if (check_size(p->least, &p->least_bytes, path, where, err, err_len) != 0)
		return -EINVAL;
	snprintf(where, sizeof(where), "policies[%u].most", i);
	if (check_size(p->most, &p->most_bytes, path, where, err, err_len) != 0)
		return -EINVAL;
	if (p->most != NULL && p->most_bytes == 0)
		return config_fail(err, err_len, path, where,
			"0 would let nothing pass; leave it out, or say allow: false");
	if (p->least_bytes > UINT32_MAX || p->most_bytes > UINT32_MAX ||
		(p->most != NULL && p->most_bytes < p->least_bytes))
		return config_fail(err, err_len, path, where, "must be least to 4G");
	snprintf(where, sizeof(where), "policies[%u].ttl", i);
	p->ttl_by_age = p->ttl != NULL && strcmp(p->ttl, "eviction-age") == 0;
	if (!p->ttl_by_age &&
		config_duration(path, where, p->ttl, CONFIG_SECOND / 1000, DURATION_MAX, &p->ttl_ns,
			err, err_len) != 0)
		return -EINVAL;
	snprintf(where, sizeof(where), "policies[%u].pause_below", i);
	return config_duration(path, where, p->pause_below, 0, DURATION_MAX, &p->pause_below_ns,
		err, err_len);
}

static int check_policies(struct master_config *cfg, const char *path, char *err, size_t err_len)
{
	char why[200];

	for (unsigned int i = 0; i < cfg->policies_count; i++)
		if (check_policy(&cfg->policies[i], i, path, err, err_len) != 0)
			return -EINVAL;
	if (config_duration(path, "evicted_for", cfg->evicted_for, CONFIG_SECOND, EVICTED_MAX_NS,
		    &cfg->evicted_ns, err, err_len) != 0 ||
		config_duration(path, "forget_after", cfg->forget_after, CONFIG_SECOND,
			DURATION_MAX, &cfg->forget_after_ns, err, err_len) != 0)
		return -EINVAL;
	if (cfg->keys == 0 || cfg->keys > KEYS_MAX)
		return config_fail(err, err_len, path, "keys", "must be 1 to %" PRIu64, KEYS_MAX);
	if (cfg->secret != NULL && file_check_private(cfg->secret, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, "secret", "%s", why);
	return 0;
}

static int check_values(struct master_config *cfg, const char *path, char *err, size_t err_len)
{
	enum log_level level;
	uint64_t ns;
	char why[200];

	if (units_parse_duration(cfg->report_interval, &ns, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, "report_interval", "%s", why);
	if (ns < 100000000 || ns > 60000000000)
		return config_fail(err, err_len, path, "report_interval", "must be 100ms to 60s");
	cfg->report_ms = ns / 1000000;
	if (units_parse_duration(cfg->keep_finished, &ns, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, "keep_finished", "%s", why);
	cfg->keep_finished_ms = ns / 1000000;
	if (units_parse_duration(cfg->edge_lost, &ns, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, "edge_lost", "%s", why);
	if (ns < 1000000000)
		return config_fail(err, err_len, path, "edge_lost", "must be 1s or more");
	cfg->edge_lost_ms = ns / 1000000;
	if (units_parse_duration(cfg->open_order_idle, &ns, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, "open_order_idle", "%s", why);
	if (ns < 1000000000)
		return config_fail(err, err_len, path, "open_order_idle", "must be 1s or more");
	cfg->open_idle_ms = ns / 1000000;
	if (log_level_parse(cfg->log_level, &level) != 0)
		return config_fail(err, err_len, path, "log_level",
			"use error, warn, info or debug");
	if (cfg->insecure_loopback == (cfg->tls != NULL))
		return config_fail(err, err_len, path, cfg->tls != NULL ? "insecure_loopback" : "",
			"give either tls: { ca, cert, key } or insecure_loopback: true");
	if (address_check(cfg->listen, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, "listen", "%s", why);
	return 0;
}

struct master_config *master_config_load(const char *path, char *err, size_t err_len)
{
	struct master_config *cfg = NULL;
	int rc = config_load(path, &schema, (void **)&cfg, err, err_len);

	if (rc == 0 &&
		(default_to(&cfg->listen, "0.0.0.0:7400") != 0 ||
			default_to(&cfg->report_interval, "1s") != 0 ||
			default_to(&cfg->keep_finished, "7d") != 0 ||
			default_to(&cfg->edge_lost, "15s") != 0 ||
			default_to(&cfg->open_order_idle, "10m") != 0 ||
			default_to(&cfg->evicted_for, "1h") != 0 ||
			default_to(&cfg->forget_after, "1h") != 0 ||
			default_to(&cfg->log_level, "info") != 0 ||
			keys_default_to(&cfg->keys_told, KEYS_DEFAULT, &cfg->keys) != 0)) {
		snprintf(err, err_len, "out of memory");
		rc = -ENOMEM;
	}
	if (rc == 0)
		rc = check_values(cfg, path, err, err_len);
	if (rc == 0)
		rc = check_sites(cfg, path, err, err_len);
	if (rc == 0)
		rc = check_links(cfg, path, err, err_len);
	if (rc == 0)
		rc = check_policies(cfg, path, err, err_len);
	if (rc == 0)
		return cfg;
	master_config_free(cfg);
	errno = -rc;
	return NULL;
}

static int check_ledger(const struct master_config *cfg, const char *path, char *err,
	size_t err_len)
{
	char copy[PATH_MAX];
	struct stat st;

	if (stat(cfg->ledger, &st) == 0) {
		if (!S_ISREG(st.st_mode))
			return config_fail(err, err_len, path, "ledger", "%s is not a regular file",
				cfg->ledger);
		if (access(cfg->ledger, R_OK | W_OK) != 0)
			return config_fail(err, err_len, path, "ledger", "%s: %s", cfg->ledger,
				strerror(errno));
	}
	if ((size_t)snprintf(copy, sizeof(copy), "%s", cfg->ledger) >= sizeof(copy))
		return config_fail(err, err_len, path, "ledger", "path too long");
	/* SQLite keeps its log beside the file, so the directory counts in any case */
	if (access(dirname(copy), W_OK | X_OK) != 0)
		return config_fail(err, err_len, path, "ledger",
			"the directory of %s cannot be written: %s", cfg->ledger, strerror(errno));
	return 0;
}

static int check_ends(const struct master_config *cfg, const char *path, char *err, size_t err_len)
{
	char where[64];

	for (unsigned int i = 0; i < cfg->links_count; i++) {
		const char *const ends[] = { cfg->links[i].from, cfg->links[i].to };

		for (int e = 0; e < 2; e++) {
			if (find_site(cfg, ends[e]) != NULL ||
				ledger_peek_site(cfg->ledger, ends[e], false))
				continue;
			snprintf(where, sizeof(where), "links[%u].%s", i, e == 0 ? "from" : "to");
			return config_fail(err, err_len, path, where,
				"unknown site %s: list it in sites, or add it first with "
				"straitctl site add %s",
				ends[e], ends[e]);
		}
	}
	return 0;
}

/* What a policy names may come with straitctl site add, label and all, so the ledger counts. */
static int check_policy_ends(const struct master_config *cfg, const char *path, char *err,
	size_t err_len)
{
	char where[64];

	for (unsigned int i = 0; i < cfg->policies_count; i++) {
		const char *const ends[] = { cfg->policies[i].from, cfg->policies[i].to };

		for (int e = 0; e < 2; e++) {
			bool known = ledger_peek_site(cfg->ledger, ends[e], true);

			for (unsigned int k = 0; k < cfg->sites_count && !known; k++)
				known = master_policy_means(ends[e], cfg->sites[k].name,
					cfg->sites[k].label != NULL ? cfg->sites[k].label : "");
			if (known || strcmp(ends[e], "*") == 0)
				continue;
			snprintf(where, sizeof(where), "policies[%u].%s", i,
				e == 0 ? "from" : "to");
			return config_fail(err, err_len, path, where,
				"%s is neither a site nor a site's label: list it in sites, or "
				"add it first with straitctl site add",
				ends[e]);
		}
	}
	return 0;
}

static int check_pools_sites(const struct master_config *cfg, const char *path, char *err,
	size_t err_len)
{
	char where[64], site[256];

	for (unsigned int i = 0; i < cfg->sites_count; i++) {
		for (unsigned int k = 0; k < cfg->sites[i].pools_at_count; k++) {
			const char *name = cfg->sites[i].pools_at[k];

			snprintf(site, sizeof(site), "%.*s", (int)strcspn(name, "/"), name);
			if (find_site(cfg, site) != NULL ||
				ledger_peek_site(cfg->ledger, site, false))
				continue;
			snprintf(where, sizeof(where), "sites[%u].pools_at[%u]", i, k);
			return config_fail(err, err_len, path, where, "unknown site %s", site);
		}
	}
	return 0;
}

static int check_followed(const struct master_config *cfg, const char *path, char *err,
	size_t err_len)
{
	char where[64], why[512];

	for (unsigned int i = 0; i < cfg->sites_count; i++) {
		const struct master_site_config *s = &cfg->sites[i];
		struct site_config *site;

		if (s->follow == NULL)
			continue;
		site = local_site_config(s->follow, s->name, why, sizeof(why));
		if (site != NULL && site_config_check(site, s->follow, why, sizeof(why)) == 0) {
			site_config_free(site);
			continue;
		}
		site_config_free(site);
		snprintf(where, sizeof(where), "sites[%u].follow", i);
		return config_fail(err, err_len, path, where, "%s", why);
	}
	return 0;
}

struct rpc_tls *master_config_tls(const struct master_config *cfg, char *err, size_t err_len)
{
	struct rpc_tls_config files = { .insecure_loopback = cfg->insecure_loopback };
	struct rpc_tls *tls;

	if (cfg->tls != NULL) {
		files.ca = cfg->tls->ca;
		files.cert = cfg->tls->cert;
		files.key = cfg->tls->key;
	}
	strcpy(files.self.site, "-");
	strcpy(files.self.role, "master");
	strcpy(files.self.name, "master");
	tls = rpc_tls_create(&files, err, err_len);
	if (tls == NULL || strcmp(rpc_tls_self(tls)->role, "master") == 0)
		return tls;
	snprintf(err, err_len, "%s is a certificate for role %s, a master needs role master",
		files.cert, rpc_tls_self(tls)->role);
	rpc_tls_destroy(tls);
	errno = EINVAL;
	return NULL;
}

int master_config_check(const struct master_config *cfg, const char *path, char *err,
	size_t err_len)
{
	char why[512];
	struct rpc_tls *tls = master_config_tls(cfg, why, sizeof(why));
	int rc;

	if (tls == NULL)
		return config_fail(err, err_len, path, "tls", "%s", why);
	rpc_tls_destroy(tls);
	rc = check_ledger(cfg, path, err, err_len);
	if (rc == 0)
		rc = check_followed(cfg, path, err, err_len);
	if (rc == 0)
		rc = check_pools_sites(cfg, path, err, err_len);
	if (rc == 0)
		rc = check_policy_ends(cfg, path, err, err_len);
	return rc == 0 ? check_ends(cfg, path, err, err_len) : rc;
}

void master_config_free(struct master_config *cfg)
{
	config_free(&schema, cfg);
}

char *master_config_print(const struct master_config *cfg)
{
	return config_print(&schema, cfg);
}
