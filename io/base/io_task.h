/* io/base/io_task.h: tasks that belong to a poller, and wait there for the system or for a peer.
 *
 *     NEW --start--> READY --the owner tries--> done: the callback
 *                                  \--wait--> PENDING --complete--> READY --> the callback
 *                                                 \-----cancel----> READY --> the callback, -ECANCELED
 *
 * What they wait at (a descriptor, a stream, an exchange) belongs to the owner of one poller.  The start, on any thread, delivers
 * the task's work to that poller.  There the kind's `try` does at once what the task wants, or links the task where it waits.
 *
 * The work of a PENDING task is in no list.  The thread that changes PENDING, by an end or a cancel, delivers the work, once.  A
 * cancel at any other time only sets its flag, and the work finds it.  The work always runs on the poller of the task.
 *
 * A task that waits at something of all pollers may be claimed by any thread, which then tries it again, on another poller
 * perhaps: weir__io_claim. */
#ifndef WEIR_IO_IO_TASK_H
#define WEIR_IO_IO_TASK_H

#include "factory/task/task.h"

struct weir__io_task {
        struct weir_task task; /* first; its word: see above */
};

/* The operations of a kind.  They run no user code. */
struct weir__io_ops {
        struct weir__task_ops task; /* first; made by WEIR__IO_TASK_OPS */

        /* Does what the task wants, or sets `is_linked` and has it wait.  Owner.  Not called for a task that was cancelled
         * before.
         *
         * Result:  the status of the task, unless it waits. */
        int (*try)(struct weir__io_task *task);

        /* It waits from now on, where other threads may find it.  It may be gone before this returns.  Owner.  NULL: nothing. */
        void (*waits)(struct weir__io_task *task);

        /* A task that waits was cancelled: it leaves its place, and gives up what it has not done.  Owner. */
        void (*withdraw)(struct weir__io_task *task);

        /* The task is over, however it ended: just before its callback.  `verdict`: why its series has ended early, which the
         * callback sees in place of what the task has come to; 0: it has not.  Owner.  NULL: nothing. */
        void (*settle)(struct weir__io_task *task, int verdict);

        /* A read of a body gives up the piece that it has read (kernel/memory/piece.h): NULL and no bytes if it has none.  Its
         * callback.  NULL: it is another kind. */
        char *(*take)(struct weir__io_task *task, size_t *size);
};

#define WEIR__IO_TASK_OPS(a_kind, its_start, its_release, its_describe)                                                     \
        {                                                                                                                   \
                .work = {.run = weir__io_run, .kind = (a_kind), .function = weir__io_function, .name = weir__task_name},    \
                .start = (its_start), .end_early = weir__io_end_early, .release = (its_release), .describe = (its_describe) \
        }

/* A task that waits has ended, and is in no list any more.  Nothing happens if a cancel was faster.  Owner. */
void weir__io_complete(struct weir__io_task *task, int status);

/* A task that waits is tried again, perhaps on another poller.  Any thread: the first function, which returns false when a cancel
 * was faster, makes the task the caller's; the second one gives it to that poller. */
bool weir__io_claim(struct weir__io_task *task);
void weir__io_try_again(struct weir__io_task *task, unsigned poller);

/* Takes the piece out of any task, which may be NULL, inside its callback.  Result: 0; -EINVAL: it is no read of a body. */
int weir__io_take(struct weir_task *task, char **piece, size_t *size);

/* -- for the tables of kinds -- */

/* Gives the task to its poller.  It may be gone when this returns. */
void weir__io_start(struct weir_task *task);
void weir__io_run(struct weir__work *work);
struct weir_task *weir__io_end_early(struct weir_task *task);

/* A work item that only tries is not demoted, whatever it calls back then: so tasks of one thread are tried in the order of their
 * starts. */
weir__function *weir__io_function(const struct weir__work *work);

#endif
