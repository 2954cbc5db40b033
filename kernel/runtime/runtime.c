/* kernel/runtime/runtime.c: start and end of everything.
 *
 * kernel/base/phase.h has the phases.
 *
 * Threads: init and shutdown run on threads that are no workers, one at a time under admin.lock, which is held while shutdown
 *          waits (it is the only lock that is; nothing that runs on a worker takes it).
 * Locks:   admin.lock (rank RUNTIME); shutdown waits in kernel/sched/progress.c.
 *
 * Shutdown waits for the roots: lone tasks, series of their own and exchanges that were started and have not ended.  Each worker,
 * and each thread of the executor, counts those that it starts and ends itself, and other threads count on one atomic: increment,
 * then look at the phase, against shutdown's set the phase, then read the counts.  A worker counts without an atomic
 * read-modify-write: the fence in between is a light one, and shutdown's the heavy one.  A root may be started on one thread and end
 * on another, so a count may be negative; but an end is never read without its start, for every start that was not refused is there
 * when the first count is read.  A start that is refused inside a callback takes its count back, and tells nobody: that callback
 * belongs to a root, and whoever ends that one does. */
#include "kernel/runtime/runtime.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "kernel/base/thread.h"
#include "kernel/memory/memory.h"
#include "kernel/sched/blocking.h"
#include "kernel/base/clock.h"
#include "kernel/runtime/config.h"
#include "kernel/sched/worker_pool.h"
#include "kernel/sched/progress.h"
#include "kernel/executor/executor.h"
#include "kernel/observe/log.h"
#include "kernel/base/panic.h"
#include "kernel/loop/inflight.h"
#include "kernel/runtime/virtual.h"
#include "kernel/sched/deliver.h"
#include "kernel/sched/watchdog.h"
#include "kernel/sched/worker_loop.h"
#include "kernel/sched/user.h"

static struct {
        struct weir__lock lock;
        _Atomic int watchdog_fault; /* not said yet; written under the lock */
} admin = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_RUNTIME)};

/* What shutdown has each poller do. */
static struct farewell {
        struct weir__work work; /* first */
        struct weir__poller *poller;
        bool tells; /* the parts of the library that have asked for it */
} drains[WEIR__POLLERS_MAX], exits[WEIR__POLLERS_MAX];

static _Atomic int64_t foreign_live; /* roots entered minus left by threads that are no workers; sequentially consistent */

/* -- counting roots -- */

static int
phase_error(int phase)
{
        return phase == WEIR__PHASE_FORKED ? -ECHILD : -ESHUTDOWN;
}

/* Adds it to what a worker has counted itself. */
static void
count_own(struct weir__worker *worker, int64_t change)
{
        int64_t live = atomic_load_explicit(&worker->live, memory_order_relaxed);

        atomic_store_explicit(&worker->live, live + change, memory_order_relaxed);
        weir__fence_light(); /* the heavy one is in stop() */
}

static int
enter_own(struct weir__worker *worker)
{
        count_own(worker, +1);
        int phase = atomic_load_explicit(&weir__phase, memory_order_acquire);
        if (__builtin_expect(phase == WEIR__PHASE_UP, 1))
                return 0;
        weir__runtime_leave();
        return phase_error(phase);
}

int
weir__runtime_enter(void)
{
        struct weir__worker *worker = weir__worker_self();

        if (worker)
                return enter_own(worker);
        int phase = atomic_load_explicit(&weir__phase, memory_order_acquire);
        int failed = phase == WEIR__PHASE_UP ? 0 : weir__runtime_use();
        if (failed)
                return failed;
        atomic_fetch_add(&foreign_live, 1);
        phase = atomic_load(&weir__phase);
        if (phase == WEIR__PHASE_UP)
                return 0;
        weir__runtime_leave();
        return phase_error(phase);
}

void
weir__runtime_leave(void)
{
        struct weir__worker *worker = weir__worker_self();

        if (worker)
                count_own(worker, -1);
        else
                atomic_fetch_sub(&foreign_live, 1);
        if (worker && worker->poller)
                return; /* the loop notifies when it has nothing left to run */
        if (atomic_load(&weir__phase) == WEIR__PHASE_STOPPING)
                weir__progress_notify();
}

static bool
roots_left(void)
{
        return atomic_load(&foreign_live) + weir__worker_pool_live() + weir__executor_live() != 0;
}

/* -- start -- */

static int
cpu_count(void)
{
        cpu_set_t set;

        if (sched_getaffinity(0, sizeof set, &set) < 0)
                return 1;
        int count = CPU_COUNT(&set);
        return count < 1 ? 1 : count > WEIR__POLLERS_MAX ? WEIR__POLLERS_MAX : count;
}

/* Copies and checks it; the defaults are filled in where they are used. */
static int
read_config(struct weir_config *to, const struct weir_config *from)
{
        *to = (struct weir_config)WEIR_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        if (failed)
                return failed;
        if (to->pollers < 0 || to->pollers > WEIR__POLLERS_MAX || to->spare_workers < 0 || to->compute_threads < 0 ||
            to->blocking_limit < 0 || to->exit_wait < 0 || to->timer_slack < 0 || to->affinity < 0 || to->affinity > 1 ||
            to->reserved || (to->stack_size && to->stack_size < (size_t)PTHREAD_STACK_MIN))
                return -EINVAL;
        return to->clock == WEIR_CLOCK_REAL || to->clock == WEIR_CLOCK_VIRTUAL ? 0 : -EINVAL;
}

static void
exit_run(struct weir__work *work)
{
        ((struct farewell *)work)->poller->exiting = true;
}

static const struct weir__work_ops exit_ops = {.run = exit_run};

/* Tells all workers to go, and waits for those but `self`, whose poller is kept.  Returns whether they have gone. */
static bool
end_workers(struct weir__worker *self, weir_nsec until)
{
        weir__worker_pool_dismiss();
        for (unsigned i = 0; i < weir__pollers_count(); i++) {
                struct weir__poller *poller = weir__pollers.at[i];

                exits[i] = (struct farewell){.work = {.ops = &exit_ops}, .poller = poller};
                if (atomic_load(&poller->owner) && !(self && self->poller == poller))
                        weir__deliver(poller, &exits[i].work);
        }
        bool gone = weir__worker_pool_join(until);
        if (gone && !self)
                atomic_fetch_add(&foreign_live, weir__worker_pool_free());
        return gone;
}

/* No worker runs any more. */
static void
close_pollers(unsigned count)
{
        for (unsigned i = 0; i < count; i++)
                weir__poller_close(weir__pollers.at[i]);
        weir__inflight_close();
        weir__clock_start(false);
        weir__memory_trim();
}

static int
make_pollers(unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                if (!weir__pollers.at[i])
                        weir__pollers.at[i] = weir__poller_new(i);
                int failed = weir__pollers.at[i] ? weir__poller_open(weir__pollers.at[i]) : -errno;
                if (failed) {
                        close_pollers(i);
                        return failed;
                }
        }
        return 0;
}

static void
become_child(void)
{
        int phase = atomic_load(&weir__phase);

        weir__worker_current = NULL;
        if (phase == WEIR__PHASE_DOWN || phase == WEIR__PHASE_ENDED) {
                weir__lock_init(&admin.lock, WEIR__RANK_RUNTIME); /* another thread may have held it, and is not here */
                weir__virtual_forked();
                atomic_store(&foreign_live, 0); /* another thread may have been about to take back what it had counted */
                weir__executor_forked();
                weir__worker_pool_forked();
                weir__watchdog_forked();
        } else {
                atomic_store(&weir__phase, WEIR__PHASE_FORKED);
        }
}

static void
open_watchdog(const struct weir_config *config)
{
        if (config->blocking_limit == WEIR_FOREVER || config->clock == WEIR_CLOCK_VIRTUAL)
                return;
        admin.watchdog_fault = weir__watchdog_open(config->blocking_limit);
}

/* After the workers: if there are no threads for all, they are the ones that matter. */
static void
start_watchdog(void)
{
        int failed = weir__watchdog_start();

        if (failed)
                admin.watchdog_fault = failed;
}

/* Says, without the lock, what a start under it had to do without. */
static void
say_what_is_missing(void)
{
        int fault = atomic_exchange(&admin.watchdog_fault, 0);

        if (fault)
                weir__log(WEIR_LOG_WARNING, "the watchdog could not be started (%s): a callback that blocks holds its worker",
                          weir_strerror(fault));
}

/* With admin.lock held and the phase DOWN or ENDED. */
static int
start(const struct weir_config *config)
{
        bool is_virtual = config->clock == WEIR_CLOCK_VIRTUAL;
        unsigned count = is_virtual ? 1 : config->pollers ? (unsigned)config->pollers : (unsigned)cpu_count();
        int failed = weir__steps_start();

        if (failed)
                return failed;
        weir__thread_configure(config->stack_size, config->affinity);
        weir__clock_start(is_virtual);
        weir__virtual_start();
        weir__follow_on_deliver(weir__deliver);
        atomic_store_explicit(&weir__trace_poller, weir__worker_poller_index, memory_order_relaxed);
        weir__executor_configure((unsigned)config->compute_threads, (unsigned)config->spare_workers);
        failed = make_pollers(count);
        if (failed)
                return failed;
        weir__pollers.count = count;
        weir__phase_generation++;
        weir__progress_begin();
        open_watchdog(config);
        failed = weir__worker_pool_start(count, (unsigned)config->spare_workers, weir__worker_main);
        if (failed) {
                weir__watchdog_stop();
                admin.watchdog_fault = 0;
                end_workers(NULL, WEIR_FOREVER);
                close_pollers(count);
                return failed;
        }
        start_watchdog();
        weir__pollers.timer_slack = weir__clock_slack(config->timer_slack);
        weir__phase_exit_wait = config->exit_wait ? config->exit_wait : WEIR__PHASE_EXIT_WAIT;
        atomic_store(&weir__phase, WEIR__PHASE_UP);
        return 0;
}

int
weir_init(const struct weir_config *config)
{
        struct weir_config known;

        if (weir__phase_is_forked())
                return -ECHILD;
        if (weir__worker_self())
                return -EDEADLK;
        int failed = read_config(&known, config);
        if (failed)
                return failed;
        weir__lock(&admin.lock);
        int phase = atomic_load(&weir__phase);
        failed = phase == WEIR__PHASE_UP ? -EBUSY : phase == WEIR__PHASE_STOPPING ? -ESHUTDOWN : start(&known);
        weir__unlock(&admin.lock);
        say_what_is_missing();
        return failed;
}

int
weir__runtime_use(void)
{
        int phase = atomic_load_explicit(&weir__phase, memory_order_acquire);

        if (phase == WEIR__PHASE_UP)
                return 0;
        if (phase != WEIR__PHASE_DOWN)
                return phase_error(phase);
        weir__lock(&admin.lock);
        phase = atomic_load(&weir__phase);
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        int failed = phase == WEIR__PHASE_DOWN ? start(&config) : phase == WEIR__PHASE_UP ? 0 : -ESHUTDOWN;
        weir__unlock(&admin.lock);
        say_what_is_missing();
        return failed;
}

/* -- shutdown -- */

/* Ends what is pending on a poller, a batch at a time, then tells its sources. */
static void
drain_run(struct weir__work *work)
{
        struct farewell *drain = (struct farewell *)work;
        struct weir__poller *poller = drain->poller;

        if (drain->tells)
                weir__steps_run(WEIR__STEP_SHUTDOWN);
        drain->tells = false;
        if (weir__poller_drain(poller)) {
                weir__work_append(&poller->ready.works, work);
                weir__ready_note(&poller->ready, 1);
                return;
        }
        weir__poller_shutdown_sources(poller);
        weir__progress_note_drained();
}

static const struct weir__work_ops drain_ops = {.run = drain_run};

/* Every start of a root that does not see it is counted by now. */
static void
stop(void)
{
        atomic_store(&weir__phase, WEIR__PHASE_STOPPING);
        weir__fence_heavy();
}

/* One of them tells the rest of the library, so that on the virtual clock all comes in the same order each time. */
static void
drain(struct weir__poller *except)
{
        bool told = false;

        for (unsigned i = 0; i < weir__pollers_count(); i++) {
                struct weir__poller *poller = weir__pollers.at[i];

                if (poller == except)
                        continue;
                drains[i] = (struct farewell){.work = {.ops = &drain_ops}, .poller = poller, .tells = !told};
                told = true;
                weir__deliver(poller, &drains[i].work);
        }
        if (!told)
                weir__steps_run(WEIR__STEP_SHUTDOWN);
}

/* Waits until all pollers but `own` are drained and all roots have ended.  A worker does not wait for roots, because its own one
 * never ends.  False: out of time. */
static bool
wait_for_end(const struct weir__worker *on_worker, const struct weir__poller *own, weir_nsec until)
{
        return weir__progress_wait(weir__pollers.count - (own != NULL), on_worker ? NULL : roots_left, until);
}

/* Its threads before the workers, for what they do last may be to deliver something. */
static bool
stop_executor(weir_nsec until)
{
        int64_t live;

        if (!weir__executor_stop(until, &live))
                return false;
        atomic_fetch_add(&foreign_live, live);
        return true;
}

int
weir_shutdown(void)
{
        int failed = weir__runtime_may_stop();

        if (failed)
                return failed;
        weir__lock(&admin.lock);
        if (atomic_load(&weir__phase) == WEIR__PHASE_UP) {
                stop();
                drain(NULL);
                weir__executor_drain();
                wait_for_end(NULL, NULL, WEIR_FOREVER);
                weir__watchdog_stop();
                stop_executor(WEIR_FOREVER);
                end_workers(NULL, WEIR_FOREVER);
                close_pollers(weir__pollers.count);
                atomic_store(&weir__phase, WEIR__PHASE_ENDED);
        }
        weir__unlock(&admin.lock);
        return 0;
}

/* On a worker that ends the process, inside a callback: its poller, which is not taken away any more.  NULL: it has none. */
static struct weir__poller *
keep_poller(void)
{
        struct weir__worker *worker = weir__worker_self();

        if (!worker || !worker->poller)
                return NULL;
        weir__user_leave(worker, atomic_load_explicit(&worker->turn, memory_order_relaxed) & ~WEIR__TURN_USER);
        return worker->poller;
}

/* At exit(): as weir_shutdown, but for at most exit_wait.  On a worker that called exit() the others are joined, not
 * itself.  What may still be running afterwards keeps its memory. */
static void
shutdown_at_exit(void)
{
        struct weir__worker *self = weir__worker_self();
        weir_nsec until = weir__clock_after(weir__clock_monotonic(), weir__phase_exit_wait);

        if (weir__phase_is_forked() || !weir__lock_until(&admin.lock, until))
                return;
        if (atomic_load(&weir__phase) == WEIR__PHASE_UP) {
                stop();
                struct weir__poller *own = keep_poller();
                drain(own);
                weir__executor_drain();
                bool ended = wait_for_end(self, own, until);
                if (self || ended)
                        weir__watchdog_stop();
                if (self) {
                        stop_executor(until);
                        end_workers(self, until);
                } else if (ended && stop_executor(until)) {
                        end_workers(NULL, WEIR_FOREVER);
                        close_pollers(weir__pollers.count);
                        atomic_store(&weir__phase, WEIR__PHASE_ENDED);
                }
        }
        weir__unlock(&admin.lock);
}

WEIR__STEPS_OF(WEIR__MODULE_RUNTIME, [WEIR__STEP_IN_CHILD] = become_child, [WEIR__STEP_EXIT] = shutdown_at_exit);
