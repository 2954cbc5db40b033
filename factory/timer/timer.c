/* factory/timer/timer.c: timers, and the protocol by which start, expiry, reset, cancel and shutdown agree on what becomes of one.
 *
 *                              .---------reset: REARMED-----------.
 *                              v                                  |
 *     NEW --start--> PENDING --expiry, cancel, shutdown--> READY --worker--> RUNNING --> (ENDED -->) freed
 *      \--cancelled before: start-------------------------^
 *
 * Threads: any.
 * Locks:   by which others find a timer: the shard's of its name (rank NAMES), or the poller's for its id.  Then the poller's
 *          (rank POLLER).  The worker passes through the first before it frees the timer.
 *
 * start       under the poller's lock: inserts, PENDING; or, when it is CANCELLED, its series is or the poller closing, READY
 *             with that status, and delivers it after unlocking.
 * cancel      NEW -> CANCELLED, under the poller's lock; start or dismiss completes it.  Then compare-and-swaps READY, CANCELLED
 *             and QUEUED into a PENDING one, and delivers it after unlocking; CANCELLED into a READY one; RUNNING -> too late.
 *             What is cancelled leaves its name for the list of ending timers, under the same lock.
 * reset       under the poller's lock: NEW -> writes the duration; PENDING -> gives the node another deadline; READY because it
 *             EXPIRED -> writes the deadline, compare-and-swaps REARMED into it; else too late.
 * series      under the series' lock, which keeps the timer alive, then the poller's: compare-and-swaps READY into a PENDING one.
 *             One that is about to be started looks at its series under the same lock, one that is READY when its callback
 *             begins.
 * expiry, shutdown   the poller, under its lock, takes out the node, and compare-and-swaps READY into a PENDING timer.
 * worker      QUEUED -> takes the node out, under the poller's lock, together with those of its next timers.  REARMED -> under
 *             the poller's lock, looks for a cause to end after all; else PENDING.  Not REARMED -> compare-and-swaps RUNNING
 *             into it.
 *
 * Who turns PENDING into READY owns the delivery, so there is exactly one.  One that was cancelled by name is ENDED when its
 * callback and on_free have returned, and buried some time later, together with others.  test/model has the models of this, with
 * the orders that do not work as their mutants. */
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
#include "kernel/sched/deliver.h"
#include "kernel/sched/worker.h"

#define TAKEN_OUT_AT_ONCE 32
#define CROWD             128 /* timers that are delivered as one */

/* Where nobody else does: a NEW one's under the poller's lock; once it is CANCELLED and started, its worker alone. */
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

/* Under the poller's lock: its id finds nothing any more. */
static void
give_up_id(struct weir__timer *timer, struct weir__poller *poller)
{
        if (timer->task.handle)
                weir__handles_give(&poller->handles, timer->task.handle);
        timer->task.handle = 0;
}

/* To the queue.  Under the poller's lock; returns whether the poller is to be woken. */
static bool
add(struct weir__timer *timer, struct weir__poller *poller, weir_nsec deadline, weir_nsec now)
{
        if (__builtin_expect(weir__timer_ops(timer)->follows, 0))
                return weir__timer_add_follower(timer, poller, now);
        return weir__deadlines_add(poller, &timer->node, weir__timer_round(timer, deadline, now), now);
}

/* One that was reset when it was READY, which has its place among equal deadlines since then. */
static bool
add_again(struct weir__timer *timer, struct weir__poller *poller, weir_nsec now)
{
        if (__builtin_expect(weir__timer_ops(timer)->follows, 0))
                return weir__timer_add_follower(timer, poller, now);
        return weir__deadlines_add_in_turn(poller, &timer->node, weir__timer_round(timer, timer->node.deadline, now));
}

/* -- start -- */

/* It was made before there were pollers, or has outlived a shutdown unstarted and finds that its poller has no worker any more.
 * Who has found it, by name or by id, and acts under the lock of that poller, is waited for. */
void
weir__timer_settle(struct weir__timer *timer)
{
        if (__builtin_expect(timer->task.poller < weir__pollers_count(), 1))
                return;
        struct weir__name *name = weir__timer_name(timer);
        struct weir__names_shard *shard = name ? weir__names_lock(&weir__timer_names, name->hash) : NULL;
        struct weir__poller *former = weir__timer_poller(timer);

        weir__lock(&former->lock);
        give_up_id(timer, former);
        timer->task.poller = (uint8_t)weir__poller_at(timer->task.poller)->index;
        weir__unlock(&former->lock);
        if (shard)
                weir__names_unlock(shard);
}

/* What becomes of it: PENDING, or READY because it must not become that.  Under the poller's lock. */
static uint32_t
first_word(struct weir__timer *timer, const struct weir__poller *poller)
{
        if (weir__timer_word(timer) & WEIR__CANCELLED)
                return WEIR__READY | WEIR__CANCELLED;
        int verdict = weir__series_verdict(timer->task.series);
        timer->task.status = verdict ? verdict : poller->deadlines.closing ? -ESHUTDOWN : 0;
        return timer->task.status ? WEIR__READY : WEIR__PENDING;
}

void
weir__timer_start(struct weir_task *task)
{
        struct weir__timer *timer = (struct weir__timer *)task;
        bool wake = false;

        weir__timer_settle(timer);
        struct weir__poller *poller = weir__timer_poller(timer);
        weir_nsec now = weir__clock_now();
        weir__lock(&poller->lock);
        uint32_t word = first_word(timer, poller);
        if (word == WEIR__PENDING)
                wake = add(timer, poller, weir__clock_after(now, timer->node.deadline), now);
        set_word(timer, word);
        weir__unlock(&poller->lock);
        /* From here on the timer may be gone, unless it is ours to deliver. */
        if (word != WEIR__PENDING)
                weir__deliver(poller, &task->work);
        else if (wake)
                weir__poller_wake(poller);
}

/* -- expiry and shutdown: the poller has taken the node out, under its lock -- */

/* Of one that follows a clock: whether that was put back, which nobody has said yet.  It goes back into the queue then. */
static __attribute__((noinline)) bool
is_put_back(struct weir__timer *timer)
{
        struct weir__follower *follower = weir__timer_follower(timer);

        if (!weir__follow_has_come(follower)) {
                weir__timer_add_follower(timer, weir__timer_poller(timer), weir__clock_now()); /* a cancel takes it out */
                return true;
        }
        if (timer->node.deadline < follower->computed)
                timer->node.deadline = follower->computed; /* a jump has passed it: it is late from then on */
        return false;
}

static struct weir__work *
timer_due(struct weir__timerq_node *node, int status)
{
        struct weir__timer *timer = weir__container_of(node, struct weir__timer, node);

        if (__builtin_expect(weir__task_ops(&timer->task)->due != NULL, 0))
                return weir__task_ops(&timer->task)->due(&timer->task, status);
        if (__builtin_expect(weir__timer_ops(timer)->follows, 0) && !status && is_put_back(timer))
                return NULL;
        weir__prefetch(timer->task.series, sizeof *timer->task.series); /* of a batch all, while the first ones are run */
        node->note = node->deadline;                                    /* which a reset may change that comes too late */
        if (!make_ready(timer, status ? 0 : WEIR__EXPIRED))
                return NULL; /* a cancel by name was before, and has delivered it */
        timer->task.status = status;
        return &timer->task.work;
}

static void
prepare(void)
{
        weir__deadlines_on_due(WEIR__DEADLINE_TIMER, timer_due);
}

WEIR__STEPS_OF(WEIR__MODULE_TIMERS, [WEIR__STEP_LOAD] = prepare);

/* -- cancel -- */

/* One whose start is over.  Of a ticker also during a tick, at whose end its worker looks. */
static bool
end(struct weir__timer *timer, struct weir__work_list *taken)
{
        uint32_t word = weir__timer_word(timer);

        /* One loop for both states: a reset may bring it from one to the other meanwhile. */
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

/* One that is not started; its start does its step under the same lock.  Under the poller's lock. */
static bool
cancel_new(struct weir__timer *timer)
{
        if (weir__timer_word(timer) != WEIR__NEW)
                return false;
        set_word(timer, WEIR__NEW | WEIR__CANCELLED);
        return true;
}

bool
weir__timer_cancel_locked(struct weir__timer *timer, struct weir__work_list *taken)
{
        return cancel_new(timer) || end(timer, taken);
}

/* Its poller is read without that one's lock: a settle takes the lock by which the timer was found first. */
bool
weir__timer_cancel(struct weir__timer *timer, struct weir__work_list *taken)
{
        bool was_new = false;

        if ((weir__timer_word(timer) & WEIR__STATE) == WEIR__NEW) {
                struct weir__poller *poller = weir__timer_poller(timer);

                weir__lock(&poller->lock);
                was_new = cancel_new(timer);
                weir__unlock(&poller->lock);
        }
        return was_new || end(timer, taken);
}

/* A cancel of a million timers must not hold up what else becomes ready, nor have its pollers take them up one by one. */
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
        if (count >= CROWD) {
                deliver_bulk(taken);
                return;
        }
        for (struct weir__work *work; (work = weir__work_pop(taken));)
                weir__deliver(weir__timer_poller((struct weir__timer *)work), work);
}

/* One that is READY sees the cause of its series when its callback begins; it cannot be reset any more. */
static void
forbid_reset(struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer);

        while ((word & WEIR__STATE) == WEIR__READY && word & WEIR__EXPIRED)
                if (weir__timer_swap(timer, &word, word & ~(uint32_t)WEIR__EXPIRED))
                        return;
}

/* Its start may be moving it to another poller. */
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

/* By the series, under its lock. */
struct weir_task *
weir__timer_end_early(struct weir_task *task)
{
        struct weir__timer *timer = (struct weir__timer *)task;
        struct weir__poller *poller = lock_present_poller(timer);
        bool taken = make_ready(timer, 0);

        if (taken) {
                weir__timerq_remove(&poller->deadlines.queue, &timer->node);
                give_up_id(timer, poller);
                task->status = weir__series_cause(task->series);
        } else {
                forbid_reset(timer);
                if (weir__timer_ops(timer)->ticks)
                        weir__timer_ops(timer)->ticks->end(timer);
        }
        weir__unlock(&poller->lock);
        return taken ? task : NULL;
}

/* -- on a worker -- */

/* A timer and those behind it on its list whose nodes are in the queue of that poller still.  Returns how many. */
static unsigned
gather_queued(struct weir__timer *timer, const struct weir__poller *poller, struct weir__timer *timers[TAKEN_OUT_AT_ONCE])
{
        const struct weir__poller *own = weir__worker_self()->poller;
        struct weir__work *work = timer->task.work.next; /* if it was not the last of its list */
        unsigned count = 0;

        if (!own || (work != own->ready.works.first && work != own->ready.bulk.first))
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

/* Takes out the node of a timer that was cancelled, and those of others that will run soon: their neighbours, which lie anywhere
 * in memory, are fetched all at the same time. */
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
                give_up_id(timers[i], poller);
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
        int verdict = weir__series_verdict(timer->task.series), status = verdict ? verdict : poller->deadlines.closing ? -ESHUTDOWN : 0;
        if (status) {
                timer->task.status = status;
        } else {
                wake = is_ticking
                               ? add(timer, poller, weir__timer_ops(timer)->ticks->next(timer, now), now)
                               : add_again(timer, poller, now);
                pends = weir__timer_swap(timer, &word, WEIR__PENDING);
                if (!pends) /* it has just been cancelled */
                        weir__timerq_remove(&poller->deadlines.queue, &timer->node);
        }
        weir__unlock(&poller->lock);
        if (shard) {
                if (pends)
                        weir__names_pass(shard, name); /* who waits for this tick need not wait for the next one */
                weir__names_unlock(shard);
        }
        if (wake)
                weir__poller_wake(poller);
        return pends;
}

/* Just before its callback, of one that has expired. */
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

/* READY -> RUNNING, with the status that the callback sees; or back to PENDING.  Returns whether the callback begins. */
static bool
begin(struct weir__timer *timer)
{
        uint32_t word = weir__timer_word(timer);

        if (word & WEIR__QUEUED)
                take_out(timer);
        while (!(word & WEIR__CANCELLED)) {
                if (__builtin_expect(word & WEIR__REARMED, 0) && weir__timer_rearm(timer, word))
                        return false;
                if (weir__timer_swap(timer, &word, (word & ~(uint32_t)WEIR__STATE) | WEIR__RUNNING))
                        break;
        }
        if (word & WEIR__CANCELLED) /* nobody else changes it any more */
                set_word(timer, WEIR__RUNNING | WEIR__CANCELLED);
        weir__timer_take_verdict(timer, word);
        if (weir__timer_has_expired(timer))
                count_lateness(timer);
        return true;
}

/* Its id leads to it no more, and no jump of a clock. */
static void
leave(struct weir__timer *timer)
{
        struct weir__follower *follower = weir__timer_follower(timer);

        if (timer->task.handle || follower) {
                struct weir__poller *poller = weir__timer_poller(timer);

                weir__lock(&poller->lock);
                give_up_id(timer, poller);
                if (follower)
                        weir__follow_end(follower);
                weir__unlock(&poller->lock);
        }
        if (weir__timer_ops(timer)->ticks)
                weir__timer_ops(timer)->ticks->drop(timer);
}

void
weir__timer_run(struct weir__work *work)
{
        struct weir__timer *timer = (struct weir__timer *)work;
        const struct weir__ticker_ops *ticks = weir__timer_ops(timer)->ticks;

        if (!begin(timer) || (ticks && ticks->tick(timer)))
                return;
        weir__task_call_back(&timer->task);
        weir__task_finish(&timer->task);
}

/* -- making and dismissing -- */

void
weir__timer_release(struct weir_task *task, bool discarded)
{
        struct weir__timer *timer = (struct weir__timer *)task;
        struct weir__name *name = weir__timer_name(timer);

        (void)discarded;
        if (weir__phase_is_forked())
                return;
        leave(timer);
        if (name)
                weir__names_remove(&weir__timer_names, name);
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

/* When it is due, and by which clock. */
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
                         weir__timer_ops(timer)->follows ? ", by another clock" : "");
}

#define OPS(is_named, is_follower) WEIR__TIMER_OPS("a timer", is_named, is_follower, NULL)

/* Whether it follows, has a name. */
static const struct weir__timer_ops timer_ops[2][2] = {{OPS(false, false), OPS(true, false)},
                                                       {OPS(false, true), OPS(true, true)}};

struct weir__timer *
weir__timer_of_task(struct weir_task *task)
{
        return task && task->work.ops->run == weir__timer_run ? (struct weir__timer *)task : NULL;
}

static void
init(struct weir__timer *timer, const struct weir__timer_ops *ops, size_t size, weir_nsec after, weir_task_fn *done,
     void *context)
{
        weir__task_init(&timer->task, &ops->task, size, done, context);
        timer->task.slack = weir__pollers.timer_slack;
        timer->node = (struct weir__timerq_node){.deadline = after, .kind = WEIR__DEADLINE_TIMER};
}

static size_t
size_of(const struct weir__timer_plan *plan)
{
        return plan ? (plan->follows ? sizeof(struct weir__follower) : 0) + plan->ticker_size : 0;
}

static void
init_parts(struct weir__timer *timer, char *behind, const struct weir__timer_plan *plan)
{
        if (plan->follows) {
                *(struct weir__follower *)behind = (struct weir__follower){
                        .ops = &weir__timer_follower_ops, .node = &timer->node, .clock = plan->clock, .target = plan->target};
                behind += sizeof(struct weir__follower);
        }
        if (plan->ticker)
                memcpy(behind, plan->ticker, plan->ticker_size);
}

static inline weir_task *
make(const struct weir__timer_ops *ops, const struct weir__timer_plan *plan, weir_nsec after, weir_task_fn *done, void *context)
{
        size_t size = sizeof(struct weir__timer) + size_of(plan);
        struct weir__timer *timer = weir__alloc(size);

        if (!timer)
                return NULL;
        init(timer, ops, size, after, done, context);
        if (plan)
                init_parts(timer, (char *)(timer + 1), plan);
        return &timer->task;
}

weir_task *
weir__timer_wrong(int fault, weir_task_fn *done, void *context)
{
        weir_task *task = weir_timer_new(0, done, context);

        if (task) {
                task->status = fault;
                task->flags |= WEIR__TASK_WRONG;
        }
        return task;
}

static inline weir_task *
make_named(const struct weir__timer_ops *ops, const char *name, const struct weir__timer_plan *plan, weir_nsec after,
           weir_task_fn *done, void *context)
{
        struct weir__name_key key;
        int fault = weir__name_read(name, &key);

        if (fault)
                return weir__timer_wrong(fault, done, context);
        size_t before = weir__named_timer_size(key.size), size = before + size_of(plan);
        struct weir__named_timer *named = weir__alloc(size);
        if (!named)
                return NULL;
        init(&named->timer, ops, size, after, done, context);
        named->name.size = (uint16_t)key.size; /* what is behind it is found by this, also in a forked child */
        if (plan)
                init_parts(&named->timer, (char *)named + before, plan);
        if (weir__phase_is_forked() || weir__names_add(&weir__timer_names, &named->name, &key))
                return &named->timer.task;
        weir__free(named, size);
        return NULL;
}

weir_task *
weir_timer_new(weir_nsec after, weir_task_fn *done, void *context)
{
        return make(&timer_ops[false][false], NULL, after, done, context);
}

weir_task *
weir_timer_new_named(const char *name, weir_nsec after, weir_task_fn *done, void *context)
{
        return make_named(&timer_ops[false][true], name, NULL, after, done, context);
}

weir_task *
weir__timer_make(const struct weir__timer_plan *plan, weir_nsec after, weir_task_fn *done, void *context)
{
        const struct weir__timer_ops *ops = &(plan->ticks ? plan->ticks : timer_ops)[plan->follows][plan->name != NULL];

        return plan->name ? make_named(ops, plan->name, plan, after, done, context) : make(ops, plan, after, done, context);
}

int
weir_timer_set_slack(weir_task *task, weir_nsec slack)
{
        struct weir__timer *timer = weir__timer_of_task(task);

        if (weir__phase_is_forked())
                return -ECHILD;
        if (!task || slack < 0 || (timer && task->flags & WEIR__TASK_CONSUMED))
                return -EINVAL;
        if (!timer)
                return -EDOM;
        task->slack = weir__clock_slack(slack);
        return 0;
}
