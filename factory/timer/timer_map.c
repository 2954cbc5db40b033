/* factory/timer/timer_map.c: what all timers share: the map of their names.
 *
 * Threads: any.
 * Locks:   those of the map's shards (rank NAMES). */
#include "factory/timer/timer.h"

#include "kernel/base/phase.h"

struct weir__names weir__timer_names = WEIR__NAMES_INITIALIZER;

static void
before_fork(void)
{
        weir__names_hold(&weir__timer_names);
}

static void
after_fork(void)
{
        weir__names_let_go(&weir__timer_names);
}

WEIR__STEPS_OF(WEIR__MODULE_TIMERS, [WEIR__STEP_BEFORE_FORK] = before_fork, [WEIR__STEP_AFTER_FORK] = after_fork,
               [WEIR__STEP_IN_CHILD] = after_fork);
