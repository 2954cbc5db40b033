/* server/base/shard.h: what a server has on one poller.
 *
 *     weir_http_server --- a shard for each poller --- its listeners, its connections --- at most one exchange each
 *
 * Shards, listeners and connections belong to the owner of their poller; the server is what the shards share. */
#ifndef WEIR_SERVER_SHARD_H
#define WEIR_SERVER_SHARD_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/http_server.h>

#include "kernel/base/list.h"
#include "kernel/loop/poller.h"
#include "protocol/text/date.h"
#include "server/base/counts.h"
#include "server/base/shed.h"

struct weir__access;
struct weir__connection;
struct weir__cut_report;
struct weir__exchange_ops;
struct weir__listener;
struct weir__shard;

/* How a connection calls what lies above it. */
struct weir__shard_ops {
        const struct weir__exchange_ops *exchange;                    /* of its exchanges */
        void (*connection_left)(struct weir__connection *connection); /* closed: its descriptor and its place are free */
        void (*has_idle)(struct weir__shard *shard); /* a connection has become idle while there is a deficit */
};

/* Owner of the poller only, but for what is atomic. */
struct weir__shard {
        /* Constant. */
        weir_http_server *server;
        struct weir__poller *poller;
        const struct weir__shard_ops *ops;
        struct weir__access *access; /* the server's, while it serves; NULL: there is no access log */

        struct weir__listener *listeners; /* one or more for each address, made and freed with the shard */
        unsigned listener_count;
        struct weir__list connections;
        uint8_t turned_away; /* connections that wait for a 503: for the handshake before it, or for their clients to read it */
        bool is_stopping;    /* the order to stop has come */

        struct weir__list idle;       /* connections that wait for a request, the longest first */
        _Atomic weir_nsec idle_since; /* of the first of these; WEIR_FOREVER: there is none.  Written by the owner; relaxed */
        struct weir__work evict;      /* of the thread that has changed `eviction` from NONE */
        _Atomic int eviction;         /* enum weir__eviction of listen/admission.c; written by any thread */

        struct weir__shed shed;
        struct weir__counts counts;

        int64_t date_second; /* of `date` */
        char date[WEIR__HTTP_DATE_SIZE + 1];

        struct weir__cut_report *reports; /* of what was cut; the thread that stops the server takes them afterwards */
        unsigned unreported;
        uint16_t report_count;

        struct weir__work order; /* open, stop or cut; guarded by the order's being under way */
        int failed;              /* of the order to open */
};

#endif
