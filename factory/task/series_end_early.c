/* factory/task/series_end_early.c: why and how a series ends early, and how it has ended.
 *
 * Threads: any that owns, borrows or has a reference.
 * Locks:   series->lock (rank SERIES).  While it is held a series that has a parent has not ended, so neither has the
 *          parent.  Under it a poller's lock may be taken, by the cancel of a task.
 *
 * An early end gives the series its cause, and ends its current task.  If that task runs other series, a walk gives them the
 * cause as well, and so on down: a *descent*.  Descents that are not over are counted, for the whole process.  While there is
 * none, each series has the cause of those around it, so a look at its own suffices.  Otherwise it looks at all around it.  So an
 * early end is decisive when the call returns, however much there is within the series.
 *
 * A series that is launched takes the cause of its parent.  Either the walk finds it in what its parent runs, or it finds the
 * cause at its launch. */
#include <errno.h>

#include "factory/task/series.h"
#include "kernel/base/phase.h"
#include "kernel/observe/log.h"

_Atomic unsigned weir__series_descents;

int
weir__series_cause_of_apart(const struct weir_series *series)
{
        const struct weir_series *parent = series->parent;

        if (weir__series_is_shield(series))
                return 0;
        int cause = atomic_load_explicit(&parent->cause, memory_order_acquire);
        if (cause == WEIR__CAUSE_OF_AWAIT) /* of what the fiber awaits, and not of its groups */
                cause = 0;
        return cause || !parent->parent ? cause : weir__series_cause_around(parent);
}

/* The descent begins before the series has its cause: a thread that sees the cause, and asks a series within, gets it, too.  It
 * has none, or that of an await, which is replaced by one write: a thread that looks without the lock finds one of the two. */
static struct weir_task *
end_with(struct weir_series *series, int cause)
{
        struct weir_task *current = series->current;
        const struct weir__task_ops *ops = current ? weir__task_ops(current) : NULL;
        bool descends = ops && ops->child;

        if (descends)
                weir__series_descent_begin();
        atomic_store_explicit(&series->cause, cause, memory_order_release);
        struct weir_task *ended = ops && ops->end_early ? ops->end_early(current) : NULL; /* its walk is a descent of its own */
        if (descends)
                weir__series_descent_end();
        return ended;
}

/* The series is one of a fiber, whose groups end early, too; or it has ended, or has a cause, of which that of one await is
 * replaced. */
static __attribute__((cold, noinline)) struct weir_task *
end_special(struct weir_series *series, int cause, bool *given)
{
        int present = atomic_load_explicit(&series->cause, memory_order_relaxed);

        *given = false;
        if (series->state == WEIR__SERIES_ENDED || (present && present != WEIR__CAUSE_OF_AWAIT))
                return NULL;
        int inherited = !present         ? weir__series_effective_cause(series)
                        : series->parent ? weir__cause_within(weir__series_cause_around(series))
                                         : 0;
        *given = !inherited;
        struct weir_task *ended = end_with(series, inherited ? inherited : cause);
        if (weir__series_is_fed(series))
                ((const struct weir__series_ops *)series->work.ops)->has_cause(series);
        return ended;
}

/* A series within one that ends early gets the cause of that one, and was not stopped by this call. */
struct weir_task *
weir__series_end_early_locked(struct weir_series *series, int cause, bool *given)
{
        if (series->state >= WEIR__SERIES_FED || atomic_load_explicit(&series->cause, memory_order_relaxed))
                return end_special(series, cause, given);
        int inherited = weir__series_effective_cause(series);
        *given = !inherited;
        return end_with(series, inherited ? inherited : cause);
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

int
weir__series_end_now(struct weir_series *series, int cause)
{
        struct weir_task *ended = NULL;
        bool given;

        weir__lock(&series->lock);
        bool is_stale = series->state == WEIR__SERIES_ENDED;
        if (!is_stale)
                ended = weir__series_end_early_locked(series, cause, &given);
        weir__unlock(&series->lock);
        weir__task_deliver_home(ended);
        return is_stale ? -ESTALE : 0;
}

void
weir_series_cancel(weir_series *series)
{
        weir__memory_expect(series);
        if (series && !weir__phase_is_forked())
                weir__series_end_early(series, -ECANCELED);
}

/* -- failures -- */

int
weir_series_fail(weir_series *series, int status)
{
        weir__memory_expect(series);
        if (!series)
                return -EINVAL;
        if (status >= 0 || status < -INT16_MAX)
                return weir__log_refusal("weir_series_fail: the status %d: expected a negative errno", status);
        return weir__phase_is_forked() ? -ECHILD : weir__series_end_now(series, weir__cause_of_failure(status));
}

void
weir_series_stop_on_failure(weir_series *series)
{
        weir__memory_expect(series);
        if (!series || weir__phase_is_forked())
                return;
        weir__lock(&series->lock); /* dumps look at the byte */
        series->stops_on_failure = true;
        weir__unlock(&series->lock);
}

/* What a shutdown has ended is no failure. */
void
weir__series_note_failure(struct weir_series *series, int status)
{
        if (status && !weir__series_effective_cause(series) && !weir__phase_is_stopping())
                weir__series_set_cause(series, weir__cause_of_failure(status));
}

/* -- what it ends with -- */

/* Sets *cause, of the series itself or else of those around it, and *poison.  Returns 0 or why they are not known. */
static int
read_causes(const weir_series *series, int *cause, int *poison)
{
        if (!series || weir__phase_is_forked())
                return series ? -ECHILD : -EINVAL;
        struct weir__lock *lock = &((struct weir_series *)series)->lock;
        weir__lock(lock); /* and so, while it has a parent, that one cannot end */
        *cause = atomic_load_explicit(&series->cause, memory_order_relaxed);
        if (!*cause)
                *cause = weir__series_effective_cause(series);
        *poison = series->poison;
        weir__unlock(lock);
        return 0;
}

int
weir_series_status(const weir_series *series)
{
        weir__memory_expect(series);
        int cause, poison, failed = read_causes(series, &cause, &poison);

        return failed ? failed : cause ? weir__cause_status(cause) : poison;
}

int
weir_series_cause(const weir_series *series)
{
        weir__memory_expect(series);
        int cause, poison, failed = read_causes(series, &cause, &poison);

        if (failed)
                return failed;
        if (cause > 0)
                return WEIR_CAUSE_FAILED;
        switch (weir__cause_status(cause)) {
        case 0: return poison ? WEIR_CAUSE_POISONED : WEIR_CAUSE_NONE;
        case -ETIMEDOUT: return WEIR_CAUSE_TIMED_OUT;
        case -ESHUTDOWN: return WEIR_CAUSE_SHUT_DOWN;
        default: return WEIR_CAUSE_CANCELLED;
        }
}
