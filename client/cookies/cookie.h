/* client/cookies/cookie.h: a cookie in a jar, which several may read at once. */
#ifndef WEIR_CLIENT_COOKIE_H
#define WEIR_CLIENT_COOKIE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/cookie_jar.h>

#include "kernel/base/list.h"
#include "protocol/field/set_cookie.h"

struct weir__cookie {
        _Atomic size_t refs;

        /* Owner of the store only. */
        struct weir__link in_bucket, in_use; /* in_use: also for those that were taken out, until they are freed */
        uint64_t used;                       /* a number that grows with each use */

        /* Constant once it is in a store. */
        uint64_t made; /* a number that grows with each cookie; one that replaces another keeps it */
        int64_t expires;
        const char *domain, *path, *name, *value;
        size_t domain_size, path_size, name_size, value_size;
        enum weir_http_same_site same_site;
        bool is_host_only, is_secure, is_http_only;
        char memory[];
};

/* What a cookie is made of. */
struct weir__cookie_parts {
        struct weir__set_cookie_part domain, path, name, value;
        int64_t expires;
        enum weir_http_same_site same_site;
        bool is_host_only, is_secure, is_http_only;
};

/* Owner:  the caller has a reference.
 * Result: NULL when out of memory.  The domain is lower case then. */
struct weir__cookie *weir__cookie_new(const struct weir__cookie_parts *parts);

static inline struct weir__cookie *
weir__cookie_ref(struct weir__cookie *cookie)
{
        atomic_fetch_add_explicit(&cookie->refs, 1, memory_order_relaxed);
        return cookie;
}

void weir__cookie_unref(struct weir__cookie *cookie);

/* Drops the references of a list that is linked by in_use. */
void weir__cookie_unref_all(struct weir__list *cookies);

#endif
