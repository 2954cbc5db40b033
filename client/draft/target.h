/* client/draft/target.h: where a request goes: the host of its URL, or a member of the upstream of that name. */
#ifndef WEIR_CLIENT_TARGET_H
#define WEIR_CLIENT_TARGET_H

#include "client/origin/origin.h"
#include "client/draft/draft.h"
#include "net/upstream/upstream.h"

#define WEIR__TARGET_TRIES 3                        /* members that a request is sent to, at most, when connects fail */
#define WEIR__TARGET_KNOWN (WEIR__TARGET_TRIES + 1) /* with that of its hedge */

/* All zero: not chosen. */
struct weir__client_target {
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
int weir__client_target_choose(struct weir__client_target *target, const struct weir__draft *draft);

/* Whether its member is chosen by a function of the program, which does not run on the owner of a poller: the worker may have
 * lost the poller when weir__client_target_again or weir__client_target_hedge returns. */
bool weir__client_target_calls_program(const struct weir__client_target *target);

/* Nothing was sent, and it has failed with that status: whether there may be another try. */
bool weir__client_target_may_again(const struct weir__client_target *target, int status);

/* Then: reports that failure, and picks a member that it has not had.  Returns whether it has one; else all is over. */
bool weir__client_target_again(struct weir__client_target *target);

/* A copy for a second attempt, with a reference and a key of its own, and no member yet.  Returns false when out of memory. */
bool weir__client_target_copy(struct weir__client_target *second, const struct weir__client_target *first);

/* A copy without a member is not used. */
void weir__client_target_drop(struct weir__client_target *second);

/* Picks another member for the copy, within the budgets.  Returns false when there is none, or may be none; then all is over. */
bool weir__client_target_hedge(struct weir__client_target *second);

/* The second attempt is not made: its member and the budgets hear of that. */
void weir__client_target_give_back(struct weir__client_target *second);

/* The origin of it, with a reference; NULL when out of memory.  `must_tunnel`: what follows is not HTTP, perhaps.  Tells the
 * draft whether it goes to a proxy. */
struct weir__origin *weir__client_target_origin(const struct weir__client_target *target, struct weir__draft *draft,
                                                bool must_tunnel);

/* The same for a URL that a redirect leads to. */
struct weir__origin *weir__client_target_of_url(struct weir__draft *draft, const weir_url *url, bool must_tunnel);

/* What an end says about a member: the status of a task, and that of the response, or 0. */
enum weir__outcome weir__client_target_outcome(int status, int response);

/* It is over.  Says so to the upstream, once. */
void weir__client_target_report(struct weir__client_target *target, enum weir__outcome outcome);

#endif
