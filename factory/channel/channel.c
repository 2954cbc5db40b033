/* factory/channel/channel.c: channels.
 *
 * Threads: any.
 * Locks:   the object's; `drop` is called without.
 *
 * A message is at one place at a time, and that is who owes it to `drop`: the wait of a task (its `message`, which a send begins with and
 * a receive ends with), or the channel. */
#include "factory/channel/channel.h"

#include <errno.h>
#include <stdlib.h>

#include "factory/task/series.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/sched/user.h"

#define BLOCK_ROOM 254 /* messages of a block, at most: 2 KiB */

void
weir__channel_drop(struct weir_channel *channel, void *message)
{
        if (message && channel && channel->drop)
                weir__user_call(channel->drop, message);
}

/* -- the messages that it holds; under the lock -- */

static bool
keep(struct weir_channel *channel, void *message)
{
        struct weir__channel_block *last = channel->last;

        if (!last || last->end == channel->block_room) {
                last = channel->spare;
                channel->spare = NULL;
                if (!last && !(last = malloc(sizeof *last + channel->block_room * sizeof *last->messages)))
                        return false;
                last->next = NULL;
                last->first = last->end = 0;
                *(channel->last ? &channel->last->next : &channel->first) = last;
                channel->last = last;
        }
        last->messages[last->end++] = message;
        channel->length++;
        return true;
}

/* The block behind which nothing is kept stays as it is, to be filled again. */
static void *
take_oldest(struct weir_channel *channel)
{
        struct weir__channel_block *block = channel->first;
        void *message = block->messages[block->first++];

        channel->length--;
        if (block->first < block->end)
                return message;
        block->first = block->end = 0;
        if (!block->next)
                return message;
        channel->first = block->next;
        if (channel->spare)
                free(block);
        else
                channel->spare = block;
        return message;
}

int
weir__channel_put(struct weir_channel *channel, void *message, struct weir__wait **receiver)
{
        *receiver = NULL;
        if (channel->closed)
                return -EPIPE;
        *receiver = weir__wait_pop(&channel->receivers);
        if (*receiver) {
                (*receiver)->message = message;
                return 0;
        }
        if (channel->length >= channel->capacity)
                return -EAGAIN;
        return keep(channel, message) ? 0 : -ENOMEM;
}

int
weir__channel_get(struct weir_channel *channel, void **message, struct weir__wait **sender)
{
        bool holds = channel->length > 0;

        *sender = NULL;
        if (holds)
                *message = take_oldest(channel);
        if (!channel->closed)
                *sender = weir__wait_pop(&channel->senders);
        if (!*sender)
                return holds ? 0 : channel->closed ? -EPIPE : -EAGAIN;
        if (!holds)
                *message = (*sender)->message;
        else if (!keep(channel, (*sender)->message))
                (*sender)->task->task.status = -ENOMEM;
        if ((*sender)->task->task.status == 0)
                (*sender)->message = NULL;
        return 0;
}

/* -- the channel -- */

static void
drop_all(struct weir__waitable *object)
{
        struct weir_channel *channel = (struct weir_channel *)object;

        while (channel->length > 0)
                weir__channel_drop(channel, take_oldest(channel));
        free(channel->first);
        free(channel->spare);
}

static const struct weir__waitable_ops channel_ops = {
        .kind = WEIR__CHANNEL, .noun = "channel", .size = sizeof(struct weir_channel), .lists = 2, .drop = drop_all};

static void
init(struct weir_channel *channel, size_t capacity, weir_free_fn *drop)
{
        channel->capacity = capacity;
        channel->drop = drop;
        channel->block_room = capacity < BLOCK_ROOM ? (uint32_t)capacity : BLOCK_ROOM;
}

weir_channel *
weir_channel_new(size_t capacity, weir_free_fn *drop)
{
        struct weir_channel *channel = (struct weir_channel *)weir__waitable_new(&channel_ops);

        if (channel)
                init(channel, capacity, drop);
        return channel;
}

weir_channel *
weir_channel_open(const char *name, size_t capacity, weir_free_fn *drop)
{
        struct weir_channel *channel = (struct weir_channel *)weir__waitable_new_named(&channel_ops, name);

        if (channel)
                init(channel, capacity, drop);
        channel = (struct weir_channel *)weir__waitable_unique((struct weir__waitable *)channel);
        if (!channel || (channel->capacity == capacity && channel->drop == drop))
                return channel;
        weir_channel_unref(channel);
        errno = EEXIST;
        return NULL;
}

weir_channel *
weir_channel_ref(weir_channel *channel)
{
        return (weir_channel *)weir__waitable_ref((struct weir__waitable *)channel);
}

void
weir_channel_unref(weir_channel *channel)
{
        weir__waitable_unref((struct weir__waitable *)channel);
}

static int
unusable(const struct weir_channel *channel)
{
        return !channel ? -ENOMEM : weir__phase_is_forked() ? -ECHILD : 0;
}

int
weir_channel_close(weir_channel *channel)
{
        int failed = unusable(channel);

        if (failed)
                return failed;
        weir__waitable_lock(&channel->object);
        if (channel->closed)
                failed = -EALREADY;
        channel->closed = true;
        weir__wait_end_all(&channel->object, &channel->senders, -EPIPE);
        weir__wait_end_all(&channel->object, &channel->receivers, -EPIPE);
        weir__unlock(&channel->object.lock);
        return failed;
}

/* Who was waited for on the other side. */
static void
deliver(struct weir__wait *wait)
{
        if (wait)
                weir__wait_deliver(wait->task);
}

int
weir_channel_post(weir_channel *channel, void *message)
{
        struct weir__wait *receiver;
        int failed = unusable(channel);

        if (failed)
                return failed;
        weir__waitable_lock(&channel->object);
        failed = weir__channel_put(channel, message, &receiver);
        weir__unlock(&channel->object.lock);
        deliver(receiver);
        return failed;
}

int
weir_channel_poll(weir_channel *channel, void **message)
{
        struct weir__wait *sender;
        int failed = unusable(channel);

        if (failed)
                return failed;
        weir__waitable_lock(&channel->object);
        failed = weir__channel_get(channel, message, &sender);
        weir__unlock(&channel->object.lock);
        deliver(sender);
        return failed;
}

size_t
weir_channel_length(weir_channel *channel)
{
        if (unusable(channel))
                return 0;
        weir__lock(&channel->object.lock);
        size_t length = channel->length;
        weir__unlock(&channel->object.lock);
        return length;
}

/* -- tasks -- */

struct transfer {
        struct weir__wait_task base; /* first */
        uint8_t held;                /* references: weir__channel_hold */
};

/* One that was cancelled before it starts takes nothing, and gives nothing. */
static int
try_once(struct weir__wait_task *self, struct weir_channel *channel, bool sends, struct weir__wait **other)
{
        *other = NULL;
        if (weir__wait_is_over(self))
                return -EAGAIN;
        if (!sends)
                return weir__channel_get(channel, &self->wait.message, other);
        int failed = weir__channel_put(channel, self->wait.message, other);
        if (!failed)
                self->wait.message = NULL;
        return failed;
}

static void
start(struct weir_task *task, bool sends)
{
        struct weir__wait_task *self = (struct weir__wait_task *)task;
        struct weir_channel *channel = (struct weir_channel *)self->wait.object;
        struct weir__wait *other;

        weir__waitable_lock(&channel->object);
        int failed = try_once(self, channel, sends, &other);
        enum weir__wait_begun begun = weir__wait_begin(self, sends ? &channel->senders : &channel->receivers, failed == 0,
                                                       failed == -EAGAIN ? 0 : failed);
        weir__unlock(&channel->object.lock);
        deliver(other);
        if (begun != WEIR__WAIT_LINKED)
                weir__wait_deliver(self);
}

static void
send_start(struct weir_task *task)
{
        start(task, true);
}

static void
receive_start(struct weir_task *task)
{
        start(task, false);
}

static void
release(struct weir_task *task, bool discarded)
{
        struct transfer *self = (struct transfer *)task;
        struct weir_channel *channel = (struct weir_channel *)self->base.wait.object;

        weir__channel_drop(channel, self->base.wait.message);
        weir__channel_let_go(channel, self->held, discarded ? NULL : task);
}

static uint8_t *
held(struct weir_task *task, const struct weir_channel *channel)
{
        struct transfer *self = (struct transfer *)task;

        return self->base.wait.object == &channel->object ? &self->held : NULL;
}

static struct weir__wait *
won(const struct weir_task *task)
{
        return &((struct weir__wait_task *)task)->wait;
}

static void *
take(struct weir_task *task, struct weir__wait *wait)
{
        void *message = wait->message;

        (void)task;
        wait->message = NULL;
        return message;
}

static const struct weir__channel_ops transfer_ops = {.held = held, .won = won, .take = take};

static const struct weir__task_ops send_ops = WEIR__WAIT_TASK_OPS("a send", send_start, release, .describe = weir__wait_describe,
                                                                  .channel = &transfer_ops);
static const struct weir__task_ops receive_ops = WEIR__WAIT_TASK_OPS("a receive", receive_start, release,
                                                                     .describe = weir__wait_describe, .channel = &transfer_ops);

#define HELD_MOST 100 /* references of one task */
#define LOOKED_AT 3   /* tasks behind the one that ends */

static uint8_t *
held_by(struct weir_task *task, const struct weir_channel *channel)
{
        const struct weir__channel_ops *ops = weir__task_ops(task)->channel;

        return ops ? ops->held(task, channel) : NULL;
}

unsigned
weir__channel_hold(struct weir_channel *channel)
{
        struct weir_task *task = weir__task_of_callback();
        uint8_t *lender = task ? held_by(task, channel) : NULL;

        if (lender && *lender > 1) {
                --*lender;
                return 1;
        }
        weir__waitable_ref_more(&channel->object, 2);
        return 2;
}

/* Whose turn it is to make the steps of the series has to himself what comes behind the task. */
void
weir__channel_let_go(struct weir_channel *channel, unsigned held, const struct weir_task *task)
{
        const struct weir__work *newest = channel && task && task->series ? task->series->taken : NULL;
        struct weir__work *work = newest ? newest->next : NULL;

        for (unsigned i = 0; work && i < LOOKED_AT; work = work == newest ? NULL : work->next, i++) {
                uint8_t *next_task = held_by((struct weir_task *)work, channel);

                if (next_task && *next_task + held < HELD_MOST) {
                        *next_task = (uint8_t)(*next_task + held);
                        return;
                }
        }
        weir__waitable_unref_more((struct weir__waitable *)channel, held);
}

static weir_task *
new_task(const struct weir__task_ops *ops, struct weir_channel *channel, void *message, weir_task_fn *done, void *context)
{
        struct transfer *self = weir__alloc(sizeof *self);

        if (!self) {
                weir__channel_drop(channel, message);
                return NULL;
        }
        self->held = (uint8_t)(channel ? weir__channel_hold(channel) : 0);
        weir__wait_task_init_owner(&self->base, ops, sizeof *self, (struct weir__waitable *)channel, done, context);
        self->base.wait.message = message;
        return &self->base.task;
}

weir_task *
weir_channel_send_new(weir_channel *channel, void *message, weir_task_fn *done, void *context)
{
        return new_task(&send_ops, channel, message, done, context);
}

weir_task *
weir_channel_receive_new(weir_channel *channel, weir_task_fn *done, void *context)
{
        return new_task(&receive_ops, channel, NULL, done, context);
}

static struct weir__wait *
wait_of(const struct weir_task *task)
{
        return task && weir__task_ops(task)->channel ? weir__task_ops(task)->channel->won(task) : NULL;
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
        struct weir__wait *wait = wait_of(task);

        return wait ? weir__task_ops(task)->channel->take(task, wait) : NULL;
}
