/* kernel/executor/executor_stats.c: counts and snapshots of the executor, for other rooms.
 *
 * Threads: any.
 * Locks:   executor.lock; executor.growth while the deques of all threads are looked at, so that their structs stay. */
#include "kernel/executor/executor_state.h"
#include "kernel/worker/blocking.h"

bool
weir__executor_is_busy_or_blocks(bool *blocks)
{
        weir__lock(&weir__executor.lock);
        bool busy = weir__executor_has_shared() || weir__executor_awake() > 0;
        *blocks = weir__blocking_is_any(); /* counts a function for longer than the executor takes it for blocked */
        weir__unlock(&weir__executor.lock);
        return busy;
}

bool
weir__executor_is_busy(void)
{
        bool blocks;

        return weir__executor_is_busy_or_blocks(&blocks);
}

static weir_nsec
since_tick(uint32_t tick)
{
        return (weir_nsec)(weir__executor_tick() - tick) << WEIR__EXECUTOR_TICK_SHIFT;
}

/* `job` is the oldest of a queue or a deque; NULL: that has none. */
static void
note_oldest(struct weir__executor_stats *stats, const struct weir__job *job)
{
        weir_nsec waiting = job ? since_tick(job->since) : 0;

        if (waiting > stats->waiting)
                stats->waiting = waiting;
}

/* Under the lock. */
static void
add_queue_stats(const struct weir__job_queue *queue, struct weir__executor_stats *stats)
{
        stats->queued = queue->queued;
        note_oldest(stats, weir__jobs_oldest(queue));
        for (unsigned i = 0; i < weir__executor_slots(); i++)
                stats->running += atomic_load_explicit(&weir__executor_thread_at(i)->queue, memory_order_relaxed) == queue;
}

/* Of all jobs that are in no deque.  Under the lock. */
static void
add_listed_stats(struct weir__executor_stats *stats)
{
        const struct weir__jobs *jobs = &weir__executor.jobs;
        const struct weir__link *link = weir__list_first(&jobs->line);

        stats->queued = jobs->list.queued + jobs->queued;
        note_oldest(stats, weir__jobs_oldest(&jobs->list));
        for (unsigned i = 0; link && i < WEIR__EXECUTOR_SHOWN; i++, link = weir__list_next(&jobs->line, link))
                note_oldest(stats, weir__jobs_oldest(weir__container_of(link, struct weir__job_queue, in_line)));
}

static void
add_thread_stats(struct weir__executor_thread *thread, struct weir__executor_stats *stats)
{
        stats->running += atomic_load_explicit(&thread->running, memory_order_relaxed) & 1;
        weir__lock(&thread->deque.lock);
        stats->queued += weir__deque_count(&thread->deque);
        note_oldest(stats, weir__deque_oldest(&thread->deque));
        weir__unlock(&thread->deque.lock);
}

void
weir__executor_stats(const struct weir__job_queue *queue, struct weir__executor_stats *stats)
{
        *stats = (struct weir__executor_stats){0};
        weir__lock(&weir__executor.lock);
        weir__executor_sort_inbox();
        if (queue)
                add_queue_stats(queue, stats);
        else
                add_listed_stats(stats);
        weir__unlock(&weir__executor.lock);
        if (queue)
                return;
        pthread_mutex_lock(&weir__executor.growth);
        for (unsigned i = 0; i < weir__executor_slots(); i++)
                add_thread_stats(weir__executor_thread_at(i), stats);
        pthread_mutex_unlock(&weir__executor.growth);
}

unsigned
weir__executor_snapshots(struct weir__worker_snapshot snapshots[], unsigned room)
{
        unsigned found = 0;

        pthread_mutex_lock(&weir__executor.growth);
        for (unsigned i = 0; i < weir__executor_slots() && found < room; i++) {
                struct weir__executor_thread *thread = weir__executor_thread_at(i);
                uint32_t since = atomic_load_explicit(&thread->since, memory_order_relaxed);

                if (atomic_load_explicit(&thread->running, memory_order_relaxed) & 1)
                        snapshots[found++] = (struct weir__worker_snapshot){
                                .number = i,
                                .poller = -1,
                                .is_in_user = true,
                                .callee = atomic_load_explicit(&thread->worker.callee, memory_order_relaxed),
                                .function = atomic_load_explicit(&thread->worker.function, memory_order_relaxed),
                                .since = since_tick(since),
                        };
        }
        pthread_mutex_unlock(&weir__executor.growth);
        return found;
}

unsigned
weir__executor_threads(void)
{
        weir__lock(&weir__executor.lock);
        unsigned threads = weir__executor.set.here;
        weir__unlock(&weir__executor.lock);
        return threads;
}
