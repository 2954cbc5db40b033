/* hung-flow.c: a program with a mistake, which docs/debugging.md finds: one flow holds a guard while it waits for a count that
 * never comes, and another one waits for the guard.
 *
 *     hung-flow [address]              default 127.0.0.1:8888
 *
 *     GET  /debug/flows                what everything waits for; SIGUSR1 prints the same to the standard error
 *     POST /cancel?series=NAME         ends the series of that name */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <weir/weir.h>

/* The ledger is exported when both uploads have arrived. */
static void exported(weir_series *series, void *context)
{
        (void)context;
        printf("nightly export: %s\n", weir_strerror(weir_series_status(series)));
        fflush(stdout);
}

static int start_export(void)
{
        weir_series *series = weir_series_new(exported, NULL);

        weir_series_set_name(series, "nightly export");
        weir_series_push(series, weir_guard_acquire_new_named("ledger", NULL, NULL));
        weir_series_push(series, weir_counter_new_named("uploads", 2, NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_MSEC(10), NULL, NULL)); /* as if it wrote */
        return weir_series_start(series);
}

static void closed(weir_series *series, void *context)
{
        (void)context;
        printf("month end: %s\n", weir_strerror(weir_series_status(series)));
        fflush(stdout);
}

static int start_month_end(void)
{
        weir_series *series = weir_series_new(closed, NULL);

        weir_series_set_name(series, "month end");
        weir_series_push(series, weir_timer_new(WEIR_MSEC(100), NULL, NULL)); /* behind the export */
        weir_series_push(series, weir_guard_acquire_new_named("ledger", NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_MSEC(10), NULL, NULL));
        return weir_series_start(series);
}

/* The first upload counts.  The second one fails, and there is the mistake: it forgets to. */
static void uploaded(weir_task *upload, void *has_failed)
{
        (void)upload;
        if (!has_failed)
                weir_counter_count_named("uploads", 1);
}

static int start_uploads(void)
{
        int status = weir_task_start(weir_timer_new(WEIR_MSEC(20), uploaded, NULL));

        return status ? status : weir_task_start(weir_timer_new(WEIR_MSEC(20), uploaded, "the network is down"));
}

static void on_cancel(weir_task *exchange, void *context)
{
        const char *name = weir_http_query_value(exchange, "series");
        bool is_found = name && weir_series_cancel_named(name, WEIR_ALL);

        (void)context;
        weir_http_reply_text(exchange, 200, is_found ? "cancelled\n" : "there is none\n");
}

int main(int argc, char *argv[])
{
        weir_http_router *router = weir_http_router_new();
        int status = weir_debug_dump_on(SIGUSR1, STDERR_FILENO);

        if (!status)
                status = weir_http_router_add(router, "GET", "/debug/flows", weir_http_debug, NULL);
        if (!status)
                status = weir_http_router_add(router, "POST", "/cancel", on_cancel, NULL);
        if (!status)
                status = start_export();
        if (!status)
                status = start_month_end();
        if (!status)
                status = start_uploads();
        if (!status)
                status = weir_http_serve(argc > 1 ? argv[1] : "127.0.0.1:8888", weir_http_router_handle, router);
        if (status < 0)
                fprintf(stderr, "hung-flow: %s\n", weir_strerror(status));
        weir_shutdown();
        weir_http_router_free(router);
        return status < 0;
}
