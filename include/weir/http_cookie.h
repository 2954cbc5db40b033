/* weir/http_cookie.h: a cookie that a reply sets. */
#ifndef WEIR_HTTP_COOKIE_H
#define WEIR_HTTP_COOKIE_H

#include <weir/time.h>

WEIR_BEGIN

/* With which requests that another site causes the cookie comes along. */
enum weir_http_same_site {
        WEIR_HTTP_SAME_SITE_LAX = 0,    /* following a link */
        WEIR_HTTP_SAME_SITE_STRICT = 1, /* none */
        WEIR_HTTP_SAME_SITE_NONE = 2,   /* all; only with `secure` */
        WEIR_HTTP_SAME_SITE_UNSAID = 3, /* left to the browser */
};

/* Start from WEIR_HTTP_COOKIE_DEFAULT, and set at least the name.  Source: RFC 6265 section 4.1. */
struct weir_http_cookie {
        size_t size;          /* of this struct: set by WEIR_HTTP_COOKIE_DEFAULT */
        const char *name;     /* a token.  Browsers hold a cookie to what its name promises, and so it is here, in any case:
                                 "__Secure-...": `secure`; "__Host-...": `secure`, no domain, and "/" as its path */
        const char *value;    /* visible ASCII but '"', ',', ';' and '\': encode what is more; NULL: empty */
        const char *path;     /* begins with a slash; visible ASCII but ';'; NULL: "/"; "": unsaid, the request's directory */
        const char *domain;   /* comes along to this domain and all below it; NULL or "": to this very host alone */
        weir_nsec max_age;    /* rounded up to seconds; 0: until the browser ends; negative: deletes the cookie of this name,
                                 path and domain.  Browsers forget every cookie after 400 days */
        enum weir_http_same_site same_site; /* default: WEIR_HTTP_SAME_SITE_LAX */
        int secure;           /* not 0: over HTTPS only */
        int http_only;        /* not 0: kept from scripts */
        int reserved;         /* 0 */
};

#ifdef __cplusplus
#define WEIR_HTTP_COOKIE_DEFAULT {sizeof(struct weir_http_cookie), 0, 0, 0, 0, 0, WEIR_HTTP_SAME_SITE_LAX, 0, 0, 0}
#else
#define WEIR_HTTP_COOKIE_DEFAULT {.size = sizeof(struct weir_http_cookie)}
#endif

WEIR_END

#endif
