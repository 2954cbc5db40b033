/* durable/batch.h: operations gather in a queue while those before are carried out, and are carried out together then. */
#ifndef WEIR_DURABLE_BATCH_H
#define WEIR_DURABLE_BATCH_H

#include <pthread.h>

#include "durable/engine/engine.h"

/* At most so many operations are one batch, with so many bytes of payloads. */
#define WEIR__DURABLE_BATCH_MOST  500
#define WEIR__DURABLE_BATCH_BYTES (4 << 20)

struct weir__durable_queue {
        weir_durable *store;
        void *owner; /* what `start` works for */

        /* Begins a batch: a list by `next`.  At its end weir__durable_queue_next is called.  `number`: of the batch.
         * Result: false: nothing is under way, and the operations have ended, or were put back. */
        bool (*start)(struct weir__durable_queue *queue, struct weir__durable_op *first, uint64_t number);

        /* Guarded by `lock`. */
        pthread_mutex_t lock;
        struct weir__durable_op *first, **last;
        bool is_busy;
        uint64_t number; /* of the next batch */
};

void weir__durable_queue_init(struct weir__durable_queue *queue, weir_durable *store, void *owner,
                              bool (*start)(struct weir__durable_queue *queue, struct weir__durable_op *first, uint64_t number));
void weir__durable_queue_destroy(struct weir__durable_queue *queue);

/* Takes an operation in.  Threads: any. */
void weir__durable_queue_submit(struct weir__durable_queue *queue, struct weir__durable_op *op);

/* Puts an operation of a batch that is not at its end to the head of the queue. */
void weir__durable_queue_put_back(struct weir__durable_queue *queue, struct weir__durable_op *op);

/* A batch is at its end: begins one of what waits, if there is something.  The caller has a reference of the store. */
void weir__durable_queue_next(struct weir__durable_queue *queue);

/* Ends a list of operations. */
void weir__durable_end_all(struct weir__durable_op *op, int status, const char *reason);

/* The same for a long list: some end at once, and the others in a task that comes when the other work of the poller has had its
 * turn.  To end 500 takes some milliseconds. */
void weir__durable_end_in_pieces(struct weir__durable_op *first, int status, const char *reason);

#endif
