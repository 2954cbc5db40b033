/* weir/url.h: URLs by RFC 3986: parsed, resolved, built and compared; percent-coding and forms.
 *
 *     struct weir_url_problem problem;
 *     weir_url *url = weir_url_parse("https://example.com/a?b=c", &problem);
 *
 *     if (!url)
 *             fprintf(stderr, "byte %zu: %s\n", problem.at, problem.text);
 *     weir_url *next = weir_url_resolve(url, "../other", &problem);
 *
 * A URL is valid, absolute and never changes.  The parser guesses nothing.  It refuses spaces, control
 * characters, bytes above 127, backslashes, and percent signs without two hexadecimal digits.
 * With the schemes http, https, ws and wss the host has to be a name of letters, digits, '-', '.' and
 * '_', an IPv4 address of four decimal numbers, or an IPv6 address without a zone.
 *
 * Threads: any, also several with one URL.  Nothing here blocks or starts the library. */
#ifndef WEIR_URL_H
#define WEIR_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <weir/export.h>

WEIR_BEGIN

/* A URL.  It always has a scheme: "../a" is a reference, which weir_url_resolve takes. */
typedef struct weir_url weir_url;

/* The most bytes of a URL. */
#define WEIR_URL_MAX 65535

/* What is wrong with a text. */
struct weir_url_problem {
        size_t at;        /* the byte, from 0 on.  If something is missing at the end, it is the length */
        const char *text; /* what is there, and what was expected; a constant, which shows nothing of the URL */
};

/* A name and its value in a query or a form. */
struct weir_form_pair {
        const char *name;  /* NULL behind the last pair */
        const char *value; /* NULL: the name stands alone, without '=' */
};

/* -- making URLs -- */

/* Reads a URL.  The scheme and the host become lower case; all else stays as it is.
 *
 * Owner:   the caller; weir_url_free.
 * Result:  NULL with errno EINVAL: an invalid text, or NULL; EMSGSIZE: more than WEIR_URL_MAX bytes; ENOMEM.
 *          *problem says why, unless `problem` is NULL; it is untouched on success.
 * Threads: any.
 * Source:  RFC 3986 section 3, RFC 9110 section 4.2. */
WEIR_API weir_url *weir_url_parse(const char *text, struct weir_url_problem *problem);

/* The same for `size` bytes.  A NUL among them is refused.
 *
 * Owner, Result: as for weir_url_parse.
 * Threads: any. */
WEIR_API weir_url *weir_url_parse_bytes(const char *text, size_t size, struct weir_url_problem *problem);

/* Makes the URL that a reference stands for on the page `base`, such as "../a", "?b", "//host/" or a
 * whole URL.  The base's fragment is dropped.  A segment ".." never leads above the first one.
 *
 * Owner:   as for weir_url_parse.
 * Result:  as for weir_url_parse; the problem's place is in the reference.  EMSGSIZE also
 *          for a result that would be too long; the place is WEIR_URL_MAX.  EINVAL also for a NULL base.
 * Threads: any.
 * Source:  RFC 3986 section 5.2, for a strict parser: "http:a" is refused, and not taken for "a". */
WEIR_API weir_url *weir_url_resolve(const weir_url *base, const char *reference, struct weir_url_problem *problem);

/* Makes the URL "scheme://host:port/".  An IPv6 address may stand without its brackets.
 *
 * Owner:   as for weir_url_parse.
 * Result:  as for weir_url_parse; the problem's place is in the scheme or the host, which its text names.
 *          EINVAL also for a port outside of 0 to 65535.
 * Units:   a port of 0 is not written, so it is the scheme's own.
 * Threads: any. */
WEIR_API weir_url *weir_url_new(const char *scheme, const char *host, int port, struct weir_url_problem *problem);

/* Makes a URL from `base` with more segments in its path and more pairs in its query, all of them encoded
 * here: no byte of a segment ends it, or begins a query.  The base's fragment is dropped.
 *
 *     const char *segments[] = {"users", "a/b", NULL};
 *     struct weir_form_pair pairs[] = {{"q", "1 + 1"}, {NULL, NULL}};
 *
 *     weir_url_extend(base, segments, pairs, &problem);      https://host/v1/users/a%2Fb?q=1+%2B+1
 *
 * A last segment of "" gives a path that ends with a slash.
 *
 * Owner:   as for weir_url_parse.  Segments, with NULL behind the last one, and pairs are read, and may
 *          be NULL for none.
 * Result:  as for weir_url_parse; the problem's place is the number of a segment.  EINVAL also for a
 *          segment "." or "..", which no encoding can hide, and for a NULL base.
 * Threads: any. */
WEIR_API weir_url *weir_url_extend(const weir_url *base, const char *const *segments, const struct weir_form_pair *pairs,
                                   struct weir_url_problem *problem);

/* Frees a URL and all texts that are borrowed from it.  Accepts NULL. */
WEIR_API void weir_url_free(weir_url *url);

/* -- as a whole -- */

/* The URL as one text, with all that it has, passwords too.
 *
 * Owner:   borrowed until weir_url_free, as all texts of a URL.
 * Result:  NULL for NULL, as all functions for the text of a URL.
 * Threads: any. */
WEIR_API const char *weir_url_text(const weir_url *url);

/* The text for messages and logs: without the userinfo. */
WEIR_API const char *weir_url_redacted(const weir_url *url);

/* The text in normal form.  URLs with one normal form mean the same.  Escapes of letters, digits, '-',
 * '.', '_' and '~' are decoded, other escapes are upper case.  Segments "." and ".." are resolved.  A
 * port that is empty or the scheme's own is left out.  An IPv6 address has its shortest form.  An empty
 * path is "/" for http, https, ws and wss.
 *
 * Source:  RFC 3986 sections 6.2.2 and 6.2.3, RFC 5952. */
WEIR_API const char *weir_url_normal(const weir_url *url);

/* Whether two URLs have the same normal form, userinfo and fragment included.  A NULL URL equals none. */
WEIR_API bool weir_url_equal(const weir_url *one, const weir_url *other);

/* -- the parts, as they stand in the text -- */

/* The scheme in lower case, such as "https".  Never NULL, but for a NULL URL. */
WEIR_API const char *weir_url_scheme(const weir_url *url);

/* The part before '@', still encoded: a name, often with ':' and a password.  NULL when there is none. */
WEIR_API const char *weir_url_userinfo(const weir_url *url);

/* The host in lower case; an IPv6 address without its brackets.  NULL when there is none, as in
 * "mailto:a@b"; "" in "file:///a". */
WEIR_API const char *weir_url_host(const weir_url *url);

/* The port: that of the URL, or the scheme's own: 80 for http and ws, 443 for https and wss.
 *
 * Result:  0 to 65535; -1 when there is none. */
WEIR_API int weir_url_port(const weir_url *url);

/* The path, still encoded.  "" when there is none. */
WEIR_API const char *weir_url_path(const weir_url *url);

/* What follows '?', up to a '#', still encoded: weir_form_parse has its pairs.  NULL when there is no
 * '?'. */
WEIR_API const char *weir_url_query(const weir_url *url);

/* What follows '#', still encoded.  NULL when there is no '#'. */
WEIR_API const char *weir_url_fragment(const weir_url *url);

/* -- for requests -- */

/* Path and query as they stand in the first line of a request: "/a?b=c", "/" for an empty path.  NULL for
 * a URL without a host.
 *
 * Source:  RFC 9112 section 3.2.1. */
WEIR_API const char *weir_url_target(const weir_url *url);

/* The value of the field Host: the host, in brackets if it is an IPv6 address, and the port, unless it is
 * the scheme's own.  NULL for a URL without a host.
 *
 * Source:  RFC 9110 section 7.2. */
WEIR_API const char *weir_url_host_field(const weir_url *url);

/* Host and port for weir_connect_new, such as "example.com:443" or "[::1]:80".  NULL when there is no host
 * or no port. */
WEIR_API const char *weir_url_address(const weir_url *url);

/* -- percent-coding -- */

/* Encodes all bytes but letters, digits, '-', '.', '_' and '~', so that the result may stand in every part
 * of a URL.
 *
 * Owner:   the caller; free.
 * Result:  NULL with errno ENOMEM.
 * Threads: any.
 * Source:  RFC 3986 section 2. */
WEIR_API char *weir_percent_encode(const void *data, size_t size);

/* The same into a buffer of `room` bytes.  Bytes that do not fit are left out, and no escape is cut.  A NUL
 * follows if there is any room.
 *
 * Result:  the length of the whole, without the NUL: less than `room` when all has fitted.
 * Threads: any. */
WEIR_API size_t weir_percent_encode_to(char *buffer, size_t room, const void *data, size_t size);

/* Decodes escapes.  '+' stays as it is: it is a space only in forms.  The result may have any bytes, so it
 * has a size, and a NUL behind it that is not counted.
 *
 * Owner:   the caller; free.
 * Result:  NULL with errno EINVAL: a percent sign without two hexadecimal digits, or a decoded NUL if
 *          ret_size is NULL, because the text would end there; ENOMEM.  *ret_size is untouched then.
 * Threads: any. */
WEIR_API char *weir_percent_decode(const char *text, size_t size, size_t *ret_size);

/* The same into a buffer of `room` bytes, which may be that of the text.  Bytes that do not fit are left
 * out, and a NUL follows if there is any room.
 *
 * Result:  the length of the whole, without the NUL; -EINVAL for a percent sign without two hexadecimal
 *          digits, and the buffer is untouched.
 * Threads: any. */
WEIR_API ssize_t weir_percent_decode_to(char *buffer, size_t room, const char *text, size_t size);

/* -- forms, also in queries -- */

/* The pairs of a query or a form. */
typedef struct weir_form weir_form;

/* Writes pairs as application/x-www-form-urlencoded.
 *
 * Owner:   the caller; free.  The pairs, with a NULL name behind the last one, are read.
 * Result:  NULL with errno ENOMEM.
 * Threads: any.
 * Source:  WHATWG URL standard, section 5.2, which has no NULL values. */
WEIR_API char *weir_form_encode(const struct weir_form_pair *pairs);

/* Reads at most `max` pairs, as weir_http_form_at does: every text is valid, and a pair with a NUL in it
 * is left out.
 *
 * Owner:   the caller; weir_form_free.
 * Result:  NULL with errno ENOMEM.
 * Threads: any.
 * Source:  WHATWG URL standard, section 5.1. */
WEIR_API weir_form *weir_form_parse(const char *text, size_t size, size_t max);

/* The value of the first pair of that name, "" if it has no '='.
 *
 * Owner:   borrowed until weir_form_free.
 * Result:  NULL when there is none, and for a NULL form or name. */
WEIR_API const char *weir_form_value(const weir_form *form, const char *name);

/* The pair at `index`, from 0 on.  The outputs may be NULL.
 *
 * Owner:   borrowed until weir_form_free.
 * Result:  0; or an error, and the outputs are untouched: -ENOENT past the last pair and for a NULL form;
 *          -E2BIG past the last one that was read, if there were more than `max`. */
WEIR_API int weir_form_at(const weir_form *form, size_t index, const char **ret_name, const char **ret_value);

/* Frees the pairs.  Accepts NULL. */
WEIR_API void weir_form_free(weir_form *form);

WEIR_END

#endif
