/* net/transport/handshake.h: handshakes of TLS take turns with other work.
 *
 * One struct for all transports of an owner on a poller: the connections of a server, for example.
 *
 * Owner of the poller only. */
#ifndef WEIR_NET_HANDSHAKE_H
#define WEIR_NET_HANDSHAKE_H

#include "net/transport/transport.h"

struct weir__handshakes;

struct weir__handshakes_ops {
        int64_t (*moved)(const struct weir__handshakes *handshakes); /* a number that changes when others do something */
        void (*hold)(struct weir__handshakes *handshakes);           /* its work is on its way: it must stay in memory */
        void (*release)(struct weir__handshakes *handshakes);        /* no more; it may be freed in this call */
};

struct weir__handshakes {
        /* Constant. */
        const struct weir__handshakes_ops *ops;
        struct weir__poller *poller;

        struct weir__work_list waiting; /* by `requeued` of the transports */
        struct weir__work work;
        bool is_under_way; /* `work` is on its way: no other handshake goes on before */
        bool has_turn;     /* the transport that runs may go on */
        weir_nsec ended_at, took; /* of the last step of a handshake; real time */
        int64_t moved;            /* when `work` ran last */
};

/* All other fields are zero. */
void weir__handshakes_init(struct weir__handshakes *handshakes, const struct weir__handshakes_ops *ops,
                           struct weir__poller *poller);

/* Whether the handshake may go on now.  If not, the transport is requeued until its turn comes. */
bool weir__handshakes_may_go_on(struct weir__handshakes *handshakes, struct weir__transport *transport);
/* A step of a handshake is over, which began then: weir__clock_monotonic. */
void weir__handshakes_note(struct weir__handshakes *handshakes, weir_nsec began);

#endif
