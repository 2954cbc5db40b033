/* net/serve/stream_server.h: servers of streams.
 *
 *     weir_stream_server --- a branch for each poller --- its connections --- a stream and a series each
 *
 * A connection goes from here to the handler, and to its end:
 *
 *     accept --> handshake of TLS --> the handler, a work item of its own --> the series --> the end of the series
 *        \------------------------------\------------- the connection closes ---------------> the end of both
 *
 * The series has a use of the stream: with its end the stream is closed, unless the program has a reference. */
#ifndef WEIR_NET_STREAM_SERVER_H
#define WEIR_NET_STREAM_SERVER_H

#include <weir/stream_server.h>

#include "net/listen/server.h"
#include "net/serve/counts.h"
#include "net/stream/stream.h"
#include "net/transport/handshake.h"

#define WEIR__STREAMS "stream" /* weir__server_ops.protocol */

struct weir_stream_server {
        struct weir__server base; /* first */

        /* Constant. */
        weir_stream_fn *handler;
        void *context;
        weir_nsec handshake_timeout, idle_timeout, write_timeout; /* WEIR_FOREVER: none */
};

/* Owner of the poller only, but for what is atomic. */
struct weir__stream_branch {
        struct weir__branch base; /* first */
        struct weir__handshakes handshakes; /* a user of the server while their work is on its way */

        struct weir__stream_counts counts;

        _Atomic size_t series; /* that have not ended, from before the handler on; relaxed */
        _Atomic bool is_cut;   /* written by the owner; relaxed */
};

/* -- served.c: weir__server_ops -- */

void weir__served_accept(struct weir__branch *branch, int fd, const struct weir__peer *peer, bool is_admitted);
void weir__served_stop(struct weir__branch *branch);
void weir__served_cut(struct weir__branch *branch);

extern const struct weir__handshakes_ops weir__served_handshakes_ops;

#endif
