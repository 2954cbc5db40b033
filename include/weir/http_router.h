/* weir/http_router.h: handlers of an HTTP server by method and path.
 *
 *     weir_http_router *router = weir_http_router_new();
 *
 *     weir_http_router_add(router, "GET", "/users/{id}", on_user, NULL);
 *     server = weir_http_server_new(NULL, weir_http_router_handle, router);
 *
 * Patterns.  A path is divided at its slashes first and percent-decoded then, so that %2F in a segment does not divide it.  So
 * is a pattern, and each of its segments is one of these:
 *
 *     users        a literal: that segment.  %7B is a brace, %25 a percent sign
 *     {id}         a parameter: any one segment that is not empty
 *     {path...}    a prefix, in the last place only: the rest of the path, whatever it holds; it may be empty, but the slash
 *                  before it must be there
 *
 * Nothing else is special.  Nothing is tidied up, and nothing is redirected: "/a" and "/a/" are two paths, the second of which
 * ends in an empty segment; "/a//b" is neither of "/a/b" and "/a/{x}/b", but "/{path...}" has it; dots are not resolved,
 * "/a/../b" has three segments.  Case matters, also in methods.  The pattern "*" is for `OPTIONS *`.
 *
 * Choice.  Of the patterns that match the path, and have been added with the method, the most specific one wins, in whatever
 * order they were added.  They are compared segment by segment from the left: where two differ first, a literal comes before a
 * parameter, and that before a prefix.  So "/a/{x}/c" and "/a/b/{y}" may both be there: /a/b/c goes to the second, /a/q/c to
 * the first.  Of one pattern added several times, the method itself comes first, then for HEAD that with GET, then that with
 * any method.
 *
 * What is not there.  No pattern for the path: 404.  None with the method: 405 with Allow.  OPTIONS is answered 204 with
 * Allow: for "*", with the methods of all patterns.  A pattern "/{path...}" added with "*" takes all these but the last upon
 * itself, and "*" added with OPTIONS that.
 * Source: RFC 9110 sections 9.3.2, 9.3.7, 10.2.1 and 15.5.6. */
#ifndef WEIR_HTTP_ROUTER_H
#define WEIR_HTTP_ROUTER_H

#include <weir/http.h>

WEIR_BEGIN

typedef struct weir_http_router weir_http_router;

/* A router without patterns, which answers 404.
 *
 * Owner:   the caller: weir_http_router_free, when no exchange that it was given is left: after weir_http_server_free.
 * Result:  NULL when out of memory.
 * Threads: any. */
WEIR_API weir_http_router *weir_http_router_new(void);

/* Accepts NULL. */
WEIR_API void weir_http_router_free(weir_http_router *router);

/* Adds a handler for paths like `pattern`.  `methods` is one, or several with commas between, such as "GET,POST"; "*" is any.
 * The handler gets `context`, which becomes the exchange's: also for weir_task_context and weir_task_on_free.
 *
 * Result:  0.  On failure nothing has changed:
 *          -EINVAL for NULL (but a context); a list with something in it that is no method in capital letters, or a 65th
 *          method of the router; a pattern that is not "*" and does not begin with a slash, that has more than 64 segments, an
 *          empty one but the last, a '?', '#' or control byte, an escape that is none or %00, a brace that is not around a
 *          whole segment, a parameter twice or one whose name is not of letters, digits and underscores, with no digit first;
 *          -EEXIST when one of the methods was added before with a pattern that is the same but for the names of its parameters;
 *          -EBUSY when the router is in use, which it is for ever from its first request on;
 *          -ENOMEM, and for a NULL router.
 * Threads: any. */
WEIR_API int weir_http_router_add(weir_http_router *router, const char *methods, const char *pattern, weir_task_fn *handler,
                                  void *context);

/* Calls the handler for the request; for a weir_http_server_new, whose context is the router, or as another router's handler,
 * whose parameters are then replaced.  It takes one pass over the path, however many patterns there are, and visits at most
 * those parts of patterns that match the beginning of the path; it allocates once when the pattern has parameters, else not.
 * When there is no handler, and the reply has begun already, the connection is cut at its end.
 *
 * Threads: inside a callback of the exchange's series. */
WEIR_API void weir_http_router_handle(weir_task *exchange, void *router);

/* What the path has in the place of the parameter, percent-decoded.  It may hold any byte but NUL: slashes too, and "..", so
 * that it is no name of a file yet.
 *
 * Owner:   the exchange: valid as long as it is.
 * Result:  NULL when the pattern has no such parameter, for NULL, and for what is no exchange.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API const char *weir_http_router_parameter(const weir_task *exchange, const char *name);

WEIR_END

#endif
