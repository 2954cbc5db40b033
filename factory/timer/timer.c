/* factory/timer/timer.c: the protocol of a timer: start, expiry, cancel, shutdown, and its worker.
 *
 *                    .---------------reset: REARMED---------------.
 *                    v                                            |
 *     NEW --start--> PENDING --expiry, cancel, series, shutdown--> READY --worker--> RUNNING --> freed
 *      \--start, if it is to end at once---------------------------^
 *
 * Threads: any.
 * Locks:   the one by which others find a timer: that of its name's shard (rank NAMES), or for an id the poller's.  Then the
 *          poller's (rank POLLER).  The worker takes the first one before it frees the timer.
 *
 * start       under the poller's lock: inserts the node and writes PENDING.  If the timer is CANCELLED, its series has a cause,
 *             or the poller is closing, it writes READY with that status, and delivers the timer after unlocking.
 * cancel      NEW: under the poller's lock, writes CANCELLED; start or dismiss completes it.  PENDING: compare-and-swaps READY,
 *             CANCELLED and QUEUED into the word, and delivers the timer after unlocking.  READY, or
 *             a ticker in a tick: compare-and-swaps CANCELLED into the word.  RUNNING otherwise: comes too late.  Under the
 *             lock of the name's shard the timer then becomes a zombie.
 * reset       timer_reset.c, under the poller's lock.
 * series      under the series' lock, which keeps the timer alive, then the poller's: compare-and-swaps READY into a PENDING
 *             one.  A start reads the cause of its series under the poller's lock.  For a READY timer the worker reads it.
 * expiry, shutdown   under the poller's lock: takes the node out, and compare-and-swaps READY into a PENDING timer.
 * worker      QUEUED: under the poller's lock, takes out its node and those of the QUEUED timers that run next.  REARMED: under
 *             the poller's lock, writes PENDING, unless there is a reason to end.  Otherwise: compare-and-swaps RUNNING.
 *
 * The thread that turns PENDING into READY owns the delivery, so there is exactly one.  test/model has the models, with the
 * orders that do not work as their mutants. */
#include "factory/timer/timer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "factory/task/series.h"
#include "kernel/base/clock.h"
#include "kernel/base/phase.h"
#include "kernel/base/list.h"
#include "kernel/data/duration.h"
#include "kernel/loop/pollers.h"
#include "kernel/memory/memory.h"
#include "kernel/data/prefetch.h"
#include "kernel/worker/deliver.h"
#include "kernel/worker/worker.h"

#define TAKEN_OUT_AT_ONCE 32

#ifndef BULK_MIN     /* cmake/ablate.cmake sets it to SIZE_MAX */
#define BULK_MIN 128 /* timers; so many are delivered in bulk */
#endif

/* Writes the word without a compare-and-swap.  Allowed for a NEW timer under the poller's lock, and for a timer that is CANCELLED
 * and started on its worker. */
static void
set_word(struct weir__timer *timer, uint32_t word)
{
        atomic_store_explicit(&timer->task.word, word, memory_order_release);
}

/* PENDING -> READY: the caller owns the delivery if it returns true. */
static bool
make_ready(struct weir__timer *timer, uint32_t flags)
{
        uint32_t word = WEIR__PENDING;

        return weir__timer_swap(timer, &word, WEIR__READY | flags);
}

/* Adds the timer to the queue.  Returns whether the poller is to be woken.  Under the poller's lock. */
static inline __attribute__((__always_inline__)) bool
add(struct weir__timer *timer, struct weir__poller *poller, weir_nsec deadline, weir_nsec now)
{
        if (__builtin_expect(weir__timer_ops(timer)->is_clock_timer, 0))
                return weir__timer_add_clock_timer(timer, poller, now);
        return weir__deadlines_add(poller, &timer->node, weir__timer_fix_deadline(timer, deadline, now), now);
}

/* The same for a timer that was reset when it was READY.  The reset has given it its sequence, and its place among those that are
 * due. */
static bool
add_again(struct weir__timer *timer, struct weir__poller *poller, weir_nsec now)
{
        if (__builtin_expect(weir__timer_ops(timer)->is_clock_timer, 0))
                return weir__timer_add_clock_timer_again(timer, poller, timer->node.deadline < now ? timer->node.deadline : now);
        return weir__deadlines_add_in_sequence(poller, &timer->node, weir__timer_fix_deadline(timer, timer->node.deadline, now));
}

/* -- start -- */

/* The timer was made before there were pollers, or has survived a shutdown unstarted.  Other threads may
 * have found it by name or by id.  Both locks wait for them before the timer moves. */
void
weir__timer_rebind(struct weir__timer *timer)
{
        if (__builtin_expect(timer->task.poller < weir__pollers_count(), 1))
                return;
        struct weir__name *name = weir__timer_name(timer);
        struct weir__names_shard *shard = name ? weir__names_lock(&weir__timer_names, name->hash) : NULL;
        struct weir__poller *former = weir__timer_poller(timer);

        weir__lock(&former->lock);
        weir__timer_give_up_id(timer, former);
        weir__task_set_poller(&timer->task, weir__poller_at(timer->task.poller)->index);
        weir__unlock(&former->lock);
        if (shard)
                weir__names_unlock(shard);
}

/* The status with which the timer ends at once instead of waiting for its deadline, or 0.  Under the poller's lock. */
static int
reason_to_end(const struct weir__timer *timer, const struct weir__poller *poller)
{
        int verdict = weir__series_verdict(timer->task.series);

        return verdict ? verdict : poller->deadlines.is_closing ? -ESHUTDOWN : 0;
}

/* The word after the start: PENDING, or READY with the reason in the status.  Under the poller's lock. */
static uint32_t
first_word(struct weir__timer *timer, const struct weir__poller *poller)
{
        if (weir__timer_word(timer) & WEIR__CANCELLED)
                return WEIR__READY | WEIR__CANCELLED;
        timer->task.status = reason_to_end(timer, poller);
        return timer->task.status ? WEIR__READY : WEIR__PENDING;
}

/* When a timer that is started now is due.  Under the poller's lock. */
static inline weir_nsec
first_deadline(const struct weir__timer *timer, bool is_until, weir_nsec now)
{
        weir_nsec deadline = timer->node.deadline;

        if (!is_until)
                return weir__clock_after(now, deadline);
        return deadline > now ? deadline : now; /* so it ends after timers that are due already */
}

static inline __attribute__((__always_inline__)) void
start(struct weir_task *task, bool is_until)
{
        struct weir__timer *timer = (struct weir__timer *)task;
        bool wake = false;

        weir__timer_rebind(timer);
        struct weir__poller *poller = weir__timer_poller(timer);
        weir_nsec now = weir__clock_now();
        weir__lock(&poller->lock);
        uint32_t word = first_word(timer, poller);
        if (word == WEIR__PENDING)
                wake = add(timer, poller, first_deadline(timer, is_until, now), now);
        set_word(timer, word);
        weir__unlock(&poller->lock);
        /* From here on a PENDING timer may be gone. */
        if (word != WEIR__PENDING)
                weir__deliver(poller, &task->work);
        else if (wake)
                weir__poller_wake(poller);
}

void
weir__timer_start(struct weir_task *task)
{
        start(task, false);
}

void
weir__timer_start_until(struct weir_task *task)
{
        start(task, true);
}

/* -- expiry and shutdown: the poller has taken the node out, under its lock -- */

/* Whether the clock of a clock timer was put back, and nobody has noticed it yet.  Then the timer goes back into the queue. */
static __attribute__((noinline)) bool
is_put_back(struct weir__timer *timer)
{
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);

        if (!weir__clock_timer_has_come(clock_timer)) {
                /* Also if it is cancelled now. */
                weir__timer_add_clock_timer_again(timer, weir__timer_poller(timer), weir__clock_now());
                return true;
        }
        if (timer->node.deadline < clock_timer->computed)
                timer->node.deadline = clock_timer->computed; /* a clock change has passed it: it is late from then on */
        return false;
}

struct weir__work *
weir__timer_due(struct weir__timer *timer, int status)
{
        if (__builtin_expect(weir__timer_ops(timer)->is_clock_timer, 0) && !status && is_put_back(timer))
                return NULL;
        weir__prefetch(timer->task.series, sizeof *timer->task.series);
        timer->node.note = timer->node.deadline; /* a reset that comes too late may change the deadline */
        if (!make_ready(timer, status ? 0 : WEIR__EXPIRED))
                return NULL; /* a cancel by name or id was faster, and delivers it */
        timer->task.status = status;
        return &timer->task.work;
}

static struct weir__work *
node_due(struct weir__timerq_node *node, int status)
{
        struct weir__timer *timer = weir__container_of(node, struct weir__timer, node);

        if (__builtin_expect(weir__task_ops(&timer->task)->due != NULL, 0))
                return weir__task_ops(&timer->task)->due(&timer->task, status);
        return weir__timer_due(timer, status);
}

void
weir__timer_init_limit(struct weir__timer *timer, weir_nsec limit)
{
        timer->node = (struct weir__timerq_node){.deadline = limit, .kind = WEIR__DEADLINE_TASK};
}

static void
prepare(void)
{
        weir__deadlines_on_due(WEIR__DEADLINE_TASK, node_due);
}

WEIR__STEPS_OF(WEIR__MODULE_TIMERS, [WEIR__STEP_LOAD] = prepare);

/* -- cancel -- */

/* A ticker can be cancelled in a tick: its worker sees the flag after the tick. */
static bool
cancel_started(struct weir__timer *timer, struct weir__work_list *taken)
{
        uint32_t word = weir__timer_word(timer);

        /* One loop for both states: a reset may bring the timer from one to the other. */
        for (;;) {
                bool pending = (word & WEIR__STATE) == WEIR__PENDING;

                if (!pending && (word & (WEIR__STATE | WEIR__CANCELLED)) != WEIR__READY && !weir__timer_is_ticking(timer, word))
                        return false;
                if (!weir__timer_swap(timer, &word,
                                      pending ? WEIR__READY | WEIR__CANCELLED | WEIR__QUEUED : word | WEIR__CANCELLED))
                        continue;
                if (pending)
                        weir__work_append(taken, &timer->task.work);
                return true;
        }
}

/* Under the poller's lock, as the decisive step of the start. */
static bool
cancel_new(struct weir__timer *timer)
{
        if (weir__timer_word(timer) != WEIR__NEW)
                return false;
        set_word(timer, WEIR__NEW | WEIR__CANCELLED);
        return true;
}

/* This reads the poller without its lock.  The caller holds the lock by which it has found the timer.  weir__timer_rebind takes
 * that lock before a change. */
bool
weir__timer_mark_cancelled(struct weir__timer *timer, bool is_poller_locked, struct weir__work_list *taken)
{
        bool was_new = false;

        if ((weir__timer_word(timer) & WEIR__STATE) == WEIR__NEW) {
                struct weir__poller *poller = weir__timer_poller(timer);

                if (!is_poller_locked)
                        weir__lock(&poller->lock);
                was_new = cancel_new(timer);
                if (!is_poller_locked)
                        weir__unlock(&poller->lock);
        }
        return was_new || cancel_started(timer, taken);
}

/* Bulk delivery.  A cancel of a million timers does not delay other ready work then, and the pollers take no timer one by one. */
static void
deliver_bulk(struct weir__work_list *taken)
{
        struct weir__work_list bulk[WEIR__POLLERS_MAX] = {0};

        for (struct weir__work *work; (work = weir__work_pop(taken));)
                weir__work_append(&bulk[((struct weir__timer *)work)->task.poller], work);
        for (unsigned i = 0; i < WEIR__POLLERS_MAX; i++)
                if (bulk[i].first)
                        weir__deliver_bulk(weir__pollers.at[i], &bulk[i]);
}

void
weir__timer_deliver(struct weir__work_list *taken, size_t count)
{
        if (count >= BULK_MIN) {
                deliver_bulk(taken);
                return;
        }
        for (struct weir__work *work; (work = weir__work_pop(taken));)
                weir__deliver(weir__timer_poller((struct weir__timer *)work), work);
}

/* After this a READY timer cannot be reset.  It sees the cause of its series when its callback begins. */
static void
forbid_reset(struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer);

        while ((word & WEIR__STATE) == WEIR__READY && word & WEIR__EXPIRED)
                if (weir__timer_swap(timer, &word, word & ~(uint32_t)WEIR__EXPIRED))
                        return;
}

/* Locks the poller of the timer; a start may be moving the timer to another one. */
static struct weir__poller *
lock_present_poller(struct weir__timer *timer)
{
        for (;;) {
                struct weir__poller *poller = weir__timer_poller(timer);

                weir__lock(&poller->lock);
                if (poller == weir__timer_poller(timer))
                        return poller;
                weir__unlock(&poller->lock);
        }
}

/* Its series ends early; under the lock of the series. */
struct weir_task *
weir__timer_end_early(struct weir_task *task)
{
        struct weir__timer *timer = (struct weir__timer *)task;
        struct weir__poller *poller = lock_present_poller(timer);
        bool taken = make_ready(timer, 0);

        if (taken) {
                weir__timerq_remove(&poller->deadlines.queue, &timer->node);
                task->status = weir__series_effective_cause(task->series);
        } else {
                forbid_reset(timer);
                if (weir__timer_ticker(timer))
                        atomic_store_explicit(&weir__timer_ticker(timer)->is_last, true, memory_order_relaxed);
        }
        weir__unlock(&poller->lock);
        return taken ? task : NULL;
}

/* -- on a worker -- */

/* Finds the timer and those behind it on its ready list whose nodes are in the queue of the same poller.  Returns how many. */
static unsigned
gather_queued(struct weir__timer *timer, const struct weir__poller *poller, struct weir__timer *timers[TAKEN_OUT_AT_ONCE])
{
        const struct weir__poller *own = weir__worker_self()->poller;
        struct weir__work *work = timer->task.work.next; /* stale if it was the last of its list */
        unsigned count = 0;

        if (!own || (work != own->ready.items.first && work != own->ready.bulk.first))
                work = NULL;

        timers[count++] = timer;
        for (unsigned i = 1; work && i < TAKEN_OUT_AT_ONCE; i++, work = work->next) {
                timer = (struct weir__timer *)work;
                if (work->ops->run == weir__timer_run && weir__timer_word(timer) & WEIR__QUEUED &&
                    weir__timer_poller(timer) == poller)
                        timers[count++] = timer;
        }
        return count;
}

/* Takes out the node of a cancelled timer, and the nodes of others that run soon.  Their neighbours in the
 * lists lie anywhere in memory, so all of them are prefetched first. */
static void
take_out(struct weir__timer *timer)
{
        struct weir__poller *poller = weir__timer_poller(timer);
        struct weir__timer *timers[TAKEN_OUT_AT_ONCE];
        unsigned count = gather_queued(timer, poller, timers);

        weir__lock(&poller->lock);
        for (unsigned i = 0; i < count && count > 1; i++)
                weir__timerq_prefetch(&timers[i]->node);
        for (unsigned i = 0; i < count; i++) {
                if (weir__timerq_contains(&timers[i]->node)) /* it may have expired since */
                        weir__timerq_remove(&poller->deadlines.queue, &timers[i]->node);
                set_word(timers[i], WEIR__READY | WEIR__CANCELLED);
        }
        weir__unlock(&poller->lock);
}

bool
weir__timer_rearm(struct weir__timer *timer, uint32_t word)
{
        struct weir__poller *poller = weir__timer_poller(timer);
        bool is_ticking = weir__timer_is_ticking(timer, word);
        struct weir__name *name = is_ticking ? weir__timer_name(timer) : NULL;
        struct weir__names_shard *shard = name ? weir__names_lock(&weir__timer_names, name->hash) : NULL;
        weir_nsec now = weir__clock_now();
        bool wake = false, pends = false;

        weir__lock(&poller->lock);
        int status = reason_to_end(timer, poller);
        if (status) {
                timer->task.status = status;
        } else {
                wake = is_ticking ? add(timer, poller, weir__timer_ops(timer)->ticks->next(timer, now), now)
                                  : add_again(timer, poller, now);
                pends = weir__timer_swap(timer, &word, WEIR__PENDING);
                if (!pends) /* it has just been cancelled */
                        weir__timerq_remove(&poller->deadlines.queue, &timer->node);
        }
        weir__unlock(&poller->lock);
        if (shard) {
                if (pends)
                        weir__names_pass(shard, name); /* waits for this tick do not last until the next one */
                weir__names_unlock(shard);
        }
        if (wake)
                weir__poller_wake(poller);
        return pends;
}

/* Just before the callback of a timer that has expired. */
static void
count_lateness(struct weir__timer *timer)
{
        struct weir__poller *poller = weir__worker_self()->poller;

        timer->node.note = weir__clock_now() - timer->node.note;
        if (poller)
                weir__histogram_add(&poller->lateness, timer->node.note);
}

void
weir__timer_take_verdict(struct weir__timer *timer, uint32_t word)
{
        int verdict = word & WEIR__CANCELLED ? -ECANCELED : weir__series_verdict(timer->task.series);

        if (verdict)
                timer->task.status = verdict;
}

/* The timer was pinned when it was on its way here.  From now on the thread that has pinned it owns the delivery.  Returns false,
 * with the present word, if that thread has let it go. */
static __attribute__((noinline)) bool
leave_to_pin(struct weir__timer *timer, uint32_t *word)
{
        while (*word & WEIR__PINNED)
                if (weir__timer_swap(timer, word, *word & ~(uint32_t)WEIR__PINNED))
                        return true;
        return false;
}

/* READY -> RUNNING, with the status for the callback; or back to PENDING.  Returns whether the callback begins. */
static bool
begin(struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer);

        if (word & WEIR__QUEUED)
                take_out(timer);
        while ((word & (WEIR__CANCELLED | WEIR__PINNED)) != WEIR__CANCELLED) {
                if (__builtin_expect(word & WEIR__PINNED, 0)) {
                        if (leave_to_pin(timer, &word))
                                return false;
                        continue;
                }
                if (__builtin_expect(word & WEIR__REARMED, 0) && weir__timer_rearm(timer, word))
                        return false;
                if (weir__timer_swap(timer, &word, (word & ~(uint32_t)WEIR__STATE) | WEIR__RUNNING))
                        break;
        }
        if (word & WEIR__CANCELLED) /* no other thread changes it any more */
                set_word(timer, WEIR__RUNNING | WEIR__CANCELLED);
        weir__timer_take_verdict(timer, word);
        if (weir__timer_has_expired(timer))
                count_lateness(timer);
        return true;
}

/* Gives up everything but the memory: after this no id, no clock change and no name leads to the timer. */
static inline void
leave(struct weir__timer *timer)
{
        struct weir__name *name = weir__timer_name(timer);
        struct weir__clock_timer *clock_timer = weir__timer_clock_part(timer);

        if (timer->task.handle || clock_timer) {
                struct weir__poller *poller = weir__timer_poller(timer);

                weir__lock(&poller->lock);
                weir__timer_give_up_id(timer, poller);
                if (clock_timer)
                        weir__clock_timer_remove(clock_timer);
                weir__unlock(&poller->lock);
        }
        if (weir__timer_ops(timer)->ticks)
                weir__timer_ops(timer)->ticks->drop(timer);
        if (name)
                weir__names_remove(&weir__timer_names, name);
}

void
weir__timer_run(struct weir__work *work)
{
        struct weir__timer *timer = (struct weir__timer *)work;
        const struct weir__ticker_ops *ticks = weir__timer_ops(timer)->ticks;

        if (!begin(timer) || (ticks && ticks->tick(timer)))
                return;
        weir__task_call_back(&timer->task);
        weir__task_leave(&timer->task);
        struct weir_series *series = timer->task.series;
        leave(timer);
        weir__task_free(&timer->task);
        weir__task_go_on(series);
}

/* -- for other rooms: struct weir__task_ops -- */

void
weir__timer_release(struct weir_task *task, bool discarded)
{
        (void)discarded;
        if (!weir__phase_is_forked())
                leave((struct weir__timer *)task);
}

const char *
weir__timer_text(const struct weir_task *task, int *size)
{
        const struct weir__name *name = weir__timer_name((struct weir__timer *)task);

        *size = name ? name->size : 0;
        return name ? name->text : NULL;
}

weir_nsec
weir__timer_lateness(const struct weir_task *task)
{
        const struct weir__timer *timer = (const struct weir__timer *)task;

        return weir__timer_has_expired(timer) ? timer->node.note : -ENODATA;
}

/* Says when it is due, and whether another clock decides that. */
void
weir__timer_describe(const struct weir_task *task, char *out, size_t room)
{
        struct weir__timer *timer = (struct weir__timer *)task;
        char left[WEIR__DURATION_SIZE];

        struct weir__poller *poller = lock_present_poller(timer);
        uint32_t word = weir__timer_word(timer);
        weir_nsec deadline = timer->node.deadline, due_in = deadline - weir__clock_now();
        weir__unlock(&poller->lock);
        *out = '\0';
        if ((word & WEIR__STATE) != WEIR__PENDING)
                return;
        if (deadline == WEIR_FOREVER)
                snprintf(out, room, "never due");
        else
                snprintf(out, room, due_in < 0 ? "due %s ago%s" : "due in %s%s", weir__duration(left, due_in),
                         weir__timer_ops(timer)->is_clock_timer ? ", by another clock" : "");
}
