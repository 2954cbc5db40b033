/* weir/http_fields.h: what a request says, taken apart: query, form and cookies, and who sent it.
 *
 * Each part is read at the first question for it.  What is returned is borrowed from the exchange, as in weir/http.h, and where
 * an exchange is asked for, a task of another kind gives NULL or -EDOM.  Out of memory, a question for a value gives NULL, one
 * by index -ENOMEM, and the reply becomes a 500: so what merely could not be read is not taken for absent.
 *
 * Names and values of queries, forms and cookies are NUL-terminated bytes, UTF-8 or not.  A pair with a NUL in it is left out:
 * what is seen is never half of what was sent.  Of pairs with one name, the first counts; all are found by index, from 0 on, in
 * the order of arrival.
 *
 * Threads: inside callbacks of the exchange's series, one at a time. */
#ifndef WEIR_HTTP_FIELDS_H
#define WEIR_HTTP_FIELDS_H

#include <weir/http.h>
#include <weir/http_cookie.h>

WEIR_BEGIN

/* The value that a name has in the query, decoded: "a+b" and "a%20b" are "a b".  A name without '=' has the value "".  Pairs are
 * divided by '&' only.  An escape that is none stays as it is.
 *
 * Result:  NULL when there is none of that name among the first max_pairs (of the server's config), or for a NULL name.
 * Source:  WHATWG URL standard, application/x-www-form-urlencoded, but that bytes which are not UTF-8 are not replaced. */
WEIR_API const char *weir_http_query_value(const weir_task *exchange, const char *name);

/* The pair at `index` in the query.
 *
 * Result:  0; -ENOENT past the last; -E2BIG past the last one that was read, when there are more than the server's max_pairs;
 *          -ENOMEM; -EDOM.  The outputs are untouched on failure, and may be NULL. */
WEIR_API int weir_http_query_at(const weir_task *exchange, size_t index, const char **name, const char **value);

/* The same for the body of a request whose Content-Type is application/x-www-form-urlencoded; others have no pairs, nor has a
 * body that was not collected (weir_http_request_body), not to its end, or not from its first byte on. */
WEIR_API const char *weir_http_form_value(const weir_task *exchange, const char *name);
WEIR_API int weir_http_form_at(const weir_task *exchange, size_t index, const char **name, const char **value);

/* The same for cookies, of all Cookie lines.  Names are compared exactly; quotation marks around a value are taken off; nothing
 * else is decoded.  What has no name, or no '=', is left out.
 *
 * Source:  RFC 6265 sections 4.2.1 and 5.4.  Where several have one name, browsers send that of the longest path first. */
WEIR_API const char *weir_http_cookie(const weir_task *exchange, const char *name);
WEIR_API int weir_http_cookie_at(const weir_task *exchange, size_t index, const char **name, const char **value);

/* Adds a Set-Cookie field to the reply.  To delete a cookie, set it with a negative max_age, and name, path and domain as it
 * was set with.
 *
 * Result:  0; -EINVAL for NULL, a size that is none, a name that is no token; a byte that the struct does not allow in value or
 *          path, so nothing can be slipped in behind them; a path that does not begin with a slash; a domain that is no name of
 *          letters, digits, hyphens and dots (nor begins with a dot); an unknown same_site; WEIR_HTTP_SAME_SITE_NONE without
 *          `secure`; a name that promises what is not there; -E2BIG for what browsers drop: name and value of more than 4,096
 *          bytes together, a path of more than 1,024; -ENOMEM (the reply becomes a 500); -EDOM.
 * Threads: as weir_http_reply_header. */
WEIR_API int weir_http_reply_cookie(weir_task *exchange, const struct weir_http_cookie *cookie);

/* Who sent the request: the address without a port, such as "192.0.2.1" or "2001:db8::1"; "unix:" over a Unix socket.  An IPv4
 * address in an IPv6 one is shown as what it is.
 *
 * It is that of the peer, unless that is one of the server's trusted_proxies: then it is the last one in the server's
 * forwarded_field, of all its lines, that is not a trusted proxy.  Each proxy adds there, at the end, whom it speaks for; what is
 * before the first stranger from the end may be invented and is not looked at.  Where a trusted proxy names nobody, or something
 * that is no address, it is itself the answer. */
WEIR_API const char *weir_http_client_address(const weir_task *exchange);

/* The other end of the connection: "192.0.2.1:5678", "[2001:db8::1]:5678", "unix:". */
WEIR_API const char *weir_http_peer_address(const weir_task *exchange);

WEIR_END

#endif
