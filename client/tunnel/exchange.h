/* client/tunnel/exchange.h: what is said to a proxy before the bytes for the server: CONNECT of HTTP, or SOCKS5.
 *
 *     begin --> `message` goes out --> bytes come in --took--> another message, or done, or a failure
 *
 * No I/O. */
#ifndef WEIR_CLIENT_EXCHANGE_H
#define WEIR_CLIENT_EXCHANGE_H

#include "client/tunnel/proxy.h"
#include "protocol/message/gate.h"

#define WEIR__EXCHANGE_MESSAGE 2048 /* bytes; no message is longer */
#define WEIR__EXCHANGE_ANSWER  ((size_t)16 * 1024)
#define WEIR__EXCHANGE_PROBLEM 512

struct weir__proxy_exchange {
        const struct weir__proxy *proxy;
        const char *target; /* "host:port" */

        char message[WEIR__EXCHANGE_MESSAGE]; /* that is to go out */
        size_t message_size;                  /* 0: none is */

        char *answer; /* malloc: what has come */
        size_t size;
        size_t room; /* so many bytes may be in it: no more may be read */

        uint8_t state;    /* socks.c's */
        size_t forgotten; /* bytes of interim responses */
        struct weir__gate gate;

        char problem[WEIR__EXCHANGE_PROBLEM]; /* what has failed, in words */
};

/* All zero before; the texts must stay.  Result: 0; -ENOMEM; -EMSGSIZE: the target is too long. */
int weir__proxy_exchange_begin(struct weir__proxy_exchange *exchange, const struct weir__proxy *proxy, const char *target);
void weir__proxy_exchange_done(struct weir__proxy_exchange *exchange);

/* So many bytes were read to `answer`, behind those that were there.
 * Result: 1: the way is free; 0: it goes on, with another message perhaps; or a negative errno. */
int weir__proxy_exchange_took(struct weir__proxy_exchange *exchange, size_t count);

/* Says what has failed in `problem`, behind the name of the proxy.  problem.c.  Result: `failed`. */
int weir__proxy_exchange_fail(struct weir__proxy_exchange *exchange, int failed, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* -- connect.c and socks.c, for exchange.c -- */

int weir__connect_exchange_begin(struct weir__proxy_exchange *exchange);
int weir__connect_exchange_took(struct weir__proxy_exchange *exchange);
int weir__socks_begin(struct weir__proxy_exchange *exchange);
int weir__socks_took(struct weir__proxy_exchange *exchange);

#endif
