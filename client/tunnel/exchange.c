/* client/tunnel/exchange.c: what is said to a proxy, of either kind.
 *
 * Threads: the exchange's owner. */
#include "client/tunnel/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TARGET_MAX 300 /* bytes: a host of 255, brackets and a port */

int
weir__proxy_exchange_begin(struct weir__proxy_exchange *exchange, const struct weir__proxy *proxy, const char *target)
{
        if (strlen(target) > TARGET_MAX)
                return -EMSGSIZE;
        exchange->proxy = proxy;
        exchange->target = target;
        exchange->answer = malloc(WEIR__EXCHANGE_ANSWER);
        if (!exchange->answer)
                return -ENOMEM;
        return proxy->kind == WEIR__PROXY_HTTP ? weir__connect_exchange_begin(exchange) : weir__socks_begin(exchange);
}

/* They have had the user's password. */
void
weir__proxy_exchange_done(struct weir__proxy_exchange *exchange)
{
        explicit_bzero(exchange->message, sizeof exchange->message);
        free(exchange->answer);
        exchange->answer = NULL;
}

int
weir__proxy_exchange_took(struct weir__proxy_exchange *exchange, size_t count)
{
        exchange->size += count;
        return exchange->proxy->kind == WEIR__PROXY_HTTP ? weir__connect_exchange_took(exchange) : weir__socks_took(exchange);
}
