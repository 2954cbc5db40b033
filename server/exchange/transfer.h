/* server/exchange/transfer.h: the tasks of an exchange that wait in its connection: reads and writes of bodies, event streams.
 *
 *     NEW --start--> READY --the owner tries--> done: the callback
 *                                  \--wait--> PENDING --end--> READY --> the callback
 *                                                 \---cancel--> READY --> the callback, -ECANCELED
 *
 * The work of a PENDING task is in no list.  The thread that changes PENDING, by an end or a cancel, delivers the work, once.  A
 * cancel at any other time only sets its flag, and the work finds it.  The work always runs on the poller of the connection. */
#ifndef WEIR_SERVER_TRANSFER_H
#define WEIR_SERVER_TRANSFER_H

#include "server/exchange/exchange.h"

enum weir__transfer_kind { WEIR__TRANSFER_READ, WEIR__TRANSFER_COLLECT, WEIR__TRANSFER_WRITE, WEIR__TRANSFER_EVENTS };

struct weir__transfer {
        struct weir_task task; /* first; its word: see above */

        /* Constant. */
        struct weir__exchange *exchange; /* a reference; NULL: the task is poisoned */
        uint8_t kind;                    /* enum weir__transfer_kind */
        union {
                size_t max;          /* COLLECT: bytes; 0: the server's limit */
                weir_nsec heartbeat; /* STREAM */
        };

        /* Its maker's, then the owner's of the connection's poller, then its callback's. */
        bool is_tried;               /* `try` was called */
        bool is_linked;              /* it waits in the connection */
        bool is_under_way;           /* a part of it is written */
        struct weir__link link;      /* in the connection's writers */
        char *memory;                /* of `data`, with room around it for the frame of a chunk */
        char *data;                  /* the bytes that are left to write, or that were read */
        size_t size;
        weir_nsec expires_at; /* READ and COLLECT, while it waits */
        size_t size_at_start; /* WRITE: counted in `unsent` */
};

/* The writer with that link; NULL for NULL. */
static inline struct weir__transfer *weir__transfer_of(struct weir__link *link)
{
        return link ? weir__container_of(link, struct weir__transfer, link) : NULL;
}

/* Makes a task, which is poisoned if `exchange` is no exchange.  The caller sets the fields of the kind.  NULL when out of
 * memory. */
struct weir__transfer *weir__transfer_new(enum weir__transfer_kind kind, weir_task *exchange, weir_task_fn *done, void *context);

/* A write of a copy of the data.  Its start reports `failed`, unless that is 0.  NULL when out of memory. */
weir_task *weir__transfer_new_write(weir_task *exchange, const void *data, size_t size, int failed, weir_task_fn *done,
                                    void *context);

/* Gives it a copy of the data, with a NUL behind it and room for the frame of a chunk.  Returns false when out of memory. */
bool weir__transfer_set_data(struct weir__transfer *transfer, const void *data, size_t size);
void weir__transfer_frame(struct weir__transfer *transfer); /* makes its data a chunk */

/* Owner of the poller.  The task is linked. */
void weir__transfer_complete(struct weir__transfer *transfer, int status);
void weir__transfer_leave(struct weir__transfer *transfer); /* it is not linked any more */

#endif
