/* factory/channel/select.c: one task that waits at several channels.
 *
 * Threads: any; `run` on a worker.
 * Locks:   at its start those of all its channels, in the order of their addresses; behind the end one at a time.
 *
 * A select has a wait at each of its channels, and one word for all of them (factory/sync/waitable.h): who claims the task by one of the
 * waits has decided the winner, and the others are as dead as if they had been cancelled.  Their worker unlinks them before the
 * callback.
 *
 * The start must look at all cases and link all waits as one step, so it holds all the locks.  Were a select seen by others when
 * half of it is linked, they could claim it by that half while the start takes a message by the other one; and two selects that meet at two
 * channels could each have linked, and looked, before the other was there to be seen.  So nobody ever meets himself either: what is
 * being started is linked nowhere. */
#include "factory/channel/channel.h"

#include <weir/select.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel/memory/memory.h"
#include "kernel/base/panic.h"

#define OWN_CASES     4
#define WITHOUT_CASES (-EINVAL) /* what it is made wrong with until it has one */

/* A case; but that is a word of the language. */
struct option {
        struct weir__wait wait; /* first */
        bool sends;
        uint8_t held; /* references: weir__channel_hold */
        void *given;  /* to be sent: it stays here, while the wait's message goes */
};

struct select {
        struct weir__wait_task base; /* first; its `wait` is not used, `won` is the wait of an option */

        /* The caller's until it is consumed, then constant but for the waits. */
        unsigned count, room;
        struct option *options; /* `own`, or a block of `room` */
        struct option own[OWN_CASES];
};

_Static_assert(sizeof(struct select) <= WEIR__BLOCK_MAX, "a select comes from the caches");

static struct weir_channel *
channel_of(const struct option *option)
{
        return (struct weir_channel *)option->wait.object;
}

/* -- the message that may be in several options -- */

/* It was sent, taken or dropped: by none of the others it will be. */
static void
forget(struct select *self, const void *given)
{
        for (unsigned i = 0; given && i < self->count; i++)
                if (self->options[i].sends && self->options[i].wait.message == given)
                        self->options[i].wait.message = NULL;
}

static void *
take(struct select *self, struct option *option)
{
        void *message = option->wait.message;

        option->wait.message = NULL;
        if (option->sends)
                forget(self, message);
        return message;
}

/* -- the start -- */

/* The channels, each once, in the order of their addresses.  Returns how many. */
static unsigned
sort_channels(const struct select *self, struct weir_channel *sorted[WEIR_SELECT_MAX])
{
        unsigned count = 0;

        for (unsigned i = 0; i < self->count; i++) {
                struct weir_channel *channel = channel_of(&self->options[i]);
                unsigned at = count;

                while (at > 0 && (uintptr_t)sorted[at - 1] > (uintptr_t)channel)
                        at--;
                if (at > 0 && sorted[at - 1] == channel)
                        continue;
                for (unsigned j = count++; j > at; j--)
                        sorted[j] = sorted[j - 1];
                sorted[at] = channel;
        }
        return count;
}

static void
unlock_all(struct weir_channel *sorted[], unsigned count)
{
        while (count-- > 0)
                weir__unlock(&sorted[count]->object.lock);
}

/* Where very many waits were cancelled, they are taken off one channel after another before all are held. */
static void
lock_all(struct weir_channel *sorted[], unsigned count)
{
        for (;;) {
                unsigned good = 0;

                for (unsigned i = 0; i < count; i++)
                        weir__lock(&sorted[i]->object.lock);
                while (good < count &&
                       (!weir__waitable_is_crowded(&sorted[good]->object) || weir__waitable_prune(&sorted[good]->object)))
                        good++;
                if (good == count)
                        return;
                unlock_all(sorted, count);
                weir__waitable_lock(&sorted[good]->object);
                weir__unlock(&sorted[good]->object.lock);
        }
}

/* Does the first that is possible.  Returns 0, with *other NULL or to be delivered; a status to end with; -EAGAIN. */
static int
try_all(struct select *self, struct weir__wait **other)
{
        *other = NULL;
        if (weir__wait_is_over(&self->base))
                return -EAGAIN;
        for (unsigned i = 0; i < self->count; i++) {
                struct option *option = &self->options[i];
                int failed = option->sends ? weir__channel_put(channel_of(option), option->given, other)
                                           : weir__channel_get(channel_of(option), &option->wait.message, other);

                if (failed == -EAGAIN)
                        continue;
                if (failed == 0 && option->sends)
                        option->wait.message = NULL;
                self->base.won = &option->wait;
                return failed;
        }
        return -EAGAIN;
}

/* With the locks of all.  Returns false when a cancel came first. */
static bool
link_all(struct select *self)
{
        for (unsigned i = 0; i < self->count; i++) {
                struct option *option = &self->options[i];
                struct weir_channel *channel = channel_of(option);

                weir__wait_link(option->sends ? &channel->senders : &channel->receivers, &option->wait);
        }
        if (weir__wait_pend(&self->base))
                return true;
        for (unsigned i = 0; i < self->count; i++)
                weir__wait_unlink(&self->options[i].wait);
        return false;
}

/* One that waits may be gone as soon as all locks are free, and not before: its worker has to come by each channel. */
static void
start(struct weir_task *task)
{
        struct select *self = (struct select *)task;
        struct weir_channel *sorted[WEIR_SELECT_MAX];
        struct weir__wait *other;
        unsigned count = sort_channels(self, sorted);

        lock_all(sorted, count);
        int failed = try_all(self, &other);
        bool waits = weir__wait_decide(&self->base, failed == 0, failed == -EAGAIN ? 0 : failed) == WEIR__WAIT_LINKED &&
                     link_all(self);
        unlock_all(sorted, count);
        if (other)
                weir__wait_deliver(other->task);
        if (!waits)
                weir__wait_deliver(&self->base);
}

/* -- the end -- */

static void
run(struct weir__work *work)
{
        struct select *self = (struct select *)work;
        struct option *won = (struct option *)self->base.won;

        for (unsigned i = 0; i < self->count; i++)
                weir__wait_leave(&self->options[i].wait);
        if (won && won->sends && !won->wait.message)
                forget(self, won->given);
        atomic_store_explicit(&self->base.task.word, WEIR__RUNNING, memory_order_release); /* as weir__wait_arrive */
        weir__task_call_back(&self->base.task);
        weir__task_finish(&self->base.task);
}

static void
release(struct weir_task *task, bool discarded)
{
        struct select *self = (struct select *)task;

        for (unsigned i = 0; i < self->count; i++) {
                struct option *option = &self->options[i];

                weir__channel_drop(channel_of(option), take(self, option));
                weir__channel_let_go(channel_of(option), option->held, discarded ? NULL : task);
        }
        if (self->options != self->own)
                weir__free(self->options, self->room * sizeof *self->options);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct select *self = (const struct select *)task;
        size_t size = 0;

        for (unsigned i = 0; i < self->count && size < room; i++) {
                const struct option *option = &self->options[i];
                const struct weir__name *name = option->wait.object->name;

                size += (size_t)snprintf(out + size, room - size, "%s%s %s%s%s", i == 0 ? "" : ", or ",
                                         option->sends ? "to send to" : "to receive from", name ? "\"" : "a channel",
                                         name ? name->text : "", name ? "\"" : "");
        }
}

static uint8_t *
held(struct weir_task *task, const struct weir_channel *channel)
{
        struct select *self = (struct select *)task;

        for (unsigned i = 0; i < self->count; i++)
                if (self->options[i].wait.object == &channel->object)
                        return &self->options[i].held;
        return NULL;
}

/* A case may have been decided on when a cancel came first.  Shutdown, which ends all waits, is the winner of none. */
static struct weir__wait *
won(const struct weir_task *task)
{
        bool decided = task->status == 0 || task->status == -EPIPE || task->status == -ENOMEM;

        return decided ? ((const struct select *)task)->base.won : NULL;
}

static void *
take_won(struct weir_task *task, struct weir__wait *wait)
{
        return take((struct select *)task, (struct option *)wait);
}

static const struct weir__channel_ops channel_ops = {.held = held, .won = won, .take = take_won};

static const struct weir__task_ops select_ops = {
        .work = {.run = run, .kind = "a select", .is_migratable = true, .calls = weir__task_calls},
        .start = start,
        .cancel = weir__wait_cancel,
        .release = release,
        .describe = describe,
        .channel = &channel_ops,
};

static bool
is_select(const struct weir_task *task)
{
        return task && weir__task_ops(task) == &select_ops;
}

/* -- the public face -- */

weir_task *
weir_select_new(weir_task_fn *done, void *context)
{
        struct select *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        weir__task_init(&self->base.task, &select_ops, sizeof *self, done, context);
        self->base.wait = (struct weir__wait){0};
        self->base.won = NULL;
        self->count = 0;
        self->room = OWN_CASES;
        self->options = self->own;
        weir__wait_task_spoil(&self->base, WITHOUT_CASES);
        return &self->base.task;
}

static bool
grow(struct select *self)
{
        struct option *larger = weir__alloc(2 * self->room * sizeof *larger);

        if (!larger)
                return false;
        memcpy(larger, self->options, self->count * sizeof *larger);
        if (self->options != self->own)
                weir__free(self->options, self->room * sizeof *self->options);
        self->options = larger;
        self->room *= 2;
        return true;
}

static int
fault_of(struct select *self, const struct weir_channel *channel)
{
        if (!channel)
                return -ENOMEM;
        if (self->count == WEIR_SELECT_MAX)
                return -E2BIG;
        return self->count < self->room || grow(self) ? 0 : -ENOMEM;
}

static int
add(struct weir_task *task, struct weir_channel *channel, bool sends, void *message, const char *verb)
{
        struct select *self = (struct select *)task;

        if (task && weir__task_ops(task) != &select_ops)
                weir__panic("%s: the task is no select", verb);
        if (task && task->flags & WEIR__TASK_CONSUMED)
                weir__panic("%s: the select was started, pushed, added or dismissed before", verb);
        int fault = self ? fault_of(self, channel) : -ENOMEM;
        if (fault) {
                if (self && (!(task->flags & WEIR__TASK_WRONG) || task->status == WITHOUT_CASES))
                        weir__wait_task_spoil(&self->base, fault);
                return fault;
        }
        self->options[self->count] = (struct option){
                .wait = {.object = &channel->object, .task = &self->base, .message = message},
                .sends = sends,
                .held = (uint8_t)weir__channel_hold(channel),
                .given = message,
        };
        if (task->status == WITHOUT_CASES) {
                task->status = 0;
                task->flags &= (uint8_t)~WEIR__TASK_WRONG;
        }
        return (int)self->count++;
}

int
weir_select_receive(weir_task *select, weir_channel *channel)
{
        return add(select, channel, false, NULL, "weir_select_receive");
}

int
weir_select_send(weir_task *select, weir_channel *channel, void *message)
{
        return add(select, channel, true, message, "weir_select_send");
}

int
weir_select_winner(const weir_task *task)
{
        if (!is_select(task))
                return task ? -EDOM : -EINVAL;
        const struct option *winner = (const struct option *)won(task);
        return winner ? (int)(winner - ((const struct select *)task)->options) : -ENOENT;
}

void *
weir_select_take_message(weir_task *task, int index)
{
        struct select *self = (struct select *)task;

        return is_select(task) && index >= 0 && (unsigned)index < self->count ? take(self, &self->options[index]) : NULL;
}
