/* net/datagram/access.c: what a task has received.
 *
 * Threads: those that the task belongs to.
 * Locks:   none. */
#include <errno.h>

#include "kernel/memory/memory.h"
#include "net/datagram/socket.h"

/* NULL: it is no task of this room. */
static struct weir__udp_task *
task_of(const weir_task *task)
{
        weir__memory_expect(task);
        if (!task)
                return NULL;
        const struct weir__work_ops *ops = task->work.ops;
        bool is_ours = ops == &weir__udp_receive_ops.task.work || ops == &weir__udp_ask_ops.task.work ||
                       ops == &weir__udp_request_ops.work || ops == &weir__udp_send_ops.task.work;
        return is_ours ? (struct weir__udp_task *)task : NULL;
}

static const struct weir__datagram *
datagram_of(const weir_task *task)
{
        const struct weir__udp_task *self = task_of(task);

        return self ? self->at : NULL;
}

const void *
weir_udp_data(const weir_task *task, size_t *size)
{
        const struct weir__datagram *datagram = datagram_of(task);

        if (size)
                *size = datagram ? datagram->size : 0;
        return datagram ? datagram->data : NULL;
}

const struct weir_udp_address *
weir_udp_from(const weir_task *task)
{
        const struct weir__datagram *datagram = datagram_of(task);

        return datagram ? &datagram->name : NULL;
}

int
weir_udp_is_truncated(const weir_task *task)
{
        const struct weir__datagram *datagram = datagram_of(task);

        return datagram && datagram->is_truncated;
}

int
weir_udp_next(weir_task *task)
{
        struct weir__udp_task *self = task_of(task);

        if (!self || !self->at || !self->at->next)
                return 0;
        self->at = self->at->next;
        return 1;
}

size_t
weir_udp_count(const weir_task *task)
{
        const struct weir__udp_task *self = task_of(task);

        return self ? self->count : 0;
}

/* A task that sends one datagram, or is poisoned. */
weir_task *
weir_udp_reply_new(const weir_task *received, const void *data, size_t size, weir_task_fn *done, void *context)
{
        const struct weir__udp_task *task = task_of(received);
        const struct weir__datagram *datagram = datagram_of(received);
        weir_task *send = weir_udp_send_many_new(datagram ? task->udp : NULL, done, context);

        if (!send)
                return NULL;
        int failed = datagram ? weir_udp_send_add(send, task->udp->peer.size ? NULL : &datagram->name, data, size) : -EDOM;
        if (failed == -ENOMEM) {
                weir_task_dismiss(send);
                return NULL;
        }
        if (failed) {
                send->flags &= (uint8_t)~WEIR__TASK_POISONED; /* this fault comes first */
                weir__task_poison(send, failed);
        }
        return send;
}
