/* kernel/sched/poll.c: between two passes of its loop a worker looks at descriptors, or sleeps.
 *
 *     ready work -> flush the batch -> look at the descriptors -> ready work
 *     nothing ready -> flush the batch -> mark the inbox -> publish the next deadline -> sleep -> take the inbox -> expire ->
 *     ready work
 *
 * Threads: the owner of the poller.
 * Locks:   the poller's, for its next deadline.
 *
 * kernel/loop/sleep.c decides how long a sleep is.  This file asks the inbox, the deadlines,
 * the shared list and the neighbours before a sleep, and notifies them after it. */
#include "kernel/sched/poll.h"

#include "kernel/base/clock.h"
#include "kernel/observe/trace.h"
#include "kernel/sched/share.h"
#include "kernel/sched/tender.h"
#include "kernel/sched/watchdog.h"

#define UNSEEN_MOST 32 /* work items that run between two looks at the descriptors, besides a batch */

static weir__poll_virtual_fn *on_virtual;

void
weir__poll_on_virtual(weir__poll_virtual_fn *fn)
{
        on_virtual = fn;
}

static bool
has_work(const struct weir__poller *poller)
{
        return weir__ready_is_busy(&poller->ready) || atomic_load_explicit(&poller->has_bulk_given, memory_order_relaxed);
}

static enum weir__sleep_kind
fall_asleep_timed(struct weir__poller *poller, weir_nsec now)
{
        if (atomic_load_explicit(&poller->inbox.head, memory_order_relaxed))
                return WEIR__SLEEP_NONE;
        return weir__sleep_begin(poller, now ? now : weir__clock_now(),
                                 atomic_load_explicit(&poller->deadlines.next, memory_order_relaxed));
}

static enum weir__sleep_kind
fall_asleep(struct weir__poller *poller, weir_nsec now)
{
        if (has_work(poller))
                return WEIR__SLEEP_NONE;
        weir__tender_before_sleep(poller);
        if (weir__sleep_is_timed(&poller->sleep))
                return fall_asleep_timed(poller, now);
        if (!weir__inbox_mark_sleeping(&poller->inbox) || weir__share_depth() > 0)
                return WEIR__SLEEP_NONE;
        weir_nsec next = weir__deadlines_publish_next(poller);
        if (!now)
                now = weir__clock_now();
        if (has_work(poller) || weir__share_overdue(poller, now))
                return WEIR__SLEEP_NONE;
        enum weir__sleep_kind kind = weir__sleep_begin(poller, now, next);
        if (kind)
                weir__watchdog_before_sleep(poller, poller->sleep.armed_for);
        return kind;
}

/* The virtual clock moves only when a thread wants that, no descriptor is ready, and nothing is on its way in a connection. */
static enum weir__sleep_kind
fall_asleep_virtually(struct weir__poller *poller)
{
        if (has_work(poller) || !weir__inbox_mark_sleeping(&poller->inbox))
                return WEIR__SLEEP_NONE;
        weir_nsec next = weir__deadlines_publish_next(poller);
        if (has_work(poller) || next <= weir__clock_now())
                return WEIR__SLEEP_NONE;
        return on_virtual(poller, next) ? WEIR__SLEEP_MARKED : WEIR__SLEEP_NONE;
}

static int
wait_traced(struct weir__poller *poller, enum weir__sleep_kind kind, struct epoll_event events[WEIR__EVENTS])
{
        struct weir__trace_slice slice;

        weir__trace_begin(&slice, NULL, NULL);
        int count = weir__sleep_wait(poller, kind, events);
        if (slice.session)
                weir__trace_end(&slice, &(struct weir__trace_facts){.kind = "sleeps"}, NULL);
        return count;
}

static void
wake_up(struct weir__poller *poller, enum weir__sleep_kind kind, int events, unsigned pushed)
{
        weir_nsec now = weir__clock_now();

        weir__sleep_end(poller, kind, events, now);
        weir__sleep_note_pushes(poller, kind, pushed);
        weir__watchdog_after_sleep(poller);
        weir__poller_admit(poller, now);
}

/* Returns whether the descriptors can wait.  A request that completes at once leaves a few work items; to look at the descriptors
 * before each of them would cost as much again. */
static __attribute__((noinline)) bool
flush(struct weir__poller *poller, struct weir__batch *batch)
{
        bool completes = batch->flush(batch);
        unsigned ready = (unsigned)atomic_load_explicit(&poller->ready.count, memory_order_relaxed);
        batch->unseen += ready;
        if (completes && ready > 0 && batch->unseen <= UNSEEN_MOST)
                return true;
        batch->unseen = 0;
        return false;
}

void
weir__poll(struct weir__poller *poller, weir_nsec now)
{
        struct epoll_event events[WEIR__EVENTS];

        if (__builtin_expect(poller->batch != NULL, 0)) {
                if (flush(poller, poller->batch)) {
                        weir__watchdog_pass(poller);
                        return;
                }
                now = 0; /* that took a while */
        }
        bool is_virtual = atomic_load_explicit(&weir__clock.is_virtual, memory_order_relaxed);
        enum weir__sleep_kind kind = is_virtual ? fall_asleep_virtually(poller) : fall_asleep(poller, now);
        int count = kind && weir__trace_is_on() ? wait_traced(poller, kind, events) : weir__sleep_wait(poller, kind, events);

        if (count > 1) /* one is used at once */
                weir__sources_prefetch(poller, events, count);
        unsigned pushed = weir__poller_take_inbox(poller); /* and SLEEPING is out */
        if (kind)
                wake_up(poller, kind, count, pushed);
        if (kind && !is_virtual)
                weir__watchdog_pass_at(poller, poller->sleep.woke_at);
        else
                weir__watchdog_pass(poller);
        for (int i = 0; i < count; i++)
                weir__sources_dispatch(poller, &events[i]);
}
