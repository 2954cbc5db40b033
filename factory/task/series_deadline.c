/* factory/task/series_deadline.c: deadlines of series.
 *
 *     of the alarm:   none --series starts, or set while it runs--> in the queue --due, shutdown--> its work is on its way
 *                      ^  ^-----------set again, series ends------------'                               |
 *                      \--------------------------------runs: ends the series, or sets the alarm again--'
 *
 * Threads: any; the work of an alarm on a worker.
 * Locks:   series->lock guards the extra; under it the poller's, for the alarm.
 *
 * The alarm needs no reference to its series.  A series that ends takes the alarm out of the queue.  If the work of the
 * alarm is on its way, the series leaves the rest of its end to that work.  So when the callback of a series runs, its
 * deadline is gone.  Shutdown waits for the end of every series, and so for that work as well.
 *
 * A deadline is not handed down.  A series within one whose deadline has come finds the cause by looking at its
 * ancestors. */
#include <errno.h>

#include "factory/task/series_extra.h"
#include "kernel/base/list.h"
#include "kernel/base/clock.h"
#include "kernel/memory/memory.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"

static struct weir__poller *
home(const struct weir_series *series)
{
        return weir__poller_at(series->poller);
}

static weir_nsec
deadline_of(const struct weir__series_extra *extra)
{
        return atomic_load_explicit(&extra->deadline, memory_order_relaxed);
}

static void alarm_run(struct weir__work *work);

static const struct weir__work_ops alarm_ops = {.run = alarm_run, .kind = "a series", .is_migratable = true};

/* Sets the alarm to the present deadline.  Returns whether its poller must be woken.  A closing poller takes no alarms:
 * shutdown ends the series.  Under the lock. */
static bool
arm(struct weir__series_extra *extra)
{
        struct weir__poller *poller = home(extra->series);

        if (extra->is_armed && !weir__alarm_clear(poller, &extra->alarm))
                return false; /* its work is on its way, and will look */
        extra->alarm.work.ops = &alarm_ops;
        extra->is_armed = deadline_of(extra) != WEIR_FOREVER && weir__alarm_set(poller, &extra->alarm, deadline_of(extra));
        return extra->is_armed;
}

/* Its time has come, or had come before the deadline was changed; or shutdown has taken it out of the queue. */
static void
alarm_run(struct weir__work *work)
{
        struct weir__series_extra *extra = weir__container_of(work, struct weir__series_extra, alarm.work);
        struct weir_series *series = extra->series;
        struct weir__poller *poller = home(series);
        struct weir_task *ended = NULL;
        bool wake = false, given;

        weir__lock(&series->lock);
        void (*end)(struct weir_series * series) = extra->end;
        extra->is_armed = false;
        if (!end && weir__clock_now() < deadline_of(extra))
                wake = arm(extra);
        else if (!end)
                ended = weir__series_end_early_locked(series, -ETIMEDOUT, &given);
        weir__unlock(&series->lock);
        weir__task_deliver_home(ended);
        if (wake) /* this worker may have taken it from another poller */
                weir__poller_wake(poller);
        if (end)
                end(series);
}

/* -- deadlines -- */

bool
weir__series_deadline_leave(struct weir__series_extra *extra, void (*end)(struct weir_series *series))
{
        if (extra->is_armed && weir__alarm_clear(home(extra->series), &extra->alarm))
                extra->is_armed = false;
        extra->end = extra->is_armed ? end : NULL;
        return !extra->is_armed;
}

bool
weir__series_deadline_begin(struct weir_series *series)
{
        struct weir__series_extra *extra = weir__series_extra_of(series);
        bool given;

        if (!extra || deadline_of(extra) == WEIR_FOREVER)
                return false;
        if (weir__clock_now() < deadline_of(extra))
                return arm(extra);
        weir__series_end_early_locked(series, -ETIMEDOUT, &given); /* nothing is current yet */
        return false;
}

int
weir_series_set_deadline(weir_series *series, weir_nsec from_now)
{
        if (!series)
                return -EINVAL;
        if (weir__phase_is_forked())
                return -ECHILD;
        if (from_now <= 0)
                return weir__series_end_now(series, -ETIMEDOUT); /* for good */
        weir_nsec deadline = weir__clock_after(weir__clock_now(), from_now);
        struct weir__series_extra *extra = deadline == WEIR_FOREVER ? weir__series_extra_of(series)
                                                                    : weir__series_extra_get(series);
        if (!extra && deadline != WEIR_FOREVER)
                return -ENOMEM;
        weir__lock(&series->lock);
        bool is_stale = series->state == WEIR__SERIES_ENDED, wake = false;
        struct weir__poller *poller = NULL;
        if (extra && !is_stale)
                atomic_store_explicit(&extra->deadline, deadline, memory_order_relaxed);
        if (extra && (series->state == WEIR__SERIES_RUNNING || weir__series_is_fed(series))) {
                poller = home(series);
                wake = arm(extra);
        }
        weir__unlock(&series->lock);
        if (wake)
                weir__poller_wake(poller);
        if (is_stale)
                weir__memory_expect(series);
        return is_stale ? -ESTALE : 0;
}

weir_nsec
weir_series_time_left(const weir_series *series)
{
        weir__memory_expect(series);
        if (!series)
                return -EINVAL;
        if (weir__phase_is_forked())
                return -ECHILD;
        struct weir__lock *lock = &((struct weir_series *)series)->lock;
        weir_nsec nearest = WEIR_FOREVER, now = weir__clock_now();
        weir__lock(lock); /* and so, while it has a parent, that one cannot end */
        bool is_over = weir__series_effective_cause(series) == -ETIMEDOUT;
        for (; series; series = series->parent && weir__series_is_shield(series) ? NULL : series->parent) {
                const struct weir__series_extra *extra = weir__series_extra_of(series);

                if (extra && deadline_of(extra) < nearest)
                        nearest = deadline_of(extra);
        }
        weir__unlock(lock);
        if (is_over || nearest <= now)
                return 0;
        return nearest == WEIR_FOREVER ? WEIR_FOREVER : nearest - now;
}
