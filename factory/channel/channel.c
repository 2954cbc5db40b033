/* factory/channel/channel.c: channels.
 *
 * Threads: any.
 * Locks:   the object's; `drop` is called without.
 *
 * A message is at one place at a time, which owes it to `drop`: the wait of a task, or the channel.
 *
 * The limit of the object is the capacity, the amount is how many messages it holds. */
#include "factory/channel/channel.h"

#include <errno.h>
#include <stdlib.h>

#include "kernel/base/phase.h"

#define BLOCK_ROOM 254 /* messages of a block, at most: 2 KiB */

/* Some of the messages, in order. */
struct block {
        struct block *next;
        uint32_t first, end; /* of those that are there */
        void *messages[];
};

struct weir_channel {
        struct weir__waitable object; /* first */

        /* Guarded by the object's lock.  Senders wait only while the channel is full, receivers only while it is empty. */
        struct weir__list senders, receivers;
        struct block *first, *last;
        struct block *empty; /* to be filled next; or NULL */
        bool is_closed;
};

/* -- the messages that it holds; under the lock -- */

static uint32_t
block_room(const struct weir_channel *channel)
{
        return channel->object.limit < BLOCK_ROOM ? (uint32_t)channel->object.limit : BLOCK_ROOM;
}

static bool
keep(struct weir_channel *channel, void *message)
{
        struct block *last = channel->last;

        if (!last || last->end == block_room(channel)) {
                last = channel->empty;
                channel->empty = NULL;
                if (!last && !(last = malloc(sizeof *last + block_room(channel) * sizeof *last->messages)))
                        return false;
                last->next = NULL;
                last->first = last->end = 0;
                *(channel->last ? &channel->last->next : &channel->first) = last;
                channel->last = last;
        }
        last->messages[last->end++] = message;
        channel->object.amount++;
        return true;
}

/* The last block stays when it becomes empty, to be filled again. */
static void *
take_oldest(struct weir_channel *channel)
{
        struct block *block = channel->first;
        void *message = block->messages[block->first++];

        channel->object.amount--;
        if (block->first < block->end)
                return message;
        block->first = block->end = 0;
        if (!block->next)
                return message;
        channel->first = block->next;
        if (channel->empty)
                free(block);
        else
                channel->empty = block;
        return message;
}

static int
put(struct weir_channel *channel, void **message, struct weir__work_list *claimed)
{
        if (channel->is_closed)
                return -EPIPE;
        struct weir__wait *receiver = weir__wait_pop(&channel->receivers, claimed);
        if (receiver)
                receiver->message = *message;
        else if (channel->object.amount >= channel->object.limit)
                return -EAGAIN;
        else if (!keep(channel, *message))
                return -ENOMEM;
        *message = NULL;
        return 0;
}

/* The oldest sender's message comes into the place of the message that is taken, or is taken itself. */
static int
get(struct weir_channel *channel, void **message, struct weir__work_list *claimed)
{
        bool holds = channel->object.amount > 0;

        if (holds)
                *message = take_oldest(channel);
        struct weir__wait *sender = channel->is_closed ? NULL : weir__wait_pop(&channel->senders, claimed);
        if (!sender)
                return holds ? 0 : channel->is_closed ? -EPIPE : -EAGAIN;
        if (!holds)
                *message = weir__wait_take_message(sender);
        else if (keep(channel, sender->message))
                sender->message = NULL;
        else
                sender->task->task.status = -ENOMEM;
        return 0;
}

int
weir__channel_try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        struct weir_channel *channel = (struct weir_channel *)wait->object;

        return wait->queue == WEIR__CHANNEL_SENDERS ? put(channel, &wait->message, claimed)
                                                    : get(channel, &wait->message, claimed);
}

/* -- the channel -- */

static void
clear(struct weir__waitable *object)
{
        struct weir_channel *channel = (struct weir_channel *)object;

        while (channel->object.amount > 0)
                weir__waitable_drop(object, take_oldest(channel));
        free(channel->first);
        free(channel->empty);
}

static const struct weir__waitable_ops channel_ops = {.kind = WEIR__CHANNEL,
                                                      .noun = "channel",
                                                      .size = sizeof(struct weir_channel),
                                                      .queues = 2,
                                                      .try = weir__channel_try,
                                                      .clear = clear};

weir_channel *
weir_channel_new(size_t capacity, weir_free_fn *drop)
{
        return (weir_channel *)weir__waitable_new(&channel_ops, 0, capacity, drop);
}

weir_channel *
weir_channel_open(const char *name, size_t capacity, weir_free_fn *drop)
{
        return (weir_channel *)weir__waitable_unique(weir__waitable_new_named(&channel_ops, name, 0, capacity, drop));
}

WEIR__WAITABLE_REFERENCES(weir_channel, weir_channel_ref, weir_channel_unref)

int
weir_channel_close(weir_channel *channel)
{
        int failed = weir__waitable_fault((struct weir__waitable *)channel);

        if (failed)
                return failed;
        weir__waitable_lock(&channel->object);
        if (channel->is_closed)
                failed = -EALREADY;
        channel->is_closed = true;
        weir__wait_end_all(&channel->object, &channel->senders, -EPIPE);
        weir__wait_end_all(&channel->object, &channel->receivers, -EPIPE);
        weir__unlock(&channel->object.lock);
        return failed;
}

/* Inline, so that a post and a poll know that there is nothing to arm. */
static inline __attribute__((__always_inline__)) int
send(struct weir_channel *channel, void *message, struct weir__wait_task *waiter)
{
        struct weir__work_list claimed = {0};
        int failed = weir__waitable_fault((struct weir__waitable *)channel);

        if (failed)
                return failed;
        weir__waitable_lock(&channel->object);
        failed = put(channel, &message, &claimed);
        if (failed == -EAGAIN && waiter)
                weir__wait_arm(waiter, &channel->object, message);
        weir__unlock(&channel->object.lock);
        weir__wait_deliver_all(&claimed);
        return failed;
}

static inline __attribute__((__always_inline__)) int
receive(struct weir_channel *channel, void **message, struct weir__wait_task *waiter)
{
        struct weir__work_list claimed = {0};
        int failed = weir__waitable_fault((struct weir__waitable *)channel);

        if (failed)
                return failed;
        weir__waitable_lock(&channel->object);
        failed = get(channel, message, &claimed);
        if (failed == -EAGAIN && waiter)
                weir__wait_arm(waiter, &channel->object, NULL);
        weir__unlock(&channel->object.lock);
        weir__wait_deliver_all(&claimed);
        return failed;
}

int
weir__channel_send(weir_channel *channel, void *message, struct weir__wait_task *waiter)
{
        return send(channel, message, waiter);
}

int
weir__channel_receive(weir_channel *channel, void **message, struct weir__wait_task *waiter)
{
        return receive(channel, message, waiter);
}

int
weir_channel_post(weir_channel *channel, void *message)
{
        return send(channel, message, NULL);
}

int
weir_channel_poll(weir_channel *channel, void **message)
{
        return receive(channel, message, NULL);
}

size_t
weir_channel_length(weir_channel *channel)
{
        return weir__waitable_amount((struct weir__waitable *)channel);
}

/* -- tasks -- */

static const struct weir__task_ops send_ops = WEIR__WAIT_TASK_OPS("a send", weir__wait_run, weir__wait_release);
static const struct weir__task_ops receive_ops = WEIR__WAIT_TASK_OPS("a receive", weir__wait_run, weir__wait_release);

weir_task *
weir_channel_send_new(weir_channel *channel, void *message, weir_task_fn *done, void *context)
{
        struct weir__waitable *object = (struct weir__waitable *)channel;
        struct weir__wait_task *self = weir__wait_task_new(&send_ops, object, WEIR__CHANNEL_SENDERS, done, context);

        if (!self) {
                weir__waitable_drop(object, message);
                return NULL;
        }
        self->wait.message = message;
        return &self->task;
}

weir_task *
weir_channel_receive_new(weir_channel *channel, weir_task_fn *done, void *context)
{
        return (weir_task *)weir__wait_task_new(&receive_ops, (struct weir__waitable *)channel, WEIR__CHANNEL_RECEIVERS, done,
                                                context);
}

/* The wait that has the message of a task; NULL: there is none. */
static struct weir__wait *
wait_of(const struct weir_task *task)
{
        weir__memory_expect(task);
        const struct weir__task_ops *ops = task ? weir__task_ops(task) : NULL;

        if (ops == &send_ops || ops == &receive_ops)
                return &((struct weir__wait_task *)task)->wait;
        return ops && ops->winner ? ops->winner(task) : NULL;
}

void *
weir_channel_message(const weir_task *task)
{
        const struct weir__wait *wait = wait_of(task);

        return wait ? wait->message : NULL;
}

void *
weir_channel_take_message(weir_task *task)
{
        return weir__wait_take_message(wait_of(task));
}
