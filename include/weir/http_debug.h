/* weir/http_debug.h: a ready handler for /metrics and /debug/flows.
 *
 *     weir_http_router_add(router, "GET", "/metrics", weir_http_debug, NULL);
 *     weir_http_router_add(router, "GET", "/debug/flows", weir_http_debug, NULL);
 *
 * It may also be the handler of a server of its own.  A path that ends in /metrics gets the text of
 * weir_metrics_write (weir/metrics.h). A path that ends in /debug/flows gets a page for people: all
 * series, tasks, callbacks and functions that are alive, how old they are and what they wait for.
 * In each part the ones that have waited longest come first.  Below are the counts of the resolver
 * (weir/resolve.h) and of the origins of clients (weir/http_client.h).  Every other path gets a 404.
 *
 * The page.  ?limit= is roughly the maximum number of rows in each part: 1 to 10,000, by default
 * 500. ?find= shows only flows with that text in the name of one of their tasks, or in what it
 * waits for.  The page needs no script and loads nothing.
 *
 * Access.  The state of a program is private.  By default only clients on this machine may read it,
 * by a loopback address or a Unix socket; all others get a 403.  Their request must also be
 *
 * - direct.  A request with a Forwarded, X-Forwarded-For, X-Real-IP or Via field, or with the
 *   server's own forwarded_field, is refused, whatever it says.  So is a request whose client is
 *   elsewhere according to a trusted proxy.  A proxy on this machine that adds no such field looks
 *   like a local program: it must not pass on these paths.
 * - for this machine: Host is empty, localhost, a name below it, or a loopback address.  Otherwise
 *   a web page could point a name of its own at this machine and have a local browser read the
 *   state (DNS rebinding).
 *
 * A struct weir_http_debug_config as the handler's context admits others. */
#ifndef WEIR_HTTP_DEBUG_H
#define WEIR_HTTP_DEBUG_H

#include <stddef.h>

#include <weir/task.h>

WEIR_BEGIN

/* Start from WEIR_HTTP_DEBUG_CONFIG_DEFAULT. */
struct weir_http_debug_config {
        size_t size;         /* of this struct; set by WEIR_HTTP_DEBUG_CONFIG_DEFAULT */
        const char *allowed; /* Additional readers: addresses, networks and "unix:", separated by commas, such as
                                "10.0.0.0/8, ::1"; everybody is "0.0.0.0/0, ::/0".  They are compared with
                                weir_http_client_address; for them neither the fields of proxies nor Host matter.
                                NULL: nobody.  An invalid list admits nobody and is reported in the log */
};

/* The initial value of a struct weir_http_debug_config: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_HTTP_DEBUG_CONFIG_DEFAULT {sizeof(struct weir_http_debug_config), 0}
#else
#define WEIR_HTTP_DEBUG_CONFIG_DEFAULT {.size = sizeof(struct weir_http_debug_config)}
#endif

/* Answers the request.  `context` is NULL or a struct weir_http_debug_config.  The struct stays the
 * caller's and must not change while requests come.  If the reply has begun already, the connection
 * is cut at its end.
 *
 * The handler makes the page between weir_blocking_begin and weir_blocking_end, so another worker
 * does all other work meanwhile.  It does not use the executor: its threads may all be busy with
 * the very functions that the page has to show.
 *
 * Threads: inside a callback of the exchange's series. */
WEIR_API void weir_http_debug(weir_task *exchange, void *context);

WEIR_END

#endif
