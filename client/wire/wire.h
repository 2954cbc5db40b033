/* client/wire/wire.h: a connection to an origin: a stream that speaks HTTP/1.1 as a client.
 *
 *     FREE (idle, or reserved) --weir__wire_start--> CALLED --its response is complete--> FREE
 *        \--bytes, an end, age--> over                  \--a fault, a limit, a cancel---> over
 *
 * It is the holder of its stream (net/stream/stream.h).  Owner of its poller only. */
#ifndef WEIR_CLIENT_WIRE_H
#define WEIR_CLIENT_WIRE_H

#include "client/origin/origin.h"
#include "client/wire/call.h"
#include "net/stream/stream.h"
#include "protocol/message/chunked.h"
#include "protocol/message/gate.h"

struct weir__wire {
        struct weir__pooled pooled;   /* first */
        struct weir_stream *stream;   /* a use; NULL: it is over */
        struct weir__http_call *call; /* or NULL: it is free */
        weir_nsec opened_at;
        weir_nsec since;       /* when the stage began that has a limit, or bytes went or came */
        uint64_t sent;         /* of the transport, when that was noted */
        unsigned served;       /* calls that are complete; saturates */
        bool is_receiving;     /* a function that receives is on the stack */
        bool is_body;          /* the head of the response is there */
        bool has_come;         /* a byte of the response */
        bool is_cut;           /* the server takes no more of the request: only what has come is to be read */
        uint8_t end;           /* of the body: enum weir__received_end */
        uint8_t limited_by;    /* what the limit is of: wire.c's */
        uint16_t keep_seconds; /* the server closes it when it is idle for so long; 0: it has not said that */
        uint32_t interim;      /* bytes of interim responses */
        uint64_t left;         /* LENGTH: bytes of the body that are to come */
        struct weir__gate gate;
        struct weir__chunked chunked;
        struct weir__holder holder;
        struct weir__work ending; /* over: frees it, for it may be on the stack */
};

static inline struct weir__wire *
weir__wire_of(struct weir__pooled *connection)
{
        return (struct weir__wire *)connection;
}

/* Makes a connection of a stream, which is on the branch's poller.  The use goes to it; on failure it stays the caller's.
 * Result: NULL with *failed. */
struct weir__wire *weir__wire_new(struct weir__client_branch *branch, struct weir_stream *stream, int *failed);

void weir__wire_end(struct weir__wire *wire, int status); /* does nothing if it is over */

/* It was reserved, and is taken by the request that it was reserved for.  Returns false if it is over: then it is gone. */
bool weir__wire_take_reserved(struct weir__wire *wire);
/* Whether a look at an idle one does not find it closed by the server.  A look costs a system call: there is one only if it was
 * idle for a while. */
bool weir__wire_is_alive(const struct weir__pooled *connection);

/* As weir__origin_of, for connections of this kind. */
struct weir__origin *weir__client_origin(struct weir_client *client, const struct weir__destination *destination);

void weir__wire_close(struct weir__pooled *connection); /* weir__origin_ops.close */

/* -- receive.c -- */

/* Takes in what has come, as far as the call wants it.  Ends the call, or the connection, if that says so. */
void weir__wire_receive(struct weir__wire *wire);

/* -- wire.c, for receive.c -- */

void weir__wire_complete(struct weir__wire *wire, bool has_rest); /* the response is complete; `has_rest`: bytes follow */

#endif
