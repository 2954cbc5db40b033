/* factory/task/series.c: tasks one after another.
 *
 * Threads: push, cancel, ref and unref on any thread; a step on the worker that finished the task before.  The first
 *          step is made by the thread that starts the series.
 * Locks:   series->lock (rank SERIES).  Under it a poller's lock may be taken, by the cancel of a timer and for a
 *          deadline, and that of a shard of names.  No user code runs under it.
 *
 * A step starts the next task, drops the tasks that are left, or ends the series.  `current` keeps a task that can be
 * cancelled alive for weir_series_cancel: it is cleared under the lock before the task is freed.  No other thread looks
 * at other tasks.  So the thread that makes the steps takes all queued tasks at once, and goes through them without the
 * lock, from one task that cannot be cancelled to the next. */
#include "factory/task/series.h"

#include <errno.h>

#include "factory/task/live.h"
#include "factory/task/series_extra.h"
#include "kernel/memory/memory.h"
#include "kernel/runtime/runtime.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/user.h"

#define DROPPED_AT_ONCE 256 /* tasks, before other work runs */

_Static_assert(sizeof(struct weir_series) <= 112 + sizeof(struct weir__lock), "each idle connection has a series");

void
weir__series_step(struct weir__work *work)
{
        weir__series_go_on((struct weir_series *)work);
}

/* Puts work behind the newest and before the oldest of a ring.  A dump may go through it meanwhile (weir__series_behind). */
static void
ring_insert(struct weir__work *newest, struct weir__work *work)
{
        work->next = newest ? newest->next : work;
        if (newest)
                __atomic_store_n(&newest->next, work, __ATOMIC_RELEASE);
}

/* With the lock held. */
static void
set_queue(struct weir_series *series, const struct weir__work *newest, bool has_front)
{
        atomic_store_explicit(&series->queue, (uintptr_t)newest | (has_front ? WEIR__SERIES_FRONT : 0), memory_order_relaxed);
}

static void
enqueue(struct weir_series *series, struct weir_task *task, bool front)
{
        struct weir__work *newest = weir__series_queued(series);

        ring_insert(newest, &task->work);
        set_queue(series, front && newest ? newest : &task->work, front || weir__series_has_front(series));
}

static void
root_ended(struct weir_series *series)
{
        (void)series;
        weir__runtime_leave();
}

static const struct weir__series_ops root_ops = {.work = WEIR__SERIES_WORK, .ended = root_ended};

weir_series *
weir_series_new(weir_series_fn *done, void *context)
{
        struct weir_series *series = weir__alloc(sizeof *series + (done ? sizeof done : 0));

        if (!series)
                return NULL;
        *series = (struct weir_series){
                .work.ops = &root_ops.work,
                .has_done = done,
                .context = context,
                .poller = (uint8_t)weir__worker_home_poller(),
                .references = 1,
        };
        weir__lock_init(&series->lock, WEIR__RANK_SERIES);
        if (done)
                *(weir_series_fn **)(void *)(series + 1) = done;
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
        series->result_of = WEIR__RESULT_FIRST;
        series->poller = task->poller;
        task->series = series;
        enqueue(series, task, false);
        return series;
}

/* -- the lock -- */

/* A series that was not started and has one reference belongs to its owner, which may leave out the lock.  Another
 * thread needs a reference first, and makes it from that one, unless the series has a name by which others find it. */
static bool
is_private(const struct weir_series *series)
{
        return atomic_load_explicit(&series->references, memory_order_acquire) == 1 && series->state == WEIR__SERIES_NEW &&
               !weir__series_extra_of(series);
}

/* Returns whether the lock was taken, for unlock_if. */
static bool
lock_if_shared(struct weir_series *series)
{
        bool is_locked = !is_private(series);

        if (is_locked)
                weir__lock(&series->lock);
        return is_locked;
}

static void
unlock_if(struct weir_series *series, bool is_locked)
{
        if (is_locked)
                weir__unlock(&series->lock);
}

/* -- tasks come in -- */

__attribute__((noinline)) static int
push(struct weir_series *series, struct weir_task *task, bool front)
{
        int failed = weir__phase_is_forked() ? -ECHILD : task && series ? 0 : -ENOMEM;

        if (task) {
                weir__task_consume(task, front ? WEIR__ACT_PUSH_FRONT : WEIR__ACT_PUSH);
                if (!failed && task->flags & WEIR__TASK_POISONED)
                        failed = task->status;
        }
        if (series && !weir__phase_is_forked()) {
                bool is_locked = lock_if_shared(series);
                if (series->state == WEIR__SERIES_ENDED) {
                        weir__memory_expect(series); /* one that was freed looks like this */
                        failed = -ESTALE;
                } else if (failed) {
                        if (!series->poison)
                                series->poison = failed;
                } else {
                        task->series = series;
                        enqueue(series, task, front);
                }
                unlock_if(series, is_locked);
        }
        if (failed && task)
                weir__task_discard(task);
        return failed;
}

/* Behind those taken; by the thread that makes the steps. */
static void
append(struct weir_series *series, struct weir_task *task)
{
        task->series = series;
        ring_insert(series->taken, &task->work);
        __atomic_store_n(&series->taken, &task->work, __ATOMIC_RELEASE);
}

void
weir__series_follow_up(struct weir_series *series, struct weir_task *task)
{
        weir__lock(&series->lock); /* dumps look */
        series->result_of = WEIR__RESULT_NEXT;
        weir__unlock(&series->lock);
        append(series, task);
}

/* A callback of the series pushes, so its thread makes the steps.  The task comes behind those taken, unless tasks are
 * queued, which the callback may know to have come before. */
static bool
push_from_callback(struct weir_series *series, struct weir_task *task)
{
        const struct weir_task *running = weir__task_of_callback();

        if (!running || !task || !series || running->series != series || weir__series_queued(series) || task->flags ||
            weir__task_ops(task)->seal || weir__phase_is_forked())
                return false;
        task->flags = WEIR__ACT_PUSH;
        append(series, task);
        return true;
}

int
weir_series_push(weir_series *series, weir_task *task)
{
        return push_from_callback(series, task) ? 0 : push(series, task, false);
}

int
weir_series_push_front(weir_series *series, weir_task *task)
{
        return push(series, task, true);
}

/* -- steps -- */

static const struct weir__callee end_callee = {"the end callback of", "a series", NULL},
                                 free_callee = {"the free function of", "a series", "a free function"};

static void
free_context(struct weir_series *series)
{
        if (series->free_context)
                weir__user_call_as(&free_callee, &series->work, series->free_context, series->context);
        series->free_context = NULL;
}

static inline void
call_back(struct weir_series *series)
{
        weir_series_fn *done = weir__series_done(series);
        struct weir__user_call call = weir__user_begin_as(&end_callee, &series->work, (weir__function *)done);

        if (done)
                done(series, series->context);
        if (series->free_context) {
                weir__user_go_on_as(call, &free_callee, (weir__function *)series->free_context);
                free_context(series);
        }
        weir__user_end_as(call);
}

static __attribute__((cold, noinline)) void
call_back_traced(struct weir_series *series)
{
        const struct weir__trace_facts facts = {
                .kind = root_ops.work.kind, .has_status = true, .status = weir__series_result(series)};
        struct weir__trace_slice slice;

        weir__series_trace(series, &slice);
        call_back(series);
        weir__trace_end(&slice, &facts, weir__series_trace_flow(series));
}

static void
end_series(struct weir_series *series)
{
        if (series->has_done || series->free_context) {
                if (weir__trace_is_on())
                        call_back_traced(series);
                else
                        call_back(series);
        }
        struct weir__series_extra *extra = weir__series_extra_of(series);
        if (extra) {
                if (extra->is_name_past)
                        weir__series_name_forget(extra);
                weir__series_give_up_holds(series);
        }
        if (series->is_live)
                weir__live_remove(series);
        ((const struct weir__series_ops *)series->work.ops)->ended(series);
        weir_series_unref(series);
}

/* Puts the oldest of those that were pushed to the front before those taken, unless one lies there.  With the lock held. */
static __attribute__((noinline)) void
take_front(struct weir_series *series)
{
        struct weir__work *newest = weir__series_queued(series), *first = newest->next, *next = first->next;

        if (series->is_front_taken)
                return;
        newest->next = next;
        set_queue(series, first == newest ? NULL : newest,
                  first != newest && ((struct weir_task *)next)->flags == WEIR__ACT_PUSH_FRONT);
        first->next = series->taken->next;
        series->taken->next = first;
        series->is_front_taken = true;
}

/* The next task, if there is one, is the oldest of those taken then.  With the lock held. */
static inline void
take_some(struct weir_series *series)
{
        if (!series->taken) {
                series->taken = weir__series_queued(series);
                set_queue(series, NULL, false);
        } else if (__builtin_expect(weir__series_has_front(series), 0)) {
                take_front(series);
        }
}

static struct weir_task *
first_taken(const struct weir_series *series)
{
        return series->taken ? (struct weir_task *)series->taken->next : NULL;
}

static struct weir_task *
pop_taken(struct weir_series *series)
{
        struct weir__work *newest = series->taken, *oldest = newest ? newest->next : NULL;

        series->is_front_taken = false;
        if (oldest == newest)
                series->taken = NULL;
        else
                newest->next = oldest->next;
        return (struct weir_task *)oldest;
}

static bool
can_end_early(const struct weir_task *task)
{
        return weir__task_ops(task)->end_early;
}

static int
cause_to_end(const struct weir_series *series)
{
        int cause = weir__series_effective_cause(series);

        return cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

/* The series leaves its name, and its deadline does not come any more.  Returns false when the work of the deadline is
 * on its way.  Then that work calls `end_it`, and no other thread may.  NULL: the series is dismissed.  Under the lock. */
static inline bool
leave_parts(struct weir_series *series, void (*end_it)(struct weir_series *series))
{
        struct weir__series_extra *extra = weir__series_extra_of(series);

        if (!extra)
                return true;
        if (extra->own_name)
                weir__series_name_end(extra, end_it ? series->has_done : weir__phase_is_ended());
        return weir__series_deadline_leave(extra, end_it);
}

/* It leaves its name and its deadline.  Returns whether the caller must end it; else the work of its deadline does.  Locked. */
static bool
become_ended(struct weir_series *series, int cause)
{
        if (cause)
                weir__series_set_cause(series, cause);
        series->state = WEIR__SERIES_ENDED;
        series->parent = NULL; /* which may end from now on */
        return leave_parts(series, end_series);
}

/* The next task becomes the current one under the same hold of the lock, if it can be cancelled and must be started.  If there
 * is none a plain series becomes ENDED, unless a free function of the task may push yet.  weir__series_go_on does the rest. */
void
weir__series_forget(struct weir_series *series, struct weir_task *task)
{
        if (series->result_of != WEIR__RESULT_NEXT && series->result_of != WEIR__RESULT_OWN && !series->has_result) {
                series->result = task->status;
                series->has_result = series->result_of == WEIR__RESULT_FIRST;
        }
        if (!series->current && !series->stops_on_failure && series->result_of != WEIR__RESULT_NEXT)
                return;
        weir__lock(&series->lock);
        if (series->result_of == WEIR__RESULT_NEXT) /* it was the wait */
                series->result_of = WEIR__RESULT_FIRST;
        if (series->stops_on_failure)
                weir__series_note_failure(series, task->status ? task->status : series->poison);
        take_some(series);
        struct weir_task *next = first_taken(series);
        int cause = cause_to_end(series);
        series->current = next && !cause && can_end_early(next) ? next : NULL;
        if (!next && !weir__series_extra_of(series) && weir__task_ops(task)->has_quiet_release && !weir__series_is_fed(series))
                become_ended(series, cause);
        weir__unlock(&series->lock);
}

/* Whether the thread that makes the steps may take the next task without the lock. */
static bool
is_next_known(const struct weir_series *series)
{
        if (series->current) /* chosen when the last one was left */
                return true;
        return series->taken && !can_end_early(first_taken(series)) && !weir__series_has_front(series) && !cause_to_end(series);
}

static __attribute__((cold, noinline)) void
feed(struct weir_series *series)
{
        ((const struct weir__series_ops *)series->work.ops)->feed(series);
}

/* Takes the next task, and makes it the current one if it must be started and can be cancelled.  Sets *cause when it
 * must be dropped.  NULL: the series has ended, and *ends says whether the caller must see to that; or it was fed. */
static struct weir_task *
take_next(struct weir_series *series, int *cause, bool *ends)
{
        if (is_next_known(series))
                return pop_taken(series);
        if (series->state >= WEIR__SERIES_FED) {
                *ends = series->state == WEIR__SERIES_ENDED; /* which weir__series_forget has written */
                if (*ends)
                        return NULL;
                if (!weir__series_has_queued(series)) {
                        feed(series);
                        return NULL;
                }
        }
        weir__lock(&series->lock);
        *cause = cause_to_end(series);
        take_some(series);
        struct weir_task *task = pop_taken(series);
        if (!task)
                *ends = become_ended(series, *cause);
        else if (*cause && !weir__series_is_fed(series)) /* which has groups that must be told: the walk comes */
                weir__series_set_cause(series, *cause);
        else if (!*cause && can_end_early(task))
                series->current = task;
        weir__unlock(&series->lock);
        return task;
}

/* Starts the next task, or drops a batch of what is left of a series that ends early, or ends it. */
void
weir__series_go_on(struct weir_series *series)
{
        for (unsigned dropped = 0; dropped < DROPPED_AT_ONCE; dropped++) {
                int cause = 0;
                bool ends = false;
                struct weir_task *task = take_next(series, &cause, &ends);

                if (!task) {
                        if (ends)
                                end_series(series);
                        return;
                }
                if (!cause || (weir__task_ops(task)->must_start && weir__task_ops(task)->must_start(task))) {
                        weir__worker_self()->is_last_act = true;
                        weir__task_ops(task)->start(task);
                        return;
                }
                weir__task_discard(task);
        }
        weir__deliver(weir__poller_at(series->poller), &series->work);
}

void
weir__series_end_fed(struct weir_series *series)
{
        weir__lock(&series->lock);
        bool has_queued = weir__series_has_queued(series), ends = false;
        series->state = WEIR__SERIES_RUNNING;
        series->current = NULL; /* else a task that stays there would count as the next one */
        if (!has_queued)
                ends = become_ended(series, cause_to_end(series));
        weir__unlock(&series->lock);
        if (has_queued)
                weir__series_go_on(series);
        else if (ends)
                end_series(series);
}

/* Takes the first task, unless there is none or the series ends early.  With the lock held. */
static struct weir_task *
take_first(struct weir_series *series)
{
        bool is_over = atomic_load_explicit(&series->cause, memory_order_relaxed);
        struct weir_task *task;

        if (is_over ? !series->starts_once_over : weir__phase_is_stopping())
                return NULL;
        take_some(series);
        task = pop_taken(series);
        if (task && can_end_early(task)) {
                series->current = task;
                if (is_over)
                        weir__task_ops(task)->end_early(task); /* not started yet: its start will deliver it */
        }
        return task;
}

/* The thread that starts the series makes the first step, unless user code might run in it: a series that is empty or
 * cancelled goes to a worker. */
void
weir__series_launch(struct weir_series *series, struct weir_series *parent)
{
        unsigned poller = series->poller;

        weir__lock(&series->lock);
        series->state = WEIR__SERIES_RUNNING;
        if (parent)
                weir__series_enter(series, parent);
        bool wake = weir__series_extra_of(series) && weir__series_deadline_begin(series);
        struct weir_task *task = take_first(series);
        weir__unlock(&series->lock);
        if (task)
                weir__task_ops(task)->start(task);
        else
                weir__deliver(weir__poller_at(poller), &series->work);
        if (wake) /* the series may be gone by now */
                weir__poller_wake(weir__poller_at(poller));
}

/* -- start, run, dismiss -- */

int
weir__series_fault(struct weir_series *series, enum weir__act act)
{
        bool is_locked = lock_if_shared(series); /* a thread with a reference may push meanwhile */
        bool is_fresh = series->state == WEIR__SERIES_NEW && !series->owner;
        int poison = series->poison;
        if (is_fresh)
                series->act = act >> 2 & 63;
        unlock_if(series, is_locked);
        if (!is_fresh)
                weir__series_panic_consumed(series, act);
        return poison;
}

bool
weir__series_is_unstarted(const void *block, size_t size)
{
        const struct weir_series *series = block;

        return size >= sizeof *series && series->work.ops == &root_ops.work &&
               (size + 7) / 8 == (weir__series_size(series) + 7) / 8 && series->state == WEIR__SERIES_NEW && !series->owner;
}

static void
dismiss(struct weir_series *series)
{
        weir__lock(&series->lock);
        if (series->state != WEIR__SERIES_NEW)
                weir__series_panic_consumed(series, WEIR__ACT_SERIES_DISMISS);
        series->state = WEIR__SERIES_ENDED;
        if (!series->act)
                series->act = WEIR__ACT_SERIES_DISMISS >> 2 & 63;
        leave_parts(series, NULL);
        take_some(series);
        weir__unlock(&series->lock);
        for (struct weir_task *task; (task = pop_taken(series));)
                weir__task_discard(task);
        free_context(series);
        if (weir__phase_is_ended())
                weir__series_unref_later(series);
        else
                weir_series_unref(series);
}

void
weir__series_discard(struct weir_series *series)
{
        static _Thread_local struct {
                struct weir__work_list series;
                bool is_busy;
        } discarding;

        weir__work_prepend(&discarding.series, &series->work);
        if (discarding.is_busy)
                return; /* a call further up the stack will come to this one */
        discarding.is_busy = true;
        for (struct weir__work *work; (work = weir__work_pop(&discarding.series));)
                dismiss((struct weir_series *)work);
        discarding.is_busy = false;
}

void
weir_series_dismiss(weir_series *series)
{
        if (!series)
                return;
        if (series->owner)
                weir__series_panic_consumed(series, WEIR__ACT_SERIES_DISMISS);
        dismiss(series);
}

int
weir__series_start_root(struct weir_series *series, const struct weir__series_ops *ops, void *owner, int fault)
{
        int failed = fault ? fault : weir__runtime_enter();

        if (failed) {
                dismiss(series);
                return failed;
        }
        series->work.ops = &ops->work;
        if (series->owner != owner) /* else other threads read it */
                series->owner = owner;
        weir__live_add(series);
        weir__series_launch(series, NULL);
        return 0;
}

int
weir_series_start(weir_series *series)
{
        return series ? weir__series_start_as(series, &root_ops, NULL, WEIR__ACT_SERIES_START) : -ENOMEM;
}
