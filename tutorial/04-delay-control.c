/* 04-delay-control.c: delayed replies that a second program can release by name.
 *
 *     04-delay-control [address]       default 127.0.0.1:8888
 *
 *     GET  /wait?name=N&ms=M     is answered after M milliseconds, or as soon as
 *     POST /cancel?name=N        comes, which itself replies with how many were waiting
 *
 * Try it:  curl 'http://127.0.0.1:8888/wait?name=bob&ms=60000' &
 *          curl -X POST 'http://127.0.0.1:8888/cancel?name=bob' */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

/* The wait is over.  The exchange, whose series this is, is the timer's context. */
static void waited(weir_task *timer, void *context)
{
        weir_task *exchange = context;
        int status = weir_task_status(timer);

        weir_http_reply_text(exchange, 200, status == 0 ? "waited\n" : "told not to wait\n");
}

static void wait_for(weir_task *exchange)
{
        const char *name = weir_http_query_value(exchange, "name"), *ms = weir_http_query_value(exchange, "ms");
        char *end = NULL;
        long milliseconds = ms ? strtol(ms, &end, 10) : 0;

        if (!name || !*name || !ms || end == ms || *end || milliseconds < 0) {
                weir_http_reply_text(exchange, 400, "wanted: /wait?name=NAME&ms=MILLISECONDS\n");
                return;
        }
        weir_series_push(weir_series_of(exchange), weir_timer_new_named(name, WEIR_MSEC(milliseconds), waited, exchange));
}

static void cancel(weir_task *exchange)
{
        const char *name = weir_http_query_value(exchange, "name");
        char text[32];

        if (!name || !*name) {
                weir_http_reply_text(exchange, 400, "wanted: /cancel?name=NAME\n");
                return;
        }
        snprintf(text, sizeof text, "%zu\n", weir_timer_cancel(name, WEIR_ALL));
        weir_http_reply_text(exchange, 200, text);
}

static void on_request(weir_task *exchange, void *context)
{
        const char *path = weir_http_path(exchange);
        const char *method = weir_http_method(exchange);

        (void)context;
        if (!strcmp(path, "/wait") && !strcmp(method, "GET"))
                wait_for(exchange);
        else if (!strcmp(path, "/cancel") && !strcmp(method, "POST"))
                cancel(exchange);
        else
                weir_http_reply_text(exchange, 404, "wanted: GET /wait or POST /cancel\n");
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
