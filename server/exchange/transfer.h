/* server/exchange/transfer.h: tasks that read and write pieces of bodies. */
#ifndef WEIR_SERVER_TRANSFER_H
#define WEIR_SERVER_TRANSFER_H

#include "server/exchange/exchange.h"

enum weir__transfer_kind { WEIR__TRANSFER_READ, WEIR__TRANSFER_COLLECT, WEIR__TRANSFER_WRITE };

/* A piece of a body on its way in or out: the task that reads or writes it. */
struct weir__transfer {
        struct weir_task task; /* first; its word: transfer.c */

        /* Constant. */
        struct weir__exchange *exchange; /* held */
        uint8_t kind;                    /* enum weir__transfer_kind */

        /* Its maker's, then the owner's of the connection's poller, then its callback's. */
        bool is_tried;               /* the owner has had it */
        bool is_linked;              /* it waits in the connection */
        bool is_under_way;           /* some of it is written */
        struct weir__transfer *next; /* of the connection's writers */
        char *memory;                /* of a write: with room for the frame of a chunk around the data */
        char *data;                  /* what is left to write, or what was read */
        size_t size;
        weir_nsec expires_at; /* READ and COLLECT, while it waits */
        size_t max;           /* COLLECT: bytes; 0: the server's limit */
        size_t announced;     /* WRITE: in `unsent` */
};

/* A write with room for `size` bytes at `data`.  It reports `fault` when it is started, unless that is 0.  NULL when out of
 * memory. */
struct weir__transfer *weir__transfer_new_write(weir_task *exchange, size_t size, int fault, weir_task_fn *done, void *context);
void weir__transfer_complete(struct weir__transfer *transfer, int status); /* of one that waited and was taken out.  Owner */
void weir__transfer_frame(struct weir__transfer *transfer);                /* makes its data a chunk */

#endif
