/* bench/cost/timers.c: what timers and tickers cost. */
#include <stdint.h>
#include <stdio.h>

#include <weir/weir.h>

#include "cost.h"

#define PENDING   1000 /* timers that wait meanwhile, where the operation needs some */
#define CANCELLED 100  /* timers that one call cancels */
#define TICKS     100  /* of a ticker */

static char names[PENDING][16];
static weir_timer_id ids[PENDING];
static size_t next;

static void
prepare_pending(const struct cost_case *self)
{
        (void)self;
        for (size_t i = 0; i < PENDING; i++) {
                snprintf(names[i], sizeof names[i], "user-%07zx", i);
                weir_task *timer = weir_timer_new_named(names[i], WEIR_SEC(60), NULL, NULL);
                ids[i] = weir_timer_id_of(timer);
                weir_task_start(timer);
        }
}

static void
start_named(const char *name)
{
        weir_task_start(weir_timer_new_named(name, WEIR_SEC(60), cost_on_end, NULL));
}

static void
start_and_cancel_by_name(size_t index)
{
        (void)index;
        start_named("user-0001234");
        weir_timer_cancel("user-0001234", WEIR_ALL);
}

static void
start_and_cancel_by_id(size_t index)
{
        weir_task *timer = weir_timer_new(WEIR_SEC(60), cost_on_end, NULL);
        weir_timer_id id = weir_timer_id_of(timer);

        (void)index;
        weir_task_start(timer);
        weir_timer_cancel_id(id);
}

static void
start_and_expire(size_t index)
{
        weir_task_start(weir_timer_new(WEIR_MSEC(1) + WEIR_USEC((weir_nsec)index), cost_on_end, NULL));
}

static void
start_and_expire_at_once(size_t index)
{
        (void)index;
        weir_task_start(weir_timer_new(0, cost_on_end, NULL));
}

static void
on_crowd(weir_task *task, void *context)
{
        static size_t count;

        (void)task;
        (void)context;
        if (++count % CANCELLED == 0)
                cost_ended();
}

static void
cancel_many(size_t index)
{
        (void)index;
        for (size_t i = 0; i < CANCELLED; i++)
                weir_task_start(weir_timer_new_named("many", WEIR_SEC(60), on_crowd, NULL));
        weir_timer_cancel("many", WEIR_ALL);
}

static void
cancel_prefix(size_t index)
{
        char name[] = "tenant/00";

        (void)index;
        for (size_t i = 0; i < CANCELLED; i++) {
                name[7] = (char)('0' + i / 10);
                name[8] = (char)('0' + i % 10);
                weir_task_start(weir_timer_new_named(name, WEIR_SEC(60), on_crowd, NULL));
        }
        weir_timer_cancel_prefix("tenant/", WEIR_ALL);
}

static size_t
pick(void)
{
        next = (next + 387) % PENDING; /* no common divisor */
        return next;
}

static void
reset_by_name(size_t index)
{
        weir_timer_reset(names[pick()], WEIR_SEC(60) + (weir_nsec)index);
        cost_ended();
}

static void
reset_by_id(size_t index)
{
        weir_timer_reset_id(ids[pick()], WEIR_SEC(60) + (weir_nsec)index);
        cost_ended();
}

static void
extend_by_name(size_t index)
{
        (void)index;
        weir_timer_extend(names[pick()], WEIR_MSEC(1));
        cost_ended();
}

static int
ignore(const struct weir_timer_info *timer, void *context)
{
        (void)timer;
        (void)context;
        return 0;
}

static void
list_timers(size_t index)
{
        (void)index;
        weir_timer_list("user-", ignore, NULL);
        cost_ended();
}

static void
on_tick(weir_task *ticker, void *context)
{
        (void)context;
        if (weir_ticker_count(ticker) < TICKS)
                return;
        static bool is_last;
        if (is_last)
                cost_ended();
        is_last = !is_last; /* the last tick, then the end */
}

static void
tick(size_t index)
{
        weir_task *ticker = weir_ticker_new(WEIR_MSEC(10), WEIR_TICK_SKIP, on_tick, NULL);

        (void)index;
        weir_ticker_set_limit(ticker, TICKS);
        weir_task_start(ticker);
}

const struct cost_case cost_timer_cases[] = {
        {.name = "named timer, started and cancelled by name, 200 a callback",
         .count = 4000,
         .slice = 200,
         .operation = start_and_cancel_by_name},
        {.name = "named timer, started and cancelled by name, 1 a callback",
         .count = 2000,
         .slice = 1,
         .operation = start_and_cancel_by_name},
        {.name = "timer, started and cancelled by id", .count = 4000, .slice = 200, .operation = start_and_cancel_by_id},
        {.name = "timer, started and expired", .count = 4000, .slice = 200, .operation = start_and_expire},
        {.name = "timer of 0 ns", .count = 4000, .slice = 200, .operation = start_and_expire_at_once},
        {.name = "named timer, cancelled with 100 by one name",
         .count = 40,
         .slice = 1,
         .parts = CANCELLED,
         .operation = cancel_many},
        {.name = "named timer, cancelled with 100 by a prefix",
         .count = 40,
         .slice = 1,
         .parts = CANCELLED,
         .operation = cancel_prefix},
        {.name = "timer reset by name, 1,000 pending",
         .count = 4000,
         .slice = 200,
         .prepare = prepare_pending,
         .operation = reset_by_name},
        {.name = "timer reset by id, 1,000 pending",
         .count = 4000,
         .slice = 200,
         .prepare = prepare_pending,
         .operation = reset_by_id},
        {.name = "timer extended by name, 1,000 pending",
         .count = 4000,
         .slice = 200,
         .prepare = prepare_pending,
         .operation = extend_by_name},
        {.name = "timer listed, of 1,000",
         .count = 4,
         .slice = 1,
         .parts = PENDING,
         .prepare = prepare_pending,
         .operation = list_timers},
        {.name = "tick of a ticker", .count = 20, .slice = 1, .parts = TICKS, .operation = tick},
        {0},
};
