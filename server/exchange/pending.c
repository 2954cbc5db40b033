/* server/exchange/pending.c: how the tasks of an exchange wait in its connection.
 *
 * Threads: as pending.h says.
 * Locks:   none; the states are in the task's word. */
#include "server/exchange/pending.h"

#include "kernel/loop/pollers.h"
#include "kernel/sched/deliver.h"

void
weir__pending_start(struct weir_task *task)
{
        uint8_t poller = task->poller; /* the task may be gone as soon as it is READY */

        atomic_fetch_add_explicit(&task->word, WEIR__READY, memory_order_release); /* NEW is 0; a cancel may have left its flag */
        weir__deliver(weir__poller_at(poller), &task->work);
}

struct weir_task *
weir__pending_cancel(struct weir_task *task)
{
        uint32_t before = atomic_fetch_or_explicit(&task->word, WEIR__CANCELLED, memory_order_acq_rel);

        return before == WEIR__PENDING ? task : NULL;
}

bool
weir__pending_is_cancelled(const struct weir_task *task)
{
        return atomic_load_explicit(&task->word, memory_order_acquire) & WEIR__CANCELLED;
}

bool
weir__pending_wait(struct weir_task *task)
{
        uint32_t ready = WEIR__READY;

        return atomic_compare_exchange_strong_explicit(&task->word, &ready, WEIR__PENDING, memory_order_acq_rel,
                                                       memory_order_acquire);
}

void
weir__pending_end(struct weir_task *task, int status)
{
        uint32_t pending = WEIR__PENDING;

        task->status = status;
        if (atomic_compare_exchange_strong_explicit(&task->word, &pending, WEIR__READY, memory_order_acq_rel,
                                                    memory_order_acquire))
                weir__deliver(weir__poller_at(task->poller), &task->work);
}
