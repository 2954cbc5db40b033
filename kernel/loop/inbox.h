/* kernel/loop/inbox.h: work that other threads push to a poller, and the mark by which they know that its owner sleeps. */
#ifndef WEIR_KERNEL_INBOX_H
#define WEIR_KERNEL_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kernel/data/work.h"

struct weir__inbox {
        int event_fd; /* a write wakes the owner.  Constant for ever; in a child of fork -1 until the first start there */

        /* A stack with three kinds of head: NULL, SLEEPING, or the newest work.  A thread pushes by compare-and-swap, release.
         * The owner takes all by exchange, acquire. */
        _Alignas(64) _Atomic(struct weir__work *) head;
};

/* The mark in an inbox whose owner sleeps, or is about to. */
extern struct weir__work weir__inbox_sleeping;
#define WEIR__SLEEPING (&weir__inbox_sleeping)

/* Makes the descriptor, which is never closed.  Result: 0 or a negative errno. */
int weir__inbox_init(struct weir__inbox *inbox);

/* Pushes work, and wakes the owner if it sleeps.  Any thread. */
void weir__inbox_push(struct weir__inbox *inbox, struct weir__work *work);

/* Wakes the owner if it sleeps; several wakes of one sleep cost one write.  Any thread. */
void weir__inbox_wake(struct weir__inbox *inbox);

/* Whether the owner sleeps, or is about to.  Any thread. */
static inline bool weir__inbox_is_asleep(const struct weir__inbox *inbox)
{
        return atomic_load(&inbox->head) == WEIR__SLEEPING;
}

/* Sets the mark, unless there is work.  Owner only. */
bool weir__inbox_mark_sleeping(struct weir__inbox *inbox);

/* Takes all work, oldest first, behind `list`, and removes the mark.  Returns how many work items there were.  Owner only. */
unsigned weir__inbox_take(struct weir__inbox *inbox, struct weir__work_list *list);

#endif
