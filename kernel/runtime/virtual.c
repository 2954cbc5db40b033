/* kernel/runtime/virtual.c: what makes the virtual clock go.
 *
 *     stands --a thread waits in a `_run`, all is quiet--> the next deadline --> stands, while its callbacks run
 *     stands --a step, all is quiet--> the next deadline up to the instant ... --> the instant; the step returns
 *
 * Threads: one worker has the only poller and moves the clock (`sleeps` finds out whether all is quiet); the others are the
 *          program's.  `drivers` keeps those apart that would race: either threads that wait in a `_run`, any number, or one
 *          thread that lets time pass in steps.
 * Locks:   pace.lock, a leaf.  The clock is moved under it, so that once a hold has returned time stands.  Who changes what the
 *          worker looks at wakes it afterwards: the worker takes the lock when it has set SLEEPING, so that it either sees the
 *          change, or who made it sees SLEEPING. */
#include "kernel/runtime/virtual.h"

#include <errno.h>
#include <stddef.h>

#include "kernel/base/clock.h"
#include "kernel/base/latch.h"
#include "kernel/base/lock.h"
#include "kernel/base/panic.h"
#include "kernel/executor/executor.h"
#include "kernel/loop/inflight.h"
#include "kernel/runtime/runtime.h"
#include "kernel/sched/blocking.h"
#include "kernel/sched/poll.h"
#include "kernel/sched/worker.h"

/* A thread that lets time pass: on its stack. */
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
        unsigned given; /* of these, made in callbacks: anybody's to release */
        bool disturbed; /* somebody has held since the worker began to look whether all is quiet */

        _Atomic unsigned era; /* counts the starts; holds are of one of them */
        _Atomic int drivers;  /* threads in a `_run`, or STEPPING */
} pace = {.lock = WEIR__LOCK_INITIALIZER(WEIR__RANK_LEAF)};

#define STEPPING (-1)

/* The holds that a thread has to release itself. */
static _Thread_local struct {
        unsigned era, count;
} own;

static bool sleeps(struct weir__poller *poller, weir_nsec next);

void
weir__virtual_start(void)
{
        weir__lock(&pace.lock);
        pace.holds = pace.given = 0;
        weir__unlock(&pace.lock);
        atomic_fetch_add(&pace.era, 1);
        weir__poll_on_virtual(sleeps);
}

void
weir__virtual_forked(void)
{
        weir__lock_init(&pace.lock, WEIR__RANK_LEAF);
        pace.step = NULL;
        atomic_store(&pace.drivers, 0);
}

static void
wake_worker(void)
{
        weir__poller_wake(weir__pollers.at[0]);
}

/* -- moving -- */

/* With the lock held.  Returns what has to be opened when it was let go. */
static struct weir__latch *
end_step(int status)
{
        struct step *step = pace.step;

        pace.step = NULL;
        step->status = status;
        return &step->over;
}

enum weir__drive
weir__virtual_drive(void)
{
        enum weir__drive drive = WEIR__DRIVE_NONE;
        struct weir__latch *over = NULL;

        weir__lock(&pace.lock);
        pace.disturbed = false;
        if (pace.step && weir__phase_is_stopping())
                over = end_step(-ESHUTDOWN);
        else if (pace.holds == 0)
                drive = pace.step ? WEIR__DRIVE_STEP : weir__runtime_has_waiters() ? WEIR__DRIVE_WAIT : WEIR__DRIVE_NONE;
        weir__unlock(&pace.lock);
        if (over)
                weir__latch_open(over);
        return drive;
}

static void
move_to(weir_nsec instant)
{
        atomic_store_explicit(&weir__clock.virtual_instant, instant, memory_order_release);
}

void
weir__virtual_move(weir_nsec next)
{
        struct weir__latch *over = NULL;

        weir__lock(&pace.lock);
        if (pace.holds > 0 || pace.disturbed) {
                /* since a moment ago: what was sent while it was held may have come after the look */
        } else if (pace.step && next > pace.step->until) {
                move_to(pace.step->until);
                over = end_step(0);
        } else if (pace.step || (weir__runtime_has_waiters() && next != WEIR_FOREVER)) {
                move_to(next);
        }
        weir__unlock(&pace.lock);
        if (over)
                weir__latch_open(over);
}

/* On the virtual clock, while something is on its way: how soon it is looked at again, in real time. */
#define LOOK_AGAIN WEIR_USEC(100)

/* By the owner of the poller, with SLEEPING in its inbox.  Returns whether it sleeps: nobody wants time to go on, or somebody will
 * wake it.  Else it looks again at what the move, or the event, has made ready. */
static bool
sleeps(struct weir__poller *poller, weir_nsec next)
{
        enum weir__drive drive = weir__virtual_drive();
        struct epoll_event event;

        if (drive == WEIR__DRIVE_NONE || (drive == WEIR__DRIVE_WAIT && next == WEIR_FOREVER) || weir__executor_is_busy())
                return true;
        if (epoll_wait(poller->epoll_fd, &event, 1, 0) > 0) {
                weir__poller_dispatch(poller, &event);
                return false;
        }
        if (weir__blocking_any() || weir__inflight(poller, drive == WEIR__DRIVE_WAIT)) {
                weir__sleep_arm(poller, weir__clock_monotonic() + LOOK_AGAIN);
                return true;
        }
        if (weir__poller_is_asleep(poller)) /* nobody has pushed meanwhile */
                weir__virtual_move(next);
        return false;
}

/* -- who drives -- */

static bool
holds_itself(void)
{
        return own.count > 0 && own.era == atomic_load(&pace.era);
}

int
weir__virtual_enter(void)
{
        int drivers = atomic_load(&pace.drivers);

        if (!weir__clock_is_virtual())
                return 0;
        if (holds_itself())
                return -EDEADLK;
        do {
                if (drivers == STEPPING)
                        return -EBUSY;
        } while (!atomic_compare_exchange_weak(&pace.drivers, &drivers, drivers + 1));
        return 1;
}

void
weir__virtual_leave(void)
{
        atomic_fetch_sub(&pace.drivers, 1);
}

/* -- steps -- */

int
weir__virtual_begin_steps(void)
{
        int drivers = 0;

        if (!weir__clock_is_virtual())
                return -ENOTSUP;
        if (holds_itself())
                return -EDEADLK;
        if (!atomic_compare_exchange_strong(&pace.drivers, &drivers, STEPPING))
                return -EBUSY;
        if (!weir__runtime_has_waiters())
                return 0;
        weir__virtual_end_steps();
        return -EBUSY;
}

void
weir__virtual_end_steps(void)
{
        atomic_store(&pace.drivers, 0);
}

int
weir__virtual_step_to(weir_nsec until)
{
        struct step step = {.until = until};

        if (until < weir__clock_now() || until == WEIR_FOREVER)
                return -EINVAL;
        weir__lock(&pace.lock);
        pace.step = &step;
        weir__unlock(&pace.lock);
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
        weir__lock(&pace.lock);
        pace.holds++;
        pace.disturbed = true;
        if (weir__worker_self()) {
                pace.given++;
        } else {
                unsigned era = atomic_load(&pace.era);

                own.count = own.era == era ? own.count + 1 : 1;
                own.era = era;
        }
        weir__unlock(&pace.lock);
        return 0;
}

/* Returns false when there is none that this thread may release. */
static bool
take_hold(void)
{
        if (holds_itself())
                own.count--;
        else if (pace.given > 0)
                pace.given--;
        else
                return false;
        pace.holds--;
        return true;
}

void
weir_clock_release(void)
{
        if (weir__phase_is_forked() || !weir__clock_is_virtual())
                return;
        weir__lock(&pace.lock);
        bool is_taken = take_hold(), is_last = pace.holds == 0;
        weir__unlock(&pace.lock);
        if (!is_taken)
                weir__panic("weir_clock_release: this thread holds the clock not, or no longer");
        if (is_last)
                wake_worker();
}
