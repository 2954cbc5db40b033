/* bench/functions.c: functions on the executor, beside goroutines.
 *
 * A function does what a goroutine does for a sync.WaitGroup: it counts one shared number down, and the last one wakes who waits.
 *
 * Threads: the main thread, or a function of the executor, starts the functions; what they share is `left`. */
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

#include <weir/go.h>
#include <weir/weir.h>

#include "bench.h"
#include "executor.h"

#define PATIENCE 30 /* seconds for a case */
#define CPU_TIME "CPU ns per function"
#define TIME     "ns per function"

static _Atomic size_t left;
static sem_t over;
static const char *queue; /* written before the first start */

static void
count_down(void)
{
        if (atomic_fetch_sub(&left, 1) == 1)
                sem_post(&over);
}

/* A start that is refused ends the case's process, and so the case, as failed. */
static void
start(weir_task *task)
{
        if (weir_task_start(task))
                _exit(1);
}

/* -- independent functions -- */

static void
count_in_function(void *context)
{
        (void)context;
        count_down();
}

static void
count_in_callback(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        count_down();
}

static void
do_nothing(void *context)
{
        (void)context;
}

static void
start_functions(void *context)
{
        for (size_t count = *(size_t *)context; count > 0; count--)
                start(weir_go_new(queue, count_in_function, NULL, NULL));
}

static void
start_with_callbacks(void *context)
{
        for (size_t count = *(size_t *)context; count > 0; count--)
                start(weir_go_new(queue, do_nothing, count_in_callback, NULL));
}

/* -- a chain -- */

static void
start_next(void *context)
{
        if (atomic_load_explicit(&left, memory_order_relaxed) > 1)
                start(weir_go_new(queue, start_next, NULL, context));
        count_down();
}

static void
start_series(void *context)
{
        weir_series *series = weir_series_new(NULL, NULL);

        for (size_t count = *(size_t *)context; count > 0; count--)
                weir_series_push(series, weir_go_new(queue, count_in_function, NULL, NULL));
        if (weir_series_start(series))
                _exit(1);
}

/* -- how it is measured -- */

struct way {
        const char *peer;
        weir_go_fn *begin;
        bool foreign; /* the main thread calls it, not the executor */
        const char *queue;
};

static const struct way functions[] = {
        {"weir", start_functions, false, NULL},
        {"weir, foreign thread", start_functions, true, NULL},
        {"weir, with callbacks", start_with_callbacks, false, NULL},
        {"weir, in a queue", start_functions, false, "bench"},
        {"weir, foreign thread, in a queue", start_functions, true, "bench"},
};

static const struct way chains[] = {
        {"weir", start_series, true, NULL},
        {"weir, one starts the next", start_next, false, NULL},
};

struct trial {
        const struct way *way;
        size_t count;
};

static bool
measure_way(const void *argument, double values[BENCH_VALUES])
{
        const struct trial *trial = argument;
        size_t count = trial->count;

        if (weir_init(NULL) || sem_init(&over, 0, 0) || weir_task_run(weir_go_new(queue, do_nothing, NULL, NULL)))
                return false;
        queue = trial->way->queue;
        atomic_store(&left, count);
        int64_t began = bench_now(), cpu = bench_cpu();
        if (trial->way->foreign)
                trial->way->begin(&count);
        else
                start(weir_go_new(queue, trial->way->begin, NULL, &count));
        while (sem_wait(&over))
                ;
        values[0] = (double)(bench_cpu() - cpu) / (double)count;
        values[1] = (double)(bench_now() - began) / (double)count;
        return true;
}

/* -- what waits for a thread: the only one is kept busy -- */

static void
keep_busy(void *context)
{
        (void)context;
        sem_post(&over);
        for (;;)
                pause();
}

static bool
measure_queued(const void *argument, double values[BENCH_VALUES])
{
        const struct trial *trial = argument;
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        size_t count = trial->count;

        config.compute_threads = 1;
        if (weir_init(&config) || sem_init(&over, 0, 0))
                return false;
        start(weir_go_new(queue, keep_busy, NULL, NULL));
        while (sem_wait(&over))
                ;
        long before = bench_memory((int)getpid(), "VmRSS:");
        int64_t cpu = bench_cpu();
        start_functions(&count);
        values[0] = (double)(bench_cpu() - cpu) / (double)count;
        values[1] = (double)(bench_memory((int)getpid(), "VmRSS:") - before) * 1024 / (double)count;
        return true;
}

/* -- the cases, weir and Go in turn -- */

static const char *const independent = "1e6 functions", *const chain = "chain of 1e5 functions",
                         *const queued = "1e6 queued functions";

static void
tell(const char *peer, const char *name, double cpu, double elapsed)
{
        bench_sample(peer, name, CPU_TIME, cpu);
        bench_sample(peer, name, TIME, elapsed);
}

static void
compete(const struct bench_size *size, const char *name, const char *work, size_t count, const struct way *ways, size_t way_count)
{
        struct bench_reading reading;
        double values[BENCH_VALUES];

        if (!bench_wanted(size, name))
                return;
        if (bench_peer("go", &reading, PATIENCE, "%s count=%zu", work, count))
                tell("go", name, reading.cpu, reading.elapsed);
        for (size_t i = 0; i < way_count; i++)
                if (bench_isolated(name, measure_way, &(struct trial){&ways[i], count}, values, PATIENCE))
                        tell(ways[i].peer, name, values[0], values[1]);
}

void
bench_functions(const struct bench_size *size)
{
        double values[BENCH_VALUES];

        compete(size, independent, "functions", 1000000, functions, sizeof functions / sizeof *functions);
        compete(size, chain, "chain", 100000, chains, sizeof chains / sizeof *chains);
        if (bench_wanted(size, queued) &&
            bench_isolated(queued, measure_queued, &(struct trial){.count = 1000000}, values, PATIENCE)) {
                bench_sample("weir", queued, "CPU ns per function, starting", values[0]);
                bench_sample("weir", queued, "bytes per function", values[1]);
        }
}

static void
ratios(const char *name, const struct way *ways, size_t way_count)
{
        for (size_t i = 0; i < way_count; i++) {
                bench_ratio(ways[i].peer, "go", name, CPU_TIME);
                bench_ratio(ways[i].peer, "go", name, TIME);
        }
        bench_goal("weir", name, "ratio to go, " CPU_TIME, 1);
}

void
bench_functions_ratios(void)
{
        ratios(independent, functions, sizeof functions / sizeof *functions);
        bench_goal("weir", independent, CPU_TIME, 250);
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
                bench_goal(functions[i].peer, independent, "ratio to go, " TIME, 1);
        ratios(chain, chains, sizeof chains / sizeof *chains);
        bench_goal("weir", chain, "ratio to go, " TIME, 1);
        bench_goal("weir", queued, "bytes per function", 128);
}
