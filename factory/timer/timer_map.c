/* factory/timer/timer_map.c: what all timers share: the map of their names, and the locks that a fork has to hold.
 *
 * Threads: any.
 * Locks:   those of the map's shards (rank NAMES), then the pollers' (rank POLLER). */
#include "factory/timer/timer.h"

#include <pthread.h>

struct weir__names weir__timer_names = WEIR__NAMES_INITIALIZER;
_Atomic unsigned weir__timer_waits;

/* The child of a process in which nothing runs may use the library, so no other thread may be within timers at a fork.  Another
 * thread may be making pollers: these are the ones that there were before the fork.  Guarded by the shards' locks. */
static struct weir__poller *held[WEIR__POLLER_NONE + 1];

static void
before_fork(void)
{
        weir__names_hold(&weir__timer_names);
        for (unsigned i = 0; i <= WEIR__POLLER_NONE; i++) {
                held[i] = weir__pollers.at[i];
                if (held[i])
                        weir__lock_hold(&held[i]->lock);
        }
}

static void
after_fork(void)
{
        for (unsigned i = 0; i <= WEIR__POLLER_NONE; i++)
                if (held[i])
                        weir__unlock(&held[i]->lock);
        weir__names_let_go(&weir__timer_names);
}

/* Before the constructors of a program that has the static library in it, which may make timers; and behind those of the kernel,
 * whose locks come later in the order, so they must be taken later. */
__attribute__((constructor(102))) static void
prepare(void)
{
        pthread_atfork(before_fork, after_fork, after_fork);
}
