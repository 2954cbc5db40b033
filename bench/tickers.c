/* bench/tickers.c: what slack saves: 10,000 tickers with a period of a second, their phases at random, with and without it.
 *
 *     tickers [quick]
 *
 * Wake-ups are the voluntary context switches of the process: each time a worker goes to sleep it is woken once.  One poller, so
 * that two do not wake for the same work. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <weir/weir.h>

#include "bench.h"

#define TICKERS  10000
#define PERIOD   WEIR_SEC(1)
#define ROUNDS   3
#define PATIENCE 60 /* seconds for a case */

struct tickers {
        weir_nsec slack, watched;
};

static void
on_tick(weir_task *ticker, void *context)
{
        (void)ticker;
        (void)context;
}

static long
sleeps(void)
{
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_nvcsw;
}

static bool
start(const struct tickers *work)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        uint64_t state = 1;

        config.pollers = 1;
        config.timer_slack = work->slack;
        if (weir_init(&config))
                return false;
        for (unsigned i = 0; i < TICKERS; i++) {
                weir_task *ticker = weir_ticker_new(PERIOD, WEIR_TICK_SKIP, on_tick, NULL);
                weir_ticker_set_first(ticker, (weir_nsec)bench_random_below(&state, PERIOD));
                if (weir_task_start(ticker))
                        return false;
        }
        return true;
}

/* values: wake-ups a second, CPU ms a second, ticks a second, lateness p50 and p99 in us. */
static bool
measure(const void *argument, double values[BENCH_VALUES])
{
        const struct tickers *work = argument;
        struct weir_lateness lateness = WEIR_LATENESS_DEFAULT;

        if (!start(work))
                return false;
        bench_sleep(PERIOD);
        weir_lateness_reset(WEIR_ALL_POLLERS, NULL);
        int64_t began = bench_now(), cpu = bench_cpu();
        long before = sleeps();
        bench_sleep(work->watched);
        double seconds = (double)(bench_now() - began) / BENCH_NSEC_PER_SEC;
        values[0] = (double)(sleeps() - before) / seconds;
        values[1] = (double)(bench_cpu() - cpu) / 1e6 / seconds;
        weir_lateness(WEIR_ALL_POLLERS, &lateness);
        values[2] = (double)lateness.count / seconds;
        values[3] = (double)lateness.p50 / 1000;
        values[4] = (double)lateness.p99 / 1000;
        weir_shutdown();
        return true;
}

int
main(int argc, char *argv[])
{
        static const struct {
                weir_nsec slack;
                const char *name;
        } cases[] = {{0, "10,000 tickers, exact"},
                     {WEIR_MSEC(1), "10,000 tickers, slack 1 ms"},
                     {WEIR_MSEC(10), "10,000 tickers, slack 10 ms"},
                     {WEIR_MSEC(100), "10,000 tickers, slack 100 ms"}};
        static const char *const metrics[] = {"wake-ups a second", "CPU ms a second", "ticks a second", "late us, p50",
                                              "late us, p99"};
        bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;

        bench_begin();
        for (int round = quick ? ROUNDS - 1 : 0; round < ROUNDS; round++)
                for (size_t i = 0; i < sizeof cases / sizeof *cases && !bench_interrupted(); i++) {
                        struct tickers work = {cases[i].slack, quick ? WEIR_SEC(1) : WEIR_SEC(3)};
                        double values[BENCH_VALUES];

                        if (!bench_isolated(cases[i].name, measure, &work, values, PATIENCE))
                                continue;
                        for (size_t j = 0; j < sizeof metrics / sizeof *metrics; j++)
                                bench_sample("weir", cases[i].name, metrics[j], values[j]);
                }
        bench_sample("machine", "tickers", "CPU used by others, percent of one", bench_others());
        bench_print("tickers");
        return bench_interrupted();
}
