/* io/base/fd.h: descriptors of the program that tasks wait for. */
#ifndef WEIR_IO_FD_H
#define WEIR_IO_FD_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/fd.h>

#include "io/base/io_task.h"
#include "kernel/base/lock.h"

/* A descriptor that tasks wait for.  Each task has a reference.  The program, until it forgets it, and the registration with
 * epoll have one together. */
struct weir_fd {
        struct weir__source source; /* first; its fd is constant */
        _Atomic size_t references;

        struct weir__lock lock; /* rank LEAF */

        /* Written under the lock.  Constant while it is registered, or a task or an order is on its way. */
        _Atomic uint8_t poller;

        _Atomic bool is_over; /* the program has forgotten it, or closed the descriptor; written under the lock */
        _Atomic bool is_used; /* a task was started; any thread, relaxed */

        /* Guarded by lock. */
        bool is_kept;       /* weir_fd_keep; constant from the first task on */
        bool is_forgotten;
        bool is_registered; /* written by the owner of the poller */
        uint8_t orders;     /* bits of enum order that `work` has not carried out */

        struct weir__work work; /* belongs to the thread that has set the first of the orders, then to the owner */

        /* Owner of the poller only. */
        uint32_t armed;           /* the events for which epoll was asked last; each answer takes them back if not is_lasting */
        bool is_lasting;          /* epoll goes on to report them: to read, of one that is kept */
        struct weir__list waits;  /* tasks */
        struct weir__link waited; /* in the list of its poller, while a task waits: fd_closed.c */
};

/* -- fd_closed.c: descriptors that were closed under a task.  Owner of the poller -- */

/* A task begins to wait for it, perhaps the first; or none waits any more.  `check`, the same for all, looks whether it is still
 * the descriptor that was registered, and if not ends what waits for it. */
void weir__fd_begin_looks(struct weir_fd *fd, struct weir__poller *poller, bool is_first, bool check(struct weir_fd *fd));
void weir__fd_end_looks(struct weir_fd *fd);

#endif
