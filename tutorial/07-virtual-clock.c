/* 07-virtual-clock.c: reminds every day for a year, and is stopped on day 200.
 *
 *     07-virtual-clock
 *
 * On the virtual clock a year takes milliseconds.  While a thread waits for a flow and nothing is left to do, time jumps to the
 * next deadline.  Nothing depends on the machine, so the program prints the same every time.  Flows that last for hours are
 * tested in this way; docs/testing-your-flows.md goes on from here. */
#include <errno.h>
#include <stdio.h>

#include <weir/weir.h>

#define DAY WEIR_SEC(86400)

static weir_nsec began;

static double days(void)
{
        return (double)(weir_now() - began) / (double)DAY;
}

static void remind(weir_task *ticker, void *context)
{
        unsigned long long count = weir_ticker_count(ticker);

        (void)context;
        if (weir_task_status(ticker) != -EINPROGRESS)
                printf("day %.1f: %s after %llu reminders\n", days(), weir_strerror(weir_task_status(ticker)), count);
        else if (count % 50 == 0)
                printf("day %.1f: reminder %llu\n", days(), count);
}

static void stop_reminding(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        printf("day %.1f: enough, %zu cancelled\n", days(), weir_timer_cancel("reminder", WEIR_ALL));
}

int main(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;

        config.clock = WEIR_CLOCK_VIRTUAL;
        int failed = weir_init(&config);
        if (failed) {
                fprintf(stderr, "07-virtual-clock: %s\n", weir_strerror(failed));
                return 1;
        }
        weir_task *ticker = weir_ticker_new_named("reminder", DAY, WEIR_TICK_SKIP, remind, NULL);
        weir_ticker_set_limit(ticker, 365);

        began = weir_now();
        weir_task_start(weir_timer_new(200 * DAY + DAY / 2, stop_reminding, NULL));
        int status = weir_task_run(ticker);
        return weir_shutdown() != 0 || status != -ECANCELED;
}
