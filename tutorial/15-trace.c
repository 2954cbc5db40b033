/* 15-trace.c: the work for an order, as a picture of what ran where and when.
 *
 *     15-trace [FILE]
 *
 *                      .-> add up (a function) --.
 *     order (timer) ---+-> add up (a function) --+--> ask (timer) --> ask politely (timer) --> over
 *                      '-> pack (timer) ---------'
 *
 * It writes a trace, trace.json by default, for https://ui.perfetto.dev or chrome://tracing; docs/trace.png shows one.  There is
 * one poller, and a ticker beats on it.  "ask" blocks unannounced, so the watchdog takes the poller away from its worker after a
 * while.  "ask politely" gives it away at once.  The beats go on elsewhere, the second time without a gap. */
#include <stdio.h>
#include <unistd.h>

#include <weir/weir.h>

static void order(weir_task *timer, void *context)
{
        (void)timer;
        printf("an order: %s\n", (const char *)context);
}

/* Computes for some milliseconds, on a thread of the executor. */
static void add_up(void *context)
{
        weir_nsec began = weir_now();

        (void)context;
        while (weir_now() - began < WEIR_MSEC(4))
                ;
}

static void added(weir_task *function, void *context)
{
        (void)context;
        printf("added up: %s\n", weir_strerror(weir_task_status(function)));
}

static void packed(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        printf("packed\n");
}

static void worked(weir_task *parallel, void *context)
{
        (void)context;
        printf("all of it: %s\n", weir_strerror(weir_task_status(parallel)));
}

static void ask(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        usleep(25000); /* a slow database */
}

static void ask_politely(weir_task *timer, void *context)
{
        (void)timer;
        (void)context;
        weir_blocking_begin();
        usleep(15000);
        weir_blocking_end();
}

static void beat(weir_task *ticker, void *context)
{
        (void)ticker;
        (void)context;
        usleep(200);
}

static void over(weir_series *series, void *context)
{
        (void)series;
        (void)context;
        weir_timer_cancel("beat", WEIR_ALL);
}

static weir_series *make_flow(void)
{
        weir_series *flow = weir_series_new(over, NULL);
        weir_task *work = weir_parallel_new(worked, NULL);

        weir_parallel_add(work, weir_go_new("add up", add_up, added, NULL));
        weir_parallel_add(work, weir_go_new("add up", add_up, added, NULL));
        weir_parallel_add(work, weir_timer_new_named("pack", WEIR_MSEC(6), packed, NULL));
        weir_series_push(flow, weir_timer_new_named("order \"7\"", WEIR_MSEC(2), order, "seven of those"));
        weir_series_push(flow, work);
        weir_series_push(flow, weir_timer_new_named("ask", WEIR_MSEC(2), ask, NULL));
        weir_series_push(flow, weir_timer_new_named("ask politely", WEIR_MSEC(2), ask_politely, NULL));
        return flow;
}

int main(int argc, char *argv[])
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        const char *path = argc > 1 ? argv[1] : "trace.json";

        config.pollers = 1;
        config.compute_threads = 2;
        int failed = weir_init(&config);
        if (!failed)
                failed = weir_trace_start(path);
        if (!failed) {
                weir_task_start(weir_ticker_new_named("beat", WEIR_MSEC(3), WEIR_TICK_SKIP, beat, NULL));
                failed = weir_series_run(make_flow());
        }
        int lost = weir_trace_stop(); /* or an error */
        if (failed || lost < 0)
                fprintf(stderr, "15-trace: %s: %s\n", weir_strstatus(failed ? failed : lost),
                        weir_strerror(failed ? failed : lost));
        else
                printf("the trace is in %s; %d events were left out\n", path, lost);
        return weir_shutdown() != 0 || failed || lost < 0;
}
