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
#include <time.h>

#include "kernel/executor/executor_state.h"
#include "kernel/observe/trace.h"

#define OLDEST_EVERY 61 /* picks; one of them is from the list or the old end of the deque, so that nothing waits for ever */
#define LONE_PAUSE   WEIR_USEC(50)
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
        struct weir__link *next = atomic_load_explicit(&weir__executor.inbox, memory_order_relaxed);

        do
                job->link.next = next;
        while (!atomic_compare_exchange_weak(&weir__executor.inbox, &next, &job->link));
}

void
weir__executor_sort_inbox(void)
{
        struct weir__link *link, *oldest = NULL, *next;

        if (!weir__executor_has_inbox())
                return;
        link = atomic_exchange_explicit(&weir__executor.inbox, NULL, memory_order_acquire);
        for (; link; link = next) {
                next = link->next;
                link->next = oldest;
                oldest = link;
        }
        for (; oldest; oldest = next) {
                next = oldest->next;
                weir__jobs_append(&weir__executor.jobs, weir__container_of(oldest, struct weir__job, link));
        }
}

bool
weir__executor_has_shared(void)
{
        return weir__executor_has_inbox() || weir__jobs_are_any(&weir__executor.jobs);
}

bool
weir__executor_has_deque(void)
{
        for (unsigned i = 0; i < weir__executor_slots(); i++)
                if (weir__deque_count(&weir__executor_thread_at(i)->deque) > 0)
                        return true;
        return false;
}

/* A thread that has jobs of its own looks at the inbox once in a tick, so the jobs of a new queue run soon. */
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

/* Takes the part of this thread from the list.  Under the lock. */
static unsigned
take_part(struct weir__job *jobs[PART_MOST])
{
        size_t part = weir__executor.jobs.list.queued / weir__executor.wanted + 1;

        return weir__jobs_take_listed(&weir__executor.jobs, jobs, part < PART_MOST ? (unsigned)part : PART_MOST);
}

/* Takes jobs from the list, one to run and the others for the thread's deque, which is empty; else a job from a queue. */
struct weir__job *
weir__executor_pick_shared(struct weir__executor_thread *thread)
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
                weir__deque_add(&thread->deque, &jobs[1], count - 1);
        return count > 0 ? jobs[0] : NULL;
}

/* The queues and all jobs without a queue take turns. */
static struct weir__job *
pick_queued(struct weir__executor_thread *thread)
{
        unsigned queues = atomic_load_explicit(&weir__executor.jobs.queues, memory_order_relaxed);

        if (__builtin_expect(queues == 0, 1) || thread->queue_picks++ % (queues + 1) == 0)
                return NULL;
        weir__lock(&weir__executor.lock);
        struct weir__job *job = weir__jobs_take_queued(&weir__executor.jobs);
        weir__unlock(&weir__executor.lock);
        return job;
}

/* One pick in OLDEST_EVERY is from the list, or the oldest job of the deque when the list is empty.  Half-way between two of
 * these one pick is the oldest job of the deque in any case. */
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
weir__executor_pick_fair(struct weir__executor_thread *thread)
{
        sort_once_a_tick(thread);
        struct weir__job *job = pick_queued(thread);
        return job ? job : pick_oldest(thread);
}

/* -- stealing -- */

/* Takes half of what another thread has.  NULL: it has none. */
static struct weir__job *
steal_from(struct weir__executor_thread *thread, struct weir__executor_thread *victim)
{
        struct weir__job *jobs[WEIR__DEQUE_HALF];
        unsigned count = weir__deque_take(&victim->deque, jobs, WEIR__DEQUE_HALF);

        if (count == 0)
                return NULL;
        if (count > 1)
                weir__deque_add(&thread->deque, &jobs[1], count - 1);
        weir__trace_mark("steals", "functions", count);
        return jobs[0];
}

/* Returns whether the victim has not gone on to another job after a pause. */
static bool
has_not_moved_on(const struct weir__executor_thread *victim, unsigned running)
{
        const struct timespec pause = {.tv_nsec = LONE_PAUSE};

        nanosleep(&pause, NULL);
        return atomic_load_explicit(&victim->running, memory_order_relaxed) == running;
}

/* The only job of a deque is mostly the next one of a chain, which its thread runs at once.  It is stolen only when that thread
 * has not gone on after a pause.  Otherwise the jobs of a chain would move between the CPUs. */
struct weir__job *
weir__executor_steal(struct weir__executor_thread *thread)
{
        struct weir__executor_thread *lone = NULL;
        unsigned count = weir__executor_slots(), at = thread->seed = thread->seed * 1664525 + 1013904223, running = 0;

        for (unsigned i = 0; i < count; i++) {
                struct weir__executor_thread *victim = weir__executor_thread_at((at / 65536 + i) % count);
                unsigned jobs = weir__deque_count(&victim->deque);
                struct weir__job *job = jobs > 1 ? steal_from(thread, victim) : NULL;

                if (job)
                        return job;
                if (jobs == 1) {
                        lone = victim;
                        running = atomic_load_explicit(&lone->running, memory_order_relaxed);
                }
        }
        return lone && has_not_moved_on(lone, running) ? steal_from(thread, lone) : NULL;
}
