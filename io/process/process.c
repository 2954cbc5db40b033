/* io/process/process.c: the task that runs a program.
 *
 *     NEW --start--> UNDER_WAY --ended, and no cancel is on its way--> READY --> RUNNING, the callback
 *
 *     UNDER_WAY:  queued --a thread of the executor starts it--> runs --pidfd--> reaped, output read
 *                    \--cancelled, refused, not started---------------------------^
 *
 * Threads: start and cancel run on any thread.  A thread of the executor starts the program, because that may wait for a disk.
 *          All else belongs to the owner of the task's poller.
 * Locks:   none; running.c has one, under which signals are sent.
 *
 * Two work items go to the poller.  `news` comes from the executor: the program runs, or why not.  The task's own work is the
 * cancel, and at last the callback.  A cancel while the task is UNDER_WAY marks the word, and is delivered once.  So the task
 * does not become READY before the owner knows of the cancel.
 *
 * The end of a program is an event of its pidfd.  Where the system has none (below Linux 5.3) a timerfd wakes the poller to look:
 * first after a millisecond, then after a sixteenth of the program's age.  The same timerfd ends the grace period.  It runs in
 * real time, also on the virtual clock and during a shutdown. */
#include "io/process/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "factory/task/series.h"
#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/data/duration.h"
#include "kernel/executor/executor.h"
#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "kernel/worker/deliver.h"

#define UNDER_WAY 5 /* a state of the task's word, besides those of factory/task/task.h */

#define LOOK_FIRST WEIR_MSEC(1)   /* without a pidfd: how soon it is looked whether the program has ended */
#define LOOK_LAST  WEIR_MSEC(100) /* and how late */
#define LOOK_PART  16             /* of its age */

static struct weir__process *
process_of(struct weir_task *task)
{
        return (struct weir__process *)task;
}

static struct weir__poller *
poller_of(const struct weir__process *self)
{
        return weir__poller_at(self->task.poller);
}

/* -- the end; the owner of the poller -- */

/* A cancel that marks the word first is waited for. */
static void
become_ready(struct weir__process *self)
{
        uint32_t word = UNDER_WAY;

        if (!atomic_compare_exchange_strong_explicit(&self->task.word, &word, WEIR__READY, memory_order_acq_rel,
                                                     memory_order_acquire)) {
                if (!self->is_cancel_known)
                        return;
                atomic_store_explicit(&self->task.word, WEIR__READY, memory_order_release);
        }
        weir__deliver(poller_of(self), &self->task.work);
}

static void
close_wake(struct weir__process *self)
{
        if (self->wake.fd < 0)
                return;
        weir__source_withdraw(poller_of(self), &self->wake);
        close(self->wake.fd);
        self->wake.fd = -1;
}

static void
end(struct weir__process *self, int status)
{
        self->task.status = status;
        self->has_ended = true;
        close_wake(self);
        if (self->is_watched)
                weir__source_withdraw(poller_of(self), &self->exit);
        self->is_watched = false;
        weir__running_close(&self->running);
        if (self->has_hold)
                weir_clock_release();
        self->has_hold = false;
        become_ready(self);
}

static int
status_of(const struct weir__process *self)
{
        const struct weir__ending *ending = &self->ending;

        if (self->reason)
                return self->reason;
        if (ending->was_stopped && !self->is_stopping)
                return -ESHUTDOWN; /* which has told all programs to end */
        if (ending->code < 0)
                return ending->signal < 0 ? WEIR_EPROCESS_LOST : WEIR_EPROCESS_SIGNAL;
        return ending->code == 0 ? 0 : WEIR_EPROCESS_EXIT;
}

/* The program has ended, and nothing of it is left but what it has written. */
static void
conclude(struct weir__process *self)
{
        for (int which = 1; which < WEIR__STANDARD_FDS; which++) {
                int failed = weir__collector_finish(&self->collected[which], poller_of(self));

                if (!self->reason)
                        self->reason = failed;
        }
        end(self, status_of(self));
}

/* Returns whether it has ended; then the task may be gone. */
static bool
look(struct weir__process *self)
{
        if (!weir__running_reap(&self->running, &self->ending))
                return false;
        conclude(self);
        return true;
}

/* -- stopping it; the owner -- */

/* Sets the timer.  Without one, and nothing to look for, it stays unset. */
static void
arm(struct weir__process *self)
{
        weir_nsec now = weir__clock_monotonic(), at = self->kill_at;

        if (!self->is_watched) {
                weir_nsec age = now - atomic_load_explicit(&self->began, memory_order_relaxed), in = age / LOOK_PART;

                in = in < LOOK_FIRST ? LOOK_FIRST : in > LOOK_LAST ? LOOK_LAST : in;
                if (at > now + in)
                        at = now + in;
        }
        if (at != WEIR_FOREVER)
                weir__clock_set_timer(self->wake.fd, at);
}

static int
open_wake(struct weir__process *self)
{
        if (self->wake.fd >= 0)
                return 0;
        self->wake.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (self->wake.fd < 0)
                return -errno;
        int failed = weir__source_add(poller_of(self), &self->wake, EPOLLIN);
        if (failed) {
                close(self->wake.fd);
                self->wake.fd = -1;
        }
        return failed;
}

/* If no timer can end the grace period, it is over at once. */
static void
stop(struct weir__process *self)
{
        if (self->is_stopping)
                return;
        self->is_stopping = true;
        weir__running_stop(&self->running);
        if (self->settings.grace == 0 || self->settings.grace == WEIR_FOREVER)
                return;
        self->kill_at = weir__clock_after(weir__clock_monotonic(), self->settings.grace);
        if (open_wake(self) == 0)
                arm(self);
        else
                weir__running_destroy(&self->running);
}

/* The first reason counts. */
static void
give_up(struct weir__process *self, int reason)
{
        if (!self->reason && !self->is_cancel_known)
                self->reason = reason;
        stop(self);
}

/* -- sources; the owner -- */

static void
exited(struct weir__source *source, uint32_t events)
{
        (void)events;
        look(weir__container_of(source, struct weir__process, exit));
}

static void
woken(struct weir__source *source, uint32_t events)
{
        struct weir__process *self = weir__container_of(source, struct weir__process, wake);

        (void)events;
        if (look(self))
                return;
        if (weir__clock_monotonic() >= self->kill_at) {
                self->kill_at = WEIR_FOREVER;
                weir__running_destroy(&self->running);
        }
        arm(self);
}

static void
read_output(struct weir__process *self, int which)
{
        int failed = weir__collector_read(&self->collected[which], poller_of(self));

        if (failed)
                give_up(self, failed);
}

static void
output_came(struct weir__source *source, uint32_t events)
{
        (void)events;
        read_output(weir__container_of(source, struct weir__process, collected[1].source), 1);
}

static void
errors_came(struct weir__source *source, uint32_t events)
{
        (void)events;
        read_output(weir__container_of(source, struct weir__process, collected[2].source), 2);
}

/* One that has ended by itself keeps its status. */
static void
shut_down(struct weir__process *self)
{
        if (self->is_stopping || !look(self))
                give_up(self, -ESHUTDOWN);
}

static void
shut_down_exit(struct weir__source *source)
{
        shut_down(weir__container_of(source, struct weir__process, exit));
}

static void
shut_down_wake(struct weir__source *source)
{
        shut_down(weir__container_of(source, struct weir__process, wake));
}

/* The program is told to end by the other source. */
static void
go_on(struct weir__source *source)
{
        (void)source;
}

static const struct weir__source_ops exit_ops = {.ready = exited, .shutdown = shut_down_exit, .destroy = go_on};
static const struct weir__source_ops wake_ops = {.ready = woken, .shutdown = shut_down_wake, .destroy = go_on};
static const struct weir__source_ops output_ops = {.ready = output_came, .shutdown = go_on, .destroy = go_on};
static const struct weir__source_ops errors_ops = {.ready = errors_came, .shutdown = go_on, .destroy = go_on};

/* -- it runs; the owner -- */

/* Result: 0; or -ENOMEM, -ENOSPC, -EMFILE: its end would not be noticed. */
static int
watch(struct weir__process *self)
{
        int failed = -EPERM;

        if (self->spawned.pidfd >= 0) {
                self->exit.fd = self->spawned.pidfd;
                failed = weir__source_add(poller_of(self), &self->exit, EPOLLIN);
        }
        self->is_watched = !failed;
        if (failed != -EPERM) /* what Linux 5.2 says of a pidfd */
                return failed;
        failed = open_wake(self);
        if (!failed)
                arm(self);
        return failed;
}

static void
collect(struct weir__process *self)
{
        for (int which = 1; which < WEIR__STANDARD_FDS; which++) {
                if (self->spawned.ends[which] < 0)
                        continue;
                int failed = weir__collector_begin(&self->collected[which], poller_of(self), self->spawned.ends[which],
                                                   self->settings.standard[which].limit);
                if (failed)
                        give_up(self, failed);
        }
}

/* It is ended at once, and a thread of the executor waits for that. */
static void
give_up_unwatched(struct weir__process *self, int reason)
{
        self->reason = reason;
        self->is_stopping = true;
        weir__running_destroy(&self->running);
        for (int which = 1; which < WEIR__STANDARD_FDS; which++)
                if (self->spawned.ends[which] >= 0)
                        close(self->spawned.ends[which]);
        weir__executor_submit(&self->awaiting);
}

static void
begin(struct weir__process *self)
{
        int failed = watch(self);

        if (failed) {
                give_up_unwatched(self, failed);
                return;
        }
        collect(self);
        if (self->is_cancel_known)
                stop(self);
        else if (weir__phase_is_stopping())
                shut_down(self);
}

static void
take_news(struct weir__work *news)
{
        struct weir__process *self = weir__container_of(news, struct weir__process, news);

        if (self->is_begun) { /* it was waited for */
                look(self);
                return;
        }
        self->is_begun = true;
        if (self->failed)
                end(self, self->failed);
        else
                begin(self);
}

static const struct weir__work_ops news_ops = {.run = take_news};

static void
take_cancel(struct weir__process *self)
{
        int cause = weir__series_effective_cause(self->task.series);

        self->is_cancel_known = true;
        if (cause == -ESHUTDOWN && !self->reason)
                self->reason = cause;
        if (self->was_taken_back)
                end(self, cause);
        else if (self->has_ended)
                become_ready(self);
        else if (self->is_begun)
                stop(self);
}

static void
run(struct weir__work *work)
{
        struct weir__process *self = (struct weir__process *)work;
        uint32_t word = atomic_load_explicit(&self->task.word, memory_order_acquire);

        if ((word & WEIR__STATE) == UNDER_WAY)
                take_cancel(self);
        else
                weir__task_complete(work);
}

/* -- in the executor -- */

static struct weir__process *
process_of_job(struct weir__job *job)
{
        return weir__container_of(job, struct weir__process, job);
}

static void
send_news(struct weir__process *self)
{
        weir__deliver(poller_of(self), &self->news);
}

/* Why it must not begin. */
static int
obstacle(const struct weir__process *self)
{
        int verdict = weir__series_verdict(self->task.series);

        return verdict ? verdict : weir__phase_is_stopping() ? -ESHUTDOWN : 0;
}

static int
spawn(struct weir__process *self)
{
        int failed = weir__running_announce();

        if (failed)
                return failed;
        failed = weir__spawn(&self->settings, &self->spawned);
        weir__settings_close(&self->settings); /* now it has what it reads */
        if (failed) {
                weir__running_renounce();
                return failed;
        }
        atomic_store_explicit(&self->began, weir__clock_monotonic(), memory_order_relaxed);
        weir__running_begin(&self->running, self->spawned.pid, self->spawned.pidfd);
        return 0;
}

/* Time stands on the virtual clock from here until the program has ended; before, because the executor is busy. */
static void
launch(struct weir__job *job)
{
        static const struct weir__callee callee = {"the start of", "a process", "a process's start"};
        struct weir__process *self = process_of_job(job);
        struct weir__trace_slice slice = {0};

        if (weir__trace_is_on())
                weir__series_trace(self->task.series, &slice);
        self->failed = obstacle(self);
        if (!self->failed) {
                self->has_hold = weir_clock_hold() == 0;
                weir__executor_begin(NULL);
                struct weir__user_call call = weir__user_begin_as(&callee, &self->task.work, NULL);
                self->failed = spawn(self);
                weir__user_end_as(call);
                weir__executor_end();
        }
        if (__builtin_expect(slice.session != 0, 0)) {
                struct weir__trace_facts facts = {.kind = callee.slice, .has_status = true, .status = self->failed};

                weir__trace_end(&slice, &facts, weir__series_trace_flow(self->task.series));
        }
        send_news(self);
}

static void
refuse(struct weir__job *job)
{
        struct weir__process *self = process_of_job(job);

        self->failed = -ESHUTDOWN;
        send_news(self);
}

static const struct weir__job_ops job_ops = {launch, refuse};

/* It was killed, so this is soon over, also in a shutdown. */
static void
await(struct weir__job *job)
{
        struct weir__process *self = weir__container_of(job, struct weir__process, awaiting);

        weir__running_await(&self->running);
        send_news(self);
}

static const struct weir__job_ops awaiting_ops = {await, await};

/* -- the operations -- */

static int
prepare(struct weir_task *task)
{
        (void)task;
        return weir__executor_use();
}

static void
start(struct weir_task *task)
{
        struct weir__process *self = process_of(task);
        uint32_t before = atomic_fetch_add_explicit(&task->word, UNDER_WAY, memory_order_acq_rel); /* NEW is 0 */

        if (before & WEIR__CANCELLED) {
                self->is_cancel_known = true;
                self->failed = weir__series_effective_cause(task->series);
        } else {
                self->failed = weir__executor_use();
        }
        if (self->failed)
                send_news(self);
        else
                weir__executor_submit(&self->job);
}

/* Called by the series, under its lock.  A job that is not taken back is about to run, runs or has run. */
static struct weir_task *
end_early(struct weir_task *task)
{
        struct weir__process *self = process_of(task);
        uint32_t before = atomic_fetch_or_explicit(&task->word, WEIR__CANCELLED, memory_order_acq_rel);

        if (before != UNDER_WAY)
                return NULL;
        self->was_taken_back = weir__executor_remove(&self->job);
        return task;
}

static void
release(struct weir_task *task, bool is_discarded)
{
        struct weir__process *self = process_of(task);

        (void)is_discarded;
        weir__settings_free(&self->settings);
        for (int which = 1; which < WEIR__STANDARD_FDS; which++)
                weir__collector_free(&self->collected[which]);
}

static weir__function *
function_of(const struct weir__work *work)
{
        const struct weir_task *task = (const struct weir_task *)work;
        uint32_t state = atomic_load_explicit(&task->word, memory_order_relaxed) & WEIR__STATE;

        return state == UNDER_WAY ? (weir__function *)take_cancel : weir__task_function(work);
}

/* The program without its directories. */
static const char *
name_of(const struct weir_task *task, int *size)
{
        char *const *argv = ((const struct weir__process *)task)->settings.argv;

        if (!argv)
                return NULL;
        const char *slash = strrchr(argv[0], '/'), *name = slash && slash[1] ? slash + 1 : argv[0];
        *size = (int)strnlen(name, INT16_MAX);
        return name;
}

static void
describe(const struct weir_task *task, char *out, size_t room)
{
        struct weir__process *self = process_of((struct weir_task *)task);
        weir_nsec began = atomic_load_explicit(&self->began, memory_order_relaxed);
        pid_t pid = weir__running_pid(&self->running);
        char age[WEIR__DURATION_SIZE];
        size_t length = weir__settings_write_line(&self->settings, out, room / 2);

        if (pid < 0)
                snprintf(out + length, room - length, ", to be started by a thread");
        else
                snprintf(out + length, room - length, ", pid %d, for %s", (int)pid,
                         weir__duration(age, weir__clock_monotonic() - began));
}

const struct weir__task_ops weir__process_ops = {
        .work = {.run = run, .kind = "a process", .function = function_of, .name = weir__task_name},
        .prepare = prepare,
        .start = start,
        .end_early = end_early,
        .release = release,
        .name = name_of,
        .describe = describe,
};

struct weir__process *
weir__process_make(weir_task_fn *done, void *context)
{
        struct weir__process *self = weir__alloc(sizeof *self);

        if (!self)
                return NULL;
        *self = (struct weir__process){
                .job.ops = &job_ops,
                .awaiting.ops = &awaiting_ops,
                .news.ops = &news_ops,
                .running = {.pidfd = -1, .has_group = true},
                .kill_at = WEIR_FOREVER,
                .ending = {.code = -1, .signal = -1},
                .exit = {.ops = &exit_ops, .fd = -1},
                .wake = {.ops = &wake_ops, .fd = -1},
        };
        weir__settings_init(&self->settings);
        weir__collector_init(&self->collected[1], &output_ops);
        weir__collector_init(&self->collected[2], &errors_ops);
        weir__task_init(&self->task, &weir__process_ops, sizeof *self, done, context);
        return self;
}
