/* client/cookies/jar.h: a jar of cookies, as the client uses it. */
#ifndef WEIR_CLIENT_JAR_H
#define WEIR_CLIENT_JAR_H

#include "client/cookies/store.h"
#include "kernel/base/lock.h"

struct weir_cookie_jar {
        _Atomic size_t refs;
        struct weir__lock lock; /* of rank LEAF, for the store */
        struct weir__cookie_store store;
};

/* Adds a cookie that no server has sent just now.  Takes over the reference. */
void weir__cookie_jar_add(weir_cookie_jar *jar, struct weir__cookie *cookie, int64_t now);

/* All cookies that have not expired, and a NULL behind them.
 *
 * Owner:  the caller: weir__cookie_jar_release.
 * Result: NULL when out of memory. */
struct weir__cookie **weir__cookie_jar_all(weir_cookie_jar *jar, size_t *ret_count);
void weir__cookie_jar_release(struct weir__cookie **all);

/* The wall clock, in seconds. */
int64_t weir__cookie_jar_now(void);

#endif
