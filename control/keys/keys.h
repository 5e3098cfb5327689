/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/digest.h"
#include "control/keys/pattern.h"

/*
 * What a key says of its object: the set it is useful in (the ranks, parts and layers of one
 * block), and whether it is of a layout that the other sites have, too.
 *
 * Forms of keys are data: forms.def, and `forms` of a layouts file before them. How many ranks
 * there are no key but LMCache's tells; layouts do, of the deployment, the same file at all sites:
 *
 *   layouts:
 *     - model: meta-llama/Llama-3.1-70B-Instruct  # of the keys; a * at its end: what begins so
 *       form: vllm                  # vllm, vllm-ascend, sglang, sglang-mla, lmcache or own ones
 *       tp: 8                       # ranks that store; pcp, dcp, pp, groups, layers: 1
 *       parts: [k, v]               # of sglang; absent: k and v, of sglang-mla k
 *       dtype: bfloat16             # where keys tell it; absent: any
 *   forms: ["mine {model}/{hash}/{tp}"]
 *   refuse_others: false            # true: known forms of models that are not listed are refused
 *
 * A key that contradicts its model's layout is refused, and from then on all keys of that model and
 * tenant, until a restart: who stores it is configured in another way, and most keys do not tell
 * (of 16 ranks instead of 8 the first 8 have the names of others' objects). Unknown forms are
 * opaque. One thread.
 */

enum {
	KEYS_WHY_MAX = 256,
	KEYS_FORMS_MAX = 64,
	KEYS_LAYOUTS_MAX = 256,
	KEYS_PARTS_MAX = 64,
	KEYS_TENANTS = 64
};

enum key_verdict {
	KEY_OPAQUE, /* of no form: it stands alone */
	KEY_ALONE,  /* of a form, but of how large a set is not known */
	KEY_MEMBER,
	KEY_REFUSED, /* not to be shipped */
	KEY_JUNK,    /* no KV */
};

struct key_view {
	const char *form; /* NULL: of none */
	struct key_parts parts;
	uint64_t set; /* of KEY_MEMBER */
	uint16_t member, members;
	uint64_t chain; /* the last 64 bits of the hash: what engines tell of it as a number */
};

struct keys;

/** path: a layouts file; NULL: none. NULL + errno, with file and line in err. */
struct keys *keys_create(const char *path, char *err, size_t err_len);
/** The same from text. */
struct keys *keys_create_text(const char *text, char *err, size_t err_len);
/** NULL is ignored. */
void keys_destroy(struct keys *k);

/**
 * tenant: its number, those beyond 64 share one's fate; secret: its digest key, which names sets.
 * why: KEYS_WHY_MAX bytes, "" unless refused or alone; NULL: not wanted.
 */
enum key_verdict keys_judge(struct keys *k, unsigned int tenant, const struct digest_key *secret,
	const void *key, size_t len, struct key_view *out, char *why);
/** Whether it is KEY_JUNK, without a look at anything else. */
bool keys_is_junk(const struct keys *k, const void *key, size_t len);
const char *key_verdict_name(enum key_verdict v);
/**
 * Models, of a tenant each, that turned out to be of another layout, and the reason for the
 * first of them.
 */
unsigned int keys_refused(const struct keys *k, const char **why);
