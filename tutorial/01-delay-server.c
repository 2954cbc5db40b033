/* 01-delay-server.c: an HTTP server that answers each request one second later, while no thread waits.
 *
 *     01-delay-server [address]        default 127.0.0.1:8888
 *
 * Try it:  curl -w '%{time_total}\n' http://127.0.0.1:8888/
 *
 * Ctrl-C delivers the replies that are due, then ends; a second one cuts them. */
#include <stdio.h>

#include <weir/weir.h>

static void on_request(weir_task *exchange, void *context)
{
        (void)context;
        weir_http_reply_text(exchange, 200, "hello, one second late\n");
        weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_SEC(1), NULL, NULL));
}

int main(int argc, char *argv[])
{
        const char *address = argc > 1 ? argv[1] : "127.0.0.1:8888";
        int result = weir_http_serve(address, on_request, NULL);

        if (result < 0)
                fprintf(stderr, "cannot serve at %s: %s\n", address, weir_strerror(result));
        else if (result > 0)
                fprintf(stderr, "stopped; %d replies were cut\n", result);
        return result != 0;
}
