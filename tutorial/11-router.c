/* 11-router.c: handlers by method and path, with parameters in the path.
 *
 *     11-router [address]              default 127.0.0.1:8888
 *
 *     GET  /hello/{name}               a greeting (HEAD is served by it, too)
 *     GET  /hello/{name}/in/{ms}       the same after so many milliseconds
 *     GET, POST  /hello/world          a literal comes before a parameter
 *     any  /echo/{path...}             prints the method and the rest of the path
 *
 * Everything else is 404, or 405 with the allowed methods.
 *
 * Try it:  curl http://127.0.0.1:8888/hello/Anna%20B.
 *          curl -i -X DELETE http://127.0.0.1:8888/hello/world
 *          curl -i -X OPTIONS http://127.0.0.1:8888/hello/world */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

static void reply(weir_task *exchange, const char *word, const char *value)
{
        weir_http_reply_append(exchange, word, strlen(word));
        weir_http_reply_append(exchange, " ", 1);
        weir_http_reply_append(exchange, value, strlen(value));
        weir_http_reply_append(exchange, "\n", 1);
}

static void on_hello(weir_task *exchange, void *context)
{
        (void)context;
        reply(exchange, "hello", weir_http_router_parameter(exchange, "name"));
}

/* One handler may serve several patterns: the context tells them apart. */
static void on_world(weir_task *exchange, void *context)
{
        weir_http_reply_text(exchange, 200, context);
}

/* The parameters are there as long as the exchange is. */
static void waited(weir_task *timer, void *exchange)
{
        (void)timer;
        on_hello(exchange, NULL);
}

static void on_hello_later(weir_task *exchange, void *context)
{
        char *end;
        long milliseconds = strtol(weir_http_router_parameter(exchange, "ms"), &end, 10);

        (void)context;
        if (*end || milliseconds < 0)
                weir_http_reply_text(exchange, 400, "wanted: /hello/NAME/in/MILLISECONDS\n");
        else
                weir_series_push(weir_series_of(exchange), weir_timer_new(WEIR_MSEC(milliseconds), waited, exchange));
}

static void on_echo(weir_task *exchange, void *context)
{
        (void)context;
        reply(exchange, weir_http_method(exchange), weir_http_router_parameter(exchange, "path"));
}

static weir_http_router *make_router(void)
{
        weir_http_router *router = weir_http_router_new();

        if (weir_http_router_add(router, "GET", "/hello/{name}", on_hello, NULL) ||
            weir_http_router_add(router, "GET", "/hello/{name}/in/{ms}", on_hello_later, NULL) ||
            weir_http_router_add(router, "GET,POST", "/hello/world", on_world, "hello, all\n") ||
            weir_http_router_add(router, "*", "/echo/{path...}", on_echo, NULL)) {
                weir_http_router_free(router);
                return NULL;
        }
        return router;
}

int main(int argc, char *argv[])
{
        const char *address = argc > 1 ? argv[1] : "127.0.0.1:8888";
        weir_http_router *router = make_router();
        int result;

        if (!router) {
                fprintf(stderr, "cannot make the router\n");
                return 1;
        }
        result = weir_http_serve(address, weir_http_router_handle, router);
        if (result < 0)
                fprintf(stderr, "cannot serve at %s: %s\n", address, weir_strerror(result));
        else if (result > 0)
                fprintf(stderr, "stopped; %d replies were cut\n", result);
        weir_http_router_free(router);
        return result != 0;
}
