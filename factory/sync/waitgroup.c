/* factory/sync/waitgroup.c: a count that threads and fibers wait for.
 *
 *     of a waiter:  WAITS --the count comes to zero--> 0
 *                      \--limit, shutdown of the virtual clock--> an error; the waiter takes itself off the list
 *
 * Threads: any.
 * Locks:   group->lock, a leaf: the list of waiters, the round, and the step to zero while there is one.
 *
 * The word holds the count, and whether a thread may wait.  While none does, the last done just writes zero and returns.
 * Otherwise it makes that step under the lock, and takes the waiters off the list.  Each look at the count is made under the
 * lock, too.  So a thread that sees zero may free the group: no done touches it any more.  (With the step first and the lock
 * then, the group could be freed in between.)
 *
 * The record of a waiter lies on its stack.  The thread that changes its status from WAITS ends the wait.  It opens the latch,
 * and touches the record no more.  A waiter that was released does not touch the group again, since another one may have freed
 * it.  A waiter whose limit has come touches it, to take itself off the list: the free waits for that.
 *
 * Fibers wait by tasks, at an object of their own: the *round*.  The first of them makes it.  The step to zero takes it off the
 * group, and then ends all waits there.  So what comes later waits at another one, and no task uses the group. */
#include <errno.h>
#include <sched.h>

#include "factory/sync/waitable.h"
#include "factory/sync/waitgroup.h"
#include "kernel/base/clock.h"
#include "kernel/base/latch.h"
#include "kernel/base/list.h"
#include "kernel/base/lock.h"
#include "kernel/memory/memory.h"
#include "kernel/base/panic.h"
#include "kernel/runtime/runtime.h"
#include "kernel/runtime/virtual.h"
#include "kernel/worker/worker.h"

#define AWAITED    (UINT64_C(1) << 63) /* there may be waiters; never with a count of zero */
#define COUNT_MOST ((UINT64_C(1) << 62) - 1)
#define WAITS      1 /* no status is positive */

struct waiter {
        struct weir__link link; /* guarded by the group's lock; then in the list of those that were released */
        _Atomic int status;     /* WAITS, then what the wait returns; relaxed: the latch orders */
        struct weir__latch ended;

        /* On the virtual clock. */
        bool is_virtual;
        bool has_given;                /* the thread gave its poller away: weir__runtime_wait_begin */
        struct weir__alarm alarm;      /* in the queue of the only poller */
        struct weir__latch alarm_over; /* its work has run */
};

struct weir_waitgroup {
        _Atomic uint64_t word; /* the count, and AWAITED; a done releases, the last one and a waiter acquire */
        struct weir__lock lock;
        struct weir__list waiters; /* guarded by lock */
        struct round *round;       /* that is not over; NULL: no fiber has waited since the last zero.  Guarded by lock */
};

struct round {
        struct weir__waitable object; /* first.  Its amount is 1, and then 0: it is over */
        struct weir__list waits;      /* guarded by the object's lock */
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

static struct waiter *
waiter_of(struct weir__link *link)
{
        return weir__container_of(link, struct waiter, link);
}

/* -- rounds -- */

static int
round_try(struct weir__wait *wait, struct weir__work_list *claimed)
{
        (void)claimed;
        return wait->object->amount > 0 ? -EAGAIN : 0;
}

static const struct weir__waitable_ops round_ops = {
        .kind = WEIR__UNNAMED,
        .noun = "waitgroup",
        .size = sizeof(struct round),
        .queues = 1,
        .should_keep_grant = true,
        .try = round_try,
};

/* It belongs to no group any more.  Accepts NULL.  Gives up a reference.  No lock is held. */
static void
end_round(struct round *round)
{
        if (!round)
                return;
        weir__waitable_lock(&round->object);
        round->object.amount = 0;
        weir__wait_end_all(&round->object, &round->waits, 0);
        weir__unlock(&round->object.lock);
        weir__waitable_unref(&round->object);
}

/* The group is freed. */
static __attribute__((cold, noinline)) void
leave_round(struct round *round)
{
        if (weir__phase_is_forked()) {
                weir__waitable_unref((struct weir__waitable *)round);
                return;
        }
        weir__waitable_lock(&round->object);
        if (weir__wait_oldest_pending(&round->waits))
                weir__panic("weir_waitgroup_free: a fiber waits for the group");
        weir__unlock(&round->object.lock);
        end_round(round);
}

/* Whether waiters are listed whose limit has come: they are about to take themselves off. */
static bool
is_being_left(struct weir_waitgroup *group)
{
        weir__lock(&group->lock);
        struct weir__link *first = weir__list_first(&group->waiters);
        int status = first ? atomic_load_explicit(&waiter_of(first)->status, memory_order_relaxed) : 0;
        if (status == WAITS)
                weir__panic("weir_waitgroup_free: a thread waits for the group");
        weir__unlock(&group->lock);
        return first;
}

void
weir_waitgroup_free(weir_waitgroup *group)
{
        weir__memory_expect(group);
        if (!group)
                return;
        while (!weir__phase_is_forked() && is_being_left(group))
                (void)sched_yield();
        if (group->round)
                leave_round(group->round);
        weir__free(group, sizeof *group);
}

/* -- the count -- */

void
weir_waitgroup_add(weir_waitgroup *group, size_t n)
{
        weir__memory_expect(group);
        if (!group || weir__phase_is_forked())
                return;
        if (n > COUNT_MOST || (atomic_fetch_add_explicit(&group->word, n, memory_order_relaxed) & ~AWAITED) > COUNT_MOST - n)
                weir__panic("weir_waitgroup_add: the count overflows by %zu more", n);
}

/* Returns false when another thread has ended the wait. */
static bool
end_wait(struct waiter *waiter, int status)
{
        int expected = WAITS;

        return atomic_compare_exchange_strong_explicit(&waiter->status, &expected, status, memory_order_relaxed,
                                                       memory_order_relaxed);
}

/* Under the lock: takes off the waiters whose wait the zero ends.  The others are about to take themselves off. */
static void
release_waiters(struct weir_waitgroup *group, struct weir__list *released)
{
        for (struct weir__link *link = weir__list_first(&group->waiters), *next; link; link = next) {
                next = weir__list_next(&group->waiters, link);
                if (end_wait(waiter_of(link), 0)) {
                        weir__link_remove(link);
                        weir__list_prepend(released, link);
                }
        }
}

/* The ends of all waits are counted first, so that virtual time does not go on while the first one wakes up. */
static void
wake_waiters(struct weir__list *released)
{
        for (struct weir__link *link = weir__list_first(released); link; link = weir__list_next(released, link))
                if (waiter_of(link)->is_virtual)
                        weir__runtime_wait_end(waiter_of(link)->has_given);
        for (struct weir__link *link; (link = weir__list_pop(released));)
                weir__latch_open(&waiter_of(link)->ended);
}

static uint64_t
one_less(uint64_t word)
{
        if ((word & ~AWAITED) == 0)
                weir__panic("weir_waitgroup_done: more are done than were added");
        return (word & ~AWAITED) == 1 ? 0 : word - 1;
}

/* The slow path of a done that seems to be the last one while somebody waits. */
static __attribute__((noinline)) void
done_with_lock(struct weir_waitgroup *group)
{
        struct weir__list released = {0};
        struct round *round = NULL;
        uint64_t next;

        weir__lock(&group->lock);
        uint64_t word = atomic_load_explicit(&group->word, memory_order_relaxed);
        do {
                next = one_less(word);
        } while (!atomic_compare_exchange_weak_explicit(&group->word, &word, next, memory_order_acq_rel, memory_order_relaxed));
        if (next == 0) {
                release_waiters(group, &released);
                round = group->round;
                group->round = NULL;
        }
        weir__unlock(&group->lock);
        wake_waiters(&released);
        end_round(round);
}

void
weir_waitgroup_done(weir_waitgroup *group)
{
        weir__memory_expect(group);
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

/* The last done takes the lock from now on.  Returns false if the count is zero.  Under the lock. */
static inline bool
set_awaited(struct weir_waitgroup *group)
{
        uint64_t word = atomic_load_explicit(&group->word, memory_order_acquire);

        while (word != 0 && !atomic_compare_exchange_weak_explicit(&group->word, &word, word | AWAITED, memory_order_acquire,
                                                                   memory_order_acquire))
                continue;
        return word != 0;
}

/* Adds the waiter to the list, unless the count is zero. */
static bool
enlist(struct weir_waitgroup *group, struct waiter *waiter)
{
        weir__lock(&group->lock);
        bool waits = set_awaited(group);
        if (waits)
                weir__list_prepend(&group->waiters, &waiter->link);
        weir__unlock(&group->lock);
        return waits;
}

/* What the wait returns.  A waiter that was not released is still on the list, so the group is there. */
static int
status_of(struct weir_waitgroup *group, struct waiter *waiter)
{
        int status = atomic_load_explicit(&waiter->status, memory_order_relaxed);

        if (status == 0)
                return 0;
        weir__lock(&group->lock);
        weir__link_remove(&waiter->link); /* AWAITED may stay: it costs the next last done the lock */
        weir__unlock(&group->lock);
        return status;
}

static void
wait_really(struct waiter *waiter, weir_nsec limit)
{
        weir_nsec deadline = weir__clock_after(weir__clock_monotonic(), limit);
        bool ended = deadline != WEIR_FOREVER && weir__latch_wait_until(&waiter->ended, deadline);

        if (!ended && (deadline == WEIR_FOREVER || !end_wait(waiter, -ETIMEDOUT)))
                weir__latch_wait(&waiter->ended);
}

/* -- on the virtual clock -- */

/* Its time has come, or shutdown has taken it out of the queue. */
static void
alarm_run(struct weir__work *work)
{
        struct waiter *waiter = weir__container_of(work, struct waiter, alarm.work);

        if (end_wait(waiter, weir__clock_now() >= waiter->alarm.node.deadline ? -ETIMEDOUT : -ESHUTDOWN)) {
                weir__runtime_wait_end(waiter->has_given);
                weir__latch_open(&waiter->ended);
        }
        weir__latch_open(&waiter->alarm_over);
}

static const struct weir__work_ops alarm_ops = {.run = alarm_run};

/* Ends a wait that cannot begin.  If a done has released the waiter meanwhile, the end of the wait was counted already, so
 * its begin is counted now. */
static void
refuse(struct waiter *waiter, int status)
{
        if (end_wait(waiter, status))
                return;
        weir__runtime_wait_begin(waiter->has_given);
        weir__latch_wait(&waiter->ended);
}

/* The thread is a root meanwhile, so that the runtime does not end under its alarm. */
static void
wait_with_limit(struct waiter *waiter, weir_nsec deadline)
{
        struct weir__poller *poller = weir__pollers.at[0];
        int failed = weir__runtime_enter();

        if (failed) {
                refuse(waiter, failed);
                return;
        }
        waiter->alarm.work.ops = &alarm_ops;
        if (weir__alarm_set(poller, &waiter->alarm, deadline)) {
                weir__poller_wake(poller); /* first: time would go on to the next deadline that it knows */
                weir__runtime_wait_begin(waiter->has_given);
                weir__latch_wait(&waiter->ended);
                if (!weir__alarm_clear(poller, &waiter->alarm))
                        weir__latch_wait(&waiter->alarm_over);
        } else {
                refuse(waiter, -ESHUTDOWN);
        }
        weir__runtime_leave();
}

static void
wait_virtually(struct waiter *waiter, weir_nsec limit)
{
        weir_nsec deadline = weir__clock_after(weir__clock_now(), limit);

        if (deadline != WEIR_FOREVER) {
                wait_with_limit(waiter, deadline);
        } else {
                weir__runtime_wait_begin(waiter->has_given);
                weir__latch_wait(&waiter->ended);
        }
}

int
weir_waitgroup_wait(weir_waitgroup *group, weir_nsec limit)
{
        weir__memory_expect(group);
        if (!group)
                return -ENOMEM;
        if (limit <= 0)
                return weir__phase_is_forked() ? -ECHILD : is_done(group) ? 0 : -ETIMEDOUT;
        int failed = weir__runtime_may_wait();
        if (failed)
                return failed;
        int entered = weir__virtual_enter();
        if (entered < 0)
                return entered;
        struct waiter waiter = {.status = WAITS, .is_virtual = entered, .has_given = entered && weir__worker_has_given()};
        int status = 0;
        if (enlist(group, &waiter)) {
                (entered ? wait_virtually : wait_really)(&waiter, limit);
                status = status_of(group, &waiter);
        }
        if (entered)
                weir__virtual_leave();
        return status;
}

/* -- fibers -- */

/* The round of a group, with a reference: `made`, if there is none yet; if the count is zero, `made`, which is over.  Consumes
 * `made`. */
static struct weir__waitable *
enter_round(struct weir_waitgroup *group, struct round *made)
{
        weir__lock(&group->lock);
        bool waits = set_awaited(group);
        if (waits && !group->round) {
                group->round = made;
                made = NULL;
        }
        struct weir__waitable *round = weir__waitable_ref(waits ? &group->round->object : &made->object);
        weir__unlock(&group->lock);
        end_round(made);
        return round;
}

struct weir_task *
weir__waitgroup_wait_new(weir_waitgroup *group)
{
        static const struct weir__task_ops ops = WEIR__WAIT_TASK_OPS("a waitgroup", weir__wait_run, weir__wait_release);
        struct round *made = (struct round *)weir__waitable_new(&round_ops, 1, 0, NULL);

        if (!made)
                return NULL;
        return (weir_task *)weir__wait_task_new_with(&ops, enter_round(group, made), 0, NULL, NULL);
}
