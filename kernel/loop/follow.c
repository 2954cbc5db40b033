/* kernel/loop/follow.c: followers: new deadlines when a clock has jumped.
 *
 *      settled --a jump--> jumped --the work, 256 at a time--> settled
 *
 * Threads: a jump is noticed by the owner of the poller, or made on the virtual clock by any thread; the work runs on the owner.
 * Locks:   the poller's guards the lists, targets and deadlines.
 *
 * Noticing.  Each poller that has had a follower holds a timerfd of CLOCK_REALTIME that never expires, but is cancelled when that
 * clock is set and when the machine wakes from suspension: the only two ways in which the clocks come to differ by something
 * else.  (Slewing changes the pace of both.)  It is made by the first visit of the work, which the first follower asks for.  If
 * none can be had the work comes again each second, as if there had been a jump, until one can.
 *
 * Nothing is missed.  A follower's clock is read and the follower is in the list within one hold of the lock; the descriptor is
 * armed again before the list is gone through.  So a jump behind the reading finds the follower in the list, and one behind the
 * arming makes another event. */
#include "kernel/loop/follow.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/loop/poller.h"
#include "kernel/loop/pollers.h"

/* How closely together two clocks are to be read, and how often that is tried. */
#define CLOSE WEIR_USEC(1)
#define TRIES 4

/* Without a descriptor. */
#define AGAIN WEIR_SEC(1)

/* Never: the kernel makes the greatest time it knows of it. */
#define NEVER_SECONDS (INT64_MAX / 1000000000)

/* -- clocks -- */

weir_nsec
weir__follow_read(clockid_t clock)
{
        if (clock == CLOCK_REALTIME)
                return weir_wall_now();
        return weir__clock_is_virtual() ? weir__clock_now() : weir__clock_read(clock);
}

/* A clock and the queue's, read at about the same time. */
struct sight {
        weir_nsec shown;
        weir_nsec now; /* not before that */
};

static struct sight
look_at(clockid_t clock)
{
        for (unsigned tries = TRIES;;) {
                weir_nsec before = weir__clock_now(), shown = weir__follow_read(clock), now = weir__clock_now();

                if (now - before <= CLOSE || --tries == 0)
                        return (struct sight){shown, now};
        }
}

static weir_nsec
deadline_by(struct weir__follower *follower, const struct sight *sight)
{
        weir_nsec left, deadline;

        follower->computed = sight->now;
        if (follower->target == WEIR_FOREVER)
                return WEIR_FOREVER;
        if (__builtin_sub_overflow(follower->target, sight->shown, &left))
                return follower->target < 0 ? INT64_MIN : WEIR_FOREVER;
        if (__builtin_add_overflow(sight->now, left, &deadline))
                return left < 0 ? INT64_MIN : WEIR_FOREVER;
        return deadline;
}

weir_nsec
weir__follow_deadline(struct weir__follower *follower)
{
        struct sight sight = look_at(follower->clock);

        return deadline_by(follower, &sight);
}

/* -- visits: the work that gives new deadlines -- */

static weir__follow_deliver_fn *deliver;

void
weir__follow_on_deliver(weir__follow_deliver_fn *fn)
{
        deliver = fn;
}

/* With the lock held, which is what keeps the runtime up: who asks for a visit has a follower, which is not gone before. */
static void
ask_for_visit(struct weir__poller *poller)
{
        if (poller->followers.are_visited)
                return;
        poller->followers.are_visited = true;
        deliver(poller, &poller->visit.work);
}

static void
note_jump(struct weir__poller *poller)
{
        weir__lock(&poller->lock);
        weir__list_concat(&poller->followers.jumped, &poller->followers.settled);
        if (!weir__list_is_empty(&poller->followers.jumped))
                ask_for_visit(poller);
        weir__unlock(&poller->lock);
}

/* What is not in the queue has come. */
static void
settle(struct weir__poller *poller, struct weir__follower *follower, const struct sight *sight)
{
        if (!weir__timerq_contains(follower->node))
                return;
        if (follower->ops && follower->ops->retarget)
                follower->target = follower->ops->retarget(follower, sight->shown);
        weir_nsec deadline = deadline_by(follower, sight);
        if (follower->ops && follower->ops->aim)
                deadline = follower->ops->aim(follower, deadline, sight->now);
        weir__deadlines_reset(poller, follower->node, deadline, sight->now); /* its owner is awake */
}

/* Under one hold of the lock. */
static void
settle_some(struct weir__poller *poller)
{
        struct weir__followers *followers = &poller->followers;
        struct sight wall = look_at(CLOCK_REALTIME), boot = look_at(CLOCK_BOOTTIME);

        for (unsigned i = 0; i < WEIR__FOLLOW_AT_ONCE && !weir__list_is_empty(&followers->jumped); i++) {
                struct weir__follower *follower = weir__container_of(weir__list_pop(&followers->jumped), struct weir__follower,
                                                                     link);

                weir__list_append(&followers->settled, &follower->link);
                settle(poller, follower, follower->clock == CLOCK_REALTIME ? &wall : &boot);
        }
}

/* -- the descriptor -- */

static bool
arm(int fd)
{
        const struct itimerspec never = {.it_value.tv_sec = NEVER_SECONDS};

        /* ECANCELED: armed, but the clock was set before; all who call this look at the clocks next. */
        return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) == 0 || errno == ECANCELED;
}

static bool
watch_clock(struct weir__poller *poller)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = WEIR__SLOT_JUMP};
        int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);

        if (fd < 0)
                return false;
        if (!arm(fd) || epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
                close(fd);
                return false;
        }
        poller->jump_fd = fd;
        return true;
}

void
weir__follow_event(struct weir__poller *poller)
{
        uint64_t expirations;

        (void)!read(poller->jump_fd, &expirations, sizeof expirations); /* ECANCELED; whatever it is, it tells of a jump */
        arm(poller->jump_fd);
        note_jump(poller);
}

/* While jumps are not noticed yet, a visit that does not go on where the last one was begins with all followers. */
static void
begin_watching(struct weir__poller *poller)
{
        struct weir__followers *followers = &poller->followers;

        weir__lock(&poller->lock);
        bool goes_on = !weir__list_is_empty(&followers->jumped);
        weir__unlock(&poller->lock);
        if (goes_on)
                return;
        bool are_watched = watch_clock(poller);
        weir__lock(&poller->lock);
        followers->are_watched = are_watched;
        weir__list_concat(&followers->jumped, &followers->settled);
        weir__unlock(&poller->lock);
}

static void
visit(struct weir__work *work)
{
        struct weir__poller *poller = weir__container_of(work, struct weir__poller, visit.work);
        struct weir__followers *followers = &poller->followers;

        if (!followers->are_watched) /* which nobody but the owner writes */
                begin_watching(poller);
        weir__lock(&poller->lock);
        settle_some(poller);
        bool goes_on = !weir__list_is_empty(&followers->jumped), comes_again = !goes_on && !followers->are_watched &&
                                                                               !poller->deadlines.closing &&
                                                                               !weir__list_is_empty(&followers->settled);
        followers->are_visited = goes_on || comes_again;
        weir__unlock(&poller->lock);
        if (goes_on)
                deliver(poller, work);
        else if (comes_again)
                weir__limit_set(poller, &poller->visit, weir__clock_now() + AGAIN);
}

static const struct weir__work_ops visit_ops = {.run = visit};

/* -- followers -- */

void
weir__follow(struct weir__poller *poller, struct weir__follower *follower)
{
        if (!weir__link_is_used(&follower->link))
                weir__list_append(&poller->followers.settled, &follower->link);
        if (!poller->followers.are_watched)
                ask_for_visit(poller);
}

void
weir__follow_end(struct weir__follower *follower)
{
        if (weir__link_is_used(&follower->link))
                weir__link_remove(&follower->link);
}

/* -- pollers -- */

/* The virtual wall clock was set. */
static void
virtual_jump(void)
{
        note_jump(weir__pollers.at[0]);
}

void
weir__follow_open(struct weir__poller *poller)
{
        bool is_virtual = weir__clock_is_virtual();

        poller->jump_fd = -1;
        poller->visit = (struct weir__limit){.work.ops = &visit_ops};
        weir__lock(&poller->lock);
        poller->followers.settled = poller->followers.jumped = (struct weir__list){0};
        poller->followers.are_visited = false;
        poller->followers.are_watched = is_virtual;
        weir__unlock(&poller->lock);
        if (is_virtual)
                weir__clock_on_wall_jump(virtual_jump);
}

void
weir__follow_close(struct weir__poller *poller)
{
        if (poller->jump_fd >= 0)
                close(poller->jump_fd);
        poller->jump_fd = -1;
}
