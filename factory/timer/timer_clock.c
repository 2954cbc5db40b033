/* factory/timer/timer_clock.c: timers that follow another clock: the one on the wall, or the one that counts suspended time.
 *
 * Threads: any.
 * Locks:   the poller's guards the target.
 *
 * kernel/loop/follow.c has them end at the right time whatever becomes of that clock; timer.c has the protocol, which is the same.
 * The wall clock's have a target from the beginning, the other's a duration until their start. */
#include <errno.h>
#include <string.h>

#include "factory/timer/ticker.h"
#include "kernel/base/clock.h"

void
weir__timer_start_following(struct weir__timer *timer)
{
        struct weir__follower *follower = weir__timer_follower(timer);

        if (weir__timer_ops(timer)->ticks && !follower->target)
                follower->target = weir__ticker_first(timer, weir__follow_read(follower->clock));
        else if (!weir__timer_has_instant(follower))
                follower->target = weir__clock_after(weir__follow_read(follower->clock), timer->node.deadline);
}

void
weir__timer_move_target(struct weir__follower *follower, const struct weir__timer_change *change)
{
        follower->target = change->extends ? weir__timer_put_off(follower->target, change->by)
                                           : weir__clock_after(weir__follow_read(follower->clock), change->by);
}

/* `when` is an instant or a duration, as the clock has it. */
static weir_task *
make(const struct weir__name_key *key, clockid_t clock, weir_nsec when, weir_task_fn *done, void *context)
{
        const struct weir__timer_more more = {.follows = true, .clock = clock, .target = when};
        struct weir__timer *timer = weir__timer_make(key, &more, when, done, context);

        return timer ? &timer->task : NULL;
}

static weir_task *
make_named(const char *name, clockid_t clock, weir_nsec when, weir_task_fn *done, void *context)
{
        size_t size = name ? strlen(name) : 0;

        if (size == 0 || size > WEIR_NAME_MAX)
                return weir__timer_wrong(size ? -ENAMETOOLONG : -EINVAL, done, context);
        struct weir__name_key key = weir__name_key(name, size);
        return make(&key, clock, when, done, context);
}

weir_task *
weir_timer_new_at(weir_nsec wall, weir_task_fn *done, void *context)
{
        return make(NULL, CLOCK_REALTIME, wall, done, context);
}

weir_task *
weir_timer_new_at_named(const char *name, weir_nsec wall, weir_task_fn *done, void *context)
{
        return make_named(name, CLOCK_REALTIME, wall, done, context);
}

weir_task *
weir_timer_new_boottime(weir_nsec after, weir_task_fn *done, void *context)
{
        return make(NULL, CLOCK_BOOTTIME, after, done, context);
}

weir_task *
weir_timer_new_boottime_named(const char *name, weir_nsec after, weir_task_fn *done, void *context)
{
        return make_named(name, CLOCK_BOOTTIME, after, done, context);
}
