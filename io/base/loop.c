/* io/base/loop.c: tasks whose functions run on the thread of a foreign loop.
 *
 *     NEW --start--> PENDING, in the queue --weir_loop_run--> READY, the function runs --> delivered: the callback
 *                                   \--cancel, deadline, shutdown--> READY --> the callback
 *
 * Threads: any; the functions on the thread that calls weir_loop_run.
 * Locks:   the object's, for the queue and the state of the descriptor.
 *
 * The object is one that tasks wait at (factory/sync/waitable.h).  The claim decides: a call that weir_loop_run has claimed runs,
 * and a cancel that claims it first leaves nothing to run.
 *
 * The eventfd is written by the first call that finds it unread, and is read when no call is left.  So 1,000 calls make two
 * system calls. */
#include <weir/loop.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "factory/sync/waitable.h"
#include "kernel/memory/memory.h"
#include "kernel/observe/log.h"
#include "kernel/runtime/runtime.h"

struct weir_loop {
        struct weir__waitable object; /* first */
        struct weir__list waits;      /* guarded by the object's lock */
        bool is_readable;             /* the descriptor; guarded by the object's lock */
        int fd;                       /* constant */
};

struct call {
        struct weir__wait_task wait_task; /* first */
        weir_go_fn *function;             /* constant */
        _Atomic bool is_inside;           /* the function runs; relaxed, for dumps */
};

/* -- the object -- */

/* Under the lock.  A call waits in any case. */
static int
try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        weir_loop *loop = (weir_loop *)wait->object;

        (void)claimed;
        if (!loop->is_readable)
                eventfd_write(loop->fd, 1);
        loop->is_readable = true;
        return -EAGAIN;
}

static void
clear(struct weir__waitable *object)
{
        weir_loop *loop = (weir_loop *)object;

        if (loop->fd >= 0)
                close(loop->fd);
}

static void
describe(const struct weir__waitable *object, const struct weir__wait *wait, char *out, size_t room)
{
        const weir_loop *loop = (const weir_loop *)object;

        if (!wait)
                snprintf(out, room, "with descriptor %d", loop->fd);
}

static const struct weir__waitable_ops loop_ops = {.kind = WEIR__UNNAMED,
                                                   .noun = "loop",
                                                   .size = sizeof(struct weir_loop),
                                                   .queues = 1,
                                                   .try = try,
                                                   .clear = clear,
                                                   .describe = describe};

WEIR__WAITABLE_REFERENCES(weir_loop, weir_loop_ref, weir_loop_unref)

weir_loop *
weir_loop_new(void)
{
        weir_loop *loop = NULL;
        int fd = -1, fault = ECHILD;

        if (!weir__phase_is_forked()) {
                fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
                fault = errno;
        }
        if (fd >= 0) {
                loop = (weir_loop *)weir__waitable_new(&loop_ops, 0, 0, NULL);
                fault = ENOMEM;
        }
        if (loop) {
                loop->fd = fd;
                return loop;
        }
        if (fd >= 0)
                close(fd);
        errno = fault;
        return NULL;
}

int
weir_loop_fd(const weir_loop *loop)
{
        return loop ? loop->fd : -ENOMEM;
}

/* -- the thread of the loop -- */

static struct call *
take_oldest(weir_loop *loop)
{
        struct weir__work_list claimed = {0};

        weir__waitable_lock(&loop->object);
        struct weir__wait *wait = weir__wait_pop(&loop->waits, &claimed);
        weir__unlock(&loop->object.lock);
        return wait ? (struct call *)wait->task : NULL;
}

static const struct weir__callee callee = {"the function of", NULL, "a call in a loop"};

/* Returns false in a child that the function has made. */
static bool
run_function(struct call *call)
{
        bool before = weir__runtime_forbid_waits(true);

        atomic_store_explicit(&call->is_inside, true, memory_order_relaxed);
        weir__user_call_as(&callee, &call->wait_task.task.work, call->function, call->wait_task.task.context);
        atomic_store_explicit(&call->is_inside, false, memory_order_relaxed);
        weir__runtime_forbid_waits(before);
        return !weir__phase_is_forked();
}

/* Readable as long as calls wait.  A loop that watches edges needs another one for what is left.  Under the lock. */
static void
update_descriptor(weir_loop *loop)
{
        eventfd_t count;

        if (weir__wait_oldest_pending(&loop->waits)) {
                eventfd_write(loop->fd, 1);
        } else if (loop->is_readable) {
                loop->is_readable = false;
                eventfd_read(loop->fd, &count);
        }
}

int
weir_loop_run(weir_loop *loop, size_t most)
{
        struct call *call;
        int count = 0, fault = weir__waitable_fault((struct weir__waitable *)loop);

        if (fault)
                return fault;
        weir__waitable_ref(&loop->object); /* the last call may have the last one */
        weir__waitable_lock(&loop->object);
        size_t waiting = loop->object.linked;
        weir__unlock(&loop->object.lock);
        size_t left = most < waiting ? most : waiting;
        for (; left > 0 && count < INT_MAX && (call = take_oldest(loop)); left--, count++) {
                if (!run_function(call))
                        return -ECHILD;
                weir__task_deliver(&call->wait_task.task);
        }
        weir__waitable_lock(&loop->object);
        update_descriptor(loop);
        weir__unlock(&loop->object.lock);
        weir__waitable_unref(&loop->object);
        return count;
}

/* -- the task -- */

static void
describe_call(const struct weir_task *task, char *out, size_t room)
{
        const struct call *call = (const struct call *)task;
        char more[64];

        out[0] = '\0';
        if (atomic_load_explicit(&call->is_inside, memory_order_relaxed))
                snprintf(out, room, "inside its function, on the thread of the loop");
        else if (atomic_load_explicit(&task->word, memory_order_acquire) == WEIR__PENDING)
                snprintf(out, room, "for the thread of the loop with descriptor %d, for which %zu wait",
                         ((const weir_loop *)call->wait_task.wait.object)->fd,
                         weir__waitable_describe(call->wait_task.wait.object, &call->wait_task.wait, more, sizeof more));
}

/* A cancel of the series prevails, also when the function has run meanwhile. */
static void
run(struct weir__work *work)
{
        weir__wait_leave(&((struct call *)work)->wait_task.wait);
        weir__task_complete(work);
}

static const struct weir__task_ops call_ops = {
        .work = {.run = run,
                 .kind = "a call in a loop",
                 .is_migratable = true,
                 .function = weir__task_function,
                 .name = weir__task_name},
        .start = weir__wait_start,
        .end_early = weir__wait_end_early,
        .release = weir__wait_release,
        .describe = describe_call,
};

weir_task *
weir_loop_call_new(weir_loop *loop, weir_go_fn *function, weir_task_fn *done, void *context)
{
        struct call *call = weir__alloc(sizeof *call);

        if (!call)
                return NULL;
        weir__wait_task_init(&call->wait_task, sizeof *call, &call_ops, weir__waitable_ref((struct weir__waitable *)loop), 0,
                             done, context);
        call->function = function;
        atomic_init(&call->is_inside, false);
        if (!loop)
                weir__task_poison(&call->wait_task.task, -ENOMEM);
        if (!function)
                weir__task_poison(&call->wait_task.task,
                                  weir__log_refusal("weir_loop_call_new: the function is NULL: expected the one to be run"));
        return &call->wait_task.task;
}
