/* kernel/sched/share.c: what has become ready on one poller and may be run on any.
 *
 * A ready list has no lock, so that nobody pays for one who has nothing to share.  Its owner gives, instead of being stolen from:
 * when it has been behind for a while, or when it or the watchdog has seen that its callbacks are long, and only while another worker
 * sleeps, which it wakes.  That one takes half of what was given and, while more is left, wakes the next.
 *
 * Threads: owners.
 * Locks:   given.lock, a leaf.  That of a poller, for what is due: its own, or the one it is taken from. */
#include "kernel/sched/share.h"

#include "kernel/base/clock.h"
#include "kernel/base/lock.h"
#include "kernel/runtime/runtime.h"
#include "kernel/observe/trace.h"

#define LOOKED_AT  256            /* works of a list, at once */
#define OVERDUE    WEIR_USEC(500) /* before others expire it */
#define NEIGHBOURS 2              /* looked at before each sleep */

static struct {
        struct weir__lock lock;
        struct weir__work_list list; /* guarded by lock */
        _Atomic unsigned count;      /* of the works on it; written under the lock, sequentially consistent */
        _Atomic uint64_t taken;
} given = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

uint64_t
weir__share_count(void)
{
        return atomic_load_explicit(&given.taken, memory_order_relaxed);
}

unsigned
weir__share_depth(void)
{
        return atomic_load(&given.count);
}

bool
weir__share_waits(void)
{
        return weir__share_depth() > 0;
}

static struct weir__poller *
find_sleeper(void)
{
        for (unsigned i = 0; i < weir__runtime_pollers(); i++)
                if (weir__poller_is_asleep(weir__runtime.pollers[i]))
                        return weir__runtime.pollers[i];
        return NULL;
}

static void
wake_one(void)
{
        struct weir__poller *sleeper = find_sleeper();

        if (sleeper)
                weir__poller_wake(sleeper);
}

/* Takes every second one that may run anywhere off the list, but for the first so many. */
static unsigned
split(struct weir__work_list *list, unsigned but, struct weir__work_list *taken)
{
        struct weir__work *before = NULL, *work = list->first;
        unsigned count = 0;
        bool keep = false;

        for (unsigned i = 0; work && i < but + LOOKED_AT; i++) {
                struct weir__work *next = work->next;

                if (i >= but && work->ops->roams)
                        keep = !keep;
                if (i < but || !work->ops->roams || keep) {
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

void
weir__share_some(struct weir__poller *poller, unsigned but)
{
        struct weir__work_list taken = {0};
        int64_t ready = atomic_load_explicit(&poller->ready_count, memory_order_relaxed);

        if (!find_sleeper())
                return;
        if (ready < but + LOOKED_AT) /* what comes behind more than that would not be looked at */
                weir__poller_expire_many(poller);
        unsigned count = split(&poller->ready, but, &taken);
        weir__poller_note_ready(poller, -(int64_t)count);
        if (!count)
                count = split(&poller->crowd, but, &taken);
        if (!count)
                return;
        weir__lock(&given.lock);
        weir__work_concat(&given.list, &taken);
        atomic_fetch_add(&given.count, count);
        weir__unlock(&given.lock);
        weir__trace_mark("gives some of what is ready", "completions", count);
        wake_one();
}

void
weir__share_take(struct weir__poller *poller)
{
        if (!weir__share_waits())
                return;
        weir__lock(&given.lock);
        unsigned count = atomic_load(&given.count), half = (count + 1) / 2;
        for (unsigned i = 0; i < half; i++)
                weir__work_append(&poller->ready, weir__work_pop(&given.list));
        weir__poller_note_ready(poller, half);
        atomic_fetch_sub(&given.count, half);
        weir__unlock(&given.lock);
        atomic_fetch_add_explicit(&given.taken, half, memory_order_relaxed);
        if (half)
                weir__trace_mark("takes what was given", "completions", half);
        if (count > half)
                wake_one();
}

/* -- deadlines -- */

static bool
is_overdue(struct weir__poller *other, weir_nsec now)
{
        weir_nsec next = atomic_load_explicit(&other->next_deadline, memory_order_relaxed);

        return next != WEIR_FOREVER && now - next > OVERDUE && !weir__poller_is_asleep(other);
}

bool
weir__share_overdue(struct weir__poller *poller, weir_nsec now)
{
        unsigned count = weir__runtime_pollers(), found = 0;

        for (unsigned i = 0; i < NEIGHBOURS && i + 1 < count; i++) {
                unsigned step = 1 + poller->neighbour++ % (count - 1);
                struct weir__poller *other = weir__runtime.pollers[(poller->index + step) % count];

                if (is_overdue(other, now))
                        found += weir__poller_expire_for(other, poller, now);
        }
        atomic_fetch_add_explicit(&given.taken, found, memory_order_relaxed);
        if (found)
                weir__trace_mark("takes timers of a busy neighbour", "timers", found);
        return found > 0;
}
