/* bench/flows.c: mass cancel: each callback starts a new timer of the same name, which is what makes Workflow hang for ever.
 *
 * Threads: the main thread, but for the callbacks, which count by bench_count. */
#include <errno.h>

#include <weir/weir.h>

#include "timers.h"

#define PATIENCE 30 /* seconds for a case */
#define NAME     "everybody"

struct flow {
        const char *name;
        size_t count;
        bool in_callback;
};

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

static void
mass_cancel(const struct bench_size *size, const struct flow *flow)
{
        double values[BENCH_VALUES];

        if (!bench_wanted(size, flow->name) || !bench_isolated(flow->name, measure_mass_cancel, flow, values, PATIENCE))
                return;
        bench_sample("weir", flow->name, "seconds to the last callback", values[0]);
        bench_sample("weir", flow->name, "seconds of the call", values[2]);
        bench_sample("weir", flow->name, "CPU ns per timer", values[1]);
}

void
bench_flows(const struct bench_size *size)
{
        mass_cancel(size, &(struct flow){"mass cancel of 200,000, foreign thread", 200000, false});
        mass_cancel(size, &(struct flow){"mass cancel of 200,000, callback", 200000, true});
}
