/* kernel/executor/executor_state.h: the common part of the files of the executor.
 *
 *     executor.c          the loop of a thread, submitting, start and end
 *     executor_pick.c     which job is next: inbox, list, queues, deques; stealing
 *     executor_sleep.c    which thread sleeps, is woken, or ends because there are too many
 *     executor_threads.c  threads are made, also in place of those that block
 *     executor_stats.c    counts and snapshots for other rooms
 *
 * Calls go one way: executor.c calls all of them, executor_threads.c and executor_stats.c call executor_sleep.c, and that calls
 * executor_pick.c, which defines the struct. */
#ifndef WEIR_KERNEL_EXECUTOR_STATE_H
#define WEIR_KERNEL_EXECUTOR_STATE_H

#include "kernel/base/clock.h"
#include "kernel/executor/deque.h"
#include "kernel/executor/executor.h"
#include "kernel/worker/thread_set.h"

#define WEIR__EXECUTOR_TICK_SHIFT 20 /* the unit of job.since and of thread.since: 2^20 ns */

enum weir__executor_sleep {
        WEIR__EXECUTOR_AWAKE = 0,
        WEIR__EXECUTOR_ASLEEP,
        WEIR__EXECUTOR_ASLEEP_LIMITED, /* the thread ends if it is not woken in time */
};

struct weir__executor_thread {
        struct weir__worker worker; /* first; worker.idle is its link while it sleeps */

        _Atomic unsigned sleeps;  /* enum weir__executor_sleep, a futex; written under the lock */
        _Atomic unsigned running; /* odd while a job runs; counts their begins and ends.  Relaxed */
        _Atomic uint32_t since;   /* the tick at which the last job began.  Relaxed */
        _Atomic(struct weir__job_queue *) queue; /* of the job that runs; NULL: it has none.  Relaxed */

        /* Its own thread's. */
        unsigned picks, queue_picks, seed;
        uint32_t sorted_at;   /* the tick at which it has looked at the inbox */
        bool is_last_job_unannounced; /* no thread was woken for the job that it has pushed last */
        bool is_searching;    /* it is counted in weir__executor.searching */

        struct weir__deque deque;
};

struct weir__executor {
        /* Jobs that were submitted and not yet sorted, the newest first, linked by `next`.  Any thread adds a job by
         * compare-and-swap.  The holder of the lock takes all of them. */
        _Alignas(64) _Atomic(struct weir__link *) inbox;

        _Alignas(64) struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__jobs jobs;
        struct weir__list asleep[2]; /* threads, by worker.idle: first those that stay, then the extra ones */
        unsigned blocked_count;
        bool is_ending;

        /* Written under the lock, read without.  Each submit and each pick reads them, so they have a cache line that picks do
         * not write. */
        _Alignas(64) _Atomic unsigned asleep_count;
        _Atomic bool is_overfull; /* more threads are awake than are wanted */

        _Atomic unsigned searching; /* threads that look for a job; the end of a search is counted under the lock */

        struct weir__thread_set set;

        pthread_mutex_t growth;  /* held while threads are started or freed; under it only the lock */
        weir_nsec retry_at;      /* guarded by growth: no thread is started before */
        _Atomic unsigned wanted; /* threads; constant while the runtime is up */
};

extern struct weir__executor weir__executor;

/* Slots up to the last one that has a thread. */
static inline unsigned
weir__executor_slots(void)
{
        return weir__thread_set_count(&weir__executor.set);
}

static inline struct weir__executor_thread *
weir__executor_thread_at(unsigned slot)
{
        return (struct weir__executor_thread *)weir__thread_set_at(&weir__executor.set, slot);
}

/* The thread of the executor that calls this; NULL: another thread does. */
static inline struct weir__executor_thread *
weir__executor_self(void)
{
        struct weir__worker *worker = weir__worker_self();

        return worker && weir__executor_has(worker) ? (struct weir__executor_thread *)worker : NULL;
}

static inline uint32_t
weir__executor_tick(void)
{
        weir_nsec now = weir__clock_is_virtual() ? weir__clock_now() : weir__clock_read(CLOCK_MONOTONIC_COARSE);

        return (uint32_t)(now >> WEIR__EXECUTOR_TICK_SHIFT);
}

/* -- executor_pick.c -- */

static inline bool
weir__executor_has_inbox(void)
{
        return atomic_load_explicit(&weir__executor.inbox, memory_order_relaxed);
}

/* Adds a job to the inbox.  Sequentially consistent: a look for a sleeping thread may follow. */
void weir__executor_push_inbox(struct weir__job *job);

/* Puts the jobs of the inbox into their queues and the list, the oldest first.  Under the lock. */
void weir__executor_sort_inbox(void);

/* Moves the oldest half of a deque to the list.  No lock held. */
void weir__executor_spill(struct weir__executor_thread *thread);

/* The next job; NULL: there is none.  The first is called before the second, the second before the third.
 *
 *     pick_fair     one that must not wait for the newest: of a queue, or, now and then, the oldest
 *     pick_shared   one of the list or a queue, for a thread whose deque is empty; some more may go into the deque
 *     steal         from another thread's deque */
struct weir__job *weir__executor_pick_fair(struct weir__executor_thread *thread);
struct weir__job *weir__executor_pick_shared(struct weir__executor_thread *thread);
struct weir__job *weir__executor_steal(struct weir__executor_thread *thread);

/* Whether any job is in the inbox, the list or a queue.  Under the lock. */
bool weir__executor_has_shared(void);

/* Whether any job is in a deque.  Behind a fence. */
bool weir__executor_has_deque(void);

/* -- executor_sleep.c; the first two under the lock -- */

/* The threads that neither block nor are asleep. */
unsigned weir__executor_awake(void);

/* To be called when the number of threads or of blocked ones has changed. */
void weir__executor_note_overfull(void);

/* Wakes a thread if one sleeps, none searches, and fewer are awake than are wanted.  The caller of the first has run a fence, or
 * a sequentially consistent exchange; the second runs a fence itself.  No lock held. */
void weir__executor_wake_behind_fence(void);
void weir__executor_wake(void);

/* Wakes all threads.  From now on they end when they find no more jobs. */
void weir__executor_end_all(void);

/* The thread searches from now on, if it does not yet; or has found a job. */
void weir__executor_begin_search(struct weir__executor_thread *thread);
void weir__executor_end_search(struct weir__executor_thread *thread);

/* A searching thread sleeps until it is to search again.  Returns false when it is to end. */
bool weir__executor_sleep(struct weir__executor_thread *thread);

/* One thread may be too many.  If so the caller leaves its jobs to the others, sleeps, and searches afterwards.  Returns false
 * when it is to end. */
bool weir__executor_give_way(struct weir__executor_thread *thread);

#endif
