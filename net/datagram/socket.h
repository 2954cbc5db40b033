/* net/datagram/socket.h: sockets of datagrams, and the tasks that wait at them.
 *
 * All state of a socket is its poller's owner's, except what says otherwise.  What happens at a socket (it can be read, it can be
 * written, it ends) goes to the parts of this room through a table, because these parts know the socket and not the other way
 * round. */
#ifndef WEIR_NET_DATAGRAM_SOCKET_H
#define WEIR_NET_DATAGRAM_SOCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/base/io_task.h"
#include "kernel/base/lock.h"
#include "net/datagram/address.h"
#include "net/datagram/datagram.h"
#include "net/datagram/table.h"

struct weir__udp_task;

/* Owner of the poller. */
struct weir__udp_ops {
        void (*read)(struct weir_udp *udp);              /* datagrams may have come */
        void (*failed)(struct weir_udp *udp, int error); /* the system has reported an error for what was sent */
        void (*ended)(struct weir_udp *udp, int status); /* it has left its poller: nothing waits there any more */
};

struct weir_udp {
        struct weir__source source;     /* first; `fd` is -1 once it is closed */
        const struct weir__udp_ops *ops; /* constant */
        void *owner;                    /* constant; of `ops` */
        _Atomic size_t handles;         /* the program's, and one of each task: the last one closes it */
        _Atomic size_t references;      /* the handles have one, the registration with epoll, and an order that is on its way */

        /* Constant. */
        struct weir__socket_address local;
        struct weir__socket_address peer; /* size 0: it is not connected */
        bool has_file;                    /* of a Unix socket; `device` and `inode` say whether it is still ours */
        dev_t device;
        ino_t inode;

        size_t max; /* bytes of a datagram; constant once a task has started */
        bool joins; /* the system may join datagrams (weir__datagrams_join); constant */

        struct weir__lock lock; /* rank LEAF */

        /* Guarded by lock. */
        uint8_t poller;     /* constant while it is registered, or a task is on its way */
        bool is_used;       /* a task was started: only the owner of the poller may close the descriptor */
        bool is_registered; /* written by the owner of the poller */

        _Atomic bool is_closed; /* written under the lock */
        _Atomic uint64_t dropped;
        struct weir__work close; /* belongs to the thread that has set is_closed, then to the owner */

        /* Owner of the poller only. */
        bool may_read;      /* epoll has said that something is there, and no read has found the queue empty since */
        bool has_turn;      /* `turn` is on its way */
        bool wants_room;    /* epoll was asked for EPOLLOUT */
        bool reports;       /* IP_RECVERR is on */
        int16_t error;      /* of one that was sent or is lost, for the next receiver; 0: none */
        struct weir__work turn;          /* reads on, behind other work */
        struct weir__list receivers;     /* tasks that wait for a datagram */
        struct weir__list senders;       /* tasks that wait for room */
        struct weir__datagrams kept;     /* read, and for nobody yet; in the order of their numbers */
        uint32_t numbers;                /* given to datagrams until now */
        struct weir__table *asks;        /* NULL: nobody has asked */
        struct weir_udp_address far[4];  /* the last destinations on this machine, for the virtual clock */
        uint8_t far_next;
};

/* A task of this room; also a request of a server, whose base is not an io task in the narrow sense: serve.c. */
struct weir__udp_task {
        struct weir__io_task io; /* first */
        struct weir__link link;  /* in the receivers or senders of the socket, while it waits */
        struct weir_udp *udp;    /* a handle; NULL: the task is poisoned */
        struct weir__datagrams datagrams; /* that it has received, or that it has still to send */
        struct weir__datagram *at;        /* the one that the program looks at */
        size_t count;                     /* received or sent */
        unsigned most;                    /* of a receive */

        /* Of one that sends: tries to.  Returns false when there is no room, and otherwise the task has ended or waits for
         * something else.  Owner. */
        bool (*push)(struct weir__udp_task *task);
};

/* What the accessors know a task by: access.c. */
extern const struct weir__io_ops weir__udp_receive_ops, weir__udp_send_ops, weir__udp_ask_ops;
extern const struct weir__task_ops weir__udp_request_ops;

static inline struct weir__poller *
weir__udp_poller(const struct weir_udp *udp)
{
        return weir__poller_at(udp->poller);
}

static inline bool
weir__udp_is_closed(const struct weir_udp *udp)
{
        return atomic_load_explicit(&udp->is_closed, memory_order_acquire);
}

static inline int
weir__udp_family(const struct weir_udp *udp)
{
        return udp->local.any.sa_family;
}

static inline struct weir__udp_task *
weir__udp_task_of(const struct weir__link *link)
{
        return weir__container_of(link, struct weir__udp_task, link);
}

/* -- any thread -- */

/* Opens a socket, for one handle.  `peer`: `address` is to be connected to.  `should_share`: SO_REUSEPORT.  NULL with errno. */
struct weir_udp *weir__udp_new(const struct weir__udp_ops *ops, void *owner, const struct weir_udp_address *address, bool peer,
                               bool should_share);
struct weir_udp *weir__udp_hold(struct weir_udp *udp); /* another handle */
void weir__udp_release(struct weir_udp *udp);
void weir__udp_close(struct weir_udp *udp);

/* A task that is started gets the poller of its socket. */
void weir__udp_start(struct weir_task *task);

/* Makes a task at a socket, of `size` bytes, all zero behind the base.  For a NULL socket, or with a fault, it is poisoned. */
struct weir__udp_task *weir__udp_task_new(const struct weir__io_ops *ops, struct weir_udp *udp, size_t size, int fault,
                                          weir_task_fn *done, void *context);
void weir__udp_task_release(struct weir_task *task, bool is_discarded);

/* -- owner of the poller -- */

/* Registers it, unless it is.  Result: 0; -ESHUTDOWN, -EBADF, -ENOMEM, -ENOSPC. */
int weir__udp_register(struct weir_udp *udp);

/* Reads on later. */
void weir__udp_take_turn(struct weir_udp *udp);

/* The task waits for room to send. */
void weir__udp_await_room(struct weir__udp_task *task);

/* Sends from the head of the list, as weir__datagrams_send.  What the system has to say of earlier datagrams goes to ops->failed,
 * and does not count as a failure of these. */
int weir__udp_send(struct weir_udp *udp, struct weir__datagrams *list);
int weir__udp_send_one(struct weir_udp *udp, const struct weir__datagram *datagram);

#endif
