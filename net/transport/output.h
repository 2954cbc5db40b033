/* net/transport/output.h: the outgoing queue of a transport.
 *
 *     writer, writer, writer --weir__output_flush--> the socket; `written` for each
 *
 * A writer is bytes in memory, gathered or not, a part of a file, or what is in a pipe.  It lies in what owns the bytes: a
 * task, a reply, a struct of the owner.  Nothing is copied, and the transport has no buffer.
 *
 * Owner of the poller only. */
#ifndef WEIR_NET_OUTPUT_H
#define WEIR_NET_OUTPUT_H

#include "net/transport/transport.h"

enum weir__writer_kind {
        WEIR__WRITER_BYTES = 0,
        WEIR__WRITER_PIECES, /* an array of pieces, which the queue changes as they go out */
        WEIR__WRITER_FILE,
        WEIR__WRITER_PIPE, /* what is in a pipe */
        WEIR__WRITER_END,  /* of the writing, without bytes; nothing is queued behind it */
};

struct weir__writer {
        struct weir__link link; /* in the transport's writers */
        union {
                char *data;           /* BYTES: those that are left; the owner's at any other time */
                struct iovec *pieces; /* PIECES: `count` of them are left */
                uint64_t at;          /* FILE: `left` bytes of it from there on */
        };
        uint64_t left; /* bytes */
        union {
                int file;       /* FILE, PIPE: the descriptor */
                uint32_t count; /* PIECES */
        };
        uint8_t kind;      /* enum weir__writer_kind */
        bool is_under_way; /* a part of it is written */
};

/* The writer with that link; NULL for NULL. */
static inline struct weir__writer *
weir__writer_of(struct weir__link *link)
{
        return link ? weir__container_of(link, struct weir__writer, link) : NULL;
}

static inline bool
weir__output_is_empty(const struct weir__transport *transport)
{
        return weir__list_is_empty(&transport->writers);
}

static inline void
weir__output_append(struct weir__transport *transport, struct weir__writer *writer)
{
        weir__list_append(&transport->writers, &writer->link);
}

/* Before the others; none of them is under way. */
static inline void
weir__output_prepend(struct weir__transport *transport, struct weir__writer *writer)
{
        weir__list_prepend(&transport->writers, &writer->link);
}

/* Writes what the socket takes.  Calls `written` for each writer that is out; an empty one is.
 *
 * Result:  1 when the queue is empty; 0 when the rest waits for the socket, or for a turn: weir__transport_ops.requeued;
 *          -ENODATA when a file is shorter than it was; another negative errno when the stream or the file is broken. */
int weir__output_flush(struct weir__transport *transport);

/* How many bytes wait. */
uint64_t weir__output_left(const struct weir__transport *transport);

/* Whether a writer in the queue cannot be taken back: a part of it is out, or TLS has encrypted it. */
bool weir__output_is_on_its_way(const struct weir__transport *transport, const struct weir__writer *writer);

/* -- slow peers -- */

/* Notes how much the peer's system has not taken yet.  A socket may hold megabytes, and becomes writable again only when a good
 * part of them was taken.  A slow peer may need longer for that than a time limit.  Without one nothing is noted. */
void weir__output_note_untaken(struct weir__transport *transport);
bool weir__output_was_taken(const struct weir__transport *transport); /* whether it has taken something since then */

#endif
