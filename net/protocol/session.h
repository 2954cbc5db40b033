/* net/protocol/session.h: a session: a stream that speaks a protocol, as client or as server.
 *
 *     OPEN --end, fault, limit, close--> over: the stream is given back, `ended` follows by a work item --> freed
 *
 *     the stream --> frames --side's `receive`--> messages, or replies to requests
 *     the stream <-- outgoing <-- replies, requests, pushes
 *
 * The side, an endpoint's connection or a server, embeds it.  Owner of the stream's poller only, but for the references. */
#ifndef WEIR_NET_SESSION_H
#define WEIR_NET_SESSION_H

#include "net/protocol/frame.h"
#include "net/stream/stream.h"

struct weir__cut;
struct weir__message;

/* A message that goes out.  It lies in what owns the bytes. */
struct weir__outgoing {
        struct weir__writer writer;

        /* It is out, or it never will be: the status is why.  It is in no list. */
        void (*done)(struct weir__outgoing *outgoing, struct weir_session *session, int status);
};

/* What a side does. */
struct weir__side {
        bool is_server;
        weir_nsec idle_limit; /* unless the description says another */

        /* A whole message has come, with its number.  The bytes stay until this returns.  Runs no user code.
         *
         * Result:  0, or why the session ends. */
        int (*receive)(struct weir_session *session, const char *data, size_t size, uint64_t id);
        bool (*expects)(const struct weir_session *session); /* whether bytes may come now; else they break it */
        bool (*is_asked)(const struct weir_session *session); /* a reply is waited for; NULL: never */
        void (*settled)(struct weir_session *session);       /* something has changed, and all that came is received */
        void (*late)(struct weir_session *session);          /* the limit has passed that `limit` gave */
        weir_nsec (*limit)(struct weir_session *session);    /* the instant, while nothing waits to be sent; or WEIR_FOREVER */
        void (*ended)(struct weir_session *session);         /* once, over; by a work item of its own; NULL: nothing */
        void (*gone)(struct weir_session *session);          /* behind that, when all messages have come back; NULL: nothing */
        void (*free)(struct weir_session *session);          /* the last reference is gone */

        /* Of cut.c and message.c, which know sessions: so all sides have the same. */
        void (*cut)(struct weir_session *session);
        void (*cut_messages)(struct weir_session *session);
};

struct weir_session {
        _Atomic uint32_t references;

        /* Constant. */
        const struct weir__side *side;
        const struct weir_protocol *protocol;
        uint8_t poller;

        /* Owner. */
        bool is_over;
        bool has_end;      /* the peer has finished its side */
        bool is_closing;   /* it takes in no more, and is over when all is answered and out */
        bool is_partial;   /* the beginning of a message has come */
        bool is_flush_due; /* `flushing` is on its way */
        uint8_t flush_waits;            /* how often it has given way to more output */
        unsigned flushes, flushes_seen; /* asked for since it is on its way; when it gave way last */
        bool is_receiving; /* messages are being received: what changes is settled behind them */
        bool is_sending;   /* the limit is that of output */
        bool is_called;    /* a function of the program looks at its bytes: seen by others if that has lost the poller */
        bool is_done;      /* it takes in no more, and nobody waits for what comes */
        bool has_ended;    /* `ended` was called; `gone` follows when there is no message */
        int status;        /* over: why */
        unsigned messages; /* that have come and are not answered and out: message.c */
        unsigned unanswered; /* of them */
        size_t message_bytes; /* in them */
        size_t scanned;    /* bytes of the input without a delimiter */
        size_t wanted;     /* the size of its first message, if a frame function has said that; else 0 */
        uint64_t words[WEIR_FRAME_WORDS]; /* of the frame function, for that message */
        weir_nsec partial_since, sent_at;
        weir_nsec flushed_at; /* in a flush: the time of its writes; 0: nobody has asked for it */
        weir_nsec idle_since; /* bytes have come, or a message has gone; counts while there is none */
        uint64_t sent;     /* of the transport, at `sent_at` */

        struct weir_stream *stream; /* a use; NULL: over */
        struct weir__holder holder; /* of that */
        struct weir__list replies;  /* struct weir__message, in the order in which they came */
        struct weir__work_list *answered; /* while a cut is received: work items that run in a call of the program's; or NULL */
        struct weir__cut *cut;      /* functions of the program read what has come: cut.c; or NULL */
        weir_task_fn *handler;      /* of messages, and its context */
        void *handler_context;

        struct weir__work flushing; /* with a reference */
        struct weir__work ending;   /* with the reference of the side */
        struct weir__work closing;  /* with a reference; belongs to the thread that has set the flag */
        _Atomic bool is_close_asked;

        _Atomic uintptr_t context; /* the program's */
        weir_free_fn *free_context;
};

/* -- session.c -- */

/* All other fields are zero.  One reference, the side's. */
void weir__session_init(struct weir_session *session, const struct weir__side *side, const struct weir_protocol *protocol);

/* Takes the stream for itself, and a use of it.  Result: 0; -EBUSY; the failure of the stream. */
int weir__session_open(struct weir_session *session, struct weir_stream *stream);

/* It is over, with that status; negative: the stream is broken.  Does nothing if it was over. */
void weir__session_end(struct weir_session *session, int status);

/* Goes on with what has come, as far as it may, and settles. */
void weir__session_receive(struct weir_session *session);

/* Puts it behind the others.  A flush must follow. */
static inline void
weir__session_put(struct weir_session *session, struct weir__outgoing *outgoing)
{
        weir__output_append(&session->stream->transport, &outgoing->writer);
}

void weir__session_send(struct weir_session *session);        /* now */
void weir__session_flush(struct weir_session *session);       /* now; then receives, for there may be room again */
void weir__session_flush_later(struct weir_session *session); /* behind other ready work */

/* What is left is the beginning of a message. */
void weir__session_note_partial(struct weir_session *session);

#define WEIR__PUSHES      64   /* that a client takes in and has not handled */
#define WEIR__PUSHES_MOST 1024 /* the same while a request waits, whose reply may be behind them; in no more bytes */

unsigned weir__session_more_room(const struct weir_session *session); /* there is none as long as nobody waits */

/* How many more messages may be taken in. */
static inline unsigned
weir__session_room(const struct weir_session *session)
{
        unsigned most = session->side->is_server ? weir__protocol_depth(session->protocol) : WEIR__PUSHES;

        if (session->is_over || session->is_done)
                return 0;
        if (session->side->is_server &&
            (session->is_closing || atomic_load_explicit(&session->is_close_asked, memory_order_relaxed)))
                return 0; /* what a handler has asked for holds before its reply is out */
        return session->messages < most ? most - session->messages : weir__session_more_room(session);
}

static inline bool
weir__session_has_room(const struct weir_session *session)
{
        return weir__session_room(session);
}

static inline void
weir__session_keep(struct weir_session *session)
{
        atomic_fetch_add_explicit(&session->references, 1, memory_order_relaxed);
}

void weir__session_drop(struct weir_session *session);

/* A message has come or gone: the idle time begins anew. */
void weir__session_note_use(struct weir_session *session);

/* When it has been idle for too long; WEIR_FOREVER: it is not idle, or may be for ever. */
weir_nsec weir__session_idle_until(const struct weir_session *session);

/* Whether it could end now without a loss: no message of the peer is being looked at or handled, and none of ours is on its
 * way. */
bool weir__session_is_quiet(const struct weir_session *session);

/* For dumps: who is at the other end. */
void weir__session_describe(const struct weir_session *session, char *out, size_t room);

/* -- cut.c: what functions of the program say of what has come -- */

/* Has them look at the input, unless they do already: `cut` of all sides. */
void weir__session_cut(struct weir_session *session);
static inline bool
weir__session_is_cutting(const struct weir_session *session)
{
        return session->cut;
}

void weir__session_note_gone(struct weir_session *session); /* there is no message, and it has ended */

/* -- message.c: messages that have come -- */

/* Has the handler called.  Result: 0; -ENOMEM; -ESHUTDOWN. */
int weir__message_deliver(struct weir_session *session, const char *data, size_t size, uint64_t id);
void weir__messages_cut(struct weir_session *session); /* it is over: cancels the series of those under way.  `cut_messages` */

/* -- send.c -- */

/* A copy of a message that goes out, in the room if that suffices, else from weir__alloc.  `call` logs a fault.
 *
 * Result:  its size is in *whole; NULL with the fault there, -ENOMEM when out of memory. */
char *weir__message_pack(const struct weir_protocol *protocol, const void *data, size_t size, ssize_t *whole, char *room,
                         size_t room_size, const char *call);

#endif
