/* kernel/executor/executor.c: threads that run jobs.
 *
 *      awake: [ pick a job -> run it ] ... -> searching -> parked -> searching ...
 *                                                 \              \--a spare one, too many for LINGER--> ended
 *                                                  \--------------> ended, when the runtime ends
 *
 * Threads: jobs are submitted, removed and counted on any thread; the loop runs on the threads of the executor.  Each of them is a
 *          worker that has no poller.
 * Locks:   executor.lock, a leaf: queues, the list of jobs that have none, and who sleeps.  Each thread's deque has its own, a leaf
 *          too: never both.  executor.growth, a mutex of the system, is held while threads are started, and nothing under it but
 *          the lock.
 *
 * Where jobs are.  A job without a queue that a thread of the executor submits goes to its own deque.  Any other job goes to the
 * inbox, without the lock.  From there it is sorted into its queue, or into the list of those that have none: by the submitting
 * thread, some at a time, or by a thread of the executor that finds no other job or has worked for a tick of the clock.  A thread
 * that takes from the list takes some for its deque as well.  Deques are stolen from, half at a time.  Jobs of a queue stay there
 * until they are run; queues that have jobs form a line, and the one whose job was taken goes to its end.
 *
 * Who is woken.  At most one thread searches on account of a wake-up: while one does, no other is woken.  It wakes the next when
 * it has found something and more is left.  A thread that finds nothing parks itself under the lock and then, behind a fence,
 * looks at the inbox and at all deques once more; who pushes onto either looks, behind a fence, whether somebody is parked and nobody searches.
 * So one of them sees the other.
 *
 * Who ends.  The first threads, as many as are wanted, stay; those behind them are spares, made while others block.  Spares are woken
 * when no other can be, and what was parked last first.  When there are more threads that do not block than are wanted, the spares
 * that sleep look at the clock (LINGERS), else at nothing.  One that ends joins the one that ended before it: there is at most one
 * that is not joined.  Its struct stays in its slot until the runtime ends, for thieves may look at its deque, which is empty, and
 * its `live` counts; the next thread uses it again.
 *
 * What a job starts as its last act (worker.acts_last) its thread comes to at once: nobody is woken for it, unless something else is
 * picked before. */
#include "kernel/executor/executor.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/sched/crew.h"
#include "kernel/executor/deque.h"
#include "kernel/base/panic.h"
#include "kernel/runtime/runtime.h"

#define THREADS_MOST 256 /* that run jobs */
#define SLOTS        512 /* with those that block */
#define SPARES       256
#define NAP          WEIR_USEC(50) /* and so on, twice as long each time, before it looks again whether a single job is to be stolen */
#define NAP_MOST     WEIR_USEC(400)
#define ELSEWHERE    61 /* each so many picks a thread looks at the list, or at its own oldest, before its newest */
#define UNSORTED_FEW  64  /* jobs that a thread submits before it tries to sort the inbox */
#define UNSORTED_MOST 256 /* jobs that a thread submits before it waits for the lock to do so */
#define PART_MOST    32 /* jobs that a thread takes from the list: each is fetched from another CPU, under the lock */
#define RETRY        WEIR_SEC(1)
#define LINGER       WEIR_SEC(10)
#define UNIT_SHIFT   20

/* A futex: what a thread does, or is about to. */
enum parked {
        AWAKE = 0,
        SLEEPS,
        LINGERS, /* sleeps for LINGER at most */
};

enum presence {
        UNUSED = 0, /* no thread: the struct is to be used again */
        HERE,
        GONE, /* the thread is to be joined */
};

struct thread {
        struct weir__worker worker; /* first */
        unsigned index;

        /* Guarded by executor.lock. */
        struct thread *next_parked;
        bool blocked;
        enum presence presence;

        _Atomic unsigned parked;  /* enum parked; written under the lock */
        _Atomic unsigned running; /* odd while a job runs; counts their begins and ends.  Relaxed */
        _Atomic uint32_t since;   /* when the last of them began, as of job.since.  Relaxed */
        _Atomic(struct weir__job_queue *) queue; /* of the job that runs; NULL: it has none.  Relaxed */

        /* Its own. */
        unsigned picks, turn, seed;
        uint32_t sorted_at; /* what `since` was when it last looked at the inbox on account of the time */
        bool silent;           /* what it has pushed last was told to nobody */
        struct thread *spared; /* whose only job it has left there, and what `running` was then */
        unsigned spared_at;
        bool hesitates;
        weir_nsec nap;
        struct weir__cache cache;

        struct weir__deque deque;
};

static struct {
        /* Jobs that were submitted and are in no queue or list yet, the newest first, linked by `next`.  Added to by compare-and-swap,
         * taken whole under the lock. */
        _Alignas(64) _Atomic(struct weir__job *) inbox;

        _Alignas(64) struct weir__lock lock;

        /* Guarded by lock; atomic: read without. */
        struct weir__jobs jobs;
        struct thread *parked[2]; /* those that stay, and spares */
        unsigned parked_count, blocked_count;
        struct thread *gone;         /* the last one that ended by itself */
        _Atomic unsigned here;       /* threads */
        _Atomic unsigned any_parked; /* 1 or 0 */
        _Atomic unsigned searching;
        _Atomic bool crowded; /* more threads are awake than are to be */
        bool ending;

        /* Read by any thread: a struct, once there, stays until the end.  Who is neither one of the threads nor keeps the runtime from
         * ending looks at them with growth held. */
        _Alignas(64) _Atomic unsigned count;     /* behind the last slot that has a thread; written under the lock */
        _Atomic(struct thread *) threads[SLOTS]; /* NULL behind the last struct; written with growth held */

        pthread_mutex_t growth;
        weir_nsec retry_at;      /* guarded by growth */
        _Atomic unsigned wanted; /* constant while the runtime is up */
        unsigned spares;
} executor = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF), .growth = PTHREAD_MUTEX_INITIALIZER, .wanted = 1};

static unsigned
count_of_threads(void)
{
        return atomic_load_explicit(&executor.count, memory_order_acquire);
}

static struct thread *
thread_at(unsigned index)
{
        return atomic_load_explicit(&executor.threads[index], memory_order_acquire);
}

/* Also of those that have no thread any more; NULL: none. */
static struct thread *
struct_at(unsigned index)
{
        return index < SLOTS ? thread_at(index) : NULL;
}

/* The thread of the executor that this is, or NULL. */
static struct thread *
self(void)
{
        struct weir__worker *worker = weir__worker_self();

        return worker && weir__executor_owns(worker) ? (struct thread *)worker : NULL;
}

static uint32_t
stamp(void)
{
        weir_nsec now = weir__clock_is_virtual() ? weir__clock_now() : weir__clock_read(CLOCK_MONOTONIC_COARSE);

        return (uint32_t)(now >> UNIT_SHIFT);
}

/* -- the inbox -- */

static bool
has_inbox(void)
{
        return atomic_load_explicit(&executor.inbox, memory_order_relaxed);
}

/* Sequentially consistent: the look for a sleeper comes behind it. */
static void
push_inbox(struct weir__job *job)
{
        struct weir__job *next = atomic_load_explicit(&executor.inbox, memory_order_relaxed);

        do
                job->next = next;
        while (!atomic_compare_exchange_weak(&executor.inbox, &next, job));
}

/* Puts what is in the inbox where it belongs, the oldest first.  Under the lock. */
static void
sort_inbox(void)
{
        struct weir__job *job = has_inbox() ? atomic_exchange_explicit(&executor.inbox, NULL, memory_order_acquire) : NULL;
        struct weir__job *oldest = NULL;

        for (struct weir__job *next; job; job = next) {
                next = job->next;
                job->next = oldest;
                oldest = job;
        }
        for (struct weir__job *next; oldest; oldest = next) {
                next = oldest->next;
                weir__jobs_append(&executor.jobs, oldest);
        }
}

/* Under the lock. */
static bool
is_any_shared(void)
{
        return has_inbox() || weir__jobs_are_any(&executor.jobs);
}

/* -- waking; all under the lock, but unpark rarely -- */

/* The thread may have run all there is, and even be gone: the address alone is used. */
static void
unpark(struct thread *thread)
{
        if (thread)
                syscall(SYS_futex, (unsigned *)&thread->parked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void
add_searching(int change)
{
        atomic_fetch_add_explicit(&executor.searching, (unsigned)change, memory_order_relaxed);
}

static bool
is_spare(const struct thread *thread)
{
        return thread->index >= executor.wanted;
}

/* The threads that do not block. */
static unsigned
able(void)
{
        return atomic_load_explicit(&executor.here, memory_order_relaxed) - executor.blocked_count;
}

static unsigned
awake(void)
{
        return able() - executor.parked_count;
}

static void
add_parked(struct thread *thread)
{
        struct thread **list = &executor.parked[is_spare(thread)];
        bool lingers = is_spare(thread) && able() > executor.wanted;

        atomic_store_explicit(&thread->parked, lingers ? LINGERS : SLEEPS, memory_order_relaxed);
        thread->next_parked = *list;
        *list = thread;
        executor.parked_count++;
        atomic_store_explicit(&executor.any_parked, 1, memory_order_relaxed);
}

static void
remove_parked(struct thread *thread)
{
        struct thread **link = &executor.parked[is_spare(thread)];

        while (*link != thread)
                link = &(*link)->next_parked;
        *link = thread->next_parked;
        executor.parked_count--;
        atomic_store_explicit(&executor.any_parked, executor.parked_count > 0, memory_order_relaxed);
        atomic_store_explicit(&thread->parked, AWAKE, memory_order_release);
}

/* Takes a thread, which searches from now on, from among the parked ones: any, or that one. */
static struct thread *
take_parked(struct thread *wanted)
{
        struct thread *thread = wanted ? wanted : executor.parked[0] ? executor.parked[0] : executor.parked[1];

        add_searching(+1);
        remove_parked(thread);
        return thread;
}

/* Behind each growth of able(): those spares that sleep on are to look at the clock when there is one too many.  They are `wanted` at
 * most when the first comes, and there are none for those that follow. */
static void
note_surplus(void)
{
        if (able() != executor.wanted + 1)
                return;
        for (struct thread *thread = executor.parked[1]; thread; thread = thread->next_parked)
                if (atomic_exchange_explicit(&thread->parked, LINGERS, memory_order_relaxed) == SLEEPS)
                        unpark(thread);
}

static void
note_crowd(void)
{
        atomic_store_explicit(&executor.crowded, awake() > executor.wanted, memory_order_relaxed);
}

/* The thread to be woken because there is something to do; NULL: none, or it is not needed. */
static struct thread *
choose(void)
{
        if (executor.parked_count == 0 || atomic_load_explicit(&executor.searching, memory_order_relaxed) ||
            awake() >= executor.wanted)
                return NULL;
        return take_parked(NULL);
}

/* Behind a fence, after a push or the end of a search; no lock held. */
static void
wake_behind_fence(void)
{
        if (!atomic_load(&executor.any_parked) || atomic_load(&executor.searching))
                return;
        weir__lock(&executor.lock);
        struct thread *thread = choose();
        weir__unlock(&executor.lock);
        unpark(thread);
}

static void
wake_one(void)
{
        __sync_synchronize();
        wake_behind_fence();
}

/* -- submitting -- */

bool
weir__executor_remove(struct weir__job *job)
{
        weir__lock(&executor.lock);
        sort_inbox();
        bool listed = job->place == WEIR__JOB_LISTED;
        if (listed)
                weir__jobs_remove(&executor.jobs, job);
        weir__unlock(&executor.lock);
        return listed;
}

/* Half of what a full deque holds goes to the list. */
static void
spill(struct thread *thread)
{
        struct weir__job *jobs[WEIR__DEQUE_HALF];
        unsigned count = weir__deque_take(&thread->deque, jobs, WEIR__DEQUE_HALF);

        weir__lock(&executor.lock);
        for (unsigned i = 0; i < count; i++)
                weir__jobs_append(&executor.jobs, jobs[i]);
        weir__unlock(&executor.lock);
}

static void
push_own(struct thread *thread, struct weir__job *job)
{
        bool was_empty = weir__deque_count(&thread->deque) == 0;

        while (!weir__deque_push(&thread->deque, job))
                spill(thread);
        if (was_empty && thread->worker.acts_last)
                thread->silent = true;
        else
                wake_one();
}

/* The lines of the newest jobs are in the cache of the thread that has submitted them: it sorts for less than the threads of the
 * executor, and so the lock is never held for longer than some hundred jobs take. */
static void
help_to_sort(void)
{
        static _Thread_local unsigned unsorted;

        if (++unsorted < UNSORTED_FEW || (unsorted < UNSORTED_MOST && !weir__trylock(&executor.lock)))
                return;
        if (unsorted >= UNSORTED_MOST)
                weir__lock(&executor.lock);
        unsorted = 0;
        sort_inbox();
        weir__unlock(&executor.lock);
}

void
weir__executor_submit(struct weir__job *job)
{
        struct thread *thread = self();

        job->since = stamp();
        if (thread && !job->queue && !thread->blocked) {
                push_own(thread, job);
                return;
        }
        push_inbox(job);
        help_to_sort();
        wake_behind_fence();
}

/* -- picking -- */

static bool
is_anything_stealable(void)
{
        for (unsigned i = 0; i < count_of_threads(); i++)
                if (weir__deque_count(&thread_at(i)->deque) > 0)
                        return true;
        return false;
}

static void
sort_inbox_now(void)
{
        if (!has_inbox())
                return;
        weir__lock(&executor.lock);
        sort_inbox();
        weir__unlock(&executor.lock);
}

/* From the list, as many as are this thread's part.  Under the lock. */
static unsigned
take_part(struct weir__job *jobs[PART_MOST])
{
        if (!weir__jobs_are_any(&executor.jobs))
                sort_inbox();
        size_t part = executor.jobs.listed / executor.wanted + 1;

        return weir__jobs_take_listed(&executor.jobs, jobs, part < PART_MOST ? (unsigned)part : PART_MOST);
}

/* From the list, for its empty deque too; else from a queue. */
static struct weir__job *
pick_shared(struct thread *thread)
{
        struct weir__job *jobs[PART_MOST];

        weir__lock(&executor.lock);
        unsigned count = take_part(jobs);
        if (count == 0 && (jobs[0] = weir__jobs_take_queued(&executor.jobs)))
                count = 1;
        weir__unlock(&executor.lock);
        if (count > 1)
                weir__deque_fill(&thread->deque, &jobs[1], count - 1);
        return count > 0 ? jobs[0] : NULL;
}

static struct weir__job *
pick_queued(void)
{
        weir__lock(&executor.lock);
        struct weir__job *job = weir__jobs_take_queued(&executor.jobs);
        weir__unlock(&executor.lock);
        return job;
}

/* So that nothing waits for ever below what is newer: each so many picks from the list or, when it is empty, the oldest of its own;
 * and half-way between the oldest in any case. */
static struct weir__job *
pick_oldest(struct thread *thread)
{
        unsigned phase = thread->picks++ % ELSEWHERE;
        struct weir__job *job = NULL;

        if (__builtin_expect(phase != 0 && phase != ELSEWHERE / 2, 1))
                return NULL;
        if (phase == 0) {
                weir__lock(&executor.lock);
                sort_inbox();
                weir__jobs_take_listed(&executor.jobs, &job, 1);
                weir__unlock(&executor.lock);
        }
        if (!job)
                weir__deque_take(&thread->deque, &job, 1);
        return job;
}

static struct weir__job *
pick(struct thread *thread)
{
        uint32_t now = atomic_load_explicit(&thread->since, memory_order_relaxed);
        struct weir__job *job = NULL;

        if (__builtin_expect(thread->sorted_at != now, 0)) {
                thread->sorted_at = now;
                sort_inbox_now();
        }
        unsigned queues = atomic_load_explicit(&executor.jobs.queues, memory_order_relaxed);

        if (__builtin_expect(queues > 0, 0) && thread->turn++ % (queues + 1) != 0)
                job = pick_queued();
        if (!job)
                job = pick_oldest(thread);
        if (job && thread->silent && weir__deque_count(&thread->deque) > 0)
                wake_one(); /* what it was going to come to at once has to wait */
        thread->silent = false;
        if (!job)
                job = weir__deque_pop(&thread->deque);
        return job ? job : pick_shared(thread);
}

/* A single job is mostly one that its thread comes to at once: the next of a chain, each of which starts the one after it.  It is
 * stolen when its thread has not gone on since the last look. */
static bool
spares(struct thread *thread, struct thread *victim)
{
        unsigned running = atomic_load_explicit(&victim->running, memory_order_relaxed);

        if (weir__deque_count(&victim->deque) != 1 || (thread->spared == victim && thread->spared_at == running))
                return false;
        thread->spared = victim;
        thread->spared_at = running;
        thread->hesitates = true;
        return true;
}

/* While there is nothing but what it spares. */
static void
nap(struct thread *thread)
{
        const struct timespec pause = {.tv_nsec = thread->nap};

        nanosleep(&pause, NULL);
        if (thread->nap < NAP_MOST)
                thread->nap *= 2;
}

/* Half of what another one has. */
static struct weir__job *
steal(struct thread *thread)
{
        struct weir__job *jobs[WEIR__DEQUE_HALF];
        unsigned count = count_of_threads(), at = thread->seed = thread->seed * 1664525 + 1013904223;

        for (unsigned i = 0; i < count; i++) {
                struct thread *victim = thread_at((at / 65536 + i) % count);
                unsigned taken = victim == thread || spares(thread, victim)
                                         ? 0
                                         : weir__deque_take(&victim->deque, jobs, WEIR__DEQUE_HALF);

                if (taken > 1)
                        weir__deque_fill(&thread->deque, &jobs[1], taken - 1);
                if (taken > 0) {
                        weir__trace_mark("steals", "functions", taken);
                        return jobs[0];
                }
        }
        return NULL;
}

/* -- the loop -- */

static void
come_to_rest(void)
{
        if (weir__clock_is_virtual())
                weir__poller_wake(weir__pollers.at[0]);
        if (weir__phase_is_stopping())
                weir__runtime_notify();
}

/* It is gone from now on; returns the one that went before, which is to be joined.  Under the lock. */
static struct thread *
take_leave(struct thread *thread)
{
        struct thread *before = executor.gone;
        unsigned count = count_of_threads();

        remove_parked(thread);
        thread->presence = GONE;
        executor.gone = thread;
        atomic_fetch_sub_explicit(&executor.here, 1, memory_order_relaxed);
        while (count > 0 && thread_at(count - 1)->presence != HERE)
                count--;
        atomic_store_explicit(&executor.count, count, memory_order_release);
        return before;
}

/* Ends one that has lingered for long enough, if nobody has taken it just now and there is one too many still. */
static bool
end_parked(struct thread *thread)
{
        struct thread *before = NULL;

        weir__lock(&executor.lock);
        bool is_parked = atomic_load_explicit(&thread->parked, memory_order_relaxed) != AWAKE;
        bool ends = is_parked && able() > executor.wanted;
        if (ends)
                before = take_leave(thread);
        else if (is_parked)
                atomic_store_explicit(&thread->parked, SLEEPS, memory_order_relaxed);
        weir__unlock(&executor.lock);
        if (ends)
                weir__cache_empty(&thread->cache);
        if (before) {
                weir__worker_join(&before->worker, WEIR_FOREVER);
                weir__lock(&executor.lock);
                before->presence = UNUSED;
                weir__unlock(&executor.lock);
        }
        return ends;
}

/* Until it is taken; false: it is to end. */
static bool
sleep_until_taken(struct thread *thread)
{
        static const struct timespec linger = {.tv_sec = LINGER / 1000000000};
        unsigned parked;

        while ((parked = atomic_load_explicit(&thread->parked, memory_order_acquire)) != AWAKE) {
                const struct timespec *limit = parked == LINGERS ? &linger : NULL;
                long slept = syscall(SYS_futex, (unsigned *)&thread->parked, FUTEX_WAIT_PRIVATE, parked, limit, NULL, 0);

                if (slept < 0 && errno == ETIMEDOUT && end_parked(thread))
                        return false;
        }
        return true;
}

static bool
sleep_parked(struct thread *thread)
{
        static const struct weir__trace_facts facts = {.kind = "sleeps"};
        struct weir__trace_slice slice = {0};

        if (weir__trace_is_on())
                weir__trace_begin(&slice, NULL, NULL);
        bool stays = sleep_until_taken(thread);
        if (slice.session)
                weir__trace_end(&slice, &facts, NULL);
        return stays;
}

/* While it searches, and has found nothing.  Returns false when it is to end; else it searches still, or again. */
static bool
park(struct thread *thread)
{
        weir__lock(&executor.lock);
        bool found = is_any_shared(), ends = executor.ending && !found;
        if (!found && !ends)
                add_parked(thread);
        if (!found)
                add_searching(-1);
        weir__unlock(&executor.lock);
        if (found || ends)
                return found;
        come_to_rest();
        __sync_synchronize();
        if (has_inbox() || is_anything_stealable()) {
                weir__lock(&executor.lock);
                if (atomic_load_explicit(&thread->parked, memory_order_relaxed) != AWAKE)
                        take_parked(thread);
                weir__unlock(&executor.lock);
        }
        return sleep_parked(thread);
}

/* A thread that has blocked is back, so one of them is too many: it leaves what it has to the others.  Returns false when it is to
 * end. */
static bool
give_way(struct thread *thread, bool *searches)
{
        while (weir__deque_count(&thread->deque) > 0)
                spill(thread);
        weir__lock(&executor.lock);
        bool gives = awake() > executor.wanted && !executor.ending;
        if (gives)
                add_parked(thread);
        note_crowd();
        weir__unlock(&executor.lock);
        if (!gives)
                return true;
        come_to_rest();
        *searches = true;
        return sleep_parked(thread);
}

static void
end_search(void)
{
        weir__lock(&executor.lock);
        add_searching(-1);
        bool more = weir__jobs_are_any(&executor.jobs);
        weir__unlock(&executor.lock);
        __sync_synchronize();
        if (more || has_inbox() || is_anything_stealable())
                wake_behind_fence();
}

/* The next job; NULL when it is to end. */
static struct weir__job *
next_job(struct thread *thread)
{
        bool searches = false;

        for (;;) {
                if (__builtin_expect(atomic_load_explicit(&executor.crowded, memory_order_relaxed), 0) && !searches &&
                    !give_way(thread, &searches))
                        return NULL;
                struct weir__job *job = pick(thread);
                if (!job) {
                        if (!searches) {
                                weir__lock(&executor.lock);
                                add_searching(+1);
                                weir__unlock(&executor.lock);
                                searches = true;
                        }
                        thread->hesitates = false;
                        job = steal(thread);
                }
                if (job) {
                        if (searches)
                                end_search();
                        thread->nap = NAP;
                        return job;
                }
                if (thread->hesitates) {
                        nap(thread);
                        continue;
                }
                if (!park(thread))
                        return NULL;
        }
}

static void *
thread_main(void *argument)
{
        struct thread *thread = argument;
        struct weir__job *job;
        char name[16];

        weir__worker_current = &thread->worker;
        snprintf(name, sizeof name, "weir/go%u", thread->index);
        pthread_setname_np(pthread_self(), name);
        weir__crew_keep_on_cpu(thread->index);
        pthread_mutex_lock(&executor.growth);
        pthread_mutex_unlock(&executor.growth);
        while ((job = next_job(thread))) {
                thread->worker.acts_last = false;
                job->ops->run(job);
                if (weir__worker_self() != &thread->worker)
                        weir__panic("a child of fork() returned from a callback: it has no thread to return to");
        }
        weir__trace_leave();
        weir__worker_current = NULL;
        weir__latch_open(&thread->worker.gone);
        return NULL;
}

static void
count_running(struct thread *thread)
{
        atomic_store_explicit(&thread->running, atomic_load_explicit(&thread->running, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

void
weir__executor_begin(struct weir__job_queue *queue)
{
        struct thread *thread = self();

        atomic_store_explicit(&thread->since, stamp(), memory_order_relaxed);
        count_running(thread);
        atomic_store_explicit(&thread->queue, queue, memory_order_relaxed);
}

void
weir__executor_end(void)
{
        struct thread *thread = self();

        if (!thread)
                weir__panic("a child of fork() returned from a function: it has no thread to return to");
        atomic_store_explicit(&thread->queue, NULL, memory_order_relaxed);
        count_running(thread);
}

/* -- threads come -- */

static unsigned
cpu_count(void)
{
        cpu_set_t set;
        int count = sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : CPU_COUNT(&set);

        return count < 1 ? 1 : count > THREADS_MOST ? THREADS_MOST : (unsigned)count;
}

void
weir__executor_configure(unsigned threads, unsigned spares)
{
        unsigned wanted = threads == 0 ? cpu_count() : threads > THREADS_MOST ? THREADS_MOST : threads;

        executor.spares = spares == 0 || spares > SPARES ? SPARES : spares;
        executor.retry_at = 0;
        executor.ending = false;
        atomic_store(&executor.wanted, wanted);
}

/* The first slot without a thread.  With growth held. */
static unsigned
find_slot(void)
{
        struct thread *thread;
        unsigned index = 0;

        weir__lock(&executor.lock);
        while ((thread = struct_at(index)) && thread->presence != UNUSED)
                index++;
        weir__unlock(&executor.lock);
        return index;
}

static struct thread *
new_struct(unsigned index)
{
        struct thread *thread = aligned_alloc(_Alignof(struct thread), sizeof *thread);

        if (!thread)
                return NULL;
        *thread = (struct thread){0};
        thread->index = thread->seed = index;
        thread->nap = NAP;
        thread->worker.cache = &thread->cache;
        weir__lock_init(&thread->deque.lock, WEIR__RANK_LEAF);
        return thread;
}

/* One more, which begins when growth is let go, and it is counted.  With growth held. */
static int
add_thread(void)
{
        unsigned index = find_slot();
        struct thread *former = struct_at(index), *thread = former || index >= SLOTS ? former : new_struct(index);

        if (!thread)
                return index < SLOTS ? -ENOMEM : -EAGAIN;
        thread->worker.gone = (struct weir__latch){0};
        int failed = weir__crew_make_thread(&thread->worker.thread, thread_main, thread);
        if (failed) {
                if (!former)
                        free(thread);
                return failed;
        }
        weir__lock(&executor.lock);
        thread->presence = HERE;
        atomic_store_explicit(&executor.threads[index], thread, memory_order_release);
        if (index >= count_of_threads())
                atomic_store_explicit(&executor.count, index + 1, memory_order_release);
        atomic_fetch_add_explicit(&executor.here, 1, memory_order_relaxed);
        note_crowd();
        note_surplus();
        weir__unlock(&executor.lock);
        return 0;
}

/* With growth held. */
static int
grow(void)
{
        int failed = 0;

        while (count_of_threads() < executor.wanted && !failed)
                failed = add_thread();
        if (failed)
                executor.retry_at = weir__clock_monotonic() + RETRY;
        return count_of_threads() > 0 ? 0 : failed;
}

int
weir__executor_use(void)
{
        unsigned count = count_of_threads();

        if (__builtin_expect(count >= executor.wanted, 1))
                return 0;
        if (count == 0)
                pthread_mutex_lock(&executor.growth);
        else if (pthread_mutex_trylock(&executor.growth))
                return 0;
        int failed = count > 0 && weir__clock_monotonic() < executor.retry_at ? 0 : grow();
        pthread_mutex_unlock(&executor.growth);
        return failed;
}

/* -- threads block -- */

/* Whether another thread has to be made that runs jobs instead.  Under the lock. */
static bool
lacks_thread(void)
{
        return executor.parked_count == 0 && awake() < executor.wanted;
}

int
weir__executor_blocking_begin(struct weir__worker *worker)
{
        struct thread *thread = (struct thread *)worker;
        int failed = 0;

        weir__lock(&executor.lock);
        thread->blocked = true;
        executor.blocked_count++;
        bool lacks = lacks_thread();
        weir__unlock(&executor.lock);
        if (lacks) {
                pthread_mutex_lock(&executor.growth);
                failed = weir__executor_threads() < executor.wanted + executor.spares ? add_thread() : -EAGAIN;
                pthread_mutex_unlock(&executor.growth);
        }
        if (failed) {
                weir__executor_blocking_end(worker); /* another one may have been woken meanwhile: then there is a crowd */
                return -EAGAIN;
        }
        wake_one();
        return 0;
}

void
weir__executor_blocking_end(struct weir__worker *worker)
{
        struct thread *thread = (struct thread *)worker;

        weir__lock(&executor.lock);
        thread->blocked = false;
        executor.blocked_count--;
        note_crowd();
        note_surplus();
        weir__unlock(&executor.lock);
}

/* -- what others ask -- */

bool
weir__executor_is_busy(void)
{
        weir__lock(&executor.lock);
        bool busy = is_any_shared() || awake() > 0;
        weir__unlock(&executor.lock);
        return busy;
}

/* Adds the wait of the oldest of a list or deque. */
static void
note_oldest(const struct weir__job *job, void *context)
{
        struct weir__executor_stats *stats = context;
        weir_nsec waiting = job ? (weir_nsec)(stamp() - job->since) << UNIT_SHIFT : 0;

        if (waiting > stats->waiting)
                stats->waiting = waiting;
}

static void
add_thread_stats(struct thread *thread, struct weir__executor_stats *stats)
{
        stats->running += atomic_load_explicit(&thread->running, memory_order_relaxed) & 1;
        stats->queued += weir__deque_show_oldest(&thread->deque, note_oldest, stats);
}

/* Of all but the deques.  Under the lock. */
static void
add_listed_stats(struct weir__executor_stats *stats)
{
        const struct weir__job_queue *queue = executor.jobs.line;

        stats->queued = executor.jobs.listed + executor.jobs.queued;
        note_oldest(executor.jobs.first, stats);
        for (unsigned i = 0; queue && i < WEIR__EXECUTOR_SHOWN; i++, queue = queue->next)
                note_oldest(queue->first, stats);
}

/* Under the lock, so that no struct goes. */
static unsigned
count_running_of(const struct weir__job_queue *queue)
{
        unsigned running = 0;

        for (unsigned i = 0; i < count_of_threads(); i++)
                running += atomic_load_explicit(&thread_at(i)->queue, memory_order_relaxed) == queue;
        return running;
}

void
weir__executor_stats(const struct weir__job_queue *queue, struct weir__executor_stats *stats)
{
        *stats = (struct weir__executor_stats){0};
        weir__lock(&executor.lock);
        sort_inbox();
        if (queue) {
                stats->queued = queue->queued;
                stats->running = count_running_of(queue);
                note_oldest(queue->first, stats);
        } else {
                add_listed_stats(stats);
        }
        weir__unlock(&executor.lock);
        if (queue)
                return;
        pthread_mutex_lock(&executor.growth); /* the structs do not go meanwhile */
        for (unsigned i = 0; i < count_of_threads(); i++)
                add_thread_stats(thread_at(i), stats);
        pthread_mutex_unlock(&executor.growth);
}

unsigned
weir__executor_show(struct weir__executor_sight sights[], unsigned room)
{
        unsigned found = 0;

        pthread_mutex_lock(&executor.growth); /* the structs do not go meanwhile */
        for (unsigned i = 0; i < count_of_threads() && found < room; i++) {
                struct thread *thread = thread_at(i);
                uint32_t since = atomic_load_explicit(&thread->since, memory_order_relaxed);

                if (atomic_load_explicit(&thread->running, memory_order_relaxed) & 1)
                        sights[found++] = (struct weir__executor_sight){
                                .thread = i,
                                .function = atomic_load_explicit(&thread->worker.calls, memory_order_relaxed),
                                .since = (weir_nsec)(stamp() - since) << UNIT_SHIFT,
                        };
        }
        pthread_mutex_unlock(&executor.growth);
        return found;
}

unsigned
weir__executor_threads(void)
{
        return atomic_load_explicit(&executor.here, memory_order_relaxed);
}

/* -- the end -- */

static void
wake_all(bool ending)
{
        struct thread *woken[SLOTS];
        unsigned count = 0;

        weir__lock(&executor.lock);
        executor.ending = ending;
        while (executor.parked_count > 0)
                woken[count++] = take_parked(NULL);
        weir__unlock(&executor.lock);
        while (count > 0)
                unpark(woken[--count]);
}

static unsigned
refuse(struct weir__job *jobs[], unsigned count)
{
        for (unsigned i = 0; i < count; i++)
                jobs[i]->ops->refuse(jobs[i]);
        return count;
}

static unsigned
take_from_lists(struct weir__job *jobs[], unsigned most)
{
        weir__lock(&executor.lock);
        sort_inbox();
        unsigned count = weir__jobs_take_listed(&executor.jobs, jobs, most);
        while (count < most && (jobs[count] = weir__jobs_take_queued(&executor.jobs)))
                count++;
        weir__unlock(&executor.lock);
        return count;
}

void
weir__executor_drain(void)
{
        struct weir__job *jobs[WEIR__DEQUE_HALF];

        while (refuse(jobs, take_from_lists(jobs, WEIR__DEQUE_HALF)))
                ;
        for (unsigned i = 0; i < count_of_threads(); i++)
                while (refuse(jobs, weir__deque_take(&thread_at(i)->deque, jobs, WEIR__DEQUE_HALF)))
                        ;
        wake_all(false);
}

int64_t
weir__executor_live(void)
{
        struct thread *thread;
        int64_t live = 0;

        for (unsigned i = 0; (thread = struct_at(i)); i++)
                live += atomic_load_explicit(&thread->worker.live, memory_order_relaxed);
        return live;
}

/* No thread uses them any more.  With growth held. */
static void
free_structs(void)
{
        struct thread *thread;

        for (unsigned i = 0; (thread = struct_at(i)); i++) {
                weir__cache_empty(&thread->cache);
                atomic_store(&executor.threads[i], NULL);
                free(thread);
        }
}

static bool
is_here(const struct thread *thread)
{
        weir__lock(&executor.lock);
        bool here = thread->presence == HERE;
        weir__unlock(&executor.lock);
        return here;
}

/* Since it is ending, none goes by itself.  The last one that has joins the one before it, and so on. */
static bool
join_all(weir_nsec until)
{
        bool ended = true;

        if (executor.gone && !weir__worker_join(&executor.gone->worker, until))
                return false;
        executor.gone = NULL;
        for (unsigned i = 0; i < count_of_threads(); i++)
                if (is_here(thread_at(i)))
                        ended &= thread_at(i) != self() && weir__worker_join(&thread_at(i)->worker, until);
        return ended;
}

bool
weir__executor_stop(weir_nsec until, int64_t *live)
{
        wake_all(true);
        if (!join_all(until))
                return false;
        *live = weir__executor_live();
        pthread_mutex_lock(&executor.growth);
        weir__lock(&executor.lock);
        atomic_store(&executor.count, 0);
        weir__unlock(&executor.lock);
        free_structs();
        atomic_store(&executor.here, 0);
        atomic_store(&executor.crowded, false);
        pthread_mutex_unlock(&executor.growth);
        return true;
}

void
weir__executor_forked(void)
{
        weir__lock_init(&executor.lock, WEIR__RANK_LEAF);
        pthread_mutex_init(&executor.growth, NULL);
}
