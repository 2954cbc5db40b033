/* 02-series.c: tasks one after another, and some of them at once.
 *
 *     prepare -> [ fast | slow | (first, then second) ] -> report
 *
 * The callbacks of a series never overlap, so data that only they use needs no lock.  The three children of the parallel may
 * run at once, on different threads.  Each writes to a place of its own, and the parallel's callback comes after all of them. */
#include <stdio.h>

#include <weir/weir.h>

struct journey {
        const char *fast, *slow, *second;
        weir_nsec began;
};

static void prepare(weir_task *task, void *context)
{
        struct journey *journey = context;

        (void)task;
        journey->began = weir_now();
        printf("prepared\n");
}

/* A context is anything that the callback needs: here the place to write to. */
static void arrive(weir_task *timer, void *context)
{
        const char **place = context;

        *place = weir_task_status(timer) == 0 ? "arrived" : weir_strerror(weir_task_status(timer));
}

static void report(weir_task *parallel, void *context)
{
        struct journey *journey = context;
        weir_nsec took = weir_now() - journey->began;

        printf("fast %s, slow %s, second %s: status %d\n", journey->fast, journey->slow, journey->second,
               weir_task_status(parallel));
        /* The longest way is 200 + 200 ms one after another.  All at once would take 300 ms, all in a row 800. */
        printf("together they took %s\n",
               took >= WEIR_MSEC(400) && took < WEIR_MSEC(700) ? "as long as the longest" : "another time");
}

static void finished(weir_series *series, void *context)
{
        (void)context;
        printf("finished: status %d\n", weir_series_status(series));
}

int main(void)
{
        struct journey journey = {0};

        weir_series *row = weir_series_new(NULL, NULL);
        weir_series_push(row, weir_timer_new(WEIR_MSEC(200), NULL, NULL));
        weir_series_push(row, weir_timer_new(WEIR_MSEC(200), arrive, &journey.second));

        weir_task *parallel = weir_parallel_new(report, &journey);
        weir_parallel_add(parallel, weir_timer_new(WEIR_MSEC(100), arrive, &journey.fast));
        weir_parallel_add(parallel, weir_timer_new(WEIR_MSEC(300), arrive, &journey.slow));
        weir_parallel_add_series(parallel, row);

        weir_series *series = weir_series_new(finished, NULL);
        weir_series_push(series, weir_empty_new(prepare, &journey));
        weir_series_push(series, parallel);

        /* One check for all of the above: a task that could not be made has poisoned the series. */
        int status = weir_series_run(series);
        if (status)
                fprintf(stderr, "02-series: %s\n", weir_strerror(status));
        return status != 0;
}
