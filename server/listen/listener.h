/* server/listen/listener.h: new connections. */
#ifndef WEIR_SERVER_LISTENER_H
#define WEIR_SERVER_LISTENER_H

#include <stdbool.h>

#include <weir/http_server.h>

#include "kernel/loop/poller.h"

struct weir__connection;
struct weir__shard;
struct weir__socket;

/* Owner of the poller only. */
struct weir__listener {
        struct weir__source source; /* first; fd is -1 when closed */
        struct weir__shard *shard;
        struct weir__socket *socket;      /* one use of it; NULL when closed */
        bool is_shared;                   /* others watch it, too */
        bool is_paused;                   /* does not accept */
        bool is_pause_set, is_requeued;   /* `pause` is set, or its work on its way; `requeued` is on its way */
        struct weir__work requeued;       /* accepts on, after other work had its turn */
        struct weir__limit pause;         /* after EMFILE and the like: accepts on when it comes, or when a connection closes */
};

int weir__listeners_open(struct weir__shard *shard);   /* after a failure some are open, and to be closed */
void weir__listeners_close(struct weir__shard *shard); /* accepts what waits: a close would reset it */
void weir__listeners_left(struct weir__connection *connection); /* weir__shard_ops.connection_left */

#endif
