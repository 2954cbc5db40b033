/* proxy/forward/hops.c: how many proxies a request may still pass: Max-Forwards.
 *
 *     OPTIONS, TRACE --n > 0--> goes on with n - 1
 *                    --0--> is answered here
 *
 * Source:  RFC 9110 section 7.6.2.
 * Threads: callbacks of the exchange's series. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proxy/forward/outgoing.h"

#define DIGITS_MAX 18 /* that fit into a number */

long long
weir__hops_left(const weir_task *exchange)
{
        const char *method = weir_http_method(exchange);

        if (strcmp(method, "OPTIONS") != 0 && strcmp(method, "TRACE") != 0)
                return -1;
        const char *value = weir_http_request_header(exchange, "Max-Forwards");
        size_t digits = value ? strspn(value, "0123456789") : 0;
        return digits && !value[digits] && digits <= DIGITS_MAX ? strtoll(value, NULL, 10) : -1;
}

int
weir__hops_set(weir_http_call *call, long long left)
{
        char value[DIGITS_MAX + 2];

        snprintf(value, sizeof value, "%lld", left);
        return weir_http_call_set_header(call, "Max-Forwards", value);
}

/* The client knows it; a script that has the browser send a TRACE should not.  Source: RFC 9110 section 9.3.8. */
static bool
is_secret(const char *name)
{
        return strcasecmp(name, "Cookie") == 0 || strcasecmp(name, "Authorization") == 0 || strncasecmp(name, "Proxy-", 6) == 0;
}

static int
reflect(weir_task *exchange)
{
        const char *name, *value;
        int failed = weir_http_reply_set_header(exchange, "Content-Type", "message/http");

        if (!failed)
                failed = weir_http_reply_printf(exchange, "TRACE %s HTTP/1.%d\r\n", weir_http_target(exchange),
                                                weir_http_minor(exchange));
        for (size_t i = 0; !failed && weir_http_request_field(exchange, i, &name, &value) == 0; i++)
                if (!is_secret(name))
                        failed = weir_http_reply_printf(exchange, "%s: %s\r\n", name, value);
        return failed ? failed : weir_http_reply_append(exchange, "\r\n", 2);
}

int
weir__hops_answer(weir_task *exchange)
{
        return strcmp(weir_http_method(exchange), "TRACE") == 0 ? reflect(exchange) : weir_http_reply_status(exchange, 200);
}
