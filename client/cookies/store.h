/* client/cookies/store.h: the cookies of a jar: found by host and path, bounded.
 *
 * A pure data structure: all calls are made under its owner's lock, and none allocates or frees.  What a call takes out is put on
 * a list, and freed when the lock is not held. */
#ifndef WEIR_CLIENT_STORE_H
#define WEIR_CLIENT_STORE_H

#include "client/cookies/cookie.h"

#define WEIR__COOKIES_MAX        3000
#define WEIR__COOKIES_OF_DOMAIN  50
#define WEIR__COOKIES_OF_REQUEST 150
#define WEIR__COOKIE_BUCKETS     256

/* All zero is an empty one. */
struct weir__cookie_store {
        struct weir__list buckets[WEIR__COOKIE_BUCKETS];
        struct weir__list in_use; /* the one that was not used for longest comes first */
        size_t count;
        uint64_t made, used;
        int64_t first_end; /* no cookie expires before; 0: nothing is known */
};

/* Where a request goes. */
struct weir__cookie_origin {
        const char *host; /* lower case */
        const char *path; /* "" or with a slash; not terminated */
        size_t host_size, path_size;
        bool is_secure;
};

/* Adds a cookie, or takes that of its name out if it has expired.  `is_secure` says whether it came over TLS or from a file.  The
 * store takes over the reference, unless the result is false.
 *
 * Result: false: it would hide one that is secure, and did not come so. */
bool weir__cookie_store_add(struct weir__cookie_store *store, struct weir__cookie *cookie, bool is_secure, int64_t now,
                            struct weir__list *dropped);

/* Finds the first cookies for a request, in the order in which they are sent.
 *
 * Owner:  the caller has a reference to each.
 * Result: how many. */
size_t weir__cookie_store_find(struct weir__cookie_store *store, const struct weir__cookie_origin *origin, int64_t now,
                               struct weir__cookie *found[WEIR__COOKIES_OF_REQUEST], struct weir__list *dropped);

/* All that have not expired, at most `room`, in the order of their last use.
 *
 * Owner, Result: as for weir__cookie_store_find. */
size_t weir__cookie_store_all(struct weir__cookie_store *store, int64_t now, struct weir__cookie **all, size_t room);

void weir__cookie_store_clear(struct weir__cookie_store *store, struct weir__list *dropped);

#endif
