/* SPDX-License-Identifier: Apache-2.0 */
#include "control/base/log.h"
#include "dataplane/edge/peer_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the master says of links: this edge's shares of caps, and edges not to be heard. */

bool peers_are_fenced(const struct peers *ps, const struct rpc_identity *id)
{
	for (uint32_t i = 0; i < ps->fenced_count; i++)
		if (strcmp(ps->fenced[i].site, id->site) == 0 &&
			strcmp(ps->fenced[i].name, id->name) == 0)
			return true;
	return false;
}

/* 0, or -1 without memory: then nothing changed. */
static int fence(struct peers *ps, char *const *names, size_t n)
{
	struct rpc_identity *list = calloc(n + 1, sizeof(*list));
	struct peer_session *s, *next;
	uint32_t count = 0;

	if (list == NULL)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const char *slash = strchr(names[i], '/');
		struct rpc_identity *id = &list[count];

		if (slash == NULL || (size_t)(slash - names[i]) >= sizeof(id->site) ||
			strlen(slash + 1) >= sizeof(id->name))
			continue;
		memcpy(id->site, names[i], (size_t)(slash - names[i]));
		strcpy(id->name, slash + 1);
		count++;
	}
	free(ps->fenced);
	ps->fenced = list;
	ps->fenced_count = count;
	for (s = LIST_FIRST(&ps->sessions); s != NULL; s = next) {
		next = LIST_NEXT(s, entry);
		if (!s->initiator && !s->closing && peers_are_fenced(ps, &s->remote))
			peer_session_close(s, "the master lost it, others have its orders", true);
	}
	return 0;
}

static struct peer *find(struct peers *ps, const Strait__EdgeLink *l)
{
	struct peer *p;

	LIST_FOREACH(p, &ps->peers, entry)
		if (strcmp(p->remote.site, l->to_site) == 0 &&
			strcmp(p->remote.name, l->to_edge) == 0)
			return p;
	return NULL;
}

bool peers_take_links(struct peers *ps, const Strait__EdgeLinks *m)
{
	bool done = fence(ps, m->fenced, m->n_fenced) == 0;

	/* A peer that is not known yet gets its cap with its first order. */
	for (size_t i = 0; i < m->n_links; i++) {
		struct peer *p = find(ps, m->links[i]);
		uint64_t cap;

		if (p == NULL)
			continue;
		cap = m->links[i]->cap_bps;
		if (cap == 0 || (p->own_bps != 0 && p->own_bps < cap))
			cap = p->own_bps;
		p->most_bps = m->links[i]->has_most_bps ? m->links[i]->most_bps : 0;
		done = peer_set_cap(p, cap) && done;
	}
	return done;
}

size_t peers_list_links(struct peers *ps, struct peer_link_cap *out, size_t max)
{
	struct peer *p;
	size_t n = 0;

	LIST_FOREACH(p, &ps->peers, entry)
		if (n < max)
			out[n++] = (struct peer_link_cap){ p->remote.site, p->remote.name,
				p->cap_bps };
	return n;
}
