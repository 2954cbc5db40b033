/* client/cookies/match.c: to which hosts and paths a cookie goes.
 *
 * Threads: any; pure functions.  No locks. */
#include "client/cookies/match.h"

#include <string.h>

#include "protocol/text/bytes.h"

/* An IPv6 address has a colon.  A name whose last label is a number is an IPv4 address, or would be taken for one. */
static bool
is_address(const char *host, size_t size)
{
        const char *dot = memrchr(host, '.', size), *last = dot ? dot + 1 : host;
        size_t last_size = size - (size_t)(last - host);

        return memchr(host, ':', size) || (last_size > 0 && weir__bytes_span(last, last_size, WEIR__BYTE_DIGIT) == last_size);
}

bool
weir__match_domain(const char *host, size_t host_size, const char *domain, size_t domain_size)
{
        size_t above = host_size - domain_size;

        if (domain_size == 0 || domain_size > host_size || memcmp(host + above, domain, domain_size) != 0)
                return false;
        return above == 0 || (host[above - 1] == '.' && !is_address(host, host_size));
}

bool
weir__match_path(const char *path, size_t path_size, const char *cookie_path, size_t cookie_size)
{
        if (cookie_size == 0 || cookie_size > path_size || memcmp(path, cookie_path, cookie_size) != 0)
                return false;
        return path_size == cookie_size || cookie_path[cookie_size - 1] == '/' || path[cookie_size] == '/';
}

size_t
weir__match_default_path(const char *path, size_t path_size)
{
        const char *slash = path_size > 0 && *path == '/' ? memrchr(path, '/', path_size) : NULL;

        return slash ? (size_t)(slash - path) : 0;
}

const char *
weir__match_base(const char *host, size_t host_size)
{
        const char *last = memrchr(host, '.', host_size);
        const char *before = last ? memrchr(host, '.', (size_t)(last - host)) : NULL;

        return before && !is_address(host, host_size) ? before + 1 : host;
}
