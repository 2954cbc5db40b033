/* durable/engine/redis_op.h: operations as arguments of the script, and its replies as their results. */
#ifndef WEIR_DURABLE_REDIS_OP_H
#define WEIR_DURABLE_REDIS_OP_H

#include <weir/redis.h>

#include "durable/engine/engine.h"

#define WEIR__DURABLE_REDIS_BASE "{weir-durable}"

extern const char weir__durable_redis_script[];

/* Arguments of a call.  Texts that are not numbers are the operations'. */
struct weir__durable_redis_words {
        const char **texts;
        size_t *sizes;
        char (*numbers)[24]; /* as many as there are texts */
        size_t count;
};

/* How many arguments an operation has, at most. */
size_t weir__durable_redis_room(const struct weir__durable_op *op);

/* How many timers it touches, at most. */
size_t weir__durable_redis_weight(const struct weir__durable_op *op);

void weir__durable_redis_add(struct weir__durable_redis_words *words, const void *text, size_t size);
void weir__durable_redis_write(struct weir__durable_redis_words *words, const struct weir__durable_op *op);

/* The operation is to be sent once more, for the part that follows. */
#define WEIR__DURABLE_REDIS_AGAIN 1

/* Takes its part of the reply over.  Result: 0, a negative errno with op->reason, or WEIR__DURABLE_REDIS_AGAIN. */
int weir__durable_redis_read(struct weir__durable_op *op, const struct weir_redis_reply *time,
                             const struct weir_redis_reply *reply);

#endif
