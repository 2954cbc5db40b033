/* weir/http_cookie.h: a cookie that a reply sets. */
#ifndef WEIR_HTTP_COOKIE_H
#define WEIR_HTTP_COOKIE_H

#include <weir/time.h>

WEIR_BEGIN

/* Whether the cookie comes with requests that another site causes. */
enum weir_http_same_site {
        WEIR_HTTP_SAME_SITE_LAX = 0,    /* only if a link is followed */
        WEIR_HTTP_SAME_SITE_STRICT = 1, /* never */
        WEIR_HTTP_SAME_SITE_NONE = 2,   /* always; only with `secure` */
        WEIR_HTTP_SAME_SITE_UNSAID = 3, /* the attribute is not sent; the browser decides */
};

/* A cookie.  Start from WEIR_HTTP_COOKIE_DEFAULT, and set at least the name.
 *
 * Source:  RFC 6265 section 4.1. */
struct weir_http_cookie {
        size_t size;          /* of this struct; set by WEIR_HTTP_COOKIE_DEFAULT */
        const char *name;     /* A token.  Browsers and this library hold a name, in any case, to its prefix:
                                 "__Secure-...": `secure`; "__Host-...": `secure`, no domain, and the path "/" */
        const char *value;    /* visible ASCII except '"', ',', ';' and '\'; encode other bytes.  NULL: empty */
        const char *path;     /* begins with a slash; visible ASCII except ';'.  NULL: "/"; "": not sent, and the browser takes
                                 the directory of the request */
        const char *domain;   /* the cookie comes to this domain and all domains below it; NULL or "": to this host only */
        weir_nsec max_age;    /* rounded up to seconds; 0: until the browser ends; negative: deletes the cookie of this name,
                                 path and domain.  Browsers forget every cookie after 400 days */
        enum weir_http_same_site same_site; /* default: WEIR_HTTP_SAME_SITE_LAX */
        int secure;           /* not 0: over HTTPS only */
        int http_only;        /* not 0: hidden from scripts */
        int reserved;         /* 0 */
};

/* The initial value of a struct weir_http_cookie: its size, and the default of all else. */
#ifdef __cplusplus
#define WEIR_HTTP_COOKIE_DEFAULT {sizeof(struct weir_http_cookie), 0, 0, 0, 0, 0, WEIR_HTTP_SAME_SITE_LAX, 0, 0, 0}
#else
#define WEIR_HTTP_COOKIE_DEFAULT {.size = sizeof(struct weir_http_cookie)}
#endif

WEIR_END

#endif
