/* net/transport/transport.h: a connection without its protocol: a stream on a poller, its time limit, its turns and its end.
 *
 * The owner of a transport embeds it, gives it a table of operations, and adds the protocol.
 *
 *     OPEN --weir__transport_linger--> LINGERING --the end of the input, or its time is up--> CLOSED --> `unused`: freed
 *       \---weir__transport_close-----------------------------------------------------------^
 *
 *      struct talk {
 *              struct weir__transport transport;
 *      };
 *      static const struct weir__transport_ops ops = {.source = WEIR__TRANSPORT_SOURCE, .readable = read_on, ...};
 *
 *      weir__transport_init(&talk->transport, &ops, poller, fd);
 *      failed = weir__transport_open(&talk->transport);
 *
 * Any function of this room may close a transport.  It stays in memory then, CLOSED, so no caller has to look.  Its owner frees
 * it when the transport calls `unused`, or later.
 *
 * Owner of the poller only. */
#ifndef WEIR_NET_TRANSPORT_H
#define WEIR_NET_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/time.h>

#include "kernel/base/list.h"
#include "kernel/data/work.h"
#include "kernel/loop/deadlines.h"
#include "kernel/loop/pollers.h"
#include "kernel/socket/stream.h"

#define WEIR__LEAVES_FIRST ((size_t)8 * 1024) /* bytes: any system sends as many before it waits for the peer */

struct weir__transport;
struct weir__writer;

/* What the owner of a transport does. */
struct weir__transport_ops {
        struct weir__source_ops source; /* WEIR__TRANSPORT_SOURCE */

        /* While it is OPEN.  All may close it; `written` only if nothing is queued behind the writer. */
        void (*readable)(struct weir__transport *transport);   /* an event has come: there may be input; last of its event */
        void (*writable)(struct weir__transport *transport);   /* output waits, and the socket may have room */
        void (*ended)(struct weir__transport *transport);      /* the peer has finished its side; once */
        void (*hung_up)(struct weir__transport *transport);    /* reset, or finished on both sides: only input may be left */
        void (*requeued)(struct weir__transport *transport);   /* its turn has come again: go on writing and reading */
        void (*time_is_up)(struct weir__transport *transport); /* the time limit has passed */
        void (*written)(struct weir__transport *transport, struct weir__writer *writer); /* its bytes are out; it is unlinked */

        /* The time limit, of weir__limit_new: NULL as long as there is none.  `should_make`: it is needed now; NULL when out of
         * memory.  NULL in place of the function: a struct weir__limit lies right behind the transport. */
        struct weir__limit *(*limit)(struct weir__transport *transport, bool should_make);

        /* A turn is wanted, and the owner has other uses for the work item `requeued`.  Result: true: it is given to the poller
         * now; false: it is on its way already.  The owner calls weir__transport_take_turn when it has come.  NULL: it has no
         * other use. */
        bool (*order_turn)(struct weir__transport *transport);

        /* Later as well. */
        void (*shutdown)(struct weir__transport *transport); /* the runtime is ending */
        void (*closed)(struct weir__transport *transport);   /* once, in weir__transport_close: the descriptor is closed */
        void (*unused)(struct weir__transport *transport);   /* CLOSED: nothing here refers to it any more */
};

enum weir__transport_phase {
        WEIR__TRANSPORT_OPEN = 0,
        WEIR__TRANSPORT_LINGERING, /* our side is finished; the input is thrown away */
        WEIR__TRANSPORT_CLOSED,    /* the descriptor is closed */
};

/* Bytes that were read and not used.  A transport owns no such buffer in the steady state. */
struct weir__input {
        char *data; /* or NULL */
        uint32_t size, room;
};

/* The deadline of the time limit, and the alarm that comes at it or before.  An early alarm is set again. */
struct weir__limit {
        struct weir__alarm alarm;
        weir_nsec expires_at; /* WEIR_FOREVER: there is no limit */
        union {
                size_t untaken;          /* bytes that the peer's system had not taken: weir__output_note_untaken */
                weir_nsec lingers_until; /* LINGERING: closed then, even if input still comes */
        };
};

struct weir__transport {
        struct weir__stream stream; /* first; its source has the operations */

        struct weir__work requeued; /* goes on behind other work; CLOSED: frees the transport */
        struct weir__input input;   /* LINGERING: `size` counts the bytes that were thrown away */
        struct weir__list writers;  /* the outgoing queue: output.h */
        uint64_t sent;              /* bytes that were written; the owner may set it to 0 */

        uint8_t phase;       /* enum weir__transport_phase */
        _Atomic uint8_t poller; /* relaxed.  Constant once it is open */
        uint8_t budget_used; /* reads since other work had its turn; a large one counts as several: turns.c */
        bool is_alarm_set;   /* of the limit; or its work is on its way */
        bool is_requeued;    /* `requeued` is on its way, or waits for a turn of the owner's */
        bool is_ready;       /* the socket may have input */
        bool has_ended;      /* the peer may have finished its side: after a short read the end may follow */
        bool must_break;     /* a close must be a reset: the peer must not take what it has for the whole */
};

static inline const struct weir__transport_ops *
weir__transport_ops_of(const struct weir__transport *transport)
{
        return (const struct weir__transport_ops *)(const void *)transport->stream.source.ops;
}

static inline struct weir__poller *
weir__transport_poller(const struct weir__transport *transport)
{
        return weir__poller_at(atomic_load_explicit(&transport->poller, memory_order_relaxed));
}

static inline bool
weir__transport_is_closed(const struct weir__transport *transport)
{
        return transport->phase == WEIR__TRANSPORT_CLOSED;
}

/* Whether no work of it is on its way: a CLOSED one may be freed.  Before that the owner calls weir__transport_done. */
static inline bool
weir__transport_is_unused(const struct weir__transport *transport)
{
        return !transport->is_alarm_set && !transport->is_requeued;
}

static inline struct weir__limit *
weir__transport_limit(struct weir__transport *transport, bool should_make)
{
        const struct weir__transport_ops *ops = weir__transport_ops_of(transport);

        return ops->limit ? ops->limit(transport, should_make) : (struct weir__limit *)(void *)(transport + 1);
}

/* -- life: transport.c -- */

/* Takes the descriptor of a connected socket, which does not block.  All other fields are zero; the owner may set `stream.tls`
 * before weir__transport_open. */
void weir__transport_init(struct weir__transport *transport, const struct weir__transport_ops *ops, unsigned poller, int fd);
/* Registers it.  Result: 0, or -ENOMEM, -ENOSPC: the descriptor and TLS are the caller's again. */
int weir__transport_open(struct weir__transport *transport);
void weir__transport_done(struct weir__transport *transport); /* frees what it has; the struct is its owner's */

/* The operations of the source in a table of operations. */
#define WEIR__TRANSPORT_SOURCE {weir__transport_ready, weir__transport_shutdown, weir__transport_destroy}
void weir__transport_ready(struct weir__source *source, uint32_t events);
void weir__transport_shutdown(struct weir__source *source);
void weir__transport_destroy(struct weir__source *source);

/* -- time limits: limit.c -- */

/* The time limit is that long, from `now` on; WEIR_FOREVER: there is none.  Returns false when there is no memory for it: never
 * if it lies behind the transport, or was set before. */
bool weir__transport_set_limit(struct weir__transport *transport, weir_nsec now, weir_nsec duration);

/* A limit that lies apart, with the address of its transport behind it, and room for more of the owner's: `size` bytes in all.
 * The owner frees it by weir__free, when the transport is unused.  NULL when out of memory. */
struct weir__limit *weir__limit_new(struct weir__transport *transport, size_t size);
void weir__transport_alarm_came(struct weir__transport *transport, weir_nsec expires_at); /* transport.c: of a limit */

/* -- turns: a transport that has used up its read budget goes on behind other work: turns.c -- */

bool weir__transport_may_read(struct weir__transport *transport); /* there is input and budget.  Without budget it is requeued */
void weir__transport_count_read(struct weir__transport *transport, size_t size); /* a read of that size */
void weir__transport_requeue(struct weir__transport *transport); /* weir__transport_ops.requeued follows */
void weir__transport_take_turn(struct weir__transport *transport); /* transport.c: it has come; may free the transport */

/* Orders a turn, which `is_requeued` tells of.  Returns whether `requeued` is to be given to the poller for it. */
static inline bool
weir__transport_order_turn(struct weir__transport *transport)
{
        const struct weir__transport_ops *ops = weir__transport_ops_of(transport);

        return !ops->order_turn || ops->order_turn(transport);
}

/* -- the end: close.c -- */

/* Closes it, and calls `closed`.  Does nothing if it is CLOSED. */
void weir__transport_close(struct weir__transport *transport);

/* All has been written.  Whether the peer gets it if the descriptor is closed now.  Otherwise input may be on its way, and a
 * close would make the system send a reset in place of what it has not sent yet: weir__transport_linger.  `has_unread`: the owner
 * knows of such input. */
bool weir__transport_may_close(struct weir__transport *transport, bool has_unread);

/* Finishes our side, throws away the input, and closes when that ends, or when nothing has come for some seconds.  Lasts
 * `longest` in all. */
void weir__transport_linger(struct weir__transport *transport, weir_nsec longest);
void weir__transport_linger_at_most(struct weir__transport *transport, weir_nsec longest); /* from now on; LINGERING */
void weir__transport_linger_on(struct weir__transport *transport); /* after an event or a turn */

#endif
