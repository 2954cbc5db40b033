/* factory/task/series_end_early.c: why and how a series ends early, and how it has ended.
 *
 * Threads: any that owns, borrows or has a reference.
 * Locks:   series->lock (rank SERIES).  While it is held a series that has a parent has not ended, so neither has the
 *          parent.  Under it a poller's lock may be taken, by the cancel of a task. */
#include <errno.h>

#include "factory/task/series.h"
#include "kernel/base/phase.h"

/* A series within one that ends early gets the cause of that one, and was not stopped by this call. */
struct weir_task *
weir__series_end_early_locked(struct weir_series *series, int cause, bool *given)
{
        int inherited = weir__series_effective_cause(series);
        struct weir_task *current = series->current;

        *given = false;
        if (series->state == WEIR__SERIES_ENDED || atomic_load_explicit(&series->cause, memory_order_relaxed))
                return NULL;
        *given = !inherited;
        weir__series_set_cause(series, inherited ? inherited : cause);
        return current && weir__task_ops(current)->end_early ? weir__task_ops(current)->end_early(current) : NULL;
}

bool
weir__series_end_early(struct weir_series *series, int cause)
{
        bool given;

        weir__lock(&series->lock);
        struct weir_task *ended = weir__series_end_early_locked(series, cause, &given);
        weir__unlock(&series->lock);
        weir__task_deliver_home(ended);
        return given;
}

void
weir_series_cancel(weir_series *series)
{
        if (series && !weir__phase_is_forked())
                weir__series_end_early(series, -ECANCELED);
}

/* -- what it ends with -- */

/* Sets *cause and *poison.  Returns 0 or why they are not known. */
static int
read_causes(const weir_series *series, int *cause, int *poison)
{
        if (!series || weir__phase_is_forked())
                return series ? -ECHILD : -EINVAL;
        struct weir__lock *lock = &((struct weir_series *)series)->lock;
        weir__lock(lock); /* and so, while it has a parent, that one cannot end */
        *cause = weir__series_effective_cause(series);
        *poison = series->poison;
        weir__unlock(lock);
        return 0;
}

int
weir_series_status(const weir_series *series)
{
        int cause, poison, failed = read_causes(series, &cause, &poison);

        return failed ? failed : cause ? cause : poison;
}

int
weir_series_cause(const weir_series *series)
{
        int cause, poison, failed = read_causes(series, &cause, &poison);

        if (failed)
                return failed;
        switch (cause) {
        case 0: return poison ? WEIR_CAUSE_POISONED : WEIR_CAUSE_NONE;
        case -ETIMEDOUT: return WEIR_CAUSE_TIMED_OUT;
        case -ESHUTDOWN: return WEIR_CAUSE_SHUT_DOWN;
        default: return WEIR_CAUSE_CANCELLED;
        }
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
