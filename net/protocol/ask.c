/* net/protocol/ask.c: a request and its reply, as a task.
 *
 * Threads: made, started and cancelled on any thread; the rest on the owner of the endpoint's poller.
 * Locks:   none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernel/base/phase.h"
#include "kernel/memory/memory.h"
#include "kernel/worker/user.h"
#include "net/protocol/endpoint.h"

static int
try(struct weir__io_task *io)
{
        struct weir__ask *ask = (struct weir__ask *)io;

        if (weir__phase_is_stopping())
                return -ESHUTDOWN;
        weir__list_append(&ask->endpoint->waiting, &ask->waiting);
        io->is_linked = true;
        ask->endpoint->go_on(ask->endpoint);
        return io->is_linked ? 0 : io->task.status;
}

static void
withdraw(struct weir__io_task *io)
{
        struct weir__ask *ask = (struct weir__ask *)io;

        if (ask->lane) {
                weir__lane_leave(ask);
        } else {
                weir__link_remove(&ask->waiting);
                weir__dial_leave(ask);
                if (weir__list_is_empty(&ask->endpoint->waiting))
                        weir__dials_cancel(ask->endpoint);
        }
        ask->endpoint->go_on(ask->endpoint);
}

static void
start(struct weir_task *task)
{
        weir__endpoint_start_task(task, ((struct weir__ask *)task)->endpoint);
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct weir__ask *ask = (struct weir__ask *)task;

        (void)is_discarded;
        if (ask->reply)
                weir__free(ask->reply, ask->body.size + 1);
        if (ask->packed)
                weir__free(ask->packed, ask->size);
        weir_endpoint_unref(ask->endpoint);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        static const char *const stages[] = {"a connection to", "a new connection to", "the hello of",
                                             "a send to",       "a reply of",          "a reply of"};
        const struct weir__ask *ask = (const struct weir__ask *)task;

        snprintf(out, room, "%s %s", stages[__atomic_load_n(&ask->stage, __ATOMIC_RELAXED)], ask->endpoint->address);
}

static const struct weir__io_ops ask_ops = {
        .task = WEIR__IO_TASK_OPS("a request", start, release, describe), .try = try, .withdraw = withdraw};

/* -- the public face -- */

/* Returns the fault of the bytes. */
static int
pack(struct weir__ask *ask, const struct weir_protocol *protocol, const void *data, size_t size)
{
        ssize_t whole;

        ask->packed = weir__message_pack(protocol, data, size, &whole, NULL, 0, "weir_ask_new");
        if (!ask->packed)
                return (int)whole;
        ask->size = (size_t)whole;
        void *fiber = weir__user_hide_fiber();
        ask->id = protocol->match ? protocol->match(data, size, protocol->context) : 0;
        weir__user_show_fiber(fiber);
        return 0;
}

weir_task *
weir_ask_new(weir_endpoint *endpoint, const void *data, size_t size, weir_task_fn *done, void *context)
{
        struct weir__ask *ask = weir__alloc(sizeof *ask);

        if (!ask)
                return NULL;
        *ask = (struct weir__ask){.endpoint = weir_endpoint_ref(endpoint)};
        weir__task_init(&ask->io.task, &ask_ops.task, sizeof *ask, done, context);
        int fault = endpoint ? pack(ask, endpoint->protocol, data, size) : -ENOMEM;
        if (fault == -ENOMEM && endpoint) {
                weir_task_dismiss(&ask->io.task);
                return NULL;
        }
        if (fault)
                weir__task_poison(&ask->io.task, fault);
        return &ask->io.task;
}

static const struct weir__ask *
ask_of(const weir_task *task)
{
        return task && task->work.ops == &ask_ops.task.work ? (const struct weir__ask *)task : NULL;
}

const void *
weir_ask_reply(const weir_task *task, size_t *size)
{
        const struct weir__ask *ask = ask_of(task);

        if (size)
                *size = ask && ask->reply ? ask->body.size : 0;
        return !ask ? NULL : ask->reply ? ask->reply : "";
}

enum weir_ask_stage
weir_ask_stage(const weir_task *task)
{
        const struct weir__ask *ask = ask_of(task);

        return ask ? (enum weir_ask_stage)ask->stage : WEIR_ASK_QUEUED;
}
