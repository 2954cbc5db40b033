/* kernel/loop/pollers.c: the pollers of the process.
 *
 * Threads: any.
 * Locks:   the pollers' own, all of them during a fork. */
#include "kernel/loop/pollers.h"

#include "kernel/base/phase.h"

static struct weir__poller none = {.index = WEIR__POLLER_NONE, .lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_POLLER)};

struct weir__pollers weir__pollers = {.at = {[WEIR__POLLER_NONE] = &none}};

/* The child of a process in which nothing runs may use the library.  So no other thread may be inside the timers at a fork.
 * Another thread may be making pollers, so this keeps the pollers of before the fork.  Guarded by the lock of `none`, the first
 * one that a fork takes. */
static struct weir__poller *held[WEIR__POLLERS_MAX];

static void
before_fork(void)
{
        weir__lock_hold(&none.lock);
        for (unsigned i = 0; i < WEIR__POLLERS_MAX; i++) {
                held[i] = weir__pollers.at[i];
                if (held[i])
                        weir__lock_hold(&held[i]->lock);
        }
}

static void
after_fork(void)
{
        for (unsigned i = 0; i < WEIR__POLLERS_MAX; i++)
                if (held[i])
                        weir__unlock(&held[i]->lock);
        weir__unlock(&none.lock);
}

/* The child shares its eventfds with the parent, so it needs others.  It does not close them: their numbers may be those of other
 * descriptors by now, if the program has closed what it did not open. */
static void
become_child(void)
{
        for (unsigned i = 0; i < WEIR__POLLERS_MAX; i++)
                if (weir__pollers.at[i])
                        weir__pollers.at[i]->inbox.event_fd = -1;
        after_fork();
}

WEIR__STEPS_OF(WEIR__MODULE_POLLERS, [WEIR__STEP_BEFORE_FORK] = before_fork, [WEIR__STEP_AFTER_FORK] = after_fork,
               [WEIR__STEP_IN_CHILD] = become_child);
