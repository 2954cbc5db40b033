/* factory/sync/waitgroup.c: a count that threads wait for.
 *
 *     of a waiter:  WAITING --the count comes to zero--> 0
 *                      \--limit, shutdown of the virtual clock--> why; it takes itself off the list
 *
 * Threads: any.
 * Locks:   group->lock, a leaf: the list of waiters, and the step to zero while there is one.
 *
 * The word holds the count, and whether somebody may wait.  While nobody does, the last done just writes zero and is gone.  Else
 * it makes that step under the lock, and takes the waiters off the list; who looks whether the count is zero does so under the
 * lock, too.  So whoever sees zero may free the group: no done touches it any more.  (With the step first and the lock then, the
 * group could be freed in between.)
 *
 * A waiter's record lies on its stack.  Who changes its status from WAITING ends its wait, and opens its latch, which is the
 * last that is touched.  One that was released does not touch the group again, since another one may have freed it. */
#include <errno.h>
#include <stddef.h>

#include <weir/waitgroup.h>

#include "kernel/base/clock.h"
#include "kernel/base/latch.h"
#include "kernel/base/lock.h"
#include "kernel/memory/memory.h"
#include "kernel/base/panic.h"
#include "kernel/runtime/runtime.h"
#include "kernel/runtime/virtual.h"
#include "kernel/sched/worker.h"

#define AWAITED (UINT64_C(1) << 63) /* there may be waiters; never with a count of zero */
#define MOST    ((UINT64_C(1) << 62) - 1)
#define WAITING 1 /* no status is positive */

struct waiter {
        struct waiter *previous, *next; /* guarded by the group's lock; behind that, of those who were released */
        _Atomic int status;             /* WAITING, then what the wait returns; relaxed: the latch orders */
        struct weir__latch ended;

        /* On the virtual clock. */
        bool is_virtual;
        bool gave;                     /* its poller away: weir__runtime_wait_begin */
        struct weir__limit limit;      /* in the queue of the only poller */
        struct weir__latch limit_over; /* its work has run */
};

struct weir_waitgroup {
        _Atomic uint64_t word; /* the count, and AWAITED; a done releases, the last one and a waiter acquire */
        struct weir__lock lock;
        struct waiter *waiters; /* guarded by lock */
};

weir_waitgroup *
weir_waitgroup_new(void)
{
        struct weir_waitgroup *group = weir__alloc(sizeof *group);

        if (!group)
                return NULL;
        *group = (struct weir_waitgroup){0};
        weir__lock_init(&group->lock, WEIR__RANK_LEAF);
        return group;
}

void
weir_waitgroup_free(weir_waitgroup *group)
{
        if (!group)
                return;
        if (!weir__phase_is_forked()) {
                weir__lock(&group->lock);
                if (group->waiters)
                        weir__panic("weir_waitgroup_free: a thread waits for the group");
                weir__unlock(&group->lock);
        }
        weir__free(group, sizeof *group);
}

/* -- the count -- */

void
weir_waitgroup_add(weir_waitgroup *group, size_t n)
{
        if (!group || weir__phase_is_forked())
                return;
        if (n > MOST || (atomic_fetch_add_explicit(&group->word, n, memory_order_relaxed) & ~AWAITED) > MOST - n)
                weir__panic("weir_waitgroup_add: the count overflows by %zu more", n);
}

/* Returns false when somebody else has ended its wait. */
static bool
settle(struct waiter *waiter, int status)
{
        int expected = WAITING;

        return atomic_compare_exchange_strong_explicit(&waiter->status, &expected, status, memory_order_relaxed,
                                                       memory_order_relaxed);
}

static void
unlink_waiter(struct weir_waitgroup *group, struct waiter *waiter)
{
        if (waiter->next)
                waiter->next->previous = waiter->previous;
        *(waiter->previous ? &waiter->previous->next : &group->waiters) = waiter->next;
}

/* Under the lock: takes off those whose wait the zero ends, and returns them.  The others are about to take themselves off. */
static struct waiter *
release_waiters(struct weir_waitgroup *group)
{
        struct waiter *released = NULL;

        for (struct waiter *waiter = group->waiters, *next; waiter; waiter = next) {
                next = waiter->next;
                if (!settle(waiter, 0))
                        continue;
                unlink_waiter(group, waiter);
                waiter->next = released;
                released = waiter;
        }
        return released;
}

/* All of them are taken off the runtime first: time does not jump on while the first one wakes up. */
static void
wake_waiters(struct waiter *released)
{
        for (struct waiter *waiter = released; waiter; waiter = waiter->next)
                if (waiter->is_virtual)
                        weir__runtime_wait_end(waiter->gave);
        while (released) {
                struct waiter *next = released->next;

                weir__latch_open(&released->ended);
                released = next;
        }
}

static uint64_t
one_less(uint64_t word)
{
        if ((word & ~AWAITED) == 0)
                weir__panic("weir_waitgroup_done: more are done than were added");
        return (word & ~AWAITED) == 1 ? 0 : word - 1;
}

/* The last one, it seems, and somebody waits. */
static void
done_with_lock(struct weir_waitgroup *group)
{
        struct waiter *released = NULL;
        uint64_t next;

        weir__lock(&group->lock);
        uint64_t word = atomic_load_explicit(&group->word, memory_order_relaxed);
        do {
                next = one_less(word);
        } while (!atomic_compare_exchange_weak_explicit(&group->word, &word, next, memory_order_acq_rel, memory_order_relaxed));
        if (next == 0)
                released = release_waiters(group);
        weir__unlock(&group->lock);
        wake_waiters(released);
}

void
weir_waitgroup_done(weir_waitgroup *group)
{
        if (!group || weir__phase_is_forked())
                return;
        uint64_t word = atomic_load_explicit(&group->word, memory_order_relaxed);
        while (word != (AWAITED | 1))
                if (atomic_compare_exchange_weak_explicit(&group->word, &word, one_less(word), memory_order_release,
                                                          memory_order_relaxed))
                        return;
        done_with_lock(group);
}

/* -- waiting -- */

static bool
is_done(struct weir_waitgroup *group)
{
        weir__lock(&group->lock);
        bool done = (atomic_load_explicit(&group->word, memory_order_acquire) & ~AWAITED) == 0;
        weir__unlock(&group->lock);
        return done;
}

/* To the list, unless the count is zero. */
static bool
enlist(struct weir_waitgroup *group, struct waiter *waiter)
{
        weir__lock(&group->lock);
        uint64_t word = atomic_load_explicit(&group->word, memory_order_acquire);
        while (word != 0 && !atomic_compare_exchange_weak_explicit(&group->word, &word, word | AWAITED, memory_order_acquire,
                                                                   memory_order_acquire))
                continue;
        if (word != 0) {
                waiter->next = group->waiters;
                if (waiter->next)
                        waiter->next->previous = waiter;
                group->waiters = waiter;
        }
        weir__unlock(&group->lock);
        return word != 0;
}

/* What the wait returns.  One that was not released is on the list still, so the group is there. */
static int
status_of(struct weir_waitgroup *group, struct waiter *waiter)
{
        int status = atomic_load_explicit(&waiter->status, memory_order_relaxed);

        if (status == 0)
                return 0;
        weir__lock(&group->lock);
        unlink_waiter(group, waiter); /* AWAITED may stay: it costs the next last done the lock */
        weir__unlock(&group->lock);
        return status;
}

static int
wait_really(struct weir_waitgroup *group, weir_nsec limit)
{
        weir_nsec deadline = weir__clock_after(weir__clock_monotonic(), limit);
        struct waiter waiter = {.status = WAITING};

        if (!enlist(group, &waiter))
                return 0;
        bool ended = deadline != WEIR_FOREVER && weir__latch_wait_until(&waiter.ended, deadline);
        if (!ended && (deadline == WEIR_FOREVER || !settle(&waiter, -ETIMEDOUT)))
                weir__latch_wait(&waiter.ended);
        return status_of(group, &waiter);
}

/* -- on the virtual clock -- */

/* Its time has come, or shutdown has taken it out of the queue. */
static void
limit_run(struct weir__work *work)
{
        struct waiter *waiter = (struct waiter *)((char *)work - offsetof(struct waiter, limit.work));

        if (settle(waiter, weir__clock_now() >= waiter->limit.node.deadline ? -ETIMEDOUT : -ESHUTDOWN)) {
                weir__runtime_wait_end(waiter->gave);
                weir__latch_open(&waiter->ended);
        }
        weir__latch_open(&waiter->limit_over);
}

static const struct weir__work_ops limit_ops = {.run = limit_run};

/* There is no time to wait for.  The done that has released the waiter nevertheless has taken it off the runtime. */
static void
refuse(struct waiter *waiter, int status)
{
        if (settle(waiter, status))
                return;
        weir__runtime_wait_begin(waiter->gave);
        weir__latch_wait(&waiter->ended);
}

/* The thread is a root meanwhile, so that the runtime does not end under its limit. */
static void
wait_with_limit(struct waiter *waiter, weir_nsec deadline)
{
        struct weir__poller *poller = weir__pollers.at[0];
        int failed = weir__runtime_enter();

        if (failed) {
                refuse(waiter, failed);
                return;
        }
        waiter->limit.work.ops = &limit_ops;
        if (weir__limit_set(poller, &waiter->limit, deadline)) {
                weir__poller_wake(poller); /* first: time would jump to what was the next deadline when it last looked */
                weir__runtime_wait_begin(waiter->gave);
                weir__latch_wait(&waiter->ended);
                if (!weir__limit_clear(poller, &waiter->limit))
                        weir__latch_wait(&waiter->limit_over);
        } else {
                refuse(waiter, -ESHUTDOWN);
        }
        weir__runtime_leave();
}

static int
wait_virtually(struct weir_waitgroup *group, weir_nsec limit)
{
        weir_nsec deadline = weir__clock_after(weir__clock_now(), limit);
        struct waiter waiter = {.status = WAITING, .is_virtual = true, .gave = weir__worker_gave()};

        if (!enlist(group, &waiter))
                return 0;
        if (deadline != WEIR_FOREVER) {
                wait_with_limit(&waiter, deadline);
        } else {
                weir__runtime_wait_begin(waiter.gave);
                weir__latch_wait(&waiter.ended);
        }
        return status_of(group, &waiter);
}

int
weir_waitgroup_wait(weir_waitgroup *group, weir_nsec limit)
{
        if (!group)
                return -ENOMEM;
        if (limit <= 0)
                return weir__phase_is_forked() ? -ECHILD : is_done(group) ? 0 : -ETIMEDOUT;
        int failed = weir__runtime_may_wait();
        if (failed)
                return failed;
        int drives = weir__virtual_enter();
        if (drives < 0)
                return drives;
        int status = drives ? wait_virtually(group, limit) : wait_really(group, limit);
        if (drives)
                weir__virtual_leave();
        return status;
}
