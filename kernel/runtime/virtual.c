/* kernel/runtime/virtual.c: how the virtual clock advances.
 *
 *     stands --a thread waits in a `_run`, all is quiet--> the next deadline --> stands, while its callbacks run
 *     stands --a step, all is quiet--> the next deadline up to the instant ... --> the instant; the step returns
 *
 * Threads: the worker of the only poller advances the clock, when sleep_or_advance() has found that all is quiet.  Threads of the
 *          program wait, step and hold.  `runners` keeps waits and steps apart: any number of threads wait in a `_run`, or one
 *          steps.
 * Locks:   virtual.lock, a leaf.  The clock advances under it, so time stands once a hold has returned.  A thread that changes
 *          what the worker looks at wakes the worker afterwards.  The worker takes the lock when it has set SLEEPING.  So the
 *          worker sees the change, or the thread sees SLEEPING. */
#include "kernel/runtime/virtual.h"

#include <errno.h>
#include <stddef.h>

#include "kernel/base/clock.h"
#include "kernel/base/latch.h"
#include "kernel/base/lock.h"
#include "kernel/base/panic.h"
#include "kernel/executor/executor.h"
#include "kernel/runtime/inflight.h"
#include "kernel/runtime/runtime.h"
#include "kernel/sched/poll.h"
#include "kernel/worker/worker.h"

/* A step, on the stack of the thread that makes it. */
struct step {
        weir_nsec until;
        int status;
        struct weir__latch over;
};

static struct {
        struct weir__lock lock;

        /* Guarded by lock. */
        struct step *step;
        unsigned holds;
        unsigned callback_holds; /* of these, made in callbacks: any thread may release them */
        bool was_held;           /* since the worker began to look whether all is quiet */

        _Atomic unsigned generation; /* counts the starts; holds are of one of them */
        _Atomic int runners;         /* threads in a `_run`, or STEPPING */
} virtual = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

#define STEPPING (-1)

/* The holds that a thread has to release itself. */
static _Thread_local struct {
        unsigned generation, count;
} own;

static bool sleep_or_advance(struct weir__poller *poller, weir_nsec next);

void
weir__virtual_start(void)
{
        weir__lock(&virtual.lock);
        virtual.holds = virtual.callback_holds = 0;
        weir__unlock(&virtual.lock);
        atomic_fetch_add(&virtual.generation, 1);
        weir__poll_on_virtual(sleep_or_advance);
}

void
weir__virtual_forked(void)
{
        weir__lock_init(&virtual.lock, WEIR__RANK_LEAF);
        virtual.step = NULL;
        atomic_store(&virtual.runners, 0);
}

static void
wake_worker(void)
{
        weir__poller_wake(weir__pollers.at[0]);
}

/* -- advancing -- */

/* With the lock held.  The thread may go on at once, so the step is touched no more. */
static void
end_step(int status)
{
        struct step *step = virtual.step;

        virtual.step = NULL;
        step->status = status;
        weir__latch_open(&step->over);
}

enum weir__virtual_mode
weir__virtual_mode(void)
{
        enum weir__virtual_mode mode = WEIR__VIRTUAL_STANDS;

        weir__lock(&virtual.lock);
        virtual.was_held = false;
        if (virtual.step && weir__phase_is_stopping())
                end_step(-ESHUTDOWN);
        else if (virtual.holds == 0 && virtual.step)
                mode = WEIR__VIRTUAL_STEPS;
        else if (virtual.holds == 0 && weir__runtime_has_waiters())
                mode = WEIR__VIRTUAL_WAITED_FOR;
        weir__unlock(&virtual.lock);
        return mode;
}

static void
advance_to(weir_nsec instant)
{
        atomic_store_explicit(&weir__clock.virtual_instant, instant, memory_order_release);
}

void
weir__virtual_advance(weir_nsec next)
{
        weir__lock(&virtual.lock);
        if (virtual.holds > 0 || virtual.was_held) {
                /* what was sent while it was held may have come after the look */
        } else if (virtual.step && next > virtual.step->until) {
                advance_to(virtual.step->until);
                end_step(0);
        } else if (virtual.step || (weir__runtime_has_waiters() && next != WEIR_FOREVER)) {
                advance_to(next);
        }
        weir__unlock(&virtual.lock);
}

/* While something is on its way: how soon the worker looks again, in real time. */
#define LOOK_AGAIN WEIR_USEC(100)

/* In place of weir__sleep_begin (kernel/loop/sleep.h), by the owner of the poller, with SLEEPING in its inbox.  Returns true when
 * the clock stands, or when another thread or the timer will wake the worker.  Returns false when an event or the advance has
 * made something ready. */
static bool
sleep_or_advance(struct weir__poller *poller, weir_nsec next)
{
        enum weir__virtual_mode mode = weir__virtual_mode();
        bool is_waited_for = mode == WEIR__VIRTUAL_WAITED_FOR;
        struct epoll_event event;
        bool blocks;

        if (mode == WEIR__VIRTUAL_STANDS || (is_waited_for && next == WEIR_FOREVER) || weir__executor_is_busy_or_blocks(&blocks))
                return true;
        if (poller->batch && poller->batch->outstanding > 0)
                return true; /* the end of a request is an event */
        if (epoll_wait(poller->epoll_fd, &event, 1, 0) > 0) {
                weir__sources_dispatch(poller, &event);
                return false;
        }
        if (blocks || weir__inflight_has_bytes(poller, is_waited_for)) {
                weir__sleep_arm(poller, weir__clock_monotonic() + LOOK_AGAIN);
                return true;
        }
        if (weir__poller_is_asleep(poller)) /* nobody has pushed meanwhile */
                weir__virtual_advance(next);
        return false;
}

/* -- waiting -- */

static bool
holds_itself(void)
{
        return own.count > 0 && own.generation == atomic_load(&virtual.generation);
}

int
weir__virtual_enter(void)
{
        int runners = atomic_load(&virtual.runners);

        if (!weir__clock_is_virtual())
                return 0;
        if (holds_itself())
                return -EDEADLK;
        do {
                if (runners == STEPPING)
                        return -EBUSY;
        } while (!atomic_compare_exchange_weak(&virtual.runners, &runners, runners + 1));
        return 1;
}

void
weir__virtual_leave(void)
{
        atomic_fetch_sub(&virtual.runners, 1);
}

/* -- steps -- */

int
weir__virtual_begin_steps(void)
{
        int runners = 0;

        if (!weir__clock_is_virtual())
                return -ENOTSUP;
        if (holds_itself())
                return -EDEADLK;
        if (!atomic_compare_exchange_strong(&virtual.runners, &runners, STEPPING))
                return -EBUSY;
        if (!weir__runtime_has_waiters())
                return 0;
        weir__virtual_end_steps();
        return -EBUSY;
}

void
weir__virtual_end_steps(void)
{
        atomic_store(&virtual.runners, 0);
}

int
weir__virtual_step_to(weir_nsec until)
{
        struct step step = {.until = until};

        if (until < weir__clock_now() || until == WEIR_FOREVER)
                return -EINVAL;
        weir__lock(&virtual.lock);
        virtual.step = &step;
        weir__unlock(&virtual.lock);
        wake_worker();
        weir__latch_wait(&step.over);
        return step.status;
}

/* -- holding -- */

int
weir_clock_hold(void)
{
        if (weir__phase_is_forked())
                return -ECHILD;
        if (!weir__clock_is_virtual())
                return 0;
        weir__lock(&virtual.lock);
        virtual.holds++;
        virtual.was_held = true;
        if (weir__worker_self()) {
                virtual.callback_holds++;
        } else {
                unsigned generation = atomic_load(&virtual.generation);

                own.count = own.generation == generation ? own.count + 1 : 1;
                own.generation = generation;
        }
        weir__unlock(&virtual.lock);
        return 0;
}

/* Returns false when there is none that this thread may release. */
static bool
drop_hold(void)
{
        if (holds_itself())
                own.count--;
        else if (virtual.callback_holds > 0)
                virtual.callback_holds--;
        else
                return false;
        virtual.holds--;
        return true;
}

void
weir_clock_release(void)
{
        if (weir__phase_is_forked() || !weir__clock_is_virtual())
                return;
        weir__lock(&virtual.lock);
        bool is_dropped = drop_hold(), is_last = virtual.holds == 0;
        weir__unlock(&virtual.lock);
        if (!is_dropped)
                weir__panic("weir_clock_release: this thread does not hold the clock");
        if (is_last)
                wake_worker();
}
