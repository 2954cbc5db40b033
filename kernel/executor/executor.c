/* kernel/executor/executor.c: threads that run jobs.
 *
 *     [ pick a job -> run it ] ... -> searches -> sleeps -> searches ... -> ends
 *
 * Threads: jobs are submitted, removed and counted on any thread; the loop runs on the threads of the executor.  Each of
 *          them is a worker that has no poller.
 * Locks:   executor.lock, a leaf: queues, list, and which threads sleep.  Each deque has its own, a leaf too: never both.
 *
 * A job without a queue that a thread of the executor submits goes to the deque of that thread.  Any other job goes to the inbox,
 * without the lock; docs/decisions/301-functions-go-through-an-inbox.md has the figures.  executor_state.h lists the files of the
 * executor.
 *
 * A job that another one starts as its last act (worker.is_last_act) is run next by the same thread.  No thread is woken for it,
 * unless another job is picked before. */
#include <stdio.h>
#include <stdlib.h>

#include "kernel/executor/executor_state.h"
#include "kernel/base/thread.h"

#define UNSORTED_FEW  64  /* jobs that a thread submits before it tries to sort the inbox */
#define UNSORTED_MOST 256 /* jobs that a thread submits before it waits for the lock to do so */
#define THREADS_MOST  256 /* that run jobs */
#define SPARES_MOST   256 /* in place of those that block */

/* -- submitting -- */

bool
weir__executor_remove(struct weir__job *job)
{
        weir__lock(&weir__executor.lock);
        weir__executor_sort_inbox();
        bool is_listed = job->is_listed;
        if (is_listed)
                weir__jobs_remove(&weir__executor.jobs, job);
        weir__unlock(&weir__executor.lock);
        return is_listed;
}

static void
push_own(struct weir__executor_thread *thread, struct weir__job *job)
{
        bool was_empty = weir__deque_count(&thread->deque) == 0;

        while (!weir__deque_add(&thread->deque, &job, 1))
                weir__executor_spill(thread);
        if (was_empty && thread->worker.is_last_act)
                thread->is_last_job_unannounced = true;
        else
                weir__executor_wake();
}

/* The newest jobs are in the cache of the thread that has submitted them, so it sorts them faster than the executor does.  The
 * inbox stays short, so the lock is never held for longer than some hundred jobs take. */
static void
help_to_sort(void)
{
        static _Thread_local unsigned unsorted;

        if (++unsorted < UNSORTED_FEW || (unsorted < UNSORTED_MOST && !weir__trylock(&weir__executor.lock)))
                return;
        if (unsorted >= UNSORTED_MOST)
                weir__lock(&weir__executor.lock);
        unsorted = 0;
        weir__executor_sort_inbox();
        weir__unlock(&weir__executor.lock);
}

void
weir__executor_submit(struct weir__job *job)
{
        struct weir__executor_thread *thread = weir__executor_self();

        job->since = weir__executor_tick();
        if (thread && !job->queue && !thread->worker.has_given) {
                push_own(thread, job);
                return;
        }
        weir__executor_push_inbox(job);
        help_to_sort();
        weir__executor_wake_behind_fence();
}

/* -- the loop -- */

static struct weir__job *
pick(struct weir__executor_thread *thread)
{
        struct weir__job *job = weir__executor_pick_fair(thread);

        if (job && thread->is_last_job_unannounced && weir__deque_count(&thread->deque) > 0)
                weir__executor_wake(); /* the job that the thread was about to run now has to wait */
        thread->is_last_job_unannounced = false;
        if (job || (job = weir__deque_pop(&thread->deque)))
                return job;
        job = weir__executor_pick_shared(thread);
        if (!thread->is_searching && weir__deque_count(&thread->deque) > 0)
                weir__executor_wake(); /* a thread that went to sleep while they changed hands has seen them nowhere */
        return job;
}

/* The next job; NULL when the thread is to end. */
static struct weir__job *
next_job(struct weir__executor_thread *thread)
{
        for (;;) {
                if (__builtin_expect(atomic_load_explicit(&weir__executor.is_overfull, memory_order_relaxed), 0) &&
                    !thread->is_searching && !weir__executor_give_way(thread))
                        return NULL;
                struct weir__job *job = pick(thread);
                if (!job) {
                        weir__executor_begin_search(thread);
                        job = weir__executor_steal(thread);
                }
                if (job) {
                        if (thread->is_searching)
                                weir__executor_end_search(thread);
                        return job;
                }
                if (!weir__executor_sleep(thread))
                        return NULL;
        }
}

static const struct weir__executor_ops executor_ops = {
        .blocking_begin = weir__executor_blocking_begin,
        .blocking_end = weir__executor_blocking_end,
};

static void
prepare(struct weir__worker *worker)
{
        struct weir__executor_thread *thread = (struct weir__executor_thread *)worker;

        worker->executor_ops = &executor_ops;
        weir__lock_init(&thread->deque.lock, WEIR__RANK_LEAF);
}

static void *
thread_main(void *argument)
{
        struct weir__executor_thread *thread = argument;
        struct weir__job *job;
        char name[16];

        weir__worker_current = &thread->worker;
        thread->seed = thread->worker.number;
        thread->is_searching = false; /* the thread that had the struct before may have ended in a search */
        snprintf(name, sizeof name, "weir/go%u", thread->worker.number);
        pthread_setname_np(pthread_self(), name);
        weir__thread_keep_on_cpu(thread->worker.number);
        while ((job = next_job(thread))) {
                thread->worker.is_last_act = false;
                job->ops->run(job);
        }
        weir__thread_set_exit(&thread->worker);
        return NULL;
}

void
weir__executor_configure(unsigned threads, unsigned spares)
{
        unsigned wanted = threads == 0 ? weir__thread_cpu_count(THREADS_MOST) : threads > THREADS_MOST ? THREADS_MOST : threads;

        weir__executor.set.main = thread_main;
        weir__executor.set.prepare = prepare;
        weir__thread_set_open(&weir__executor.set, wanted + (spares == 0 || spares > SPARES_MOST ? SPARES_MOST : spares));
        weir__executor.retry_at = 0;
        weir__executor.is_ending = false;
        atomic_store(&weir__executor.wanted, wanted);
}

static void
count_running(struct weir__executor_thread *thread)
{
        unsigned running = atomic_load_explicit(&thread->running, memory_order_relaxed);

        atomic_store_explicit(&thread->running, running + 1, memory_order_relaxed);
}

void
weir__executor_begin(struct weir__job_queue *queue)
{
        struct weir__executor_thread *thread = weir__executor_self();

        atomic_store_explicit(&thread->since, weir__executor_tick(), memory_order_relaxed);
        atomic_store_explicit(&thread->queue, queue, memory_order_relaxed);
        count_running(thread);
}

void
weir__executor_end(void)
{
        struct weir__executor_thread *thread = weir__executor_self();

        atomic_store_explicit(&thread->queue, NULL, memory_order_relaxed);
        count_running(thread);
}

/* -- the end -- */

/* Any job that no thread has taken yet; NULL: there is none. */
static struct weir__job *
take_any(void)
{
        struct weir__job *job = NULL;

        weir__lock(&weir__executor.lock);
        weir__executor_sort_inbox();
        if (!weir__jobs_take_listed(&weir__executor.jobs, &job, 1))
                job = weir__jobs_take_queued(&weir__executor.jobs);
        weir__unlock(&weir__executor.lock);
        for (unsigned i = 0; !job && i < weir__executor_slots(); i++)
                weir__deque_take(&weir__executor_thread_at(i)->deque, &job, 1);
        return job;
}

void
weir__executor_drain(void)
{
        for (struct weir__job *job; (job = take_any());)
                job->ops->refuse(job);
}

int64_t
weir__executor_roots(void)
{
        return weir__thread_set_roots(&weir__executor.set);
}

bool
weir__executor_stop(weir_nsec until)
{
        weir__executor_end_all();
        if (!weir__thread_set_join(&weir__executor.set, until))
                return false;
        pthread_mutex_lock(&weir__executor.growth);
        weir__thread_set_free(&weir__executor.set);
        atomic_store(&weir__executor.is_overfull, false);
        pthread_mutex_unlock(&weir__executor.growth);
        return true;
}

void
weir__executor_forked(void)
{
        weir__lock_init(&weir__executor.lock, WEIR__RANK_LEAF);
        pthread_mutex_init(&weir__executor.growth, NULL);
        weir__thread_set_forked(&weir__executor.set);
}
