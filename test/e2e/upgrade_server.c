/* test/e2e/upgrade_server.c: after an upgrade to "echo" what comes goes back as it is.  Says on standard error how each has
 * ended.
 *
 *     upgrade_server 127.0.0.1:8888 */
#include <stdio.h>

#include <weir/weir.h>

static void
on_piece(weir_task *read, void *exchange)
{
        size_t size;
        const void *data = weir_http_read_data(read, &size);
        weir_series *series = weir_series_of(exchange);

        if (weir_task_status(read) || size == 0) {
                fprintf(stderr, "upgrade_server: the client has ended: %s\n", weir_strerror(weir_task_status(read)));
                return;
        }
        weir_series_push(series, weir_http_write_new(exchange, data, size, NULL, NULL));
        weir_series_push(series, weir_http_read_new(exchange, on_piece, exchange));
}

static void
on_request(weir_task *exchange, void *context)
{
        (void)context;
        if (weir_http_reply_upgrade(exchange, "echo"))
                weir_http_reply_text(exchange, 426, "this speaks only echo\n");
        else
                weir_series_push(weir_series_of(exchange), weir_http_read_new(exchange, on_piece, exchange));
}

int
main(int argc, char *argv[])
{
        int failed = weir_http_serve(argc > 1 ? argv[1] : "127.0.0.1:8888", on_request, NULL);

        if (failed)
                fprintf(stderr, "upgrade_server: %s\n", failed < 0 ? weir_strerror(failed) : "replies were cut");
        return failed != 0;
}
