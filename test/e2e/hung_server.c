/* test/e2e/hung_server.c: a server of /debug/flows and /metrics in a program with flows that hang: one has a hostile name, one a
 * long one, one holds guards and has much behind it, and two wait for each other.
 *
 *     hung_server 127.0.0.1:8888 */
#include <stdio.h>

#include <weir/weir.h>

static int
start_flow(const char *name, weir_task *first, weir_task *second)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_set_name(series, name);
        weir_series_push(series, first);
        weir_series_push(series, second);
        return weir_series_start(series);
}

#define LONG_NAME "ledger-of-the-international-department-of-very-long-names-that-have-no-space-in-them-at-all-and-never-end"

static int
start_crossing(const char *name, const char *first, const char *second)
{
        weir_series *series = weir_series_new(NULL, NULL);

        weir_series_set_name(series, name);
        weir_series_set_deadline(series, WEIR_SEC(86400));
        weir_series_push(series, weir_guard_acquire_new_named(first, NULL, NULL));
        weir_series_push(series, weir_timer_new(WEIR_MSEC(100), NULL, NULL));
        weir_series_push(series, weir_guard_acquire_new_named(second, NULL, NULL));
        weir_series_push(series, weir_empty_new(NULL, NULL));
        return weir_series_start(series);
}

int
main(int argc, char *argv[])
{
        weir_http_router *router = weir_http_router_new();
        int failed = start_flow("nightly export", weir_guard_acquire_new_named("ledger", NULL, NULL),
                                weir_counter_new_named("uploads", 2, NULL, NULL));

        weir_counter_count_named("uploads", 1); /* and never again */
        if (!failed)
                failed = start_flow("month end", weir_timer_new(WEIR_MSEC(100), NULL, NULL),
                                    weir_guard_acquire_new_named("ledger", NULL, NULL));
        if (!failed)
                failed = start_flow("<script>document.title='broken'</script>", weir_timer_new(0, NULL, NULL),
                                    weir_timer_new_named("retry & wait", WEIR_SEC(86400), NULL, NULL));
        if (!failed)
                failed = start_crossing("stock <to> orders", "stock", LONG_NAME);
        if (!failed)
                failed = start_crossing(LONG_NAME, LONG_NAME, "stock");
        if (!failed)
                failed = weir_http_router_add(router, "GET", "/debug/flows", weir_http_debug, NULL);
        if (!failed)
                failed = weir_http_router_add(router, "GET", "/metrics", weir_http_debug, NULL);
        if (!failed)
                failed = weir_http_serve(argc > 1 ? argv[1] : "127.0.0.1:8888", weir_http_router_handle, router);
        if (failed)
                fprintf(stderr, "hung_server: %s\n", weir_strerror(failed));
        weir_shutdown();
        weir_http_router_free(router);
        return failed != 0;
}
