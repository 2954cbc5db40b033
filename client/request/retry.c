/* client/request/retry.c: whether, and when, a request is worth another try.
 *
 * Threads: any; a response is its callback's. */
#include <errno.h>
#include <string.h>

#include <weir/clock.h>

#include "client/request/request.h"
#include "protocol/text/bytes.h"
#include "protocol/text/date.h"

int
weir_http_retry_if(int status, void *context)
{
        (void)context;
        switch (status) {
        case -EBUSY:
        case -ECONNREFUSED:
        case -ECONNRESET:
        case -ECONNABORTED:
        case -EHOSTUNREACH:
        case -ENETUNREACH:
        case -EADDRNOTAVAIL:
        case -ETIMEDOUT:
        case -EAGAIN: /* the servers of names do not answer */
        case -EIO: /* they answer with an error */ return 1;
        default: return 0;
        }
}

#define RETRY_AFTER_MAX ((uint64_t)365 * 24 * 3600) /* seconds */

weir_nsec
weir_http_response_retry_after(const weir_task *task)
{
        const char *value = weir_http_response_header(task, "Retry-After");
        int64_t now = weir_wall_now() / WEIR_SEC(1), date;
        uint64_t seconds;

        if (!value)
                return -1;
        if (value[0] && weir__bytes_number(value, strlen(value), &seconds) == strlen(value))
                return WEIR_SEC((weir_nsec)(seconds < RETRY_AFTER_MAX ? seconds : RETRY_AFTER_MAX));
        if (!weir__http_date_read(value, now, &date))
                return -1;
        return date <= now ? 0
                           : WEIR_SEC((weir_nsec)(date - now < (int64_t)RETRY_AFTER_MAX ? date - now : (int64_t)RETRY_AFTER_MAX));
}
