/* factory/ticker.c: timers that come again and again.
 *
 *      PENDING --expiry--> READY --worker--> RUNNING and EXPIRED: a tick
 *         ^                                     |        |
 *         `--------------- goes on -------------'        `-- stop, limit, cancel, shutdown --> RUNNING: the last callback
 *
 * Threads: tick runs on the ticker's worker; the rest under its poller's lock, on any thread.
 * Locks:   the poller's guards what a reset changes.
 *
 * All of timer.c holds for a ticker.  While the word says RUNNING and EXPIRED, a cancel marks it, and the worker finds the mark
 * when it compare-and-swaps PENDING into the word at the end of the tick.  It takes EXPIRED away before the last callback, unless
 * it was marked: then a cancel comes too late. */
#include "factory/ticker.h"

#include <errno.h>
#include <string.h>

#include <weir/ticker.h>

#include "kernel/clock.h"

struct ticker {
        /* Constant once started. */
        enum weir_tick_policy policy;
        uint64_t limit; /* of ticks; 0: none */

        /* Guarded by the poller's lock; `due` stays while the ticker is READY or RUNNING. */
        weir_nsec period;
        weir_nsec due;   /* the next tick; in a tick, that one */
        weir_nsec reset; /* in a tick: when the next one is due; 0: as the policy says */
        weir_nsec shift; /* in a tick: how much later the next one is than that */

        /* Its callback's, and the worker's between callbacks. */
        weir_nsec scheduled, actual;
        uint64_t count, missed;
        uint64_t to_be_missed; /* before the next tick */
        bool stopped;
};

/* Behind the timer, its name, and the clock that it follows. */
static struct ticker *
ticker_of(struct weir__timer *timer)
{
        struct weir__follower *follower = weir__timer_follower(timer);
        struct weir__name *name = weir__timer_name(timer);
        size_t before = name ? weir__named_timer_size(name->size) : sizeof *timer;

        return follower ? (struct ticker *)(follower + 1) : (struct ticker *)((char *)timer + before);
}

/* NULL for what is none. */
static struct ticker *
ticker_of_task(const struct weir_task *task)
{
        struct weir__timer *timer = weir__timer_of_task((struct weir_task *)task); /* const guards its caller only */

        return timer && weir__timer_ops(timer)->ticks ? ticker_of(timer) : NULL;
}

/* -- when the next one is due; under the poller's lock -- */

void
weir__ticker_aim(struct weir__timer *timer, weir_nsec due)
{
        ticker_of(timer)->due = due;
}

/* `periods` after an instant. */
static weir_nsec
later(weir_nsec instant, weir_nsec period, weir_nsec periods)
{
        weir_nsec by;

        return __builtin_mul_overflow(period, periods, &by) ? WEIR_FOREVER : weir__timer_put_off(instant, by);
}

/* How many ticks behind the one that has just ended are due already. */
static weir_nsec
ticks_behind(const struct ticker *ticker, weir_nsec now)
{
        return now > ticker->due ? (now - ticker->due) / ticker->period : 0;
}

static weir_nsec
next_by_policy(struct ticker *ticker, weir_nsec now)
{
        weir_nsec behind = ticks_behind(ticker, now), dropped = 0;

        if (ticker->policy == WEIR_TICK_DELAY)
                return weir__clock_after(now, ticker->period);
        if (ticker->policy == WEIR_TICK_SKIP)
                dropped = behind;
        else if (behind > WEIR_TICK_BURST_MOST)
                dropped = behind - WEIR_TICK_BURST_MOST;
        ticker->to_be_missed = (uint64_t)dropped;
        return later(ticker->due, ticker->period, dropped + 1);
}

weir_nsec
weir__ticker_next(struct weir__timer *timer, weir_nsec now)
{
        struct ticker *ticker = ticker_of(timer);
        weir_nsec next = ticker->reset ? ticker->reset : next_by_policy(ticker, now);

        next = weir__timer_move(next, ticker->shift, now);
        ticker->reset = ticker->shift = 0;
        return next;
}

bool
weir__ticker_change_next(struct weir__timer *timer, const struct weir__timer_change *change)
{
        struct ticker *ticker = ticker_of(timer);

        if (change->extends) {
                ticker->shift = weir__timer_put_off(ticker->shift, change->by);
        } else {
                weir_nsec next = weir__clock_after(change->now, change->by);
                ticker->reset = next ? next : 1;
                ticker->shift = 0;
        }
        return true;
}

void
weir__ticker_change_period(struct weir__timer *timer, weir_nsec period)
{
        if (period > 0)
                ticker_of(timer)->period = period;
}

/* -- on its worker -- */

/* A tick that has begun goes on to the last callback: from here on a cancel comes too late. */
static void
end_ticking(struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer);

        while (weir__timer_is_ticking(timer, word))
                if (weir__timer_swap(timer, &word, word & ~(uint32_t)WEIR__EXPIRED))
                        return;
        if (word & WEIR__CANCELLED)
                timer->task.status = -ECANCELED;
}

/* Who waits for callbacks of its name that run need not wait for its end. */
static void
tell_waiters(struct weir__timer *timer)
{
        struct weir__name *name = weir__timer_name(timer);

        weir__fence_light(); /* the heavy one is in weir_timer_cancel_wait */
        if (!name || !atomic_load_explicit(&weir__timer_waits, memory_order_relaxed))
                return;
        struct weir__names_shard *shard = weir__names_lock(&weir__timer_names, name->hash);
        weir__names_look_again(shard, name);
        weir__names_unlock(shard);
}

static void
call_back(struct weir__timer *timer, struct ticker *ticker)
{
        ticker->scheduled = ticker->due;
        ticker->actual = weir__clock_now();
        ticker->missed = ticker->to_be_missed;
        ticker->to_be_missed = 0;
        ticker->count++;
        timer->task.status = -EINPROGRESS;
        weir__task_call_back(&timer->task);
        timer->task.status = 0;
}

bool
weir__ticker_tick(struct weir__timer *timer)
{
        struct ticker *ticker = ticker_of(timer);
        uint32_t word = weir__timer_word(timer);

        if (timer->task.status == 0 && weir__timer_is_ticking(timer, word)) {
                call_back(timer, ticker);
                if (!ticker->stopped && ticker->count != ticker->limit && weir__timer_rearm(timer, word)) {
                        tell_waiters(timer);
                        return true;
                }
        }
        end_ticking(timer);
        return false;
}

/* -- the public face -- */

static weir_task *
make(const struct weir__name_key *key, weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn, void *context)
{
        const struct ticker ticker = {.policy = policy, .period = period};
        const struct weir__timer_more more = {.ticks = true, .ticker = &ticker, .ticker_size = sizeof ticker};
        struct weir__timer *timer = weir__timer_make(key, &more, period, fn, context);

        return timer ? &timer->task : NULL;
}

static bool
is_sound(weir_nsec period, enum weir_tick_policy policy)
{
        return period > 0 && (policy == WEIR_TICK_SKIP || policy == WEIR_TICK_BURST || policy == WEIR_TICK_DELAY);
}

weir_task *
weir_ticker_new(weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn, void *context)
{
        if (!is_sound(period, policy))
                return weir__timer_wrong(-EINVAL, fn, context);
        return make(NULL, period, policy, fn, context);
}

weir_task *
weir_ticker_new_named(const char *name, weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn, void *context)
{
        size_t size = name ? strlen(name) : 0;
        int fault = size > WEIR_NAME_MAX ? -ENAMETOOLONG : !size || !is_sound(period, policy) ? -EINVAL : 0;

        if (fault)
                return weir__timer_wrong(fault, fn, context);
        struct weir__name_key key = weir__name_key(name, size);
        return make(&key, period, policy, fn, context);
}

/* What is wrong with setting something of it; 0: nothing. */
static int
fault_before_start(const weir_task *task)
{
        if (!task || task->flags & WEIR__TASK_CONSUMED)
                return -EINVAL;
        return ticker_of_task(task) ? 0 : -EDOM;
}

int
weir_ticker_set_first(weir_task *task, weir_nsec after)
{
        int fault = fault_before_start(task);

        if (!fault)
                weir__timer_set_duration(weir__timer_of_task(task), after);
        return fault;
}

int
weir_ticker_set_limit(weir_task *task, uint64_t ticks)
{
        int fault = fault_before_start(task);

        if (!fault)
                ticker_of_task(task)->limit = ticks;
        return fault;
}

int
weir_ticker_stop(weir_task *task)
{
        struct ticker *ticker = task ? ticker_of_task(task) : NULL;

        if (!ticker)
                return task ? -EDOM : -EINVAL;
        if (task->status != -EINPROGRESS)
                return -EINVAL;
        ticker->stopped = true;
        return 0;
}

weir_nsec
weir_ticker_scheduled(const weir_task *task)
{
        const struct ticker *ticker = task ? ticker_of_task(task) : NULL;

        return ticker ? ticker->scheduled : -EDOM;
}

weir_nsec
weir_ticker_actual(const weir_task *task)
{
        const struct ticker *ticker = task ? ticker_of_task(task) : NULL;

        return ticker ? ticker->actual : -EDOM;
}

uint64_t
weir_ticker_missed(const weir_task *task)
{
        const struct ticker *ticker = task ? ticker_of_task(task) : NULL;

        return ticker ? ticker->missed : 0;
}

uint64_t
weir_ticker_count(const weir_task *task)
{
        const struct ticker *ticker = task ? ticker_of_task(task) : NULL;

        return ticker ? ticker->count : 0;
}
