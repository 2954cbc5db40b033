/* net/upstream/upstream.h: names with several members: what a client needs to give a request to one of them.
 *
 *     struct weir_upstream *upstream = weir_upstream_find("backend");           a reference; NULL: the host is an ordinary one
 *     struct weir__picked picked;
 *
 *     weir__upstream_pick(upstream, NULL, &picked, &reason)                      picked is in flight
 *     connect to weir__picked_address(&picked), send, receive
 *     weir__upstream_report(upstream, &picked, WEIR__OUTCOME_SUCCESS, latency)   it is not any more
 *
 * Nothing here does I/O.  Whoever picks holds a reference to the upstream until it has reported. */
#ifndef WEIR_NET_UPSTREAM_H
#define WEIR_NET_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/upstream.h>

/* -- a request and its member -- */

/* A member with a request in flight.  It may be copied; it is reported once. */
struct weir__picked {
        struct weir_member *member;
        uint32_t epoch; /* of the member; a report from an earlier one does not change its state */
        bool is_probe;
};

/* What a request wants.  All zero is a first attempt without a key. */
struct weir__wish {
        const void *key; /* of WEIR_UPSTREAM_HASH and functions; NULL: none, any member will do */
        size_t key_size;
        const uint64_t *tried; /* members that it had before: weir__picked_id.  Others are preferred */
        unsigned tried_count;  /* 0: a first attempt, which hedges are counted by */
        bool must_differ;      /* a hedge: a member that was tried is of no use */
};

/* Picks a member, and counts the request as in flight.  `wish` may be NULL.
 *
 * Result:  0; -EBUSY: all members that may be used have as many requests in flight as they may have; -ENETUNREACH: no member may
 *          be used; -ENOMEM, for a function of the program alone.  Then *reason (if not NULL) is a constant text for the user.
 * Threads: any.  With WEIR_UPSTREAM_FUNCTION it calls a function of the program, so the worker may have no poller afterwards:
 *          weir__upstream_calls_program. */
int weir__upstream_pick(struct weir_upstream *upstream, const struct weir__wish *wish, struct weir__picked *picked,
                        const char **reason);
bool weir__upstream_calls_program(const struct weir_upstream *upstream);

/* How a request has ended. */
enum weir__outcome {
        WEIR__OUTCOME_SUCCESS = 0, /* the member has answered, and the answer does not say that it is broken */
        WEIR__OUTCOME_FAILURE,     /* no connection, no answer in time, a broken answer, 502, 503, 504 */
        WEIR__OUTCOME_CANCELLED,   /* it says nothing about the member */
        WEIR__OUTCOME_OVERTAKEN,   /* the other one of a hedge was faster: `latency` is a lower bound */
};

/* Gives the count back.  The member may be gone afterwards.
 *
 * Units:   `latency`: nanoseconds from the pick to the outcome.
 * Threads: any.  It may write to the log, so no lock is held. */
void weir__upstream_report(struct weir_upstream *upstream, const struct weir__picked *picked, enum weir__outcome outcome,
                           weir_nsec latency);

/* The address, as weir_connect_new takes it, and a number that no other member of the upstream has.  Until the report. */
const char *weir__picked_address(const struct weir__picked *picked);
uint64_t weir__picked_id(const struct weir__picked *picked);

/* -- hedging -- */

/* How long after its pick a request is slow, so that a second one may go to another member.
 *
 * Result:  WEIR_FOREVER: never; hedging is off, or too few requests are known.
 * Threads: any. */
weir_nsec weir__upstream_hedge_after(const struct weir_upstream *upstream);

/* Whether there may be another hedge now.  It is taken from the budgets, so ask only to hedge.  Any thread. */
bool weir__upstream_may_hedge(struct weir_upstream *upstream);

/* It was not sent: the budgets have it back.  Any thread. */
void weir__upstream_return_hedge(struct weir_upstream *upstream);

/* -- members from DNS -- */

/* Makes the members that come from `origin`, such as "backend.internal:80", those of the addresses: what is new is added, with
 * the config (NULL: the default one); what is not listed any more is removed; the others stay as they are.  A member that the
 * program or another origin has added is left alone.
 *
 * Result:  0; the errors of weir_upstream_add.  Then nothing has changed.
 * Threads: any. */
int weir__upstream_set_addresses(struct weir_upstream *upstream, const char *origin, const char *const *addresses, size_t count,
                                 const struct weir_member_config *config);

/* -- all upstreams -- */

/* The next upstream after `before`, whose reference it drops, with a reference.  NULL: the first; the last.  Any thread. */
struct weir_upstream *weir__upstream_next(struct weir_upstream *before);
const char *weir__upstream_name(const struct weir_upstream *upstream);

#endif
