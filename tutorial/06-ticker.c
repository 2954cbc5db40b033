/* 06-ticker.c: a report every 100 ms, ten times, one of which takes too long.
 *
 *     06-ticker
 *
 * The fourth report takes 350 ms.  The ticks that are due meanwhile are dropped and counted.  Later ticks keep their times, at
 * multiples of 100 ms after the start, whatever the callbacks do. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <weir/weir.h>

static weir_nsec began; /* a period before the first tick */

/* Runs once for each tick, and a last time when there are no more: then the status says why. */
static void report(weir_task *ticker, void *context)
{
        (void)context;
        if (weir_task_status(ticker) != -EINPROGRESS) {
                printf("ended: %s\n", weir_strerror(weir_task_status(ticker)));
                return;
        }
        if (weir_ticker_count(ticker) == 1)
                began = weir_ticker_scheduled(ticker) - WEIR_MSEC(100);
        printf("report %llu, due at %lld ms, %llu missed, %s\n", (unsigned long long)weir_ticker_count(ticker),
               (long long)((weir_ticker_scheduled(ticker) - began) / WEIR_MSEC(1)),
               (unsigned long long)weir_ticker_missed(ticker),
               weir_ticker_actual(ticker) - weir_ticker_scheduled(ticker) < WEIR_MSEC(50) ? "in time" : "late");
        if (weir_ticker_count(ticker) == 4)
                usleep(350000); /* a callback should not block: 08-blocking.c shows the cost */
}

int main(void)
{
        weir_task *ticker = weir_ticker_new(WEIR_MSEC(100), WEIR_TICK_SKIP, report, NULL);

        setvbuf(stdout, NULL, _IOLBF, 0);
        weir_ticker_set_limit(ticker, 10);
        int status = weir_task_run(ticker); /* returns after the last callback */
        if (status)
                fprintf(stderr, "06-ticker: %s\n", weir_strerror(status));
        return status != 0;
}
