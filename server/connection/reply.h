/* server/connection/reply.h: what goes out on a connection. */
#ifndef WEIR_SERVER_REPLY_H
#define WEIR_SERVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message/response.h"

struct weir__connection;
struct weir__exchange;
struct weir__file_part;
struct weir__shard;
struct weir__transfer;

#define WEIR__LEAVES_FIRST ((size_t)8 * 1024) /* bytes of a reply: fewer than any system sends before it waits for the peer */

/* The output of a connection.  Owner of the poller only. */
struct weir__writing {
        char *output; /* what the peer has not taken yet: before all writers */
        size_t output_size, output_sent;
        struct weir__transfer *writers, **writers_end;
        struct weir__file_part *file; /* behind the output; or NULL */
        size_t untaken;     /* what the peer's system had not taken in when the time limit of writing began */
        uint64_t sent;      /* of the last reply, or of the one that goes out now */
        uint32_t head_size; /* of it: so much is its head */
        bool ends_reply;    /* a close is the end of the reply that goes out: before that it must not look like one */
};

/* All of a reply is written when the connection is READING_HEAD after one of these: the caller goes on with weir__receive. */
void weir__reply_send(struct weir__connection *connection, struct weir__exchange *exchange); /* of which nothing was sent */
void weir__reply_flush(struct weir__connection *connection);    /* the peer may have read some of it */
void weir__reply_write_on(struct weir__connection *connection); /* something was added to it */

void weir__reply_refuse(struct weir__connection *connection, int status, bool is_head); /* an error, then close */
size_t weir__reply_turning_away(struct weir__shard *shard); /* writes the whole 503 to the scratch buffer; 0: out of memory */
void weir__reply_continue(struct weir__connection *connection); /* 100: the peer waits for it */


/* For replies of every sort. */
struct weir__framing weir__reply_framing(struct weir__connection *connection, const struct weir__exchange *exchange);
void weir__reply_leave_body(struct weir__connection *connection, const struct weir__exchange *exchange);

#endif
