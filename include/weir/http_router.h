/* weir/http_router.h: handlers of an HTTP server by method and path.
 *
 *     weir_http_router *router = weir_http_router_new();
 *
 *     weir_http_router_add(router, "GET", "/users/{id}", on_user, NULL);
 *     server = weir_http_server_new(NULL, weir_http_router_handle, router);
 *
 * Patterns.  A path is first divided at its slashes and then percent-decoded, so %2F does not
 * divide a segment.  A pattern is divided in the same way.  Each of its segments is one of these:
 *
 *     users        a literal: exactly that segment.  %7B is a brace, %25 a percent sign
 *     {id}         a parameter: any one segment that is not empty
 *     {path...}    a prefix, in the last place only: the rest of the path, whatever it is.  It may be
 *                  empty, but the slash before it must be there
 *
 * Nothing else is special: ":id" is a literal.  As this is hardly meant, a segment that begins with a
 * colon is a warning in the log; "%3Aid" is none.  No path is changed or redirected.  "/a" and "/a/" are two paths; the
 * second one ends in an empty segment.  "/a//b" matches neither "/a/b" nor "/a/{x}/b", but it
 * matches "/{path...}". Dots are not resolved: "/a/../b" has three segments.  Case matters, also in
 * methods.  The pattern "*" is for `OPTIONS *`.
 *
 * Choice.  Several patterns may match the path and the method.  The most specific one wins,
 * whatever the order of adding.  Patterns are compared segment by segment from the left.  At the
 * first difference a literal wins over a parameter, and a parameter over a prefix.  So "/a/{x}/c"
 * and "/a/b/{y}" may both exist: /a/b/c goes to the second, /a/q/c to the first.  If one pattern
 * was added several times, the method itself comes first, then for HEAD the one with GET, then the
 * one with any method.
 *
 * No handler.  No pattern matches the path: 404.  None with the method: 405 with Allow.  OPTIONS
 * gets a 204 with Allow; for "*", Allow has the methods of all patterns.  A pattern "/{path...}"
 * that was added with "*" takes over all of these except `OPTIONS *`; the pattern "*" added with
 * OPTIONS takes over that.
 *
 * Source:  RFC 9110 sections 9.3.2, 9.3.7, 10.2.1 and 15.5.6. */
#ifndef WEIR_HTTP_ROUTER_H
#define WEIR_HTTP_ROUTER_H

#include <weir/http.h>

WEIR_BEGIN

/* A router.  The program frees it. */
typedef struct weir_http_router weir_http_router;

/* Makes a router without patterns, which answers 404.
 *
 * Owner:   the caller frees it by weir_http_router_free when none of its exchanges is left: after
 *          weir_http_server_free, and when no exchange is held any more (weir_http_ref).
 * Result:  NULL when out of memory.
 * Threads: any. */
WEIR_API weir_http_router *weir_http_router_new(void);

/* Frees a router.  Accepts NULL. */
WEIR_API void weir_http_router_free(weir_http_router *router);

/* Adds a handler for paths that match `pattern`.  `methods` is one method, several with commas
 * between, such as "GET,POST", or "*" for any.  The handler gets `context`, which becomes the
 * context of the exchange, as by weir_task_set_context without a function.  So a context that a
 * handler before the router has set is freed then.
 *
 * Result:  0; or an error, and nothing has changed.  The log says what was expected instead of what
 *          is -EINVAL:
 *          -EINVAL for NULL (a NULL context is allowed); for a list with a part that is no method
 *            in capital letters; for the 65th method of the router;
 *          -EINVAL for a pattern that is not "*" and does not begin with a slash, has more than 64
 *            segments or an empty segment before its last one, or has a '?', '#', control byte,
 *            invalid escape or %00;
 *          -EINVAL for a brace that is not around a whole segment, a parameter that occurs twice,
 *            or one whose name has anything but letters, digits and underscores, or begins with a
 *            digit;
 *          -EEXIST when one of the methods was added before with the same pattern; names of
 *            parameters do not matter;
 *          -EBUSY when the router is in use, which it is for ever from its first request on;
 *          -ENOMEM, also for a NULL router.
 * Threads: any. */
WEIR_API int weir_http_router_add(weir_http_router *router, const char *methods, const char *pattern, weir_task_fn *handler,
                                  void *context);

/* Calls the handler for the request.  Pass it to weir_http_server_new with the router as the
 * context, or add it to another router, whose parameters it then replaces.  It reads the path once,
 * however many patterns there are, and compares only the parts of patterns that match the beginning
 * of the path.  It allocates once if the pattern has parameters, otherwise never.  If there is no
 * handler and the reply has begun already, the connection is cut at its end.
 *
 * Threads: inside a callback of the exchange's series. */
WEIR_API void weir_http_router_handle(weir_task *exchange, void *router);

/* The part of the path that a parameter stands for, percent-decoded.  It may hold any byte but NUL,
 * also slashes and "..", so it is not safe as the name of a file.
 *
 * Owner:   the exchange: valid as long as it is.
 * Result:  NULL when the pattern has no such parameter, for NULL, and for a task that is no
 *          exchange.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API const char *weir_http_router_parameter(const weir_task *exchange, const char *name);

WEIR_END

#endif
