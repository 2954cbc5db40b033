/* client/request/target.h: where a request goes: the host of its URL, or a member of the upstream of that name. */
#ifndef WEIR_CLIENT_TARGET_H
#define WEIR_CLIENT_TARGET_H

#include "client/origin/origin.h"
#include "client/request/draft.h"
#include "net/upstream/upstream.h"

/* All zero: not chosen. */
struct weir__target {
        char *key; /* for upstreams that choose by it; malloc, or NULL */
        size_t key_size;
        struct weir_upstream *upstream; /* a reference while a member is in flight; NULL: an ordinary host */
        struct weir__picked picked;
        weir_nsec picked_at;
        const char *reason; /* why none was picked; a constant */
};

/* Picks a member, if the host is an upstream.  It may call a function of the program: not on the owner of a poller.
 * Result: 0; that of weir__upstream_pick.  Any thread. */
int weir__target_choose(struct weir__target *target, const struct weir__draft *draft);

/* The origin of it, with a reference; NULL when out of memory. */
struct weir__origin *weir__target_origin(const struct weir__target *target, const struct weir__draft *draft);

/* It is over, with that status of the task, and that of the response, or 0.  Says so to the upstream, once. */
void weir__target_report(struct weir__target *target, int status, int response);

#endif
