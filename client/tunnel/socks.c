/* client/tunnel/socks.c: SOCKS5.  The proxy resolves names.
 *
 *     METHODS --no user--> REPLY --> done
 *         \--> USER -------^
 *
 * Threads: the exchange's owner.
 * Source:  RFC 1928, RFC 1929. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/tunnel/exchange.h"

enum { METHODS, USER, REPLY };

#define SOCKS_VERSION   5
#define USER_VERSION    1
#define NO_USER         0
#define BY_USER         2
#define NONE_ACCEPTED   0xff
#define COMMAND_CONNECT 1
#define TYPE_V4         1
#define TYPE_NAME       3
#define TYPE_V6         4
#define REPLY_START     5 /* bytes, up to the first of the address */

static void
put(struct weir__proxy_exchange *exchange, const void *data, size_t size)
{
        memcpy(exchange->message + exchange->message_size, data, size);
        exchange->message_size += size;
}

static void
put_byte(struct weir__proxy_exchange *exchange, size_t byte)
{
        put(exchange, &(unsigned char){(unsigned char)byte}, 1);
}

static void
put_text(struct weir__proxy_exchange *exchange, const char *text)
{
        put_byte(exchange, strlen(text));
        put(exchange, text, strlen(text));
}

/* The next answer is that long, at first. */
static int
expect(struct weir__proxy_exchange *exchange, unsigned state, size_t size)
{
        exchange->state = (uint8_t)state;
        exchange->size = 0;
        exchange->room = size;
        return 0;
}

int
weir__socks_begin(struct weir__proxy_exchange *exchange)
{
        bool has_user = exchange->proxy->user;

        put_byte(exchange, SOCKS_VERSION);
        put_byte(exchange, has_user ? 2 : 1);
        put_byte(exchange, NO_USER);
        if (has_user)
                put_byte(exchange, BY_USER);
        return expect(exchange, METHODS, 2);
}

static int
ask_user(struct weir__proxy_exchange *exchange)
{
        put_byte(exchange, USER_VERSION);
        put_text(exchange, exchange->proxy->user);
        put_text(exchange, exchange->proxy->password);
        return expect(exchange, USER, 2);
}

/* The target is "host:port" or "[v6]:port". */
static int
ask_connect(struct weir__proxy_exchange *exchange)
{
        const char *target = exchange->target, *colon = strrchr(target, ':');
        bool is_bracketed = target[0] == '[';
        char host[256];
        unsigned char address[16];
        size_t size = colon ? (size_t)(colon - target) - (is_bracketed ? 2 : 0) : 0;
        int port = colon ? atoi(colon + 1) : 0;

        if (!size || size >= sizeof host)
                return weir__proxy_exchange_fail(exchange, -EMSGSIZE, "cannot be asked for %s: the name is too long", target);
        memcpy(host, target + is_bracketed, size);
        host[size] = '\0';
        put_byte(exchange, SOCKS_VERSION);
        put_byte(exchange, COMMAND_CONNECT);
        put_byte(exchange, 0);
        if (inet_pton(AF_INET, host, address) == 1) {
                put_byte(exchange, TYPE_V4);
                put(exchange, address, 4);
        } else if (inet_pton(AF_INET6, host, address) == 1) {
                put_byte(exchange, TYPE_V6);
                put(exchange, address, 16);
        } else {
                put_byte(exchange, TYPE_NAME);
                put_text(exchange, host);
        }
        put_byte(exchange, (size_t)port >> 8);
        put_byte(exchange, (size_t)port & 0xff);
        return expect(exchange, REPLY, REPLY_START);
}

/* -- answers -- */

static int
misread(struct weir__proxy_exchange *exchange)
{
        return weir__proxy_exchange_fail(exchange, -EBADMSG, "answered with what is not SOCKS5, when it was asked for %s",
                                         exchange->target);
}

static int
take_method(struct weir__proxy_exchange *exchange, const unsigned char *answer)
{
        if (answer[0] != SOCKS_VERSION)
                return misread(exchange);
        if (answer[1] == NONE_ACCEPTED)
                return weir__proxy_exchange_fail(exchange, -EACCES, "wants %s",
                                                 exchange->proxy->user ? "another proof than a user and a password"
                                                                       : "a user and a password");
        if (answer[1] == NO_USER)
                return ask_connect(exchange);
        return answer[1] == BY_USER && exchange->proxy->user ? ask_user(exchange) : misread(exchange);
}

static int
take_user(struct weir__proxy_exchange *exchange, const unsigned char *answer)
{
        if (answer[0] != USER_VERSION)
                return misread(exchange);
        if (answer[1])
                return weir__proxy_exchange_fail(exchange, -EACCES, "refused the user and the password");
        return ask_connect(exchange);
}

static int
refused(struct weir__proxy_exchange *exchange, unsigned reply)
{
        static const struct {
                int code;
                const char *words;
        } replies[] = {{-ECONNREFUSED, "it has failed"},
                       {-EACCES, "its rules forbid that"},
                       {-ENETUNREACH, "the network cannot be reached"},
                       {-EHOSTUNREACH, "the host cannot be reached"},
                       {-ECONNREFUSED, "the server has refused the connection"},
                       {-EHOSTUNREACH, "the way is too long"},
                       {-ECONNREFUSED, "it does not make connections"},
                       {-ECONNREFUSED, "it does not know that kind of address"}};
        size_t known = sizeof replies / sizeof *replies, at = reply - 1 < known ? reply - 1 : 0;

        return weir__proxy_exchange_fail(exchange, replies[at].code, "refused %s: %s (reply %u)", exchange->target,
                                         replies[at].words, reply);
}

/* The size of the whole reply; 0: it is none. */
static size_t
reply_size(const unsigned char *answer)
{
        switch (answer[3]) {
        case TYPE_V4: return 4 + 4 + 2;
        case TYPE_V6: return 4 + 16 + 2;
        case TYPE_NAME: return REPLY_START + (size_t)answer[4] + 2;
        default: return 0;
        }
}

static int
take_reply(struct weir__proxy_exchange *exchange, const unsigned char *answer)
{
        if (answer[0] != SOCKS_VERSION || answer[2] != 0)
                return misread(exchange);
        if (answer[1])
                return refused(exchange, answer[1]);
        if (!reply_size(answer))
                return misread(exchange);
        exchange->room = reply_size(answer);
        return exchange->size == exchange->room;
}

int
weir__socks_took(struct weir__proxy_exchange *exchange)
{
        const unsigned char *answer = (const unsigned char *)exchange->answer;

        if (exchange->size < exchange->room)
                return 0;
        switch (exchange->state) {
        case METHODS: return take_method(exchange, answer);
        case USER: return take_user(exchange, answer);
        default: return take_reply(exchange, answer);
        }
}
