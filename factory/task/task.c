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
#include "kernel/base/phase.h"
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
weir__task_mark_consumed(struct weir_task *task, enum weir__act act)
{
        if (task->flags & WEIR__TASK_CONSUMED)
                weir__task_panic_consumed(task, act);
        task->flags |= (uint8_t)act;
}

void
weir__task_expect_open(const struct weir_task *task, const struct weir__task_ops *ops, enum weir__act act)
{
        if (weir__task_ops(task) != ops || task->flags & WEIR__TASK_CONSUMED)
                weir__task_panic_closed(task, ops, act);
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
weir__task_consume(struct weir_task *task, enum weir__act act)
{
        weir__task_mark_consumed(task, act);
        if (weir__task_ops(task)->seal && !(task->flags & WEIR__TASK_POISONED))
                seal(task);
}

void
weir__task_free(struct weir_task *task)
{
        if (task->size_class > 0)
                weir__free(task, 8 * (size_t)task->size_class);
        else if (weir__task_ops(task)->free_memory)
                weir__task_ops(task)->free_memory(task);
        else
                free(task); /* larger than any class of the caches */
}

/* After a shutdown memory goes back to the system at once.  The last tasks that were discarded then stay for a while, so that a
 * second call for one of them ends with its reason.  Of those that are larger than any class of the caches only few stay. */
static _Atomic(struct weir_task *) kept[WEIR__KEPT], kept_large[WEIR__KEPT_LARGE];

static _Atomic(struct weir_task *) *
slot_for(const struct weir_task *task)
{
        static _Atomic unsigned next, next_large;

        if (task->size_class == 0 && !weir__task_ops(task)->free_memory)
                return &kept_large[atomic_fetch_add_explicit(&next_large, 1, memory_order_relaxed) % WEIR__KEPT_LARGE];
        return &kept[atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % WEIR__KEPT];
}

static void
free_later(struct weir_task *task)
{
        if (!weir__memory_is_watched)
                task = atomic_exchange(slot_for(task), task);
        if (task)
                weir__task_free(task);
}

static void
free_all(_Atomic(struct weir_task *) *slots, unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                struct weir_task *task = atomic_exchange(&slots[i], NULL);

                if (task)
                        weir__task_free(task);
        }
}

void
weir__task_free_kept(void)
{
        free_all(kept, WEIR__KEPT);
        free_all(kept_large, WEIR__KEPT_LARGE);
}

void
weir__task_discard(struct weir_task *task)
{
        weir__task_call_on_free(task);
        weir__task_release(task, true);
        if (__builtin_expect(weir__phase_is_ended(), 0))
                free_later(task);
        else
                weir__task_free(task);
}

void
weir__task_deliver(struct weir_task *task)
{
        weir__deliver_near(task->poller, &task->work);
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
        const struct weir_task *task = (const struct weir_task *)work;
        const struct weir_series *series = task->series;

        return series && weir__series_is_fed(series) ? ((const struct weir__series_ops *)series->work.ops)->function(series)
                                                     : (weir__function *)task->done;
}

const char *
weir__task_name(const struct weir__work *work, int *size)
{
        const struct weir_task *task = (const struct weir_task *)work;

        return weir__task_ops(task)->name ? weir__task_ops(task)->name(task, size) : NULL;
}

/* -- for callbacks -- */

int
weir_task_status(const weir_task *task)
{
        weir__memory_expect(task);
        return task ? task->status : -EINVAL;
}

void *
weir_task_context(const weir_task *task)
{
        weir__memory_expect(task);
        return task ? task->context : NULL;
}

void
weir_task_on_free(weir_task *task, weir_free_fn *fn)
{
        weir__memory_expect(task);
        if (task)
                task->on_free = fn;
}

void
weir_task_set_context(weir_task *task, void *context, weir_free_fn *fn)
{
        weir__memory_expect(task);
        if (!task) {
                if (fn)
                        weir__user_call(fn, context);
                return;
        }
        if (task->on_free && task->context != context)
                weir__user_call(task->on_free, task->context);
        task->context = context;
        task->on_free = fn;
}
