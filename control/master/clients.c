/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "control/master/commits.h"
#include "control/master/master.h"
#include "control/master/replication.h"

#include <event2/event.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The context of a connection is the listener's (the master) until it is a client. */
static int on_open(struct rpc_conn *conn, void *ctx)
{
	const struct rpc_identity *id = rpc_peer(conn);
	struct master *m = ctx;
	struct client *c = calloc(1, sizeof(*c));

	rpc_set_ctx(conn, c);
	if (c == NULL)
		return -ENOMEM;
	c->master = m;
	c->conn = conn;
	LIST_INSERT_HEAD(&m->clients, c, entry);
	if (m->stopping)
		return rpc_fail(conn, ESHUTDOWN, "the master is stopping");
	if (strcmp(id->role, "edge") != 0 && strcmp(id->role, "operator") != 0 &&
		strcmp(id->role, "site-master") != 0 && strcmp(id->role, "tenant") != 0)
		return rpc_fail(conn, EACCES,
			"a certificate of role %s has no business here: use role edge, "
			"site-master, operator or tenant",
			id->role);
	log_debug("master", "connected peer=%s role=%s site=%s name=%s", rpc_peer_address(conn),
		id->role, id->site, id->name);
	return 0;
}

static int on_message(struct rpc_conn *conn, uint16_t type, const uint8_t *body, size_t len,
	void *ctx)
{
	struct client *c = ctx;

	if (strcmp(rpc_peer(conn)->role, "edge") == 0)
		return edge_message(c, type, body, len);
	if (strcmp(rpc_peer(conn)->role, "site-master") == 0)
		return sitemaster_message(c, type, body, len);
	return operator_message(c, type, body, len);
}

static void on_close(struct rpc_conn *conn, int err, const char *text, void *ctx)
{
	struct client *c = ctx;

	(void)conn;
	(void)err;
	if (c == NULL)
		return;
	if (c->edge != NULL)
		log_warn("master", "edge disconnected site=%s edge=%s reason=%s", c->edge->site,
			c->edge->name, text);
	commits_stop(c);
	edge_disconnected(c);
	sitemaster_disconnected(c, text);
	LIST_REMOVE(c, entry);
	if (c->master->stopping && LIST_EMPTY(&c->master->clients))
		event_base_loopexit(c->master->base, NULL);
	free(c->acks);
	free(c);
}

const struct rpc_handler client_handler = { on_open, on_message, on_close };

void clients_close(struct master *m)
{
	struct client *c;

	LIST_FOREACH(c, &m->clients, entry)
		rpc_close(c->conn);
}
