/* server/exchange/sse.h: streams of Server-Sent Events. */
#ifndef WEIR_SERVER_SSE_H
#define WEIR_SERVER_SSE_H

#include "server/exchange/exchange.h"

/* The task that keeps a stream of events open. */
struct weir__sse {
        struct weir_task task; /* first; its word: sse.c */

        /* Constant. */
        struct weir__exchange *exchange; /* held; NULL: it is wrong from its making */
        weir_nsec heartbeat;

        /* Owner of the connection's poller only. */
        bool is_tried;  /* the owner has had it */
        bool is_linked; /* it is the exchange's */
};

void weir__sse_complete(struct weir__sse *sse, int status); /* a linked one.  Owner */

#endif
