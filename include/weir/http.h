/* weir/http.h: an exchange, one request and its reply, as the server's handler sees it.
 *
 * Where an exchange is asked for, a task of another kind gives NULL or -EDOM.  What the request is made of is borrowed from the
 * exchange and valid as long as it is: until its series ended.  Every callback of that series may use the exchange. */
#ifndef WEIR_HTTP_H
#define WEIR_HTTP_H

#include <weir/task.h>

WEIR_BEGIN

/* The method, such as "GET". */
WEIR_API const char *weir_http_method(const weir_task *exchange);

/* The request target as it came, such as "/a%20b?c=d". */
WEIR_API const char *weir_http_target(const weir_task *exchange);

/* The path in it: percent-decoded, without the query; "*" for `OPTIONS *`.  Dots are not resolved.  Source: RFC 3986 section
 * 2.1. */
WEIR_API const char *weir_http_path(const weir_task *exchange);

/* The query in it, without the question mark and not decoded; NULL when there is none.  Source: RFC 3986 section 3.4. */
WEIR_API const char *weir_http_query(const weir_task *exchange);

/* The host that the request is for: of an absolute target, else of the Host field; "" when an HTTP/1.0 request names none.
 * Source: RFC 9112 section 3.2.2. */
WEIR_API const char *weir_http_host(const weir_task *exchange);

/* The value of the first field of that name, in any case; NULL when absent. */
WEIR_API const char *weir_http_request_header(const weir_task *exchange, const char *name);

/* The field at `index`, counted from 0 in the order of arrival.
 *
 * Result:  0; -ENOENT past the last; -EDOM.  The outputs are untouched on failure, and may be NULL. */
WEIR_API int weir_http_request_field(const weir_task *exchange, size_t index, const char **name, const char **value);

/* The body, NUL-terminated behind its last byte; never NULL for an exchange, and `*size` (if not NULL) is 0 without a body. */
WEIR_API const void *weir_http_request_body(const weir_task *exchange, size_t *size);

/* Whether the request came over TLS: 1 or 0; -EDOM. */
WEIR_API int weir_http_is_secure(const weir_task *exchange);

/* Whom the client's certificate was given to, as RFC 2253 writes it, such as "CN=alice,O=Example"; NULL when it has shown none.
 * One that is shown was checked (client_ca_file). */
WEIR_API const char *weir_http_client_certificate(const weir_task *exchange);

/* Sets the status of the reply; 200 unless set.
 *
 * Result:  0; -EINVAL outside 200 to 599; -EALREADY when the reply has begun (weir/http_body.h): so for all of these; -EDOM.
 * Threads: this and all that build the reply: inside callbacks of the exchange's series. */
WEIR_API int weir_http_reply_status(weir_task *exchange, int status);

/* Adds a field to the reply; set_header first removes those of that name.  Content-Length, Transfer-Encoding, Connection and Date
 * are the server's.
 *
 * Result:  0; -EINVAL for a name that is no token, for CR, LF, NUL or another control byte in the value, and for the server's
 *          own; -ENOMEM (the reply becomes a 500); -EDOM.
 * Source:  RFC 9110 sections 5.1 and 5.5. */
WEIR_API int weir_http_reply_header(weir_task *exchange, const char *name, const char *value);
WEIR_API int weir_http_reply_set_header(weir_task *exchange, const char *name, const char *value);

/* Appends a copy of `data` to the body of the reply.
 *
 * Result:  0; -EINVAL for NULL with a size; -EALREADY also when it is a file (weir/http_file.h); -ENOMEM (the reply becomes a 500);
 *          -EDOM. */
WEIR_API int weir_http_reply_append(weir_task *exchange, const void *data, size_t size);

/* Makes the reply `status` with a copy of `text` as its whole body, as text/plain unless a Content-Type was set.
 *
 * Result:  as weir_http_reply_status and weir_http_reply_append; -EINVAL for a NULL text. */
WEIR_API int weir_http_reply_text(weir_task *exchange, int status, const char *text);

WEIR_END

#endif
