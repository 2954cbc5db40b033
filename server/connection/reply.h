/* server/connection/reply.h: the output of a connection. */
#ifndef WEIR_SERVER_REPLY_H
#define WEIR_SERVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/base/list.h"
#include "protocol/message/response.h"

struct weir__connection;
struct weir__exchange;
struct weir__file_part;
struct weir__branch;
struct weir__transfer;

#define WEIR__LEAVES_FIRST ((size_t)8 * 1024) /* bytes: any system sends as many before it waits for the peer */

/* The output of a connection.  Owner of the poller only. */
struct weir__writing {
        char *output; /* head or reply that the socket has not taken yet; it goes out before the writers */
        size_t output_size, output_sent; /* 0 without output */
        struct weir__list writers; /* tasks that wait for their pieces to go out: by `link` of struct weir__transfer */
        struct weir__file_part *file; /* behind the output; or NULL */
        size_t untaken;     /* bytes that the peer's system had not taken when the time limit of writing began */
        uint64_t sent;      /* bytes of the present reply, or of the last one */
        uint32_t head_size; /* bytes of its head */
        bool is_ended_by_close; /* the reply ends with the connection, so an early close must be a reset */
};

static inline void weir__reply_set_output(struct weir__writing *writing, char *output, size_t size)
{
        writing->output = output;
        writing->output_size = size;
        writing->output_sent = 0;
}

static inline size_t weir__reply_output_left(const struct weir__writing *writing)
{
        return writing->output_size - writing->output_sent;
}

/* If the connection is READING_HEAD after one of these, all of the reply is written.  The caller goes on with weir__receive. */
void weir__reply_send(struct weir__connection *connection, struct weir__exchange *exchange); /* of which nothing was sent */
/* In WRITING or ANSWERING: sends as much as the socket takes.  The time limit of the rest begins anew if the socket has taken
 * something, or with `is_fresh`: something was added. */
void weir__reply_flush(struct weir__connection *connection, bool is_fresh);

void weir__reply_refuse(struct weir__connection *connection, int status); /* an error, then close */
size_t weir__reply_turning_away(struct weir__branch *branch); /* writes the whole 503 to the scratch buffer */
void weir__reply_continue(struct weir__connection *connection); /* 100: the peer waits for it */

/* -- stream_reply.c: replies that are written piece by piece -- */

int weir__stream_reply_begin(struct weir__connection *connection);  /* makes the head, which weir__reply_flush sends; once */
int weir__stream_reply_write(struct weir__transfer *transfer);      /* weir__exchange_ops.try */
int weir__stream_reply_open_events(struct weir__transfer *stream);  /* the same, of a stream of events */
void weir__stream_reply_withdraw(struct weir__transfer *transfer);  /* takes back a write that waits */
void weir__stream_reply_beat(struct weir__connection *connection);  /* sends a comment into a stream of events */
void weir__stream_reply_end(struct weir__connection *connection, struct weir__exchange *exchange); /* the exchange is over */

/* -- for replies of both sorts -- */

struct weir__framing weir__reply_framing(struct weir__connection *connection, const struct weir__exchange *exchange);
void weir__reply_leave_body(struct weir__connection *connection, const struct weir__exchange *exchange); /* not read to its end */

#endif
