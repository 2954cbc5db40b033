/* server/connection/receive.h: the input of a connection. */
#ifndef WEIR_SERVER_RECEIVE_H
#define WEIR_SERVER_RECEIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message/chunked.h"
#include "protocol/message/gate.h"

struct weir__connection;
struct weir__transfer;

/* What a connection knows of its input: bytes that were read and not used, part of a head or body or later requests, lie in the
 * transport.  Owner of the poller only. */
struct weir__reading {
        union {
                struct weir__gate gate;       /* of the head that is being read */
                struct weir__chunked chunked; /* of the body, if it comes in chunks */
        };
        struct weir__transfer *reader; /* a task that waits for a piece of the body; or NULL */
        bool is_refused;               /* further input is not looked at */
        bool is_unread;                /* further input is a body that nobody has read */
};

void weir__receive(struct weir__connection *connection); /* reads on, as far as the state allows */
int weir__receive_for_task(struct weir__transfer *transfer); /* weir__exchange_ops.try */
void weir__receive_fail_task(struct weir__connection *connection, int fault); /* ends the task that reads; an HTTP status */

#endif
