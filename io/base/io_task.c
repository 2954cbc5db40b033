/* io/base/io_task.c: tasks that belong to a poller.
 *
 * Threads: started and cancelled on any thread.  The work runs on the poller of the task: first to try the task, and a second
 *          time, when the task has ended, to call back.  Without a callback one run may do both.
 * Locks:   none; the states are in the task's word.
 *
 * A task without a series is cancelled by nobody, so its word needs no locked instruction, unless other threads may claim it. */
#include "io/base/io_task.h"

#include "factory/task/series.h"
#include "kernel/loop/pollers.h"
#include "kernel/worker/deliver.h"

static const struct weir__io_ops *
ops_of(const struct weir__io_task *io)
{
        return (const struct weir__io_ops *)io->task.work.ops;
}

/* -- the owner of the poller -- */

/* Claims the task by the owner of its poller, if possible without an atomic exchange. */
static bool
claim_own(struct weir__io_task *io)
{
        if (io->task.series || ops_of(io)->waits)
                return weir__io_claim(io);
        bool is_pending = atomic_load_explicit(&io->task.word, memory_order_relaxed) == WEIR__PENDING;
        if (is_pending)
                atomic_store_explicit(&io->task.word, WEIR__READY, memory_order_release);
        return is_pending;
}

void
weir__io_complete(struct weir__io_task *io, int status)
{
        io->task.is_linked = false;
        io->task.status = status;
        if (claim_own(io))
                weir__deliver(weir__poller_at(io->task.poller), &io->task.work);
}

/* Returns false when it was cancelled just now. */
static bool
begin_to_wait(struct weir__io_task *io)
{
        uint32_t ready = WEIR__READY;

        if (!io->task.series) {
                atomic_store_explicit(&io->task.word, WEIR__PENDING, memory_order_release);
                return true;
        }
        return atomic_compare_exchange_strong_explicit(&io->task.word, &ready, WEIR__PENDING, memory_order_acq_rel,
                                                       memory_order_acquire);
}

static int
try_it(struct weir__io_task *io)
{
        if (atomic_load_explicit(&io->task.word, memory_order_acquire) & WEIR__CANCELLED)
                return weir__series_effective_cause(io->task.series);
        return ops_of(io)->try(io);
}

/* Returns whether the task waits, or runs once more for its callback. */
static bool
try_first(struct weir__io_task *io)
{
        const struct weir__io_ops *ops = ops_of(io);

        io->task.is_tried = true;
        int status = try_it(io);
        if (!io->task.is_linked) {
                io->task.status = status;
        } else if (begin_to_wait(io)) {
                if (ops->waits)
                        ops->waits(io);
                return true;
        }
        if (!io->task.done)
                return false;
        weir__deliver(weir__poller_at(io->task.poller), &io->task.work); /* the work that calls back may be demoted */
        return true;
}

/* As weir__task_complete.  The verdict is read once: `settle` and the callback see the same. */
static void
call_back(struct weir__io_task *io)
{
        struct weir_task *task = &io->task;

        atomic_store_explicit(&task->word, WEIR__RUNNING, memory_order_release);
        int verdict = weir__series_verdict(task->series);
        if (verdict)
                task->status = verdict;
        if (ops_of(io)->settle)
                ops_of(io)->settle(io, verdict);
        weir__task_call_back(task);
        weir__task_finish(task);
}

void
weir__io_run(struct weir__work *work)
{
        struct weir__io_task *io = (struct weir__io_task *)work;

        if (!io->task.is_tried && try_first(io))
                return;
        if (io->task.is_linked) { /* it was cancelled while it waited */
                io->task.status = weir__series_effective_cause(io->task.series);
                ops_of(io)->withdraw(io);
                io->task.is_linked = false;
        }
        call_back(io);
}

weir__function *
weir__io_function(const struct weir__work *work)
{
        return ((const struct weir_task *)work)->is_tried ? weir__task_function(work) : (weir__function *)try_it;
}

/* -- any thread -- */

bool
weir__io_claim(struct weir__io_task *io)
{
        uint32_t pending = WEIR__PENDING;

        return atomic_compare_exchange_strong_explicit(&io->task.word, &pending, WEIR__READY, memory_order_acq_rel,
                                                       memory_order_acquire);
}

void
weir__io_try_again(struct weir__io_task *io, unsigned poller)
{
        io->task.is_linked = io->task.is_tried = false;
        weir__task_set_poller(&io->task, poller);
        weir__deliver(weir__poller_at(poller), &io->task.work);
}

void
weir__io_start(struct weir_task *task)
{
        struct weir__poller *poller = weir__poller_at(task->poller); /* the task may be gone as soon as it is READY */

        if (!task->series)
                atomic_store_explicit(&task->word, WEIR__READY, memory_order_release);
        else /* NEW is 0; a cancel may have left its flag */
                atomic_fetch_add_explicit(&task->word, WEIR__READY, memory_order_release);
        weir__deliver(poller, &task->work);
}

struct weir_task *
weir__io_end_early(struct weir_task *task)
{
        uint32_t before = atomic_fetch_or_explicit(&task->word, WEIR__CANCELLED, memory_order_acq_rel);

        return before == WEIR__PENDING ? task : NULL;
}

/* -- pieces -- */

int
weir__io_take(struct weir_task *task, char **piece, size_t *size)
{
        const struct weir__io_ops *ops = task && task->work.ops->run == weir__io_run ? (const struct weir__io_ops *)task->work.ops
                                                                                     : NULL;

        *piece = NULL;
        *size = 0;
        if (!ops || !ops->take)
                return -EINVAL;
        *piece = ops->take((struct weir__io_task *)task, size);
        return 0;
}
