/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cyaml/cyaml.h>

#include <stddef.h>
#include <stdint.h>

/*
 * YAML configuration through a libcyaml schema. Unknown keys, wrong types, missing keys, aliases
 * and a second value for one key are errors, and every error names file and line:
 *
 *   /etc/strait/master.yaml:7: unexpected key "lissten"
 *
 * So are collections within 32 others: time to read them would grow with the square.
 *
 * Values with units are loaded as strings and parsed afterwards; config_fail() gives such a later
 * error the line of the value it is about. Any thread; files up to 1 MiB.
 */

/**
 * A bool of a mapping. CYAML_FIELD_BOOL takes any word but a few for true, "flase" too; here only
 * true, false, yes, no, on and off, in the three ways of YAML 1.1 to write them, are accepted.
 */
#define CONFIG_FIELD_BOOL(_key, _flags, _structure, _member)                                       \
	CYAML_FIELD_ENUM(_key, (_flags) | CYAML_FLAG_STRICT, _structure, _member, config_bools,    \
		CONFIG_BOOLS)
enum { CONFIG_BOOLS = 18 };
extern const cyaml_strval_t config_bools[CONFIG_BOOLS];

/**
 * Load path into a new structure. 0 and *out (free with config_free()), or -errno: -ENOENT,
 * -EACCES, -EINVAL, -ENOMEM, with the reason in err.
 */
int config_load(const char *path, const struct cyaml_schema_value *schema, void **out, char *err,
	size_t err_len);
/** The same from memory; name stands for the file in errors. */
int config_load_text(const char *name, const char *text, size_t len,
	const struct cyaml_schema_value *schema, void **out, char *err, size_t err_len);
void config_free(const struct cyaml_schema_value *schema, void *data);

/**
 * Line of a value, 1-based: config_line(path, "links[1].cap"). A key that is not there gives the
 * line of what should hold it; 0 if even the file cannot be read.
 */
unsigned int config_line(const char *path, const char *where);

/** Write "<path>:<line of where>: <message>" into err and return -EINVAL. */
int config_fail(char *err, size_t err_len, const char *path, const char *where, const char *fmt,
	...) __attribute__((format(printf, 5, 6)));

/**
 * A duration between these bounds, both included; text NULL leaves *out as it is. 0 or what
 * config_fail() gives. Sums of a few with a time of the clock must not overflow: a most of some
 * years is enough for anybody.
 */
int config_duration(const char *path, const char *where, const char *text, uint64_t least_ns,
	uint64_t most_ns, uint64_t *out, char *err, size_t err_len);
#define CONFIG_SECOND UINT64_C(1000000000)
#define CONFIG_DAY    (86400 * CONFIG_SECOND)

/** The configuration as YAML text, for --print-effective-config. malloc'd; NULL + errno. */
char *config_print(const struct cyaml_schema_value *schema, const void *data);
