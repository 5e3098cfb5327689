/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/clock.h"
#include "control/master/master.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * The ledger cannot be written. Who waits for a commit is told so at once: an order that is new is
 * refused and gone, as nobody heard of it; what was changed of one that is in the ledger stays, and
 * is written as soon as that works.
 */

static bool is_new(struct master *m, uint64_t id)
{
	const struct order *o = orderbook_find(m->book, id);

	return o != NULL && !o->stored;
}

void operators_unwritten(struct master *m)
{
	struct client *c;
	char text[400];

	/* Several may wait for the same one, so that none goes before all were told. */
	LIST_FOREACH(c, &m->clients, entry) {
		if (c->await_order == 0)
			continue;
		if (is_new(m, c->await_order))
			snprintf(text, sizeof(text),
				"the order was not taken: the ledger cannot be written: %.200s",
				ledger_error(m->ledger));
		else
			snprintf(text, sizeof(text),
				"order %" PRIu64
				" is changed, but that is not durable yet: the ledger cannot be "
				"written: %.200s",
				c->await_order, ledger_error(m->ledger));
		operator_refuse(c, EIO, text);
	}
	LIST_FOREACH(c, &m->clients, entry) {
		if (c->await_order != 0 && is_new(m, c->await_order))
			orderbook_drop(m->book, c->await_order, clock_unix_ms());
		c->await_order = 0;
	}
}

bool operators_refuse_unwritten(struct client *c, const Strait__Request *r)
{
	char text[600];

	if (c->master->ledger_trouble[0] == '\0' ||
		(r->verb != STRAIT__REQUEST__VERB__ORDER_SUBMIT &&
			r->verb != STRAIT__REQUEST__VERB__ORDER_APPEND &&
			r->verb != STRAIT__REQUEST__VERB__ORDER_SEAL &&
			r->verb != STRAIT__REQUEST__VERB__ORDER_CANCEL))
		return false;
	snprintf(text, sizeof(text), "nothing was changed: %.400s", c->master->ledger_trouble);
	operator_refuse(c, EIO, text);
	return true;
}
