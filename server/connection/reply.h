/* server/connection/reply.h: what goes out on a connection. */
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
struct weir__shard;
struct weir__transfer;

#define WEIR__LEAVES_FIRST ((size_t)8 * 1024) /* bytes of a reply: fewer than any system sends before it waits for the peer */

/* The output of a connection.  Owner of the poller only. */
struct weir__writing {
        char *output; /* what the peer has not taken yet: before all writers */
        size_t output_size, output_sent; /* 0 without */
        struct weir__list writers; /* tasks that wait for their pieces to go out: by `link` of struct weir__transfer */
        struct weir__file_part *file; /* behind the output; or NULL */
        size_t untaken;     /* what the peer's system had not taken in when the time limit of writing began */
        uint64_t sent;      /* of the last reply, or of the one that goes out now */
        uint32_t head_size; /* of it: so much is its head */
        bool is_end_of_reply;    /* a close is the end of the reply that goes out: before that it must not look like one */
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

/* All of a reply is written when the connection is READING_HEAD after one of these: the caller goes on with weir__receive. */
void weir__reply_send(struct weir__connection *connection, struct weir__exchange *exchange); /* of which nothing was sent */
/* In WRITING or ANSWERING: sends what the socket takes.  The time of the rest begins now, if something was added to it, and anew
 * whenever some of it was taken. */
void weir__reply_flush(struct weir__connection *connection, bool is_fresh);

void weir__reply_refuse(struct weir__connection *connection, int status); /* an error, then close */
size_t weir__reply_turning_away(struct weir__shard *shard); /* writes the whole 503 to the scratch buffer */
void weir__reply_continue(struct weir__connection *connection); /* 100: the peer waits for it */

/* Replies that are written piece by piece. */
int weir__stream_reply_begin(struct weir__connection *connection);  /* makes the head, which weir__reply_flush sends; once */
int weir__stream_reply_write(struct weir__transfer *transfer);      /* weir__exchange_ops.begin */
int weir__stream_reply_open(struct weir__transfer *stream);         /* the same of a stream of events */
void weir__stream_reply_withdraw(struct weir__transfer *transfer);  /* a write that waits */
void weir__stream_reply_beat(struct weir__connection *connection);  /* into a stream of events that is silent */
void weir__stream_reply_end(struct weir__connection *connection, struct weir__exchange *exchange); /* the exchange is over */

/* For replies of every sort. */
struct weir__framing weir__reply_framing(struct weir__connection *connection, const struct weir__exchange *exchange);
void weir__reply_leave_body(struct weir__connection *connection, const struct weir__exchange *exchange);

#endif
