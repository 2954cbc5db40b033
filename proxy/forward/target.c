/* proxy/forward/target.c: the URL that a request goes to: that of the backend, and behind it the target as it came.
 *
 * Threads: any. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/forward/outgoing.h"

/* Where the path of the URL begins, or its end.  NULL: it has no host, or a query or fragment. */
static const char *
path_of(const char *url)
{
        const char *scheme_end = url ? strstr(url, "://") : NULL;

        if (!scheme_end || strcspn(url, "?#") < strlen(url))
                return NULL;
        const char *host = scheme_end + 3;
        return *host && *host != '/' ? host + strcspn(host, "/") : NULL;
}

/* The path of a target.  In the absolute form it begins behind the host; "*" has no path. */
static const char *
skip_authority(const char *target)
{
        const char *scheme_end = target[0] == '/' ? NULL : strstr(target, "://");

        if (scheme_end)
                return scheme_end + 3 + strcspn(scheme_end + 3, "/?");
        return strcmp(target, "*") == 0 ? "" : target;
}

/* `path` is decoded: so "%2e%2e" and "%2f" are looked through, too. */
static bool
leads_out(const char *path)
{
        for (const char *at = path; (at = strstr(at, "..")); at += 2)
                if ((at == path || at[-1] == '/' || at[-1] == '\\') && (!at[2] || at[2] == '/' || at[2] == '\\' || at[2] == ';'))
                        return true;
        return false;
}

static bool
is_hex(char c)
{
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* A server takes these from its clients, and a URL must not have them.  Source: RFC 3986 section 2. */
static bool
must_be_escaped(const char *at)
{
        unsigned char c = (unsigned char)*at;

        return c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}[]#", c) || (c == '%' && !(is_hex(at[1]) && is_hex(at[2])));
}

static char *
put_escaped(char *out, const char *target)
{
        static const char digits[] = "0123456789ABCDEF";

        for (; *target; target++) {
                unsigned char c = (unsigned char)*target;

                if (!must_be_escaped(target)) {
                        *out++ = *target;
                        continue;
                }
                *out++ = '%';
                *out++ = digits[c >> 4];
                *out++ = digits[c & 15];
        }
        *out = '\0';
        return out;
}

char *
weir__target_url(const weir_task *exchange, const char *base, int *failed)
{
        const char *base_path = path_of(base), *target = skip_authority(weir_http_target(exchange));

        *failed = -EINVAL;
        if (!base_path)
                return NULL;
        size_t kept = strlen(base);
        if (kept > (size_t)(base_path - base) && base[kept - 1] == '/')
                kept--; /* the target brings its own */
        *failed = -EACCES;
        if (base[kept ? kept - 1 : 0] && kept > (size_t)(base_path - base) && leads_out(weir_http_path(exchange)))
                return NULL;
        char *url = malloc(kept + 3 * strlen(target) + 2);
        *failed = -ENOMEM;
        if (!url)
                return NULL;
        memcpy(url, base, kept);
        char *out = url + kept;
        if (target[0] != '/')
                *out++ = '/';
        put_escaped(out, target);
        *failed = 0;
        return url;
}
