/* kernel/base/lock.c: waiting for a lock; and the assertion behind the ranks.
 *
 * Threads: any.  Each thread keeps its own record of the ranks that it holds, a bit each; of WAITABLE it may hold several locks.
 * Locks:   the mutex of a queue guards the list, the states of its sleepers and the count of them.  It is held for some dozens of
 *          instructions, and nothing is locked under it.
 *
 *      free --compare-and-swap--> held --plain write--> free
 *                                  | ^
 *                                  '-'  hand-off: the lock stays held and belongs to the first sleeper
 *
 * A thread that finds a lock held spins for a short time.  Then it enters the queue that the address of the lock leads to.  It keeps
 * its place there until it has the lock.  A queue is in static memory, since the next thread to hold the lock may free it.
 *
 * A release while sleepers are counted looks at the first sleeper of its lock, under the mutex of the queue.  If that sleeper has
 * waited for PATIENCE, the lock is handed to it: no other thread can take the lock in between.  If not, the lock becomes free, and
 * the sleeper is woken.  A running thread may then be faster than the sleeper, which saves the switch of threads.
 *
 *      sleeper:  ASLEEP --release--> WOKEN --finds the lock held, under the mutex--> ASLEEP
 *                   \                 \--takes the lock, under the mutex--> leaves the queue
 *                    '-----------------'--hand-off--> OWNER, has left the queue
 *
 * So once a thread has waited for PATIENCE, at most one thread that came later takes the lock before it; the threads ahead of it
 * in the queue get the lock one after another.
 *
 * A release that saw no sleeper frees the lock by a plain write.  A sleeper that was counted meanwhile must not be missed.  The
 * sleeper counts itself, runs a fence on all CPUs, and then tries to take the lock.  The release writes, and then looks at the count
 * once more (kernel/base/fence.h).  So the sleeper sees the write, or the release sees the sleeper.  test/model/lock.pml is the model.
 *
 * Rejected: three states in the lock, with sleepers that the kernel queues (no bound: a thread in a loop was always faster than the
 * woken one); a "starving" state in the lock (a plain write can go over it, and the kernel's queue puts a sleeper that lost back to
 * its end); hand-off at every release (each one then costs a switch of threads). */
#include "kernel/base/lock.h"

#include <stddef.h>

#include "kernel/base/clock.h"
#include "kernel/base/futex.h"
#include "kernel/base/panic.h"

#ifndef WEIR__LOCK_SPINS
#define WEIR__LOCK_SPINS 100 /* one to four microseconds on x86 */
#endif

#define PATIENCE WEIR_USEC(200) /* some times longer than a wake-up takes on a CPU that has nothing else to do */

enum sleeper_state { ASLEEP = 0, WOKEN, OWNER };

/* On the stack of its thread. */
struct sleeper {
        const struct weir__lock *lock;
        weir_nsec since;
        _Atomic unsigned state; /* enum sleeper_state; a futex */
        struct sleeper *next;
};

struct queue {
        _Alignas(64) _Atomic unsigned mutex; /* 0: free, 1: held, 2: held, and a thread may sleep for it */
        struct sleeper *first, *last;
};

_Alignas(64) _Atomic unsigned weir__lock_sleepers[WEIR__LOCK_QUEUES];
static struct queue queues[WEIR__LOCK_QUEUES];

static void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb");
#endif
}

/* Spins until the word is 0, and makes it 1.  Returns false when that takes too long. */
static bool
spin_for(_Atomic unsigned *word)
{
        for (unsigned i = 0; i < WEIR__LOCK_SPINS; i++) {
                unsigned free = 0;

                if (atomic_load_explicit(word, memory_order_relaxed) == 0 &&
                    atomic_compare_exchange_strong_explicit(word, &free, 1, memory_order_acquire, memory_order_relaxed))
                        return true;
                relax();
        }
        return false;
}

/* -- queues -- */

static struct queue *
enter(const struct weir__lock *lock)
{
        struct queue *queue = &queues[weir__lock_queue(lock)];

        if (!spin_for(&queue->mutex))
                while (atomic_exchange_explicit(&queue->mutex, 2, memory_order_acquire) != 0)
                        weir__futex_wait(&queue->mutex, 2);
        return queue;
}

static void
leave(struct queue *queue)
{
        if (atomic_exchange_explicit(&queue->mutex, 0, memory_order_release) == 2)
                weir__futex_wake(&queue->mutex, 1);
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
        *(queue->last ? &queue->last->next : &queue->first) = sleeper;
        queue->last = sleeper;
        count(queue, 1);
}

static void
take_out(struct queue *queue, const struct sleeper *sleeper)
{
        struct sleeper *before = NULL, **place = &queue->first;

        while (*place != sleeper) {
                before = *place;
                place = &before->next;
        }
        *place = sleeper->next;
        if (queue->last == sleeper)
                queue->last = before;
        count(queue, -1);
}

static struct sleeper *
first_of(const struct queue *queue, const struct weir__lock *lock)
{
        struct sleeper *sleeper = queue->first;

        while (sleeper && sleeper->lock != lock)
                sleeper = sleeper->next;
        return sleeper;
}

static void
set_state(struct sleeper *sleeper, enum sleeper_state state)
{
        atomic_store_explicit(&sleeper->state, state, memory_order_release);
}

static enum sleeper_state
state_of(struct sleeper *sleeper)
{
        return atomic_load_explicit(&sleeper->state, memory_order_acquire);
}

/* Returns the futex to wake with the mutex let go, or NULL: the sleeper is awake already. */
static _Atomic unsigned *
rouse(struct sleeper *sleeper)
{
        if (!sleeper || state_of(sleeper) != ASLEEP)
                return NULL;
        set_state(sleeper, WOKEN);
        return &sleeper->state;
}

/* Leaves the queue and wakes.  The sleeper may be gone by then: it is touched no more. */
static void
leave_and_wake(struct queue *queue, _Atomic unsigned *futex)
{
        leave(queue);
        if (futex)
                weir__futex_wake(futex, 1);
}

/* -- waiting and letting go -- */

/* Returns whether the lock belongs to the sleeper now, which then has left the queue. */
static bool
try_to_own(struct weir__lock *lock, struct sleeper *sleeper)
{
        struct queue *queue = enter(lock);
        bool is_owner = state_of(sleeper) == OWNER;

        if (!is_owner && weir__lock_take(lock)) {
                is_owner = true;
                take_out(queue, sleeper);
        } else if (!is_owner) {
                set_state(sleeper, ASLEEP);
        }
        leave(queue);
        return is_owner;
}

static void
sleep_for(struct weir__lock *lock)
{
        struct sleeper sleeper = {.lock = lock, .since = weir__clock_monotonic()};
        struct queue *queue = enter(lock);

        append(queue, &sleeper);
        leave(queue);
        weir__fence_heavy();
        while (!try_to_own(lock, &sleeper))
                weir__futex_wait(&sleeper.state, ASLEEP);
}

void
weir__lock_wait(struct weir__lock *lock)
{
        if (!spin_for(&lock->is_held))
                sleep_for(lock);
}

void
weir__lock_release(struct weir__lock *lock)
{
        struct queue *queue = enter(lock);
        struct sleeper *first = first_of(queue, lock);
        _Atomic unsigned *futex;

        if (first && weir__clock_monotonic() - first->since >= PATIENCE) {
                futex = &first->state;
                take_out(queue, first);
                set_state(first, OWNER);
        } else {
                futex = rouse(first);
                atomic_store_explicit(&lock->is_held, 0, memory_order_release);
        }
        leave_and_wake(queue, futex);
}

void
weir__lock_wake(const struct weir__lock *lock)
{
        struct queue *queue = enter(lock);

        leave_and_wake(queue, rouse(first_of(queue, lock)));
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

void
weir__lock_forget_sleepers(void)
{
        for (unsigned i = 0; i < WEIR__LOCK_QUEUES; i++) {
                atomic_store_explicit(&weir__lock_sleepers[i], 0, memory_order_relaxed);
                atomic_store_explicit(&queues[i].mutex, 0, memory_order_relaxed);
                queues[i].first = queues[i].last = NULL;
        }
}

#ifdef WEIR_DEBUG

static _Thread_local unsigned held;

/* Of WAITABLE: how many are held, and the last one taken. */
static _Thread_local unsigned waitables;
static _Thread_local const struct weir__lock *waitable;

void
weir__rank_enter(int rank, const struct weir__lock *lock)
{
        bool another = rank == WEIR__RANK_WAITABLE && waitables > 0;

        if (held >> (another ? rank + 1 : rank))
                weir__panic("lock of rank %d taken while ranks %#x are held: ranks must ascend", rank, held);
        if (another && lock <= waitable)
                weir__panic("lock of rank %d taken while one is held at an address that is not below its own", rank);
        if (rank == WEIR__RANK_WAITABLE) {
                waitables++;
                waitable = lock;
        }
        held |= 1u << rank;
}

void
weir__rank_leave(int rank)
{
        if (rank != WEIR__RANK_WAITABLE || --waitables == 0)
                held &= ~(1u << rank);
}

void
weir__rank_expect_none(const char *what)
{
        if (held)
                weir__panic("%s while locks of the ranks %#x are held", what, held);
}

#endif
