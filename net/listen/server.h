/* net/listen/server.h: a server without its protocol: what accepts connections on all pollers, starts and stops.
 *
 *     struct weir__server --- a branch for each poller --- its listeners --- connections, which are the protocol's
 *
 * A protocol embeds the two structs in its own, as their first members, and gives a table of operations.  Branches and listeners
 * belong to the owner of their poller; the server is what the branches share.  net/serve/server.c has its states. */
#ifndef WEIR_NET_SERVER_H
#define WEIR_NET_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/time.h>

#include "kernel/base/latch.h"
#include "kernel/base/list.h"
#include "kernel/base/lock.h"
#include "kernel/loop/poller.h"
#include "kernel/socket/listen.h"
#include "net/listen/addresses.h"
#include "net/listen/certificates.h"
#include "net/listen/serving.h"
#include "net/listen/users.h"

struct weir__branch;
struct weir__listener;
struct weir__server;

/* What a protocol does for its servers.  A member that may be NULL says so. */
struct weir__server_ops {
        const char *protocol; /* "http": its functions are weir_http_server_start and so on */
        size_t branch_size; /* of the protocol's branch */
        bool waits_at_limit; /* at the limit on connections new ones wait in the system; else they are turned away */

        /* The thread that starts or stops it. */
        int (*begin)(struct weir__server *server, unsigned branches); /* before branches are made; NULL: nothing to do */
        void (*init_branch)(struct weir__branch *branch);       /* its own part, which is zero; NULL */
        void (*end)(struct weir__server *server);               /* before branches are dropped; NULL */
        void (*say_waits)(const struct weir__server *server);   /* once a second, while a stop waits */
        void (*say_rest)(const struct weir__server *server);    /* once a second, while a stop waits that has cut the rest */

        /* The owner of the branch's poller. */
        void (*accepted)(struct weir__branch *branch, int fd, const struct weir__peer *peer, bool is_admitted); /* its own now */
        void (*stop)(struct weir__branch *branch); /* no connection comes any more; those that are idle end */
        void (*cut)(struct weir__branch *branch);  /* the others end as well */

        /* Connections that are idle and may be closed for new ones; all NULL: there are none. */
        void *(*longest_idle)(struct weir__branch *branch, weir_nsec *since); /* a connection, or NULL */
        void (*evict)(void *connection, bool has_permit);       /* closes it; `has_permit`: it gives its permit back */
        size_t (*count_idle)(const struct weir__branch *branch); /* any thread */

        /* Whether the limit on connections of one address does not count this peer; NULL: it counts all. */
        bool (*is_exempt)(const struct weir__server *server, const struct weir__peer *peer);

        bool (*is_own_thread)(void); /* this thread would wait for itself in a stop, though it is no worker; NULL */

        void (*disown)(struct weir__branch *branch); /* the runtime ends, and waits for nothing that the program holds; NULL */
        void (*reload)(struct weir__server *server); /* SIGHUP: opens files again and logs faults; any thread; NULL */
        void (*freed)(struct weir__server *server);  /* its last reference has gone, and its branches: frees the struct */
};

enum weir__server_state {
        WEIR__SERVER_NEW = 0,
        WEIR__SERVER_STARTING,
        WEIR__SERVER_SERVING,
        WEIR__SERVER_STOPPING,
        WEIR__SERVER_STOPPED,
};

/* A thread that waits until a start or stop is over, to stop the server; on its stack. */
struct weir__server_waiter {
        struct weir__server_waiter *next;
        pthread_t thread;
        bool should_stop; /* this thread has to stop the server; else another has stopped it, and the server may be gone */
        struct weir__latch over;
};

/* Owner of the poller only, except for atomic fields. */
struct weir__branch {
        /* Constant. */
        struct weir__server *server;
        struct weir__poller *poller;
        unsigned index; /* among the branches of the server */

        struct weir__listener *listeners; /* one or more for each address, made and freed with the branch */
        unsigned listener_count;
        bool is_stopping; /* the order to stop has come */

        _Atomic weir_nsec idle_since; /* of its longest idle connection; WEIR_FOREVER: none.  Written by the owner; relaxed */
        struct weir__work evict;      /* belongs to the thread that has changed `eviction` from NONE */
        _Atomic int eviction;         /* enum weir__eviction of admission.c; written by any thread */

        struct weir__work disown;   /* belongs to the shutdown of the runtime; a user of the server while it is on its way */
        struct weir__branch *next_dropped; /* of the first branch of several: see weir__server_drop_branches */

        struct weir__work order; /* open, stop or cut; one order is under way at a time */
        int failed;              /* of the order to open */
};

struct weir__server {
        /* Constant. */
        const struct weir__server_ops *ops;
        size_t max_connections, max_connections_per_address; /* SIZE_MAX: no limit */
        weir_nsec stop_within; /* after a signal */
        int fault;             /* an error that its start reports; 0: none */
        bool has_files;        /* which SIGHUP makes it open again */
        int ended_fd;          /* eventfd: written when the end of the runtime closes a listener */

        struct weir__secure secure;

        struct weir__lock lock; /* a leaf: no thread waits with it held */

        /* Guarded by lock. */
        uint8_t state;                       /* enum weir__server_state */
        pthread_t changer;                   /* STARTING, STOPPING: the thread that starts or stops it */
        pid_t changer_process;               /* and its process: a forked child has no such thread */
        struct weir__server_waiter *waiters; /* STARTING, STOPPING */
        int successors;                      /* processes that are starting with the sockets */
        struct weir__list cut_reports;       /* of net/serve/reports.c */
        unsigned reported, unreported;       /* what was cut, with a report in that list or without */
        bool has_successor; /* another process has the sockets, or may have them soon; constant once a stop has begun */

        /* Written by the thread that starts or stops the server; constant while it serves.  Other threads read the sockets then,
         * with the lock. */
        unsigned branch_count;
        unsigned generation;       /* of the runtime that the branches belong to */
        struct weir__branch *branches; /* the first one of several: weir__server_branch */
        struct weir__sockets sockets; /* that listen */

        struct weir__serving serving; /* while it serves; guarded by the lock of serving.c */

        struct weir__users users;
        _Atomic unsigned references; /* acq_rel: the program, until it frees the server, and what is detached */
        struct weir__branch *dropped; /* branches of the past, of which detached ones know: freed with the server */
        struct weir__addresses addresses; /* used if the connections of one address are limited */
        _Atomic int port;           /* relaxed; -EDOM: none */
        _Atomic size_t connections; /* with a permit; seq_cst where it may pass the limit: admission.c */
        _Atomic bool has_deficit;   /* too many connections and none idle: the next one that becomes idle is closed; seq_cst */

        void (*order)(struct weir__branch *branch); /* the order that each branch carries out */
        _Atomic unsigned orders_left; /* branches that have not carried it out; acq_rel */
        struct weir__latch *ordered;  /* of the thread that gave the order: opened when all have carried it out */
};

static inline struct weir__branch *
weir__server_branch(const struct weir__server *server, unsigned index)
{
        return (struct weir__branch *)(void *)((char *)server->branches + index * server->ops->branch_size);
}

#endif
