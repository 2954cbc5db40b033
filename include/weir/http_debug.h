/* weir/http_debug.h: a ready handler that shows what the program does: /metrics and /debug/flows.
 *
 *     weir_http_router_add(router, "GET", "/metrics", weir_http_debug, NULL);
 *     weir_http_router_add(router, "GET", "/debug/flows", weir_http_debug, NULL);
 *
 * It may also be the handler of a server of its own.  A path that ends in /metrics is answered as by weir_metrics_write
 * (weir/metrics.h), one that ends in /debug/flows with a page for people: all series, tasks, callbacks and functions that are
 * alive, how old they are and what they wait for, in each part those first that have waited longest.  Every other path is 404.
 *
 * The page.  ?limit= says about how many rows of each part are shown at most, 1 to 10,000, 500 by default; ?find= shows only flows
 * with that text in the name of one of their tasks, or in what it waits for.  It needs no script and nothing from elsewhere.
 *
 * Who may read.  What programs do is nobody else's business, so that all others are answered 403.  By default it is who
 * connects from this machine, by a loopback address or a Unix socket, but only with a request
 *
 *     that nobody has passed on: one with a Forwarded, X-Forwarded-For, X-Real-IP or Via field, or the server's own
 *     forwarded_field, is refused, whoever it names, and so is one whose client a trusted proxy says to be elsewhere.  A proxy on
 *     this machine that adds no such field looks like a local program: it must not pass these paths on.
 *
 *     whose Host is empty, localhost, a name below it, or a loopback address: a page from elsewhere that has a name of its own lead
 *     to this machine (DNS rebinding) cannot have a browser here read it.
 *
 * Others are let in by a struct weir_http_debug_config as the handler's context. */
#ifndef WEIR_HTTP_DEBUG_H
#define WEIR_HTTP_DEBUG_H

#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

/* Start from WEIR_HTTP_DEBUG_CONFIG_DEFAULT. */
struct weir_http_debug_config {
        size_t size;         /* of this struct: set by WEIR_HTTP_DEBUG_CONFIG_DEFAULT */
        const char *allowed; /* who may read as well: addresses, networks and "unix:" between commas, such as "10.0.0.0/8, ::1"; everybody is
                                "0.0.0.0/0, ::/0".  What counts is weir_http_client_address; for these neither the fields of proxies
                                nor Host matter.  NULL: nobody.  A list that is none lets nobody in, and is complained about in the log */
};

#ifdef __cplusplus
#define WEIR_HTTP_DEBUG_CONFIG_DEFAULT {sizeof(struct weir_http_debug_config), 0}
#else
#define WEIR_HTTP_DEBUG_CONFIG_DEFAULT {.size = sizeof(struct weir_http_debug_config)}
#endif

/* Answers the request.  `context` is NULL or a struct weir_http_debug_config, which stays the caller's and must stay as it is while
 * requests come.  When the reply has begun already, the connection is cut at its end.
 *
 * The page is made in the handler, between weir_blocking_begin and weir_blocking_end: another worker goes on with all else
 * meanwhile.  It does not wait for the executor, whose threads may all be busy with just what the page is to show.
 *
 * Threads: inside a callback of the exchange's series. */
WEIR_API void weir_http_debug(weir_task *exchange, void *context);

WEIR_END

#endif
