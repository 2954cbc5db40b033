/* kernel/sched/crew.c: the workers as a whole.
 *
 *     made --called--> owns a poller --lost it in a callback--> finishes that --> idle, a spare --called--> ...
 *                                                                                  \--nobody called for LINGER--> ended
 *
 * Threads: take, call and put back on any; wait on the worker; start, dismiss and join on the thread that starts or ends the
 *          runtime.
 * Locks:   crew.lock, a leaf.  Threads are made and joined without it.
 *
 * Spares are called last in, first out, so that those at the bottom are idle for long enough to end.  One that ends joins the one
 * that ended before it: there is at most one that is not joined.  The structs are kept until the runtime ends, for the watchdog
 * may look at one that is no owner any more. */
#include "kernel/sched/crew.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/lock.h"
#include "kernel/loop/pollers.h"
#include "kernel/sched/watchdog.h"

#define SPARES 256
#define LINGER WEIR_SEC(10)

static struct {
        /* Constant while the runtime runs. */
        unsigned most;
        size_t stack_size; /* 0: the system's */
        bool affinity;
        cpu_set_t cpus; /* which the process may use */

        struct weir__lock lock;

        /* Guarded by lock. */
        unsigned count, idle_count;
        unsigned numbered; /* since the start */
        bool leaving;
        int64_t ended_live;         /* what those that have ended had counted */
        struct weir__worker *all;   /* whose threads are there */
        struct weir__worker *ended; /* whose thread is to be joined */
        struct weir__worker *unused;
        struct weir__worker *idle; /* the last one first */
} crew = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

/* -- threads -- */

int
weir__crew_make_thread(pthread_t *thread, void *(*main)(void *), void *argument)
{
        sigset_t all, before;
        pthread_attr_t attributes;
        int failed = pthread_attr_init(&attributes);

        if (failed)
                return -failed;
        if (crew.stack_size)
                pthread_attr_setstacksize(&attributes, crew.stack_size);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        failed = pthread_create(thread, &attributes, main, argument);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return -failed;
}

void
weir__crew_keep_on_cpu(unsigned index)
{
        int cpu = -1;
        cpu_set_t set;

        if (!crew.affinity)
                return;
        for (unsigned left = index % (unsigned)CPU_COUNT(&crew.cpus) + 1; left > 0; left -= CPU_ISSET(++cpu, &crew.cpus) != 0)
                continue;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* else it runs anywhere */
}

void
weir__crew_free_of_cpu(void)
{
        if (crew.affinity)
                pthread_setaffinity_np(pthread_self(), sizeof crew.cpus, &crew.cpus);
}

/* -- lists; with the lock held -- */

static void
push_idle(struct weir__worker *worker)
{
        worker->idle = true;
        worker->previous_idle = NULL;
        worker->next_idle = crew.idle;
        if (crew.idle)
                crew.idle->previous_idle = worker;
        crew.idle = worker;
        crew.idle_count++;
}

static void
remove_idle(struct weir__worker *worker)
{
        worker->idle = false;
        *(worker->previous_idle ? &worker->previous_idle->next_idle : &crew.idle) = worker->next_idle;
        if (worker->next_idle)
                worker->next_idle->previous_idle = worker->previous_idle;
        crew.idle_count--;
}

static void
remove_from_all(struct weir__worker *worker)
{
        struct weir__worker **link = &crew.all;

        while (*link != worker)
                link = &(*link)->next;
        *link = worker->next;
}

static void
give_unused(struct weir__worker *worker)
{
        worker->next = crew.unused;
        crew.unused = worker;
}

/* -- making -- */

/* Counts one more, if there may be, with a number; *worker is a struct that is not used any more, or NULL. */
static bool
enrol(struct weir__worker **worker, unsigned *number)
{
        weir__lock(&crew.lock);
        bool may = crew.count < crew.most && !crew.leaving;
        if (may) {
                crew.count++;
                *number = crew.numbered++;
                if ((*worker = crew.unused))
                        crew.unused = (*worker)->next;
        }
        weir__unlock(&crew.lock);
        return may;
}

/* It was counted, and will not come. */
static void
strike_off(struct weir__worker *worker)
{
        weir__lock(&crew.lock);
        crew.count--;
        if (worker)
                give_unused(worker);
        weir__unlock(&crew.lock);
}

static struct weir__worker *
new_struct(void)
{
        struct weir__worker *worker = aligned_alloc(_Alignof(struct weir__worker), sizeof *worker);

        if (worker)
                *worker = (struct weir__worker){0};
        return worker;
}

/* Makes one, which waits to be called. */
static int
make(struct weir__worker **made)
{
        struct weir__worker *worker = NULL;
        unsigned number = 0;

        *made = NULL;
        if (!enrol(&worker, &number))
                return -EAGAIN;
        if (!worker && !(worker = new_struct())) {
                strike_off(NULL);
                return -ENOMEM;
        }
        worker->number = number;
        worker->was_called = false;
        worker->gone = (struct weir__latch){0};
        int failed = weir__crew_make_thread(&worker->thread, weir__worker_main, worker);
        if (failed) {
                strike_off(worker);
                return failed;
        }
        weir__lock(&crew.lock);
        worker->next = crew.all;
        crew.all = worker;
        weir__unlock(&crew.lock);
        *made = worker;
        return 0;
}

struct weir__worker *
weir__crew_take(void)
{
        weir__lock(&crew.lock);
        struct weir__worker *worker = crew.idle;
        if (worker)
                remove_idle(worker);
        weir__unlock(&crew.lock);
        if (!worker)
                make(&worker);
        return worker;
}

/* -- calling and waiting -- */

static long
futex(_Atomic unsigned *word, int operation, unsigned value, const struct timespec *timeout)
{
        return syscall(SYS_futex, (unsigned *)word, operation | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

void
weir__crew_call(struct weir__worker *worker, struct weir__poller *poller, enum weir__call call, weir__function *blocked)
{
        worker->blocked = blocked;
        worker->given = poller;
        atomic_store_explicit(&worker->call, call, memory_order_release);
        futex(&worker->call, FUTEX_WAKE, 1, NULL);
}

void
weir__crew_put_back(struct weir__worker *worker)
{
        weir__lock(&crew.lock);
        bool leaves = crew.leaving;
        if (!leaves)
                push_idle(worker);
        weir__unlock(&crew.lock);
        if (leaves)
                weir__crew_call(worker, NULL, WEIR__CALL_LEAVE, NULL);
}

/* Takes the call, if there is one. */
static enum weir__call
answer(struct weir__worker *worker)
{
        enum weir__call call = atomic_load_explicit(&worker->call, memory_order_acquire);

        if (call == WEIR__CALL_NONE)
                return call;
        atomic_store_explicit(&worker->call, WEIR__CALL_NONE, memory_order_relaxed);
        worker->poller = worker->given;
        atomic_store_explicit(&worker->blocks_since, 0, memory_order_relaxed);
        worker->was_called = true;
        return call;
}

/* Ends it, if nobody has taken it just now. */
static bool
end_idle(struct weir__worker *worker)
{
        struct weir__worker *before = NULL;

        weir__lock(&crew.lock);
        bool ends = worker->idle && !crew.leaving;
        if (ends) {
                remove_idle(worker);
                remove_from_all(worker);
                crew.count--;
                crew.ended_live += atomic_exchange_explicit(&worker->live, 0, memory_order_relaxed);
                before = crew.ended;
                crew.ended = worker;
        }
        weir__unlock(&crew.lock);
        if (before) {
                weir__worker_join(before, WEIR_FOREVER);
                weir__lock(&crew.lock);
                give_unused(before);
                weir__unlock(&crew.lock);
        }
        return ends;
}

/* One that is new is not idle: who has had it made will call it, or put it back.  Returns whether it stays. */
static bool
become_spare(struct weir__worker *worker)
{
        if (!worker->was_called)
                return true;
        weir__lock(&crew.lock);
        bool stays = !crew.leaving;
        if (stays)
                push_idle(worker);
        weir__unlock(&crew.lock);
        return stays;
}

enum weir__call
weir__crew_wait(struct weir__worker *worker)
{
        const struct timespec linger = {.tv_sec = LINGER / 1000000000};
        enum weir__call call = answer(worker);

        if (call != WEIR__CALL_NONE || !become_spare(worker))
                return call != WEIR__CALL_NONE ? call : WEIR__CALL_LEAVE;
        while ((call = answer(worker)) == WEIR__CALL_NONE)
                if (futex(&worker->call, FUTEX_WAIT, WEIR__CALL_NONE, &linger) < 0 && errno == ETIMEDOUT && end_idle(worker))
                        return WEIR__CALL_LEAVE;
        return call;
}

/* -- start and end -- */

int
weir__crew_start(unsigned pollers, const struct weir_config *config)
{
        crew.stack_size = config->stack_size;
        crew.affinity = config->affinity && sched_getaffinity(0, sizeof crew.cpus, &crew.cpus) == 0 && CPU_COUNT(&crew.cpus) > 0;
        crew.most = pollers + (config->spare_workers ? (unsigned)config->spare_workers : SPARES);
        crew.leaving = false;
        crew.numbered = 0;
        for (unsigned i = 0; i < pollers; i++) {
                struct weir__poller *poller = weir__pollers.at[i];
                struct weir__worker *worker;
                int failed = make(&worker);

                if (failed)
                        return failed;
                atomic_store_explicit(&poller->owner, (uintptr_t)worker, memory_order_relaxed);
                weir__crew_call(worker, poller, WEIR__CALL_START, NULL);
        }
        return 0;
}

void
weir__crew_dismiss(void)
{
        struct weir__worker *idle;

        weir__lock(&crew.lock);
        crew.leaving = true;
        while ((idle = crew.idle)) {
                remove_idle(idle);
                weir__crew_call(idle, NULL, WEIR__CALL_LEAVE, NULL);
        }
        weir__unlock(&crew.lock);
}

/* The first of a list, and all behind it, that nobody else uses any more. */
static void
free_all(struct weir__worker **list)
{
        for (struct weir__worker *worker; (worker = *list);) {
                *list = worker->next;
                free(worker);
        }
}

bool
weir__crew_join(const struct weir__worker *self, weir_nsec until)
{
        if (crew.ended && weir__worker_join(crew.ended, until)) {
                crew.ended->next = crew.unused;
                crew.unused = crew.ended;
                crew.ended = NULL;
        }
        weir__lock(&crew.lock);
        struct weir__worker *first = crew.all; /* who comes later, which is at exit() only, is not waited for */
        weir__unlock(&crew.lock);
        for (struct weir__worker *worker = first; worker; worker = worker->next)
                if (worker != self && !weir__worker_join(worker, until))
                        return false;
        return true;
}

int64_t
weir__crew_live(void)
{
        weir__lock(&crew.lock);
        int64_t live = crew.ended_live;
        for (struct weir__worker *worker = crew.all; worker; worker = worker->next)
                live += atomic_load_explicit(&worker->live, memory_order_relaxed);
        weir__unlock(&crew.lock);
        return live;
}

int64_t
weir__crew_forget(void)
{
        int64_t live = weir__crew_live();

        weir__lock(&crew.lock); /* who looks on does so under it */
        struct weir__worker *all = crew.all;
        crew.all = NULL;
        crew.ended_live = 0;
        crew.count = 0;
        weir__unlock(&crew.lock);
        free_all(&all);
        free_all(&crew.unused);
        return live;
}

void
weir__crew_forked(void)
{
        weir__lock_init(&crew.lock, WEIR__RANK_LEAF);
        crew.all = crew.ended = crew.unused = crew.idle = NULL; /* another thread may have been in the middle of a start */
        crew.count = crew.idle_count = 0;
        crew.ended_live = 0;
}

/* What its owner word says: the worker does not say itself. */
static int
poller_of(const struct weir__worker *worker)
{
        for (unsigned i = 0; i < weir__pollers_count(); i++)
                if ((atomic_load_explicit(&weir__pollers.at[i]->owner, memory_order_relaxed) & ~WEIR__CLAIMED) ==
                    (uintptr_t)worker)
                        return (int)i;
        return -1;
}

/* One that has lost its poller knows when it was seen to block, or when it said so; of one that owns its poller the watchdog knows. */
static struct weir__worker_sight
look_at(struct weir__worker *worker)
{
        unsigned turn = atomic_load_explicit(&worker->turn, memory_order_acquire);
        const struct weir__work_ops *ops = atomic_load_explicit(&worker->running, memory_order_relaxed);
        weir_nsec gave = atomic_load_explicit(&worker->gave_at, memory_order_relaxed);
        weir_nsec lost = gave ? gave : atomic_load_explicit(&worker->blocks_since, memory_order_relaxed);
        struct weir__worker_sight sight = {
                .number = worker->number,
                .poller = poller_of(worker),
                .in_user = turn & WEIR__TURN_USER,
                .kind = ops ? ops->kind : NULL,
                .function = atomic_load_explicit(&worker->calls, memory_order_relaxed),
        };

        weir_nsec since = lost ? lost : sight.poller >= 0 ? weir__watchdog_since((unsigned)sight.poller, worker, turn) : 0;
        sight.since = since ? weir__clock_monotonic() - since : -1;
        return sight;
}

unsigned
weir__crew_show(struct weir__worker_sight sights[], unsigned room)
{
        unsigned count = 0;

        weir__lock(&crew.lock);
        for (struct weir__worker *worker = crew.all; worker && count < room; worker = worker->next)
                sights[count++] = look_at(worker);
        weir__unlock(&crew.lock);
        return count;
}

void
weir__crew_count(unsigned *workers, unsigned *spares)
{
        weir__lock(&crew.lock);
        *workers = crew.count;
        *spares = crew.idle_count;
        weir__unlock(&crew.lock);
}
