/* client/tunnel/proxies.h: the proxies of a client, and which of them a request takes. */
#ifndef WEIR_CLIENT_PROXIES_H
#define WEIR_CLIENT_PROXIES_H

#include "client/tunnel/bypass.h"
#include "client/tunnel/proxy.h"

/* All zero: none. */
struct weir__client_proxies {
        struct weir__proxy *plain, *secure, *all; /* for http, for https, and for both where the former is NULL */
        struct weir__bypass bypass;
};

/* Reads the texts of the configuration, which may be NULL, and those of the environment if it is asked for.  What stands in the
 * configuration goes before.
 *
 * Result: 0; -EINVAL, which the log explains with the name of the call; -ENOMEM. */
int weir__client_proxies_set(struct weir__client_proxies *proxies, const char *proxy, const char *no_proxy,
                             bool from_environment, const char *call);
void weir__client_proxies_done(struct weir__client_proxies *proxies);

/* Whether there is any. */
static inline bool
weir__client_proxies_are(const struct weir__client_proxies *proxies)
{
        return proxies->plain || proxies->secure || proxies->all;
}

/* The proxy for that host of https, or of http; NULL: none. */
const struct weir__proxy *weir__client_proxies_for(const struct weir__client_proxies *proxies, bool is_secure, const char *host);

#endif
