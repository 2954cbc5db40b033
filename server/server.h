/* server/server.h: the parts of an HTTP server and how they hold each other.
 *
 *     weir_http_server --- a shard for each poller --- its listener, its connections --- at most one exchange each
 *
 * Shards, listeners and connections are touched by the owner of their poller alone; the server is what they share.  `open` counts
 * listeners, connections and work on its way: what must be gone before the server's memory may go. */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/http_server.h>

#include "factory/series.h"
#include "factory/task.h"
#include "kernel/latch.h"
#include "kernel/lock.h"
#include "kernel/poller.h"
#include "kernel/stream.h"
#include "protocol/gate.h"
#include "protocol/request.h"
#include "protocol/response.h"

struct weir__connection;
struct weir__shard;

/* A request and the reply to it: the task that the handler gets. */
struct weir__exchange {
        struct weir_task task; /* first */

        /* The connection outlives it.  Looked at by the owner of its poller only. */
        struct weir__connection *connection;

        /* Constant once the handler has it. */
        struct weir__request *request;
        char *body; /* content_length bytes and a NUL; NULL without a body */
        size_t body_size;

        /* The series' callbacks'. */
        struct weir__response response;
        bool failed; /* building the reply ran out of memory */

        int result; /* of the series, on its way to the connection */

        /* Its series, once that is made, or WEIR__CUT: what the handler's worker and the connection's exchange.  Who sees the
         * other's cancels the series, which is kept until the exchange is freed. */
        _Atomic uintptr_t reach;
};

#define WEIR__CUT ((uintptr_t)1)

enum weir__connection_state {
        WEIR__READING_HEAD = 0,
        WEIR__READING_BODY,
        WEIR__ANSWERING, /* the exchange is out at the handler */
        WEIR__WRITING,   /* the peer is slow to read the reply */
        WEIR__LINGERING, /* our side is finished; what the peer still sends is thrown away */
        WEIR__GONE,      /* descriptor closed; waits for its exchange, if it has one */
};

/* Owner of the poller only. */
struct weir__connection {
        struct weir__stream stream; /* first; closed when GONE */
        struct weir__shard *shard;
        struct weir__connection *previous, *next; /* in the shard */

        uint8_t state; /* enum weir__connection_state; connection.c: enter() */
        bool readable; /* there may be input that was not read */
        bool ended;    /* the peer may have finished its side: a short read does not mean that there is no more */
        bool last;     /* no further request after this one */
        bool refused;  /* what the peer still sends is not looked at */

        struct weir__gate gate;
        char *input; /* what was read and not used: part of a head, or requests that are not yet their turn */
        size_t input_size, input_room;

        struct weir__exchange *exchange; /* from READING_BODY on, until its reply is handed over */
        union {
                size_t body_have; /* READING_BODY */
                size_t untaken;   /* WRITING: what the peer's system had not taken in when the time limit began */
        };

        char *output; /* what the peer has not taken yet */
        size_t output_size, output_sent;

        weir_nsec expires_at;     /* the time limit of the state; WEIR_FOREVER: none */
        weir_nsec queued_for;     /* what `limit` is set to: may be earlier, and is put off when it comes */
        struct weir__limit limit;
};

/* Owner of the poller only. */
struct weir__listener {
        struct weir__source source; /* first; fd is -1 when closed */
        struct weir__shard *shard;
        struct weir__work again;    /* accepts on, after other work had its turn */
        struct weir__limit pause;   /* after EMFILE and the like: accepts on when it comes, or when a connection closes */
        bool paused;  /* does not accept */
        bool pausing, again_queued; /* `pause` is set, or its work on its way; `again` is on its way */
};

/* What a server has on one poller.  Owner of the poller only. */
struct weir__shard {
        weir_http_server *server;
        struct weir__poller *poller;
        struct weir__listener listener;
        struct weir__connection *first; /* of the connections */

        int64_t date_second; /* what `date` says */
        char date[30];

        struct weir__work order; /* open, stop or cut; guarded by the order's being under way */
        int failed;              /* of the order to open */
};

enum weir__server_state {
        WEIR__SERVER_NEW = 0,
        WEIR__SERVER_SERVING,
        WEIR__SERVER_STOPPED,
};

struct weir_http_server {
        /* Constant. */
        struct weir_http_server_config config; /* defaults filled in */
        struct weir__gate_limits gate_limits;
        weir_task_fn *handler;
        void *context;
        int fault;    /* what its start reports */
        int quiet_fd; /* eventfd: written when `open` comes to 0, once in a start and stop, as the last touch of the server */
        int ended_fd; /* eventfd: written when the end of the runtime closes a listener */

        struct weir__lock lock; /* rank SERVER: start, stop and free, one at a time; held while they wait */

        /* Guarded by lock. */
        uint8_t state; /* enum weir__server_state */
        unsigned shard_count;
        unsigned generation; /* of the runtime that the shards belong to */
        struct weir__shard *shards;

        _Atomic int port;           /* relaxed; -EDOM: none */
        _Atomic size_t open;        /* acq_rel: who brings it to 0 has seen the end of all */
        _Atomic size_t connections; /* relaxed */
        _Atomic size_t cut;         /* exchanges; relaxed, read after the orders were carried out */

        _Atomic unsigned orders_left; /* shards that have not carried out the order; acq_rel */
        struct weir__latch *ordered;  /* opened when all have; of the thread that gave it */
};

/* server.c: what keeps the server's memory from going; the second is the last touch. */
void weir__server_opened(weir_http_server *server);
void weir__server_closed(weir_http_server *server);

/* Stops; cuts as soon as `impatient_fd` (-1: none) becomes readable. */
int weir__server_stop(weir_http_server *server, weir_nsec within, int impatient_fd);

/* listener.c */
/* Watches source.fd, which stays open on failure. */
int weir__listener_open(struct weir__listener *listener, struct weir__shard *shard);
void weir__listener_empty(struct weir__listener *listener); /* accepts what waits: a close would reset it */
void weir__listener_close(struct weir__listener *listener);
void weir__listener_room(struct weir__listener *listener); /* a descriptor has become free */

/* connection.c: the life of a connection and its states.  A connection that any of these, or of receive.c and reply.c, has closed
 * stays in memory, GONE, until the worker's loop has its turn. */
bool weir__connection_new(struct weir__shard *shard, int fd); /* takes the descriptor; false when out of memory */
void weir__connection_enter(struct weir__connection *connection, enum weir__connection_state state);
void weir__connection_close(struct weir__connection *connection);
void weir__connection_finish(struct weir__connection *connection);        /* close politely, when all is written */
void weir__connection_drop_exchange(struct weir__connection *connection); /* and with it, one that is GONE: the last touch */
void weir__connection_stop(struct weir__connection *connection);
bool weir__connection_cut(struct weir__connection *connection); /* returns whether an exchange was cut */

/* receive.c: what comes in */
void weir__connection_receive(struct weir__connection *connection); /* reads on, if it is the time for it */
void weir__connection_next(struct weir__connection *connection);    /* the exchange is over: on to the next request */

/* reply.c: what goes out */
void weir__connection_answer(struct weir__exchange *exchange); /* the series of the exchange has ended; frees the exchange */
void weir__connection_refuse(struct weir__connection *connection, int status, bool is_head); /* an error, then close */
void weir__connection_flush(struct weir__connection *connection);
void weir__connection_continue(struct weir__connection *connection); /* 100: the peer waits for it */

/* exchange.c */
/* Takes the request, also on failure. */
struct weir__exchange *weir__exchange_new(struct weir__connection *connection, struct weir__request *request);
void weir__exchange_start(struct weir__exchange *exchange);
void weir__exchange_free(struct weir__exchange *exchange);
void weir__exchange_cut(struct weir__exchange *exchange); /* its reply is not wanted any more: cancels its series */
int weir__exchange_error(struct weir__exchange *exchange, int status); /* makes the reply that status with its reason as text */

#endif
