/* net/datagram/send.c: tasks that send datagrams.
 *
 * Threads: as in io/base/io_task.h.
 * Locks:   none. */
#include <errno.h>
#include <stdio.h>

#include "kernel/memory/memory.h"
#include "net/datagram/socket.h"

/* The first that the system does not take ends the task. */
static bool
push(struct weir__udp_task *task)
{
        while (task->datagrams.count) {
                int sent = weir__udp_send(task->udp, &task->datagrams);

                if (sent == -EAGAIN && (task->udp->peer.size || weir__udp_family(task->udp) != AF_UNIX))
                        return false; /* epoll says when there is room; not for a Unix socket that has many peers */
                if (sent < 0) {
                        weir__io_complete(&task->io, sent);
                        return true;
                }
                task->count += (size_t)sent;
        }
        weir__io_complete(&task->io, 0);
        return true;
}

static int
try(struct weir__io_task *io)
{
        struct weir__udp_task *task = (struct weir__udp_task *)io;
        int failed = weir__udp_register(task->udp);

        if (failed)
                return failed;
        io->task.is_linked = true;
        if (!weir__list_is_empty(&task->udp->senders) || !push(task))
                weir__udp_await_room(task);
        return io->task.is_linked ? 0 : io->task.status;
}

static void
withdraw(struct weir__io_task *io)
{
        weir__link_remove(&((struct weir__udp_task *)io)->link);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__udp_task *self = (const struct weir__udp_task *)task;
        char address[WEIR__ADDRESS_TEXT];

        weir__address_print(&self->udp->local, address, sizeof address);
        snprintf(out, room, "room to send a datagram from %s", address);
}

const struct weir__io_ops weir__udp_send_ops = {
        .task = WEIR__IO_TASK_OPS("a send", weir__udp_start, weir__udp_task_release, describe),
        .try = try,
        .withdraw = withdraw,
};

/* -- the public face -- */

weir_task *
weir_udp_send_many_new(weir_udp *udp, weir_task_fn *done, void *context)
{
        struct weir__udp_task *task = weir__udp_task_new(&weir__udp_send_ops, udp, sizeof *task, 0, done, context);

        if (!task)
                return NULL;
        task->push = push;
        return &task->io.task;
}

static int
add(struct weir__udp_task *task, const struct weir_udp_address *to, const void *data, size_t size)
{
        if ((size && !data) || (to && to->size && !weir__udp_address_is_valid(to)))
                return -EINVAL;
        struct weir__datagram *datagram = weir__datagram_new(to, size ? data : "", size);
        if (!datagram)
                return -ENOMEM;
        weir__datagrams_append(&task->datagrams, datagram);
        return 0;
}

int
weir_udp_send_add(weir_task *send, const struct weir_udp_address *to, const void *data, size_t size)
{
        weir__memory_expect(send);
        if (!send)
                return -ENOMEM;
        if (send->work.ops != &weir__udp_send_ops.task.work || send->flags & WEIR__TASK_CONSUMED)
                return -EDOM;
        return add((struct weir__udp_task *)send, to, data, size);
}

static weir_task *
new_send(weir_udp *udp, int fault, const struct weir_udp_address *to, const void *data, size_t size, weir_task_fn *done,
         void *context)
{
        weir_task *task = weir_udp_send_many_new(udp, done, context);
        int failed = task && !fault ? add((struct weir__udp_task *)task, to, data, size) : 0;

        if (failed == -ENOMEM) {
                weir_task_dismiss(task);
                return NULL;
        }
        if (task && (fault || failed))
                weir__task_poison(task, fault ? fault : failed);
        return task;
}

weir_task *
weir_udp_send_new(weir_udp *udp, const char *to, const void *data, size_t size, weir_task_fn *done, void *context)
{
        struct weir_udp_address address = {.size = 0};
        int fault = to ? weir__udp_address_parse(&address, to, "weir_udp_send_new") : 0;

        return new_send(udp, fault, &address, data, size, done, context);
}
