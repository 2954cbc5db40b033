/* kernel/executor/executor_pick.c: which job a thread runs next.
 *
 *     submit --> inbox --sort--> list ----> deque of a thread --> run
 *       |                  `---> queue ------------------------> run
 *       '--> deque of the submitting thread
 *
 * Threads: those of the executor; any thread adds to the inbox and sorts it.
 * Locks:   executor.lock guards the list and the queues.  Each deque has its own lock, a leaf: never both.
 *
 * A job of a queue stays there until it is run, so the functions of a queue begin in their order.  Queues that have jobs form a
 * line; the queue whose job was taken goes to its end.  A thread that takes from the list takes some jobs for its deque as well.
 * Deques are stolen from, half at a time. */
#include <errno.h>

#include "kernel/executor/executor_state.h"
#include "kernel/observe/trace.h"

#define OLDEST_EVERY 61 /* picks; one of so many is from the list or the old end of the deque, so that nothing waits for ever */
#define PART_MOST    32 /* jobs that a thread takes from the list: each is fetched from another CPU, under the lock */

struct weir__executor weir__executor = {
        .lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF),
        .growth = PTHREAD_MUTEX_INITIALIZER,
        .wanted = 1,
        .set = {.lock = &weir__executor.lock, .size = sizeof(struct weir__executor_thread)},
};

/* -- the inbox -- */

void
weir__executor_push_inbox(struct weir__job *job)
{
        struct weir__job *next = atomic_load_explicit(&weir__executor.inbox, memory_order_relaxed);

        do
                job->next = next;
        while (!atomic_compare_exchange_weak(&weir__executor.inbox, &next, job));
}

void
weir__executor_sort_inbox(void)
{
        struct weir__job *job, *oldest = NULL;

        if (!weir__executor_has_inbox())
                return;
        job = atomic_exchange_explicit(&weir__executor.inbox, NULL, memory_order_acquire);
        for (struct weir__job *next; job; job = next) {
                next = job->next;
                job->next = oldest;
                oldest = job;
        }
        for (struct weir__job *next; oldest; oldest = next) {
                next = oldest->next;
                weir__jobs_append(&weir__executor.jobs, oldest);
        }
}

bool
weir__executor_has_shared(void)
{
        return weir__executor_has_inbox() || weir__jobs_are_any(&weir__executor.jobs);
}

bool
weir__executor_has_unlocked(void)
{
        for (unsigned i = 0; i < weir__executor_count(); i++)
                if (weir__deque_count(&weir__executor_thread_at(i)->deque) > 0)
                        return true;
        return weir__executor_has_inbox();
}

/* A thread that has jobs of its own looks at the inbox once in a tick: a new queue takes its turn soon. */
static void
sort_once_a_tick(struct weir__executor_thread *thread)
{
        uint32_t now = atomic_load_explicit(&thread->since, memory_order_relaxed);

        if (__builtin_expect(thread->sorted_at == now, 1))
                return;
        thread->sorted_at = now;
        if (!weir__executor_has_inbox())
                return;
        weir__lock(&weir__executor.lock);
        weir__executor_sort_inbox();
        weir__unlock(&weir__executor.lock);
}

/* -- the list, the queues, the own deque -- */

void
weir__executor_spill(struct weir__executor_thread *thread)
{
        struct weir__job *jobs[WEIR__DEQUE_HALF];
        unsigned count = weir__deque_take(&thread->deque, jobs, WEIR__DEQUE_HALF);

        weir__lock(&weir__executor.lock);
        for (unsigned i = 0; i < count; i++)
                weir__jobs_append(&weir__executor.jobs, jobs[i]);
        weir__unlock(&weir__executor.lock);
}

/* Takes from the list what is this thread's part of it.  Under the lock. */
static unsigned
take_part(struct weir__job *jobs[PART_MOST])
{
        size_t part = weir__executor.jobs.listed / weir__executor.wanted + 1;

        return weir__jobs_take_listed(&weir__executor.jobs, jobs, part < PART_MOST ? (unsigned)part : PART_MOST);
}

/* Takes from the list, also for the thread's deque, which is empty; else from a queue. */
static struct weir__job *
pick_shared(struct weir__executor_thread *thread)
{
        struct weir__job *jobs[PART_MOST];

        weir__lock(&weir__executor.lock);
        if (!weir__jobs_are_any(&weir__executor.jobs))
                weir__executor_sort_inbox();
        unsigned count = take_part(jobs);
        if (count == 0 && (jobs[0] = weir__jobs_take_queued(&weir__executor.jobs)))
                count = 1;
        weir__unlock(&weir__executor.lock);
        if (count > 1)
                weir__deque_fill(&thread->deque, &jobs[1], count - 1);
        return count > 0 ? jobs[0] : NULL;
}

/* The queues and all jobs without a queue take turns. */
static struct weir__job *
pick_queued(struct weir__executor_thread *thread)
{
        unsigned queues = atomic_load_explicit(&weir__executor.jobs.queues, memory_order_relaxed);

        if (__builtin_expect(queues == 0, 1) || thread->queue_turn++ % (queues + 1) == 0)
                return NULL;
        weir__lock(&weir__executor.lock);
        struct weir__job *job = weir__jobs_take_queued(&weir__executor.jobs);
        weir__unlock(&weir__executor.lock);
        return job;
}

/* One pick in OLDEST_EVERY is from the list or, when that is empty, the oldest job of the deque; and half-way between the oldest
 * job of the deque in any case. */
static struct weir__job *
pick_oldest(struct weir__executor_thread *thread)
{
        unsigned phase = thread->picks++ % OLDEST_EVERY;
        struct weir__job *job = NULL;

        if (__builtin_expect(phase != 0 && phase != OLDEST_EVERY / 2, 1))
                return NULL;
        if (phase == 0) {
                weir__lock(&weir__executor.lock);
                weir__executor_sort_inbox();
                weir__jobs_take_listed(&weir__executor.jobs, &job, 1);
                weir__unlock(&weir__executor.lock);
        }
        if (!job)
                weir__deque_take(&thread->deque, &job, 1);
        return job;
}

struct weir__job *
weir__executor_pick(struct weir__executor_thread *thread)
{
        sort_once_a_tick(thread);
        struct weir__job *job = pick_queued(thread);
        if (!job)
                job = pick_oldest(thread);
        if (job && thread->has_silent_job && weir__deque_count(&thread->deque) > 0)
                weir__executor_wake(); /* the job that the thread was about to run now has to wait */
        thread->has_silent_job = false;
        if (!job)
                job = weir__deque_pop(&thread->deque);
        return job ? job : pick_shared(thread);
}

/* -- stealing -- */

/* A lone job is mostly one that its thread will run at once: the next of a chain, in which each job starts the one after it.  It
 * is stolen when its thread has not gone on since the last look.  Without this the jobs of a chain move between CPUs. */
static bool
leaves_lone_job(struct weir__executor_thread *thread, struct weir__executor_thread *victim)
{
        unsigned running = atomic_load_explicit(&victim->running, memory_order_relaxed);

        if (weir__deque_count(&victim->deque) != 1 || (thread->lone_of == victim && thread->lone_at == running))
                return false;
        thread->lone_of = victim;
        thread->lone_at = running;
        thread->saw_lone_job = true;
        return true;
}

/* Takes half of what another thread has. */
struct weir__job *
weir__executor_steal(struct weir__executor_thread *thread)
{
        struct weir__job *jobs[WEIR__DEQUE_HALF];
        unsigned count = weir__executor_count(), at = thread->seed = thread->seed * 1664525 + 1013904223;

        thread->saw_lone_job = false;
        for (unsigned i = 0; i < count; i++) {
                struct weir__executor_thread *victim = weir__executor_thread_at((at / 65536 + i) % count);

                if (victim == thread || leaves_lone_job(thread, victim))
                        continue;
                unsigned taken = weir__deque_take(&victim->deque, jobs, WEIR__DEQUE_HALF);
                if (taken > 1)
                        weir__deque_fill(&thread->deque, &jobs[1], taken - 1);
                if (taken > 0) {
                        weir__trace_mark("steals", "functions", taken);
                        return jobs[0];
                }
        }
        return NULL;
}
