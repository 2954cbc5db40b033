/* client/tunnel/connect.c: CONNECT, which asks a proxy of HTTP for a tunnel.
 *
 * Threads: the exchange's owner.
 * Source:  RFC 9110 section 9.3.6. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/tunnel/exchange.h"
#include "kernel/memory/memory.h"
#include "protocol/message/received.h"

#define LINE_MAX_SIZE     ((size_t)8 * 1024) /* bytes of the status line */
#define ANSWER_FIELDS_MAX 128
#define REASON_SHOWN      80 /* bytes */

static void
begin_answer(struct weir__proxy_exchange *exchange)
{
        exchange->gate = (struct weir__gate){.scanned = 0};
        weir__gate_begin_response(&exchange->gate);
}

int
weir__connect_exchange_begin(struct weir__proxy_exchange *exchange)
{
        const char *target = exchange->target, *authorization = exchange->proxy->authorization;
        int size = snprintf(exchange->message, sizeof exchange->message, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", target,
                            target, authorization ? "Proxy-Authorization: " : "", authorization ? authorization : "",
                            authorization ? "\r\n" : "");

        if (size < 0 || (size_t)size >= sizeof exchange->message)
                return -EMSGSIZE;
        exchange->message_size = (size_t)size;
        exchange->room = WEIR__EXCHANGE_ANSWER;
        begin_answer(exchange);
        return 0;
}

/* -- the answer -- */

static int
misread(struct weir__proxy_exchange *exchange, int failed)
{
        if (failed == -ENOMEM)
                return failed;
        return weir__proxy_exchange_fail(exchange, failed, "answered CONNECT %s with %s", exchange->target,
                                         failed == -EMSGSIZE ? "a head that is too large" : "what is no valid head of HTTP/1");
}

/* The reason is the proxy's text: only what can be printed is shown. */
static int
refused(struct weir__proxy_exchange *exchange, const struct weir__received *received)
{
        char reason[REASON_SHOWN + 1];
        size_t size = strnlen(received->reason, REASON_SHOWN);
        int status = received->status;

        for (size_t i = 0; i < size; i++)
                reason[i] = received->reason[i] >= ' ' && received->reason[i] <= '~' ? received->reason[i] : '?';
        reason[size] = '\0';
        return weir__proxy_exchange_fail(exchange, status == 401 || status == 403 || status == 407 ? -EACCES : -ECONNREFUSED,
                                         "refused CONNECT %s: %d%s%s", exchange->target, status, size ? " " : "", reason);
}

static int
judge(struct weir__proxy_exchange *exchange, const struct weir__received *received, size_t head_size)
{
        if (received->status == 101)
                return misread(exchange, -EBADMSG);
        if (received->status >= 300)
                return refused(exchange, received);
        if (received->status < 200)
                return 0;
        if (exchange->size > head_size)
                return weir__proxy_exchange_fail(exchange, -EBADMSG,
                                                 "sent bytes behind its answer to CONNECT %s, before the server "
                                                 "was sent any",
                                                 exchange->target);
        return 1;
}

/* Source: RFC 9110 section 15.2. */
static void
forget_interim(struct weir__proxy_exchange *exchange, size_t head_size)
{
        exchange->size -= head_size;
        exchange->forgotten += head_size;
        exchange->room = WEIR__EXCHANGE_ANSWER - exchange->forgotten;
        memmove(exchange->answer, exchange->answer + head_size, exchange->size);
        begin_answer(exchange);
}

static int
read_answer(struct weir__proxy_exchange *exchange, size_t head_size)
{
        struct weir__received *received;
        int result = weir__received_new(exchange->answer, head_size, WEIR__RECEIVED_FOR_CONNECT, weir__alloc, &received);

        if (result)
                return misread(exchange, result);
        result = judge(exchange, received, head_size);
        weir__free(received, received->size);
        if (result == 0)
                forget_interim(exchange, head_size);
        return result;
}

int
weir__connect_exchange_took(struct weir__proxy_exchange *exchange)
{
        int result = 0;

        while (result == 0 && exchange->size) {
                const struct weir__gate_limits limits = {LINE_MAX_SIZE, WEIR__EXCHANGE_ANSWER - exchange->forgotten,
                                                         ANSWER_FIELDS_MAX};
                size_t head_size;
                int verdict = weir__gate_feed(&exchange->gate, &limits, exchange->answer, exchange->size, &head_size);

                if (verdict == WEIR__GATE_MORE)
                        return exchange->size < exchange->room ? 0 : misread(exchange, -EMSGSIZE);
                result = verdict == WEIR__GATE_HEAD ? read_answer(exchange, head_size)
                                                    : misread(exchange, weir__received_error(verdict));
        }
        return result || exchange->room ? result : misread(exchange, -EMSGSIZE);
}
