/* net/datagram/receive.c: tasks that receive datagrams, and the datagrams that nobody has received yet.
 *
 * Threads: tasks as in io/base/io_task.h; the rest is the owner's of the socket's poller.
 * Locks:   none. */
#include "net/datagram/tasks.h"

#include <errno.h>
#include <stdio.h>

#include "factory/task/series.h"

static struct weir__udp_task *
first_receiver(const struct weir_udp *udp)
{
        struct weir__link *link = weir__list_first(&udp->receivers);

        return link ? weir__udp_task_of(link) : NULL;
}

static void
add(struct weir__udp_task *task, struct weir__datagram *datagram)
{
        weir__datagrams_append(&task->datagrams, datagram);
        task->count++;
}

static void
end_first(struct weir_udp *udp, int status)
{
        struct weir__udp_task *task = first_receiver(udp);

        weir__link_remove(&task->link);
        weir__io_complete(&task->io, status);
}

/* The first receiver has what it may have.  One of many gets what comes in the same read, too. */
static void
add_to_first(struct weir_udp *udp, struct weir__datagram *datagram)
{
        struct weir__udp_task *task = first_receiver(udp);

        add(task, datagram);
        if (task->count == task->most)
                end_first(udp, 0);
}

void
weir__receive_give(struct weir_udp *udp, struct weir__datagram *datagram, bool may_keep)
{
        datagram->number = udp->numbers++;
        if (first_receiver(udp)) {
                add_to_first(udp, datagram);
        } else if (may_keep) {
                weir__datagrams_append(&udp->kept, datagram);
        } else {
                atomic_fetch_add_explicit(&udp->dropped, 1, memory_order_relaxed);
                weir__datagram_free(datagram);
        }
}

void
weir__receive_settle(struct weir_udp *udp)
{
        const struct weir__udp_task *task = first_receiver(udp);

        if (task && task->count)
                end_first(udp, 0);
}

bool
weir__receive_fail(struct weir_udp *udp, int error)
{
        weir__receive_settle(udp);
        if (!first_receiver(udp))
                return false;
        end_first(udp, error);
        return true;
}

void
weir__receive_end_all(struct weir_udp *udp, int status)
{
        while (first_receiver(udp))
                end_first(udp, status);
}

/* -- the tasks -- */

static int
try(struct weir__io_task *io)
{
        struct weir__udp_task *task = (struct weir__udp_task *)io;
        struct weir_udp *udp = task->udp;
        struct weir__datagram *datagram;
        int failed = weir__udp_register(udp);

        if (failed)
                return failed;
        while (task->count < task->most && (datagram = weir__datagrams_pop(&udp->kept)))
                add(task, datagram);
        if (task->count)
                return 0;
        if (udp->error) {
                int error = udp->error;

                udp->error = 0;
                return error;
        }
        weir__list_append(&udp->receivers, &task->link);
        io->task.is_linked = true;
        if (udp->may_read)
                udp->ops->read(udp);
        return io->task.is_linked ? 0 : io->task.status;
}

static void
withdraw(struct weir__io_task *io)
{
        weir__link_remove(&((struct weir__udp_task *)io)->link);
}

/* A cancel that came behind the datagrams is decisive: they wait for others, in the order in which they came. */
static void
settle(struct weir__io_task *io, int verdict)
{
        struct weir__udp_task *task = (struct weir__udp_task *)io;
        struct weir__datagrams rest = {0};
        struct weir__datagram *datagram;

        if (!task->count || !verdict) {
                task->at = task->datagrams.first;
                return;
        }
        while ((datagram = weir__datagrams_pop(&task->datagrams))) {
                if (first_receiver(task->udp))
                        add_to_first(task->udp, datagram);
                else
                        weir__datagrams_append(&rest, datagram);
        }
        weir__datagrams_merge(&task->udp->kept, &rest);
        task->count = 0;
        weir__receive_settle(task->udp);
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        const struct weir__udp_task *self = (const struct weir__udp_task *)task;
        char address[WEIR__ADDRESS_TEXT];

        weir__address_print(&self->udp->local, address, sizeof address);
        snprintf(out, room, "a datagram at %s", address);
}

const struct weir__io_ops weir__udp_receive_ops = {
        .task = WEIR__IO_TASK_OPS("a receive", weir__udp_start, weir__udp_task_release, describe),
        .try = try,
        .withdraw = withdraw,
        .settle = settle,
};

/* -- the public face -- */

static weir_task *
new_receive(weir_udp *udp, unsigned most, weir_task_fn *done, void *context)
{
        struct weir__udp_task *task = weir__udp_task_new(&weir__udp_receive_ops, udp, sizeof *task, 0, done, context);

        if (!task)
                return NULL;
        task->most = most;
        return &task->io.task;
}

weir_task *
weir_udp_receive_new(weir_udp *udp, weir_task_fn *done, void *context)
{
        return new_receive(udp, 1, done, context);
}

weir_task *
weir_udp_receive_many_new(weir_udp *udp, unsigned most, weir_task_fn *done, void *context)
{
        return new_receive(udp, most ? most : 64, done, context);
}
