/* client/tunnel/bypass.h: the hosts that are reached without a proxy. */
#ifndef WEIR_CLIENT_BYPASS_H
#define WEIR_CLIENT_BYPASS_H

#include <stdbool.h>
#include <stddef.h>

struct weir__bypass_entry;

/* All zero: no host. */
struct weir__bypass {
        bool has_all; /* "*" */
        size_t count;
        struct weir__bypass_entry *entries; /* malloc; or NULL */
};

/* Reads a list, whose parts commas or spaces separate: "example.com" and ".example.com" are that host and all below it;
 * "192.0.2.1", "::1", "10.0.0.0/8" and "fd00::/8" are addresses that stand as the host; "*" is every host.
 *
 * Result: 0; -EINVAL with the place, a byte, and what is expected, a constant; -ENOMEM.
 * Source: curl's NOPROXY. */
int weir__bypass_parse(struct weir__bypass *bypass, const char *text, size_t *at, const char **expected);
void weir__bypass_done(struct weir__bypass *bypass);

/* The host of a URL: in lower case, without brackets. */
bool weir__bypass_has(const struct weir__bypass *bypass, const char *host);

#endif
