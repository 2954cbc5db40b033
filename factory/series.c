/* factory/series.c: tasks one after another.
 *
 * Threads: push, cancel, ref and unref on any thread; a step (starting the next task, dropping what is left, the end) on the
 *          worker that finished the task before, the first one on the thread that starts the series.
 * Locks:   series->lock (rank SERIES).  Under it a poller's lock may be taken, by a timer's cancel; no user code runs under it.
 *
 * `current` keeps a task alive for weir_series_cancel: it is cleared under the lock before the task is freed. */
#include "factory/series.h"

#include <errno.h>

#include "kernel/memory.h"
#include "kernel/panic.h"
#include "kernel/runtime.h"
#include "kernel/virtual.h"
#include "kernel/worker.h"

#define DROPPED_AT_ONCE 256 /* tasks, before other work has its turn */

static void step(struct weir_series *series);

static void
step_run(struct weir__work *work)
{
        step((struct weir_series *)work);
}

static const struct weir__work_ops step_ops = {.run = step_run, .kind = "a series", .roams = true};

static void
root_ended(struct weir_series *series)
{
        (void)series;
        weir__runtime_leave();
}

weir_series *
weir_series_new(weir_series_fn *done, void *context)
{
        struct weir_series *series = weir__alloc(sizeof *series);

        if (!series)
                return NULL;
        *series = (struct weir_series){
                .work.ops = &step_ops,
                .done = done,
                .context = context,
                .ended = root_ended,
                .poller = (uint16_t)weir__runtime_home(),
        };
        weir__lock_init(&series->lock, WEIR__RANK_SERIES);
        atomic_init(&series->references, 1);
        return series;
}

struct weir_series *
weir__series_wrap(struct weir_task *task)
{
        struct weir_series *series = weir_series_new(NULL, NULL);

        if (!series) {
                weir__task_discard(task);
                return NULL;
        }
        series->wraps = true;
        series->poller = task->poller;
        task->series = series;
        weir__work_append(&series->queue, &task->work);
        return series;
}

struct weir_series *
weir__series_make_for(struct weir_task *task)
{
        struct weir_series *series = weir_series_new(NULL, NULL);

        if (!series)
                return NULL;
        series->grain = weir__task_ops(task)->grain;
        if (weir__task_ops(task)->series_ended)
                series->ended = weir__task_ops(task)->series_ended;
        series->owner = task;
        series->current = task;
        series->state = WEIR__SERIES_RUNNING;
        task->series = series;
        if (weir__task_ops(task)->series_made)
                weir__task_ops(task)->series_made(series);
        return series;
}

weir_series *
weir_series_ref(weir_series *series)
{
        if (series)
                atomic_fetch_add_explicit(&series->references, 1, memory_order_relaxed);
        return series;
}

void
weir_series_unref(weir_series *series)
{
        if (!series || atomic_fetch_sub_explicit(&series->references, 1, memory_order_acq_rel) > 1)
                return;
        weir__free(series, sizeof *series);
}

/* -- tasks come in -- */

static int
push(struct weir_series *series, struct weir_task *task, bool front)
{
        int failed = weir__runtime_forked() ? -ECHILD : task && series ? 0 : -ENOMEM;

        if (task) {
                weir__task_consume(task, front ? "weir_series_push_front" : "weir_series_push");
                if (!failed && task->flags & WEIR__TASK_WRONG)
                        failed = task->status;
        }
        if (series && !weir__runtime_forked()) {
                weir__lock(&series->lock);
                if (series->state == WEIR__SERIES_ENDED) {
                        failed = -ESTALE;
                } else if (failed) {
                        if (!series->poison)
                                series->poison = failed;
                } else {
                        task->series = series;
                        (front ? weir__work_prepend : weir__work_append)(&series->queue, &task->work);
                }
                weir__unlock(&series->lock);
        }
        if (failed && task)
                weir__task_discard(task);
        return failed;
}

int
weir_series_push(weir_series *series, weir_task *task)
{
        return push(series, task, false);
}

int
weir_series_push_front(weir_series *series, weir_task *task)
{
        return push(series, task, true);
}

/* -- why it ends early -- */

int
weir__series_cause(const struct weir_series *series)
{
        for (; series; series = series->parent) {
                int cause = atomic_load_explicit(&series->cause, memory_order_acquire);

                if (cause)
                        return cause;
        }
        return 0;
}

/* With the lock held. */
static void
set_cause(struct weir_series *series, int cause)
{
        if (!atomic_load_explicit(&series->cause, memory_order_relaxed))
                atomic_store_explicit(&series->cause, cause, memory_order_release);
}

void
weir_series_cancel(weir_series *series)
{
        struct weir_task *ended = NULL;

        if (!series || weir__runtime_forked())
                return;
        weir__lock(&series->lock);
        if (series->state != WEIR__SERIES_ENDED) {
                set_cause(series, -ECANCELED);
                if (series->current && weir__task_ops(series->current)->cancel)
                        ended = weir__task_ops(series->current)->cancel(series->current);
        }
        weir__unlock(&series->lock);
        if (ended)
                weir__poller_deliver(weir__runtime_poller(ended->poller), &ended->work);
}

int
weir_series_status(const weir_series *series)
{
        if (!series)
                return -EINVAL;
        if (weir__runtime_forked())
                return -ECHILD;
        struct weir__lock *lock = &((struct weir_series *)series)->lock;
        weir__lock(lock); /* and so, while it has a parent, that one cannot end */
        int cause = weir__series_cause(series);
        int status = cause ? cause : series->poison;
        weir__unlock(lock);
        return status;
}

int
weir__series_result(const struct weir_series *series)
{
        if (!series->has_result)
                return weir_series_status(series);
        return series->result ? series->result : series->poison; /* which nobody adds to any more */
}

/* -- steps -- */

void
weir__series_leave_task(struct weir_series *series, struct weir_task *task)
{
        if (series->wraps && !series->has_result) {
                series->result = task->status;
                series->has_result = true;
        }
        weir__lock(&series->lock);
        series->current = NULL;
        weir__unlock(&series->lock);
}

void
weir__series_go_on(struct weir_series *series)
{
        step(series);
}

static void
free_context(struct weir_series *series)
{
        if (series->free_context)
                weir__user_call(series->free_context, series->context);
        series->free_context = NULL;
}

/* The end: callback, free function, then whoever waits for it.  On a worker, no lock held. */
static void
end(struct weir_series *series)
{
        unsigned before = weir__user_begin((weir__function *)series->done);

        if (series->done)
                series->done(series, series->context);
        free_context(series);
        weir__user_end(before);
        series->ended(series);
        weir_series_unref(series);
}

/* Takes the next task off the queue, and makes it the current one if it is to be started.  Sets *cause when it is to be
 * dropped.  NULL: the series has ended. */
static struct weir_task *
take_next(struct weir_series *series, int *cause)
{
        weir__lock(&series->lock);
        *cause = weir__series_cause(series);
        if (!*cause && weir__runtime_stopping())
                *cause = -ESHUTDOWN;
        if (*cause)
                set_cause(series, *cause);
        struct weir_task *task = (struct weir_task *)weir__work_pop(&series->queue);
        if (!task) {
                series->state = WEIR__SERIES_ENDED;
                series->parent = NULL; /* which may end from now on */
        } else if (!*cause)
                series->current = task;
        weir__unlock(&series->lock);
        return task;
}

/* Starts the next task, or drops a batch of what is left of a series that ends early, or ends it. */
static void
step(struct weir_series *series)
{
        for (unsigned dropped = 0; dropped < DROPPED_AT_ONCE; dropped++) {
                int cause;
                struct weir_task *task = take_next(series, &cause);

                if (!task) {
                        end(series);
                        return;
                }
                if (!cause) {
                        weir__worker_self()->acts_last = true;
                        weir__task_ops(task)->start(task);
                        return;
                }
                weir__task_discard(task);
        }
        weir__poller_deliver(weir__runtime_poller(series->poller), &series->work);
}

/* The first step may be made by the thread that starts the series, unless user code might run in it: an empty series, or one that
 * is cancelled already, goes to a worker. */
void
weir__series_launch(struct weir_series *series, struct weir_series *parent)
{
        struct weir_task *task = NULL;

        weir__lock(&series->lock);
        series->state = WEIR__SERIES_RUNNING;
        series->parent = parent;
        series->grain = parent ? parent->grain : 0;
        if (!weir__series_cause(series) && !weir__runtime_stopping()) {
                task = (struct weir_task *)weir__work_pop(&series->queue);
                series->current = task;
        }
        weir__unlock(&series->lock);
        if (task)
                weir__task_ops(task)->start(task);
        else
                weir__poller_deliver(weir__runtime_poller(series->poller), &series->work);
}

/* -- start, run, dismiss -- */

int
weir__series_fault(const struct weir_series *series)
{
        struct weir__lock *lock = &((struct weir_series *)series)->lock;

        weir__lock(lock); /* who has a reference may push meanwhile */
        bool fresh = series->state == WEIR__SERIES_NEW && !series->owner;
        int poison = series->poison;
        weir__unlock(lock);
        if (!fresh)
                weir__panic("a series was started, run, added or dismissed twice");
        return poison;
}

static void
dismiss(struct weir_series *series)
{
        struct weir__work_list queue;

        weir__lock(&series->lock);
        if (series->state != WEIR__SERIES_NEW)
                weir__panic("weir_series_dismiss: the series was started before");
        series->state = WEIR__SERIES_ENDED;
        queue = series->queue;
        series->queue = (struct weir__work_list){0};
        weir__unlock(&series->lock);
        for (struct weir__work *work; (work = weir__work_pop(&queue));)
                weir__task_discard((struct weir_task *)work);
        free_context(series);
        weir_series_unref(series);
}

void
weir__series_discard(struct weir_series *series)
{
        static _Thread_local struct {
                struct weir_series *first; /* linked by `next`, which nobody else uses any more */
                bool busy;
        } discarding;

        series->next = discarding.first;
        discarding.first = series;
        if (discarding.busy)
                return; /* the call that is at it, further up the stack, will come to this one */
        discarding.busy = true;
        while ((series = discarding.first)) {
                discarding.first = series->next;
                dismiss(series);
        }
        discarding.busy = false;
}

void
weir_series_dismiss(weir_series *series)
{
        if (!series)
                return;
        if (series->owner)
                weir__panic("weir_series_dismiss: the series was added to a parallel before");
        dismiss(series);
}

int
weir_series_start(weir_series *series)
{
        if (!series)
                return -ENOMEM;
        int failed = weir__series_fault(series);
        if (!failed)
                failed = weir__runtime_enter();
        if (failed)
                dismiss(series);
        else
                weir__series_launch(series, NULL);
        return failed;
}

static void
waited_for_ended(struct weir_series *series)
{
        weir__runtime_leave();
        weir__runtime_wait_end(
                series->waiter_gave); /* here, so that the virtual clock does not jump on before the waiter is awake */
        weir__latch_open(&series->latch);
}

int
weir_series_run(weir_series *series)
{
        int status = weir__runtime_may_wait();

        if (!series)
                return status ? status : -ENOMEM;
        if (status) {
                dismiss(series);
                return status;
        }
        int drives = weir__virtual_enter();
        if (drives < 0) {
                dismiss(series);
                return drives;
        }
        series->ended = waited_for_ended;
        series->waiter_gave = weir__worker_gave();
        weir_series_ref(series);
        status = weir_series_start(series);
        if (!status) {
                weir__runtime_wait_begin(series->waiter_gave); /* not before the start: time would not wait for what is started */
                weir__latch_wait(&series->latch);
                status = weir__series_result(series);
        }
        weir_series_unref(series);
        if (drives)
                weir__virtual_leave();
        return status;
}

/* -- context -- */

void *
weir_series_context(const weir_series *series)
{
        return series ? series->context : NULL;
}

void
weir_series_set_context(weir_series *series, void *context, weir_free_fn *fn)
{
        if (!series) {
                if (fn)
                        fn(context);
                return;
        }
        if (series->free_context && series->context != context)
                series->free_context(series->context);
        series->context = context;
        series->free_context = fn;
}
