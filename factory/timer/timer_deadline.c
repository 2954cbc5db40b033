/* factory/timer/timer_deadline.c: deadlines: moved by resets, rounded, or computed from another clock.
 *
 * Threads: any.
 * Locks:   the poller's (rank POLLER) guards deadlines and targets.
 *
 * A target is the instant on the clock that the timer follows (kernel/loop/follow.c).  Its deadline is computed from that. */
#include "factory/timer/timer.h"

#include "kernel/base/clock.h"
#include "kernel/base/list.h"

weir_nsec
weir__timer_put_off(weir_nsec instant, weir_nsec by)
{
        weir_nsec sum;

        if (instant == WEIR_FOREVER)
                return WEIR_FOREVER;
        if (__builtin_add_overflow(instant, by, &sum))
                return by > 0 ? WEIR_FOREVER : INT64_MIN;
        return sum;
}

weir_nsec
weir__timer_move(weir_nsec deadline, weir_nsec by, weir_nsec now)
{
        weir_nsec earliest = deadline < now ? deadline : now, moved = weir__timer_put_off(deadline, by);

        return moved > earliest ? moved : earliest;
}

weir_nsec
weir__timer_new_deadline(struct weir__timer *timer, weir_nsec deadline, weir_nsec now)
{
        if (__builtin_expect(weir__timer_ops(timer)->is_clock_timer, 0)) {
                deadline = weir__follow_deadline(weir__timer_follower(timer));
                if (deadline < now)
                        deadline = now; /* so it ends after timers that are due already */
        }
        return weir__timer_round(timer, deadline, now);
}

/* -- timers that follow another clock -- */

static struct weir__timer *
timer_of(const struct weir__follower *follower)
{
        return weir__container_of(follower->node, struct weir__timer, node);
}

/* After a change of its clock. */
static weir_nsec
round_again(struct weir__follower *follower, weir_nsec deadline, weir_nsec now)
{
        return weir__timer_round(timer_of(follower), deadline, now);
}

static weir_nsec
retarget(struct weir__follower *follower, weir_nsec shown)
{
        struct weir__timer *timer = timer_of(follower);
        const struct weir__ticker_ops *ticks = weir__timer_ops(timer)->ticks;

        return ticks ? ticks->retarget(timer, follower->target, shown) : follower->target;
}

const struct weir__follower_ops weir__timer_follower_ops = {.retarget = retarget, .aim = round_again};

/* A timer of the wall clock has its target from the beginning.  Otherwise the target is a duration until the start. */
static void
set_first_target(struct weir__timer *timer, struct weir__follower *follower)
{
        if (weir__timer_ops(timer)->ticks && !follower->target)
                follower->target = weir__timer_ops(timer)->ticks->retarget(timer, 0, weir__follow_read(follower->clock));
        else if (!weir__timer_has_instant(follower))
                follower->target = weir__clock_after(weir__follow_read(follower->clock), timer->node.deadline);
}

bool
weir__timer_add_clock_timer(struct weir__timer *timer, struct weir__poller *poller, weir_nsec now)
{
        struct weir__follower *follower = weir__timer_follower(timer);

        if (weir__timer_word(timer) == WEIR__NEW)
                set_first_target(timer, follower);
        weir__follow(poller, follower);
        return weir__deadlines_add(poller, &timer->node, weir__timer_new_deadline(timer, 0, now), now);
}

void
weir__timer_move_target(struct weir__follower *follower, const struct weir__timer_change *change)
{
        follower->target = change->extends ? weir__timer_put_off(follower->target, change->by)
                                           : weir__clock_after(weir__follow_read(follower->clock), change->by);
}
