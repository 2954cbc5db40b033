/* factory/series_status.c: how a series ends, or has ended, and what it waits for.
 *
 * Threads: any that owns, borrows or has a reference.
 * Locks:   series->lock: while it is held a series that has a parent has not ended, so neither has that. */
#include <errno.h>
#include <stdio.h>

#include "factory/series.h"
#include "kernel/runtime.h"

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
weir_series_cause(const weir_series *series)
{
        if (!series)
                return -EINVAL;
        if (weir__runtime_forked())
                return -ECHILD;
        struct weir__lock *lock = &((struct weir_series *)series)->lock;
        weir__lock(lock);
        int cause = weir__series_cause(series), poison = series->poison;
        weir__unlock(lock);
        switch (cause) {
        case 0: return poison ? WEIR_CAUSE_POISONED : WEIR_CAUSE_NONE;
        case -ETIMEDOUT: return WEIR_CAUSE_TIMED_OUT;
        case -ESHUTDOWN: return WEIR_CAUSE_SHUT_DOWN;
        default: return WEIR_CAUSE_CANCELLED;
        }
}

void
weir__series_describe(struct weir_series *series, char *out, size_t room)
{
        *out = '\0';
        weir__lock(&series->lock);
        const struct weir_task *current = series->current;
        if (current) {
                const struct weir__task_ops *ops = weir__task_ops(current);
                int size = 0;
                const char *name = ops->name ? ops->name(current, &size) : NULL;

                snprintf(out, room, "%s%s%.*s%s", ops->work.kind, name ? " \"" : "", size, name ? name : "", name ? "\"" : "");
        }
        weir__unlock(&series->lock);
}

/* Who makes the steps takes tasks off the list of those that were taken without the lock, but not as long as the current one, which can
 * be cancelled, is started and has not been left; that needs the lock.  Its callback may append to it. */
unsigned
weir__series_behind(const struct weir_series *series, unsigned most)
{
        const struct weir_task *current = series->current;
        const struct weir__work *work = series->queue.first;
        unsigned count = 0;

        for (; work && count < most; count++)
                work = work->next;
        if (!current || (atomic_load_explicit(&current->word, memory_order_acquire) & WEIR__STATE) == WEIR__NEW)
                return count;
        work = __atomic_load_n(&series->taken.first, __ATOMIC_ACQUIRE);
        for (; work && count < most; count++)
                work = __atomic_load_n(&work->next, __ATOMIC_ACQUIRE);
        return count;
}

/* Without the lock: nobody changes any of it after the end. */
int
weir__series_result(const struct weir_series *series)
{
        int result = series->has_result ? series->result : atomic_load_explicit(&series->cause, memory_order_relaxed);

        if (!result)
                result = series->poison;
        return result ? result : series->result;
}
