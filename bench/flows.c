/* bench/flows.c: mass cancel, series and parallels.
 *
 * Threads: `flow` belongs to the main thread but for what callbacks of one series, or one poller, touch; a mass cancel counts by
 *          bench_count. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "timers.h"

#define PATIENCE 30 /* seconds for a case */
#define NAME     "everybody"

struct flow {
        const char *name;
        size_t count;
        bool in_callback;
};

/* -- mass cancel: each callback starts a new timer of the same name, which is what makes Workflow hang for ever -- */

static void
on_cancelled(weir_task *task, void *context)
{
        (void)context;
        if (weir_task_status(task) == -ECANCELED) {
                weir_task_start(weir_timer_new_named(NAME, WEIR_FOREVER, NULL, NULL));
                bench_count();
        }
}

static void
on_mass_cancel(weir_task *task, void *context)
{
        (void)task;
        *(size_t *)context = weir_timer_cancel(NAME, WEIR_ALL);
}

static bool
measure_mass_cancel(const void *argument, double values[BENCH_VALUES])
{
        const struct flow *flow = argument;
        size_t cancelled = 0;

        for (size_t i = 0; i < flow->count; i++)
                weir_task_start(weir_timer_new_named(NAME, WEIR_SEC(1000), on_cancelled, NULL));
        int64_t began = bench_now(), cpu = bench_cpu();
        if (flow->in_callback)
                weir_task_run(weir_empty_new(on_mass_cancel, &cancelled));
        else
                on_mass_cancel(NULL, &cancelled);
        int64_t returned = bench_now();
        if (!bench_wait_counted(flow->count, PATIENCE) || cancelled != flow->count || weir_timer_count(NAME) != flow->count)
                return false;
        values[0] = (double)(bench_now() - began) / 1e9;
        values[1] = (double)(bench_cpu() - cpu) / (double)flow->count;
        values[2] = (double)(returned - began) / 1e9;
        return true;
}

/* -- a series of tasks that end at once: how far the stack of the worker moves meanwhile -- */

static struct {
        uintptr_t lowest, highest;
} stack;

static void
on_empty(weir_task *task, void *context)
{
        uintptr_t here = (uintptr_t)__builtin_frame_address(0);

        (void)task;
        (void)context;
        if (here < stack.lowest)
                stack.lowest = here;
        if (here > stack.highest)
                stack.highest = here;
}

static bool
measure_series(const void *argument, double values[BENCH_VALUES])
{
        const struct flow *flow = argument;

        stack.lowest = UINTPTR_MAX;
        if (weir_init(NULL))
                return false;
        int64_t began = bench_cpu();
        weir_series *series = weir_series_new(NULL, NULL);
        for (size_t i = 0; i < flow->count; i++)
                weir_series_push(series, weir_empty_new(on_empty, NULL));
        int64_t built = bench_cpu();
        if (weir_series_run(series))
                return false;
        values[0] = (double)(bench_cpu() - began) / (double)flow->count;
        values[1] = (double)(built - began) / (double)flow->count;
        values[2] = (double)(stack.highest - stack.lowest);
        return true;
}

/* -- one that builds itself: each callback pushes the next -- */

static void
on_hop(weir_task *task, void *context)
{
        size_t *left = context;

        on_empty(NULL, NULL);
        if (--*left > 0)
                weir_series_push(weir_series_of(task), weir_timer_new(0, on_hop, context));
}

static bool
measure_hops(const void *argument, double values[BENCH_VALUES])
{
        const struct flow *flow = argument;
        size_t left = flow->count;

        stack.lowest = UINTPTR_MAX;
        if (weir_init(NULL))
                return false;
        int64_t began = bench_cpu();
        if (weir_task_run(weir_timer_new(0, on_hop, &left)) || left > 0)
                return false;
        values[0] = (double)(bench_cpu() - began) / (double)flow->count;
        values[2] = (double)(stack.highest - stack.lowest);
        return true;
}

/* -- a parallel -- */

static void
on_child(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        bench_count();
}

static bool
measure_parallel(const void *argument, double values[BENCH_VALUES])
{
        const struct flow *flow = argument;

        if (weir_init(NULL))
                return false;
        int64_t began = bench_cpu();
        weir_task *parallel = weir_parallel_new(NULL, NULL);
        for (size_t i = 0; i < flow->count; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_empty_new(on_child, NULL));
                weir_parallel_add_series(parallel, series);
        }
        int64_t built = bench_cpu();
        if (weir_task_run(parallel) || bench_counted() != flow->count)
                return false;
        values[0] = (double)(bench_cpu() - began) / (double)flow->count;
        values[1] = (double)(built - began) / (double)flow->count;
        return true;
}

/* -- the cases -- */

static bool
measure(const struct bench_size *size, const struct flow *flow, bench_fn *fn, double values[BENCH_VALUES])
{
        return bench_wanted(size, flow->name) && bench_isolated(flow->name, fn, flow, values, PATIENCE);
}

static void
mass_cancel(const struct bench_size *size, const struct flow *flow)
{
        double values[BENCH_VALUES];

        if (!measure(size, flow, measure_mass_cancel, values))
                return;
        bench_sample("weir", flow->name, "seconds to the last callback", values[0]);
        bench_sample("weir", flow->name, "seconds of the call", values[2]);
        bench_sample("weir", flow->name, "CPU ns per timer", values[1]);
}

static void
one_after_another(const struct bench_size *size, const struct flow *flow, bench_fn *fn)
{
        double values[BENCH_VALUES];

        if (!measure(size, flow, fn, values))
                return;
        bench_sample("weir", flow->name, "CPU ns per task", values[0]);
        if (values[1] > 0)
                bench_sample("weir", flow->name, "CPU ns per task, building", values[1]);
        bench_sample("weir", flow->name, "bytes the stack moved", values[2]);
}

void
bench_flows(const struct bench_size *size)
{
        bool roomy = sysconf(_SC_PHYS_PAGES) / 1024 * sysconf(_SC_PAGESIZE) >= 4L * 1024 * 1024; /* ten million tasks take 1 GB */
        double values[BENCH_VALUES];

        mass_cancel(size, &(struct flow){"mass cancel of 200,000, foreign thread", 200000, false});
        mass_cancel(size, &(struct flow){"mass cancel of 200,000, callback", 200000, true});
        one_after_another(size, &(struct flow){"series of 1e6 tasks", 1000000, false}, measure_series);
        if (!size->quick && roomy)
                one_after_another(size, &(struct flow){"series of 1e7 tasks", 10000000, false}, measure_series);
        one_after_another(size, &(struct flow){"timer(0) after timer(0), 1e6 times", 1000000, false}, measure_hops);
        struct flow parallel = {"parallel of 100,000 series", 100000, false};
        if (measure(size, &parallel, measure_parallel, values)) {
                bench_sample("weir", parallel.name, "CPU ns per series", values[0]);
                bench_sample("weir", parallel.name, "CPU ns per series, building", values[1]);
        }
}
