/* protocol/route/routes.h: the pattern, of many, that a path matches.  No I/O; the caller is not known.
 *
 * weir/http_router.h defines patterns, and which of several wins.  No thread may match while a route is added; any number of
 * threads may match afterwards. */
#ifndef WEIR_PROTOCOL_ROUTES_H
#define WEIR_PROTOCOL_ROUTES_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/text/pairs.h"

/* The most methods that all patterns together may name: a mask has a bit for each. */
#define WEIR__ROUTE_METHODS 64

struct weir__routes;

struct weir__route_found {
        size_t number;                   /* the one that the pattern was added with */
        struct weir__pairs *parameters;  /* percent-decoded; NULL when it has none */
        uint64_t allowed;                /* of a path that is known with other methods: those, for weir__routes_allow */
};

struct weir__routes *weir__routes_new(void); /* NULL when out of memory */
void weir__routes_free(struct weir__routes *routes); /* accepts NULL */

/* Adds a pattern.
 *
 * Result: 0; -EINVAL, -EEXIST, -ENOMEM.  After a failure each path matches as before. */
int weir__routes_add(struct weir__routes *routes, const char *methods, const char *text, size_t number);

/* Finds the pattern that matches a path.  weir__target_read has accepted the path, which is not decoded.
 *
 * Owner:  the caller, of found->parameters: free.  Their names are in the memory of the routes.
 * Result: 0, number and parameters; -ENOENT for an unknown path; -EOPNOTSUPP and `allowed` for a known one with another method;
 *         -ENOMEM.  All other fields are undefined. */
int weir__routes_match(const struct weir__routes *routes, const char *method, const char *path, size_t size,
                       struct weir__route_found *found);

/* The value of an Allow field: those of the methods that a pattern names, HEAD where GET is one of them, and OPTIONS.
 *
 * Owner:  the caller: free.
 * Result: NULL when out of memory. */
char *weir__routes_allow(const struct weir__routes *routes, uint64_t methods);

#endif
