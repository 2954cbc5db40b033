/* kernel/loop/poller.c: one poller.
 *
 * Threads: functions marked "owner only" in poller.h run on the worker that owns the poller; the others on any thread.
 * Locks:   poller->lock (rank POLLER) guards the deadline queue, the ids, and the crowds that others give; nothing is locked
 *          under it.
 *
 * Sleeping.  The owner first swaps SLEEPING into the empty inbox, then computes the next deadline under the lock, publishes it,
 * arms the timerfd and sleeps.  A thread that adds an earlier deadline does so under the same lock, hence either before the
 * owner computes (it is seen) or after (it sees SLEEPING, and wakes); so does one that gives a crowd.  It is having had the lock
 * that makes SLEEPING seen; letting go of it is no fence.  A thread that pushes replaces SLEEPING by its work.  Whoever replaces
 * SLEEPING, and nobody else, writes the eventfd: one write per sleep.
 * test/model/wakeup.pml is the model of this. */
#include "kernel/loop/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "kernel/sched/blocking.h"
#include "kernel/base/clock.h"
#include "kernel/executor/executor.h"
#include "kernel/loop/inflight.h"
#include "kernel/data/prefetch.h"
#include "kernel/sched/share.h"
#include "kernel/runtime/virtual.h"
#include "kernel/sched/watchdog.h"
#include "kernel/sched/worker.h"

/* While timers fire densely, the next wake-up is not armed earlier than this after the last one: it halves the CPU time of
 * 100,000 timers a second, and is about what a wake-up from idle takes (docs/design.md, "Arming"). */
#define REST WEIR_USEC(50)

/* When a sleep ends with DENSE timers or more, the next one may be that much longer. */
#define DENSE      16
#define DENSE_REST WEIR_USEC(100)

/* While other threads push all the time, the owner dozes instead of sleeping: nobody has to wake it then.  The doze becomes
 * twice as long whenever the last one brought MANY completions, up to LONGEST_DOZE, and goes back to DOZE when it did not. */
#define DOZE         WEIR_USEC(50)
#define LONGEST_DOZE WEIR_USEC(400)
#define MANY         64

/* The queue is shown the time at least this often while callbacks run, and before they do after a sleep, even if nothing is due:
 * it sorts a new deadline by its distance from the time it knows. */
#define STALE WEIR_MSEC(1)

/* On the virtual clock, while something is on its way: how soon it is looked at again, in real time. */
#define ONCE_MORE WEIR_USEC(100)

/* Requests that are answered a second later need not be read at once.  While the last MANY_REPLIES were all WEIR__UNHURRIED, and
 * requests wake this thread again and again, it naps whenever a look at the descriptors has shown none: deaf to them it sleeps
 * until the first deadline that is NAP_SHORTEST after its last waking, or for NAP_LONGEST.  Then first the replies that are due go
 * out, and then all requests are read in a row, those that the replies have brought among them: a visit.  What has a duration on
 * the fine grain, and is read in its first GATHER, has one deadline, and so one visit is answered by one.  Such deadlines, and what
 * is behind them, are kept waiting for the end of a nap, for NAP_SHORTEST at most; any other that is the first ends the nap.
 * A request that is answered soon ends all naps: it has waited for one at most.
 *
 * Clients that ask again at once are in step with the visits: a nap may well find nothing, and the next one many.  So it stops when
 * MANY_NAPS in a row have found no more than FEW events, or the first one has. */
#define NAP_SHORTEST WEIR_USEC(750)
#define NAP_LONGEST  WEIR_USEC(1250)
#define GATHER       WEIR_USEC(100)
#define MANY_REPLIES 64
#define SOON         WEIR_USEC(500)
#define DISTURBANCES 4
#define MANY_NAPS    16
#define FEW          2

#define SLOT_EVENT (UINT64_MAX)     /* epoll data of the eventfd */
#define SLOT_TIMER (UINT64_MAX - 1) /* epoll data of the timerfd */

static struct weir__work sleeping;
#define SLEEPING (&sleeping)

static weir__deadline_fn *deadline_fns[WEIR__DEADLINE_KINDS];

static struct weir__work *
limit_reached(struct weir__timerq_node *node, int status)
{
        (void)status; /* drained or due: its work looks at the clock */
        return &((struct weir__limit *)((char *)node - offsetof(struct weir__limit, node)))->work;
}

void
weir__poller_on_deadline(enum weir__deadline_kind kind, weir__deadline_fn *fn)
{
        deadline_fns[kind] = fn;
}

/* -- making and ending -- */

int
weir__poller_watch(struct weir__poller *poller, int fd, uint32_t events, uint64_t data)
{
        struct epoll_event event = {.events = events | EPOLLET, .data.u64 = data};

        return epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int
open_descriptors(struct weir__poller *poller)
{
        poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (poller->epoll_fd < 0)
                return -errno;
        poller->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (poller->timer_fd < 0)
                return -errno;
        int failed = weir__poller_watch(poller, poller->timer_fd, EPOLLIN, SLOT_TIMER);
        return failed ? failed : weir__poller_watch(poller, poller->event_fd, EPOLLIN, SLOT_EVENT);
}

struct weir__poller *
weir__poller_new(unsigned index)
{
        struct weir__poller *poller = aligned_alloc(_Alignof(struct weir__poller), sizeof *poller);

        if (!poller)
                return NULL;
        memset(poller, 0, sizeof *poller);
        poller->index = index;
        poller->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (poller->event_fd < 0) {
                int failed = errno;

                free(poller);
                errno = failed;
                return NULL;
        }
        weir__lock_init(&poller->lock, WEIR__RANK_POLLER);
        return poller;
}

int
weir__poller_open(struct weir__poller *poller)
{
        poller->epoll_fd = poller->timer_fd = poller->quiet_fd = -1;
        poller->watch = (struct weir__watch){.timer_fd = -1};
        poller->unhurried = poller->disturbed = 0;
        poller->is_napping = false;
        atomic_store_explicit(&poller->gathers_until, 0, memory_order_relaxed);
        poller->came = 0;
        poller->free_slot = WEIR__SLOT_NONE;
        poller->armed_for = WEIR_FOREVER;
        poller->woke_at = poller->visited_at = 0;
        poller->doze = 0;
        poller->rest = REST;
        poller->exiting = false;
        poller->behind_since = poller->share_after = 0;
        atomic_store(&poller->share_wanted, false);
        atomic_store(&poller->is_suspect, false);
        atomic_store(&poller->ready_count, 0);
        weir__follow_open(poller);
        weir__lock(&poller->lock);
        poller->closing = false;
        atomic_store(&poller->next_deadline, WEIR_FOREVER);
        weir__timerq_init(&poller->queue, weir__clock_now());
        poller->limits = 0;
        weir__unlock(&poller->lock);
        deadline_fns[WEIR__DEADLINE_SOURCE] = limit_reached;
        int failed = open_descriptors(poller);
        if (!failed && !(poller->scratch = malloc(WEIR__SCRATCH_SIZE)))
                failed = -ENOMEM;
        if (failed)
                weir__poller_close(poller);
        return failed;
}

static void
close_descriptor(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

void
weir__poller_close(struct weir__poller *poller)
{
        close_descriptor(&poller->epoll_fd);
        close_descriptor(&poller->quiet_fd);
        close_descriptor(&poller->timer_fd);
        close_descriptor(&poller->watch.timer_fd);
        weir__follow_close(poller);
        weir__inflight_close();
        free(poller->slots);
        free(poller->scratch);
        poller->slots = NULL;
        poller->scratch = NULL;
        poller->slot_count = 0;
}

/* -- the inbox -- */

void
weir__poller_wake(struct weir__poller *poller)
{
        struct weir__work *expected = SLEEPING;

        if (atomic_load_explicit(&poller->inbox, memory_order_seq_cst) == SLEEPING &&
            atomic_compare_exchange_strong_explicit(&poller->inbox, &expected, NULL, memory_order_seq_cst, memory_order_relaxed))
                eventfd_write(poller->event_fd, 1);
}

bool
weir__poller_is_asleep(struct weir__poller *poller)
{
        return atomic_load(&poller->inbox) == SLEEPING;
}

static void
push(struct weir__poller *poller, struct weir__work *work)
{
        struct weir__work *head = atomic_load_explicit(&poller->inbox, memory_order_relaxed);

        do {
                work->next = head == SLEEPING ? NULL : head;
        } while (!atomic_compare_exchange_weak_explicit(&poller->inbox, &head, work, memory_order_release, memory_order_relaxed));
        if (head == SLEEPING)
                eventfd_write(poller->event_fd, 1);
}

void
weir__poller_deliver(struct weir__poller *poller, struct weir__work *work)
{
        struct weir__worker *worker = weir__worker_self();

        if (worker && worker->poller == poller && weir__pin()) {
                weir__work_append(&poller->ready, work);
                weir__poller_note_ready(poller, 1);
                weir__unpin();
        } else {
                push(poller, work);
        }
}

void
weir__poller_deliver_behind(struct weir__poller *poller, struct weir__work *work)
{
        poller->looks_round = true;
        weir__poller_deliver(poller, work);
}

void
weir__poller_deliver_crowd(struct weir__poller *poller, struct weir__work_list *crowd)
{
        struct weir__worker *worker = weir__worker_self();

        if (worker && worker->poller == poller && weir__pin()) {
                weir__work_concat(&poller->crowd, crowd);
                weir__unpin();
                return;
        }
        weir__lock(&poller->lock);
        weir__work_concat(&poller->crowd_given, crowd);
        atomic_store_explicit(&poller->crowd_is_given, true, memory_order_relaxed);
        weir__unlock(&poller->lock);
        weir__poller_wake(poller); /* as for a deadline: who falls asleep looks under the lock */
}

static void
take_crowd(struct weir__poller *poller)
{
        if (!atomic_load_explicit(&poller->crowd_is_given, memory_order_relaxed))
                return;
        weir__lock(&poller->lock);
        weir__work_concat(&poller->crowd, &poller->crowd_given);
        atomic_store_explicit(&poller->crowd_is_given, false, memory_order_relaxed);
        weir__unlock(&poller->lock);
}

void
weir__poller_run_deferred(struct weir__poller *poller)
{
        for (struct weir__work *work; (work = weir__work_pop(&poller->deferred));)
                work->ops->run(work);
}

unsigned
weir__poller_take_inbox(struct weir__poller *poller)
{
        struct weir__work_list taken = {0};
        struct weir__work *head;
        unsigned count = 0;

        take_crowd(poller);
        head = atomic_load_explicit(&poller->inbox, memory_order_relaxed);
        if (!head)
                return 0;
        head = atomic_exchange_explicit(&poller->inbox, NULL, memory_order_acquire);
        for (; head && head != SLEEPING; count++) {
                struct weir__work *older = head->next;

                weir__work_prepend(&taken, head);
                head = older;
        }
        weir__work_concat(&poller->ready, &taken);
        weir__poller_note_ready(poller, count);
        return count;
}

/* -- deadlines -- */

/* Returns whether that is earlier than the owner knows of. */
static bool
wants_visit(struct weir__poller *poller, weir_nsec visit)
{
        if (visit >= atomic_load_explicit(&poller->next_deadline, memory_order_relaxed))
                return false;
        atomic_store_explicit(&poller->next_deadline, visit, memory_order_relaxed);
        return true;
}

bool
weir__poller_add_deadline(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline, weir_nsec now)
{
        weir__timerq_stamp(&poller->queue, now);
        return wants_visit(poller, weir__timerq_add(&poller->queue, node, deadline));
}

void
weir__poller_take_turn(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec now)
{
        weir__timerq_stamp(&poller->queue, now);
        weir__timerq_take_turn(&poller->queue, node);
}

bool
weir__poller_add_in_turn(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline)
{
        return wants_visit(poller, weir__timerq_add_in_turn(&poller->queue, node, deadline));
}

bool
weir__poller_reset_deadline(struct weir__poller *poller, struct weir__timerq_node *node, weir_nsec deadline, weir_nsec now)
{
        weir__timerq_stamp(&poller->queue, now);
        return wants_visit(poller, weir__timerq_reset(&poller->queue, node, deadline));
}

/* Turns nodes that were taken out into work; the lock is held.  Returns how many works that were. */
static unsigned
take(struct weir__poller *poller, struct weir__work_list *list, struct weir__timerq_node *nodes[], unsigned count, int status)
{
        unsigned works = 0;

        for (unsigned i = 0; i < count; i++) {
                poller->limits -= nodes[i]->kind == WEIR__DEADLINE_SOURCE;
                struct weir__work *work = deadline_fns[nodes[i]->kind](nodes[i], status);

                if (work)
                        weir__work_append(list, work);
                works += work != NULL;
        }
        return works;
}

/* Of the works from `first` to the end of its list. */
static void
foresee(const struct weir__work *first)
{
        bool goes_on = first != NULL;

        for (unsigned step = 0; goes_on; step++) {
                goes_on = false;
                for (const struct weir__work *work = first; work; work = work->next)
                        if (work->ops->foresee)
                                goes_on |= work->ops->foresee(work, step);
        }
}

static unsigned
expire(struct weir__poller *poller, weir_nsec now, unsigned most)
{
        struct weir__timerq_node *expired[WEIR__TIMERQ_BATCH];
        const struct weir__work *before = poller->ready.last;

        if (now < atomic_load_explicit(&poller->next_deadline, memory_order_relaxed) && now - poller->visited_at < STALE)
                return 0;
        poller->visited_at = now;
        weir__lock(&poller->lock);
        bool more;
        unsigned count = weir__timerq_expire(&poller->queue, now, expired, most, &more);
        weir__poller_note_ready(poller, take(poller, &poller->ready, expired, count, 0));
        atomic_store_explicit(&poller->next_deadline, more ? now : weir__timerq_next(&poller->queue), memory_order_relaxed);
        weir__unlock(&poller->lock);
        foresee(before ? before->next : poller->ready.first);
        return count;
}

static unsigned
at_once(const struct weir__poller *poller)
{
        return poller->slot_count > 0 ? WEIR__BATCH : WEIR__TIMERQ_BATCH;
}

void
weir__poller_expire(struct weir__poller *poller)
{
        expire(poller, weir__clock_now(), at_once(poller));
}

void
weir__poller_expire_many(struct weir__poller *poller)
{
        expire(poller, weir__clock_now(), WEIR__TIMERQ_BATCH);
}

unsigned
weir__poller_expire_for(struct weir__poller *other, struct weir__poller *poller, weir_nsec now)
{
        struct weir__timerq_node *expired[WEIR__TIMERQ_BATCH];
        struct weir__work_list taken = {0};
        unsigned found = 0;
        bool more;

        if (!weir__trylock(&other->lock))
                return 0;
        unsigned count = weir__timerq_expire(&other->queue, now, expired, WEIR__TIMERQ_BATCH, &more);
        take(other, &taken, expired, count, 0);
        atomic_store_explicit(&other->next_deadline, more ? now : weir__timerq_next(&other->queue), memory_order_relaxed);
        weir__unlock(&other->lock);
        foresee(taken.first);
        for (struct weir__work *work; (work = weir__work_pop(&taken));) {
                if (work->ops->roams) {
                        weir__work_append(&poller->ready, work);
                        found++;
                } else {
                        push(other, work);
                }
        }
        weir__poller_note_ready(poller, found);
        return found;
}

bool
weir__poller_drain(struct weir__poller *poller)
{
        struct weir__timerq_node *taken[WEIR__TIMERQ_BATCH];

        weir__lock(&poller->lock);
        poller->closing = true;
        unsigned count = weir__timerq_drain(&poller->queue, taken, WEIR__TIMERQ_BATCH);
        weir__poller_note_ready(poller, take(poller, &poller->ready, taken, count, -ESHUTDOWN));
        weir__unlock(&poller->lock);
        return count > 0;
}

bool
weir__limit_set(struct weir__poller *poller, struct weir__limit *limit, weir_nsec deadline)
{
        weir__lock(&poller->lock);
        bool set = !poller->closing; /* else one that is set stays: its work is about to come, and its owner counts on that */
        if (set && weir__timerq_contains(&limit->node))
                weir__timerq_remove(&poller->queue, &limit->node);
        else
                poller->limits += set;
        limit->node.kind = WEIR__DEADLINE_SOURCE;
        if (set)
                weir__poller_add_deadline(poller, &limit->node, deadline, 0); /* nobody asks when it came */
        weir__unlock(&poller->lock);
        return set;
}

bool
weir__limit_clear(struct weir__poller *poller, struct weir__limit *limit)
{
        weir__lock(&poller->lock);
        bool cleared = weir__timerq_contains(&limit->node);
        if (cleared)
                weir__timerq_remove(&poller->queue, &limit->node);
        poller->limits -= cleared;
        weir__unlock(&poller->lock);
        return cleared;
}

/* -- sleeping -- */

static void
arm(struct weir__poller *poller, weir_nsec deadline)
{
        if (deadline == poller->armed_for)
                return;
        weir__clock_set_timer(poller->timer_fd, deadline);
        poller->armed_for = deadline;
}

/* When the owner has to look at its deadlines again, computed after SLEEPING was set. */
static weir_nsec
next_visit(struct weir__poller *poller)
{
        weir__lock(&poller->lock);
        weir_nsec next = weir__timerq_next(&poller->queue);
        atomic_store_explicit(&poller->next_deadline, next, memory_order_relaxed);
        if (poller->crowd_given.first)
                next = INT64_MIN;
        weir__unlock(&poller->lock);
        return next;
}

static weir_nsec
earlier(weir_nsec instant, weir_nsec other)
{
        return instant < other ? instant : other;
}

static weir_nsec
later(weir_nsec instant, weir_nsec other)
{
        return instant > other ? instant : other;
}

/* Whether there is what a nap sleeps on: made for the first one. */
static bool
can_nap(struct weir__poller *poller)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};

        if (poller->quiet_fd >= 0)
                return true;
        poller->quiet_fd = epoll_create1(EPOLL_CLOEXEC);
        if (poller->quiet_fd >= 0 && epoll_ctl(poller->quiet_fd, EPOLL_CTL_ADD, poller->timer_fd, &event) == 0 &&
            epoll_ctl(poller->quiet_fd, EPOLL_CTL_ADD, poller->event_fd, &event) == 0)
                return true;
        close_descriptor(&poller->quiet_fd);
        return false;
}

/* Whether the sleep that is about to begin is a nap. */
static bool
naps(struct weir__poller *poller, weir_nsec now)
{
        return poller->unhurried >= MANY_REPLIES && poller->disturbed >= DISTURBANCES && now - poller->woke_at < NAP_SHORTEST &&
               can_nap(poller);
}

static weir_nsec
end_of_nap(const struct weir__poller *poller, weir_nsec next)
{
        weir_nsec rest = next % WEIR__FINE_GRAIN == 0 ? NAP_SHORTEST : poller->rest;

        return earlier(later(next, poller->woke_at + rest), poller->woke_at + NAP_LONGEST);
}

/* What came between the nap before and this one tells how many are kept waiting. */
static void
note_nap(struct weir__poller *poller, weir_nsec now)
{
        if (poller->came > FEW)
                poller->disturbed = DISTURBANCES + MANY_NAPS - 1;
        else
                poller->disturbed--;
        atomic_store_explicit(&poller->gathers_until, now + GATHER, memory_order_relaxed);
}

/* Any other sleep, so long after the one before, that so many events have ended, of which the timer's may be one. */
static void
note_sleep(struct weir__poller *poller, weir_nsec after, int count)
{
        if (count <= 0 || after >= SOON)
                poller->disturbed = 0;
        else if (poller->disturbed < DISTURBANCES)
                poller->disturbed++;
}

/* Whether the owner may sleep, with SLEEPING in the inbox and the timerfd armed. */
static bool
fall_asleep(struct weir__poller *poller)
{
        struct weir__work *expected = NULL;

        if (weir__poller_is_busy(poller) || !atomic_compare_exchange_strong_explicit(&poller->inbox, &expected, SLEEPING, memory_order_seq_cst,
                                                                        memory_order_relaxed))
                return false;
        if (weir__share_waits())
                return false;
        weir_nsec next = next_visit(poller), now = weir__clock_now();
        if (weir__share_overdue(poller, now))
                return false;
        poller->is_napping = next != WEIR_FOREVER && naps(poller, now);
        if (next <= now)
                return false;
        weir_nsec end = next == WEIR_FOREVER ? next
                        : poller->is_napping ? end_of_nap(poller, next)
                                             : later(next, poller->woke_at + poller->rest);
        arm(poller, end);
        poller->slept_from = now;
        weir__watchdog_rest(poller, end);
        return true;
}

/* The same on the virtual clock: time jumps while somebody wants it to, no descriptor has anything to say, and nothing is on its
 * way.  Nothing is armed, but to look again at what is. */
static bool
fall_asleep_virtually(struct weir__poller *poller)
{
        struct weir__work *expected = NULL;
        struct epoll_event event;

        if (weir__poller_is_busy(poller) || !atomic_compare_exchange_strong_explicit(&poller->inbox, &expected, SLEEPING,
                                                                                     memory_order_seq_cst, memory_order_relaxed))
                return false;
        weir_nsec next = next_visit(poller);
        if (next <= weir__clock_now())
                return false;
        enum weir__drive drive = weir__virtual_drive();
        if (drive == WEIR__DRIVE_NONE || (drive == WEIR__DRIVE_WAIT && next == WEIR_FOREVER) || weir__executor_is_busy())
                return true;
        if (epoll_wait(poller->epoll_fd, &event, 1, 0) > 0) {
                weir__poller_dispatch(poller, &event);
                return false;
        }
        if (weir__blocking_any() || weir__inflight(poller, drive == WEIR__DRIVE_WAIT)) {
                arm(poller, weir__clock_monotonic() + ONCE_MORE);
                return true;
        }
        if (atomic_load_explicit(&poller->inbox, memory_order_seq_cst) == SLEEPING)
                weir__virtual_move(next);
        return false;
}

/* Whether the owner dozes: a sleep with a short end and without SLEEPING, so that a push costs its sender no system call, and
 * this thread no wake-up of its own.  What is pushed is run that much later at most than after a wake-up. */
static bool
doze(struct weir__poller *poller)
{
        if (poller->doze == 0 || weir__poller_is_busy(poller) || atomic_load_explicit(&poller->inbox, memory_order_relaxed))
                return false;
        weir_nsec now = weir__clock_now(), next = atomic_load_explicit(&poller->next_deadline, memory_order_relaxed);
        if (next <= now)
                return false; /* only the future is armed: what the timerfd has fired for already it would not fire for again */
        arm(poller, earlier(next, now + poller->doze));
        poller->slept_from = now;
        return true;
}

/* After a sleep, which brought so many completions of others: whether the next one had better be a doze. */
static void
note_pushes(struct weir__poller *poller, unsigned count, bool often)
{
        if (count == 0 || !often)
                poller->doze = 0;
        else if (count < MANY || poller->doze == 0)
                poller->doze = DOZE;
        else if (poller->doze < LONGEST_DOZE)
                poller->doze *= 2;
}

void
weir__poller_poll(struct weir__poller *poller)
{
        struct epoll_event events[WEIR__EVENTS];
        bool is_virtual = atomic_load_explicit(&weir__clock.is_virtual, memory_order_relaxed);
        bool dozes = !is_virtual && doze(poller);
        bool sleep = dozes || (is_virtual ? fall_asleep_virtually(poller) : fall_asleep(poller)), often = dozes;
        if (sleep && (dozes || is_virtual))
                poller->is_napping = false;
        bool nap = sleep && poller->is_napping;
        struct weir__trace_slice slice = {0};
        if (sleep && weir__trace_is_on())
                weir__trace_begin(&slice, NULL, NULL);
        int count = epoll_wait(poller->epoll_fd, events, WEIR__EVENTS, sleep && !nap ? -1 : 0);

        if (nap && count > 0) {
                sleep = false;
        } else if (nap) {
                epoll_wait(poller->quiet_fd, events, WEIR__EVENTS, -1);
        }
        if (__builtin_expect(slice.session != 0, 0))
                weir__trace_end(&slice, &(struct weir__trace_facts){.kind = "sleeps"}, NULL);
        if (sleep) {
                weir_nsec now = weir__clock_now();

                if (nap)
                        note_nap(poller, now);
                else
                        note_sleep(poller, now - poller->woke_at, count);
                poller->came = 0;
                often |= now - poller->woke_at < 2 * DOZE;
                poller->woke_at = now;
                weir__watchdog_note_sleep(poller);
                if (poller->woke_at >= poller->armed_for)
                        poller->armed_for =
                                WEIR_FOREVER; /* it has fired, or is about to: edge-triggered, so that costs nothing */
                poller->rest = expire(poller, poller->woke_at, at_once(poller)) >= DENSE ? DENSE_REST : REST;
        } else {
                poller->came += count > 0 ? (unsigned)count : 0;
        }
        weir__poller_prefetch(poller, events, count);
        unsigned pushed = weir__poller_take_inbox(poller); /* and no longer SLEEPING */
        weir__watchdog_pass(poller);
        if (sleep)
                note_pushes(poller, pushed, often);
        for (int i = 0; i < count; i++)
                weir__poller_dispatch(poller, &events[i]);
}
