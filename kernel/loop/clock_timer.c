/* kernel/loop/clock_timer.c: clock timers get new deadlines after a clock change.
 *
 *      current --a clock change--> stale --the update, 256 at a time--> current
 *
 * A timer keeps its place among equal deadlines.  The clock that counts suspended time changes only when the machine wakes up, so
 * timers of that clock stay where they are when somebody sets the wall clock.
 *
 * Threads: the owner of the poller notices a clock change; on the virtual clock any thread makes one.  The update runs on
 *          the owner.
 * Locks:   the poller's guards the lists, targets and deadlines.
 *
 * Noticing.  Each poller that has had a clock timer holds a timerfd of CLOCK_REALTIME that never expires.  The system
 * cancels it when that clock is set, and when the machine wakes from suspension.  Nothing else changes the differences
 * between the clocks: slewing changes the pace of all of them.  The first clock timer asks for the first update, which makes the
 * timerfd.  If the system has no descriptor, the update runs each second, as after a clock change, until there is one.
 *
 * Nothing is missed.  One hold of the lock covers reading the clock and adding the timer to the list.  The descriptor is
 * armed again before the update goes through the list.  So a clock change after the reading finds the timer in the list,
 * and one after the arming makes another event. */
#include "kernel/loop/clock_timer.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/loop/poller.h"
#include "kernel/loop/pollers.h"

/* Two clocks are read within that time of each other, if READ_TRIES tries are enough. */
#define CLOSE_WITHIN WEIR_USEC(1)
#define READ_TRIES   4

/* Without a descriptor. */
#define RETRY_PERIOD WEIR_SEC(1)

/* Shorter suspensions do not count.  More than two readings of clocks are apart, and far less than a machine can be suspended. */
#define SUSPENSION_LEAST WEIR_MSEC(1)

/* The kernel replaces it by the greatest time that it has. */
#define NEVER_SECONDS (INT64_MAX / 1000000000)

/* -- clocks -- */

weir_nsec
weir__clock_timer_read(clockid_t clock)
{
        if (clock == CLOCK_REALTIME)
                return weir_wall_now();
        return weir__clock_is_virtual() ? weir__clock_now() : weir__clock_read(clock);
}

/* Two clocks, read at about the same time. */
struct snapshot {
        weir_nsec shown; /* by the clock that timers follow */
        weir_nsec now;   /* by the clock of the queue, read afterwards */
};

static struct snapshot
look_at(clockid_t clock)
{
        for (unsigned tries = READ_TRIES;;) {
                weir_nsec before = weir__clock_now(), shown = weir__clock_timer_read(clock), now = weir__clock_now();

                if (now - before <= CLOSE_WITHIN || --tries == 0)
                        return (struct snapshot){shown, now};
        }
}

static weir_nsec
deadline_by(struct weir__clock_timer *clock_timer, const struct snapshot *snapshot)
{
        weir_nsec left, deadline;

        clock_timer->computed = snapshot->now;
        if (clock_timer->target == WEIR_FOREVER)
                return WEIR_FOREVER;
        if (__builtin_sub_overflow(clock_timer->target, snapshot->shown, &left))
                return clock_timer->target < 0 ? INT64_MIN : WEIR_FOREVER;
        if (__builtin_add_overflow(snapshot->now, left, &deadline))
                return left < 0 ? INT64_MIN : WEIR_FOREVER;
        return deadline;
}

weir_nsec
weir__clock_timer_deadline(struct weir__clock_timer *clock_timer)
{
        struct snapshot snapshot = look_at(clock_timer->clock);

        return deadline_by(clock_timer, &snapshot);
}

/* -- the update: the work that gives new deadlines -- */

static weir__clock_timers_deliver_fn *deliver;

void
weir__clock_timers_on_deliver(weir__clock_timers_deliver_fn *fn)
{
        deliver = fn;
}

/* Under the lock.  The runtime is up, because the clock timer that needs the update lives. */
static void
ask_for_update(struct weir__poller *poller)
{
        if (poller->clock_timers.is_updating)
                return;
        poller->clock_timers.is_updating = true;
        deliver(poller, &poller->clock_update.work);
}

/* Whether the machine was suspended since the deadlines of that clock were right.  Under the lock. */
static bool
was_suspended(struct weir__clock_timers *clock_timers)
{
        struct snapshot boot = look_at(CLOCK_BOOTTIME);
        weir_nsec change = boot.shown - boot.now - clock_timers->suspended;

        if (change > -SUSPENSION_LEAST && change < SUSPENSION_LEAST)
                return false;
        clock_timers->suspended += change;
        return true;
}

static bool
has_stale(const struct weir__clock_timers *clock_timers)
{
        return !weir__list_is_empty(&clock_timers->wall.stale) || !weir__list_is_empty(&clock_timers->boot.stale);
}

/* A clock may have changed.  Under the lock. */
static void
make_stale(struct weir__clock_timers *clock_timers)
{
        weir__list_concat(&clock_timers->wall.stale, &clock_timers->wall.current);
        if (was_suspended(clock_timers))
                weir__list_concat(&clock_timers->boot.stale, &clock_timers->boot.current);
}

static void
note_clock_change(struct weir__poller *poller)
{
        weir__lock(&poller->lock);
        make_stale(&poller->clock_timers);
        if (has_stale(&poller->clock_timers))
                ask_for_update(poller);
        weir__unlock(&poller->lock);
}

/* A timer that is not in the queue has expired, so it needs no deadline. */
static void
update_deadline(struct weir__poller *poller, struct weir__clock_timer *clock_timer, const struct snapshot *snapshot)
{
        if (!weir__timerq_contains(clock_timer->node))
                return;
        if (clock_timer->ops && clock_timer->ops->retarget)
                clock_timer->target = clock_timer->ops->retarget(clock_timer, snapshot->shown);
        weir_nsec deadline = deadline_by(clock_timer, snapshot);
        if (clock_timer->ops && clock_timer->ops->round)
                deadline = clock_timer->ops->round(clock_timer, deadline, snapshot->now);
        weir__deadlines_move(poller, clock_timer->node, deadline); /* its owner is awake */
}

/* Returns how many are left of `most`. */
static unsigned
update_group(struct weir__poller *poller, struct weir__clock_group *group, clockid_t clock, unsigned most)
{
        struct snapshot snapshot = look_at(clock);

        for (; most > 0 && !weir__list_is_empty(&group->stale); most--) {
                struct weir__clock_timer *clock_timer = weir__container_of(weir__list_pop(&group->stale),
                                                                           struct weir__clock_timer, link);

                weir__list_append(&group->current, &clock_timer->link);
                update_deadline(poller, clock_timer, &snapshot);
        }
        return most;
}

/* Under one hold of the lock. */
static void
update_some(struct weir__poller *poller)
{
        unsigned left = update_group(poller, &poller->clock_timers.wall, CLOCK_REALTIME, WEIR__CLOCK_TIMERS_AT_ONCE);

        update_group(poller, &poller->clock_timers.boot, CLOCK_BOOTTIME, left);
}

/* -- the descriptor -- */

static bool
arm(int fd)
{
        const struct itimerspec never = {.it_value.tv_sec = NEVER_SECONDS};

        /* ECANCELED: armed, but the clock was set before.  All callers look at the clocks next. */
        return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) == 0 || errno == ECANCELED;
}

static bool
watch_clock(struct weir__poller *poller)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = WEIR__SLOT_CLOCK_CHANGE};
        int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);

        if (fd < 0)
                return false;
        if (!arm(fd) || epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
                close(fd);
                return false;
        }
        poller->clock_change_fd = fd;
        return true;
}

void
weir__clock_timers_event(struct weir__poller *poller)
{
        uint64_t expirations;

        (void)!read(poller->clock_change_fd, &expirations, sizeof expirations); /* ECANCELED */
        arm(poller->clock_change_fd);
        note_clock_change(poller);
}

/* While clock changes are not noticed yet, each update gives all clock timers new deadlines.  It begins here, unless the last
 * one is still going on. */
static void
begin_watching(struct weir__poller *poller)
{
        struct weir__clock_timers *clock_timers = &poller->clock_timers;

        weir__lock(&poller->lock);
        bool has_more = has_stale(clock_timers);
        weir__unlock(&poller->lock);
        if (has_more)
                return;
        bool are_watched = watch_clock(poller);
        weir__lock(&poller->lock);
        clock_timers->are_watched = are_watched;
        make_stale(clock_timers);
        weir__unlock(&poller->lock);
}

/* None of them waits for a new deadline. */
static bool
has_any(const struct weir__clock_timers *clock_timers)
{
        return !weir__list_is_empty(&clock_timers->wall.current) || !weir__list_is_empty(&clock_timers->boot.current);
}

static void
update(struct weir__work *work)
{
        struct weir__poller *poller = weir__container_of(work, struct weir__poller, clock_update.work);
        struct weir__clock_timers *clock_timers = &poller->clock_timers;

        if (!clock_timers->are_watched) /* only the owner writes that */
                begin_watching(poller);
        weir__lock(&poller->lock);
        update_some(poller);
        bool has_more = has_stale(clock_timers);
        bool should_retry = !has_more && !clock_timers->are_watched && !poller->deadlines.is_closing && has_any(clock_timers);
        clock_timers->is_updating = has_more || should_retry;
        weir__unlock(&poller->lock);
        if (has_more)
                deliver(poller, work);
        else if (should_retry)
                weir__alarm_set(poller, &poller->clock_update, weir__clock_now() + RETRY_PERIOD);
}

static const struct weir__work_ops update_ops = {.run = update};

/* -- clock timers -- */

void
weir__clock_timer_add(struct weir__poller *poller, struct weir__clock_timer *clock_timer)
{
        struct weir__clock_timers *clock_timers = &poller->clock_timers;
        struct weir__clock_group *group = clock_timer->clock == CLOCK_REALTIME ? &clock_timers->wall : &clock_timers->boot;

        if (!weir__link_is_used(&clock_timer->link))
                weir__list_append(&group->current, &clock_timer->link);
        if (!poller->clock_timers.are_watched)
                ask_for_update(poller);
}

void
weir__clock_timer_remove(struct weir__clock_timer *clock_timer)
{
        if (weir__link_is_used(&clock_timer->link))
                weir__link_remove(&clock_timer->link);
}

/* -- pollers -- */

/* The virtual wall clock was set. */
static void
virtual_clock_change(void)
{
        note_clock_change(weir__pollers.at[0]);
}

void
weir__clock_timers_open(struct weir__poller *poller)
{
        bool is_virtual = weir__clock_is_virtual();

        poller->clock_change_fd = -1;
        poller->clock_update = (struct weir__alarm){.work.ops = &update_ops};
        weir__lock(&poller->lock);
        poller->clock_timers = (struct weir__clock_timers){.are_watched = is_virtual};
        was_suspended(&poller->clock_timers); /* notes what the difference is now */
        weir__unlock(&poller->lock);
        if (is_virtual)
                weir__clock_on_wall_change(virtual_clock_change);
}

void
weir__clock_timers_close(struct weir__poller *poller)
{
        if (poller->clock_change_fd >= 0)
                close(poller->clock_change_fd);
        poller->clock_change_fd = -1;
}
