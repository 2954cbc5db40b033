/* server/connection/connection.h: a connection of HTTP: its states, its time limits, its end.
 *
 * Any function of this room may close a connection.  It stays in memory then, GONE, until the worker's loop frees it:
 * net/transport/transport.h. */
#ifndef WEIR_SERVER_CONNECTION_H
#define WEIR_SERVER_CONNECTION_H

#include "kernel/base/list.h"
#include "net/transport/input.h"
#include "net/transport/output.h"
#include "net/transport/transport.h"
#include "server/base/server.h"
#include "server/connection/receive.h"
#include "server/connection/record.h"
#include "server/connection/reply.h"
#include "server/exchange/exchange.h"

#define WEIR__LINGER_AT_STOP WEIR_SEC(5) /* in all, when the server stops */

enum weir__connection_state {
        WEIR__READING_HEAD = 0,
        WEIR__HANDSHAKING, /* of TLS, before the first head */
        WEIR__READING_BODY,
        WEIR__ANSWERING, /* the exchange is out: the handler or its series runs, and may read and write pieces of bodies */
        WEIR__WRITING,   /* the exchange has ended, and a part of the reply waits for the socket */
        WEIR__LINGERING, /* our side is finished; the input is thrown away */
        WEIR__GONE,      /* the descriptor is closed; the connection waits for its exchange, if it has one */
};

/* Owner of the poller only. */
struct weir__connection {
        struct weir__client client;       /* first */
        struct weir__transport transport; /* LINGERING and CLOSED when the connection is LINGERING and GONE */
        struct weir__limit limit;         /* right behind the transport */
        struct weir__link link;           /* in the branch's connections */
        struct weir__link idle;           /* in the branch's list of idle ones */

        uint8_t state;        /* enum weir__connection_state */
        bool is_last;         /* no further request after this one */
        bool is_used;         /* a first request has come */
        bool is_admitted;     /* within the limit of connections; otherwise it gets a 503 (`turned_away` of the branch) */
        bool has_permit;      /* counted in the server's `connections`; an evicted one has lost its permit already */
        bool has_reference;   /* of its exchange, which it is about to detach */

        struct weir__exchange *exchange; /* from READING_BODY on, until it has come back */
        weir_nsec idle_since;
        struct weir__reading reading;
        struct weir__writing writing;
        struct weir__replied replied;
};

_Static_assert(offsetof(struct weir__connection, limit) ==
                       offsetof(struct weir__connection, transport) + sizeof(struct weir__transport),
               "weir__transport_ops.limit");

static inline struct weir__connection *weir__connection_of(const struct weir__exchange *exchange)
{
        return (struct weir__connection *)exchange->client;
}

static inline struct weir__connection *weir__connection_of_transport(struct weir__transport *transport)
{
        return weir__container_of(transport, struct weir__connection, transport);
}

static inline const struct weir_http_server_config *weir__connection_config(const struct weir__connection *connection)
{
        return &connection->client.branch->server->config;
}

static inline bool weir__connection_has_output(const struct weir__connection *connection)
{
        return !weir__output_is_empty(&connection->transport);
}

/* The open stream of events of its exchange; or NULL. */
static inline struct weir__transfer *weir__connection_event_stream(const struct weir__connection *connection)
{
        return connection->exchange ? connection->exchange->event_stream : NULL;
}

void weir__connection_enter(struct weir__connection *connection, enum weir__connection_state state); /* with its time limit */
void weir__connection_close(struct weir__connection *connection);
void weir__connection_closed(struct weir__connection *connection); /* weir__transport_ops.closed */
void weir__connection_finish(struct weir__connection *connection); /* after the last reply: closes, or lingers first */
void weir__connection_free(struct weir__connection *connection);   /* GONE: frees it, if nothing needs it any more */
void weir__connection_drop_exchange(struct weir__connection *connection); /* frees the exchange, and a GONE connection with it */

/* The time that is left to the task that reads; WEIR_FOREVER without a task or a limit. */
weir_nsec weir__connection_reader_time_left(const struct weir__connection *connection);
bool weir__connection_should_ask_client(const struct weir__connection *connection); /* whether it is still there */
/* READING_HEAD: whether bytes of a request have come.  An empty line before it does not count: some clients send one behind the
 * body of the request before. */
bool weir__connection_has_begun(const struct weir__connection *connection);
bool weir__connection_is_idle(const struct weir__connection *connection); /* waits for the first byte of a request */

/* The connection that has been idle longest, and for which no request waits in the socket; or NULL. */
struct weir__connection *weir__connection_longest_idle(struct weir__http_branch *branch);
/* Closes an idle connection.  `has_permit`: it gives its permit back; otherwise the caller has taken that. */
void weir__connection_evict(struct weir__connection *connection, bool has_permit);

/* -- http1.c: connections of HTTP/1: made, driven by events and time, stopped -- */

/* Takes the descriptor.  Returns false when out of memory. */
bool weir__http1_new(struct weir__http_branch *branch, int fd, const struct weir__peer *peer, bool is_admitted);
void weir__http1_stop(struct weir__connection *connection);

extern const struct weir__exchange_ops weir__http1_ops;
extern const struct weir__handshakes_ops weir__http1_handshakes_ops;

#endif
