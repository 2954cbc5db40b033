/* server/connection/stream_reply.h: replies that are written piece by piece. */
#ifndef WEIR_SERVER_STREAM_REPLY_H
#define WEIR_SERVER_STREAM_REPLY_H

struct weir__connection;
struct weir__exchange;
struct weir__transfer;

int weir__stream_reply_begin(struct weir__connection *connection); /* unless it has begun: 0 or -ENOMEM */
int weir__stream_reply_switch(struct weir__connection *connection); /* the same, and sends nothing yet */
int weir__stream_reply_write(struct weir__transfer *transfer); /* weir__exchange_ops.begin */
int weir__stream_reply_open(struct weir__transfer *stream);    /* the same of a stream of events */
void weir__stream_reply_withdraw(struct weir__transfer *transfer); /* a write that waits */
void weir__stream_reply_beat(struct weir__connection *connection); /* into a stream of events that is silent */
void weir__stream_reply_end(struct weir__connection *connection, struct weir__exchange *exchange); /* the exchange is over */

#endif
