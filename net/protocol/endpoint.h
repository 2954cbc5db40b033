/* net/protocol/endpoint.h: the client's side: an address, its connections, and the requests that wait for them.
 *
 *     ask --> waiting, first in first out --> a place on a connection --> its reply
 *                 \--> a dial, if there may be another connection --> hello --> a connection
 *
 * All of it belongs to the owner of the endpoint's poller.  Two counts keep it, as those of a stream: `users` are the program's
 * references and asks; without them its connections are closed.  `references` keep the memory: all users together have one, each
 * connection, dial and order one. */
#ifndef WEIR_NET_ENDPOINT_H
#define WEIR_NET_ENDPOINT_H

#include "kernel/base/lock.h"
#include "net/protocol/session.h"

struct weir__asking;
struct weir__dial;
struct weir__lane;

/* A request's place on a connection; without a request: its reply will be thrown away. */
struct weir__place {
        struct weir__link link;       /* in the places of the connection, in the order of sending */
        struct weir__asking *request; /* NULL: it was cancelled, and the place has memory of its own */
        uint64_t id;
        weir_nsec late_at; /* when its reply must be there; WEIR_FOREVER while it is not sent */
};

/* Whose a request is: a task (ask.c), or the program's own (ask.c).  Neither function runs code of the program. */
struct weir__asking_ops {
        bool is_borrowed; /* its bytes are the program's, and are not changed */

        /* The reply, a whole message.  The request is in no list and has no place.  The bytes stay until this returns; in a cut
         * of the session until it is over. */
        void (*answered)(struct weir__asking *request, struct weir_session *session, const char *data, size_t size);
        void (*failed)(struct weir__asking *request, int status); /* the same; a negative errno */
};

/* A request, on its way from its endpoint to its reply.  It lies in what it is a part of. */
struct weir__asking {
        /* Constant. */
        const struct weir__asking_ops *ops;
        struct weir_endpoint *endpoint; /* NULL: the task is poisoned */
        char *packed;                   /* the request */
        size_t size;
        uint64_t id; /* the program's; 0: the library gives one, or none is needed */

        /* The owner's. */
        uint8_t stage; /* enum weir_ask_stage */
        bool is_replayed;
        struct weir__link waiting; /* in the endpoint's */
        struct weir__dial *dial;   /* which is under way for it; or NULL */
        struct weir__lane *lane;   /* on which it has a place; or NULL */
        struct weir__place place;
        struct weir__outgoing outgoing; /* in the output while its link is used */
};

/* A connection of an endpoint. */
struct weir__lane {
        struct weir_session session; /* first */
        struct weir_endpoint *endpoint; /* a reference */
        struct weir__link link; /* in `idle` or `busy` of the endpoint, or in none: it takes no more requests */
        struct weir__link all;  /* in `lanes` */
        struct weir__list places;
        unsigned count;    /* of them */
        unsigned answered; /* replies so far; saturates */
        unsigned rests;    /* of requests that were answered before all of them was out */
        bool is_retired;   /* takes no more requests */
        uint64_t last_id;
};

struct weir_endpoint {
        _Atomic uint32_t users, references;

        /* Constant. */
        char *address, *name; /* `name` or NULL */
        struct weir_tls *tls; /* or NULL */
        const struct weir_protocol *protocol;
        weir_free_fn *on_free; /* or NULL */
        void *free_context;

        struct weir__lock lock; /* rank LEAF */
        _Atomic uint8_t poller; /* written under the lock, until it is one of the runtime's; then constant */

        /* Owner. */
        struct weir__list waiting; /* requests */
        struct weir__list idle;    /* lanes without a request, the last used first */
        struct weir__list busy;    /* lanes with room for more */
        struct weir__list lanes;   /* all */
        struct weir__list dials;   /* under way */
        bool is_going_on;          /* `go_on` is on the stack */
        bool must_go_on;           /* and has to look again */
        _Atomic unsigned connections; /* lanes and dials.  Written by the owner, relaxed */
        _Atomic unsigned requests;    /* that were put and are not over.  The same */
        _Atomic unsigned connecting;  /* dials.  The same */
        _Atomic unsigned waits;       /* requests in `waiting`.  The same */
        _Atomic uint64_t asked, connects, refused, lost; /* as struct weir_endpoint_stats.  The same */
        struct weir__work *begun; /* the last direct request that the owner itself has begun, if more may go with it: ask.c */
        unsigned begun_with;      /* how many have */

        struct weir__work closing; /* the last user's, when it is gone */

        /* Gives connections to requests that wait, and makes more, as far as that goes: pool.c.  Owner. */
        void (*go_on)(struct weir_endpoint *endpoint); /* constant */

        /* Gives the request a connection, or lets it wait for one: pool.c.  Owner. */
        void (*put)(struct weir_endpoint *endpoint, struct weir__asking *request); /* constant */
};

/* -- endpoint.c -- */

struct weir_endpoint *weir__endpoint_new(void); /* one user; without an address.  NULL when out of memory */
void weir__endpoint_keep(struct weir_endpoint *endpoint);
void weir__endpoint_drop(struct weir_endpoint *endpoint);
unsigned weir__endpoint_poller(struct weir_endpoint *endpoint); /* the runtime is up */
void weir__endpoint_count(struct weir_endpoint *endpoint, int change); /* connections */
bool weir__endpoint_is_used(const struct weir_endpoint *endpoint);

/* -- dial.c -- */

int weir__dial_begin(struct weir_endpoint *endpoint, struct weir__asking *request); /* 0 or a negative errno */
void weir__dial_leave(struct weir__asking *request); /* it needs its dial no longer */
void weir__dials_cancel(struct weir_endpoint *endpoint);

/* -- lane.c -- */

/* Makes a connection of a stream.  Result: 0 or a negative errno. */
int weir__lane_begin(struct weir_endpoint *endpoint, struct weir_stream *stream);
void weir__lane_send(struct weir__lane *lane, struct weir__asking *request); /* gives it a place, and sends it */
void weir__lane_leave(struct weir__asking *request); /* it was cancelled: gives up its place */
void weir__lane_retire(struct weir__lane *lane); /* no more requests: it is closed when the last one is answered */

/* -- requests -- */

/* A dump may look at it. */
static inline void
weir__asking_set_stage(struct weir__asking *request, enum weir_ask_stage stage)
{
        __atomic_store_n(&request->stage, (uint8_t)stage, __ATOMIC_RELAXED);
}

/* Changes a count that only the owner writes. */
static inline void
weir__endpoint_change(_Atomic unsigned *count, int change)
{
        atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + (unsigned)change, memory_order_relaxed);
}

static inline void
weir__endpoint_count_requests(struct weir_endpoint *endpoint, int change)
{
        weir__endpoint_change(&endpoint->requests, change);
}

/* It waits for a connection. */
static inline void
weir__asking_queue(struct weir__asking *request, bool is_first)
{
        struct weir__list *waiting = &request->endpoint->waiting;

        if (is_first)
                weir__list_prepend(waiting, &request->waiting);
        else
                weir__list_append(waiting, &request->waiting);
        weir__endpoint_change(&request->endpoint->waits, 1);
}

static inline void
weir__asking_unqueue(struct weir__asking *request)
{
        weir__link_remove(&request->waiting);
        weir__endpoint_change(&request->endpoint->waits, -1);
}

/* One more of a total. */
static inline void
weir__endpoint_add(_Atomic uint64_t *total)
{
        atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* It is in no list and has no place. */
static inline void
weir__asking_end(struct weir__asking *request, int status)
{
        weir__endpoint_count_requests(request->endpoint, -1);
        request->ops->failed(request, status);
}

#endif
