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
#define METRIC   "CPU ns per timer"

static const char *const rates[] = {"1e6 within 1 s", "100,000/s", "1,000/s"};

static const struct {
        const char *peer, *program;
} peers[] = {{"libuv", "uv"}, {"libevent", "event"}, {"libev", "ev"}, {"go", "go"}};
#define PEERS (sizeof peers / sizeof *peers)

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

/* -- the cases, weir and the peers in turn -- */

static const char *
case_of(char text[96], const char *rate)
{
        snprintf(text, 96, "firing, %s", rate);
        return text;
}

static void
tell(const char *peer, const char *name, const struct bench_reading *reading)
{
        bench_sample(peer, name, METRIC, reading->cpu);
        bench_sample(peer, name, "late us, p50", reading->p50);
        bench_sample(peer, name, "late us, p99", reading->p99);
        bench_sample(peer, name, "early timers", reading->early);
}

static void
measure_weir(const char *peer, struct firing firing, int pollers)
{
        double values[BENCH_VALUES];

        firing.pollers = pollers;
        if (bench_isolated(firing.name, measure_firing, &firing, values, PATIENCE))
                tell(peer, firing.name,
                     &(struct bench_reading){.cpu = values[0], .p50 = values[1], .p99 = values[2], .early = values[3]});
}

static void
compete(const struct bench_size *size, struct firing firing, const char *rate)
{
        struct bench_reading reading;

        if (!bench_wanted(size, case_of(firing.name, rate)))
                return;
        for (size_t i = 0; i < PEERS; i++)
                if (bench_peer(peers[i].program, &reading, PATIENCE, "firing count=%zu arming=%lld over=%lld", firing.count,
                               (long long)firing.arming, (long long)firing.over))
                        tell(peers[i].peer, firing.name, &reading);
        measure_weir("weir, 1 poller", firing, 1);
        measure_weir("weir", firing, 0);
}

void
bench_firing(const struct bench_size *size)
{
        weir_nsec over = WEIR_MSEC(size->quick ? 500 : 1500);
        struct firing dense = {.arming = WEIR_MSEC(1200), .over = WEIR_SEC(1), .count = 1000000};
        struct firing quick = {.arming = WEIR_MSEC(300), .over = over, .count = (size_t)(over / 10000)};
        struct firing slow = {.arming = WEIR_MSEC(100), .over = over, .count = (size_t)(over / 1000000)};

        if (!size->quick)
                compete(size, dense, rates[0]);
        compete(size, quick, rates[1]);
        compete(size, slow, rates[2]);
}

void
bench_firing_ratios(void)
{
        char name[96];

        for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
                bench_ratio("weir, 1 poller", "libuv", case_of(name, rates[i]), METRIC);
                bench_ratio("weir", "libuv", name, METRIC);
        }
}
