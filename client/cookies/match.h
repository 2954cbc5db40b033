/* client/cookies/match.h: to which hosts and paths a cookie goes.  Pure functions.
 *
 * Source: RFC 6265 sections 5.1.3 and 5.1.4. */
#ifndef WEIR_CLIENT_MATCH_H
#define WEIR_CLIENT_MATCH_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a host is that domain, or a name below it.  An address has no names below it.  Both are in lower case. */
bool weir__match_domain(const char *host, size_t host_size, const char *domain, size_t domain_size);

/* Whether a path is that of the cookie, or below it. */
bool weir__match_path(const char *path, size_t path_size, const char *cookie_path, size_t cookie_size);

/* The size of the directory of a path, which is the beginning of it; 0 for "/". */
size_t weir__match_default_path(const char *path, size_t path_size);

/* The last two labels of a host, which all hosts to which its cookies may go have, too. */
const char *weir__match_base(const char *host, size_t host_size);

#endif
