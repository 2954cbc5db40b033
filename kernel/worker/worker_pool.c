/* kernel/worker/worker_pool.c: the workers.
 *
 *     made --called--> owns a poller --loses it in a callback--> finishes the callback --> idle --called--> ...
 *                                                                                            \--not called for IDLE_MOST--> ended
 *
 * Threads: take, call and put_back on any; wait on the worker; start and end on the thread that starts or ends the runtime.
 * Locks:   pool.lock, a leaf.
 *
 * The worker that became idle last is called first, so that the others are idle for long enough to end. */
#include "kernel/worker/worker_pool.h"

#include <errno.h>

#include "kernel/base/clock.h"
#include "kernel/base/futex.h"
#include "kernel/loop/pollers.h"
#include "kernel/worker/thread_set.h"

#define DEFAULT_SPARES 256          /* workers */
#define IDLE_MOST      WEIR_SEC(10) /* then an idle worker ends */

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct weir__list idle; /* by worker.idle; the one that became idle last is the first */
        unsigned idle_count;

        struct weir__thread_set set;
} pool = {
        .lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF),
        .set = {.lock = &pool.lock, .size = sizeof(struct weir__worker)},
};

/* -- idle workers; under the lock -- */

static void
add_idle(struct weir__worker *worker)
{
        weir__list_prepend(&pool.idle, &worker->idle);
        pool.idle_count++;
}

/* NULL: there is none. */
static struct weir__worker *
take_idle(void)
{
        struct weir__link *link = weir__list_pop(&pool.idle);

        pool.idle_count -= link != NULL;
        return link ? weir__container_of(link, struct weir__worker, idle) : NULL;
}

/* Returns false when the pool is closing. */
static bool
become_idle(struct weir__worker *worker)
{
        weir__lock(&pool.lock);
        bool stays = !pool.set.is_closing;
        if (stays)
                add_idle(worker);
        weir__unlock(&pool.lock);
        return stays;
}

/* -- calling and waiting -- */

struct weir__worker *
weir__worker_pool_take(void)
{
        weir__lock(&pool.lock);
        struct weir__worker *worker = take_idle();
        weir__unlock(&pool.lock);
        return worker || weir__thread_set_add(&pool.set, &worker) == 0 ? worker : NULL;
}

void
weir__worker_pool_call(struct weir__worker *worker, struct weir__poller *poller, enum weir__call call, weir__function *blocked)
{
        worker->blocked = blocked;
        worker->given = poller;
        atomic_store_explicit(&worker->call, call, memory_order_release);
        weir__futex_wake(&worker->call, 1);
}

void
weir__worker_pool_put_back(struct weir__worker *worker)
{
        if (!become_idle(worker))
                weir__worker_pool_call(worker, NULL, WEIR__CALL_LEAVE, NULL);
}

/* Takes the call, if there is one. */
static enum weir__call
take_call(struct weir__worker *worker)
{
        enum weir__call call = atomic_load_explicit(&worker->call, memory_order_acquire);

        if (call == WEIR__CALL_NONE)
                return call;
        atomic_store_explicit(&worker->call, WEIR__CALL_NONE, memory_order_relaxed);
        worker->poller = worker->given;
        atomic_store_explicit(&worker->blocks_since, 0, memory_order_relaxed);
        return call;
}

/* Ends an idle worker, unless another thread has just taken it. */
static bool
end_idle(struct weir__worker *worker)
{
        struct weir__worker *before = NULL;

        weir__lock(&pool.lock);
        bool ends = weir__link_is_used(&worker->idle) && !pool.set.is_closing;
        if (ends) {
                weir__link_remove(&worker->idle);
                pool.idle_count--;
                before = weir__thread_set_leave(&pool.set, worker);
        }
        weir__unlock(&pool.lock);
        weir__thread_set_join_one(&pool.set, before);
        return ends;
}

/* A new worker is not idle: the thread that has made it will call it, or put it back. */
enum weir__call
weir__worker_pool_wait(struct weir__worker *worker)
{
        enum weir__call call;

        while ((call = take_call(worker)) == WEIR__CALL_NONE)
                if (weir__futex_wait_for(&worker->call, WEIR__CALL_NONE, IDLE_MOST) == -ETIMEDOUT && end_idle(worker))
                        return WEIR__CALL_LEAVE;
        return call;
}

enum weir__call
weir__worker_pool_wait_idle(struct weir__worker *worker)
{
        return become_idle(worker) ? weir__worker_pool_wait(worker) : WEIR__CALL_LEAVE;
}

/* -- start and end -- */

int
weir__worker_pool_start(unsigned pollers, unsigned spare_workers, void *(*main)(void *worker))
{
        pool.set.main = main;
        weir__thread_set_open(&pool.set, pollers + (spare_workers ? spare_workers : DEFAULT_SPARES));
        for (unsigned i = 0; i < pollers; i++) {
                struct weir__poller *poller = weir__pollers.at[i];
                struct weir__worker *worker;
                int failed = weir__thread_set_add(&pool.set, &worker);

                if (failed)
                        return failed;
                atomic_store_explicit(&poller->owner, (uintptr_t)worker, memory_order_relaxed);
                weir__worker_pool_call(worker, poller, WEIR__CALL_START, NULL);
        }
        return 0;
}

bool
weir__worker_pool_end(weir_nsec until)
{
        struct weir__worker *worker;

        weir__lock(&pool.lock);
        pool.set.is_closing = true;
        while ((worker = take_idle()))
                weir__worker_pool_call(worker, NULL, WEIR__CALL_LEAVE, NULL);
        weir__unlock(&pool.lock);
        bool have_ended = weir__thread_set_join(&pool.set, until);
        if (have_ended)
                weir__thread_set_free(&pool.set);
        return have_ended;
}

int64_t
weir__worker_pool_roots(void)
{
        return weir__thread_set_roots(&pool.set);
}

void
weir__worker_pool_forked(void)
{
        weir__lock_init(&pool.lock, WEIR__RANK_LEAF);
        weir__thread_set_forked(&pool.set);
        pool.idle = (struct weir__list){0};
        pool.idle_count = 0;
}

/* -- what others ask -- */

/* By the ownership words: the worker itself may not know that it has lost its poller. */
static int
poller_of(const struct weir__worker *worker)
{
        for (unsigned i = 0; i < weir__pollers_count(); i++)
                if ((atomic_load_explicit(&weir__pollers.at[i]->owner, memory_order_relaxed) & ~WEIR__RETAKING) ==
                    (uintptr_t)worker)
                        return (int)i;
        return -1;
}

/* A worker that has lost its poller knows since when it blocks.  For a worker that owns its poller the watchdog knows it. */
static struct weir__worker_snapshot
look_at(struct weir__worker *worker)
{
        unsigned seq = atomic_load_explicit(&worker->callback_seq, memory_order_acquire);
        const struct weir__work_ops *ops = atomic_load_explicit(&worker->running, memory_order_relaxed);
        weir_nsec lost = atomic_load_explicit(&worker->blocks_since, memory_order_relaxed);
        struct weir__worker_snapshot snapshot = {
                .number = worker->number,
                .poller = poller_of(worker),
                .is_in_user = seq & WEIR__SEQ_IN_USER,
                .callee = atomic_load_explicit(&worker->callee, memory_order_relaxed),
                .kind = ops ? ops->kind : NULL,
                .function = atomic_load_explicit(&worker->function, memory_order_relaxed),
        };

        weir_nsec since = lost ? lost : snapshot.poller >= 0 ? weir__worker_seen_since(worker, seq) : 0;
        snapshot.since = since ? weir__clock_monotonic() - since : -1;
        return snapshot;
}

unsigned
weir__worker_pool_snapshots(struct weir__worker_snapshot snapshots[], unsigned room)
{
        unsigned count = 0;

        weir__lock(&pool.lock);
        for (unsigned i = 0; i < weir__thread_set_count(&pool.set) && count < room; i++)
                if (weir__thread_set_at(&pool.set, i)->presence == WEIR__THREAD_HERE)
                        snapshots[count++] = look_at(weir__thread_set_at(&pool.set, i));
        weir__unlock(&pool.lock);
        return count;
}

void
weir__worker_pool_count(unsigned *workers, unsigned *idle)
{
        weir__lock(&pool.lock);
        *workers = pool.set.here;
        *idle = pool.idle_count;
        weir__unlock(&pool.lock);
}
