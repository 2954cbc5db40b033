/* kernel/sched/watchdog.c: takes pollers away from workers whose callbacks block.
 *
 *     sleeps --the timer of a poller fires--> looks at it, again after a pause --the poller sleeps, or sets its timer--> sleeps
 *
 * Threads: its own.
 * Locks:   `reading` of a worker, a leaf.  The watchdog calls nothing of the program, because that might block.  It leaves its
 *          messages as notices.  A worker logs them (weir__blocked_log_notices).  When all workers may be blocked, a thread is
 *          made to log them.
 *
 * Each poller has a timer.  While its owner goes round its loop, it sets the timer two fifths of the limit ahead.  So the
 * watchdog wakes only when an owner does not come round, or when a poller sleeps.  An owner that wakes up sets the timer before
 * any callback.  It reads the clock after SLEEPING is out of its inbox.  So if the watchdog has seen SLEEPING, the owner sees
 * that the timer has fired.
 *
 * In a callback that lasts, two looks see the same `callback_seq`, and it is odd.  That costs the worker nothing.  The watchdog
 * notices the callback up to two fifths of the limit too late.
 *
 * After a callback has blocked, its poller is degraded for a while: the pauses and the limit are much shorter.  So a burst of 64
 * callbacks that block costs its neighbours milliseconds, not 64 limits.  The short limit also retakes pollers from callbacks
 * that only take a while.  One of these at a time is the probe: if it lasts for the long limit, the poller stays degraded. */
#include "kernel/sched/watchdog.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "kernel/base/clock.h"
#include "kernel/base/thread.h"
#include "kernel/worker/worker_pool.h"
#include "kernel/base/fence.h"
#include "kernel/observe/log.h"
#include "kernel/loop/pollers.h"
#include "kernel/data/work.h"
#include "kernel/sched/share.h"
#include "kernel/worker/blocked.h"

#define DEFAULT_LIMIT  WEIR_MSEC(10)
#define DEGRADED_LIMIT WEIR_USEC(200)
#define DEGRADED_PAUSE WEIR_USEC(100)
#define RETAKE_TRIES   16 /* to retake a poller whose worker is in a call of the library each time */
#define SHORT_COUNT    64 /* callbacks in half a limit; with fewer, other workers should take some */

/* A worker that lost its poller under the short limit. */
struct probe {
        struct weir__worker *worker; /* NULL: none */
        unsigned seq;
        weir_nsec since;
};

/* What it saw of a poller at the last look. */
struct snapshot {
        uintptr_t owner;
        unsigned seq;         /* the callback_seq of the owner */
        weir_nsec since;      /* the first look that saw this owner and this number */
        weir_nsec overdue_at; /* the time of the last look, if the poller was overdue then; else 0 */
        weir_nsec next;       /* the time of the next look; WEIR_FOREVER: when the timer fires */
        struct probe probe;
};

_Atomic weir_nsec weir__watchdog_pause;

static struct {
        bool is_running; /* only the threads that start and stop the runtime use it */
        pthread_t thread;
        weir_nsec limit, pause;
        _Atomic bool should_stop;
        _Atomic bool is_logging; /* a thread logs the notices */
        int stop_fd;

        /* Its own thread's. */
        weir_nsec log_after; /* no thread is made to log before */
        bool is_starved;     /* no idle worker was left at the last retake: no reason to hurry */
        struct snapshot snapshots[WEIR__POLLERS_MAX];
} watchdog;

/* -- retaking a poller -- */

/* Whose function the worker runs.  Its object is set before callback_seq, and so was seen with that; or, by a fiber, before its
 * callee. */
static void
write_title(const struct weir__worker *worker, char *title)
{
        bool is_callback = !atomic_load_explicit(&worker->callee, memory_order_acquire);
        const struct weir__work *object = atomic_load_explicit(&worker->object, memory_order_relaxed);

        weir__blocked_write_title(worker, is_callback ? worker->task : object, title, WEIR__BLOCKED_TITLE);
}

/* Exchanges the ownership word once.  Returns false if the callback has returned, or the worker is in a call of the library; then
 * *may_try_again tells the two apart.  *title becomes the title of the callback, unless it has one or there is NULL.
 *
 * What the title is made of belongs to the callback: the task with its name.  The worker frees it after the callback, and not
 * before it has looked at the word.  Here the word is RETAKING, and the fence was made.  So a callback that has not returned then
 * finds its worker's poller taken away when it returns, or when it calls the library; or weir_blocking_begin has given that away.
 * The worker passes `reading` on all these ways (weir__worker_await_reader), and this thread holds it.  Nobody else frees a task
 * while its callback runs. */
static bool
hand_over_once(struct weir__poller *poller, struct weir__worker *worker, unsigned seq, struct weir__worker *successor,
               char *title, bool *may_try_again)
{
        uintptr_t own = (uintptr_t)worker, retaking = own | WEIR__RETAKING;

        *may_try_again = false;
        if (!atomic_compare_exchange_strong_explicit(&poller->owner, &own, retaking, memory_order_acq_rel, memory_order_relaxed))
                return false;
        weir__fence_heavy();
        unsigned seen = atomic_load_explicit(&worker->callback_seq, memory_order_acquire);
        bool is_pinned = atomic_load_explicit(&worker->is_pinned, memory_order_acquire);
        uintptr_t next = seen == seq && !is_pinned ? (uintptr_t)successor : (uintptr_t)worker;
        if (seen == seq && title && !*title)
                write_title(worker, title);
        bool swapped = atomic_compare_exchange_strong_explicit(&poller->owner, &retaking, next, memory_order_acq_rel,
                                                               memory_order_relaxed);
        *may_try_again = seen == seq && is_pinned;
        return swapped && seen == seq && !is_pinned;
}

/* The same, until the worker is not in a call of the library.  Returns false if the callback has returned, or the worker stays
 * there.  For a successor that is the worker itself the poller stays where it is. */
static bool
hand_over(struct weir__poller *poller, struct weir__worker *worker, unsigned seq, struct weir__worker *successor, char *title)
{
        bool may_try_again = true, is_done = false;

        for (unsigned i = 0; i < RETAKE_TRIES && may_try_again; i++) {
                if (i)
                        (void)sched_yield(); /* it is in a short call of the library */
                weir__lock(&worker->reading);
                is_done = hand_over_once(poller, worker, seq, successor, title, &may_try_again);
                weir__unlock(&worker->reading);
        }
        return is_done;
}

/* -- notices -- */

static void *
log_notices(void *unused)
{
        (void)unused;
        pthread_setname_np(pthread_self(), "weir/message");
        weir__blocked_log_notices();
        atomic_store(&watchdog.is_logging, false);
        return NULL;
}

/* Logs the notices on a thread of their own, because all workers may be blocked; once in an interval.  If no thread can be made,
 * a worker logs them later. */
static void
log_on_thread(weir_nsec now)
{
        pthread_t thread;

        if (now < watchdog.log_after || atomic_exchange(&watchdog.is_logging, true))
                return;
        watchdog.log_after = now + WEIR__LOG_INTERVAL;
        if (weir__thread_make(&thread, log_notices, NULL))
                atomic_store(&watchdog.is_logging, false);
        else
                pthread_detach(thread);
}

/* There is nobody to take the poller: only says so. */
static void
cannot_retake(struct weir__poller *poller, struct snapshot *snapshot)
{
        struct weir__worker *worker = (struct weir__worker *)snapshot->owner;
        weir__function *function = atomic_load_explicit(&worker->function, memory_order_relaxed);
        char title[WEIR__BLOCKED_TITLE] = "";

        weir__trace_mark("finds no spare worker", "poller", poller->index);
        if (hand_over(poller, worker, snapshot->seq, worker, title) || *title)
                weir__blocked_leave_notice(WEIR__NO_IDLE_WORKER, poller->index, title, function);
        snapshot->since = weir__clock_monotonic();
        log_on_thread(snapshot->since);
}

static void
retake(struct weir__poller *poller, struct snapshot *snapshot)
{
        struct weir__worker *worker = (struct weir__worker *)snapshot->owner, *successor = weir__worker_pool_take();
        struct probe *probe = &snapshot->probe;
        bool is_degraded = atomic_load_explicit(&poller->watch.is_degraded, memory_order_relaxed);
        char title[WEIR__BLOCKED_TITLE] = "";

        watchdog.is_starved = !successor;
        if (!successor) {
                cannot_retake(poller, snapshot);
                return;
        }
        weir__function *blocked = atomic_load_explicit(&worker->function, memory_order_relaxed); /* if it is still in there */
        atomic_store_explicit(&worker->blocks_since, snapshot->since, memory_order_relaxed);
        successor->lost_at = weir__trace_now(atomic_load_explicit(&worker->track, memory_order_relaxed));
        if (!hand_over(poller, worker, snapshot->seq, successor, is_degraded ? NULL : title)) {
                atomic_store_explicit(&worker->blocks_since, 0, memory_order_relaxed);
                weir__worker_pool_put_back(successor);
                return;
        }
        atomic_fetch_add_explicit(&weir__worker_counts.retaken, 1, memory_order_relaxed);
        if (!is_degraded)
                weir__blocked_leave_notice(WEIR__TAKEN, poller->index, title, blocked); /* the successor logs it */
        weir__trace_mark("takes a poller away", "poller", poller->index);
        weir__worker_pool_call(successor, poller, is_degraded ? WEIR__CALL_TAKEN_SOON : WEIR__CALL_TAKEN, blocked);
        if (is_degraded && !probe->worker)
                *probe = (struct probe){worker, snapshot->seq, snapshot->since};
}

/* -- looking -- */

/* Ends the probe when its callback has returned, or has lasted for the long limit: then the poller stays degraded. */
static void
check_probe(struct weir__poller *poller, struct probe *probe, weir_nsec now)
{
        if (!probe->worker)
                return;
        unsigned seq = atomic_load_explicit(&probe->worker->callback_seq, memory_order_relaxed);
        if (seq == probe->seq && now - probe->since < watchdog.limit)
                return;
        if (seq == probe->seq)
                atomic_store_explicit(&poller->watch.degraded_until, now + WEIR__DEGRADED_PERIOD, memory_order_relaxed);
        probe->worker = NULL;
}

/* Asks the owner to give ready work to sleeping pollers, if its callbacks are long: it has begun few of them in that time. */
static void
ask_to_share(struct weir__poller *poller, unsigned begun, weir_nsec ran)
{
        unsigned count = begun / WEIR__SEQ_STEP;

        if (ran / (count ? count : 1) > watchdog.limit / 2 / SHORT_COUNT && weir__share_sleeper())
                atomic_store_explicit(&poller->ready.is_share_wanted, true, memory_order_relaxed);
}

/* By the owner, before any callback.  A poller that has slept for long is not degraded any more. */
static bool
is_still_degraded(struct weir__poller *poller, weir_nsec now)
{
        if (!atomic_load_explicit(&poller->watch.is_degraded, memory_order_relaxed))
                return false;
        bool still = poller->ready.demoted.first ||
                     now < atomic_load_explicit(&poller->watch.degraded_until, memory_order_relaxed);
        atomic_store_explicit(&poller->watch.is_degraded, still, memory_order_relaxed);
        return still;
}

/* The mark of a poller that sleeps may be out of date: it was set before the poller fell asleep. */
static bool
needs_short_limit(struct weir__poller *poller, bool is_asleep, weir_nsec now)
{
        return atomic_load_explicit(&poller->watch.is_degraded, memory_order_relaxed) &&
               !(is_asleep && now >= atomic_load_explicit(&poller->watch.degraded_until, memory_order_relaxed));
}

static void
take_snapshot(struct snapshot *snapshot, uintptr_t owner, unsigned seq, weir_nsec now)
{
        snapshot->owner = owner;
        snapshot->since = now;
        snapshot->seq = seq;
        weir__worker_note_seen((struct weir__worker *)owner, seq, now);
}

/* The pause before the next look, if only the probe needs one. */
static weir_nsec
until_probe(const struct probe *probe, weir_nsec now)
{
        weir_nsec left = watchdog.limit - (now - probe->since);

        return !probe->worker ? WEIR_FOREVER : left > DEGRADED_PAUSE ? left : DEGRADED_PAUSE;
}

/* The pause before the next look at an overdue poller.  It is short if the callback reaches its limit soon. */
static weir_nsec
until_limit(const struct snapshot *snapshot, weir_nsec now)
{
        weir_nsec left = watchdog.limit - (now - snapshot->since);

        return left > 0 && left < watchdog.pause ? left : watchdog.pause;
}

/* Returns the pause before the next look; WEIR_FOREVER: until the timer of the poller has fired. */
static weir_nsec
look_at(struct weir__poller *poller, weir_nsec now)
{
        struct snapshot *snapshot = &watchdog.snapshots[poller->index];
        uintptr_t owner = atomic_load_explicit(&poller->owner, memory_order_acquire);
        bool is_asleep = weir__poller_is_asleep(poller), has_tried = false;
        bool is_overdue = !is_asleep && atomic_load_explicit(&poller->watch.until, memory_order_relaxed) <= now;
        bool is_short = needs_short_limit(poller, is_asleep, now) && !watchdog.is_starved;

        check_probe(poller, &snapshot->probe, now);
        if (!owner)
                return WEIR_FOREVER;
        unsigned seq = atomic_load_explicit(&((struct weir__worker *)owner)->callback_seq, memory_order_acquire);
        if (!is_asleep && snapshot->overdue_at && owner == snapshot->owner)
                ask_to_share(poller, seq - snapshot->seq, now - snapshot->overdue_at);
        snapshot->overdue_at = is_overdue ? now : 0;
        if (owner != snapshot->owner || seq != snapshot->seq || !(seq & WEIR__SEQ_IN_USER)) {
                take_snapshot(snapshot, owner, seq, now);
        } else if (now - snapshot->since >= (is_short ? DEGRADED_LIMIT : watchdog.limit)) {
                retake(poller, snapshot);
                has_tried = true;
        }
        if (!is_overdue)
                return until_probe(&snapshot->probe, now);
        return (is_short || has_tried) && !watchdog.is_starved ? DEGRADED_PAUSE : until_limit(snapshot, now);
}

/* Looks at the pollers whose time has come.  Returns the time of the next look. */
static weir_nsec
look_around(weir_nsec now)
{
        weir_nsec next = WEIR_FOREVER;

        for (unsigned i = 0; i < weir__pollers_count(); i++) {
                if (watchdog.snapshots[i].next <= now)
                        watchdog.snapshots[i].next = weir__clock_after(now, look_at(weir__pollers.at[i], now));
                next = watchdog.snapshots[i].next < next ? watchdog.snapshots[i].next : next;
        }
        return next;
}

static void
sleep_until(weir_nsec next)
{
        weir_nsec left = next == WEIR_FOREVER ? 0 : next - weir__clock_monotonic();
        const struct timespec limit = {.tv_sec = left > 0 ? left / 1000000000 : 0, .tv_nsec = left > 0 ? left % 1000000000 : 0};
        struct pollfd fds[WEIR__POLLERS_MAX + 1];
        unsigned count = weir__pollers_count();
        uint64_t expirations;

        for (unsigned i = 0; i < count; i++)
                fds[i] = (struct pollfd){.fd = weir__pollers.at[i]->watch.timer_fd, .events = POLLIN};
        fds[count] = (struct pollfd){.fd = watchdog.stop_fd, .events = POLLIN};
        if (ppoll(fds, count + 1, next == WEIR_FOREVER ? NULL : &limit, NULL) <= 0)
                return;
        for (unsigned i = 0; i < count; i++)
                if (fds[i].revents && read(fds[i].fd, &expirations, sizeof expirations) > 0)
                        watchdog.snapshots[i].next = 0;
}

static void *
watch(void *unused)
{
        (void)unused;
        pthread_setname_np(pthread_self(), "weir/watchdog");
        for (weir_nsec next = WEIR_FOREVER; !atomic_load(&watchdog.should_stop); next = look_around(weir__clock_monotonic()))
                sleep_until(next);
        weir__trace_leave();
        return NULL;
}

/* -- the timers -- */

/* By the owner: the watchdog does not look at a poller whose rounds are short, though its callbacks may be long. */
static void
judge_callbacks(struct weir__poller *poller, weir_nsec now, unsigned seq)
{
        const struct weir__watch *watch = &poller->watch;
        weir_nsec ran = now - watch->since - watch->slept;

        if (watch->since && ran >= watch->slept)
                ask_to_share(poller, seq - watch->callback_seq, ran);
}

void
weir__watchdog_renew(struct weir__poller *poller, weir_nsec now, weir_nsec pause)
{
        struct weir__watch *watch = &poller->watch;
        unsigned seq = atomic_load_explicit(&weir__worker_self()->callback_seq, memory_order_relaxed);

        if (is_still_degraded(poller, now)) {
                pause = DEGRADED_PAUSE;
                if (now < atomic_load_explicit(&watch->until, memory_order_relaxed) - pause / 2)
                        return;
        }
        judge_callbacks(poller, now, seq);
        weir__clock_set_timer(watch->timer_fd, weir__clock_after(now, pause));
        atomic_store_explicit(&watch->until, weir__clock_after(now, pause), memory_order_relaxed);
        watch->since = now;
        watch->callback_seq = seq;
        watch->slept = 0;
}

void
weir__watchdog_disarm(struct weir__poller *poller)
{
        weir__clock_set_timer(poller->watch.timer_fd, WEIR_FOREVER);
        atomic_store_explicit(&poller->watch.until, 0, memory_order_relaxed);
}

/* Makes the first `count` timers.  Returns false when one cannot be made. */
static bool
open_timers(unsigned count)
{
        bool is_open = true;

        for (unsigned i = 0; i < count && is_open; i++) {
                weir__pollers.at[i]->watch.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
                is_open = weir__pollers.at[i]->watch.timer_fd >= 0;
        }
        return is_open;
}

/* While there are no workers.  Later a timer belongs to its poller, whose workers set it until they end: poller.c closes it. */
static void
close_timers(unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                if (weir__pollers.at[i]->watch.timer_fd >= 0)
                        close(weir__pollers.at[i]->watch.timer_fd);
                weir__pollers.at[i]->watch.timer_fd = -1;
        }
}

/* -- start and stop -- */

int
weir__watchdog_open(weir_nsec limit)
{
        watchdog.limit = weir__blocked_limit = limit ? limit : DEFAULT_LIMIT;
        watchdog.pause = watchdog.limit / 5 * 2 > DEGRADED_PAUSE ? watchdog.limit / 5 * 2 : DEGRADED_PAUSE;
        atomic_store(&watchdog.should_stop, false);
        for (unsigned i = 0; i < WEIR__POLLERS_MAX; i++)
                watchdog.snapshots[i] = (struct snapshot){.next = WEIR_FOREVER};
        watchdog.stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (watchdog.stop_fd < 0)
                return -errno;
        if (!open_timers(weir__pollers_count())) {
                int failed = -errno;

                close(watchdog.stop_fd);
                close_timers(weir__pollers_count());
                return failed;
        }
        atomic_store(&weir__watchdog_pause, watchdog.pause);
        return 0;
}

int
weir__watchdog_start(void)
{
        if (!weir__watchdog_pause)
                return 0;
        int failed = weir__thread_make(&watchdog.thread, watch, NULL);
        watchdog.is_running = !failed;
        if (failed)
                weir__watchdog_stop();
        return failed;
}

void
weir__watchdog_stop(void)
{
        if (!atomic_exchange(&weir__watchdog_pause, 0)) /* an owner that has read the pause may still set a timer, in vain */
                return;
        atomic_store(&watchdog.should_stop, true);
        eventfd_write(watchdog.stop_fd, 1);
        if (watchdog.is_running)
                pthread_join(watchdog.thread, NULL);
        watchdog.is_running = false;
        close(watchdog.stop_fd);
}

void
weir__watchdog_forked(void)
{
        atomic_store(&weir__watchdog_pause, 0);
        watchdog.is_running = false;
}
