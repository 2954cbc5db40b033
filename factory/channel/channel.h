/* factory/channel/channel.h: a channel, as tasks that wait at several see it. */
#ifndef WEIR_FACTORY_CHANNEL_H
#define WEIR_FACTORY_CHANNEL_H

#include <weir/channel.h>

#include "factory/sync/waitable.h"

/* Some of the messages, in order. */
struct weir__channel_block {
        struct weir__channel_block *next;
        uint32_t first, end; /* of those that are there */
        void *messages[];
};

struct weir_channel {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock.  Senders wait only while it is full, receivers only while it is empty. */
        struct weir__wait_list senders, receivers;
        struct weir__channel_block *first, *last;
        struct weir__channel_block *spare; /* an empty one, or NULL */
        size_t length;
        bool closed;

        /* Constant. */
        uint32_t block_room; /* messages of a block */
        size_t capacity;
        weir_free_fn *drop;
};

/* Gives the message to who waits for one, whom the caller delivers, or keeps it.  Returns 0, with *receiver NULL or to be delivered; -EAGAIN when there is no
 * place; -EPIPE, -ENOMEM.  Under the lock. */
int weir__channel_put(struct weir_channel *channel, void *message, struct weir__wait **receiver);

/* Takes the oldest message.  Returns 0, with *sender NULL or to be delivered, whose own message was sent; -EAGAIN, -EPIPE.  Under the lock. */
int weir__channel_get(struct weir_channel *channel, void **message, struct weir__wait **sender);

/* What a task does that sends or receives. */
struct weir__channel_ops {
        /* Where its references to the channel are counted (weir__channel_hold); NULL: it has none. */
        uint8_t *(*held)(struct weir_task *task, const struct weir_channel *channel);

        /* The wait that has its message; NULL: no wait of it was fulfilled. */
        struct weir__wait *(*won)(const struct weir_task *task);

        /* Takes the message of that wait. */
        void *(*take)(struct weir_task *task, struct weir__wait *won);
};

/* References to the channel for a wait that is made now, and how many.  A task whose callback runs and that has two lends one: that
 * saves an atomic operation.  Else they are two. */
unsigned weir__channel_hold(struct weir_channel *channel);

/* Gives them up, on the worker; or passes them on to a task for the channel that the callback of `task` has pushed.  NULL: none. */
void weir__channel_let_go(struct weir_channel *channel, unsigned held, const struct weir_task *task);

/* Gives up a message that nobody has taken.  No lock held. */
void weir__channel_drop(struct weir_channel *channel, void *message);

#endif
