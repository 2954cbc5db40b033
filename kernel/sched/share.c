/* kernel/sched/share.c: ready work goes from a busy poller to others.
 *
 * A ready list has no lock, so an owner that has nothing to share pays nothing.  No thread steals from it: its owner gives.  The
 * owner gives in two cases.  Its backlog would take long, by the duration of the last batch; or the owner or the watchdog has
 * seen that its callbacks are long.  It gives only while another worker sleeps, and wakes that one.  The woken worker takes half
 * of the given work items.  If more are left, it wakes the next worker.
 *
 * A wake-up costs both CPUs some microseconds, and work that moves finds cold caches.  So a backlog of short callbacks stays.
 *
 * Threads: owners.
 * Locks:   given.lock, a leaf.  For due deadlines the lock of the poller where they lie. */
#include "kernel/sched/share.h"

#include "kernel/base/clock.h"
#include "kernel/base/lock.h"
#include "kernel/loop/pollers.h"
#include "kernel/observe/trace.h"
#include "kernel/worker/worker.h"

#define WAKE_UP_WORTH WEIR_USEC(200) /* work items that take less time in all are not worth a wake-up */
#define SCAN_MIN      256            /* work items of a list that are looked at, at once */
#define SCAN_MAX      4096
#define SCAN_PAUSE    WEIR_MSEC(1)   /* after a look that has found too few work items */
#define OVERDUE       WEIR_USEC(500) /* a deadline that is later than this is expired by others */
#define NEIGHBOURS    2              /* pollers that are looked at before each sleep */

static struct {
        struct weir__lock lock;
        struct weir__work_list list; /* guarded by lock */
        _Atomic unsigned count;      /* of the work items on it; written under the lock, sequentially consistent */
} given = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

unsigned
weir__share_depth(void)
{
        return atomic_load(&given.count);
}

struct weir__poller *
weir__share_sleeper(void)
{
        for (unsigned i = 0; i < weir__pollers_count(); i++)
                if (weir__poller_is_asleep(weir__pollers.at[i]))
                        return weir__pollers.at[i];
        return NULL;
}

static void
wake_one(void)
{
        struct weir__poller *sleeper = weir__share_sleeper();

        if (sleeper)
                weir__poller_wake(sleeper);
}

/* Scans the work items behind the first `skipped`, and takes every second one that may run anywhere.  Returns how many. */
static unsigned
split(struct weir__work_list *list, unsigned skipped, unsigned scanned, struct weir__work_list *taken)
{
        struct weir__work *before = NULL, *work = list->first;
        unsigned count = 0;
        bool should_keep = false;

        for (unsigned i = 0; work && i < skipped + scanned; i++) {
                struct weir__work *next = work->next;

                if (i >= skipped && work->ops->is_migratable)
                        should_keep = !should_keep;
                if (i < skipped || !work->ops->is_migratable || should_keep) {
                        before = work;
                } else {
                        *(before ? &before->next : &list->first) = next;
                        if (!next)
                                list->last = before;
                        weir__work_append(taken, work);
                        count++;
                }
                work = next;
        }
        return count;
}

static int64_t
count_ready(const struct weir__poller *poller)
{
        return atomic_load_explicit(&poller->ready.count, memory_order_relaxed);
}

/* Gives half of the scanned work items, which lie behind the first `skipped`.  Returns how many. */
static unsigned
give(struct weir__poller *poller, unsigned skipped, unsigned scanned)
{
        struct weir__work_list taken = {0};
        struct weir__ready *ready = &poller->ready;
        unsigned count = split(&ready->items, skipped, scanned, &taken), of_pushed = 0;

        if (!count)
                count = of_pushed = split(&ready->pushed, 0, scanned, &taken);
        ready->pushed_count -= of_pushed;
        weir__ready_note(ready, -(int64_t)count);
        if (!count)
                count = split(&ready->bulk, skipped, scanned, &taken);
        if (!count)
                return 0;
        weir__lock(&given.lock);
        weir__work_concat(&given.list, &taken);
        atomic_fetch_add(&given.count, count);
        weir__unlock(&given.lock);
        weir__trace_mark("gives some of what is ready", "completions", count);
        wake_one();
        return count;
}

void
weir__share_some(struct weir__poller *poller)
{
        atomic_store_explicit(&poller->ready.is_share_wanted, false, memory_order_relaxed);
        if (!weir__share_sleeper())
                return;
        if (count_ready(poller) < SCAN_MIN) /* due timers count as ready here */
                weir__poller_expire(poller, weir__clock_now(), WEIR__TIMERQ_BATCH);
        give(poller, 0, SCAN_MIN);
}

void
weir__share_backlog(struct weir__poller *poller, weir_nsec now, weir_nsec each)
{
        weir_nsec wanted = 2 * WAKE_UP_WORTH / (each + 1) + 1;
        unsigned scanned = wanted > SCAN_MIN ? (unsigned)wanted : SCAN_MIN;

        if (wanted > SCAN_MAX || now < poller->ready.share_after || !weir__share_sleeper())
                return;
        if (count_ready(poller) < WEIR__BATCH + scanned)
                weir__poller_expire(poller, weir__clock_now(), WEIR__TIMERQ_BATCH);
        if (count_ready(poller) >= WEIR__BATCH + wanted && give(poller, WEIR__BATCH, scanned) * each >= WAKE_UP_WORTH)
                return;
        poller->ready.share_after = now + SCAN_PAUSE;
}

void
weir__share_take(struct weir__poller *poller)
{
        if (weir__share_depth() == 0)
                return;
        weir__lock(&given.lock);
        unsigned count = atomic_load(&given.count), half = (count + 1) / 2;
        for (unsigned i = 0; i < half; i++)
                weir__work_append(&poller->ready.items, weir__work_pop(&given.list));
        weir__ready_note(&poller->ready, half);
        atomic_fetch_sub(&given.count, half);
        weir__unlock(&given.lock);
        atomic_fetch_add_explicit(&weir__worker_counts.shared, half, memory_order_relaxed);
        if (half)
                weir__trace_mark("takes what was given", "completions", half);
        if (count > half)
                wake_one();
}

/* -- deadlines -- */

static bool
is_overdue(struct weir__poller *other, weir_nsec now)
{
        weir_nsec next = atomic_load_explicit(&other->deadlines.next, memory_order_relaxed);

        return next != WEIR_FOREVER && now - next > OVERDUE && !weir__poller_is_asleep(other);
}

/* Expires some of `other`.  Work items that may run anywhere become ready here, the rest goes to its inbox.  Returns how many. */
static unsigned
take_overdue(struct weir__poller *other, struct weir__poller *poller, weir_nsec now)
{
        struct weir__work_list taken = {0};
        unsigned found = 0;

        weir__deadlines_try_expire(other, now, &taken);
        for (struct weir__work *work; (work = weir__work_pop(&taken));) {
                if (work->ops->is_migratable) {
                        weir__work_append(&poller->ready.items, work);
                        found++;
                } else {
                        weir__inbox_push(&other->inbox, work);
                }
        }
        weir__ready_note(&poller->ready, found);
        return found;
}

/* The one behind the last that was returned, of `count` pollers.  No division: each sleep comes here twice. */
static struct weir__poller *
next_neighbour(struct weir__poller *poller, unsigned count)
{
        unsigned step = poller->ready.neighbour + 1 < count ? poller->ready.neighbour + 1 : 1, at = poller->index + step;

        poller->ready.neighbour = step;
        return weir__pollers.at[at < count ? at : at - count];
}

bool
weir__share_overdue(struct weir__poller *poller, weir_nsec now)
{
        unsigned count = weir__pollers_count(), found = 0;

        for (unsigned i = 0; i < NEIGHBOURS && i + 1 < count; i++) {
                struct weir__poller *other = next_neighbour(poller, count);

                if (is_overdue(other, now))
                        found += take_overdue(other, poller, now);
        }
        if (!found)
                return false;
        atomic_fetch_add_explicit(&weir__worker_counts.shared, found, memory_order_relaxed);
        weir__trace_mark("takes timers of a busy neighbour", "timers", found);
        return true;
}
