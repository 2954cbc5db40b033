/* kernel/executor/executor_sleep.c: which thread of the executor sleeps, is woken, or ends because there are too many.
 *
 *     runs --finds no job--> searches --finds none--> sleeps --woken--> searches ...
 *                                \                       \--extra, and too many for EXTRA_IDLE_MOST--> ends
 *                                 \--the runtime ends--> ends
 *
 * Threads: those of the executor sleep; any thread wakes them.
 * Locks:   executor.lock guards the lists of threads that sleep.
 *
 * At most one thread searches because it was woken.  While it searches no other is woken; when it has found a job and more are
 * left it wakes the next.  A thread that finds nothing goes onto a list of sleeping threads, under the lock.  Then, behind a
 * fence, it looks once more.  Still under the lock it looks at the inbox, the list and the queues: as long as it has the lock, no
 * job goes from one to another.  Then it looks at all deques.  A thread that adds a job to the inbox or to a deque looks, behind
 * a fence, whether another sleeps and none searches.  So one of the two sees the other.  Jobs that a thread takes from the list
 * for its deque are in neither for a moment, so it looks once they are in the deque.  test/model/executor.pml proves it.
 *
 * The first threads, as many as are wanted, stay.  Those behind them are extra: they were made while others blocked.  They are
 * woken when no other sleeps.  While more threads are able to run than are wanted, an extra thread that sleeps for
 * EXTRA_IDLE_MOST ends; else it sleeps without a limit. */
#include <errno.h>

#include "kernel/base/futex.h"
#include "kernel/executor/executor_state.h"
#include "kernel/loop/pollers.h"

#define EXTRA_IDLE_MOST WEIR_SEC(10)

/* -- counts and lists; under the lock -- */

static struct weir__executor_thread *
thread_of(struct weir__link *idle)
{
        return (struct weir__executor_thread *)weir__container_of(idle, struct weir__worker, idle);
}

/* The threads that do not block. */
static unsigned
able(void)
{
        return weir__executor.set.here - weir__executor.blocked_count;
}

unsigned
weir__executor_awake(void)
{
        return able() - weir__executor.asleep_count;
}

/* One thread is too many now.  The extra threads that sleep without a limit wake, and sleep on with a limit. */
static void
limit_sleeps(void)
{
        const struct weir__list *extra = &weir__executor.asleep[1];

        for (struct weir__link *link = weir__list_first(extra); link; link = weir__list_next(extra, link)) {
                struct weir__executor_thread *thread = thread_of(link);

                if (atomic_exchange_explicit(&thread->sleeps, WEIR__EXECUTOR_ASLEEP_LIMITED, memory_order_relaxed) ==
                    WEIR__EXECUTOR_ASLEEP)
                        weir__futex_wake(&thread->sleeps, 1);
        }
}

void
weir__executor_note_overfull(void)
{
        atomic_store_explicit(&weir__executor.is_overfull, weir__executor_awake() > weir__executor.wanted, memory_order_relaxed);
        if (able() == weir__executor.wanted + 1)
                limit_sleeps();
}

static bool
is_extra(const struct weir__executor_thread *thread)
{
        return thread->worker.number >= weir__executor.wanted;
}

static void
add_searching(int change)
{
        atomic_fetch_add_explicit(&weir__executor.searching, (unsigned)change, memory_order_relaxed);
}

static void
add_asleep(struct weir__executor_thread *thread)
{
        bool is_limited = is_extra(thread) && able() > weir__executor.wanted;

        atomic_store_explicit(&thread->sleeps, is_limited ? WEIR__EXECUTOR_ASLEEP_LIMITED : WEIR__EXECUTOR_ASLEEP,
                              memory_order_relaxed);
        weir__list_prepend(&weir__executor.asleep[is_extra(thread)], &thread->worker.idle);
        weir__executor.asleep_count++;
}

static void
remove_asleep(struct weir__executor_thread *thread)
{
        weir__link_remove(&thread->worker.idle);
        weir__executor.asleep_count--;
        atomic_store_explicit(&thread->sleeps, WEIR__EXECUTOR_AWAKE, memory_order_release);
}

/* Takes a thread off its list: it searches from now on. */
static void
rouse(struct weir__executor_thread *thread)
{
        add_searching(+1);
        remove_asleep(thread);
}

static struct weir__executor_thread *
rouse_first(void)
{
        struct weir__link *link = weir__list_first(&weir__executor.asleep[0]);

        if (!link)
                link = weir__list_first(&weir__executor.asleep[1]);
        rouse(thread_of(link));
        return thread_of(link);
}

/* -- waking -- */

static bool
is_any_searching(void)
{
        return atomic_load(&weir__executor.searching);
}

void
weir__executor_wake_behind_fence(void)
{
        struct weir__executor_thread *woken = NULL;

        if (atomic_load(&weir__executor.asleep_count) == 0 || is_any_searching())
                return;
        weir__lock(&weir__executor.lock);
        if (weir__executor.asleep_count > 0 && !is_any_searching() && weir__executor_awake() < weir__executor.wanted)
                woken = rouse_first();
        weir__unlock(&weir__executor.lock);
        if (woken)
                weir__futex_wake(&woken->sleeps, 1);
}

void
weir__executor_wake(void)
{
        __sync_synchronize();
        weir__executor_wake_behind_fence();
}

void
weir__executor_end_all(void)
{
        struct weir__executor_thread *woken[WEIR__THREAD_SLOTS];
        unsigned count = 0;

        weir__lock(&weir__executor.lock);
        weir__executor.is_ending = true;
        while (weir__executor.asleep_count > 0)
                woken[count++] = rouse_first();
        weir__unlock(&weir__executor.lock);
        while (count > 0)
                weir__futex_wake(&woken[--count]->sleeps, 1);
}

/* -- searching -- */

void
weir__executor_begin_search(struct weir__executor_thread *thread)
{
        if (thread->is_searching)
                return;
        thread->is_searching = true;
        add_searching(+1);
}

void
weir__executor_end_search(struct weir__executor_thread *thread)
{
        thread->is_searching = false;
        weir__lock(&weir__executor.lock);
        add_searching(-1);
        __sync_synchronize();
        bool has_more = weir__executor_has_shared();
        weir__unlock(&weir__executor.lock);
        if (has_more || weir__executor_has_deque())
                weir__executor_wake_behind_fence();
}

/* -- sleeping -- */

/* The virtual clock stands until all threads sleep. */
static void
notify_virtual_clock(void)
{
        if (weir__clock_is_virtual())
                weir__poller_wake(weir__pollers.at[0]);
}

/* Ends a thread that has slept for long enough.  It stays if another thread has just woken it, or if no thread is too many. */
static bool
end_asleep(struct weir__executor_thread *thread)
{
        struct weir__worker *before = NULL;

        weir__lock(&weir__executor.lock);
        bool sleeps = atomic_load_explicit(&thread->sleeps, memory_order_relaxed), ends;
        ends = sleeps && able() > weir__executor.wanted;
        if (ends) {
                remove_asleep(thread);
                before = weir__thread_set_leave(&weir__executor.set, &thread->worker);
        } else if (sleeps) {
                atomic_store_explicit(&thread->sleeps, WEIR__EXECUTOR_ASLEEP, memory_order_relaxed);
        }
        weir__unlock(&weir__executor.lock);
        weir__thread_set_join_one(&weir__executor.set, before);
        return ends;
}

/* Returns false when the thread is to end. */
static bool
sleep_until_woken(struct weir__executor_thread *thread)
{
        unsigned sleeps;

        while ((sleeps = atomic_load_explicit(&thread->sleeps, memory_order_acquire)) != WEIR__EXECUTOR_AWAKE) {
                if (sleeps == WEIR__EXECUTOR_ASLEEP)
                        weir__futex_wait(&thread->sleeps, sleeps);
                else if (weir__futex_wait_for(&thread->sleeps, sleeps, EXTRA_IDLE_MOST) == -ETIMEDOUT && end_asleep(thread))
                        return false;
        }
        return true;
}

static bool
sleep_traced(struct weir__executor_thread *thread)
{
        static const struct weir__trace_facts facts = {.kind = "sleeps"};
        struct weir__trace_slice slice;

        weir__trace_begin(&slice, NULL, NULL);
        bool stays = sleep_until_woken(thread);
        if (slice.session)
                weir__trace_end(&slice, &facts, NULL);
        return stays;
}

/* Under the lock: the thread is asleep from now on, unless a job has come.  Returns whether it is. */
static bool
fall_asleep(struct weir__executor_thread *thread)
{
        add_asleep(thread);
        add_searching(-1);
        __sync_synchronize();
        bool has_found = weir__executor_has_shared();
        if (has_found)
                rouse(thread);
        return !has_found;
}

bool
weir__executor_sleep(struct weir__executor_thread *thread)
{
        weir__lock(&weir__executor.lock);
        bool has_found = weir__executor_has_shared(), ends = weir__executor.is_ending && !has_found;
        if (ends)
                add_searching(-1);
        else if (!has_found)
                has_found = !fall_asleep(thread);
        weir__unlock(&weir__executor.lock);
        if (has_found || ends)
                return has_found;
        notify_virtual_clock();
        if (weir__executor_has_deque()) {
                weir__lock(&weir__executor.lock);
                if (atomic_load_explicit(&thread->sleeps, memory_order_relaxed))
                        rouse(thread);
                weir__unlock(&weir__executor.lock);
        }
        return sleep_traced(thread);
}

bool
weir__executor_give_way(struct weir__executor_thread *thread)
{
        while (weir__deque_count(&thread->deque) > 0)
                weir__executor_spill(thread);
        weir__lock(&weir__executor.lock);
        bool gives = weir__executor_awake() > weir__executor.wanted && !weir__executor.is_ending;
        if (gives)
                add_asleep(thread);
        weir__executor_note_overfull();
        weir__unlock(&weir__executor.lock);
        if (!gives) {
                weir__executor_wake(); /* for the jobs that it has moved to the list */
                return true;
        }
        notify_virtual_clock();
        thread->is_searching = true; /* the thread that wakes it counts it */
        return sleep_traced(thread);
}
