/* SPDX-License-Identifier: Apache-2.0 */
#include "control/ctl/ctl.h"

#define END                                                                                        \
	{                                                                                          \
		NULL, NULL, 0, NULL                                                                \
	}

const struct ctl_option ctl_global_options[] = {
	{ "master", "HOST:PORT", 'm', "the master (env STRAIT_MASTER; 127.0.0.1:7400)" },
	{ "tls-dir", "DIR", 0, "take ca.pem, operator.pem and operator.key from DIR" },
	{ "tls-name", "NAME", 0, "with --tls-dir: NAME.pem and NAME.key instead" },
	{ "ca", "FILE", 0, "CA certificate (env STRAIT_CA)" },
	{ "cert", "FILE", 0, "own certificate, role operator (env STRAIT_CERT)" },
	{ "key", "FILE", 0, "its private key (env STRAIT_KEY)" },
	{ "insecure-loopback", NULL, 0, "no TLS; for a master in that mode, in 127.0.0.0/8" },
	{ "timeout", "TIME", 0, "give up after TIME, like 5s (10s; watching: never)" },
	{ "output", "json|table", 'o', "what to print (table)" },
	{ "help", NULL, 'h', "this help" },
	{ "version", NULL, 0, "print the version" },
	END,
};

static const struct ctl_option site_add[] = {
	{ "label", "TEXT", 0, "sites with one label are near each other" },
	{ "cap", "RATE", 0, "at most, for each link of the site, like 10G" },
	END,
};

static const struct ctl_option order_submit[] = {
	{ "from", "SITE", 0, "where the objects are" },
	{ "to", "SITE", 0, "where they shall be" },
	{ "class", "CLASS", 0, "urgent, normal (default) or bulk" },
	{ "deadline", "TIME", 0, "from now, like 30s; what is later has failed" },
	{ "bytes", "SIZE", 0, "of all objects: a deadline too near is refused at once" },
	{ "object", "KEY", 'k', "an object, repeatable; also as arguments" },
	{ "keys-file", "FILE", 0, "keys from FILE (- is standard input), one a line" },
	{ "null", NULL, '0', "keys in the file end with a NUL byte, not a line" },
	{ "hex", NULL, 0, "keys are hexadecimal" },
	{ "tenant", "NAME", 0, "tenant of all the keys" },
	{ "idempotency-key", "TEXT", 0, "the same text gives the same order again" },
	{ "open", NULL, 0, "more objects come with order append, until order seal" },
	{ "wait", NULL, 'w', "wait until the order has finished, with progress" },
	END,
};

static const struct ctl_option order_append[] = {
	{ "number", "N", 'n', "of the append, from 1: sent again, it is taken once" },
	{ "object", "KEY", 'k', "an object, repeatable; also as arguments" },
	{ "keys-file", "FILE", 0, "keys from FILE (- is standard input), one a line" },
	{ "null", NULL, '0', "keys in the file end with a NUL byte, not a line" },
	{ "hex", NULL, 0, "keys are hexadecimal" },
	{ "tenant", "NAME", 0, "tenant of all the keys" },
	END,
};

static const struct ctl_option order_seal[] = {
	{ "wait", NULL, 'w', "wait until the order has finished, with progress" },
	END,
};

static const struct ctl_option order_list[] = {
	{ "limit", "N", 'n', "the newest N (100)" },
	END,
};

static const struct ctl_option order_show[] = {
	{ "objects", NULL, 0, "every object with its status" },
	END,
};

static const struct ctl_option commits_options[] = {
	{ "follow", NULL, 'f', "go on with what arrives from now on" },
	{ "since", "PLACE", 0, "after this one, like 3f2a91bc/17, or first" },
	{ "from", "SITE", 0, "only from there" },
	{ "to", "SITE", 0, "only to there" },
	{ "label", "TEXT", 0, "only to sites of this label" },
	{ "tenant", "NAME", 0, "only of this tenant" },
	{ "class", "CLASS", 0, "only urgent, normal or bulk" },
	{ "order", "ID", 0, "only of this order" },
	{ "prefix", "KEY", 0, "only keys that begin so" },
	{ "hex", NULL, 0, "the prefix is hexadecimal" },
	{ "only", "objects|orders", 0, "objects that are there, or orders that ended" },
	{ "count", "N", 'n', "no more than N" },
	END,
};

static const struct ctl_option pool_options[] = {
	{ "pool", "FILE", 'p', "the pool's file" },
	{ "hex", NULL, 0, "keys are hexadecimal" },
	END,
};

static const struct ctl_option exist_options[] = {
	{ "pool", "FILE", 'p', "the pool's file" },
	{ "socket", "FILE", 's', "or a site master's socket: anywhere in the site" },
	{ "hex", NULL, 0, "keys are hexadecimal" },
	END,
};

static const struct ctl_option locate_options[] = {
	{ "tenant", "NAME", 0, "tenant of all the keys (default)" },
	{ "hex", NULL, 0, "keys are hexadecimal" },
	END,
};

static const struct ctl_option fetch_options[] = {
	{ "to", "SITE", 0, "where the objects are needed" },
	{ "tenant", "NAME", 0, "tenant of all the keys (default)" },
	{ "hex", NULL, 0, "keys are hexadecimal" },
	END,
};

static const struct ctl_option get_options[] = {
	{ "pool", "FILE", 'p', "the pool's file" },
	{ "hex", NULL, 0, "the key is hexadecimal" },
	{ "to", "FILE", 't', "write to FILE instead of standard output" },
	END,
};

static const struct ctl_option pool_create[] = {
	{ "pool", "FILE", 'p', "the pool's file; best on tmpfs or hugetlbfs" },
	{ "size", "SIZE", 0, "size of the file, like 1G" },
	{ "group", NULL, 0, "let the file's group use it too (mode 0660)" },
	{ "sparse", NULL, 0, "do not reserve the memory now" },
	END,
};

static const struct ctl_option pool_show[] = {
	{ "pool", "FILE", 'p', "the pool's file" },
	END,
};

static const struct ctl_option key_explain[] = {
	{ "layouts", "FILE", 0, "as layouts: of a site master" },
	END,
};

static const struct ctl_option plan_options[] = {
	{ "throughput", "TOKENS", 0, "input tokens a second, found in a cache or not" },
	{ "block-tokens", "N", 0, "tokens a block" },
	{ "block-bytes", "SIZE", 0, "of a block, of all ranks" },
	{ "reuse", "F", 0, "share of tokens found at the decode site" },
	{ "eviction-period", "TIME", 0, "a block lies unused so long before it goes" },
	{ "reuse-span", "TIME", 0, "mean from a block's coming to its last use (0)" },
	{ "prefill-eviction-period", "TIME", 0, "of the prefill site (the same)" },
	{ "prefill-reuse-span", "TIME", 0, "of the prefill site (the same)" },
	{ "remote", "F", 0, "share of new tokens prefilled at the other site (0)" },
	{ "back", "F", 0, "share of the others that is sent back (1)" },
	{ "line", "RATE", 0, "of the WAN, to tell the share of it" },
	{ "efficiency", "F", 0, "bytes of objects by bytes on the wire (0.917)" },
	{ "peak", "F", 0, "busiest seconds by the mean (1)" },
	END,
};

static const struct ctl_option capture_start[] = {
	{ "socket", "FILE", 's', "the edge's debug.socket" },
	{ "file", "NAME", 0, "in the edge's debug.capture_dir (strait-EDGE-TIME.pcapng)" },
	{ "limit", "SIZE", 0, "end at this size, like 256M (64M)" },
	{ "duration", "TIME", 0, "end after this time, like 5m (60s)" },
	{ "snaplen", "BYTES", 0, "keep so much of each frame (all of it)" },
	END,
};

static const struct ctl_option capture_other[] = {
	{ "socket", "FILE", 's', "the edge's debug.socket" },
	END,
};

static const struct ctl_option pki_init[] = {
	{ "days", "N", 0, "days the CA is valid (3650)" },
	END,
};

static const struct ctl_option pki_issue[] = {
	{ "role", "ROLE", 0, "edge, site-master, master, operator or tenant" },
	{ "site", "SITE", 0, "site of an edge or site master (others: -)" },
	{ "name", "NAME", 0, "of its holder; of a tenant, its own" },
	{ "days", "N", 0, "days the certificate is valid (365)" },
	{ "file", "NAME", 0, "write NAME.pem and NAME.key (the name)" },
	END,
};

static const struct ctl_option edge_drain[] = {
	{ "hand-over", NULL, 0, "what it has goes to other edges of its site now" },
	END,
};

const struct ctl_command ctl_commands[] = {
	{ NULL, "status", "", 0, 0, "term, orders, sites, edges and links", NULL, cmd_status },
	{ "site", "list", "", 0, 0, "sites the master knows", NULL, cmd_site_list },
	{ "site", "show", "SITE", 1, 1, "one site and its edges", NULL, cmd_site_show },
	{ "site", "add", "SITE", 1, 1, "add a site or change it", site_add, cmd_site_add },
	{ "site", "del", "SITE", 1, 1, "delete a site", NULL, cmd_site_del },
	{ "edge", "list", "", 0, 0, "edges that registered", NULL, cmd_edge_list },
	{ "edge", "show", "SITE/EDGE", 1, 1, "links and counters of an edge", NULL, cmd_edge_show },
	{ "edge", "drain", "SITE/EDGE", 1, 1, "no more orders for it, what it has ends", edge_drain,
		cmd_edge_drain },
	{ "edge", "undrain", "SITE/EDGE", 1, 1, "it takes orders again", NULL, cmd_edge_undrain },
	{ "order", "submit", "[KEY...]", 0, -1, "have objects shipped", order_submit,
		cmd_order_submit },
	{ "order", "append", "ID [KEY...]", 1, -1, "more objects for an open order", order_append,
		cmd_order_append },
	{ "order", "seal", "ID", 1, 1, "no more objects: an open order may finish", order_seal,
		cmd_order_seal },
	{ "order", "list", "", 0, 0, "orders, newest first", order_list, cmd_order_list },
	{ "order", "show", "ID", 1, 1, "one order", order_show, cmd_order_show },
	{ "order", "watch", "ID", 1, 1, "follow an order until it has finished", NULL,
		cmd_order_watch },
	{ "order", "cancel", "ID", 1, 1, "cancel what is not shipped yet", NULL, cmd_order_cancel },
	{ NULL, "commits", "", 0, 0, "what has arrived anywhere, in order", commits_options,
		cmd_commits },
	{ "replication", "status", "", 0, 0, "views of the sites, backlogs, staleness", NULL,
		cmd_replication_status },
	{ "source", "list", "", 0, 0, "sources of all sites and their state", NULL,
		cmd_source_list },
	{ "policy", "list", "", 0, 0, "what is replicated from where to where", NULL,
		cmd_policy_list },
	{ NULL, "locate", "KEY...", 1, -1, "sites that have the keys", locate_options, cmd_locate },
	{ NULL, "fetch", "KEY...", 1, -1, "have keys brought to a site at once", fetch_options,
		cmd_fetch },
	{ NULL, "backfill", "SITE", 1, 1, "replicate what the site held before", NULL,
		cmd_backfill },
	{ NULL, "put", "KEY [FILE]", 1, 2, "put FILE or standard input into a pool", pool_options,
		cmd_put },
	{ NULL, "get", "KEY", 1, 1, "read an object from a pool, verified", get_options, cmd_get },
	{ NULL, "exist", "KEY...", 1, -1, "whether a pool or site has the keys", exist_options,
		cmd_exist },
	{ NULL, "remove", "KEY...", 1, -1, "remove keys from a pool", pool_options, cmd_remove },
	{ "pool", "create", "", 0, 0, "create a pool", pool_create, cmd_pool_create },
	{ "pool", "show", "", 0, 0, "figures of a pool", pool_show, cmd_pool_show },
	{ "key", "explain", "KEY...", 1, -1, "block, rank and layout a key tells of", key_explain,
		cmd_key_explain },
	{ NULL, "plan", "", 0, 0, "pool sizes and WAN shares for a load", plan_options, cmd_plan },
	{ "capture", "start", "", 0, 0, "have an edge write its packets to a pcapng file",
		capture_start, cmd_capture_start },
	{ "capture", "stop", "", 0, 0, "end it", capture_other, cmd_capture_stop },
	{ "capture", "status", "", 0, 0, "how far it is, or why it ended", capture_other,
		cmd_capture_status },
	{ "pki", "init", "DIR", 1, 1, "make a development CA in DIR", pki_init, cmd_pki_init },
	{ "pki", "issue", "DIR", 1, 1, "issue a certificate from DIR's CA", pki_issue,
		cmd_pki_issue },
	{ 0 },
};
