/* client/tunnel/problem.c: what has failed at a proxy, in words.
 *
 * Threads: the exchange's owner. */
#include <stdarg.h>
#include <stdio.h>

#include "client/tunnel/exchange.h"

int
weir__proxy_exchange_fail(struct weir__proxy_exchange *exchange, int failed, const char *format, ...)
{
        int size = snprintf(exchange->problem, sizeof exchange->problem, "the proxy %s ", exchange->proxy->name);
        va_list values;

        if (size < 0 || (size_t)size >= sizeof exchange->problem)
                return failed;
        va_start(values, format);
        vsnprintf(exchange->problem + size, sizeof exchange->problem - (size_t)size, format, values);
        va_end(values);
        return failed;
}
