/* kernel/loop/sleep.c: when a poller sleeps, for how long, and how it is woken.
 *
 * Threads: the owner of the poller.
 * Locks:   none.  The caller takes the poller's lock to compute the next deadline.
 *
 * No wake-up is lost.  The owner marks its empty inbox first.  Then it computes and publishes its next deadline under its
 * lock, arms the timerfd and sleeps.  A thread that adds an earlier deadline takes the same lock.  If it comes before the
 * owner, the owner sees the deadline.  If it comes after the owner, it sees the mark and wakes the owner.  A bulk delivery does
 * the same.  The lock makes the mark visible; releasing it is no fence.  test/model/wakeup.pml is the model.
 *
 * A wake-up from idle costs about 30 us of CPU, and a system call on each side.  Four rules keep their number low.  Each
 * has its figures in docs/decisions/202.
 *
 * Early wake-ups.  A timerfd that is set to an earlier time than the next deadline stays so, if that time is to come, and was
 * further away than EARLY when the poller woke up: time limits come and go, and mostly move on.  So a sleep seldom costs a call
 * that sets it, and there is at most one needless wake-up in EARLY.
 *
 * Minimum interval.  A deadline ends a sleep no earlier than INTERVAL after the last wake-up.  So 100,000 timers a second
 * expire a few at a time.
 *
 * Timed waits.  A worker that other threads wake again and again, each time within FREQUENT, sleeps without the mark, for
 * at most TIMED.  Pushes cost no system call then, and wait for the end of the sleep.  A timed wait in which many work items
 * came doubles the next one, up to TIMED_MOST.  One in which none came is followed by a marked sleep, so an idle process
 * has no further wake-ups.
 *
 * Coalescing window, as in NAPI.  The HTTP server allows one while all its replies are late by design (weir__sleep_coalesce).
 * A burst is a marked sleep that descriptors end within half a window of the wake-up before.  After a burst of several events, or
 * after two bursts in a row, more will come soon.  So the next sleep is on the timerfd and the eventfd alone: until the next
 * deadline, or a window after the last wake-up.  Events wait for that.  The sleep after it is a marked one, which ends at once if
 * there are events.  A lone client asks once as soon as its reply has come: that is no reason to coalesce. */
#include "kernel/loop/sleep.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/loop/poller.h"

/* cmake/ablate.cmake sets these to 0. */
#ifndef INTERVAL
#define INTERVAL WEIR_USEC(50)
#endif
#ifndef TIMED
#define TIMED WEIR_USEC(50)
#endif

#define EARLY        WEIR_SEC(1)
#define FREQUENT     WEIR_USEC(100)
#define TIMED_MOST   WEIR_USEC(400)
#define PUSHES_LEAST 64 /* work items that came during a timed wait */

#define DATA_EVENT (UINT64_MAX)     /* epoll data of the eventfd */
#define DATA_TIMER (UINT64_MAX - 1) /* epoll data of the timerfd */

int
weir__sleep_open(struct weir__poller *poller)
{
        struct weir__sleep_state *sleep = &poller->sleep;

        *sleep = (struct weir__sleep_state){.timer_fd = -1, .quiet_fd = -1, .armed_for = WEIR_FOREVER};
        sleep->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        sleep->quiet_fd = epoll_create1(EPOLL_CLOEXEC);
        if (sleep->timer_fd < 0 || sleep->quiet_fd < 0)
                return -errno;
        int failed = weir__sources_register(poller, sleep->timer_fd, EPOLLIN, DATA_TIMER);
        return failed ? failed : weir__sources_register(poller, poller->inbox.event_fd, EPOLLIN, DATA_EVENT);
}

static void
close_descriptor(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

void
weir__sleep_close(struct weir__poller *poller)
{
        close_descriptor(&poller->sleep.timer_fd);
        close_descriptor(&poller->sleep.quiet_fd);
}

void
weir__sleep_arm(struct weir__poller *poller, weir_nsec deadline)
{
        struct weir__sleep_state *sleep = &poller->sleep;

        if (deadline == sleep->armed_for)
                return;
        weir__clock_set_timer(sleep->timer_fd, deadline);
        sleep->armed_for = deadline;
}

/* -- the coalescing window -- */

static bool
watch_quietly(const struct weir__sleep_state *sleep, int fd)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};

        return epoll_ctl(sleep->quiet_fd, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

/* The first coalescing sleep registers what ends it, so that other programs do not pay for a second registration. */
static bool
can_coalesce(struct weir__poller *poller)
{
        struct weir__sleep_state *sleep = &poller->sleep;

        if (!sleep->is_quiet_ready)
                sleep->is_quiet_ready = watch_quietly(sleep, sleep->timer_fd) && watch_quietly(sleep, poller->inbox.event_fd);
        return sleep->is_quiet_ready;
}

void
weir__sleep_coalesce(struct weir__poller *poller, weir_nsec window)
{
        struct weir__sleep_state *sleep = &poller->sleep;

        if (sleep->woke_at < sleep->no_coalescing_until || (window > 0 && !can_coalesce(poller)))
                window = 0;
        sleep->window = window;
}

void
weir__sleep_forbid_coalescing(struct weir__poller *poller, weir_nsec duration)
{
        poller->sleep.no_coalescing_until = poller->sleep.woke_at + duration;
        poller->sleep.window = 0;
}

/* -- the three points -- */

enum weir__sleep_kind
weir__sleep_begin(struct weir__poller *poller, weir_nsec now, weir_nsec next)
{
        struct weir__sleep_state *sleep = &poller->sleep;
        weir_nsec earliest = sleep->woke_at + INTERVAL, window_end = sleep->woke_at + sleep->window;
        bool is_timed = weir__sleep_is_timed(sleep), coalesces = !is_timed && sleep->may_coalesce && now < window_end;

        if (next <= now) /* the timerfd fires once for an instant: one that has come must not be armed again */
                return WEIR__SLEEP_NONE;
        weir_nsec end = next < earliest ? earliest : next, limit = is_timed ? now + sleep->timed : window_end;
        if ((is_timed || coalesces) && limit < end)
                end = limit;
        bool has_fired = sleep->armed_for <= now; /* a poll between two sleeps may have taken the event */
        if (has_fired || sleep->armed_for > end || sleep->armed_for < sleep->woke_at + EARLY || weir__clock_is_virtual())
                weir__sleep_arm(poller, end);
        sleep->began_at = now;
        return is_timed ? WEIR__SLEEP_TIMED : coalesces ? WEIR__SLEEP_COALESCING : WEIR__SLEEP_MARKED;
}

int
weir__sleep_wait(struct weir__poller *poller, enum weir__sleep_kind kind, struct epoll_event events[WEIR__EVENTS])
{
        if (kind != WEIR__SLEEP_COALESCING)
                return epoll_wait(poller->epoll_fd, events, WEIR__EVENTS, kind == WEIR__SLEEP_NONE ? 0 : -1);
        epoll_wait(poller->sleep.quiet_fd, events, WEIR__EVENTS, -1);
        return 0;
}

void
weir__sleep_end(struct weir__poller *poller, enum weir__sleep_kind kind, int events, weir_nsec now)
{
        struct weir__sleep_state *sleep = &poller->sleep;

        sleep->since_wake = now - sleep->woke_at;
        sleep->woke_at = now;
        sleep->may_coalesce = false;
        if (kind == WEIR__SLEEP_MARKED) {
                bool is_burst = events > 0 && events < WEIR__EVENTS && sleep->since_wake < sleep->window / 2;

                sleep->may_coalesce = is_burst && (events > 1 || sleep->has_burst);
                sleep->has_burst = is_burst;
        }
        if (now >= sleep->armed_for) /* it has fired, or is about to: edge-triggered, so that costs nothing */
                sleep->armed_for = WEIR_FOREVER;
}

void
weir__sleep_note_pushes(struct weir__poller *poller, enum weir__sleep_kind kind, unsigned count)
{
        struct weir__sleep_state *sleep = &poller->sleep;

        if (count == 0 || (kind != WEIR__SLEEP_TIMED && sleep->since_wake >= FREQUENT))
                sleep->timed = 0;
        else if (count < PUSHES_LEAST || sleep->timed == 0)
                sleep->timed = TIMED;
        else if (sleep->timed < TIMED_MOST)
                sleep->timed *= 2;
}
