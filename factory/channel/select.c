/* factory/channel/select.c: one task that waits at several channels.
 *
 * Threads: any; `run` on a worker.
 * Locks:   at its start those of all its channels, in the order of their addresses; at the end one at a time.
 *
 * A select has a wait at each of its channels, and one word for all of them (factory/sync/waitable.h).  The thread that claims
 * the task by one of the waits decides the winner.  The others are dead then, as if they had been cancelled.  The worker unlinks
 * them before the callback.
 *
 * The start looks at all cases and links all waits as one step, so it holds all the locks.  Suppose that others could see a
 * select with half of its waits linked.  They could claim it by that half while the start takes a message by the other one.  And
 * two selects that meet at two channels could each have linked, and looked, before the other one was there to be seen.  So a
 * select never meets itself either: until its start is over it is linked nowhere.
 *
 * A case without a channel is never possible, or is the default, which wins at the start when no other case is possible.
 *
 * One message may be in several cases that send.  Each has it in `given` for good.  Once one of their waits has lost it, because
 * it was sent, taken or dropped, none of them has it. */
#include "factory/channel/channel.h"

#include <weir/select.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"

#define OWN_CASES 4

/* A case; but that is a word of the language. */
struct option {
        struct weir__wait wait; /* first */
        void *given;            /* to be sent; constant */
};

struct select {
        struct weir__wait_task base; /* first; its `wait` is not used */

        /* The caller's until the select is consumed, then constant but for the waits. */
        unsigned count, room;
        int fallback;           /* the index of the default; -1: there is none */
        struct option *options; /* `own`, or a block of `room` */
        struct option own[OWN_CASES];
};

_Static_assert(sizeof(struct select) <= WEIR__BLOCK_MAX, "a select comes from the caches");

/* The message of an option; NULL: it has none. */
static void *
message_of(const struct select *self, const struct option *option)
{
        for (unsigned i = 0; option->given && i < self->count; i++)
                if (self->options[i].given == option->given && !self->options[i].wait.message)
                        return NULL;
        return option->wait.message;
}

static void *
take(struct select *self, struct option *option)
{
        void *message = message_of(self, option);

        option->wait.message = NULL;
        return message;
}

/* -- the start -- */

/* The channels, each once, in the order of their addresses.  Returns how many. */
static unsigned
sort_channels(const struct select *self, struct weir__waitable *sorted[WEIR_SELECT_MAX])
{
        unsigned count = 0;

        for (unsigned i = 0; i < self->count; i++) {
                struct weir__waitable *channel = self->options[i].wait.object;
                unsigned at = count;

                if (!channel)
                        continue;
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
unlock_all(struct weir__waitable *sorted[], unsigned count)
{
        while (count-- > 0)
                weir__unlock(&sorted[count]->lock);
}

static void
lock_all(struct weir__waitable *sorted[], unsigned count)
{
        for (unsigned i = 0; i < count; i++)
                weir__waitable_lock(sorted[i]);
}

/* Does the first operation that is possible.  Returns 0; -EAGAIN; another status to end with. */
static int
try_all(struct select *self, struct weir__work_list *claimed)
{
        int outcome = -EAGAIN;

        if (weir__wait_is_over(&self->base))
                return -EAGAIN;
        for (unsigned i = 0; i < self->count && outcome == -EAGAIN; i++) {
                if (!self->options[i].wait.object)
                        continue;
                outcome = weir__channel_try(&self->options[i].wait, claimed);
                if (outcome != -EAGAIN)
                        self->options[i].wait.has_won = true;
        }
        if (outcome != -EAGAIN || self->fallback < 0)
                return outcome;
        self->options[self->fallback].wait.has_won = true;
        return 0;
}

/* Queues the select at all of its objects, whose locks are held.  Returns false when a cancel came first. */
static bool
link_all(struct select *self)
{
        for (unsigned i = 0; i < self->count; i++)
                if (self->options[i].wait.object)
                        weir__wait_link(&self->options[i].wait);
        if (weir__wait_pend(&self->base))
                return true;
        for (unsigned i = 0; i < self->count; i++)
                weir__wait_unlink(&self->options[i].wait);
        return false;
}

/* A select that waits may be gone as soon as all locks are free, and not before: its worker has to come by each channel. */
static void
start(struct weir_task *task)
{
        struct select *self = (struct select *)task;
        struct weir__waitable *sorted[WEIR_SELECT_MAX];
        struct weir__work_list claimed = {0};
        unsigned count = sort_channels(self, sorted);

        lock_all(sorted, count);
        bool waits = weir__wait_decide(&self->base, try_all(self, &claimed)) && link_all(self);
        unlock_all(sorted, count);
        weir__wait_deliver_all(&claimed);
        if (!waits)
                weir__task_deliver(task);
}

/* -- the end -- */

static void
run(struct weir__work *work)
{
        struct select *self = (struct select *)work;

        for (unsigned i = 0; i < self->count; i++)
                weir__wait_leave(&self->options[i].wait);
        atomic_store_explicit(&self->base.task.word, WEIR__RUNNING, memory_order_release); /* as weir__wait_set_running */
        weir__task_call_back(&self->base.task);
        weir__task_finish(&self->base.task);
}

static void
release(struct weir_task *task, bool discarded)
{
        struct select *self = (struct select *)task;

        (void)discarded;
        for (unsigned i = 0; i < self->count; i++) {
                struct weir__waitable *channel = self->options[i].wait.object;

                weir__waitable_drop(channel, take(self, &self->options[i]));
                weir__waitable_unref(channel);
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
                const struct weir__wait *wait = &self->options[i].wait;
                const struct weir__name *name = wait->object ? wait->object->name : NULL;

                if (!wait->object)
                        continue;
                size += (size_t)snprintf(out + size, room - size, "%s%s %s%s%s", size == 0 ? "" : ", or ",
                                         wait->queue == WEIR__CHANNEL_SENDERS ? "to send to" : "to receive from",
                                         name ? "\"" : "a channel", name ? name->text : "", name ? "\"" : "");
        }
}

/* A case may have been decided on when a cancel came first.  The shutdown, which ends all waits, makes no winner. */
static struct option *
winner_of(const struct weir_task *task)
{
        const struct select *self = (const struct select *)task;
        bool is_decided = task->status == 0 || task->status == -EPIPE || task->status == -ENOMEM;

        for (unsigned i = 0; is_decided && i < self->count; i++)
                if (self->options[i].wait.has_won)
                        return &self->options[i];
        return NULL;
}

static struct weir__wait *
winner(const struct weir_task *task)
{
        struct option *option = winner_of(task);

        return option && message_of((const struct select *)task, option) ? &option->wait : NULL;
}

/* The fault of a select that could never end by a case, which its start reports. */
static int
seal(struct weir_task *task)
{
        const struct select *self = (const struct select *)task;

        for (unsigned i = 0; i < self->count; i++)
                if (self->options[i].wait.object)
                        return 0;
        return self->fallback >= 0 ? 0 : weir__log_refusal("a select without a case that can happen: expected one, or a default");
}

static const struct weir__task_ops select_ops = {
        .work = {.run = run, .kind = "a select", .is_migratable = true, .function = weir__task_function, .name = weir__task_name},
        .seal = seal,
        .start = start,
        .end_early = weir__wait_end_early,
        .release = release,
        .describe = describe,
        .winner = winner,
};

/* -- the public face -- */

weir_task *
weir_select_new(weir_task_fn *done, void *context)
{
        struct select *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        weir__task_init(&self->base.task, &select_ops, sizeof *self, done, context);
        self->count = 0;
        self->fallback = -1;
        self->room = OWN_CASES;
        self->options = self->own;
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

/* Makes room for another case. */
static int
open_for(struct select *self, enum weir__act act)
{
        weir__task_expect_open(&self->base.task, &select_ops, act);
        if (self->count == WEIR_SELECT_MAX)
                return -E2BIG;
        return self->count < self->room || grow(self) ? 0 : -ENOMEM;
}

static int
add(struct weir_task *task, struct weir_channel *channel, unsigned queue, void *message, enum weir__act act)
{
        struct select *self = (struct select *)task;

        if (!task)
                return -ENOMEM;
        int fault = open_for(self, act);
        if (!fault && !channel)
                fault = -ENOMEM;
        if (fault) {
                weir__task_poison(task, fault);
                return fault;
        }
        self->options[self->count] = (struct option){
                .wait = {.object = weir__waitable_ref((struct weir__waitable *)channel),
                         .task = &self->base,
                         .queue = (uint8_t)queue,
                         .message = message},
                .given = message,
        };
        return (int)self->count++;
}

int
weir_select_receive(weir_task *select, weir_channel *channel)
{
        return add(select, channel, WEIR__CHANNEL_RECEIVERS, NULL, WEIR__ACT_SELECT_RECEIVE);
}

int
weir_select_send(weir_task *select, weir_channel *channel, void *message)
{
        return add(select, channel, WEIR__CHANNEL_SENDERS, message, WEIR__ACT_SELECT_SEND);
}

/* Adds a case without a channel. */
static int
add_bare(struct weir_task *task, enum weir__act act)
{
        struct select *self = (struct select *)task;

        if (!task)
                return -ENOMEM;
        int fault = open_for(self, act);
        if (fault) {
                weir__task_poison(task, fault);
                return fault;
        }
        self->options[self->count] = (struct option){.wait = {.task = &self->base}};
        return (int)self->count++;
}

int
weir_select_never(weir_task *select)
{
        return add_bare(select, WEIR__ACT_SELECT_NEVER);
}

int
weir_select_default(weir_task *select)
{
        int index = add_bare(select, WEIR__ACT_SELECT_DEFAULT);
        struct select *self = (struct select *)select;

        if (index >= 0 && self->fallback >= 0) {
                weir__task_poison(select, -EEXIST);
                return -EEXIST;
        }
        if (index >= 0)
                self->fallback = index;
        return index;
}

static bool
is_select(const struct weir_task *task)
{
        weir__memory_expect(task);
        return task && weir__task_ops(task) == &select_ops;
}

int
weir_select_winner(const weir_task *task)
{
        if (!is_select(task))
                return task ? -EDOM : -EINVAL;
        const struct option *option = winner_of(task);
        return option ? (int)(option - ((const struct select *)task)->options) : -ENOENT;
}

void *
weir_select_take_message(weir_task *task, int index)
{
        struct select *self = (struct select *)task;

        return is_select(task) && index >= 0 && (unsigned)index < self->count ? take(self, &self->options[index]) : NULL;
}
