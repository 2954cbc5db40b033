/* kernel/base/lock.c: waiting for a lock; and the assertion behind the ranks.
 *
 * Threads: any.  Each thread keeps its own record of the ranks that it holds, a bit each; of WAITABLE it may hold several locks.
 * Locks:   the mutex of a queue guards its sleepers, all that they have, and the count of them.  It is held for some dozens of
 *          instructions, and nothing is locked under it.
 *
 *      free --compare-and-swap--> held --plain write--> free
 *                                  | ^
 *                                  '-'  hand-off: the lock stays held and belongs to the first sleeper
 *
 * A thread that finds a lock held spins for a short time.  Then it enters the queue that the address of the lock selects.  It
 * keeps its place there until it has the lock.  A queue is in static memory, since the next thread to hold the lock may free it.
 *
 * A release while sleepers are counted looks at the first sleeper of its lock, under the mutex of the queue.  If that sleeper
 * has waited for HAND_OFF_AFTER, the lock is handed to it: no other thread can take the lock in between.  If not, the lock
 * becomes free, and the sleeper is woken.  A running thread may then be faster than the sleeper, which saves the switch of
 * threads.
 *
 *      in the queue:  asleep --release--> awake --finds the lock held--> asleep
 *                        |                  |--takes the lock--> out of the queue
 *                        '------------------'--hand-off--> out of the queue, the lock is its own
 *
 * So once a thread has waited for HAND_OFF_AFTER, at most one thread that came later takes the lock before it.  The threads
 * ahead of it in the queue get the lock one after another.
 *
 * A release that saw no sleeper frees the lock by a plain write.  A sleeper that was counted meanwhile must not be missed.  The
 * sleeper counts itself, runs a fence on all CPUs, and then tries to take the lock.  The release writes, and then looks at the
 * count once more (kernel/base/fence.h).  So the sleeper sees the write, or the release sees the sleeper.  test/model/lock.pml is
 * the model; docs/decisions/101-locks-are-fair.md says what was rejected. */
#include "kernel/base/lock.h"

#include <pthread.h>

#include "kernel/base/clock.h"
#include "kernel/base/futex.h"
#include "kernel/base/list.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"

#ifndef WEIR__LOCK_SPINS
#define WEIR__LOCK_SPINS 100 /* one to four microseconds on x86 */
#endif

#ifndef SPINS_A_LOOK
#define SPINS_A_LOOK 16 /* between two looks */
#endif

#ifndef HAND_OFF_AFTER
#define HAND_OFF_AFTER WEIR_USEC(200) /* some times longer than a wake-up takes on a CPU that has nothing else to do */
#endif

/* On the stack of its thread. */
struct sleeper {
        struct weir__link link; /* in no list: the thread has the lock */
        const struct weir__lock *lock;
        weir_nsec since;
        _Atomic unsigned is_awake; /* a futex */
};

struct queue {
        _Alignas(64) pthread_mutex_t mutex;
        struct weir__list sleepers; /* guarded by mutex, the longest waiting first */
};

#define QUEUE                                                  \
        {                                                      \
                .mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP \
        } /* it spins for a short time before it sleeps */

_Alignas(64) _Atomic unsigned weir__lock_sleepers[WEIR__LOCK_QUEUES];
static struct queue queues[WEIR__LOCK_QUEUES] = {[0 ... WEIR__LOCK_QUEUES - 1] = QUEUE};

static void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb");
#endif
}

static void
relax_for_a_while(void)
{
        for (unsigned i = 0; i < SPINS_A_LOOK; i++)
                relax();
}

/* A look takes the cache line from the thread that has the lock.  Between two looks that thread may release the lock and take it
 * again several times, while the line stays with it.  Returns false when that takes too long. */
static bool
spin_for(struct weir__lock *lock)
{
        for (unsigned i = 0; i < WEIR__LOCK_SPINS; i += SPINS_A_LOOK) {
                relax_for_a_while();
                if (atomic_load_explicit(&lock->is_held, memory_order_relaxed) == 0 && weir__lock_take(lock))
                        return true;
        }
        return false;
}

/* -- queues -- */

static struct queue *
lock_queue(const struct weir__lock *lock)
{
        struct queue *queue = &queues[weir__lock_queue(lock)];

        pthread_mutex_lock(&queue->mutex);
        return queue;
}

/* Also wakes the sleeper of that futex; NULL: nobody.  The sleeper may be gone by then: it is touched no more. */
static void
unlock_queue(struct queue *queue, _Atomic unsigned *futex)
{
        pthread_mutex_unlock(&queue->mutex);
        if (futex)
                weir__futex_wake(futex, 1);
}

static void
count(const struct queue *queue, int change)
{
        _Atomic unsigned *sleepers = &weir__lock_sleepers[queue - queues];

        atomic_store_explicit(sleepers, atomic_load_explicit(sleepers, memory_order_relaxed) + (unsigned)change,
                              memory_order_relaxed);
}

static void
append(struct queue *queue, struct sleeper *sleeper)
{
        weir__list_append(&queue->sleepers, &sleeper->link);
        count(queue, 1);
}

static void
take_out(struct queue *queue, struct sleeper *sleeper)
{
        weir__link_remove(&sleeper->link);
        count(queue, -1);
}

static struct sleeper *
first_of(const struct queue *queue, const struct weir__lock *lock)
{
        struct weir__link *link = weir__list_first(&queue->sleepers);

        while (link && weir__container_of(link, struct sleeper, link)->lock != lock)
                link = weir__list_next(&queue->sleepers, link);
        return link ? weir__container_of(link, struct sleeper, link) : NULL;
}

/* Returns the futex to wake after the mutex is released.  NULL: there is no sleeper, or it is awake already. */
static _Atomic unsigned *
rouse(struct sleeper *sleeper)
{
        if (!sleeper || atomic_load_explicit(&sleeper->is_awake, memory_order_relaxed))
                return NULL;
        atomic_store_explicit(&sleeper->is_awake, true, memory_order_relaxed);
        return &sleeper->is_awake;
}

/* -- waiting and releasing -- */

/* Returns whether the lock belongs to the sleeper now, which then has left the queue. */
static bool
try_to_own(struct weir__lock *lock, struct sleeper *sleeper)
{
        struct queue *queue = lock_queue(lock);
        bool is_handed = !weir__link_is_used(&sleeper->link), is_taken = !is_handed && weir__lock_take(lock);

        if (is_taken)
                take_out(queue, sleeper);
        atomic_store_explicit(&sleeper->is_awake, false, memory_order_relaxed);
        unlock_queue(queue, NULL);
        return is_handed || is_taken;
}

void
weir__lock_wait(struct weir__lock *lock)
{
        struct sleeper sleeper = {.lock = lock};

        if (spin_for(lock))
                return;
        sleeper.since = weir__clock_monotonic();
        struct queue *queue = lock_queue(lock);
        append(queue, &sleeper);
        unlock_queue(queue, NULL);
        weir__fence_heavy();
        while (!try_to_own(lock, &sleeper))
                weir__futex_wait(&sleeper.is_awake, false);
}

void
weir__lock_release(struct weir__lock *lock)
{
        struct queue *queue = lock_queue(lock);
        struct sleeper *first = first_of(queue, lock);
        _Atomic unsigned *futex = rouse(first);

        if (first && weir__clock_monotonic() - first->since >= HAND_OFF_AFTER) {
                take_out(queue, first);
                futex = &first->is_awake; /* a thread that has roused it before may not have come to the wake-up yet */
        } else {
                atomic_store_explicit(&lock->is_held, 0, memory_order_release);
        }
        unlock_queue(queue, futex);
}

void
weir__lock_wake(const struct weir__lock *lock)
{
        struct queue *queue = lock_queue(lock);

        unlock_queue(queue, rouse(first_of(queue, lock)));
}

bool
weir__lock_until(struct weir__lock *lock, weir_nsec until)
{
        const struct timespec pause = {.tv_nsec = WEIR_MSEC(1)};

        if (until == WEIR_FOREVER)
                weir__lock(lock);
        else
                while (!weir__trylock(lock)) {
                        if (weir__clock_monotonic() >= until)
                                return false;
                        nanosleep(&pause, NULL);
                }
        return true;
}

/* -- forks -- */

void
weir__lock_hold(struct weir__lock *lock)
{
        if (!weir__lock_take(lock))
                weir__lock_wait(lock);
}

/* The child forgets the threads that it does not have, before any lock is released. */
static void
become_child(void)
{
        for (unsigned i = 0; i < WEIR__LOCK_QUEUES; i++) {
                atomic_store_explicit(&weir__lock_sleepers[i], 0, memory_order_relaxed);
                queues[i] = (struct queue)QUEUE;
        }
}

WEIR__STEPS_OF(WEIR__MODULE_LOCKS, [WEIR__STEP_IN_CHILD] = become_child);

#ifdef WEIR_DEBUG

static _Thread_local unsigned held;

/* Of WAITABLE: how many are held, and the last one taken. */
static _Thread_local unsigned waitables;
static _Thread_local const struct weir__lock *waitable;

void
weir__rank_enter(const struct weir__lock *lock)
{
        int rank = lock->rank;
        bool has_another = rank == WEIR__RANK_WAITABLE && waitables > 0;

        if (held >> (has_another ? rank + 1 : rank))
                weir__panic("lock of rank %d taken while ranks %#x are held: ranks must ascend", rank, held);
        if (has_another && lock <= waitable)
                weir__panic("lock of rank %d taken while one is held at an address that is not below its own", rank);
        if (rank == WEIR__RANK_WAITABLE) {
                waitables++;
                waitable = lock;
        }
        held |= 1u << rank;
}

void
weir__rank_leave(const struct weir__lock *lock)
{
        if (lock->rank != WEIR__RANK_WAITABLE || --waitables == 0)
                held &= ~(1u << lock->rank);
}

void
weir__lock_expect_none(const char *what)
{
        if (held)
                weir__panic("%s while locks of the ranks %#x are held", what, held);
}

#endif
