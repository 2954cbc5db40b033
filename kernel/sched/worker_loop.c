/* kernel/sched/worker_loop.c: the loop of a worker.
 *
 * Threads: the worker's own.  kernel/worker/worker_pool.c has the rest of its life.
 *
 *     own the poller -> [ run ready work, a batch, then of the bulk and of the demoted -> take the inbox -> begin the next round,
 *                         with pushed work items and due deadlines, if this one is over -> poll ] ... -> exiting -> let go
 *                            \--lost in a callback--> finish that task, without a poller -> idle
 *
 * Callbacks of tasks run here or on the executor, one after another, to completion.  What they finish, cancel or start runs when
 * they have returned: from the ready list, the bulk list, the inbox of another poller, or a deadline queue.  So neither a series
 * of ten million tasks nor a cancel of a million timers deepens the stack.  The worker looks at inbox, deadlines and sockets
 * within every WEIR__BATCH work items, so a flood of ready work starves none of them.
 *
 * A poller that changes hands may have more work items that block: for instance, 64 timers expire together and each waits for a
 * database.  So the ready items that will call the same function are demoted: they run behind all other ready work.  After a
 * callback that blocked, the poller is degraded: one demoted item runs in each pass of the loop, and the watchdog retakes the
 * poller much sooner. */
#include "kernel/sched/worker_loop.h"

#include <errno.h>
#include <stdio.h>

#include "kernel/worker/blocked.h"
#include "kernel/worker/blocking.h"
#include "kernel/base/clock.h"
#include "kernel/base/thread.h"
#include "kernel/worker/thread_set.h"
#include "kernel/worker/worker_pool.h"
#include "kernel/base/panic.h"
#include "kernel/base/phase.h"
#include "kernel/loop/pollers.h"
#include "kernel/sched/poll.h"
#include "kernel/memory/memory.h"
#include "kernel/memory/piece.h"
#include "kernel/sched/progress.h"
#include "kernel/sched/share.h"
#include "kernel/worker/user.h"
#include "kernel/sched/watchdog.h"

/* Work items of a list that are compared with the one that has blocked, when a poller is taken over. */
#define DEMOTED_MOST 4096

/* Runs the work items of one of its lists while there are any, at most *credit of them, and takes them off it.  Returns false
 * when the poller was lost. */
static bool
run_some(struct weir__worker *worker, struct weir__poller *poller, struct weir__work_list *list, unsigned *credit)
{
        struct weir__work *work;

        while (*credit > 0 && (work = weir__work_pop(list))) {
                --*credit;
                if (__builtin_expect(atomic_load_explicit(&poller->ready.is_share_wanted, memory_order_relaxed), 0))
                        weir__share_some(poller);
                if (list != &poller->ready.bulk)
                        weir__ready_note(&poller->ready, -1);
                atomic_store_explicit(&worker->running, work->ops, memory_order_relaxed);
                work->ops->run(work);
                if (worker->poller != poller)
                        return false;
                if (__builtin_expect(poller->ready.has_requeued, 0) && list == &poller->ready.items)
                        break;
        }
        return true;
}

/* Runs what is left of the round; when nothing waits for the next one, also what is added meanwhile. */
static bool
run_items(struct weir__worker *worker, struct weir__poller *poller, unsigned *credit)
{
        struct weir__ready *ready = &poller->ready;
        if (__builtin_expect(!ready->round_left, 1))
                return run_some(worker, poller, &ready->items, credit);
        unsigned most = ready->round_left < *credit ? ready->round_left : *credit, left = most;
        bool owns = run_some(worker, poller, &ready->items, &left);
        *credit -= most - left;
        if (owns)
                ready->round_left -= most - left;
        return owns;
}

static bool
is_degraded(const struct weir__poller *poller)
{
        return atomic_load_explicit(&poller->watch.is_degraded, memory_order_relaxed);
}

/* What was ready when the poller was taken over, when all else has had its turn. */
static bool
run_demoted(struct weir__worker *worker, struct weir__poller *poller)
{
        unsigned credit = is_degraded(poller) ? 1 : WEIR__BATCH;

        return run_some(worker, poller, &poller->ready.demoted, &credit);
}

/* After a batch; `is_behind`: it ran a whole batch and left work behind. */
static void
share_backlog(struct weir__poller *poller, bool is_behind)
{
        weir_nsec before = poller->ready.behind_since;

        poller->ready.behind_since = is_behind ? weir__clock_monotonic() : 0;
        if (is_behind && before)
                weir__share_backlog(poller, poller->ready.behind_since, (poller->ready.behind_since - before) / WEIR__BATCH);
}

/* Due deadlines do not wait for the end of such a round. */
static bool
is_round_long(const struct weir__poller *poller)
{
        return poller->ready.round_left > WEIR__TIMERQ_BATCH;
}

/* Returns false when the log function of the program has blocked, and the poller was lost. */
static bool
log_notices(struct weir__worker *worker, const struct weir__poller *poller)
{
        if (__builtin_expect(atomic_load_explicit(&weir__blocked_has_notice, memory_order_relaxed), 0))
                weir__blocked_log_notices();
        return worker->poller == poller;
}

static void
loop(struct weir__worker *worker, struct weir__poller *poller)
{
        unsigned credit = WEIR__BATCH, bulk_credit = is_degraded(poller) ? 1 : WEIR__BATCH;

        while (run_items(worker, poller, &credit) && run_some(worker, poller, &poller->ready.bulk, &bulk_credit)) {
                if (__builtin_expect(poller->ready.demoted.first != NULL, 0) && !run_demoted(worker, poller))
                        return;
                weir__poller_take_inbox(poller);
                weir_nsec now = 0;
                if (weir__ready_round_is_over(&poller->ready) || (credit == 0 && is_round_long(poller)))
                        weir__poller_admit(poller, now = weir__clock_now());
                if (credit == 0 || !weir__ready_is_busy(&poller->ready)) /* what was given must not wait until somebody is idle */
                        weir__share_take(poller);
                if (poller->ready.items.first && credit > 0 && !poller->ready.has_requeued)
                        continue;
                share_backlog(poller, poller->ready.items.first && credit == 0);
                if (!log_notices(worker, poller))
                        return;
                if (!weir__ready_is_busy(&poller->ready)) {
                        if (poller->is_exiting)
                                return;
                        if (weir__phase_is_stopping())
                                weir__progress_notify();
                }
                weir__poll(poller, now);
                poller->ready.has_requeued = false;
                credit = WEIR__BATCH;
                bulk_credit = is_degraded(poller) ? 1 : WEIR__BATCH;
        }
}

/* Gives the poller up at the end of the runtime.  Its sources are destroyed first. */
static void
let_go(struct weir__worker *worker, struct weir__poller *poller)
{
        weir__sources_destroy(poller);
        while (weir__ready_is_busy(&poller->ready)) {
                unsigned credit = WEIR__BATCH;

                weir__work_concat(&poller->ready.items, &poller->ready.pushed);
                if (run_some(worker, poller, &poller->ready.items, &credit) &&
                    run_some(worker, poller, &poller->ready.bulk, &credit))
                        run_some(worker, poller, &poller->ready.demoted, &credit);
        }
        atomic_store_explicit(&poller->owner, 0, memory_order_release);
}

/* Moves work items of a list to `demoted`: those that will call the function that blocked, or a function that is not known.  Work
 * items beyond the most that are looked at stay: some must not be overtaken.  Returns how many were moved. */
static unsigned
demote(struct weir__work_list *list, weir__function *blocked, struct weir__work_list *demoted)
{
        struct weir__work_list trusted = {0};
        unsigned count = 0;

        for (unsigned i = 0; i < DEMOTED_MOST && list->first; i++) {
                struct weir__work *work = weir__work_pop(list);
                weir__function *function = work->ops->function ? work->ops->function(work) : NULL;
                bool is_trusted = function ? function != blocked : !work->ops->kind;

                weir__work_append(is_trusted ? &trusted : demoted, work);
                count += !is_trusted;
        }
        weir__work_concat(&trusted, list);
        *list = trusted;
        return count;
}

/* The worker owns a poller that another worker has had. */
static void
take_over(struct weir__poller *poller, enum weir__call call, weir__function *blocked)
{
        weir__poller_take_inbox(poller);
        weir__poller_expire(poller, weir__clock_now(), WEIR__TIMERQ_BATCH); /* what expires together is demoted together */
        demote(&poller->ready.items, blocked, &poller->ready.demoted);
        poller->ready.pushed_count -= demote(&poller->ready.pushed, blocked, &poller->ready.demoted);
        poller->ready.round_left = 0;
        poller->ready.behind_since = 0;
        if (call == WEIR__CALL_TAKEN) {
                atomic_store_explicit(&poller->watch.degraded_until, weir__clock_monotonic() + WEIR__DEGRADED_PERIOD,
                                      memory_order_relaxed);
                atomic_store_explicit(&poller->watch.is_degraded, true, memory_order_relaxed);
        }
}

static void
take_over_traced(struct weir__worker *worker, struct weir__poller *poller, enum weir__call call)
{
        static const struct weir__trace_facts facts = {.kind = "takes over"};
        struct weir__trace_slice slice;

        weir__trace_begin(&slice, NULL, NULL);
        slice.from = worker->lost_at;
        take_over(poller, call, worker->blocked);
        if (slice.session)
                weir__trace_end(&slice, &facts, NULL);
}

void *
weir__worker_loop(void *argument)
{
        struct weir__worker *worker = argument;
        enum weir__call call;
        char name[16];

        weir__worker_current = worker;
        atomic_store_explicit(&worker->track, weir__trace_track(), memory_order_relaxed);
        pthread_cleanup_push(weir__user_ends_thread, NULL);
        snprintf(name, sizeof name, "weir/%u", worker->number);
        pthread_setname_np(pthread_self(), name);
        for (call = weir__worker_pool_wait(worker); call != WEIR__CALL_LEAVE; call = weir__worker_pool_wait_idle(worker)) {
                struct weir__poller *poller = worker->poller;

                weir__thread_keep_on_cpu(poller->index);
                if (call != WEIR__CALL_START) {
                        weir__watchdog_take_over(poller);
                        take_over_traced(worker, poller, call);
                        if (log_notices(worker, poller)) /* not behind the poll, which may last */
                                weir__poll(poller, 0);
                } else {
                        weir__watchdog_pass(poller);
                }
                if (worker->poller)
                        loop(worker, poller);
                if (worker->poller)
                        let_go(worker, poller);
                worker->poller = NULL;
                weir__thread_release_cpu();
                weir__memory_release_cache();
                weir__piece_release();
                if (worker->has_given)
                        weir__blocking_count(-1);
                worker->has_given = false;
        }
        pthread_cleanup_pop(false);
        weir__thread_set_exit(worker);
        return NULL;
}
