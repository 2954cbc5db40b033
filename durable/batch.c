/* durable/batch.c: operations that are carried out together.
 *
 * Threads: any.  The lock of the queue is not held while a batch begins. */
#include <stdio.h>
#include <stdlib.h>

#include <weir/task.h>

#include "durable/batch.h"

#define ENDED_AT_ONCE 50 /* operations, in one callback */

void
weir__durable_queue_init(struct weir__durable_queue *queue, weir_durable *store, void *owner,
                         bool (*start)(struct weir__durable_queue *queue, struct weir__durable_op *first, uint64_t number))
{
        *queue = (struct weir__durable_queue){.store = store, .owner = owner, .start = start, .last = &queue->first};
        pthread_mutex_init(&queue->lock, NULL);
}

void
weir__durable_queue_destroy(struct weir__durable_queue *queue)
{
        pthread_mutex_destroy(&queue->lock);
}

void
weir__durable_end_all(struct weir__durable_op *op, int status, const char *reason)
{
        while (op) {
                struct weir__durable_op *next = op->next;

                snprintf(op->reason, sizeof op->reason, "%s", status && reason ? reason : "");
                weir__durable_op_end(op, status);
                op = next;
        }
}

/* Operations that have yet to be told their end. */
struct rest {
        struct weir__durable_op *first;
        int status;
        char reason[sizeof((struct weir__durable_op *)0)->reason];
};

static void
on_rest(weir_task *task, void *context)
{
        const struct rest *rest = context;

        (void)task;
        weir__durable_end_in_pieces(rest->first, rest->status, rest->reason);
}

void
weir__durable_end_in_pieces(struct weir__durable_op *first, int status, const char *reason)
{
        struct weir__durable_op **end = &first;

        for (unsigned count = 0; *end && count < ENDED_AT_ONCE; count++)
                end = &(*end)->next;
        struct weir__durable_op *others = *end;
        *end = NULL;
        weir__durable_end_all(first, status, reason);
        if (!others)
                return;
        struct rest *rest = malloc(sizeof *rest);
        weir_task *task = rest ? weir_empty_new(on_rest, rest) : NULL;
        if (rest) {
                *rest = (struct rest){.first = others, .status = status};
                snprintf(rest->reason, sizeof rest->reason, "%s", reason ? reason : "");
        }
        weir_task_set_context(task, rest, free);
        if (weir_task_start(task))
                weir__durable_end_all(others, status, reason); /* no memory, or the runtime is down */
}

/* Takes a batch out of the queue; NULL: nothing waits, and the queue is not busy any more. */
static struct weir__durable_op *
take_some(struct weir__durable_queue *queue, uint64_t *number)
{
        size_t bytes = 0;

        pthread_mutex_lock(&queue->lock);
        struct weir__durable_op *first = queue->first, **end = &queue->first;
        for (unsigned count = 0; *end && count < WEIR__DURABLE_BATCH_MOST && bytes <= WEIR__DURABLE_BATCH_BYTES; count++) {
                bytes += (*end)->payload_size;
                end = &(*end)->next;
        }
        struct weir__durable_op *rest = *end;
        *end = NULL;
        queue->first = rest;
        if (!rest)
                queue->last = &queue->first;
        queue->is_busy = first != NULL;
        *number = queue->number++;
        pthread_mutex_unlock(&queue->lock);
        return first;
}

void
weir__durable_queue_next(struct weir__durable_queue *queue)
{
        uint64_t number;

        for (;;) {
                struct weir__durable_op *first = take_some(queue, &number);

                if (!first || queue->start(queue, first, number))
                        return;
        }
}

void
weir__durable_queue_put_back(struct weir__durable_queue *queue, struct weir__durable_op *op)
{
        pthread_mutex_lock(&queue->lock);
        op->next = queue->first;
        if (!op->next)
                queue->last = &op->next;
        queue->first = op;
        pthread_mutex_unlock(&queue->lock);
}

void
weir__durable_queue_submit(struct weir__durable_queue *queue, struct weir__durable_op *op)
{
        weir_durable *store = weir__durable_ref(queue->store);

        op->next = NULL;
        pthread_mutex_lock(&queue->lock);
        *queue->last = op;
        queue->last = &op->next;
        bool should_start = !queue->is_busy;
        queue->is_busy = true;
        pthread_mutex_unlock(&queue->lock);
        if (should_start)
                weir__durable_queue_next(queue);
        weir__durable_unref(store);
}
