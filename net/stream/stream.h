/* net/stream/stream.h: a stream: a transport that tasks read and write.
 *
 *     UNOPENED --the first task--> OPEN --end, fault, break, or nobody uses it any more--> closed --> freed
 *
 * Two counts keep it.  `users` are the program's references and those of tasks: when they are gone, the stream is closed.
 * `references` keep the memory: all users together have one, the transport has one while it is registered, and an order one. */
#ifndef WEIR_NET_STREAM_H
#define WEIR_NET_STREAM_H

#include <weir/stream.h>

#include "io/base/io_task.h"
#include "kernel/base/clock.h"
#include "kernel/base/lock.h"
#include "kernel/socket/address.h"
#include "net/transport/input.h"
#include "net/transport/output.h"
#include "net/transport/transport.h"

/* A holder has the stream for itself, while other tasks of it are refused: a task that connects or shakes hands, or a protocol.
 * The functions are called on the owner. */
struct weir__holder;

struct weir__holder_ops {
        void (*go_on)(struct weir__holder *holder); /* there was an event, `is_late` or `failure` is set */
        void (*stop)(struct weir__holder *holder);  /* its server stops: it should end soon; NULL: nothing */
        void (*written)(struct weir__holder *holder, struct weir__writer *writer); /* as of a transport; NULL: writes nothing */
        bool sets_limit; /* of the transport, itself: those of the stream's kind do not hold meanwhile */
};

/* In the struct of whoever holds it. */
struct weir__holder {
        const struct weir__holder_ops *ops;
};

/* A kind of stream. */
struct weir__stream_ops {
        struct weir__transport_ops transport; /* first; WEIR__STREAM_TRANSPORT */
        size_t size; /* of the struct that begins with the stream */
        void (*waits)(struct weir_stream *stream); /* output waits for the peer; NULL: that has no limit.  May break it */
        void (*given_back)(struct weir_stream *stream); /* by its holder; NULL: that changes nothing.  May break it */
        void (*wrapped)(struct weir_stream *stream); /* 4 GiB have come, and `received` begins anew; NULL: nobody counts them */
};

/* The time limit of a stream. */
struct weir__stream_limit {
        struct weir__limit limit; /* first */
        struct weir__transport *transport;
        weir_nsec moved_at;      /* when bytes came or went last */
        weir_nsec backlogged_at; /* is_backlogged: since then none has gone */
        uint64_t sent;           /* the transport's, when bytes went last */
        bool is_backlogged;      /* output waits */
};

/* Without a hole: each idle connection has one. */
struct weir_stream {
        struct weir__transport transport; /* first; owner of the poller only */
        _Atomic uint32_t users;

        struct weir__lock lock; /* rank LEAF */

        /* Owner of the poller only. */
        uint32_t reads;    /* that have been given bytes, or the end */
        uint32_t received; /* bytes, within TLS, since the last `wrapped` of its kind */

        /* The same.  A compiler may read `failure` and what follows at once. */
        int16_t failure;  /* what later tasks end with; 0: none */
        bool is_open;     /* registered once: UNOPENED before */
        bool is_finished; /* weir_stream_finish_new waits for its turn, or has had it */
        bool has_end;     /* the peer has finished its side, and all of that was read */
        bool has_holder;  /* `holder` is set, and no other task of the stream waits */
        bool is_late;     /* the time limit that the holder has set for the transport has passed */
        bool own_flag;    /* the kind's own, as the other two: here they cost nothing */

        _Atomic uint16_t references; /* a handful at most */
        _Atomic uint8_t own_count;   /* any thread */

        /* Guarded by lock. */
        uint8_t orders; /* bits of enum order (stream.c) that `transport.requeued` has not carried out: it is on its way while
                           there are any */
        bool has_descriptor;        /* it is open: addresses may be asked for.  Written by the owner */
        bool is_broken_by_shutdown; /* it was to be broken while the runtime ended */
        bool is_secured;            /* and a handshake is over: TLS stays as long.  Written by the owner */
        bool own_locked_flag;

        /* Owner of the poller only. */
        union {
                struct weir__ring readers; /* tasks that wait */
                struct weir__holder *holder;
        };
        _Atomic size_t unsent; /* bytes of writes that have started and not ended; relaxed */
        struct weir__limit *limit; /* NULL until it has a time limit: most have none */
};

/* What a read of a broken stream ends with: not -EPIPE, which is the end of the input. */
static inline int
weir__stream_read_failure(const struct weir_stream *stream)
{
        return stream->failure == -EPIPE ? -ECONNRESET : stream->failure;
}

/* -- stream.c -- */

/* Takes the descriptor of a socket, or of what weir__stream_adopt is called with next; it does not block.  One user, the caller.
 * NULL when out of memory.  Any thread. */
struct weir_stream *weir__stream_new(int fd, unsigned poller);

/* The same of another kind. */
struct weir_stream *weir__stream_new_as(const struct weir__stream_ops *ops, int fd, unsigned poller);
void weir__stream_abandon(struct weir_stream *stream); /* it was not opened: its memory and TLS go, and the descriptor stays */

void weir__stream_keep(struct weir_stream *stream); /* one more reference to the memory; and one less */
void weir__stream_drop(struct weir_stream *stream);

/* The operations of its transport; `closed` and `time_is_up` may be the kind's own. */
#define WEIR__STREAM_TRANSPORT(its_closed, its_time_is_up)                                                                \
        {                                                                                                                 \
                .source = WEIR__TRANSPORT_SOURCE, .readable = weir__stream_readable, .writable = weir__stream_writable,   \
                .ended = weir__stream_ended, .hung_up = weir__stream_hung_up, .requeued = weir__stream_requeued,          \
                .time_is_up = (its_time_is_up), .limit = weir__stream_limit, .order_turn = weir__stream_order_turn,       \
                .shutdown = weir__stream_shut_down, .written = weir__stream_written, .closed = (its_closed),              \
                .unused = weir__stream_unused                                                                             \
        }
void weir__stream_readable(struct weir__transport *transport);
void weir__stream_writable(struct weir__transport *transport);
void weir__stream_ended(struct weir__transport *transport);
void weir__stream_hung_up(struct weir__transport *transport);
void weir__stream_requeued(struct weir__transport *transport);
void weir__stream_shut_down(struct weir__transport *transport);
void weir__stream_unused(struct weir__transport *transport);
bool weir__stream_order_turn(struct weir__transport *transport);
struct weir__limit *weir__stream_limit(struct weir__transport *transport, bool should_make);

void weir__stream_wrapped(struct weir_stream *stream);

/* Bytes have come.  Owner. */
static inline void
weir__stream_count_received(struct weir_stream *stream, size_t size)
{
        if (__builtin_expect(__builtin_add_overflow(stream->received, (uint32_t)size, &stream->received), 0))
                weir__stream_wrapped(stream);
}

/* The same: a time limit may need to know. */
static inline void
weir__stream_came(struct weir_stream *stream, size_t size)
{
        weir__stream_count_received(stream, size);
        if (__builtin_expect(stream->limit != NULL, 0))
                ((struct weir__stream_limit *)stream->limit)->moved_at = weir__clock_now();
}

/* Bytes have gone. */
static inline void
weir__stream_went(struct weir_stream *stream)
{
        struct weir__stream_limit *limit = (struct weir__stream_limit *)stream->limit;

        if (__builtin_expect(limit != NULL, 0)) {
                limit->moved_at = weir__clock_now();
                limit->sent = stream->transport.sent;
                limit->is_backlogged = false;
        }
}

/* The owner of the poller: registers it, unless that has been done.  Result: 0, or a negative errno, with which all its tasks
 * end. */
int weir__stream_open(struct weir_stream *stream);

/* The owner: it is broken.  All its tasks end with that status, and later ones. */
void weir__stream_fail(struct weir_stream *stream, int failure);

/* The status of a task that is tried now: 0 if it may go on.  Opens the stream.  Owner. */
int weir__stream_try(struct weir_stream *stream);

/* Gives the stream to a holder, and takes it back, once the holder's writers have left the output.  By the owner. */
void weir__stream_hold(struct weir_stream *stream, const struct weir__holder_ops *ops, struct weir__holder *holder);
void weir__stream_give_back(struct weir_stream *stream);
void weir__stream_be_late(struct weir_stream *stream); /* tells the holder that the time limit has passed */

/* Calls `ask` under the lock, with the TLS of a handshake that is over.  Result: that of `ask`; -ENOTCONN: the stream is closed;
 * -ENODATA: it has no TLS yet.  Any thread. */
int weir__stream_ask_tls(struct weir_stream *stream, int (*ask)(const struct weir__tls *tls, void *out), void *out);

struct weir_stream *weir__stream_use(struct weir_stream *stream); /* one more user; accepts NULL */

/* Writes the address of the peer, for people.  Any thread. */
void weir__stream_describe(struct weir_stream *stream, char *out, size_t room);

/* For the start of its tasks: gives the task the poller of the stream. */
void weir__stream_start_task(struct weir_task *task, struct weir_stream *stream);

/* -- read.c; owner -- */

void weir__stream_serve_readers(struct weir_stream *stream); /* as far as there is input */
void weir__stream_serve_last_readers(struct weir_stream *stream, int failure); /* a write has failed */
void weir__stream_end_readers(struct weir_stream *stream, int status);

/* Takes the bytes of a read, which the caller frees, inside its callback.  NULL and 0: it has none. */
char *weir__stream_take_data(struct weir_task *read, size_t *size);

/* -- write.c; owner -- */

void weir__stream_flush(struct weir_stream *stream); /* writes as much as goes out */
void weir__stream_end_writers(struct weir_stream *stream, int status);
void weir__stream_written(struct weir__transport *transport, struct weir__writer *writer); /* weir__transport_ops.written */

#endif
