/* weir/http_fields.h: the parts of a request: query, form, cookies, and the client's address.
 *
 * Each part is parsed when a program first asks for it.  Results are borrowed from the exchange, as
 * in weir/http.h.  For a task that is no exchange the result is NULL or -EDOM.  When out of memory,
 * a question for a value returns NULL, one by index -ENOMEM, and the reply becomes a 500.  So a
 * value that could not be read is not taken for an absent one.
 *
 * Names and values of queries, forms and cookies are NUL-terminated bytes, UTF-8 or not.  A pair
 * with a NUL in it is left out, so no value is seen that was cut.  Of several pairs with one name
 * the first one counts.  By index all are found, from 0 on, in the order of arrival.
 *
 * Threads: inside callbacks of the exchange's series, one at a time. */
#ifndef WEIR_HTTP_FIELDS_H
#define WEIR_HTTP_FIELDS_H

#include <weir/http.h>
#include <weir/http_cookie.h>

WEIR_BEGIN

/* The decoded value of a name in the query: "a+b" and "a%20b" are "a b". A name without '=' has the
 * value "".  Only '&' separates pairs.  An invalid escape stays as it is.
 *
 * Result:  NULL when no pair among the first max_pairs (of the server's config) has that name, and
 *          for a NULL name.
 * Source:  WHATWG URL standard, application/x-www-form-urlencoded; but bytes that are not UTF-8 are
 *          not replaced. */
WEIR_API const char *weir_http_query_value(const weir_task *exchange, const char *name);

/* The pair at `index` in the query.  The outputs may be NULL.
 *
 * Result:  0; or an error, and the outputs are unchanged: -ENOENT past the last pair; -E2BIG past
 *          the last parsed pair, if there are more than the server's max_pairs; -ENOMEM; -EDOM. */
WEIR_API int weir_http_query_at(const weir_task *exchange, size_t index, const char **name, const char **value);

/* The same for a body whose Content-Type is application/x-www-form-urlencoded.  Any other body has
 * no pairs.  Neither has a body that was not collected (weir_http_request_body), or not from its
 * first byte to its end. */
WEIR_API const char *weir_http_form_value(const weir_task *exchange, const char *name);
WEIR_API int weir_http_form_at(const weir_task *exchange, size_t index, const char **name, const char **value);

/* The same for cookies, from all Cookie lines.  Names are compared exactly.  Quotation marks around
 * a value are removed; nothing else is decoded.  A part without a name or without '=' is left out.
 *
 * Source:  RFC 6265 sections 4.2.1 and 5.4. Of several cookies with one name, browsers send the one
 *          with the longest path first. */
WEIR_API const char *weir_http_cookie(const weir_task *exchange, const char *name);
WEIR_API int weir_http_cookie_at(const weir_task *exchange, size_t index, const char **name, const char **value);

/* Adds a Set-Cookie field to the reply.  To delete a cookie, set it with a negative max_age and
 * with the name, path and domain that it was set with.
 *
 * Result:  0; -ENOMEM (the reply becomes a 500); -EALREADY once the reply has begun; -EDOM;
 *          -E2BIG for a cookie that browsers drop:
 *          name and value of more than 4,096 bytes together, or a path of more than 1,024;
 *          -EINVAL for NULL, an invalid size, a name that is no token, an unknown same_site;
 *          a byte in the value or path that the struct does not allow, so that nothing can be
 *            injected;
 *          a path that does not begin with a slash;
 *          a domain with characters other than letters, digits, hyphens and dots, or that begins
 *            with a dot;
 *          WEIR_HTTP_SAME_SITE_NONE without `secure`, and a name prefix whose rule is broken.
 * Threads: as weir_http_reply_header. */
WEIR_API int weir_http_reply_cookie(weir_task *exchange, const struct weir_http_cookie *cookie);

/* The address of the client, without a port, such as "192.0.2.1" or "2001:db8::1"; "unix:" over a
 * Unix socket.  An IPv4 address inside an IPv6 one is shown as an IPv4 address.
 *
 * It is the address of the peer, unless the peer is one of the server's trusted_proxies.  Then it
 * is the last address in all lines of the server's forwarded_field that is not a trusted proxy.
 * Each proxy appends its client at the end.  Addresses before the last untrusted one may be forged
 * and are ignored.  If a trusted proxy names no client, or no valid address, the proxy itself is
 * the result. */
WEIR_API const char *weir_http_client_address(const weir_task *exchange);

/* The other end of the connection: "192.0.2.1:5678", "[2001:db8::1]:5678", "unix:". */
WEIR_API const char *weir_http_peer_address(const weir_task *exchange);

WEIR_END

#endif
