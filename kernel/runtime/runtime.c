/* kernel/runtime/runtime.c: start and end of everything.
 *
 * kernel/base/phase.h has the phases.
 *
 * Threads: weir_init and weir_shutdown run on threads that are no workers; the shutdown at exit() runs on any thread.
 * Locks:   admin_lock (rank RUNTIME): one start or shutdown at a time.  It is held while a shutdown waits.  Nothing that runs on
 *          a worker waits for it, unless it calls exit().
 *
 * A shutdown waits for the roots: lone tasks, series of their own and exchanges that were started and have not ended.  A start
 * counts its root and then reads the phase.  A shutdown sets the phase and then reads the counts.  So the start is refused, or
 * its root is counted when the first count is read.
 *
 * Each worker and each thread of the executor changes a count of its own by plain stores and a light fence; a shutdown runs the
 * heavy fence.  All other threads share one atomic count.  A root may start on one thread and end on another, so a single count
 * may be negative.  A start that is refused inside a callback takes its count back and notifies nobody.  The callback belongs to
 * a root, and the end of that root notifies. */
#include "kernel/runtime/runtime.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "kernel/base/thread.h"
#include "kernel/memory/memory.h"
#include "kernel/worker/blocking.h"
#include "kernel/base/clock.h"
#include "kernel/runtime/config.h"
#include "kernel/runtime/random.h"
#include "kernel/worker/worker_pool.h"
#include "kernel/sched/progress.h"
#include "kernel/executor/executor.h"
#include "kernel/observe/log.h"
#include "kernel/base/panic.h"
#include "kernel/runtime/inflight.h"
#include "kernel/runtime/virtual.h"
#include "kernel/worker/deliver.h"
#include "kernel/sched/watchdog.h"
#include "kernel/sched/worker_loop.h"
#include "kernel/stack/stack.h"
#include "kernel/worker/user.h"

_Atomic int weir__runtime_files;

static struct weir__lock admin_lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_RUNTIME);

/* The work items of a shutdown: one for each poller. */
static struct shutdown_work {
        struct weir__work work; /* first */
        struct weir__poller *poller;
        bool should_run_steps; /* WEIR__STEP_SHUTDOWN */
} drains[WEIR__POLLERS_MAX], exits[WEIR__POLLERS_MAX];

static _Atomic int64_t foreign_roots; /* roots entered minus left by threads that are no workers; sequentially consistent */

/* -- counting roots -- */

static int
phase_error(int phase)
{
        return phase == WEIR__PHASE_FORKED ? -ECHILD : -ESHUTDOWN;
}

/* A worker adds to its own count.  The heavy fence is in set_stopping(). */
static void
count_root(struct weir__worker *worker, int change)
{
        if (worker) {
                int64_t roots = atomic_load_explicit(&worker->roots, memory_order_relaxed);

                atomic_store_explicit(&worker->roots, roots + change, memory_order_relaxed);
                weir__fence_light();
        } else {
                atomic_fetch_add(&foreign_roots, change);
        }
}

int
weir__runtime_enter(void)
{
        struct weir__worker *worker = weir__worker_self();
        int failed = worker ? 0 : weir__runtime_use();

        if (failed)
                return failed;
        count_root(worker, +1);
        int phase = atomic_load(&weir__phase);
        if (__builtin_expect(phase == WEIR__PHASE_UP, 1))
                return 0;
        weir__runtime_leave();
        return phase_error(phase);
}

void
weir__runtime_leave(void)
{
        struct weir__worker *worker = weir__worker_self();

        count_root(worker, -1);
        if (worker && worker->poller)
                return; /* the loop notifies when it has nothing left to run */
        if (atomic_load(&weir__phase) == WEIR__PHASE_STOPPING)
                weir__progress_notify();
}

static bool
are_roots_left(void)
{
        return atomic_load(&foreign_roots) + weir__worker_pool_roots() + weir__executor_roots() != 0;
}

/* -- start -- */

/* The first field with a value that is not allowed, and what is; NULL: there is none. */
static const char *
wrong_field(const struct weir_config *config)
{
        const struct {
                bool is_wrong;
                const char *expected;
        } fields[] = {
                {config->pollers < 0 || config->pollers > WEIR__POLLERS_MAX, "pollers: expected 0 to 64"},
                {config->spare_workers < 0, "spare_workers: expected 0 or more"},
                {config->compute_threads < 0, "compute_threads: expected 0 or more"},
                {config->affinity < 0 || config->affinity > 1, "affinity: expected 0 or 1"},
                {config->blocking_limit < 0, "blocking_limit: expected 0 or more, or WEIR_FOREVER"},
                {config->exit_wait < 0, "exit_wait: expected 0 or more, or WEIR_FOREVER"},
                {config->clock != WEIR_CLOCK_REAL && config->clock != WEIR_CLOCK_VIRTUAL,
                 "clock: expected WEIR_CLOCK_REAL or WEIR_CLOCK_VIRTUAL"},
                {config->files != WEIR_FILES_AUTO && config->files != WEIR_FILES_QUEUE,
                 "files: expected WEIR_FILES_AUTO or WEIR_FILES_QUEUE"},
                {config->timer_slack < 0, "timer_slack: expected 0 or more"},
                {config->stack_size && config->stack_size < (size_t)PTHREAD_STACK_MIN,
                 "stack_size: expected 0, or at least PTHREAD_STACK_MIN"},
                {config->fiber_stack_size &&
                         (config->fiber_stack_size < WEIR__STACK_SIZE_MIN || config->fiber_stack_size > WEIR__STACK_SIZE_MAX),
                 "fiber_stack_size: expected 0, or 16 KiB to 16 MiB"},
        };

        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
                if (fields[i].is_wrong)
                        return fields[i].expected;
        return NULL;
}

/* Copies and checks a configuration.  The defaults are filled in where they are used. */
static int
read_config(struct weir_config *to, const struct weir_config *from)
{
        *to = (struct weir_config)WEIR_CONFIG_DEFAULT;
        int failed = from ? weir__config_read(to, sizeof *to, from) : 0;
        const char *expected = failed ? WEIR__CONFIG_EXPECTED("weir_config", "WEIR_CONFIG_DEFAULT") : wrong_field(to);
        return expected ? weir__log_refusal("weir_init: %s", expected) : 0;
}

static void
exit_run(struct weir__work *work)
{
        ((struct shutdown_work *)work)->poller->is_exiting = true;
}

static const struct weir__work_ops exit_ops = {.run = exit_run};

/* Lets all workers end, and waits for all but `self`, whose poller is kept. */
static void
end_workers(struct weir__worker *self, weir_nsec until)
{
        for (unsigned i = 0; i < weir__pollers_count(); i++) {
                struct weir__poller *poller = weir__pollers.at[i];

                exits[i] = (struct shutdown_work){.work = {.ops = &exit_ops}, .poller = poller};
                if (atomic_load(&poller->owner) && !(self && self->poller == poller))
                        weir__deliver(poller, &exits[i].work);
        }
        weir__worker_pool_end(until);
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
                weir__lock_init(&admin_lock, WEIR__RANK_RUNTIME); /* another thread may have held it, and is not here */
                weir__virtual_forked();
                atomic_store(&foreign_roots, 0); /* another thread may have been about to take back what it had counted */
                weir__executor_forked();
                weir__worker_pool_forked();
                weir__watchdog_forked();
        } else {
                atomic_store(&weir__phase, WEIR__PHASE_FORKED);
        }
}

/* With admin_lock held, in the phase DOWN or ENDED.  `watchdog_fault` says why there is no watchdog, if there should be one. */
static int
start(const struct weir_config *config, int *watchdog_fault)
{
        bool is_virtual = config->clock == WEIR_CLOCK_VIRTUAL;
        unsigned count = is_virtual ? 1 : config->pollers ? (unsigned)config->pollers : weir__thread_cpu_count(WEIR__POLLERS_MAX);
        int failed = weir__steps_start();

        if (failed)
                return failed;
        weir__thread_configure(config->stack_size, config->affinity);
        weir__stack_configure(config->fiber_stack_size);
        weir__clock_start(is_virtual);
        weir__virtual_start();
        weir__random_start();
        weir__clock_timers_on_deliver(weir__deliver);
        atomic_store_explicit(&weir__trace_poller, weir__worker_poller_index, memory_order_relaxed);
        atomic_store_explicit(&weir__runtime_files, (int)config->files, memory_order_relaxed);
        weir__executor_configure((unsigned)config->compute_threads, (unsigned)config->spare_workers);
        failed = make_pollers(count);
        if (failed)
                return failed;
        weir__pollers.count = count;
        weir__phase_generation++;
        weir__progress_begin();
        if (config->blocking_limit != WEIR_FOREVER && !is_virtual)
                *watchdog_fault = weir__watchdog_open(config->blocking_limit);
        failed = weir__worker_pool_start(count, (unsigned)config->spare_workers, weir__worker_loop);
        if (failed) {
                weir__watchdog_stop();
                *watchdog_fault = 0;
                end_workers(NULL, WEIR_FOREVER);
                close_pollers(count);
                return failed;
        }
        int fault = weir__watchdog_start(); /* after the workers, which matter more if there are no threads for all */
        if (fault)
                *watchdog_fault = fault;
        weir__pollers.timer_slack = weir__clock_slack(config->timer_slack);
        weir__phase_exit_wait = config->exit_wait ? config->exit_wait : WEIR__PHASE_EXIT_WAIT;
        atomic_store(&weir__phase, WEIR__PHASE_UP);
        return 0;
}

/* `again`: also when a runtime has ended, but not when one is up. */
static int
bring_up(const struct weir_config *config, bool again)
{
        int fault = 0, failed;

        weir__lock(&admin_lock);
        int phase = atomic_load(&weir__phase);
        if (phase == WEIR__PHASE_DOWN || (again && phase == WEIR__PHASE_ENDED))
                failed = start(config, &fault);
        else
                failed = phase != WEIR__PHASE_UP ? -ESHUTDOWN : again ? -EBUSY : 0;
        weir__unlock(&admin_lock);
        if (fault)
                weir__log(WEIR_LOG_WARNING, "the watchdog could not be started (%s): a callback that blocks holds its worker",
                          weir_strerror(fault));
        return failed;
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
        return failed ? failed : bring_up(&known, true);
}

int
weir__runtime_use(void)
{
        struct weir_config config = WEIR_CONFIG_DEFAULT;
        int phase = atomic_load_explicit(&weir__phase, memory_order_acquire);

        if (phase == WEIR__PHASE_UP)
                return 0;
        return phase == WEIR__PHASE_DOWN ? bring_up(&config, false) : phase_error(phase);
}

/* -- shutdown -- */

/* Ends what is pending on a poller, a batch at a time, and then shuts its sources down. */
static void
drain_run(struct weir__work *work)
{
        struct shutdown_work *drain = (struct shutdown_work *)work;
        struct weir__poller *poller = drain->poller;

        if (drain->should_run_steps)
                weir__steps_run(WEIR__STEP_SHUTDOWN);
        drain->should_run_steps = false;
        if (weir__poller_drain(poller)) {
                weir__work_append(&poller->ready.items, work);
                weir__ready_note(&poller->ready, 1);
                return;
        }
        weir__sources_shutdown(poller);
        weir__progress_note_drained();
}

static const struct weir__work_ops drain_ops = {.run = drain_run};

/* Every start of a root that does not see it is counted by now. */
static void
set_stopping(void)
{
        atomic_store(&weir__phase, WEIR__PHASE_STOPPING);
        weir__fence_heavy();
}

/* One of them runs the steps of the modules.  So on the virtual clock all callbacks come in the same order each time. */
static void
drain(struct weir__poller *except)
{
        bool is_first = true;

        for (unsigned i = 0; i < weir__pollers_count(); i++) {
                struct weir__poller *poller = weir__pollers.at[i];

                if (poller == except)
                        continue;
                drains[i] = (struct shutdown_work){.work = {.ops = &drain_ops}, .poller = poller, .should_run_steps = is_first};
                is_first = false;
                weir__deliver(poller, &drains[i].work);
        }
        if (is_first)
                weir__steps_run(WEIR__STEP_SHUTDOWN);
}

/* For a worker that calls exit() inside a callback.  Returns its poller, which nobody takes away from now on.  NULL: it has
 * none. */
static struct weir__poller *
keep_poller(struct weir__worker *worker)
{
        if (!worker || !worker->poller)
                return NULL;
        weir__user_leave(worker, atomic_load_explicit(&worker->callback_seq, memory_order_relaxed) & ~WEIR__SEQ_IN_USER);
        return worker->poller;
}

/* With admin_lock held, in the phase UP.  `self`: the worker that calls exit(), or NULL.  A worker joins the others and not
 * itself.  It does not wait for roots, because its own root never ends. */
static void
shut_down(struct weir__worker *self, weir_nsec until)
{
        set_stopping();
        struct weir__poller *own = keep_poller(self);
        drain(own);
        weir__executor_drain();
        bool is_over = weir__progress_wait(weir__pollers.count - (own != NULL), self ? NULL : are_roots_left, until);
        if (self || is_over)
                weir__watchdog_stop();
        if (self) {
                weir__executor_stop(until); /* before the workers: the last act of its threads may be to deliver something */
                end_workers(self, until);
        } else if (is_over && weir__executor_stop(until)) {
                end_workers(NULL, WEIR_FOREVER);
                weir__executor_drain(); /* no root waits for these: pollers have submitted them at the end */
                close_pollers(weir__pollers.count);
                atomic_store(&weir__phase, WEIR__PHASE_ENDED);
        }
}

int
weir_shutdown(void)
{
        int failed = weir__runtime_may_stop();

        if (failed)
                return failed;
        weir__lock(&admin_lock);
        bool was_up = atomic_load(&weir__phase) == WEIR__PHASE_UP;
        if (was_up)
                shut_down(NULL, WEIR_FOREVER);
        weir__unlock(&admin_lock);
        if (was_up)
                weir__steps_run(WEIR__STEP_ENDED);
        return 0;
}

/* Flows that still run after exit_wait keep their memory.  Another thread may hold the lock, because it starts or ends the
 * runtime. */
static void
shutdown_at_exit(void)
{
        weir_nsec until = weir__clock_after(weir__clock_monotonic(), weir__phase_exit_wait);

        if (weir__phase_is_forked() || !weir__lock_until(&admin_lock, until))
                return;
        bool was_up = atomic_load(&weir__phase) == WEIR__PHASE_UP;
        if (was_up)
                shut_down(weir__worker_self(), until);
        weir__unlock(&admin_lock);
        if (was_up)
                weir__steps_run(WEIR__STEP_ENDED);
}

WEIR__STEPS_OF(WEIR__MODULE_RUNTIME, [WEIR__STEP_IN_CHILD] = become_child, [WEIR__STEP_EXIT] = shutdown_at_exit);
