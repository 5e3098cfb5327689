/* SPDX-License-Identifier: Apache-2.0 */
#include "control/site/site_config.h"

#include "control/base/config.h"
#include "control/base/file.h"
#include "control/base/log.h"
#include "control/base/name.h"
#include "control/base/units.h"
#include "control/client/exist_view.h"
#include "control/keys/keys.h"
#include "control/rpc/address.h"
#include "control/site/store.h"
#include "control/site/tenant.h"
#include "control/sources/block_names.h"

#include <strait/wire.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	SECRET_MIN = 16,
	SECRET_MAX = 4096,
	KEYS_DEFAULT = 1000000,
	SOURCE_NAME_MAX = 127,
	MEMORY_MIN = 1 << 20,
};
#define KEYS_MAX       UINT64_C(10000000000)
#define DURATION_MAX   (365 * CONFIG_DAY)
#define EVICTED_MAX_NS (90 * CONFIG_DAY) /* what 24 bits of the memory can tell */

#define STRING(field, type, flags)                                                                 \
	CYAML_FIELD_STRING_PTR(#field, CYAML_FLAG_POINTER | (flags), type, field, 1, 4096)
#define NEEDED   CYAML_FLAG_DEFAULT
#define OPTIONAL CYAML_FLAG_OPTIONAL

static const cyaml_schema_value_t text_value = {
	CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, 1024),
};

static const cyaml_schema_field_t source_fields[] = {
	STRING(name, struct site_source_config, NEEDED),
	STRING(events, struct site_source_config, OPTIONAL),
	STRING(admin, struct site_source_config, OPTIONAL),
	STRING(list_every, struct site_source_config, OPTIONAL),
	STRING(pool, struct site_source_config, OPTIONAL),
	STRING(tenant, struct site_source_config, OPTIONAL),
	STRING(publish, struct site_source_config, OPTIONAL),
	STRING(engine, struct site_source_config, OPTIONAL),
	STRING(replay, struct site_source_config, OPTIONAL),
	STRING(topic, struct site_source_config, OPTIONAL),
	CYAML_FIELD_SEQUENCE("keys", CYAML_FLAG_POINTER | OPTIONAL, struct site_source_config, keys,
		&text_value, 1, 256),
	CYAML_FIELD_SEQUENCE("media", CYAML_FLAG_POINTER | OPTIONAL, struct site_source_config,
		media, &text_value, 1, 16),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t tls_fields[] = {
	STRING(ca, struct site_tls_files, NEEDED),
	STRING(cert, struct site_tls_files, NEEDED),
	STRING(key, struct site_tls_files, NEEDED),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t tenant_fields[] = {
	STRING(name, struct site_tenant_config, NEEDED),
	STRING(socket, struct site_tenant_config, OPTIONAL),
	CYAML_FIELD_SEQUENCE("users", CYAML_FLAG_POINTER | OPTIONAL, struct site_tenant_config,
		users, &text_value, 1, 256),
	CYAML_FIELD_SEQUENCE("groups", CYAML_FLAG_POINTER | OPTIONAL, struct site_tenant_config,
		groups, &text_value, 1, 256),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t source_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct site_source_config, source_fields),
};

static const cyaml_schema_value_t tenant_value = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct site_tenant_config, tenant_fields),
};

static const cyaml_schema_field_t fields[] = {
	STRING(site, struct site_config, NEEDED),
	STRING(secret, struct site_config, NEEDED),
	CYAML_FIELD_SEQUENCE("sources", CYAML_FLAG_POINTER, struct site_config, sources,
		&source_value, 1, SITE_SOURCES_MAX),
	CYAML_FIELD_SEQUENCE("tenants", CYAML_FLAG_POINTER, struct site_config, tenants,
		&tenant_value, 1, STORE_TENANTS),
	CYAML_FIELD_UINT_PTR("keys", CYAML_FLAG_POINTER | OPTIONAL, struct site_config, keys_told),
	STRING(memory, struct site_config, OPTIONAL),
	STRING(max_age, struct site_config, OPTIONAL),
	STRING(negative_for, struct site_config, OPTIONAL),
	STRING(log_level, struct site_config, OPTIONAL),
	STRING(state_dir, struct site_config, OPTIONAL),
	STRING(layouts, struct site_config, OPTIONAL),
	STRING(master, struct site_config, OPTIONAL),
	STRING(evicted_for, struct site_config, OPTIONAL),
	CYAML_FIELD_MAPPING_PTR("tls", CYAML_FLAG_POINTER | OPTIONAL, struct site_config, tls,
		tls_fields),
	CONFIG_FIELD_BOOL("insecure_loopback", OPTIONAL, struct site_config, insecure_loopback),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t schema = {
	CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct site_config, fields),
};

int site_tenant_key(const void *secret, size_t len, const char *tenant, struct digest_key *out)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
	char digest[] = "SHA256", info[300];
	OSSL_PARAM params[4];
	int n = snprintf(info, sizeof(info), "strait digest %s", tenant), ret = -EINVAL;

	if (ctx != NULL && n > 0 && (size_t)n < sizeof(info)) {
		params[0] = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0);
		params[1] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY,
			(void *)(uintptr_t)secret, len);
		params[2] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, (size_t)n);
		params[3] = OSSL_PARAM_construct_end();
		if (EVP_KDF_derive(ctx, out->bytes, sizeof(out->bytes), params) == 1)
			ret = 0;
	}
	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return ret;
}

static int default_to(char **field, const char *value)
{
	if (*field != NULL)
		return 0;
	*field = cyaml_mem(NULL, NULL, strlen(value) + 1);
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

void site_tenant_id(const struct digest_key *key, uint8_t out[static 16])
{
	static const char text[] = "strait tenant id";
	struct digest128 d = digest_of_key(key, text, sizeof(text) - 1);

	memcpy(out, &d.hi, 8);
	memcpy(out + 8, &d.lo, 8);
}

static int tenant_derive(struct site_tenant_config *t, const char *secret, size_t len)
{
	int ret = site_tenant_key(secret, len, t->name, &t->key);

	if (ret == 0)
		site_tenant_id(&t->key, t->id);
	return ret;
}

static int keys_derive(struct site_config *cfg, const char *path, char *err, size_t err_len)
{
	char why[300], *secret;
	size_t len;
	int ret = file_check_private(cfg->secret, why, sizeof(why));

	if (ret < 0)
		return config_fail(err, err_len, path, "secret", "%s", why);
	ret = file_read(cfg->secret, SECRET_MAX, &secret, &len);
	if (ret < 0)
		return config_fail(err, err_len, path, "secret", "%s: %s", cfg->secret,
			strerror(-ret));
	for (unsigned int i = 0; i < cfg->tenants_count && len >= SECRET_MIN && ret == 0; i++)
		ret = tenant_derive(&cfg->tenants[i], secret, len);
	OPENSSL_cleanse(secret, len);
	free(secret);
	if (len < SECRET_MIN)
		return config_fail(err, err_len, path, "secret", "%s has fewer than %d bytes",
			cfg->secret, SECRET_MIN);
	return ret;
}

static const char *const engines[] = { "vllm", "sglang" };

static int check_engine(const struct site_source_config *s, unsigned int i, const char *path,
	char *err, size_t err_len)
{
	bool known = false;
	char where[64];

	for (size_t k = 0; k < sizeof(engines) / sizeof(engines[0]); k++)
		known = known || strcmp(s->engine, engines[k]) == 0;
	snprintf(where, sizeof(where), "sources[%u].engine", i);
	if (!known)
		return config_fail(err, err_len, path, where, "use vllm or sglang");
	if (s->events == NULL || s->admin != NULL || s->pool != NULL || s->publish != NULL)
		return config_fail(err, err_len, path, where,
			"an engine needs events, may have replay, topic, keys, media and tenant, "
			"and nothing else");
	snprintf(where, sizeof(where), "sources[%u].keys", i);
	if (s->keys_count == 0)
		return config_fail(err, err_len, path, where,
			"needed: what the objects of a block are called, such as \"{hash}\"");
	for (unsigned int k = 0; k < s->keys_count; k++)
		if (!block_name_is_valid(s->keys[k]))
			return config_fail(err, err_len, path, where,
				"%s: needs {hash}, may have {group}, and nothing else in braces",
				s->keys[k]);
	return 0;
}

static int check_mooncake(struct site_source_config *s, unsigned int i, const char *path, char *err,
	size_t err_len)
{
	const char *every = s->list_every != NULL ? s->list_every : "10m";
	char where[64];

	snprintf(where, sizeof(where), "sources[%u]", i);
	if (s->events == NULL || s->admin == NULL || s->tenant != NULL || s->publish != NULL)
		return config_fail(err, err_len, path, where,
			"give events and admin of a Mooncake master, or engine and events of an "
			"engine, or pool");
	snprintf(where, sizeof(where), "sources[%u].list_every", i);
	if (config_duration(path, where, every, CONFIG_SECOND, DURATION_MAX, &s->list_every_ns, err,
		    err_len) != 0)
		return -EINVAL;
	if (strncmp(s->admin, "http://", 7) == 0 || strncmp(s->admin, "https://", 8) == 0)
		return 0;
	snprintf(where, sizeof(where), "sources[%u].admin", i);
	return config_fail(err, err_len, path, where, "must begin with http://");
}

/* A Mooncake master, an engine or a pool, with what is theirs. */
static int check_source(struct site_config *cfg, unsigned int i, const char *path, char *err,
	size_t err_len)
{
	struct site_source_config *s = &cfg->sources[i];
	const char *tenant = s->tenant != NULL ? s->tenant : "default";
	char where[64], why[200];

	snprintf(where, sizeof(where), "sources[%u].name", i);
	if (text_check("name", s->name, SOURCE_NAME_MAX, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, where, "%s", why);
	snprintf(where, sizeof(where), "sources[%u]", i);
	for (unsigned int k = 0; k < i; k++)
		if (strcmp(cfg->sources[k].name, s->name) == 0)
			return config_fail(err, err_len, path, where, "source %s is listed twice",
				s->name);
	if (s->engine == NULL &&
		(s->replay != NULL || s->topic != NULL || s->keys != NULL || s->media != NULL))
		return config_fail(err, err_len, path, where,
			"replay, topic, keys and media are for engines: give engine");
	if (s->list_every != NULL && s->admin == NULL)
		return config_fail(err, err_len, path, where,
			"list_every is for Mooncake masters: give admin");
	if (s->engine != NULL) {
		if (check_engine(s, i, path, err, err_len) != 0)
			return -EINVAL;
	} else if (s->pool == NULL) {
		return check_mooncake(s, i, path, err, err_len);
	} else if (s->events != NULL || s->admin != NULL) {
		return config_fail(err, err_len, path, where,
			"a pool has neither events nor admin");
	}
	for (unsigned int k = 0; k < i && s->pool != NULL; k++)
		if (cfg->sources[k].pool != NULL && strcmp(cfg->sources[k].pool, s->pool) == 0)
			return config_fail(err, err_len, path, where,
				"%s is the pool of source %s, too: a pool is of one tenant",
				s->pool, cfg->sources[k].name);
	for (unsigned int k = 0; k < cfg->tenants_count; k++) {
		s->tenant_number = (uint16_t)k;
		if (strcmp(cfg->tenants[k].name, tenant) == 0)
			return 0;
	}
	return config_fail(err, err_len, path, where, "tenant %s is not listed in tenants", tenant);
}

static int check_layouts(const struct site_config *cfg, const char *path, char *err, size_t err_len)
{
	struct keys *keys;
	char why[300];

	if (cfg->layouts == NULL)
		return 0;
	keys = keys_create(cfg->layouts, why, sizeof(why));
	if (keys == NULL)
		return config_fail(err, err_len, path, "layouts", "%s", why);
	keys_destroy(keys);
	return 0;
}

/* Who they are. */
static int check_people(struct site_tenant_config *t, unsigned int i, const char *path, char *err,
	size_t err_len)
{
	const char *bad = NULL;
	char where[64];
	int ret;

	snprintf(where, sizeof(where), "tenants[%u].%s", i,
		t->users_count > 0 ? "users" : "groups");
	if (t->socket == NULL && t->users_count + t->groups_count > 0)
		return config_fail(err, err_len, path, where,
			"is of those who ask over a socket: give socket");
	ret = tenant_resolve(t, &bad);
	if (ret == 0)
		return 0;
	snprintf(where, sizeof(where), "tenants[%u].%s", i, t->gids != NULL ? "groups" : "users");
	return config_fail(err, err_len, path, where,
		"this machine knows no %s of that name or number: %s",
		t->gids != NULL ? "group" : "user", bad != NULL ? bad : strerror(-ret));
}

static int check_tenants(struct site_config *cfg, const char *path, char *err, size_t err_len)
{
	char where[64], why[200];

	for (unsigned int i = 0; i < cfg->tenants_count; i++) {
		struct site_tenant_config *t = &cfg->tenants[i];

		snprintf(where, sizeof(where), "tenants[%u].name", i);
		if (text_check("tenant", t->name, STRAIT_TENANT_BYTES_MAX, why, sizeof(why)) != 0)
			return config_fail(err, err_len, path, where, "%s", why);
		for (unsigned int k = 0; k < i; k++)
			if (strcmp(t->name, cfg->tenants[k].name) == 0)
				return config_fail(err, err_len, path, where,
					"tenant %s is listed twice", t->name);
		snprintf(where, sizeof(where), "tenants[%u].socket", i);
		if (t->socket != NULL &&
			strlen(t->socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
			return config_fail(err, err_len, path, where,
				"a path of a socket has at most %zu bytes",
				sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
		for (unsigned int k = 0; k < i && t->socket != NULL; k++)
			if (cfg->tenants[k].socket != NULL &&
				strcmp(t->socket, cfg->tenants[k].socket) == 0)
				return config_fail(err, err_len, path, where,
					"is that of tenant %s, too", cfg->tenants[k].name);
		if (check_people(t, i, path, err, err_len) != 0)
			return -EINVAL;
	}
	return 0;
}

static int check(struct site_config *cfg, const char *path, char *err, size_t err_len)
{
	enum log_level level;
	char why[200];

	if (name_check("site", cfg->site, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, "site", "%s", why);
	if (units_parse_bytes(cfg->memory, &cfg->memory_bytes, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, "memory", "%s", why);
	if (cfg->memory_bytes < MEMORY_MIN)
		return config_fail(err, err_len, path, "memory", "must be 1M or more");
	if (cfg->keys == 0 || cfg->keys > KEYS_MAX)
		return config_fail(err, err_len, path, "keys", "must be 1 to %" PRIu64, KEYS_MAX);
	if (config_duration(path, "max_age", cfg->max_age, CONFIG_SECOND / 10, DURATION_MAX,
		    &cfg->max_age_ns, err, err_len) != 0)
		return -EINVAL;
	if (config_duration(path, "negative_for", cfg->negative_for, 0, EXIST_NEGATIVE_MAX_NS,
		    &cfg->negative_ns, err, err_len) != 0)
		return -EINVAL;
	if (log_level_parse(cfg->log_level, &level) != 0)
		return config_fail(err, err_len, path, "log_level",
			"use error, warn, info or debug");
	if (config_duration(path, "evicted_for", cfg->evicted_for, CONFIG_SECOND, EVICTED_MAX_NS,
		    &cfg->evicted_ns, err, err_len) != 0)
		return -EINVAL;
	if (check_layouts(cfg, path, err, err_len) != 0)
		return -EINVAL;
	for (unsigned int i = 0; i < cfg->sources_count; i++)
		if (check_source(cfg, i, path, err, err_len) != 0)
			return -EINVAL;
	if (cfg->master != NULL && cfg->insecure_loopback == (cfg->tls != NULL))
		return config_fail(err, err_len, path, "master",
			"give either tls: { ca, cert, key } or insecure_loopback: true");
	if (cfg->master != NULL && cfg->state_dir == NULL)
		return config_fail(err, err_len, path, "master",
			"needs a state_dir: what was evicted must be known after a restart");
	return check_tenants(cfg, path, err, err_len);
}

struct site_config *site_config_load(const char *path, char *err, size_t err_len)
{
	struct site_config *cfg = NULL;
	int ret = config_load(path, &schema, (void **)&cfg, err, err_len);

	if (ret == 0 &&
		(default_to(&cfg->memory, "8G") < 0 || default_to(&cfg->max_age, "30s") < 0 ||
			default_to(&cfg->evicted_for, "1h") < 0 ||
			default_to(&cfg->negative_for, "5s") < 0 ||
			default_to(&cfg->log_level, "info") < 0 ||
			keys_default_to(&cfg->keys_told, KEYS_DEFAULT, &cfg->keys) != 0)) {
		snprintf(err, err_len, "out of memory");
		ret = -ENOMEM;
	}
	if (ret == 0)
		ret = check(cfg, path, err, err_len);
	if (ret == 0)
		ret = keys_derive(cfg, path, err, err_len);
	if (ret == 0)
		return cfg;
	site_config_free(cfg);
	errno = -ret;
	return NULL;
}

struct rpc_tls *site_config_tls(const struct site_config *cfg, char *err, size_t err_len)
{
	struct rpc_tls_config files = { .insecure_loopback = cfg->insecure_loopback };
	const struct rpc_identity *self;
	struct rpc_tls *tls;

	if (cfg->tls != NULL) {
		files.ca = cfg->tls->ca;
		files.cert = cfg->tls->cert;
		files.key = cfg->tls->key;
	}
	snprintf(files.self.site, sizeof(files.self.site), "%s", cfg->site);
	strcpy(files.self.role, "site-master");
	snprintf(files.self.name, sizeof(files.self.name), "%s", cfg->site);
	tls = rpc_tls_create(&files, err, err_len);
	if (tls == NULL)
		return NULL;
	self = rpc_tls_self(tls);
	if (strcmp(self->role, "site-master") == 0 && strcmp(self->site, cfg->site) == 0)
		return tls;
	snprintf(err, err_len,
		"%s is a certificate for role %s of site %s, needed is role site-master of %s",
		files.cert, self->role, self->site, cfg->site);
	rpc_tls_destroy(tls);
	errno = EINVAL;
	return NULL;
}

/* Where sockets are to be, and how what is elsewhere is written. */
static int check_places(const struct site_config *cfg, const char *path, char *err, size_t err_len)
{
	char where[64], why[200], copy[sizeof(((struct sockaddr_un *)0)->sun_path)];

	for (unsigned int i = 0; i < cfg->tenants_count; i++) {
		if (cfg->tenants[i].socket == NULL)
			continue;
		snprintf(copy, sizeof(copy), "%s", cfg->tenants[i].socket);
		snprintf(where, sizeof(where), "tenants[%u].socket", i);
		if (access(dirname(copy), W_OK | X_OK) != 0)
			return config_fail(err, err_len, path, where,
				"the directory of %s cannot be written: %s", cfg->tenants[i].socket,
				strerror(errno));
	}
	for (unsigned int i = 0; i < cfg->sources_count; i++) {
		const struct site_source_config *s = &cfg->sources[i];
		const char *const ends[] = { s->events, s->replay, s->publish };

		snprintf(where, sizeof(where), "sources[%u]", i);
		for (int k = 0; k < 3; k++)
			if (ends[k] != NULL && strncmp(ends[k], "tcp://", 6) != 0 &&
				strncmp(ends[k], "ipc://", 6) != 0)
				return config_fail(err, err_len, path, where,
					"%s is no endpoint like tcp://10.0.0.5:5557", ends[k]);
	}
	if (cfg->master != NULL && address_check(cfg->master, why, sizeof(why)) != 0)
		return config_fail(err, err_len, path, "master", "%s", why);
	return 0;
}

int site_config_check(const struct site_config *cfg, const char *path, char *err, size_t err_len)
{
	struct rpc_tls *tls;
	char why[512];

	if (check_places(cfg, path, err, err_len) != 0)
		return -EINVAL;
	if (cfg->state_dir != NULL && access(cfg->state_dir, W_OK | X_OK) != 0)
		return config_fail(err, err_len, path, "state_dir", "%s: %s", cfg->state_dir,
			strerror(errno));
	if (cfg->master == NULL)
		return 0;
	tls = site_config_tls(cfg, why, sizeof(why));
	if (tls == NULL)
		return config_fail(err, err_len, path, "tls", "%s", why);
	rpc_tls_destroy(tls);
	return 0;
}

void site_config_free(struct site_config *cfg)
{
	if (cfg == NULL)
		return;
	for (unsigned int i = 0; i < cfg->tenants_count; i++) {
		OPENSSL_cleanse(&cfg->tenants[i].key, sizeof(cfg->tenants[i].key));
		tenant_release(&cfg->tenants[i]);
	}
	config_free(&schema, cfg);
}

char *site_config_print(const struct site_config *cfg)
{
	return config_print(&schema, cfg);
}
