/* weir/http.h: an exchange: one request and its reply, as the server's handler sees it.
 *
 * A function that takes an exchange returns NULL or -EDOM for another kind of task.  The parts of
 * the request are borrowed from the exchange and valid as long as it is: until its series has
 * ended.  Every callback of that series may use the exchange.
 *
 *     static void on_request(weir_task *exchange, void *context)
 *     {
 *             weir_http_reply_header(exchange, "Cache-Control", "no-store");
 *             weir_http_reply_text(exchange, 200, "hello");
 *     }   the reply goes out when the series has nothing left to run */
#ifndef WEIR_HTTP_H
#define WEIR_HTTP_H

#include <weir/task.h>

WEIR_BEGIN

/* The method, such as "GET". */
WEIR_API const char *weir_http_method(const weir_task *exchange);

/* The request target as it came, such as "/a%20b?c=d". */
WEIR_API const char *weir_http_target(const weir_task *exchange);

/* The path of the target: percent-decoded, without the query; "*" for `OPTIONS *`.  Dots are not
 * resolved.
 *
 * Source:  RFC 3986 section 2.1. */
WEIR_API const char *weir_http_path(const weir_task *exchange);

/* The query of the target, without the question mark and not decoded; NULL when there is none.
 *
 * Source:  RFC 3986 section 3.4. */
WEIR_API const char *weir_http_query(const weir_task *exchange);

/* The host that the request is for: that of an absolute target, otherwise that of the Host field.
 * "" when an HTTP/1.0 request has none.
 *
 * Source:  RFC 9112 section 3.2.2. */
WEIR_API const char *weir_http_host(const weir_task *exchange);

/* The value of the first field of that name; NULL when there is none.  Case does not matter in the
 * name. */
WEIR_API const char *weir_http_request_header(const weir_task *exchange, const char *name);

/* The field at `index`, counted from 0 in the order of arrival.  The outputs may be NULL.
 *
 * Result:  0; or an error, and the outputs are unchanged: -ENOENT past the last field; -EDOM. */
WEIR_API int weir_http_request_field(const weir_task *exchange, size_t index, const char **name, const char **value);

/* The body of the request, with a NUL after its last byte.  It is never NULL for an exchange.
 * `*size` (if `size` is not NULL) is 0 without a body. */
WEIR_API const void *weir_http_request_body(const weir_task *exchange, size_t *size);

/* The last number of the request's version: 1 for HTTP/1.1, 0 for HTTP/1.0.
 *
 * Result:  that; -EDOM. */
WEIR_API int weir_http_minor(const weir_task *exchange);

/* Whether the request came over TLS.
 *
 * Result:  1 or 0; -EDOM. */
WEIR_API int weir_http_is_secure(const weir_task *exchange);

/* The subject of the client's certificate, in the form of RFC 2253, such as "CN=alice,O=Example";
 * NULL when the client has shown none.  A certificate that is shown has been checked
 * (client_ca_file). */
WEIR_API const char *weir_http_client_certificate(const weir_task *exchange);

/* Sets the status of the reply.  Without a call it is 200.  A wrong status makes the reply a 500,
 * unless a later call sets one that is right.  A write (weir/http_body.h) ends with -EINVAL then.
 *
 * Result:  0; -EINVAL outside 200 to 599, and the log says so; -EALREADY when the reply has begun (weir/http_body.h), as
 *          in all functions that build a reply; -EDOM.
 * Threads: inside callbacks of the exchange's series, as all functions that build a reply. */
WEIR_API int weir_http_reply_status(weir_task *exchange, int status);

/* Adds a field to the reply.  weir_http_reply_set_header first removes the fields of that name.
 * The server itself sets Content-Length, Transfer-Encoding, Connection and Date.
 *
 * Result:  0; -EINVAL for a name that is no token, for CR, LF, NUL or another control byte in the
 *          value, and for a field that the server sets; -EALREADY; -ENOMEM (the reply becomes a
 *          500); -EDOM.
 * Threads: inside callbacks of the exchange's series.
 * Source:  RFC 9110 sections 5.1 and 5.5. */
WEIR_API int weir_http_reply_header(weir_task *exchange, const char *name, const char *value);
WEIR_API int weir_http_reply_set_header(weir_task *exchange, const char *name, const char *value);

/* Appends a copy of `data` to the body of the reply.
 *
 * Result:  0; -EINVAL for NULL with a size; -EALREADY when the reply has begun or is a file
 *          (weir/http_file.h); -ENOMEM (the reply becomes a 500); -EDOM.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API int weir_http_reply_append(weir_task *exchange, const void *data, size_t size);

/* Appends printed text to the body of the reply.  The format is that of printf(3), and the compiler
 * checks it.  A text that came from a stranger must be escaped:
 *
 *     weir_http_reply_header(exchange, "Content-Type", "text/html; charset=utf-8");
 *     weir_http_reply_printf(exchange, "<p>Hello, %s</p>\n", weir_http_escape_html(exchange, name));
 *
 * Result:  as for weir_http_reply_append; -EINVAL for a NULL or invalid format.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API int weir_http_reply_printf(weir_task *exchange, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Escapes a text, up to its NUL, for HTML, between tags and in quoted values of attributes: & < > "
 * and '.  It is not enough inside of a script, of a style, or for an address.
 *
 * Owner:   the exchange, until it is freed.
 * Result:  the text, never NULL.  "" for NULL and for a task that is no exchange; "" also when out of
 *          memory, and then the reply becomes a 500.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API const char *weir_http_escape_html(weir_task *exchange, const char *text);

/* Escapes a text, up to its NUL, for a string of JSON, whose quotes are the caller's.  The string may
 * also stand in a script of a page of HTML.  Bytes that are no UTF-8 become U+FFFD.
 *
 * Owner:   the exchange, until it is freed.
 * Result:  as weir_http_escape_html.
 * Threads: inside callbacks of the exchange's series.
 * Source:  RFC 8259 section 7. */
WEIR_API const char *weir_http_escape_json(weir_task *exchange, const char *text);

/* Makes the reply: `status`, with a copy of `text` as the whole body.  It is text/plain unless a
 * Content-Type was set.
 *
 * Result:  as for weir_http_reply_status and weir_http_reply_append.  A NULL text is -EINVAL, as a
 *          wrong status is, and has the same effect.
 * Threads: inside callbacks of the exchange's series. */
WEIR_API int weir_http_reply_text(weir_task *exchange, int status, const char *text);

WEIR_END

#endif
