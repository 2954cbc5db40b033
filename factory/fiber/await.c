/* factory/fiber/await.c: what a fiber awaits.
 *
 * Threads: a fiber, on its stack; what starts runs on the worker's.
 * Locks:   those of channels, for what is there at once. */
#include <errno.h>

#include "factory/channel/channel.h"
#include "factory/fiber/fiber.h"
#include "factory/sync/guard.h"
#include "kernel/base/phase.h"
#include "kernel/data/prefetch.h"
#include "kernel/memory/memory.h"
#include "kernel/worker/user.h"

#define STACKS_PREFETCHED 16  /* of fibers that have slept: so many are fetched from memory at a time */
#define STACK_IN_USE      256 /* bytes of a stack that a fiber in a sleep needs soon, about */

/* -- what it looks at before it waits -- */

int
weir__fiber_leave_host(struct weir__fiber *fiber)
{
        struct weir_series *series = fiber->is_hosted ? weir_series_of(fiber->host) : NULL;

        if (!fiber->is_hosted)
                return 0;
        if (!series)
                return -ENOMEM;
        fiber->is_hosted = false;
        atomic_store_explicit(&fiber->limit, NULL, memory_order_relaxed);
        weir__lock(&fiber->inner.lock);
        weir__series_enter(&fiber->inner, series);
        weir__unlock(&fiber->inner.lock);
        return 0;
}

int
weir__fiber_find_cause(struct weir__fiber *fiber)
{
        int failed = weir__fiber_leave_host(fiber);

        if (failed)
                return failed;
        int cause = weir__series_effective_cause(fiber->scope);

        return cause ? cause : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

/* -- tasks -- */

/* The callback of a task that is awaited: its own one, and then the next stretch.  A tick of a ticker is not its end. */
static void
resume(weir_task *task, void *context)
{
        weir_task_fn *done = ((struct weir__fiber *)task->series->owner)->wanted.awaited->done;
        struct weir__timer *timer = weir__timer_of_task(task);
        bool is_tick = timer && weir__timer_is_ticking(timer, weir__timer_word(timer));

        if (done) {
                struct weir__worker *worker = weir__worker_self();

                atomic_store_explicit(&worker->function, (weir__function *)done, memory_order_relaxed);
                done(task, context);
                if (weir__fiber_has_lost_poller(worker))
                        weir__fiber_report_blocked(worker, &task->work);
        }
        if (!is_tick)
                weir__fiber_go_on(task, NULL);
}

void
weir__fiber_drop_refused(struct weir__fiber *fiber)
{
        if (!fiber->has_refused)
                return;
        fiber->has_refused = false;
        weir__task_discard(fiber->wanted.refused);
}

int
weir__fiber_refuse(struct weir__fiber *fiber, struct weir_task *task, int fault)
{
        weir__fiber_drop_refused(fiber);
        if (!(task->flags & WEIR__TASK_CONSUMED))
                weir__task_consume(task, WEIR__ACT_AWAIT);
        task->status = fault;
        fiber->wanted.refused = task;
        fiber->has_refused = true;
        return fault;
}

int
weir__fiber_await(struct weir__fiber *fiber, struct weir_task *task, void *at)
{
        weir__fiber_drop_refused(fiber);
        if (!task)
                return -ENOMEM;
        weir__task_consume(task, WEIR__ACT_AWAIT);
        int fault = task->flags & WEIR__TASK_POISONED ? task->status : weir__fiber_cause(fiber);
        if (fault)
                return weir__fiber_refuse(fiber, task, fault);
        const struct weir__fiber_awaited awaited = {.task = task, .done = task->done};
        task->done = resume;
        fiber->wanted.awaited = &awaited;
        weir__fiber_leave(fiber, WEIR__FIBER_AWAIT, at);
        if (__builtin_expect(fiber->shields > 0, 0)) /* a guard is the fiber's, and not the shield's */
                weir__guard_hand_over(fiber->shield, &fiber->inner);
        return task->status;
}

int
weir__await(struct weir_task *task, void *at)
{
        struct weir__fiber *fiber = weir__fiber_self();

        return fiber ? weir__fiber_await(fiber, task, at) : weir_task_run(task);
}

int
weir_await(weir_task *task)
{
        struct weir__fiber *fiber = weir__fiber_self();

        return fiber ? weir__fiber_await(fiber, task, WEIR__FIBER_AT) : weir_task_run(task);
}

int
weir_fiber_go(weir_go_fn *function, void *context)
{
        return weir__await(weir_go_new(NULL, function, NULL, context), WEIR__FIBER_AT);
}

/* -- waits without a task -- */

int
weir_fiber_yield(void)
{
        struct weir__fiber *fiber = weir__fiber_self();

        if (!fiber)
                return -EDEADLK;
        if (__builtin_expect(fiber->has_refused, 0))
                weir__fiber_drop_refused(fiber);
        int cause = weir__fiber_cause_at_hand(fiber);
        if (cause)
                return cause;
        weir__fiber_leave(fiber, WEIR__FIBER_YIELD, WEIR__FIBER_AT);
        return weir__fiber_cause_once_in_series(fiber);
}

/* The memory is the fiber's. */
static void
keep_memory(struct weir_task *task)
{
        (void)task;
}

static const struct weir__timer_ops sleep_ops;

/* All fibers of a batch are on their way from memory before the first one runs.  Nothing is read here that would have to be
 * waited for. */
static struct weir__work *
sleep_due(struct weir_task *task, int status)
{
        const struct weir__fiber *fiber = weir__container_of(task, struct weir__fiber, own.timer.task);

        weir__prefetch(&fiber->task, sizeof fiber->task);
        weir__prefetch(&fiber->context, sizeof *fiber - offsetof(struct weir__fiber, context));
        return weir__timer_due((struct weir__timer *)task, status);
}

static struct weir__fiber *
sleeper_of(struct weir__work *work)
{
        return work && work->ops == &sleep_ops.task.work ? weir__container_of(work, struct weir__fiber, own.timer.task.work)
                                                         : NULL;
}

/* Has the stacks of this fiber and of those that run next on their way.  The tables of pages are asked for all of them at a time.
 * No callback runs here, so the poller is this worker's. */
static __attribute__((noinline)) void
prefetch_stacks(struct weir__fiber *fiber)
{
        const struct weir__poller *poller = weir__worker_self()->poller;
        struct weir__work *next = poller ? poller->ready.items.first : NULL;

        for (unsigned i = 0; fiber && i < STACKS_PREFETCHED; i++) {
                weir__prefetch(fiber->context.sp, STACK_IN_USE);
                __builtin_prefetch(fiber->stack, 1);
                fiber->is_prefetched = true;
                fiber = sleeper_of(next);
                next = next ? next->next : NULL;
        }
}

static void
run_sleep(struct weir__work *work)
{
        struct weir__fiber *fiber = weir__container_of(work, struct weir__fiber, own.timer.task.work);

        if (!fiber->is_prefetched)
                prefetch_stacks(fiber);
        fiber->is_prefetched = false;
        weir__timer_run(work);
}

static const struct weir__timer_ops sleep_ops = {
        .task = {.work = {.run = run_sleep,
                          .kind = "a sleep",
                          .is_migratable = true,
                          .function = weir__task_function,
                          .name = weir__task_name},
                 .start = weir__timer_start,
                 .end_early = weir__timer_end_early,
                 .release = weir__timer_release,
                 .free_memory = keep_memory,
                 .due = sleep_due,
                 .has_quiet_release = true,
                 .name = weir__timer_text,
                 .lateness = weir__timer_lateness,
                 .describe = weir__timer_describe},
};

void
weir__fiber_start_sleep(struct weir__fiber *fiber)
{
        struct weir__timer *timer = &fiber->own.timer;

        weir__fiber_clear_own(fiber);
        weir__task_init(&timer->task, &sleep_ops.task, 0, weir__fiber_go_on, NULL);
        timer->task.slack = weir__pollers.timer_slack;
        timer->node = (struct weir__timerq_node){.deadline = fiber->wanted.duration, .kind = WEIR__DEADLINE_TASK};
        weir__fiber_start(fiber, &timer->task);
}

int
weir_fiber_sleep(weir_nsec duration)
{
        struct weir__fiber *fiber;
        int fault = weir__fiber_may_wait(&fiber);

        if (fault)
                return fault;
        fiber->wanted.duration = duration;
        weir__fiber_leave(fiber, WEIR__FIBER_SLEEP, WEIR__FIBER_AT);
        return fiber->own.timer.task.status;
}

/* A dump may still look at the channel, which may be freed from now on. */
static __attribute__((cold, noinline)) void
wait_for_looks(struct weir_series *scope)
{
        weir__lock(&scope->lock);
        weir__unlock(&scope->lock);
}

static void
run_wait(struct weir__work *work)
{
        struct weir__fiber *fiber = weir__container_of(work, struct weir__fiber, own.wait.task.work);

        weir__wait_set_running(&fiber->own.wait);
        if (__builtin_expect(atomic_load(&weir__wait_looks) > 0, 0))
                wait_for_looks(fiber->scope);
        weir__fiber_run_own(fiber);
}

/* The caller keeps the channel during the call, so the wait needs no reference; and it gets the message back. */
#define WAIT_OPS(a_kind)                                                                                  \
        {                                                                                                 \
                .work = {.run = run_wait,                                                                 \
                         .kind = a_kind,                                                                  \
                         .is_migratable = true,                                                           \
                         .function = weir__task_function,                                                 \
                         .name = weir__task_name},                                                        \
                .start = weir__wait_start, .end_early = weir__wait_end_early, .free_memory = keep_memory, \
                .describe = weir__wait_describe                                                           \
        }

static const struct weir__task_ops send_ops = WAIT_OPS("a send"), receive_ops = WAIT_OPS("a receive");

/* The memory of the wait may hold something else, or a wait of the other kind.  So all of it is set anew. */
static void
begin_wait(struct weir__fiber *fiber)
{
        struct weir_series *scope = fiber->scope;
        struct weir__wait_task *wait = &fiber->own.wait;
        const struct weir__fiber_wait *wanted = fiber->wanted.wait;
        unsigned queue = wanted->ops == &send_ops ? WEIR__CHANNEL_SENDERS : WEIR__CHANNEL_RECEIVERS;

        weir__lock(&scope->lock);
        weir__wait_task_init(wait, 0, wanted->ops, wanted->object, queue, weir__fiber_go_on, NULL);
        wait->task.series = scope;
        wait->wait.message = wanted->message;
        scope->current = &wait->task;
        if (__builtin_expect(weir__series_effective_cause(scope), 0))
                weir__wait_end_early(&wait->task);
        weir__unlock(&scope->lock);
        weir__wait_start(&wait->task);
}

/* What was pushed into the series may have run in between. */
void
weir__fiber_start_wait(struct weir__fiber *fiber)
{
        struct weir_series *scope = fiber->scope;
        struct weir_task *task = &fiber->own.wait.task;

        if (!fiber->is_armed) {
                begin_wait(fiber);
                return;
        }
        fiber->is_armed = false;
        weir__lock(&scope->lock);
        scope->current = task;
        if (__builtin_expect(weir__series_effective_cause(scope), 0))
                weir__wait_end_early(task);
        weir__unlock(&scope->lock);
        weir__wait_park(&fiber->own.wait);
}

/* The wait that can be armed; NULL: none. */
static inline struct weir__wait_task *
waiter_of(struct weir__fiber *fiber, const struct weir__task_ops *ops)
{
        struct weir__wait_task *wait = &fiber->own.wait;

        return fiber->scope->current == &wait->task && wait->task.work.ops == &ops->work ? wait : NULL;
}

/* Waits at a channel.  Afterwards *message is what was received, or was not sent. */
static int
wait_at(struct weir__fiber *fiber, weir_channel *channel, const struct weir__task_ops *ops, void **message,
        const struct weir__wait_task *waiter, void *at)
{
        const struct weir__fiber_wait wanted = {.ops = ops, .object = (struct weir__waitable *)channel, .message = *message};

        fiber->is_armed = waiter && atomic_load_explicit(&waiter->task.word, memory_order_relaxed) != WEIR__RUNNING;
        fiber->wanted.wait = &wanted;
        weir__fiber_leave(fiber, WEIR__FIBER_WAIT, at);
        *message = weir__wait_take_message(&fiber->own.wait.wait);
        return fiber->own.wait.task.status;
}

int
weir_fiber_receive(weir_channel *channel, void **message)
{
        struct weir__fiber *fiber;
        void *received = NULL;
        int fault = weir__fiber_may_wait(&fiber);

        if (!fault) {
                struct weir__wait_task *waiter = waiter_of(fiber, &receive_ops);

                fault = weir__channel_receive(channel, &received, waiter);
                if (fault == -EAGAIN)
                        fault = wait_at(fiber, channel, &receive_ops, &received, waiter, WEIR__FIBER_AT);
        }
        *message = received;
        return fault;
}

int
weir_fiber_send(weir_channel *channel, void *message)
{
        struct weir__fiber *fiber;
        int fault = weir__fiber_may_wait(&fiber);

        if (fault)
                return fault;
        struct weir__wait_task *waiter = waiter_of(fiber, &send_ops);
        fault = weir__channel_send(channel, message, waiter);
        return fault == -EAGAIN ? wait_at(fiber, channel, &send_ops, &message, waiter, WEIR__FIBER_AT) : fault;
}

/* -- guards -- */

int
weir_fiber_acquire(weir_guard *guard)
{
        struct weir__fiber *fiber = weir__fiber_self();

        return fiber ? weir__fiber_await(fiber, weir_guard_acquire_new(guard, NULL, NULL), WEIR__FIBER_AT) : -EDEADLK;
}

int
weir_fiber_release(weir_guard *guard)
{
        struct weir__fiber *fiber = weir__fiber_self();

        return fiber ? weir_guard_release(guard, &fiber->inner) : -EDEADLK;
}

/* -- the fiber itself -- */

weir_series *
weir_fiber_series(void)
{
        struct weir__fiber *fiber = weir__fiber_self();

        return fiber && !weir__fiber_leave_host(fiber) ? &fiber->inner : NULL;
}

bool
weir_fiber_is_running(void)
{
        return weir__fiber_self() != NULL;
}

int *
weir_errno_location(void)
{
        return __errno_location();
}
