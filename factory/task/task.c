/* factory/task/task.c: what all tasks have in common.
 *
 * Threads: a task belongs to one thread at a time: its maker, then (through the poller's inbox or lock) the worker that runs
 *          it. */
#include "factory/task/task.h"

#include <errno.h>
#include <stdlib.h>

#include "factory/task/series.h"
#include "kernel/observe/log.h"
#include "kernel/memory/memory.h"
#include "kernel/base/panic.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"
#include "kernel/sched/worker_loop.h"

void
weir__task_init(struct weir_task *task, const struct weir__task_ops *ops, size_t size, weir_task_fn *done, void *context)
{
        size_t size_class = (size + 7) / 8; /* rounded up as the caches do */

        *task = (struct weir_task){
                .work.ops = &ops->work,
                .done = done,
                .context = context,
                .poller = (uint8_t)weir__worker_home_poller(),
                .size_class = size_class > UINT8_MAX ? 0 : (uint8_t)size_class,
        };
}

void
weir__task_mark_consumed(struct weir_task *task, const char *verb)
{
        if (task->flags & WEIR__TASK_CONSUMED)
                weir__panic("%s: the task was started, pushed, added or dismissed before", verb);
        task->flags |= WEIR__TASK_CONSUMED;
}

void
weir__task_expect_open(const struct weir_task *task, const struct weir__task_ops *ops, const char *verb)
{
        const char *kind = ops->work.kind + 2; /* without the article */

        if (weir__task_ops(task) != ops)
                weir__panic("%s: the task is no %s", verb, kind);
        if (task->flags & WEIR__TASK_CONSUMED)
                weir__panic("%s: the %s was started, pushed, added or dismissed before", verb, kind);
}

void
weir__task_poison(struct weir_task *task, int fault)
{
        if (!(task->flags & WEIR__TASK_POISONED))
                task->status = fault;
        task->flags |= WEIR__TASK_POISONED;
}

static void
seal(struct weir_task *task)
{
        int fault = weir__task_ops(task)->seal(task);

        if (fault)
                weir__task_poison(task, fault);
}

void
weir__task_consume(struct weir_task *task, const char *verb)
{
        weir__task_mark_consumed(task, verb);
        if (weir__task_ops(task)->seal && !(task->flags & WEIR__TASK_POISONED))
                seal(task);
}

void
weir__task_free(struct weir_task *task)
{
        if (task->size_class == 0)
                free(task); /* larger than any class of the caches */
        else
                weir__free(task, 8 * (size_t)task->size_class);
}

void
weir__task_discard(struct weir_task *task)
{
        weir__task_call_on_free(task);
        weir__task_release(task, true);
        weir__task_free(task);
}

void
weir__task_deliver(struct weir_task *task)
{
        struct weir__worker *worker = weir__worker_self();

        weir__deliver(worker && worker->poller ? worker->poller : weir__poller_at(task->poller), &task->work);
}

void
weir__task_deliver_home(struct weir_task *task)
{
        if (task)
                weir__deliver(weir__poller_at(task->poller), &task->work);
}

void
weir__task_make_ready(struct weir_task *task)
{
        atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
        weir__task_deliver(task);
}

weir__function *
weir__task_function(const struct weir__work *work)
{
        return (weir__function *)((const struct weir_task *)work)->done;
}

/* -- for callbacks -- */

int
weir_task_status(const weir_task *task)
{
        return task ? task->status : -EINVAL;
}

void *
weir_task_context(const weir_task *task)
{
        return task ? task->context : NULL;
}

void
weir_task_on_free(weir_task *task, weir_free_fn *fn)
{
        if (task)
                task->on_free = fn;
}
