/* factory/timer/timer_clock.c: timers that follow another clock: the one on the wall, or the one that counts suspended time.
 *
 * Threads: any.
 *
 * kernel/loop/follow.c has them end at the right time whatever becomes of that clock; timer.c has the protocol, which is the same. */
#include "factory/timer/timer.h"

/* `when` is an instant or a duration, as the clock has it.  `name` is NULL for a timer without one. */
static weir_task *
make(const char *name, clockid_t clock, weir_nsec when, weir_task_fn *done, void *context)
{
        const struct weir__timer_plan plan = {.name = name, .follows = true, .clock = clock, .target = when};

        return weir__timer_make(&plan, when, done, context);
}

weir_task *
weir_timer_new_at(weir_nsec wall, weir_task_fn *done, void *context)
{
        return make(NULL, CLOCK_REALTIME, wall, done, context);
}

weir_task *
weir_timer_new_at_named(const char *name, weir_nsec wall, weir_task_fn *done, void *context)
{
        return make(weir__timer_given_name(name), CLOCK_REALTIME, wall, done, context);
}

weir_task *
weir_timer_new_boottime(weir_nsec after, weir_task_fn *done, void *context)
{
        return make(NULL, CLOCK_BOOTTIME, after, done, context);
}

weir_task *
weir_timer_new_boottime_named(const char *name, weir_nsec after, weir_task_fn *done, void *context)
{
        return make(weir__timer_given_name(name), CLOCK_BOOTTIME, after, done, context);
}
