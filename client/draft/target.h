/* client/draft/target.h: where a request goes: the host of its URL, or a member of the upstream of that name. */
#ifndef WEIR_CLIENT_TARGET_H
#define WEIR_CLIENT_TARGET_H

#include "client/origin/origin.h"
#include "client/draft/draft.h"
#include "net/upstream/upstream.h"

#define WEIR__TARGET_TRIES 3                        /* members that a request is sent to, at most, when connects fail */
#define WEIR__TARGET_KNOWN (WEIR__TARGET_TRIES + 1) /* with that of its hedge */

/* All zero: not chosen. */
struct weir__target {
        char *key; /* for upstreams that choose by it; malloc, or NULL */
        size_t key_size;
        struct weir_upstream *upstream; /* a reference while a member is in flight; NULL: an ordinary host */
        struct weir__picked picked;
        weir_nsec picked_at;
        uint64_t tried[WEIR__TARGET_KNOWN]; /* weir__picked_id of those that it had, and has */
        unsigned tried_count;
        const char *reason; /* why none was picked; a constant */
};

/* Picks a member, if the host is an upstream.  It may call a function of the program: not on the owner of a poller.
 * Result: 0; that of weir__upstream_pick.  Any thread. */
int weir__target_choose(struct weir__target *target, const struct weir__draft *draft);

/* Nothing was sent, and it has failed with that status.  Reports that, and picks a member that it has not had, if there may be
 * another try.  Returns whether it has one; else all is over, or as it was.  Not for an upstream that calls the
 * program. */
bool weir__target_again(struct weir__target *target, int status);

/* Picks another member for a second attempt.  Returns false when there is none.  The same. */
bool weir__target_hedge(struct weir__target *second, const struct weir__target *first);

/* The origin of it, with a reference; NULL when out of memory.  `must_tunnel`: what follows is not HTTP, perhaps.  Tells the
 * draft whether it goes to a proxy. */
struct weir__origin *weir__target_origin(const struct weir__target *target, struct weir__draft *draft, bool must_tunnel);

/* The same for a URL that a redirect leads to. */
struct weir__origin *weir__target_of_url(struct weir__draft *draft, const weir_url *url, bool must_tunnel);

/* What an end says about a member: the status of a task, and that of the response, or 0. */
enum weir__outcome weir__target_outcome(int status, int response);

/* It is over.  Says so to the upstream, once. */
void weir__target_report(struct weir__target *target, enum weir__outcome outcome);

#endif
