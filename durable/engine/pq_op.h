/* durable/engine/pq_op.h: operations as calls of functions of PostgreSQL. */
#ifndef WEIR_DURABLE_PQ_OP_H
#define WEIR_DURABLE_PQ_OP_H

#include <weir/pq.h>

#include "durable/engine/engine.h"

/* Makes the tables and the functions, unless they are there. */
extern const char weir__durable_pq_tables[];

/* What one call carries out. */
enum weir__durable_pq_call {
        WEIR__DURABLE_PQ_SET,
        WEIR__DURABLE_PQ_REMOVE, /* cancel, forget, acknowledge */
        WEIR__DURABLE_PQ_CHANGE, /* extend, put back, the other ends */
        WEIR__DURABLE_PQ_GET,
        WEIR__DURABLE_PQ_BATCHED, /* those before are for many operations */
        WEIR__DURABLE_PQ_LIST = WEIR__DURABLE_PQ_BATCHED,
        WEIR__DURABLE_PQ_COUNT,
        WEIR__DURABLE_PQ_CLAIM,
        WEIR__DURABLE_PQ_RENEW,
};

enum weir__durable_pq_call weir__durable_pq_call_of(const struct weir__durable_op *op);

struct weir__durable_pq_item {
        struct weir__durable_op *op;
        size_t number;      /* in the order in which they came */
        bool is_superseded; /* a set, behind which the batch has another one of that name */
};

/* Operations of one call, in the order of their names, and of each name only one that is not superseded. */
struct weir__durable_pq_batch {
        enum weir__durable_pq_call call;
        uint64_t rotation;  /* another one each time: the topic that a claim begins with */
        const char *sender; /* of notifications */
        size_t count, superseded;
        struct weir__durable_pq_item items[];
};

/* The task of a call; NULL: no memory. */
weir_task *weir__durable_pq_call_new(weir_pq *pool, const struct weir__durable_pq_batch *batch, weir_task_fn *done,
                                     void *context);

/* Writes the results of a call that has succeeded into the operations; each one's status, too.
 * Result: 0, or an error of all of them. */
int weir__durable_pq_read(struct weir__durable_pq_batch *batch, const weir_task *call);

#endif
