/* protocol/field/cookie.h: cookies, as they come and as they are set.  No I/O.
 *
 * Source: RFC 6265. */
#ifndef WEIR_PROTOCOL_COOKIE_H
#define WEIR_PROTOCOL_COOKIE_H

#include <weir/http_cookie.h>

#include "protocol/text/pairs.h"
#include "protocol/message/request.h"

#define WEIR__COOKIE_MAX      4096 /* name and value together */
#define WEIR__COOKIE_PATH_MAX 1024
#define WEIR__COOKIE_ROOM     (WEIR__COOKIE_MAX + WEIR__COOKIE_PATH_MAX + 512) /* and a domain, and all the rest */

/* Reads at most `max` cookies of all Cookie fields.
 *
 * Owner:  the caller; free.
 * Result: 0; -ENOMEM.  Parts that are no cookies are left out and do not count. */
int weir__cookies_parse(const struct weir__request *request, size_t max, struct weir__pairs **ret_pairs);

/* Writes the value of a Set-Cookie field, NUL-terminated.
 *
 * Result: 0; -EINVAL or -E2BIG as weir_http_reply_cookie, and nothing of use is written. */
int weir__cookie_write(const struct weir_http_cookie *cookie, char out[WEIR__COOKIE_ROOM]);

#endif
