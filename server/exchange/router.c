/* server/exchange/router.c: the router: calls the handler that was added for a method and a path.
 *
 *     filling --first request--> frozen
 *
 * Threads: any thread adds patterns, under the lock.  The first request takes the lock once and sets `is_frozen`.  From then on
 *          nothing changes, and requests on all workers read without the lock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/http_router.h>

#include "kernel/memory/watched.h"
#include "kernel/observe/log.h"
#include "protocol/route/pattern.h"
#include "protocol/route/routes.h"
#include "protocol/route/target.h"
#include "server/exchange/exchange.h"

struct route_handler {
        weir_task_fn *handler;
        void *context;
};

struct weir_http_router {
        struct weir__lock lock; /* rank LEAF */
        _Atomic bool is_frozen; /* set under the lock; a reader that acquires it sees all routes */

        /* Guarded by lock until frozen; constant then. */
        struct weir__routes *routes;
        struct route_handler *handlers; /* by the routes' numbers */
        size_t count;
};

weir_http_router *
weir_http_router_new(void)
{
        weir_http_router *router = calloc(1, sizeof *router);

        if (!router)
                return NULL;
        router->routes = weir__routes_new();
        if (!router->routes) {
                free(router);
                return NULL;
        }
        weir__lock_init(&router->lock, WEIR__RANK_LEAF);
        return router;
}

void
weir_http_router_free(weir_http_router *router)
{
        weir__memory_expect(router);
        if (!router)
                return;
        weir__routes_free(router->routes);
        free(router->handlers);
        free(router);
}

/* -- adding -- */

static int
add(weir_http_router *router, const char *methods, const char *pattern, struct route_handler handler)
{
        if (atomic_load_explicit(&router->is_frozen, memory_order_relaxed))
                return -EBUSY;
        struct route_handler *grown = realloc(router->handlers, (router->count + 1) * sizeof *grown);
        if (!grown)
                return -ENOMEM;
        router->handlers = grown;
        int failed = weir__routes_add(router->routes, methods, pattern, router->count);
        if (!failed)
                grown[router->count++] = handler;
        return failed;
}

static int
refuse_null(const char *methods, const char *pattern)
{
        if (!methods || !pattern)
                weir__log(WEIR_LOG_ERROR, "weir_http_router_add: the %s NULL: expected %s",
                          methods ? "pattern is" : "methods are",
                          methods ? "one such as \"/users/{id}\"" : "some such as \"GET,POST\", or \"*\"");
        else
                weir__log(WEIR_LOG_ERROR,
                          "weir_http_router_add: the handler of %s \"%.200s\" is NULL: expected what answers requests", methods,
                          pattern);
        return -EINVAL;
}

/* A segment such as ":id", which is a parameter elsewhere. */
static void
warn_of_colons(const struct weir__pattern *pattern, const char *text)
{
        for (unsigned i = 0; i < pattern->count; i++) {
                const struct weir__segment *segment = &pattern->segments[i];
                int size = segment->size < 100 ? (int)segment->size : 100;

                if (size > 1 && segment->text[0] == ':')
                        weir__log(WEIR_LOG_WARNING,
                                  "weir_http_router_add: \"%.200s\": \"%.*s\" is a literal; {%.*s} is a parameter", text, size,
                                  segment->text, size - 1, segment->text + 1);
        }
}

/* Says what is wrong with what was refused, or what looks wrong in what was added. */
static void
look_at(const char *methods, const char *text, int failed)
{
        struct weir__pattern pattern;

        if (weir__pattern_read(&pattern, text))
                weir__log(WEIR_LOG_ERROR, "weir_http_router_add: the pattern \"%.200s\": expected %s", text, pattern.expected);
        else if (failed)
                weir__log(WEIR_LOG_ERROR,
                          "weir_http_router_add: the methods \"%.100s\": expected some in capitals, such as "
                          "\"GET,POST\", or \"*\", and %d at most in a router",
                          methods, WEIR__ROUTE_METHODS);
        else
                warn_of_colons(&pattern, text);
}

int
weir_http_router_add(weir_http_router *router, const char *methods, const char *pattern, weir_task_fn *handler, void *context)
{
        weir__memory_expect(router);
        if (!router)
                return -ENOMEM;
        if (!methods || !pattern || !handler)
                return refuse_null(methods, pattern);
        weir__lock(&router->lock);
        int failed = add(router, methods, pattern, (struct route_handler){handler, context});
        weir__unlock(&router->lock);
        if (!failed || failed == -EINVAL)
                look_at(methods, pattern, failed);
        return failed;
}

static void
freeze(weir_http_router *router)
{
        if (atomic_load_explicit(&router->is_frozen, memory_order_acquire))
                return;
        weir__lock(&router->lock);
        atomic_store_explicit(&router->is_frozen, true, memory_order_release);
        weir__unlock(&router->lock);
}

/* -- requests -- */

static int
allow(struct weir__exchange *exchange, const weir_http_router *router, uint64_t methods)
{
        char *text = weir__routes_allow(router->routes, methods);
        int failed = text ? weir_http_reply_set_header(&exchange->task, "Allow", text) : -ENOMEM;

        free(text);
        return failed;
}

/* There is no handler: the reply says why.  A reply that has begun already is cut. */
static int
reply_without_route(struct weir__exchange *exchange, const weir_http_router *router, int result,
                    const struct weir__target *target, uint64_t methods)
{
        bool is_options = strcmp(exchange->request->method, "OPTIONS") == 0;

        if (weir__exchange_is_fixed(exchange))
                return -EALREADY;
        if (is_options && target->path[0] == '*')
                methods = UINT64_MAX;
        else if (result == -ENOENT)
                return weir__exchange_refuse_anew(exchange, 404);
        if (is_options)
                weir_http_reply_status(&exchange->task, 204);
        int failed = is_options ? 0 : weir__exchange_refuse_anew(exchange, 405);
        return failed ? failed : allow(exchange, router, methods);
}

static void
route(struct weir__exchange *exchange, const weir_http_router *router)
{
        const struct weir__request *request = exchange->request;
        struct weir__route_found found = {.parameters = NULL};
        struct weir__target target;
        int result = weir__target_read(&target, request->method, strlen(request->method), request->target,
                                       strlen(request->target));

        if (!result)
                result = weir__routes_match(router->routes, request->method, target.path, target.path_size, &found);
        if (result == -ENOENT || result == -EOPNOTSUPP)
                result = reply_without_route(exchange, router, result, &target, found.allowed);
        else if (!result) {
                const struct route_handler *found_handler = &router->handlers[found.number];

                free(exchange->parameters);
                exchange->parameters = found.parameters;
                weir_task_set_context(&exchange->task, found_handler->context, NULL);
                found_handler->handler(&exchange->task, found_handler->context);
        }
        if (result)
                exchange->has_failed = true;
}

void
weir_http_router_handle(weir_task *exchange, void *router)
{
        weir__memory_expect(router);
        struct weir__exchange *known = weir__exchange_of(exchange);

        if (!known)
                return;
        if (!router) {
                static struct weir__log_limit limit;

                weir__log_limited(&limit, WEIR_LOG_ERROR,
                                  "weir_http_router_handle: the router is NULL: expected the context of the "
                                  "handler to be one; the reply is a 500");
                known->has_failed = true;
                return;
        }
        freeze(router);
        route(known, router);
}

const char *
weir_http_router_parameter(const weir_task *exchange, const char *name)
{
        const struct weir__exchange *known = weir__exchange_of(exchange);

        return known && name ? weir__pairs_value(known->parameters, name) : NULL;
}
