/* factory/timer/timer_deadline.c: deadlines: moved by resets, rounded, or computed from another clock.
 *
 * Threads: any.
 * Locks:   the poller's (rank POLLER) guards deadlines and targets.
 *
 * A target is the instant on the clock that the timer follows (kernel/loop/clock_timer.c).  The deadline is computed from it. */
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
weir__timer_clock_deadline(struct weir__clock_timer *clock_timer, weir_nsec earliest)
{
        weir_nsec deadline = weir__clock_timer_deadline(clock_timer);

        return deadline < earliest ? earliest : deadline;
}

/* -- timers that follow another clock -- */

static struct weir__timer *
timer_of(const struct weir__clock_timer *clock_timer)
{
        return weir__container_of(clock_timer->node, struct weir__timer, node);
}

/* After a change of its clock. */
static weir_nsec
round_again(struct weir__clock_timer *clock_timer, weir_nsec deadline, weir_nsec now)
{
        return weir__timer_fix_deadline(timer_of(clock_timer), deadline, now);
}

static weir_nsec
retarget(struct weir__clock_timer *clock_timer, weir_nsec shown)
{
        struct weir__timer *timer = timer_of(clock_timer);
        const struct weir__ticker_ops *ticks = weir__timer_ops(timer)->ticks;

        return ticks ? ticks->retarget(timer, clock_timer->target, shown) : clock_timer->target;
}

const struct weir__clock_timer_ops weir__timer_clock_ops = {.retarget = retarget, .round = round_again};

/* A timer of the wall clock has its target from the beginning.  Otherwise the target is a duration until the start. */
static void
set_first_target(struct weir__timer *timer, struct weir__clock_timer *clock_timer)
{
        if (weir__timer_ops(timer)->ticks && !clock_timer->target)
                clock_timer->target = weir__timer_ops(timer)->ticks->retarget(timer, 0,
                                                                              weir__clock_timer_read(clock_timer->clock));
        else if (!weir__timer_has_instant(clock_timer))
                clock_timer->target = weir__clock_after(weir__clock_timer_read(clock_timer->clock), timer->node.deadline);
}

bool
weir__timer_add_clock_timer(struct weir__timer *timer, struct weir__poller *poller, weir_nsec now)
{
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);

        if (weir__timer_word(timer) == WEIR__NEW)
                set_first_target(timer, clock_timer);
        weir__deadlines_take_sequence(poller, &timer->node, now);
        return weir__timer_add_clock_timer_again(timer, poller, now);
}

bool
weir__timer_add_clock_timer_again(struct weir__timer *timer, struct weir__poller *poller, weir_nsec earliest)
{
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);

        weir__clock_timer_add(poller, clock_timer);
        weir_nsec deadline = weir__timer_fix_deadline(timer, weir__timer_clock_deadline(clock_timer, earliest), earliest);
        return weir__deadlines_add_in_sequence(poller, &timer->node, deadline);
}

void
weir__timer_move_target(struct weir__clock_timer *clock_timer, const struct weir__timer_change *change)
{
        clock_timer->target = change->should_extend ? weir__timer_put_off(clock_timer->target, change->by)
                                                    : weir__clock_after(weir__clock_timer_read(clock_timer->clock), change->by);
}
