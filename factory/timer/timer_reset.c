/* factory/timer/timer_reset.c: another deadline for a timer that will still end by itself.
 *
 * Threads: any.
 * Locks:   the one by which the timer was found, and its poller's (rank POLLER).  Start, expiry, and a worker that puts a timer
 *          back into the queue take the second one too.
 *
 * NEW: the reset writes the duration.  PENDING: it gives the node another deadline.  READY and EXPIRED: it writes the deadline
 * into the node and compare-and-swaps REARMED into the word; the worker then puts the timer back.  Otherwise: too late. */
#include "factory/timer/timer.h"
#include "kernel/base/clock.h"

/* Makes the worker put a READY timer back. */
static bool
mark_rearmed(struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer);

        while ((word & (WEIR__STATE | WEIR__EXPIRED | WEIR__CANCELLED)) == (WEIR__READY | WEIR__EXPIRED))
                if (weir__timer_swap(timer, &word, word | WEIR__REARMED))
                        return true;
        return false;
}

/* For a ticker: the deadline before it was rounded, so that the ticker keeps its phase.  Before the start: the duration. */
static weir_nsec
present_deadline(struct weir__timer *timer)
{
        const struct weir__ticker *ticker = weir__timer_ticker(timer);
        uint32_t word = weir__timer_word(timer);

        return ticker && word & WEIR__STATE && !(word & WEIR__REARMED) ? ticker->due : timer->node.deadline;
}

static weir_nsec
changed(struct weir__timer *timer, const struct weir__timer_change *change)
{
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);

        if (clock_timer) {
                weir__timer_move_target(clock_timer, change);
                return weir__timer_clock_deadline(clock_timer, change->now);
        }
        return change->should_extend ? weir__timer_move(present_deadline(timer), change->by, change->now)
                                     : weir__clock_after(change->now, change->by);
}

/* Writes the deadline and the sequence first, so that a worker that sees REARMED finds them. */
static bool
rearm_later(struct weir__timer *timer, struct weir__poller *poller, const struct weir__timer_change *change)
{
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);
        const weir_nsec deadline = timer->node.deadline, target = clock_timer ? clock_timer->target : 0;
        const uint64_t word = timer->node.word;

        timer->node.deadline = changed(timer, change);
        weir__deadlines_take_sequence(poller, &timer->node, change->now);
        if (mark_rearmed(timer))
                return true;
        timer->node.deadline = deadline; /* the callback has begun */
        timer->node.word = word;
        if (clock_timer)
                clock_timer->target = target;
        return false;
}

static bool
change_new(struct weir__timer *timer, const struct weir__timer_change *change)
{
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);

        if (weir__timer_has_instant(clock_timer) && weir__timer_ops(timer)->ticks && change->should_extend)
                return false; /* the first tick is known only at the start */
        if (weir__timer_has_instant(clock_timer))
                weir__timer_move_target(clock_timer, change);
        else if (weir__timer_ops(timer)->is_until && !change->should_extend)
                timer->node.deadline = weir__clock_after(change->now, change->by);
        else
                timer->node.deadline = change->should_extend ? weir__timer_put_off(timer->node.deadline, change->by) : change->by;
        return true;
}

static bool
change_pending(struct weir__timer *timer, struct weir__poller *poller, const struct weir__timer_change *change)
{
        weir_nsec deadline = weir__timer_fix_deadline(timer, changed(timer, change), change->now);

        return weir__deadlines_reset(poller, &timer->node, deadline, change->now);
}

/* Under the lock a NEW timer stays NEW, and a PENDING one changes only by a cancel.  A READY one may begin at any time. */
static bool
change_deadline(struct weir__timer *timer, struct weir__poller *poller, const struct weir__timer_change *change, bool *wake)
{
        uint32_t word = weir__timer_word(timer);

        if (word == WEIR__NEW)
                return change_new(timer, change);
        if (poller->deadlines.is_closing)
                return false;
        if ((word & WEIR__STATE) == WEIR__PENDING) {
                *wake |= change_pending(timer, poller, change);
                return true;
        }
        /* A READY timer that is not EXPIRED was ended by something else. */
        return (word & (WEIR__STATE | WEIR__EXPIRED)) == (WEIR__READY | WEIR__EXPIRED) && rearm_later(timer, poller, change);
}

/* Not before the zero of the clock, and not negative: two such numbers have a difference. */
static weir_nsec
due_of_ticker(struct weir__timer *timer)
{
        weir_nsec due = present_deadline(timer);

        return due > 0 ? due : 0;
}

/* The next tick has been moved; before that it was due at that instant. */
static __attribute__((noinline)) void
note_move(struct weir__timer *timer, struct weir__ticker *ticker, const struct weir__timer_change *change, weir_nsec before)
{
        bool is_new = weir__timer_word(timer) == WEIR__NEW;

        if (weir__timer_clock_part(timer))
                return; /* a schedule has no phase */
        if (change->is_for_tick && ticker->phase_is == WEIR__PHASE_DUE) {
                ticker->phase = before;
                ticker->phase_is = is_new ? WEIR__PHASE_FROM_START : WEIR__PHASE_APART;
        } else if (change->should_extend && ticker->phase_is != WEIR__PHASE_DUE) {
                ticker->phase = weir__timer_move(ticker->phase, change->by, is_new ? 0 : change->now);
        } else if (!change->is_for_tick && !change->should_extend) {
                ticker->phase_is = WEIR__PHASE_DUE;
                ticker->period = change->by > 0 ? change->by : ticker->period;
        }
}

void
weir__timer_begin_phase(struct weir__ticker *ticker, weir_nsec now)
{
        ticker->phase = weir__clock_after(now, ticker->phase);
        ticker->phase_is = WEIR__PHASE_APART;
}

bool
weir__timer_change(struct weir__timer *timer, struct weir__poller *poller, const struct weir__timer_change *change, bool *wake)
{
        struct weir__ticker *ticker = weir__timer_ticker(timer);

        if (!ticker)
                return !change->is_for_tick && change_deadline(timer, poller, change, wake);
        weir_nsec before = due_of_ticker(timer);
        bool done = change_deadline(timer, poller, change, wake);
        if (done)
                note_move(timer, ticker, change, before);
        else if (!poller->deadlines.is_closing && weir__timer_is_ticking(timer, weir__timer_word(timer)))
                done = weir__timer_ops(timer)->ticks->change_next(timer, change);
        ticker->is_moved |= done;
        return done;
}

void
weir__timer_set_duration(struct weir__timer *timer, weir_nsec duration)
{
        struct weir__poller *poller = weir__timer_poller(timer);
        struct weir__ticker *ticker = weir__timer_ticker(timer);

        weir__lock(&poller->lock); /* other threads may reset it by its name */
        timer->node.deadline = duration;
        if (ticker)
                ticker->phase_is = WEIR__PHASE_DUE;
        weir__unlock(&poller->lock);
}
