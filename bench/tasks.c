/* bench/tasks.c: tasks that end at once, in series and parallels, timers of 0 that follow each other, and a flow that is
 * cancelled.
 *
 * Threads: the main thread builds and waits; callbacks of one series touch `stack` one after another, those of a parallel count
 *          by bench_count. */
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/go.h>
#include <weir/weir.h>

#include "bench.h"
#include "executor.h"

#define PATIENCE       30                 /* seconds for a case */
#define QUOTED         "Workflow, quoted" /* measured once, in another run: on another day it would have been another figure */
#define CPU_PER_TASK   "CPU ns per task"
#define CPU_PER_SERIES "CPU ns per series"

struct flow {
        const char *name;
        size_t count;
};

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
        int64_t began = bench_now(), cpu = bench_cpu();
        if (weir_task_run(weir_timer_new(0, on_hop, &left)) || left > 0)
                return false;
        values[0] = (double)(bench_cpu() - cpu) / (double)flow->count;
        values[1] = (double)(bench_now() - began) / (double)flow->count;
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
        int64_t began = bench_cpu(), start = bench_now();
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
        values[2] = (double)(bench_now() - start) / (double)flow->count;
        return true;
}

/* -- a flow of timers and functions that is cancelled by its name: until its callback -- */

#define CANCELS 51 /* flows; the median and the longest are told */

static struct {
        _Atomic unsigned begun;
        int64_t ended;
        sem_t over;
} cancelled;

static void
until_told(void *context)
{
        (void)context;
        atomic_fetch_add(&cancelled.begun, 1);
        while (!weir_go_cancelled())
                sched_yield();
}

static void
on_cancelled(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        cancelled.ended = bench_now();
        sem_post(&cancelled.over);
}

/* How long it took, in nanoseconds; below 0 when it could not be cancelled. */
static int64_t
cancel_flow(size_t count)
{
        weir_series *series = weir_series_new(on_cancelled, NULL);
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        atomic_store(&cancelled.begun, 0);
        for (size_t i = 0; i < count; i++) {
                weir_parallel_add(parallel, weir_timer_new(WEIR_SEC(1000), NULL, NULL));
                weir_parallel_add(parallel, weir_go_new(NULL, until_told, NULL, NULL));
        }
        weir_series_push(series, parallel);
        weir_series_set_name(series, "flow");
        if (weir_series_start(series))
                return -1;
        while (!atomic_load(&cancelled.begun))
                sched_yield();
        int64_t began = bench_now();
        if (weir_series_cancel_named("flow", WEIR_ALL) != 1)
                return -1;
        while (sem_wait(&cancelled.over))
                continue;
        return cancelled.ended - began;
}

static int
compare(const void *one, const void *other)
{
        int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

        return (a > b) - (a < b);
}

static bool
measure_cancel(const void *argument, double values[BENCH_VALUES])
{
        const struct flow *flow = argument;
        int64_t took[CANCELS];

        if (weir_init(NULL) || sem_init(&cancelled.over, 0, 0))
                return false;
        for (unsigned i = 0; i < CANCELS; i++)
                if ((took[i] = cancel_flow(flow->count)) < 0)
                        return false;
        qsort(took, CANCELS, sizeof took[0], compare);
        values[0] = (double)took[CANCELS / 2] / 1000;
        values[1] = (double)took[CANCELS - 1] / 1000;
        return true;
}

/* -- the cases -- */

static const struct flow series = {"series of 1e6 tasks", 1000000}, long_series = {"series of 1e7 tasks", 10000000},
                         hops = {"timer(0) after timer(0), 1e6 times", 1000000},
                         parallel = {"parallel of 100,000 series", 100000},
                         cancel = {"cancel of 1,000 timers and 1,000 functions", 1000};

static bool
measure(const struct bench_size *size, const struct flow *flow, bench_fn *fn, double values[BENCH_VALUES])
{
        return bench_wanted(size, flow->name) && bench_isolated(flow->name, fn, flow, values, PATIENCE);
}

static void
in_series(const struct bench_size *size, const struct flow *flow)
{
        double values[BENCH_VALUES];

        if (!measure(size, flow, measure_series, values))
                return;
        bench_sample("weir", flow->name, CPU_PER_TASK, values[0]);
        bench_sample("weir", flow->name, "CPU ns per task, building", values[1]);
        bench_sample("weir", flow->name, "bytes the stack moved", values[2]);
}

static void
one_hop_after_another(const struct bench_size *size)
{
        struct bench_reading reading;
        double values[BENCH_VALUES];

        if (bench_wanted(size, hops.name) && bench_peer("go", &reading, PATIENCE, "hops count=%zu", hops.count)) {
                bench_sample("go", hops.name, CPU_PER_TASK, reading.cpu);
                bench_sample("go", hops.name, "ns per task", reading.elapsed);
        }
        if (!measure(size, &hops, measure_hops, values))
                return;
        bench_sample("weir", hops.name, CPU_PER_TASK, values[0]);
        bench_sample("weir", hops.name, "ns per task", values[1]);
        bench_sample("weir", hops.name, "bytes the stack moved", values[2]);
}

static void
in_parallel(const struct bench_size *size)
{
        double values[BENCH_VALUES];

        if (!measure(size, &parallel, measure_parallel, values))
                return;
        bench_sample("weir", parallel.name, CPU_PER_SERIES, values[0]);
        bench_sample("weir", parallel.name, "CPU ns per series, building", values[1]);
        bench_sample("weir", parallel.name, "ns per series", values[2]);
}

static void
cancelled_by_name(const struct bench_size *size)
{
        double values[BENCH_VALUES];

        if (!measure(size, &cancel, measure_cancel, values))
                return;
        bench_sample("weir", cancel.name, "us until the callback", values[0]);
        bench_sample("weir", cancel.name, "us at most", values[1]);
}

void
bench_tasks(const struct bench_size *size)
{
        bool roomy = sysconf(_SC_PHYS_PAGES) / 1024 * sysconf(_SC_PAGESIZE) >= 4L * 1024 * 1024; /* ten million tasks take 1 GB */

        in_series(size, &series);
        if (!size->quick && roomy)
                in_series(size, &long_series);
        one_hop_after_another(size);
        in_parallel(size);
        cancelled_by_name(size);
        if (bench_wanted(size, series.name))
                bench_sample(QUOTED, series.name, CPU_PER_TASK, 89);
        if (bench_wanted(size, parallel.name))
                bench_sample(QUOTED, parallel.name, CPU_PER_SERIES, 224);
}

void
bench_tasks_ratios(void)
{
        bench_ratio("weir", QUOTED, series.name, CPU_PER_TASK);
        bench_goal("weir", series.name, CPU_PER_TASK, 50);
        bench_goal("weir", series.name, "ratio to " QUOTED ", " CPU_PER_TASK, 0.6);
        bench_ratio("weir", QUOTED, parallel.name, CPU_PER_SERIES);
        bench_goal("weir", parallel.name, CPU_PER_SERIES, 120);
        bench_goal("weir", parallel.name, "ns per series", 120);
        bench_goal("weir", parallel.name, "ratio to " QUOTED ", " CPU_PER_SERIES, 0.6);
        bench_goal("weir", cancel.name, "us until the callback", 5000);
        bench_ratio("weir", "go", hops.name, CPU_PER_TASK);
        bench_ratio("weir", "go", hops.name, "ns per task");
        bench_goal("weir", hops.name, CPU_PER_TASK, 300);
        bench_goal("weir", hops.name, "ratio to go, " CPU_PER_TASK, 1);
        bench_goal("weir", hops.name, "ratio to go, ns per task", 1);
}
