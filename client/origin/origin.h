/* client/origin/origin.h: an origin: scheme, host and port, with the connections to it and those who wait for one.
 *
 *     seeker --weir__pool_get--> an idle connection of its own poller
 *        \--weir__pool_wait--> on to a poller with an idle one
 *                         \--> the queue, first in first out, and a dial, if there may be another connection
 *
 * Each poller has a branch: the connections on it, which only its owner touches.  It publishes how many are idle.  The queue is
 * one for all, under the origin's lock.
 *
 * A connection that becomes idle is published before its owner looks for those who wait; one who waits is in the queue before
 * it looks for idle connections.  So one of the two sees the other (test/model/pool.pml).  The same holds for a permit below the
 * limit that becomes free. */
#ifndef WEIR_CLIENT_ORIGIN_H
#define WEIR_CLIENT_ORIGIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/time.h>

#include "client/origin/client.h"
#include "kernel/data/work.h"

#define WEIR__ORIGIN_TEXT 672 /* bytes of a description */

struct weir__client_branch;
struct weir__origin;
struct weir__seeker;

/* Where connections lead to.  Those of one destination may serve each other's requests. */
struct weir__destination {
        bool is_secure;
        const char *address, *tls_name;  /* as in struct weir__origin; a plain one has no name */
        const struct weir__proxy *proxy; /* of the client: the way leads through it; NULL: there is none */
        bool is_relay;                   /* the destination is the proxy itself, which is sent the requests: it has its address */
};

/* A connection, as its branch sees it.  Owner of the branch's poller. */
struct weir__pooled {
        struct weir__link idle;             /* in `idle` of the branch, while it is idle */
        struct weir__link all;              /* in `connections` of the branch */
        struct weir__client_branch *branch; /* with a reference to the origin */
        unsigned generation;                /* the client's, when it was made */
        bool is_reserved;                   /* for a seeker that has been granted it and has not come yet */
        bool is_fresh;                      /* it was neither used nor idle: the server may not have closed it as a kept one */
};

/* What stands above: wire/ has them. */
struct weir__origin_ops {
        /* Begins to make a connection.  Its end is weir__pool_dialled or weir__pool_dial_failed.
         * Result: 0 or a negative errno. */
        int (*dial)(struct weir__client_branch *branch, uint64_t ticket);
        void (*cancel_dials)(struct weir__client_branch *branch); /* all of the branch */
        void (*close)(struct weir__pooled *connection);           /* an idle one: weir__pool_gone follows */
};

struct weir__seeker_ops {
        /* It was taken off the queue, under the origin's lock.  From now on it is the caller's.  Returns false when a cancel was
         * faster. */
        bool (*claim)(struct weir__seeker *seeker);
        /* And it gets what is set below, on that poller. */
        void (*granted)(struct weir__seeker *seeker, unsigned poller);
};

/* A request or call that wants a connection. */
struct weir__seeker {
        const struct weir__seeker_ops *ops; /* constant */

        /* Guarded by the origin's lock. */
        struct weir__link link; /* in the queue */
        uint64_t ticket;        /* its number there */
        bool is_waiting;

        /* Its own, then of those who have claimed it. */
        uint8_t poller;
        bool was_handed;                 /* to another poller, once */
        bool is_fixed;                   /* it stays on its poller */
        bool wants_fresh;                /* its request has failed on a kept connection, and is sent again */
        bool has_dial;                   /* fixed, or wants_fresh: a connection is being made for it.  Guarded by the lock */
        struct weir__pooled *connection; /* reserved for it */
        int failure;                     /* or that */
        uint8_t stage;                   /* of the dial that has failed: enum weir_http_stage */
        char *problem;                   /* the same in words; free; or NULL */
};

struct weir__client_branch {
        struct weir__origin *origin;
        uint8_t poller;

        /* Owner. */
        struct weir__list idle;        /* connections, the last used first */
        struct weir__list connections; /* all */
        struct weir__list dials;

        /* Whether those in the queue that are on this poller have it as has_dial; another poller has marked one of them since.
         * Guarded by the origin's lock. */
        bool has_noted_dials, has_marked;

        _Atomic unsigned idle_count;                  /* written by the owner */
        _Atomic uint64_t counts[WEIR__CLIENT_COUNTS]; /* written by the owner; relaxed */

        /* A look at all this, asked for by another thread. */
        _Atomic bool is_look_due;
        struct weir__work look; /* belongs to the thread that has set the flag; with a reference to the origin */
};

struct weir__origin {
        _Atomic uint32_t references;
        struct weir__link link; /* in its bucket; guarded by the client's lock */

        /* Constant. */
        struct weir_client *client; /* a reference to the memory */
        const struct weir__origin_ops *ops;
        uint64_t hash;
        bool is_secure;
        bool is_relay;                   /* as in struct weir__destination */
        const struct weir__proxy *proxy; /* the same */
        char *address;                   /* as weir_connect_new takes it */
        char *tls_name;                  /* that the certificate must have; NULL: the host of the address */
        unsigned branch_count;           /* pollers of the runtime in which it was made */

        _Atomic unsigned connections; /* open, or being made */
        _Atomic unsigned dials;       /* being made */
        _Atomic unsigned waiting;     /* in the queue */

        struct weir__lock lock;  /* rank LEAF */
        struct weir__list queue; /* guarded by lock */
        uint64_t next_ticket;

        struct weir__client_branch branches[];
};

/* -- origin.c: any thread -- */

/* Finds or makes the origin.  Result: a reference; NULL when out of memory.  While the runtime is up. */
struct weir__origin *weir__origin_of(struct weir_client *client, const struct weir__origin_ops *ops,
                                     const struct weir__destination *destination);
void weir__origin_keep(struct weir__origin *origin);
void weir__origin_drop(struct weir__origin *origin);

/* For people: "https://host:port through http://proxy:port", "the proxy http://proxy:port"; and with " (256 busy, 12 wait)". */
void weir__origin_print(const struct weir__origin *origin, char out[WEIR__ORIGIN_TEXT]);
void weir__origin_describe(const struct weir__origin *origin, char out[WEIR__ORIGIN_TEXT]);

void weir__origins_look(struct weir_client *client);                                   /* has all branches look */
void weir__origins_count(struct weir_client *client, struct weir_client_stats *stats); /* adds what they have */

/* What an origin has and has done. */
struct weir__origin_counts {
        uint64_t connections, idle, waiting, of[WEIR__CLIENT_COUNTS];
};
void weir__origin_count(const struct weir__origin *origin, struct weir__origin_counts *counts);

/* Visits all origins of a client, under its lock. */
void weir__origins_each(struct weir_client *client, void visit(struct weir__origin *origin, void *context), void *context);

/* Owner of the branch. */
static inline void
weir__client_branch_count(struct weir__client_branch *branch, enum weir__client_count which)
{
        uint64_t count = atomic_load_explicit(&branch->counts[which], memory_order_relaxed);

        atomic_store_explicit(&branch->counts[which], count + 1, memory_order_relaxed);
}

/* The poller must be one of the runtime in which the origin was made. */
static inline struct weir__client_branch *
weir__origin_branch(struct weir__origin *origin, unsigned poller)
{
        return &origin->branches[poller];
}

/* -- pool.c -- */

/* An idle connection of the branch; NULL: there is none, others wait for one, or the seeker wants a new one.  Owner. */
struct weir__pooled *weir__pool_get(struct weir__client_branch *branch, const struct weir__seeker *seeker);

/* Waits, or goes to another poller.  It may be granted, and gone, before this returns.  Owner of the branch's poller. */
void weir__pool_wait(struct weir__client_branch *branch, struct weir__seeker *seeker);

/* It no longer waits.  Returns false if it was claimed, or did not wait.  Owner. */
bool weir__pool_leave(struct weir__client_branch *branch, struct weir__seeker *seeker);

/* The same for one that *seeker names, guarded by the origin's lock: takes it, and returns it; or NULL.  Owner. */
struct weir__seeker *weir__pool_leave_late(struct weir__client_branch *branch, struct weir__seeker **seeker);

/* Owner of the branch: a connection that is free goes to who has waited longest, or is idle. */
void weir__pool_put(struct weir__pooled *connection);
void weir__pool_dialled(struct weir__pooled *connection);  /* the same for a new one, which counts already */
void weir__pool_take_off(struct weir__pooled *connection); /* it is no longer idle */
void weir__pool_gone(struct weir__client_branch *branch);  /* one connection less */
void weir__pool_dial_failed(struct weir__client_branch *branch, uint64_t ticket, int status, uint8_t stage, char *problem);
void weir__pool_look(struct weir__client_branch *branch); /* any thread: has its owner look */
void weir__pool_run_look(struct weir__work *work);

#endif
