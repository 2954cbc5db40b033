/* server/connection/reply.h: the output of a connection. */
#ifndef WEIR_SERVER_REPLY_H
#define WEIR_SERVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "net/transport/output.h"
#include "protocol/message/response.h"

struct weir__connection;
struct weir__exchange;
struct weir__file_part;
struct weir__http_branch;
struct weir__transfer;

/* Bytes of a reply that belong to no task: its head, or what the socket has not taken of it. */
struct weir__kept_output {
        struct weir__writer writer; /* first */
        char *taken;                /* the memory of a body, where they lie; NULL: they lie here */
        char bytes[];
};

/* The output of a connection lies in the queue of its transport, in this order: what is kept, tasks that write, a file.  The
 * transport counts the bytes of the present reply, or of the last one: `sent`.  Owner of the poller only. */
struct weir__writing {
        struct weir__kept_output *kept; /* or NULL */
        struct weir__file_part *file;   /* of the reply; or NULL */
        uint32_t head_size;             /* bytes of the head of the present reply, or of the last one */
};

/* Takes what is kept out of the queue, or has taken it. */
static inline void weir__reply_free_kept(struct weir__writing *writing)
{
        struct weir__kept_output *kept = writing->kept;

        if (!kept)
                return;
        if (weir__link_is_used(&kept->writer.link))
                weir__link_remove(&kept->writer.link);
        free(kept->taken);
        free(kept);
        writing->kept = NULL;
}

/* Memory for so many bytes of output; NULL when out of memory. */
struct weir__kept_output *weir__reply_new_kept(size_t size);
/* Puts these bytes of it first into the queue, in the place of those that are kept. */
void weir__reply_keep(struct weir__connection *connection, struct weir__kept_output *kept, char *data, size_t size);

/* If the connection is READING_HEAD after one of these, all of the reply is written.  The caller goes on with weir__receive. */
void weir__reply_send(struct weir__connection *connection, struct weir__exchange *exchange); /* of which nothing was sent */
void weir__reply_written(struct weir__transport *transport, struct weir__writer *writer); /* weir__transport_ops.written */
/* In WRITING or ANSWERING: sends as much as the socket takes.  The time limit of the rest begins anew if the socket has taken
 * something, or with `is_fresh`: something was added. */
void weir__reply_flush(struct weir__connection *connection, bool is_fresh);

void weir__reply_refuse(struct weir__connection *connection, int status); /* an error, then close */
size_t weir__reply_turning_away(struct weir__http_branch *branch); /* writes the whole 503 to the scratch buffer */
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
