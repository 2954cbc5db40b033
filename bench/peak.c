/* bench/peak.c: what memory costs at a peak, and how much of it a program has back afterwards.
 *
 *     peak [quick] [beginning of a word of a case's name]
 *
 * Timers: half are named, half are not, each has an id.  A callback starts them in slices.  Another one cancels them in random
 * order.  There is one poller, so one thread allocates and frees.  Parallels: the main thread builds them, all workers run them.
 *
 * Threads: each case runs in a process of its own.  `run` belongs to the callback that runs, and to the main thread before and
 * after. */
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weir/weir.h>

#include "bench.h"
#include "cases.h"

#define ROUNDS    3
#define PATIENCE  60 /* seconds for a case */
#define SLICE     1000
#define PARALLELS 20

struct peak {
        const char *name;
        size_t count; /* timers, or series of a parallel */
        size_t stays; /* one timer of so many is not cancelled; 0: all are */
        bool parallel;
};

static struct {
        const struct peak *peak;
        weir_timer_id *ids; /* 0: this one stays */
        size_t done;
        uint64_t random;
        sem_t over;
} run;

static void
on_end(weir_task *task, void *context)
{
        (void)task;
        (void)context;
        bench_count();
}

static weir_task *
new_timer(size_t index)
{
        char name[16] = "user-";
        weir_nsec duration = WEIR_SEC(1000) + (weir_nsec)bench_random_below(&run.random, UINT32_MAX);

        if (index % 2)
                return weir_timer_new(duration, on_end, NULL);
        for (unsigned digit = 0; digit < 7; digit++)
                name[5 + digit] = "0123456789abcdef"[index >> 4 * digit & 15];
        return weir_timer_new_named(name, duration, on_end, NULL);
}

/* A slice of the work; then the same callback again, so that other callbacks have their turn. */
static void
again(weir_task *timer, weir_task_fn *callback)
{
        if (run.done < run.peak->count)
                weir_series_push(weir_series_of(timer), weir_timer_new(0, callback, NULL));
        else
                sem_post(&run.over);
}

static void
start_some(weir_task *timer, void *context)
{
        (void)context;
        for (size_t i = 0; i < SLICE && run.done < run.peak->count; i++, run.done++) {
                weir_task *one = new_timer(run.done);

                run.ids[run.done] = weir_timer_id_of(one);
                weir_task_start(one);
        }
        again(timer, start_some);
}

static void
cancel_some(weir_task *timer, void *context)
{
        (void)context;
        for (size_t i = 0; i < SLICE && run.done < run.peak->count; i++, run.done++)
                if (run.ids[run.done])
                        weir_timer_cancel_id(run.ids[run.done]);
        again(timer, cancel_some);
}

/* Returns the CPU time that it took. */
static int64_t
run_callback(weir_task_fn *callback)
{
        int64_t began = bench_cpu();

        run.done = 0;
        weir_task_start(weir_timer_new(0, callback, NULL));
        while (sem_wait(&run.over))
                continue;
        return bench_cpu() - began;
}

/* Puts the ids into random order, without those that stay.  Returns how many are to be cancelled. */
static size_t
choose(void)
{
        size_t cancelled = run.peak->count;

        for (size_t i = run.peak->count; i > 1; i--) {
                size_t other = bench_random_below(&run.random, i);
                weir_timer_id id = run.ids[i - 1];

                run.ids[i - 1] = run.ids[other];
                run.ids[other] = id;
        }
        for (size_t i = 0; run.peak->stays && i < run.peak->count; i += run.peak->stays, cancelled--)
                run.ids[i] = 0;
        return cancelled;
}

static double
resident_mb(void)
{
        return (double)bench_memory((int)getpid(), "VmRSS:") / 1024;
}

/* values: resident MB at the peak, after it and a second later; CPU ns per timer to start and to cancel; MB after a shutdown. */
static bool
measure_timers(const void *argument, double values[BENCH_VALUES])
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        run.peak = argument;
        run.ids = calloc(run.peak->count, sizeof *run.ids);
        config.pollers = 1;
        if (!run.ids || sem_init(&run.over, 0, 0) || weir_init(&config))
                return false;
        memset(run.ids, 0xff, run.peak->count * sizeof *run.ids); /* its pages are not counted as the timers' */
        double before = resident_mb();
        values[3] = (double)run_callback(start_some) / (double)run.peak->count;
        size_t cancelled = choose();
        values[0] = resident_mb() - before;
        int64_t began = bench_cpu();
        run_callback(cancel_some);
        if (!bench_wait_counted(cancelled, PATIENCE))
                return false;
        values[4] = (double)(bench_cpu() - began) / (double)cancelled;
        values[1] = resident_mb() - before;
        bench_sleep(BENCH_NSEC_PER_SEC);
        values[2] = resident_mb() - before;
        weir_shutdown();
        values[5] = resident_mb() - before;
        return true;
}

static long
page_faults(void)
{
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_minflt;
}

static bool
run_parallel(size_t count)
{
        weir_task *parallel = weir_parallel_new(NULL, NULL);

        for (size_t i = 0; i < count; i++) {
                weir_series *series = weir_series_new(NULL, NULL);

                weir_series_push(series, weir_empty_new(on_end, NULL));
                weir_parallel_add_series(parallel, series);
        }
        return weir_task_run(parallel) == 0;
}

/* values: ns and page faults per series, of the first parallel and of all that follow. */
static bool
measure_parallels(const void *argument, double values[BENCH_VALUES])
{
        const struct peak *peak = argument;

        if (weir_init(NULL))
                return false;
        for (int i = 0; i < 2; i++) {
                int parallels = i == 0 ? 1 : PARALLELS - 1;
                double series = (double)peak->count * parallels;
                int64_t began = bench_now();
                long faults = page_faults();

                for (int j = 0; j < parallels; j++)
                        if (!run_parallel(peak->count))
                                return false;
                values[2 * i] = (double)(bench_now() - began) / series;
                values[2 * i + 1] = (double)(page_faults() - faults) / series;
        }
        values[4] = resident_mb();
        return true;
}

static void
measure(const struct bench_size *size, const struct peak *peak)
{
        static const char *const of_timers[] = {"MB at the peak",   "MB after it",       "MB a second after it",
                                                "CPU ns per start", "CPU ns per cancel", "MB after the shutdown"};
        static const char *const of_parallels[] = {"ns per series, the first", "page faults per series, the first",
                                                   "ns per series, the others", "page faults per series, the others",
                                                   "resident MB after all"};
        double values[BENCH_VALUES];
        bool wanted = bench_wanted(size, peak->name);

        if (!wanted || !bench_isolated(peak->name, peak->parallel ? measure_parallels : measure_timers, peak, values, PATIENCE))
                return;
        for (size_t i = 0; i < (peak->parallel ? sizeof of_parallels : sizeof of_timers) / sizeof *of_timers; i++)
                bench_sample("weir", peak->name, (peak->parallel ? of_parallels : of_timers)[i], values[i]);
}

int
main(int argc, char *argv[])
{
        static const struct peak peaks[] = {
                {"2e6 timers, all cancelled", 2000000, 0, false},
                {"2e6 timers, one of 100 stays", 2000000, 100, false},
                {"20,000 timers, all cancelled", 20000, 0, false},
                {"20 parallels of 100,000 series", 100000, 0, true},
        };
        struct bench_size size = bench_size_of(argc, argv);

        bench_begin();
        for (int round = size.quick || bench_is_alone() ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
                        measure(&size, &peaks[i]);
        bench_sample("machine", "peak", "CPU used by others, percent of one", bench_others());
        bench_print("peak");
        return bench_interrupted();
}
