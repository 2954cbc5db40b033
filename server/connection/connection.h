/* server/connection/connection.h: a connection: its states, its time limit, its end.
 *
 * A connection that any function of this room has closed stays in memory, GONE, until the worker's loop has its turn. */
#ifndef WEIR_SERVER_CONNECTION_H
#define WEIR_SERVER_CONNECTION_H

#include "kernel/base/list.h"
#include "kernel/loop/poller.h"
#include "kernel/socket/stream.h"
#include "server/base/server.h"
#include "server/connection/receive.h"
#include "server/connection/record.h"
#include "server/connection/reply.h"
#include "server/exchange/exchange.h"

enum weir__connection_state {
        WEIR__READING_HEAD = 0,
        WEIR__HANDSHAKING, /* TLS, before all else */
        WEIR__READING_BODY,
        WEIR__ANSWERING, /* the exchange is out at the handler; it may read and write pieces of bodies meanwhile */
        WEIR__WRITING,   /* the exchange is over, and the peer slow to read the reply */
        WEIR__LINGERING, /* our side is finished; what the peer still sends is thrown away */
        WEIR__GONE,      /* descriptor closed; waits for its exchange, if it has one */
};

/* The time limit of the state. */
struct weir__deadline {
        union {
                weir_nsec idle_since;
                weir_nsec lingers_until; /* LINGERING: whatever still comes */
        };
        weir_nsec expires_at; /* WEIR_FOREVER: none */
        /* What `limit` is set to: may be earlier, and is put off when it comes; WEIR_FOREVER: it is not set. */
        weir_nsec queued_for;
        struct weir__limit limit;
};

/* Owner of the poller only. */
struct weir__connection {
        struct weir__client client; /* first */
        struct weir__stream stream; /* closed when GONE */
        struct weir__link link;     /* in the shard's connections */
        struct weir__link idle;     /* in the shard's list of idle ones */

        uint8_t state;        /* enum weir__connection_state; written by weir__connection_enter, mostly */
        bool is_last;         /* no further request after this one */
        bool is_used;         /* a first request has come */
        bool is_admitted;     /* it has a place among those that there may be; else it waits for a 503, one of `turned_away` */
        bool has_place;       /* and gives it back at its end: an evicted one has given it away already */
        bool is_requeued;     /* `requeued` is on its way */

        struct weir__exchange *exchange; /* from READING_BODY on, until its reply is handed over */
        struct weir__deadline deadline;
        struct weir__work requeued; /* goes on with what is long, after other work had its turn */
        struct weir__reading reading;
        struct weir__writing writing;
        struct weir__replied replied;
};

static inline struct weir__connection *weir__connection_of(const struct weir__exchange *exchange)
{
        return (struct weir__connection *)exchange->client;
}

static inline const struct weir_http_server_config *weir__connection_config(const struct weir__connection *connection)
{
        return &connection->client.shard->server->config;
}

static inline bool weir__connection_has_output(const struct weir__connection *connection)
{
        const struct weir__writing *writing = &connection->writing;

        return writing->output || !weir__list_is_empty(&writing->writers) || (writing->file && writing->file->size);
}

/* The stream of events of its exchange; NULL: none is open. */
static inline struct weir__transfer *weir__connection_events(const struct weir__connection *connection)
{
        return connection->exchange ? connection->exchange->stream : NULL;
}

void weir__connection_enter(struct weir__connection *connection, enum weir__connection_state state); /* with its time limit */
void weir__connection_limit(struct weir__connection *connection, weir_nsec now, weir_nsec duration);
void weir__connection_close(struct weir__connection *connection);
void weir__connection_finish(struct weir__connection *connection); /* closes politely, when all is written */
void weir__connection_drop_input(struct weir__connection *connection); /* all that was read and not used */
void weir__connection_linger(struct weir__connection *connection); /* LINGERING: there is input */
void weir__connection_free(struct weir__connection *connection);   /* one that is GONE, if nothing needs it */
void weir__connection_drop_exchange(struct weir__connection *connection); /* and with it, one that is GONE: the last touch */

weir_nsec weir__connection_left_to_read(const struct weir__connection *connection); /* for a task that reads: of its time */
bool weir__connection_is_to_be_probed(const struct weir__connection *connection);
bool weir__connection_is_idle(const struct weir__connection *connection); /* waits for a request */

/* A connection that always has more to read, or to send, goes on when others had their turn. */
void weir__connection_has_read(struct weir__connection *connection, size_t size);
bool weir__connection_may_read(struct weir__connection *connection); /* else, if there is input, it is requeued */
void weir__connection_requeue(struct weir__connection *connection);

/* Looks for a request that has come and was not read yet.  Returns as weir__stream_peek. */
ssize_t weir__connection_peek(struct weir__connection *connection);
/* Whose request has not come either; or NULL. */
struct weir__connection *weir__connection_longest_idle(struct weir__shard *shard);
/* Closes an idle one; which still has a place. */
void weir__connection_evict(struct weir__connection *connection, bool has_place);

/* -- http1.c: connections of HTTP/1: made, driven by events and time, stopped -- */

/* Takes the descriptor.  Returns false when out of memory. */
bool weir__http1_new(struct weir__shard *shard, int fd, const struct weir__peer *peer, bool is_admitted);
void weir__http1_stop(struct weir__connection *connection);

extern const struct weir__exchange_ops weir__http1_ops;

#endif
