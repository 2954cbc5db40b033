/* factory/task/task_run.c: tasks on their way through a worker, and what the program asks of one task.
 *
 * Threads: start, run and dismiss on any thread; the rest on the worker that runs the task. */
#include "factory/task/task.h"

#include <errno.h>
#include <stdlib.h>

#include "factory/task/live.h"
#include "factory/task/series.h"
#include "kernel/observe/log.h"
#include "kernel/memory/memory.h"
#include "kernel/base/panic.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/user.h"
#include "kernel/sched/watchdog.h"

void
weir__task_call(struct weir_task *task)
{
        atomic_store_explicit(&task->word, WEIR__RUNNING, memory_order_release);
        int verdict = weir__series_verdict(task->series);
        if (verdict)
                task->status = verdict;
        weir__task_call_back(task);
}

/* Its callback has lost the poller: to the watchdog, which says since when, or by weir_blocking_begin. */
static void
has_blocked(const struct weir_task *task)
{
        static struct weir__log_limit limit;
        const struct weir__task_ops *ops = weir__task_ops(task);
        weir_nsec blocked = weir__watchdog_blocked();
        int size = 0;
        const char *name = ops->name ? ops->name(task, &size) : NULL;

        if (blocked)
                weir__log_limited(
                        &limit, WEIR_LOG_INFO,
                        "the callback of %s%s%.*s%s ran for %lld ms: another worker has taken over what waited behind it",
                        ops->work.kind, name ? " \"" : "", size, name ? name : "", name ? "\"" : "",
                        (long long)(blocked / 1000000));
}

static inline void
call(struct weir_task *task, struct weir__worker *worker)
{
        unsigned before = weir__user_begin((weir__function *)task->done);

        worker->task = task;
        task->done(task, task->context);
        weir__user_end(before); /* where a child of fork() that has returned ends */
        worker->task = NULL;
}

static __attribute__((cold, noinline)) void
call_traced(struct weir_task *task, struct weir__worker *worker)
{
        const struct weir__task_ops *ops = weir__task_ops(task);
        weir_nsec lateness = ops->lateness ? ops->lateness(task) : -1;
        struct weir__trace_facts facts = {.kind = ops->work.kind,
                                          .has_status = true,
                                          .status = task->status,
                                          .has_lateness = lateness >= 0,
                                          .lateness = lateness};
        struct weir__trace_slice slice;

        weir__series_trace(task->series, &slice);
        call(task, worker);
        facts.name = ops->name ? ops->name(task, &facts.name_size) : NULL;
        weir__trace_end(&slice, &facts, weir__series_trace_flow(task->series));
}

void
weir__task_call_back(struct weir_task *task)
{
        struct weir__worker *worker = weir__worker_self();
        const struct weir__poller *poller = worker->poller;

        if (!task->done)
                return;
        if (weir__trace_is_on())
                call_traced(task, worker);
        else
                call(task, worker);
        if (__builtin_expect(worker->poller != poller, 0))
                has_blocked(task);
}

void
weir__task_go_on(struct weir_series *series)
{
        if (series)
                weir__series_go_on(series);
        else
                weir__runtime_leave();
}

void
weir__task_finish(struct weir_task *task)
{
        weir__task_leave(task);
        struct weir_series *series = task->series;
        /* Not before the series has left it: a cancel of the series may look at what the kind holds, such as a lock. */
        weir__task_release(task, false);
        weir__task_free(task);
        weir__task_go_on(series);
}

void
weir__task_complete(struct weir__work *work)
{
        struct weir_task *task = (struct weir_task *)work;

        weir__task_call(task);
        weir__task_finish(task);
}

/* -- the public face -- */

static int
enter_and_prepare(struct weir_task *task)
{
        int failed = weir__runtime_enter();

        if (failed || !weir__task_ops(task)->prepare)
                return failed;
        failed = weir__task_ops(task)->prepare(task);
        if (failed)
                weir__runtime_leave();
        return failed;
}

int
weir_task_start(weir_task *task)
{
        if (!task)
                return -ENOMEM;
        weir__task_consume(task, "weir_task_start");
        int failed = task->flags & WEIR__TASK_POISONED ? task->status : enter_and_prepare(task);
        if (failed)
                weir__task_discard(task);
        else
                weir__task_ops(task)->start(task);
        return failed;
}

int
weir_task_run(weir_task *task)
{
        if (!task)
                return -ENOMEM;
        weir__task_consume(task, "weir_task_run");
        int failed = task->flags & WEIR__TASK_POISONED ? task->status : weir__runtime_may_wait();
        if (failed) {
                weir__task_discard(task);
                return failed;
        }
        return weir_series_run(weir__series_wrap(task));
}

void
weir_task_dismiss(weir_task *task)
{
        if (!task)
                return;
        weir__task_mark_consumed(task, "weir_task_dismiss");
        weir__task_discard(task);
}

/* -- the series of a lone task -- */

struct weir_series *
weir__task_make_series(struct weir_task *task)
{
        const struct weir__task_ops *ops = weir__task_ops(task);
        struct weir_series *series = weir_series_new(NULL, NULL);

        if (!series) {
                if (ops->series_failed)
                        ops->series_failed(task);
                return NULL;
        }
        if (ops->series_ops)
                series->work.ops = &ops->series_ops->work;
        series->owner = task;
        series->current = task;
        series->state = WEIR__SERIES_RUNNING;
        task->series = series;
        weir__live_add(series);
        if (ops->series_made)
                ops->series_made(series);
        return series;
}

int
weir__task_prepare_series(struct weir_task *task)
{
        return weir__task_make_series(task) ? 0 : -ENOMEM;
}

weir_series *
weir_series_of(const weir_task *task)
{
        if (!task)
                return NULL;
        if (task->series || (atomic_load_explicit(&task->word, memory_order_relaxed) & WEIR__STATE) != WEIR__RUNNING)
                return task->series;
        return weir__task_make_series((struct weir_task *)task); /* the task is the callback's: const guards its caller only */
}

/* -- the empty task -- */

static const struct weir__task_ops empty_ops = {
        .work = {.run = weir__task_complete, .kind = "an empty task", .is_migratable = true, .function = weir__task_function},
        .start = weir__task_make_ready,
};

weir_task *
weir_empty_new(weir_task_fn *done, void *context)
{
        struct weir_task *task = weir__alloc(sizeof *task);

        if (task)
                weir__task_init(task, &empty_ops, sizeof *task, done, context);
        return task;
}
