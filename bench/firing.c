/* bench/firing.c: timers that expire: what each costs, and how late it is.
 *
 * All are armed beforehand, to fall due at even distances; the clock runs from when the last one was armed until the last
 * callback has run.  Each callback reads the clock once, to tell how late it is.
 *
 * Threads: due[i] is written by who arms, before the timer is started, then by the callback of timer i, and read at the end. */
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

#include "timers.h"

#define PATIENCE 30 /* seconds for a case */

struct firing {
        char name[96];
        size_t count;
        weir_nsec arming; /* how long arming may take: until the first falls due */
        weir_nsec over;   /* the time over which they fall due */
        int pollers;      /* 0: the default */
};

static void
on_due(weir_task *task, void *context)
{
        weir_nsec *due = context;

        (void)task;
        *due = weir_now() - *due;
        bench_count();
}

static void
arm(const struct firing *firing, weir_nsec *due)
{
        weir_nsec first = weir_now() + firing->arming;

        for (size_t i = 0; i < firing->count; i++) {
                due[i] = first + (weir_nsec)((double)firing->over * (double)i / (double)firing->count);
                weir_task_start(weir_timer_new(due[i] - weir_now(), on_due, &due[i]));
        }
        if (weir_now() > first)
                fprintf(stderr, "bench: %s: arming took too long\n", firing->name);
}

static bool
measure_firing(const void *argument, double values[BENCH_VALUES])
{
        const struct firing *firing = argument;
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        weir_nsec *due = malloc(firing->count * sizeof *due);
        size_t early = 0;

        config.pollers = firing->pollers;
        if (!due || weir_init(&config))
                return false;
        arm(firing, due);
        int64_t cpu = bench_cpu();
        bench_sleep(firing->arming + firing->over - WEIR_MSEC(50));
        if (!bench_wait_counted(firing->count, PATIENCE))
                return false;
        values[0] = (double)(bench_cpu() - cpu) / (double)firing->count;
        for (size_t i = 0; i < firing->count; i++)
                early += due[i] < 0;
        values[1] = (double)bench_quantile(due, firing->count, 0.5) / 1000;
        values[2] = (double)bench_quantile(due, firing->count, 0.99) / 1000;
        values[3] = (double)early;
        return true;
}

static void
measure(const struct bench_size *size, struct firing firing, const char *rate)
{
        double values[BENCH_VALUES];

        snprintf(firing.name, sizeof firing.name, "firing, %s, %s", rate, firing.pollers == 1 ? "1 poller" : "all pollers");
        if (!bench_wanted(size, firing.name) || !bench_isolated(firing.name, measure_firing, &firing, values, PATIENCE))
                return;
        bench_sample("weir", firing.name, "CPU ns per timer", values[0]);
        bench_sample("weir", firing.name, "late us, p50", values[1]);
        bench_sample("weir", firing.name, "late us, p99", values[2]);
        bench_sample("weir", firing.name, "early timers", values[3]);
}

void
bench_firing(const struct bench_size *size)
{
        weir_nsec over = size->quick ? WEIR_MSEC(500) : WEIR_SEC(2);

        for (int pollers = 1; pollers >= 0; pollers--) {
                struct firing dense = {.arming = WEIR_MSEC(1200), .over = WEIR_SEC(1), .count = 1000000, .pollers = pollers};
                struct firing quick = {
                        .arming = WEIR_MSEC(300), .over = over, .count = (size_t)(over / 10000), .pollers = pollers};
                struct firing slow = {
                        .arming = WEIR_MSEC(100), .over = over, .count = (size_t)(over / 1000000), .pollers = pollers};

                if (!size->quick)
                        measure(size, dense, "1e6 within 1 s");
                measure(size, quick, "100,000/s");
                measure(size, slow, "1,000/s");
        }
}
