/* factory/flow/go.c: tasks that are functions on the executor.
 *
 *     NEW --start--> PENDING --a thread takes it--> BEGINNING --> INSIDE, the function runs --> READY --> RUNNING --> freed
 *      \--cancelled before: start---.  \--cancel, limit, shutdown---\--------\--limit---------^
 *      \--limit of 0 or less: start--^------------------------------------------------------'
 *
 * Threads: start and cancel run on any thread.  The rest runs on a thread of the executor, or on the worker of the poller.
 * Locks:   the poller's guards the node of a limit.
 *
 * The thread that brings the word to READY owns the end of the task.  While the task may be in the executor or inside its
 * function there are two references: one belongs to that owner, the other to the executor.  The last one frees the memory.  A
 * thread that takes a PENDING task and ends it itself has both.
 *
 * The limit may come while the function runs.  Then the end is delivered to the poller, and the series goes on.  So nobody looks
 * at the series of a task with a limit that is INSIDE.  The thread looks at it in BEGINNING, whether it was cancelled.  A limit
 * that comes in BEGINNING only leaves a mark. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <weir/go.h>

#include "factory/flow/go.h"
#include "factory/task/series.h"
#include "factory/timer/timer.h"
#include "kernel/base/clock.h"
#include "kernel/base/list.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/data/duration.h"
#include "kernel/executor/executor.h"
#include "kernel/memory/memory.h"
#include "kernel/worker/user.h"
#include "kernel/observe/log.h"

/* Of a task's word, besides those of factory/task/task.h. */
enum go_state {
        BEGINNING = 5,
        INSIDE = 6,
        TIMED_OUT = 128, /* BEGINNING, but the limit has come */
};

struct go {
        struct weir__job job; /* its queue is constant */
        weir_go_fn *function;
        _Atomic int reason; /* what weir_go_cancelled says */
        int failure;        /* what weir_go_fail has said; the function's thread */
};

struct plain {
        struct weir_task task; /* first */
        struct go go;
};

struct timed {
        struct weir__timer timer; /* first: a task and its node, whose deadline is the limit until the start */
        struct go go;
        bool has_outlived_task; /* the function runs on after the end of the task.  Written before the end is delivered */
};

_Static_assert(sizeof(struct plain) <= 120, "a queued function takes more than was promised");

/* The function that this thread is inside. */
static _Thread_local struct go *inside;

static const struct weir__task_ops plain_ops, timed_ops;
static const struct weir__job_ops plain_job_ops, timed_job_ops;

static struct timed *
timed_of(struct weir_task *task)
{
        return weir__task_ops(task) == &timed_ops ? (struct timed *)task : NULL;
}

static struct go *
go_of(struct weir_task *task)
{
        struct timed *timed = timed_of(task);

        return timed ? &timed->go : &((struct plain *)task)->go;
}

static struct weir_task *
task_of(struct weir__job *job)
{
        return job->ops == &timed_job_ops ? &weir__container_of(job, struct timed, go.job)->timer.task
                                          : &weir__container_of(job, struct plain, go.job)->task;
}

static void
leave_queue(struct go *go)
{
        if (go->job.queue && !weir__phase_is_forked())
                weir__go_queue_unref((struct weir__go_queue *)go->job.queue);
}

/* -- the word -- */

/* As long as `from` is all that it holds. */
static bool
swap(struct weir_task *task, uint32_t from, uint32_t to)
{
        return atomic_compare_exchange_strong_explicit(&task->word, &from, to, memory_order_acq_rel, memory_order_acquire);
}

/* From BEGINNING on, by the thread of the executor that has the task.  Only a limit may be faster. */
static bool
advance(struct weir_task *task, uint32_t from, uint32_t to)
{
        if (timed_of(task))
                return swap(task, from, to);
        atomic_store_explicit(&task->word, to, memory_order_release);
        return true;
}

/* Gives the function a reason to end, unless it has one. */
static void
give_reason(struct go *go, int reason)
{
        int none = 0;

        atomic_compare_exchange_strong_explicit(&go->reason, &none, reason, memory_order_relaxed, memory_order_relaxed);
}

/* By the owner of the end.  If no thread of the executor has the job, the owner's reference is the only one from now on. */
static void
take_back(struct go *go)
{
        if (weir__executor_remove(&go->job))
                atomic_store_explicit(&go->job.references, 1, memory_order_relaxed);
}

/* By the owner of the end.  The limit does not come any more. */
static void
remove_limit(struct weir_task *task)
{
        struct timed *timed = timed_of(task);

        if (!timed)
                return;
        struct weir__poller *poller = weir__timer_poller(&timed->timer);
        weir__lock(&poller->lock);
        if (weir__timerq_contains(&timed->timer.node))
                weir__timerq_remove(&poller->deadlines.queue, &timed->timer.node);
        weir__unlock(&poller->lock);
}

static void
deliver(struct weir_task *task, int status)
{
        task->status = status;
        weir__task_deliver_home(task);
}

/* -- the end -- */

static void
free_go(struct weir_task *task)
{
        leave_queue(go_of(task));
        weir__task_free(task);
}

/* Gives up a reference.  The last one frees the memory, and the context of a function that has outlived its task. */
static void
give_up(struct weir_task *task)
{
        struct timed *timed = timed_of(task);

        if (atomic_fetch_sub_explicit(&go_of(task)->job.references, 1, memory_order_acq_rel) > 1)
                return;
        if (timed && timed->has_outlived_task && task->on_free)
                weir__user_call_as(&weir__callee_on_free, &task->work, task->on_free, task->context);
        free_go(task);
}

/* On a worker, of a task that is READY; `alone`: with both references. */
static void
end_task(struct weir_task *task, bool alone)
{
        struct timed *timed = timed_of(task);

        if (timed && timed->has_outlived_task) { /* its status stays after a cancel, too: the function may still run */
                atomic_store_explicit(&task->word, WEIR__RUNNING, memory_order_release);
                weir__task_call_back(task);
        } else {
                weir__task_call(task);
        }
        struct weir_series *series = task->series;
        if (!timed || !timed->has_outlived_task)
                weir__task_leave(task);
        else if (series)
                weir__series_leave_task(series, task);
        if (alone)
                free_go(task);
        else
                give_up(task);
        weir__task_go_on(series);
}

static void
end_run(struct weir__work *work)
{
        end_task((struct weir_task *)work, false);
}

/* -- in the executor -- */

static int
call(struct weir_task *task, struct go *go)
{
        int reason = atomic_load_explicit(&go->reason, memory_order_relaxed);

        if (reason)
                return reason;
        weir__executor_begin(go->job.queue);
        inside = go;
        unsigned before = weir__user_begin((weir__function *)go->function);
        go->function(task->context);
        weir__user_end(before);
        inside = NULL;
        weir__executor_end();
        return go->failure;
}

/* Why a BEGINNING one must not begin. */
static int
obstacle(const struct weir_task *task)
{
        int verdict = weir__series_verdict(task->series);

        return verdict ? verdict : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

/* The function has returned.  `series` is NULL if it has gone on without the function. */
static __attribute__((cold, noinline)) void
end_trace(struct weir__trace_slice *slice, const struct go *go, int status, struct weir_series *series)
{
        const struct weir__go_queue *queue = (const struct weir__go_queue *)go->job.queue;
        struct weir__trace_facts facts = {.kind = "a function's body", .has_status = true, .status = status};

        if (queue) {
                facts.name = queue->name.text;
                facts.name_size = queue->name.size;
        }
        weir__trace_end(slice, &facts, weir__series_trace_flow(series));
}

static void
go_run(struct weir__job *job)
{
        struct weir_task *task = task_of(job);
        struct weir__trace_slice slice = {0};

        if (!swap(task, WEIR__PENDING, BEGINNING)) {
                give_up(task);
                return;
        }
        int status = obstacle(task);
        if (weir__trace_is_on())
                weir__series_trace(task->series, &slice); /* not later: once the task is INSIDE, its series may go on */
        bool begins = advance(task, BEGINNING, status ? WEIR__READY : INSIDE) && !status;
        if (begins) {
                status = call(task, (struct go *)job);
                bool ends = advance(task, INSIDE, WEIR__READY);
                if (__builtin_expect(slice.session != 0, 0))
                        end_trace(&slice, (struct go *)job, status, ends ? task->series : NULL);
                if (!ends) {
                        give_up(task);
                        return;
                }
        }
        task->status = begins || status ? status : -ETIMEDOUT;
        remove_limit(task);
        end_task(task, true);
}

static void
go_refuse(struct weir__job *job)
{
        struct weir_task *task = task_of(job);

        if (!swap(task, WEIR__PENDING, WEIR__READY)) {
                give_up(task);
                return;
        }
        remove_limit(task);
        atomic_store_explicit(&job->references, 1, memory_order_relaxed);
        deliver(task, -ESHUTDOWN);
}

static const struct weir__job_ops plain_job_ops = {go_run, go_refuse}, timed_job_ops = {go_run, go_refuse};

/* -- start, cancel, limit -- */

/* Before it is PENDING: its limit is 0 or less. */
static bool
is_limit_over(struct weir_task *task)
{
        struct timed *timed = timed_of(task);

        return timed && timed->timer.node.deadline <= 0;
}

static int
go_prepare(struct weir_task *task)
{
        return is_limit_over(task) ? 0 : weir__executor_use();
}

/* NEW -> PENDING, with its limit in the queue of its poller; false when it was cancelled. */
static bool
begin_to_wait(struct weir_task *task)
{
        struct timed *timed = timed_of(task);
        weir_nsec now = timed ? weir__clock_now() : 0;

        if (!timed && task->series)
                return swap(task, WEIR__NEW, WEIR__PENDING);
        if (!timed) { /* nobody else knows it */
                atomic_store_explicit(&task->word, WEIR__PENDING, memory_order_relaxed);
                return true;
        }
        struct weir__poller *poller = weir__poller_at(task->poller);
        bool wake = false;
        weir__task_set_poller(task, poller->index);
        weir__lock(&poller->lock);
        bool waits = swap(task, WEIR__NEW, WEIR__PENDING);
        if (waits && !poller->deadlines.is_closing)
                wake = weir__deadlines_add(poller, &timed->timer.node, weir__clock_after(now, timed->timer.node.deadline), now);
        weir__unlock(&poller->lock);
        if (wake)
                weir__poller_wake(poller);
        return waits;
}

/* All of it in one piece: others submit jobs as well, so the compiler would leave calls here. */
static __attribute__((flatten)) void
go_start(struct weir_task *task)
{
        int status = is_limit_over(task) ? -ETIMEDOUT : weir__executor_use();

        if (!status && begin_to_wait(task)) {
                weir__executor_submit(&go_of(task)->job);
                return;
        }
        atomic_store_explicit(&go_of(task)->job.references, 1, memory_order_relaxed);
        atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
        deliver(task, status ? status : weir__series_verdict(task->series));
}

/* By the series, under its lock. */
static struct weir_task *
go_end_early(struct weir_task *task)
{
        int cause = weir__series_effective_cause(task->series);

        if (swap(task, WEIR__NEW, WEIR__NEW | WEIR__CANCELLED))
                return NULL;
        if (!swap(task, WEIR__PENDING, WEIR__READY)) {
                give_reason(go_of(task), cause);
                return NULL;
        }
        remove_limit(task);
        take_back(go_of(task));
        task->status = cause;
        return task;
}

/* Under the lock of the poller.  The state only advances, so the states are tried in their order.  At shutdown the limit of a
 * function that has begun is dropped, and the shutdown waits for the function. */
static struct weir__work *
go_due(struct weir_task *task, int status)
{
        struct timed *timed = timed_of(task);

        if (swap(task, WEIR__PENDING, WEIR__READY)) {
                take_back(&timed->go);
                task->status = status ? status : -ETIMEDOUT;
                return &task->work;
        }
        if (status)
                return NULL;
        give_reason(&timed->go, -ETIMEDOUT);
        if (swap(task, BEGINNING, BEGINNING | TIMED_OUT) || !swap(task, INSIDE, WEIR__READY))
                return NULL;
        timed->has_outlived_task = true;
        task->status = -ETIMEDOUT;
        return &task->work;
}

static void
go_release(struct weir_task *task, bool discarded)
{
        (void)discarded; /* it always is: end_task() gives up the queue itself */
        leave_queue(go_of(task));
}

/* Its queue, and where it stands. */
static void
go_describe(const struct weir_task *task, char *out, size_t room)
{
        struct go *go = go_of((struct weir_task *)task);
        const struct weir__go_queue *queue = (const struct weir__go_queue *)go->job.queue;
        uint32_t state = atomic_load_explicit(&task->word, memory_order_acquire) & WEIR__STATE;
        struct weir__executor_stats stats;
        char waiting[WEIR__DURATION_SIZE];

        if (state != WEIR__PENDING) {
                snprintf(out, room, "%s", state == INSIDE ? "inside its function" : "");
                return;
        }
        if (!queue) { /* a dump shows elsewhere what all threads do, and asking for that waits for a mutex of the system */
                snprintf(out, room, "in no queue");
                return;
        }
        weir__executor_stats(go->job.queue, &stats);
        snprintf(out, room, "in queue \"%.*s\": %" PRIu64 " queued, the oldest for %s; %" PRIu64 " running", queue->name.size,
                 queue->name.text, stats.queued, weir__duration(waiting, stats.waiting), stats.running);
}

#define OPS(its_due)                                                                                        \
        {                                                                                                   \
                .work = {.run = end_run,                                                                    \
                         .kind = "a function",                                                              \
                         .is_migratable = true,                                                             \
                         .function = weir__task_function,                                                   \
                         .name = weir__task_name},                                                          \
                .prepare = go_prepare, .start = go_start, .end_early = go_end_early, .release = go_release, \
                .describe = go_describe, .due = its_due                                                     \
        }

static const struct weir__task_ops plain_ops = OPS(NULL), timed_ops = OPS(go_due);

/* -- making -- */

static struct weir_task *
make_plain(void)
{
        struct plain *plain = weir__alloc(sizeof *plain);

        if (!plain)
                return NULL;
        plain->go = (struct go){.job.ops = &plain_job_ops};
        return &plain->task;
}

static struct weir_task *
make_timed(weir_nsec limit)
{
        struct timed *timed = weir__alloc(sizeof *timed);

        if (!timed)
                return NULL;
        timed->go = (struct go){.job.ops = &timed_job_ops};
        weir__timer_init_limit(&timed->timer, limit);
        timed->has_outlived_task = false;
        return &timed->timer.task;
}

static weir_task *
make(const char *name, const weir_nsec *limit, weir_go_fn *function, weir_task_fn *done, void *context)
{
        struct weir__name_key key;
        int fault = name ? weir__name_expect("a queue", name, &key) : 0;
        struct weir__go_queue *queue = NULL;

        if (!function)
                fault = weir__log_refusal("%s: the function is NULL: expected the one to be run",
                                          limit ? "weir_go_new_timed" : "weir_go_new");
        if (name && !fault && !weir__phase_is_forked()) {
                queue = weir__go_queue_get(&key);
                if (!queue)
                        return NULL;
        }
        struct weir_task *task = limit ? make_timed(*limit) : make_plain();
        if (!task) {
                if (queue)
                        weir__go_queue_unref(queue);
                return NULL;
        }
        weir__task_init(task, limit ? &timed_ops : &plain_ops, limit ? sizeof(struct timed) : sizeof(struct plain), done,
                        context);
        struct go *go = go_of(task);
        go->function = function;
        go->job.queue = queue ? &queue->jobs : NULL;
        atomic_init(&go->job.references, 2);
        if (fault)
                weir__task_poison(task, fault);
        return task;
}

weir_task *
weir_go_new(const char *queue, weir_go_fn *function, weir_task_fn *done, void *context)
{
        return make(queue, NULL, function, done, context);
}

weir_task *
weir_go_new_timed(const char *queue, weir_nsec limit, weir_go_fn *function, weir_task_fn *done, void *context)
{
        return make(queue, &limit, function, done, context);
}

/* -- inside a function -- */

int
weir_go_cancelled(void)
{
        if (weir__phase_is_forked())
                return -ECHILD;
        if (!inside)
                return 0;
        int reason = atomic_load_explicit(&inside->reason, memory_order_relaxed);
        return reason ? reason : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

weir_task *
weir_go_task(void)
{
        if (!inside || inside->job.ops == &timed_job_ops || weir__phase_is_forked())
                return NULL;
        return task_of(&inside->job);
}

void
weir_go_fail(int status)
{
        if (!inside)
                return;
        inside->failure = status;
        if (status > 0)
                inside->failure = weir__log_refusal("weir_go_fail: the status %d: expected 0 or a negative errno", status);
}
