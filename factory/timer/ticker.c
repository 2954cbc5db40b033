/* factory/timer/ticker.c: timers that repeat.
 *
 *      PENDING --expiry--> READY --worker--> RUNNING and EXPIRED: a tick
 *         ^                                     |        |
 *         `---------------- next tick ----------'        `-- stop, limit, cancel, shutdown --> RUNNING: the last callback
 *
 * Threads: `tick` runs on the ticker's worker; the other operations run on any thread, under the poller's lock.
 * Locks:   the poller's guards the period and the instants.
 *
 * A ticker follows the protocol of timer.c.  During a tick a cancel marks the word; the worker finds the mark when it
 * compare-and-swaps PENDING into the word after the tick.  Before the last callback the worker removes EXPIRED, unless the word
 * is marked.  A later cancel comes too late. */
#include "factory/timer/timer.h"

#include <errno.h>
#include <string.h>

#include <weir/runtime.h>
#include <weir/ticker.h>

#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/calendar/cron.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"

#define CORRECTION_MAX WEIR_SEC(3 * 3600) /* a clock put back by less is corrected; as cron(8) of Debian has it */
#define COUNTED_MAX    256                /* missed ticks of a schedule, because each must be searched for */

/* A schedule by the wall clock. */
struct schedule {
        struct weir__cron cron;
        struct weir__zone *zone;
};

struct ticker {
        struct weir__ticker base; /* first */

        /* Constant until its end. */
        struct schedule *schedule; /* NULL: it has a period */

        /* Constant once started. */
        enum weir_tick_policy policy;
        uint64_t limit; /* of ticks; 0: none */

        /* Guarded by the poller's lock. */
        weir_nsec reset, shift;             /* during a tick: when the next one is due, 0: as the policy says; how much later */
        weir_nsec alone_reset, alone_shift; /* the same for the next tick alone, if it is moved; 0: it is not */

        /* The worker's and its callback's. */
        weir_nsec scheduled, actual;
        uint64_t count, missed;
        uint64_t to_be_missed; /* ticks, before the next one */
};

/* NULL for a timer that is no ticker. */
static struct ticker *
ticker_of(struct weir__timer *timer)
{
        return (struct ticker *)weir__timer_ticker(timer);
}

/* NULL for a task that is no ticker. */
static struct ticker *
ticker_of_task(const struct weir_task *task)
{
        weir__memory_expect(task);
        struct weir__timer *timer = weir__timer_of_task((struct weir_task *)task); /* const protects the caller only */

        return timer ? ticker_of(timer) : NULL;
}

/* -- when the next tick is due; under the poller's lock -- */

static void
set_last(struct ticker *ticker, bool is_last)
{
        atomic_store_explicit(&ticker->base.is_last, is_last, memory_order_relaxed);
}

static bool
is_last(const struct ticker *ticker)
{
        return atomic_load_explicit(&ticker->base.is_last, memory_order_relaxed);
}

/* `periods` after an instant. */
static weir_nsec
add_periods(weir_nsec instant, weir_nsec period, weir_nsec periods)
{
        weir_nsec by;

        return __builtin_mul_overflow(period, periods, &by) ? WEIR_FOREVER : weir__timer_put_off(instant, by);
}

static weir_nsec
next_by_policy(struct ticker *ticker, weir_nsec now)
{
        weir_nsec phase = ticker->base.phase_is == WEIR__PHASE_DUE ? ticker->base.due : ticker->base.phase;
        weir_nsec behind = now > phase ? (now - phase) / ticker->base.period : 0, dropped = 0;

        if (ticker->policy == WEIR_TICK_DELAY)
                return weir__clock_after(now, ticker->base.period);
        if (ticker->policy == WEIR_TICK_SKIP)
                dropped = behind;
        else if (behind > WEIR_TICK_BURST_MOST)
                dropped = behind - WEIR_TICK_BURST_MOST;
        ticker->to_be_missed = (uint64_t)dropped;
        return add_periods(phase, ticker->base.period, dropped + 1);
}

static weir_nsec
next_by_schedule(struct ticker *ticker, weir_nsec shown)
{
        const struct schedule *schedule = ticker->schedule;
        weir_nsec next = weir__cron_next(&schedule->cron, schedule->zone, ticker->base.due);

        for (; next <= shown && ticker->to_be_missed < COUNTED_MAX; ticker->to_be_missed++)
                next = weir__cron_next(&schedule->cron, schedule->zone, next);
        return next <= shown ? weir__cron_next(&schedule->cron, schedule->zone, shown) : next;
}

/* When the next tick is due, by the calls during this one.  If that tick alone was moved, its phase stays where it would be. */
static weir_nsec
next_after_calls(struct ticker *ticker, weir_nsec now, weir_nsec shown)
{
        weir_nsec next = ticker->reset;

        if (!next)
                next = ticker->schedule ? next_by_schedule(ticker, shown) : next_by_policy(ticker, now);
        next = weir__timer_move(next, ticker->shift, shown);
        ticker->base.phase = next;
        ticker->base.phase_is = ticker->alone_reset ? WEIR__PHASE_APART : WEIR__PHASE_DUE;
        return ticker->alone_reset ? weir__timer_move(ticker->alone_reset, ticker->alone_shift, shown) : next;
}

static weir_nsec
next_tick(struct weir__timer *timer, weir_nsec now)
{
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);
        struct ticker *ticker = ticker_of(timer);
        weir_nsec shown = clock_timer ? weir__clock_timer_read(clock_timer->clock) : now;
        weir_nsec next = next_after_calls(ticker, now, shown);

        ticker->base.is_moved = ticker->reset || ticker->shift;
        ticker->reset = ticker->shift = ticker->alone_reset = ticker->alone_shift = 0;
        if (clock_timer)
                clock_timer->target = next;
        if (ticker->count + 1 == ticker->limit)
                set_last(ticker, true);
        return next;
}

/* A clock that is put back by less than CORRECTION_MAX is corrected, and past ticks do not come again.  Otherwise it shows
 * another time. */
static weir_nsec
retarget(struct weir__timer *timer, weir_nsec target, weir_nsec shown)
{
        struct ticker *ticker = ticker_of(timer);
        weir_nsec last = ticker->scheduled;

        if (target && (shown >= target || ticker->base.is_moved))
                return target;
        ticker->base.is_moved = false;
        return weir__cron_next(&ticker->schedule->cron, ticker->schedule->zone,
                               last > shown && last - shown < CORRECTION_MAX ? last : shown);
}

static bool
change_next(struct weir__timer *timer, const struct weir__timer_change *change)
{
        struct ticker *ticker = ticker_of(timer);

        if (is_last(ticker))
                return false;
        if (change->should_extend) {
                ticker->shift = weir__timer_put_off(ticker->shift, change->by);
                ticker->alone_shift = weir__timer_put_off(ticker->alone_shift, change->by);
                return true;
        }
        const struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);
        weir_nsec next = weir__clock_after(clock_timer ? weir__clock_timer_read(clock_timer->clock) : change->now, change->by);
        bool is_alone = change->is_for_tick && !clock_timer;
        ticker->alone_reset = ticker->alone_shift = 0;
        if (is_alone) {
                ticker->alone_reset = next ? next : 1;
                return true;
        }
        ticker->reset = next ? next : 1;
        ticker->shift = 0;
        if (!change->is_for_tick && change->by > 0)
                ticker->base.period = change->by;
        return true;
}

/* -- on its worker -- */

/* Before the last callback: from here on a cancel comes too late. */
static void
end_ticking(struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer);

        while (weir__timer_is_ticking(timer, word))
                if (weir__timer_swap(timer, &word, word & ~(uint32_t)WEIR__EXPIRED))
                        break;
        weir__timer_take_verdict(timer, word);
}

static void
call_back(struct weir__timer *timer, struct ticker *ticker)
{
        ticker->scheduled = ticker->base.due;
        ticker->actual = ticker->schedule ? weir__clock_timer_read(CLOCK_REALTIME) : weir__clock_now();
        ticker->missed = ticker->to_be_missed;
        ticker->to_be_missed = 0;
        ticker->count++;
        timer->task.status = -EINPROGRESS;
        weir__task_call_back(&timer->task);
        timer->task.status = 0;
}

static bool
tick(struct weir__timer *timer)
{
        struct ticker *ticker = ticker_of(timer);
        uint32_t word = weir__timer_word(timer);

        if (timer->task.status == 0 && weir__timer_is_ticking(timer, word)) {
                call_back(timer, ticker);
                if (!is_last(ticker) && weir__timer_rearm(timer, word))
                        return true;
        }
        end_ticking(timer);
        return false;
}

static void
drop_schedule(struct schedule *schedule)
{
        if (!schedule)
                return;
        weir__zone_free(schedule->zone);
        weir__free(schedule, sizeof *schedule);
}

static void
drop_ticker(struct weir__timer *timer)
{
        drop_schedule(ticker_of(timer)->schedule);
}

static const struct weir__ticker_ops ticker_ops = {
        .tick = tick,
        .drop = drop_ticker,
        .next = next_tick,
        .retarget = retarget,
        .change_next = change_next,
};

#define OPS(is_named, is_clock) WEIR__TIMER_OPS("a ticker", is_named, is_clock, &ticker_ops)

/* By: whether it is a clock timer; whether it has a name. */
static const struct weir__timer_ops timer_ops[2][2] = {{OPS(false, false), OPS(true, false)},
                                                       {OPS(false, true), OPS(true, true)}};

/* -- the public face -- */

static weir_task *
make(const char *name, const struct ticker *ticker, weir_task_fn *fn, void *context)
{
        const struct weir__timer_plan plan = {.name = name,
                                              .is_clock_timer = ticker->schedule,
                                              .clock = CLOCK_REALTIME,
                                              .ticks = timer_ops,
                                              .ticker = ticker,
                                              .ticker_size = sizeof *ticker};

        return weir__timer_make(&plan, ticker->base.period, fn, context);
}

/* 0 or -EINVAL. */
static int
fault_of(weir_nsec period, enum weir_tick_policy policy)
{
        if (period <= 0)
                return weir__log_refusal("a ticker with a period of %lld: expected 1 or more", (long long)period);
        if (policy != WEIR_TICK_SKIP && policy != WEIR_TICK_BURST && policy != WEIR_TICK_DELAY)
                return weir__log_refusal("a ticker with the policy %d: expected an enum weir_tick_policy", (int)policy);
        return 0;
}

static int
fault_of_name(const char *name)
{
        struct weir__name_key key;

        return name ? weir__name_expect("a ticker", name, &key) : 0;
}

static weir_task *
make_periodic(const char *name, weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn, void *context)
{
        const struct ticker ticker = {.policy = policy, .base.period = period};
        int fault = fault_of_name(name);

        if (!fault)
                fault = fault_of(period, policy);
        return fault ? weir__timer_new_poisoned(fault, fn, context) : make(name, &ticker, fn, context);
}

weir_task *
weir_ticker_new(weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn, void *context)
{
        return make_periodic(NULL, period, policy, fn, context);
}

weir_task *
weir_ticker_new_named(const char *name, weir_nsec period, enum weir_tick_policy policy, weir_task_fn *fn, void *context)
{
        return make_periodic(weir__timer_given_name(name), period, policy, fn, context);
}

/* Result: 0; -EINVAL; -ENOMEM; an error of weir__zone_open. */
static int
read_schedule(struct schedule **schedule, const char *cron, const char *zone, struct weir__cron_error *where)
{
        struct schedule read = {0};
        int failed = weir__cron_parse(cron, &read.cron, where);

        if (!failed)
                failed = weir__zone_open(zone, &read.zone);
        if (failed)
                return failed;
        *schedule = weir__alloc(sizeof read);
        if (!*schedule) {
                weir__zone_free(read.zone);
                return -ENOMEM;
        }
        **schedule = read;
        return 0;
}

static void
say_bad_schedule(const char *cron, const char *zone, const struct weir__cron_error *where, int fault)
{
        if (where->expected)
                weir__log_refusal("a ticker with the schedule \"%s\": at %zu: expected %s", cron ? cron : "", where->position,
                                  where->expected);
        else
                weir__log_refusal("a ticker with the zone \"%s\": %s: expected a name of the time zone database, or NULL",
                                  zone ? zone : "", weir_strerror(fault));
}

static weir_task *
make_scheduled(const char *name, const char *cron, const char *zone, weir_task_fn *fn, void *context)
{
        struct ticker ticker = {.policy = WEIR_TICK_SKIP};
        struct weir__cron_error where = {0, NULL};
        int fault = fault_of_name(name);

        if (!fault) {
                fault = read_schedule(&ticker.schedule, cron, zone, &where);
                if (fault && fault != -ENOMEM)
                        say_bad_schedule(cron, zone, &where, fault);
        }
        if (fault)
                return fault == -ENOMEM ? NULL : weir__timer_new_poisoned(fault, fn, context);
        weir_task *task = make(name, &ticker, fn, context);
        if (!task)
                drop_schedule(ticker.schedule);
        return task;
}

weir_task *
weir_ticker_new_at(const char *cron, const char *zone, weir_task_fn *fn, void *context)
{
        return make_scheduled(NULL, cron, zone, fn, context);
}

weir_task *
weir_ticker_new_at_named(const char *name, const char *cron, const char *zone, weir_task_fn *fn, void *context)
{
        return make_scheduled(weir__timer_given_name(name), cron, zone, fn, context);
}

int
weir_ticker_check(const char *cron, const char *zone, size_t *position, const char **expected)
{
        struct weir__cron_error where = {0, NULL};
        struct schedule *schedule;
        int failed = read_schedule(&schedule, cron, zone, &where);

        if (!failed)
                drop_schedule(schedule);
        if (position)
                *position = where.position;
        if (expected)
                *expected = where.expected;
        return failed;
}

weir_nsec
weir_ticker_next(const char *cron, const char *zone, weir_nsec after)
{
        struct schedule *schedule;
        int failed = read_schedule(&schedule, cron, zone, NULL);

        if (failed)
                return failed;
        weir_nsec next = weir__cron_next(&schedule->cron, schedule->zone, after);
        drop_schedule(schedule);
        return next < 0 ? -ERANGE : next;
}

/* The error of an operation that is allowed before the start only; 0: none. */
static int
fault_before_start(const weir_task *task)
{
        weir__memory_expect(task);
        if (weir__phase_is_forked())
                return -ECHILD;
        if (!task)
                return -EINVAL;
        if (task->flags & WEIR__TASK_CONSUMED)
                return weir__log_refusal("a ticker: expected its first tick and its limit before it is started or pushed");
        return ticker_of_task(task) ? 0 : -EDOM;
}

int
weir_ticker_set_first(weir_task *task, weir_nsec after)
{
        int fault = fault_before_start(task);

        if (!fault && ticker_of_task(task)->schedule)
                return -EDOM;
        if (!fault)
                weir__timer_set_duration(weir__timer_of_task(task), after);
        return fault;
}

int
weir_ticker_set_limit(weir_task *task, uint64_t ticks)
{
        int fault = fault_before_start(task);

        if (fault)
                return fault;
        ticker_of_task(task)->limit = ticks;
        set_last(ticker_of_task(task), ticks == 1);
        return 0;
}

size_t
weir_ticker_move_next(const char *name, weir_nsec after)
{
        struct weir__timer_change change = {.by = after, .is_for_tick = true};

        return weir__timers_change_named(name, &change);
}

size_t
weir_ticker_move_next_id(weir_timer_id id, weir_nsec after)
{
        struct weir__timer_change change = {.by = after, .is_for_tick = true};

        return weir__timer_change_id(id, &change);
}

int
weir_ticker_stop(weir_task *task)
{
        weir__memory_expect(task);
        struct ticker *ticker = task ? ticker_of_task(task) : NULL;

        if (!ticker)
                return task ? -EDOM : -EINVAL;
        if (task->status != -EINPROGRESS)
                return weir__log_refusal("weir_ticker_stop: expected a ticker whose tick runs");
        set_last(ticker, true);
        return 0;
}

bool
weir_ticker_is_tick(const weir_task *task)
{
        weir__memory_expect(task);
        return task && ticker_of_task(task) && task->status == -EINPROGRESS;
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
