/* client/wire/limits.c: the limits of a call, as its client and the program set them.
 *
 * Threads: the call's maker, before it begins. */
#include <errno.h>

#include "client/wire/call.h"

void
weir__http_call_take_limits(struct weir__http_call *call, const struct weir_client_config *config)
{
        call->max_head = (uint32_t)config->max_head;
        call->send_limit = config->send_limit;
        call->first_byte_limit = config->first_byte_limit;
        call->between_limit = config->between_limit;
}

int
weir__http_call_set_limit(struct weir__http_call *call, weir_nsec *whole, enum weir_http_limit which, weir_nsec limit)
{
        if (limit <= 0)
                return -EINVAL;
        switch (which) {
        case WEIR_HTTP_LIMIT_SEND: call->send_limit = limit; return 0;
        case WEIR_HTTP_LIMIT_FIRST_BYTE: call->first_byte_limit = limit; return 0;
        case WEIR_HTTP_LIMIT_BETWEEN: call->between_limit = limit; return 0;
        case WEIR_HTTP_LIMIT_WHOLE: *whole = limit; return 0;
        default: return -EINVAL;
        }
}
