/* protocol/field/set_cookie.h: the value of a Set-Cookie field, as a client reads it.  Pure functions.
 *
 * Source: RFC 6265 section 5.2; from its successor (draft-ietf-httpbis-rfc6265bis) the limits and SameSite. */
#ifndef WEIR_PROTOCOL_SET_COOKIE_H
#define WEIR_PROTOCOL_SET_COOKIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/http_cookie.h>

#define WEIR__SET_COOKIE_MAX       4096                      /* bytes of name and value together */
#define WEIR__SET_COOKIE_ATTRIBUTE 1024                      /* bytes of an attribute's value; a longer one is ignored */
#define WEIR__SET_COOKIE_AGE       (INT64_C(400) * 24 * 3600) /* seconds that a cookie lives, at most */
#define WEIR__SET_COOKIE_SESSION   INT64_MAX                 /* it has no end of its own */

/* A part of the text, or "". */
struct weir__set_cookie_part {
        const char *text;
        size_t size;
};

struct weir__set_cookie {
        struct weir__set_cookie_part name, value;
        struct weir__set_cookie_part domain; /* without a dot at its beginning; empty: none was said */
        struct weir__set_cookie_part path;   /* begins with a slash, or is empty: none was said */
        int64_t expires;                     /* in Unix seconds, at most 400 days from now; WEIR__SET_COOKIE_SESSION */
        enum weir_http_same_site same_site;
        bool is_secure, is_http_only;
};

/* Reads a value.  `now` is in Unix seconds.  An attribute that is invalid is ignored; of several the last one counts.
 *
 * Result: 0; -EINVAL: no '=', no name, or a control character; -EMSGSIZE: name and value are too long. */
int weir__set_cookie_read(const char *text, size_t size, int64_t now, struct weir__set_cookie *ret_cookie);

/* The time that a cookie may live until: `expires`, or 400 days from now. */
int64_t weir__set_cookie_cap(int64_t expires, int64_t now);

/* Whether a name keeps the promise of its prefix.  `is_root` says that the path "/" was said. */
bool weir__set_cookie_keeps_prefix(const char *name, size_t size, bool is_secure, bool is_host_only, bool is_root);

#endif
