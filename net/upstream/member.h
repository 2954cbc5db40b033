/* net/upstream/member.h: what the files of this room share: upstreams and their members.
 *
 *     weir_upstream --- members --- ready: of each tier, those that may be used now
 *
 * Lock `changes` is held while members come and go and memory is allocated; `lock`, a leaf, for some dozens of nanoseconds, in a
 * pick for some for each member.  Picks and reports take `lock` alone. */
#ifndef WEIR_NET_UPSTREAM_MEMBER_H
#define WEIR_NET_UPSTREAM_MEMBER_H

#include <stdatomic.h>

#include "factory/names/name_table.h"
#include "kernel/base/list.h"
#include "kernel/base/lock.h"
#include "kernel/data/histogram.h"
#include "net/upstream/upstream.h"

#define WEIR__WINDOW_PARTS 10
#define WEIR__TIERS        2

/* The requests of one tenth of the window. */
struct weir__window_part {
        uint32_t requests, failures;
};

struct weir_member {
        /* Constant. */
        uint64_t id;   /* of no other member of the upstream */
        uint64_t hash; /* of the address; the same in every process */
        size_t max_in_flight;
        enum weir_member_tier tier;
        uint32_t size; /* bytes of this block */
        const char *origin; /* behind the address; NULL: the program has added it */

        /* Written under the upstream's lock; a function of the program reads them without. */
        _Atomic size_t in_flight;
        _Atomic uint32_t weight;

        /* Guarded by the upstream's lock. */
        uint32_t holds; /* calls of a function of the program that may choose it */
        bool is_enabled;
        bool is_removed;
        bool is_probed;  /* HALF_OPEN: the probe is in flight */
        bool is_failing; /* CLOSED: it has failed too often, and is not ejected because too many are */
        enum weir_member_state state; /* never DISABLED: is_enabled */
        uint32_t epoch;               /* counts the changes of `state` */
        uint32_t failures_in_row;
        uint32_t ejections_in_row;
        weir_nsec ejected_until; /* OPEN */
        weir_nsec ejected_for;   /* the last time */
        weir_nsec closed_at;     /* after that */
        int64_t current;         /* of WEIR_UPSTREAM_ROUND_ROBIN */
        weir_nsec part_ends;     /* of the newest part of the window; 0: the window is empty */
        uint32_t part;           /* its index */
        struct weir__window_part parts[WEIR__WINDOW_PARTS];
        uint64_t requests, failures, ejections;

        char address[];
};

/* Members to choose from. */
struct weir__choices {
        struct weir_member **at;
        uint64_t *sums; /* of the weights, up to and with each member */
        size_t count;
        bool is_even; /* all weights are equal */
};

struct weir_upstream {
        /* Constant. */
        struct weir_upstream_config config; /* with the defaults */
        struct weir__histogram *latencies;  /* guarded by lock; NULL: hedging is off */

        _Atomic size_t references;
        _Atomic weir_nsec next_look;   /* when the first followed name is to be looked up; relaxed: a look finds out */
        _Atomic weir_nsec hedge_after; /* relaxed: a number on which nothing depends */
        struct weir__link link;        /* in the list of all upstreams; guarded by its lock */

        /* Guarded by changes. */
        struct weir__lock changes;
        uint64_t ids;
        struct weir__list followed; /* names whose addresses are members: follow.c */
        void *memory; /* of `members`, `ready` and `found` */
        size_t room;  /* members that they have room for */

        /* Guarded by lock.  `members` and `count` change under both locks. */
        struct weir__lock lock;
        struct weir_member **members;
        size_t count;
        struct weir__choices ready[WEIR__TIERS];
        struct weir__choices found; /* the result of a search in `ready`, during a pick */
        size_t enabled[WEIR__TIERS];
        bool is_panicking;    /* no member works: all of them are used */
        bool is_shuffled;     /* of WEIR_UPSTREAM_ROUND_ROBIN: `current` has its random start */
        weir_nsec next_probe; /* when the first member that is OPEN becomes HALF_OPEN */
        int64_t hedges;       /* that may be sent, in hundredths */
        uint32_t samples;     /* of `latencies`, since hedge_after was computed */
        weir_nsec sampled_at; /* when that was */

        struct weir__name name; /* last */
};

static inline size_t
weir__member_in_flight(const struct weir_member *member)
{
        return atomic_load_explicit(&member->in_flight, memory_order_relaxed);
}

static inline uint32_t
weir__member_weight(const struct weir_member *member)
{
        return atomic_load_explicit(&member->weight, memory_order_relaxed);
}

/* -- table.c -- */

/* Makes room for that many members, under `changes`.  Result: 0 or -ENOMEM, when nothing has changed. */
int weir__table_reserve(struct weir_upstream *upstream, size_t count);
void weir__table_drop(struct weir_upstream *upstream);

/* Appends a member; there is room.  Takes the one at an index away.  Under both locks; weir__table_settle is to follow. */
void weir__table_append(struct weir_upstream *upstream, struct weir_member *member);
void weir__table_take(struct weir_upstream *upstream, size_t index);

/* Finds out anew who may be used, after a change of any member but of its counts.  Under the lock. */
void weir__table_settle(struct weir_upstream *upstream);

/* Adds a member to those to choose from. */
void weir__choices_add(struct weir__choices *ready, struct weir_member *member);

/* The sum of all weights. */
static inline uint64_t
weir__choices_weight(const struct weir__choices *ready)
{
        return ready->count ? ready->sums[ready->count - 1] : 0;
}

/* -- breaker.c; under the lock -- */

/* What a report has changed, for the log. */
struct weir__verdict {
        enum { WEIR__VERDICT_NONE = 0, WEIR__VERDICT_EJECTED, WEIR__VERDICT_CLOSED, WEIR__VERDICT_ALL_FAIL } kind;
        weir_nsec ejected_for;
};

/* A member begins with a clean record. */
void weir__breaker_reset(struct weir_member *member);

/* Members whose ejection is over become HALF_OPEN. */
void weir__breaker_wake(struct weir_upstream *upstream, weir_nsec now);

/* A member gets a request.  Returns whether that is its probe. */
bool weir__breaker_picked(struct weir_upstream *upstream, struct weir_member *member);

/* A request of a member has ended. */
void weir__breaker_report(struct weir_upstream *upstream, const struct weir__picked *picked, enum weir__outcome outcome,
                          weir_nsec now, struct weir__verdict *verdict);

/* -- choose.c; under the lock -- */

/* A member of that tier for the request, by the policy, but for WEIR_UPSTREAM_FUNCTION.  NULL: none may be used.
 * `avoids_tried`: members that it had are not used. */
struct weir_member *weir__choose(struct weir_upstream *upstream, enum weir_member_tier tier, const struct weir__wish *wish,
                                 bool avoids_tried);

/* The members of that tier that the request may have, in `found`. */
void weir__choose_search(struct weir_upstream *upstream, enum weir_member_tier tier, const struct weir__wish *wish,
                         bool avoids_tried);

uint64_t weir__choose_hash(const void *key, size_t size);

/* -- hedge.c; under the lock -- */

/* A first attempt. */
void weir__hedge_deposit(struct weir_upstream *upstream);

/* A request has taken that long. */
void weir__hedge_note(struct weir_upstream *upstream, weir_nsec latency, weir_nsec now);

/* -- addresses.c; under `changes` -- */

/* weir__upstream_set_addresses, of addresses and a config that were checked.  Result: 0 or -ENOMEM. */
int weir__addresses_set(struct weir_upstream *upstream, const char *origin, const char *const *addresses, size_t count,
                        const struct weir_member_config *config);

/* Removes the members of an origin. */
void weir__addresses_clear(struct weir_upstream *upstream, const char *origin);

/* -- follow.c -- */

/* Looks up the names that are due.  With no lock held. */
void weir__follow_look(struct weir_upstream *upstream, weir_nsec now);
void weir__follow_drop(struct weir_upstream *upstream);

/* -- member.c -- */

/* Makes a member.  Under `changes`.  NULL: no memory. */
struct weir_member *weir__member_new(struct weir_upstream *upstream, const char *address, const char *origin,
                                     const struct weir_member_config *config);
void weir__member_free(struct weir_member *member);

/* Drops what it is still in use for.  Returns whether it is to be freed, without the lock.  Under the lock. */
static inline bool
weir__member_is_over(const struct weir_member *member)
{
        return member->is_removed && weir__member_in_flight(member) == 0 && member->holds == 0;
}

/* Finds the index of a member by its address; SIZE_MAX: there is none.  Under `changes`. */
size_t weir__member_find(const struct weir_upstream *upstream, const char *address);

/* Takes a member out, under `changes`; its requests in flight go on.  The last of them frees it. */
void weir__member_remove(struct weir_upstream *upstream, size_t index);

/* Reads and checks what a member is made of.  Result: 0, -EINVAL, -ENAMETOOLONG, or an error of an interface's look-up. */
int weir__member_check(const char *call, const char *address, const struct weir_member_config *given,
                       struct weir_member_config *config);

/* 0; -ENOMEM for NULL; -ECHILD in a forked child. */
int weir__upstream_fault(const struct weir_upstream *upstream);

#endif
