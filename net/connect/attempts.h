/* net/connect/attempts.h: attempts to connect to the addresses of a name, side by side.  Source: RFC 8305. */
#ifndef WEIR_NET_ATTEMPTS_H
#define WEIR_NET_ATTEMPTS_H

#include <stdbool.h>

#include <weir/time.h>

#include "kernel/base/list.h"
#include "kernel/socket/address.h"
#include "net/stream/stream.h"

#define WEIR__ATTEMPT_DELAY WEIR_MSEC(250) /* until the next address is tried beside the others */

struct weir__attempts;

/* An attempt at one address. */
struct weir__attempt {
        struct weir__link link; /* in the list of those that run */
        struct weir__attempts *attempts;
        struct weir_stream *stream; /* a use */
        struct weir__holder holder; /* of that */
        unsigned name;
};

/* All fields but the first group are zero at first.  Owner of the poller. */
struct weir__attempts {
        unsigned poller;
        void (*ended)(struct weir__attempts *attempts, int status); /* 0: `stream` is connected */

        const struct weir__socket_address *names;
        struct weir__socket_address *own_names; /* malloc; NULL: `names` are lent */
        unsigned count, next;               /* of the names */
        struct weir__list running;
        struct weir__attempt first;        /* most connects need no other */
        struct weir__attempt_timer *timer; /* NULL: it is not set */
        weir_nsec again_after;             /* while a Unix socket has no room */
        int failed;                        /* how the last one has failed */
        unsigned last;                     /* of the names: the last one that has failed, or has connected */
        struct weir_stream *stream;        /* the one that has connected; a use, without a holder */
};

/* Sets the addresses, of which those of both families take turns.  `port` is in the host's order; 0: as in the addresses.
 *
 * Result: 0 or -ENOMEM. */
int weir__attempts_set(struct weir__attempts *attempts, const struct weir__socket_address *names, unsigned count, in_port_t port);

/* The same for one address, with its port, which stays until the end. */
void weir__attempts_lend(struct weir__attempts *attempts, const struct weir__socket_address *name);

/* Begins.  Result: 0: it is connected; -EINPROGRESS: `ended` is called later; how the last attempt has failed. */
int weir__attempts_begin(struct weir__attempts *attempts);

/* Closes all attempts, and the stream that has connected. */
void weir__attempts_end(struct weir__attempts *attempts);

/* The address of the last attempt that has failed, or of the one that has connected; NULL: none was tried. */
const struct weir__socket_address *weir__attempts_last(const struct weir__attempts *attempts);

#endif
