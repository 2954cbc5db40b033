/* server/exchange/transfer.h: the tasks of an exchange that wait in its connection: reads and writes of bodies, event streams. */
#ifndef WEIR_SERVER_TRANSFER_H
#define WEIR_SERVER_TRANSFER_H

#include "io/base/io_task.h"
#include "net/transport/output.h"
#include "server/exchange/exchange.h"

enum weir__transfer_kind { WEIR__TRANSFER_READ, WEIR__TRANSFER_COLLECT, WEIR__TRANSFER_WRITE, WEIR__TRANSFER_EVENTS };

struct weir__transfer {
        struct weir__io_task io; /* first */

        /* Constant. */
        struct weir__exchange *exchange; /* a reference; NULL: the task is poisoned */
        union {
                size_t max;          /* COLLECT: bytes; 0: the server's limit */
                weir_nsec heartbeat; /* STREAM */
        };
        uint8_t kind;    /* enum weir__transfer_kind */
        bool is_end;     /* WRITE: after an upgrade, of the writing */
        bool is_interim; /* WRITE: it is no part of the reply, and goes out before it */

        /* Its maker's, then the owner's of the connection's poller, then its callback's. */
        struct weir__writer writer;  /* WRITE: in the output of the connection, while it waits */
        char *piece;                 /* the memory of `data`; or NULL */
        char *data;                  /* the bytes to write, or that were read */
        size_t size;
        weir_nsec expires_at; /* READ and COLLECT, while it waits */
        size_t size_at_start; /* WRITE: counted in `unsent` */
};

static inline struct weir__transfer *weir__transfer_of(struct weir__writer *writer)
{
        return weir__container_of(writer, struct weir__transfer, writer);
}

/* Makes a task, which is poisoned if `exchange` is no exchange.  The caller sets the fields of the kind.  NULL when out of
 * memory. */
struct weir__transfer *weir__transfer_new(enum weir__transfer_kind kind, weir_task *exchange, weir_task_fn *done, void *context);

/* A write of a copy of the data.  Its start reports `failed`, unless that is 0.  NULL when out of memory. */
weir_task *weir__transfer_new_write(weir_task *exchange, const void *data, size_t size, int failed, weir_task_fn *done,
                                    void *context);

/* Gives it a copy of the data, with a NUL behind it.  Returns false when out of memory. */
bool weir__transfer_set_data(struct weir__transfer *transfer, const void *data, size_t size);
void weir__transfer_frame(struct weir__transfer *transfer); /* makes its data a chunk */

/* Owner of the poller.  The task is linked. */
void weir__transfer_complete(struct weir__transfer *transfer, int status);
void weir__transfer_leave(struct weir__transfer *transfer); /* it is not linked any more */

#endif
