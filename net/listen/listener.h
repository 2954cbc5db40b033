/* net/listen/listener.h: new connections, and the sockets that they come from. */
#ifndef WEIR_NET_LISTENER_H
#define WEIR_NET_LISTENER_H

#include <stdbool.h>

#include "kernel/loop/poller.h"

struct weir__branch;
struct weir__peer;
struct weir__server;
struct weir__socket;

/* Owner of the poller only. */
struct weir__listener {
        struct weir__source source; /* first; fd is -1 when closed */
        struct weir__branch *branch;
        struct weir__socket *socket;      /* one use of it; NULL when closed */
        bool is_shared;                   /* other pollers watch it, too */
        bool is_paused;                   /* after EMFILE and the like, until `again` comes or a connection closes */
        int shortage;                     /* while it is paused: the errno of accept, or that the server is at its limit */
        unsigned failures;                /* of accept, the last ones in a row */
        bool is_again_set;                /* `again` is set, or its work on its way */
        struct weir__alarm again;         /* goes on accepting: behind other work, or after a pause */
};

int weir__listeners_open(struct weir__branch *branch);   /* after a failure the caller closes those that are open */
void weir__listeners_close(struct weir__branch *branch); /* accepts waiting connections first: a close would reset them */

/* A connection of the branch is closed: its descriptor is free, and its permit, if it has one. */
void weir__listeners_connection_closed(struct weir__branch *branch, const struct weir__peer *peer, bool is_admitted,
                                       bool has_permit);

/* -- the listeners of a server, spread over its branches -- */

int weir__spread_listeners(struct weir__server *server);  /* gives each branch its listeners.  Result: 0 or -ENOMEM */
void weir__spread_take_back(struct weir__server *server); /* with the uses of those that are not open */

#endif
